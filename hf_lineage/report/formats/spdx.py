"""A report as an SPDX 3.0.1 document in JSON-LD, with the classes of its AI profile, written without any library.

The model is a descendant of the bases that the weights confirm, and of no other; every claim is an annotation. Of a
model of several parts each part is a package by itself, and a descendant of its own bases. The document does not say
that it conforms to the AI profile, which asks when the model was released. Licences are spelled as the SPDX License
List spells them; the Hub writes them in lower case, and what it knows besides (openrail, gemma, llama3, other) is on
no list.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from hf_lineage import __version__
from hf_lineage.checking import Report
from hf_lineage.checking.results import Row, moment, stamp
from hf_lineage.claims import Licence
from hf_lineage.errors import printable
from hf_lineage.hub import hub_name
from hf_lineage.report.findings import state_claim, state_outcome, state_report
from hf_lineage.report.formats.materials import NAMESPACE, ancestors, digests, title
from hf_lineage.report.words import encode, wording

CONTEXT = "https://spdx.org/rdf/3.0.1/spdx-context.jsonld"
VERSION = "3.0.1"
PROFILES = ("core", "software", "simpleLicensing")
INFO = "_:creationinfo"
NOT_CONCLUDED = "expandedlicensing_NoAssertionLicense"
"""Which licence holds in the end: nobody says so here."""
Element = dict[str, Any]


@dataclass(frozen=True)
class _Namespace:
    """The addresses of the elements of one document, which are the same for the same report."""

    document: str

    def __call__(self, name: str) -> str:
        return f"{self.document}#{name}"

    def element(self, kind: str, key: str, /, **values: Any) -> Element:
        """Return an element of a class, without what is empty."""
        given = {key: value for key, value in values.items() if value}
        return {"type": kind, "spdxId": self(key), "creationInfo": INFO} | given


@dataclass(frozen=True)
class _Package:
    """One model: what it is called, and what its card states."""

    key: str
    name: str
    on_hub: str | None
    commit: str | None
    licence: Licence | None


def render(report: Report, explain: bool = False) -> str:
    """Return the document; `explain` adds nothing. It states when the check began, or SOURCE_DATE_EPOCH."""
    del explain
    return encode({"@context": CONTEXT, "@graph": list(_graph(report))})


def _graph(report: Report) -> Iterator[Element]:
    key = uuid.uuid5(NAMESPACE, f"spdx,{report.model},{report.commit},{wording.settings(report)}")
    at = _Namespace(f"https://spdx.org/spdxdocs/hf-lineage-{key}")
    yield {
        "type": "CreationInfo",
        "@id": INFO,
        "specVersion": VERSION,
        "created": stamp(moment(report.checked_at)),
        "createdBy": [at("tool")],
    }
    yield at.element("SoftwareAgent", "tool", name=f"hf-lineage {__version__}")
    elements = list(_elements(report, at))
    inside = [element["spdxId"] for element in elements]
    comment = "\n".join((wording.settings(report), wording.MEANING, *state_report(report), *wording.remarks(report)))
    yield at.element("software_Sbom", "sbom", software_sbomType=["analyzed"], rootElement=[at("model")], element=inside)
    yield from elements
    yield {
        "type": "SpdxDocument",
        "spdxId": at.document,
        "creationInfo": INFO,
        "name": printable(f"Lineage of {report.model}", 300),
        "comment": comment,
        "profileConformance": list(PROFILES),
        "rootElement": [at("sbom")],
    }


def _elements(report: Report, at: _Namespace) -> Iterator[Element]:
    """The model, its files, the bases that the weights confirm, and the findings about each claim."""
    remote = report.source.remote if report.source else None
    shown = title(report)
    yield from _package(at, _Package("model", hub_name(report.model) or shown, remote, report.commit, report.licence))
    yield from _files(at, "model", digests(report.source))
    keys = {"": "model"} | {part: f"part-{number}" for number, part in enumerate(report.parts, start=1)}
    for part in report.parts:
        yield from _package(at, _Package(keys[part], part, None, None, None))
        ends = {"from": at("model"), "to": [at(keys[part])]}
        yield at.element("Relationship", f"{keys[part]}-inside", relationshipType="contains", **ends)
    verified = [(key, row) for part, key in keys.items() for row in ancestors(report, part)]
    bases = {id(row): f"base-{number}" for number, (_, row) in enumerate(verified, start=1)}
    for key, row in verified:
        yield from _ancestor(at, row, bases[id(row)], key)
    for number, row in enumerate(report.rows, start=1):
        subject = at(f"descent-{bases[id(row)]}") if id(row) in bases else at(keys.get(row.part, "model"))
        statements = "".join(f" {sentence}." for sentence in state_claim(report, row))
        statement = f"{state_outcome(row)}. Declared in {', '.join(row.claim.sources)}.{statements}"
        yield at.element(
            "Annotation", f"claim-{number}", annotationType="other", subject=subject, statement=printable(statement)
        )


def _ancestor(at: _Namespace, row: Row, key: str, of: str) -> Iterator[Element]:
    named = hub_name(row.claim.base)
    shown = named or PurePath(row.claim.base).name or row.claim.base
    yield from _package(at, _Package(key, shown, named if row.base_commit else None, row.base_commit, row.licence))
    yield at.element(
        "Relationship",
        f"descent-{key}",
        relationshipType="descendantOf",
        completeness="noAssertion",
        **{"from": at(of), "to": [at(key)]},
        comment=state_outcome(row),
    )
    yield from _files(at, key, digests(row.base_folder))


def _package(at: _Namespace, package: _Package) -> Iterator[Element]:
    """A model, with the licence that its card declares."""
    yield at.element("ai_AIPackage", package.key, name=printable(package.name, 200), **_place(at, package))
    if package.on_hub and "/" in package.on_hub:
        yield at.element("Agent", f"{package.key}-supplier", name=package.on_hub.partition("/")[0])
    if package.licence:
        yield at.element(
            "simplelicensing_LicenseExpression",
            f"{package.key}-licence",
            simplelicensing_licenseExpression=expression(package.licence),
            comment=f"as its card states it: {package.licence}",
        )
    declared = at(f"{package.key}-licence") if package.licence else NOT_CONCLUDED
    for name, kind, to in (
        ("declared", "hasDeclaredLicense", declared),
        ("concluded", "hasConcludedLicense", NOT_CONCLUDED),
    ):
        ends = {"from": at(package.key), "to": [to]}
        yield at.element("Relationship", f"{package.key}-{name}", relationshipType=kind, **ends)


def _place(at: _Namespace, package: _Package) -> Mapping[str, Any]:
    """What a package says of where it is; of a folder on this machine nothing but that it is a model."""
    place: dict[str, Any] = {"software_primaryPurpose": "model", "software_packageVersion": package.commit}
    if package.on_hub:
        name, commit = quote(package.on_hub), quote(package.commit or "main")
        place["software_downloadLocation"] = f"https://huggingface.co/{name}/tree/{commit}"
        place["software_packageUrl"] = f"pkg:huggingface/{name}" + (f"@{commit}" if package.commit else "")
        place |= {"suppliedBy": at(f"{package.key}-supplier")} if "/" in package.on_hub else {}
    return place


def _files(at: _Namespace, package: str, files: Mapping[str, str]) -> Iterator[Element]:
    """The files that hold the weights of a package, none where there are none, with their SHA-256."""
    names = [f"{package}-file-{number}" for number in range(1, len(files) + 1)]
    for name, (file, sha256) in zip(names, files.items(), strict=True):
        digest = {"type": "Hash", "algorithm": "sha256", "hashValue": sha256}
        yield at.element("software_File", name, name=file, verifiedUsing=[digest])
    if names:
        ends = {"from": at(package), "to": list(map(at, names))}
        yield at.element("Relationship", f"{package}-contents", relationshipType="contains", **ends)


LISTED = tuple(Path(__file__).with_name("licence_ids.txt").read_text(encoding="utf-8").split())
"""The names that the Hub knows and the list has."""
SPELLED = {name.lower(): name for name in LISTED} | {"c-uda": "C-UDA-1.0", "odbl": "ODbL-1.0", "pddl": "PDDL-1.0"}
"""By the Hub's identifier. GNU's without `only` or `or later` leave open which is meant, so they are on no list."""


def expression(licence: Licence) -> str:
    """Return the SPDX expression of a licence: its identifier, or a reference of our own to what is on no list."""
    if listed := SPELLED.get(licence.identifier.lower()):
        return listed
    named = licence.name if licence.identifier.lower() in ("", "other") else licence.identifier
    return "LicenseRef-" + (re.sub(r"[^A-Za-z0-9.]+", "-", named or licence.identifier).strip("-.") or "other")
