"""A report as a CycloneDX 1.6 bill of materials: ancestors that the weights confirm, claims as properties."""

import uuid
from collections.abc import Iterator, Mapping
from decimal import ROUND_DOWN, Decimal
from json import loads
from pathlib import PurePath
from typing import Any

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType, Pedigree
from cyclonedx.model.component_evidence import AnalysisTechnique, ComponentEvidence, Identity, IdentityField, Method
from cyclonedx.model.license import DisjunctiveLicense, LicenseAcknowledgement
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.spdx import fixup_id
from packageurl import PackageURL

from hf_lineage import __version__
from hf_lineage.checking.report import Report
from hf_lineage.checking.result import ClaimResult
from hf_lineage.errors import printable
from hf_lineage.hub.repo import hub_name
from hf_lineage.options import moment
from hf_lineage.report import wording
from hf_lineage.report.findings import describe_claim, describe_report, state_outcome
from hf_lineage.report.json import digests, encode

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/hf-lineage/hf-lineage")


def render(report: Report, _explain: bool = False) -> str:
    """Return the bill of materials as JSON; `explain` adds nothing. The time in it is what SOURCE_DATE_EPOCH says."""
    model = _model(report)
    settings = ",".join(f"{entry.name}={entry.value}" for entry in model.properties)
    tool = Component(name="hf-lineage", version=__version__, type=ComponentType.APPLICATION, bom_ref="hf-lineage")
    metadata = BomMetaData(component=model, tools=[], timestamp=moment(report.checked_at))
    metadata.tools.components.add(tool)
    bom = Bom(metadata=metadata, serial_number=uuid.uuid5(NAMESPACE, f"{report.model},{report.commit},{settings}"))
    document = loads(JsonV1Dot6(bom).output_as_string())
    order = [_reference(f"base {row.claim.base}") for row in ancestors(report)]  # the library sorts them by name
    pedigree = document["metadata"]["component"].get("pedigree", {})
    pedigree.get("ancestors", []).sort(key=lambda component: order.index(component["bom-ref"]))
    return encode(document)


def _model(report: Report) -> Component:
    remote = report.source.remote if report.source else None
    # What may be none of the Hub is called by its folder.
    name = report.source.folder.resolve().name if report.source and not remote else report.model
    component = _component(hub_name(report.model) or name, remote, report.commit, "model", report.licence)
    component.properties.update(_properties(report))
    for part in ("", *report.parts):
        one = _component(part, None, None, f"part {part}") if part else component
        if verified := [_ancestor(row, part) for row in ancestors(report, part)]:
            one.pedigree = Pedigree(ancestors=verified, notes=wording.MEANING)
        if part:
            component.components.add(one)
    component.components.update(_files("", digests(report.source)))
    return component


def _ancestor(row: ClaimResult, part: str) -> Component:
    """Return a base, identified by the weights at the level, 1 - p, at which the test rejects independence."""
    hub, about = hub_name(row.claim.base), f"base {row.claim.base} {part}".rstrip()
    name = hub or PurePath(row.claim.base).name or row.claim.base
    component = _component(name, hub if row.base_commit else None, row.base_commit, about, row.licence)
    component.components.update(_files(f"{about} ", digests(row.base_folder)))
    if (p_value := wording.p_value(row)) is not None:
        level = (1 - Decimal(f"{p_value:.6g}")).quantize(Decimal("0.0001"), ROUND_DOWN).normalize()
        method = Method(technique=AnalysisTechnique.BINARY_ANALYSIS, confidence=level, value=state_outcome(row))
        identity = Identity(field=IdentityField.NAME, confidence=level, methods=[method])
        component.evidence = ComponentEvidence(identity=[identity])
    return component


def _reference(ref: str) -> str:
    return str(uuid.uuid5(NAMESPACE, printable(ref, 1000)))


def _component(text: str, name: str | None, commit: str | None, ref: str, licence: str = "") -> Component:
    """Return a model, with a package URL where it has a name on the Hub, and its licence by the SPDX identifier."""
    group, _, short = printable(name or text, 200).rpartition("/")
    known, declared = fixup_id(licence) if licence else None, LicenseAcknowledgement.DECLARED
    name_of = None if known else licence
    licences = [DisjunctiveLicense(id=known, name=name_of, acknowledgement=declared)] if licence else []
    return Component(
        type=ComponentType.MACHINE_LEARNING_MODEL,
        bom_ref=_reference(ref),
        group=group or None,
        name=short,
        version=commit,
        purl=PackageURL("huggingface", group or None, short, commit) if name else None,
        licenses=licences,
    )


def _properties(report: Report) -> Iterator[Property]:
    facts: list[tuple[str, Any]] = [("settings", wording.settings(report))]
    facts += (("conflict", printable(conflict)) for conflict in report.conflicts)
    facts += (("note", printable(note)) for note in report.notes)
    facts += ((maker.name, "; ".join(finding.statements)) for maker, finding in describe_report(report))
    for number, row in enumerate(report.rows):
        best, p_value, comparison = wording.best(row), wording.p_value(row), row.verdict.unit_comparison
        verdict = row.verdict
        marks = {"verified": verdict.verified, "executed": verdict.is_executed, "strict": verdict.is_strict}
        of_claim = {
            "base": printable(row.claim.base, 200),
            "base-commit": row.base_commit,
            "base-files": ", ".join(f"{file} sha256:{sha256}" for file, sha256 in digests(row.base_folder).items()),
            "relation": row.claim.relation,
            "declared-in": ", ".join(row.claim.sources),
            "verdict": row.verdict.word,
            "code": row.verdict.code,
            **{name: "true" if holds else "false" for name, holds in marks.items()},
            "reason": printable(row.verdict.reason),
            "score": None if best is None else f"{best.comparison.score:.4g}",
            "inherited": wording.share(best) if best else comparison and wording.print_share(comparison),
            "p-value": None if p_value is None else f"{p_value:.4g}",
            **{maker.name: "; ".join(finding.statements) for maker, finding in describe_claim(report, row)},
        }
        facts += ((f"claim:{number}:{name}", value) for name, value in of_claim.items())
    yield from (Property(name=f"hf-lineage:{name}", value=value) for name, value in facts if value)


def ancestors(report: Report, part: str = "") -> list[ClaimResult]:
    """Return a row for each verified base of the model, or of a part, the nearest first.

    CycloneDX does not say in which order ancestors stand; who reads them (Trustify) takes the last as the upstream of
    all. So the base of a merge, from which its parents come as well, is the last.
    """
    verified: dict[str, ClaimResult] = {}
    for row in report.rows:
        if row.verdict.verified and (row.part == part or not report.parts):
            verified.setdefault(row.claim.base, row)

    def distance(row: ClaimResult) -> tuple[bool, float, float]:
        best, share = wording.best(row), wording.inherited_share(row)
        is_base = row.parent is not None and row.parent.is_base
        return is_base, -(share or 0.0), -(best.comparison.score if best else 0.0)

    return sorted(verified.values(), key=distance)


def _files(of: str, files: Mapping[str, str]) -> Iterator[Component]:
    for file, sha256 in files.items():
        digest = HashType(alg=HashAlgorithm.SHA_256, content=sha256)
        ref = str(uuid.uuid5(NAMESPACE, f"{of}file {file}"))
        yield Component(type=ComponentType.FILE, name=file, bom_ref=ref, hashes=[digest])
