"""A report for machines: one JSON object that `schema.json` describes, also the record beside a card.

An in-toto Statement v1 has it as its predicate, to be signed; docs/attestation/v5 describes that.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from json import dumps, loads
from pathlib import Path
from typing import Any

import msgspec

from hf_lineage import __version__
from hf_lineage.checking.report import Report
from hf_lineage.checking.result import ClaimResult, Finding
from hf_lineage.checkpoint.weight_files import weight_files
from hf_lineage.errors import NothingToCompare, printable
from hf_lineage.evidence.inherited import InheritedShare
from hf_lineage.evidence.verdict import Code, Evidence, Verdict, Word
from hf_lineage.hub.repo import RepoRef
from hf_lineage.options import moment, stamp
from hf_lineage.report import command, verdicts, wording
from hf_lineage.report.findings import OF_CLAIM, OF_REPORT, Maker, describe_claim, describe_report, state_all

SCHEMA_VERSION = 5  # raised when a key changes its meaning or goes away; new keys may come at any time
TAKEN = ("alpha", "permutations", "seed", "min_share", "paths", "budget", "strict", "subfolder", "as_class")
"""Options on which verdicts depend; `check --verify` takes them from a report."""
AGAIN = {"allow_pickle": "--allow-pickle", "run": "--run", "registry": "--as", "nulls": "--null", "file": "--file"}
"""Options that read other files or run something, and how they are typed: whoever verifies has to give them again."""
OF_THIS_RUN: Mapping[str, Any] = {"checked_at": None, "traffic": {}, "relation_seen": None}
"""The values in what is published of keys in which equal checks differ: by the time, and by what a cache holds."""
SCHEMA = Path(__file__).with_name("schema.json")
RECORD = "lineage/claims.json"  # the JSON report beside a model card
PREDICATE_TYPE = "https://github.com/hf-lineage/hf-lineage/tree/main/docs/attestation/v5"


_MARKUP = {ord(c): f"\\u{ord(c):04x}" for c in "<>&#"}


def encode(document: Any) -> str:
    """Return plain values as indented JSON in ASCII, in which markup and what a CI runner obeys (`##[`) are escaped."""
    return dumps(document, indent=2, allow_nan=False).translate(_MARKUP) + "\n"


def indent_json(document: Any) -> str:
    """Return structs or plain values as indented JSON, letters as they are: names in it must be printable already."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def render(report: Report, _explain: bool = False) -> str:
    """Return the report as JSON; `explain` adds nothing, every number is there anyway."""
    return encode(document(report))


def publish_report(report: Report) -> dict[str, Any]:
    """Return the report as it is stored beside a card or signed: the same for equal checks, with no private path."""
    rows = []
    for row in report.rows:
        origin = row.base_origin
        if row.base_folder and origin:
            row = replace(row, base_origin=replace(origin, files=digests(row.base_folder)))
        rows.append(row)
    there = replace(report, rows=tuple(rows), options=replace(report.options, local_hub=None))
    content: dict[str, Any] = command.publish(report, _of_no_run(document(there, command.spelling_in_folder(report))))
    return content


def digests(repo: RepoRef | None) -> dict[str, str]:
    """Return each file that holds weights with its SHA-256, which pins a folder as a commit pins a model."""
    if repo is None:
        return {}
    try:
        return {printable(file, 200): repo.sha256(file) for file in sorted(weight_files(repo))}
    except NothingToCompare:
        return {}


def _of_no_run(value: Any) -> Any:
    """Return plain values without those of one run; numbers from the cache count as those of the weights."""
    if isinstance(value, dict):
        values = {key: OF_THIS_RUN.get(key, _of_no_run(item)) for key, item in value.items()}
        return values | {"kind": "weights"} if values.get("kind") == "cache" else values
    return [_of_no_run(item) for item in value] if isinstance(value, list) else value


def document(report: Report, write: command.Write = command.spell_name) -> dict[str, Any]:
    """Return the report as plain values; `write` writes names and paths in commands."""
    options, declared = report.options, []
    for claim in report.declared:
        declared.append({"base": claim.base, "relation": claim.relation, "sources": list(claim.sources)})
    settings = {name: getattr(options, name) for name in TAKEN} | {"paths": [*options.paths]}
    # The advice on the claim that a policy refuses, else on the worst; on what is not declared without one.
    row = next((row for row in report.rows if row.unmet), report.worst)
    of_row = row is not None and row.verdict.code is report.code
    advice = verdicts.advise(report, row) if row and of_row else verdicts.texts()[report.code].next
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "hf-lineage", "version": __version__},
        "checked_at": stamp(moment(report.checked_at)),
        "command": command.of_report(report, write=write),
        "compared": report.command == "compare",
        "model": report.model,
        "commit": report.commit,
        "declared": declared,
        **_outcome(report.code, advice),
        "exit_code": int(report.status),
        "recipe": asdict(options.recipe),
        "settings": settings | {name: bool(getattr(options, name)) for name in AGAIN},
        "conflicts": list(report.conflicts),
        "notes": list(report.notes),
        "license": report.licence or None,
        **_place_findings(OF_REPORT, describe_report(report)),
        "claims": [_claim(report, row) | {"command": command.of_claim(report, row, write)} for row in report.rows],
    }


def _place_findings(makers: Sequence[Maker], described: Iterator[tuple[Maker, Finding]]) -> dict[str, Any]:
    """Return the values of findings that have keys of their own, and all that the others tell under one key."""
    own, others = {maker.key: maker.absent for maker in makers if maker.key}, dict[str, Any]()
    for maker, finding in described:
        if maker.key:
            own[maker.key] = finding.values
        else:
            plain = loads(dumps(asdict(finding), allow_nan=False))
            sentences = plain["sentences"] + plain["details"]
            rest = {key: plain[key] for key in ("tables", "picture", "values")}
            others[maker.name] = {"title": finding.title, "sentences": sentences, **rest}
    return own | {"findings": others}


def _claim(report: Report, row: ClaimResult) -> dict[str, Any]:
    """Return a claim, with score, p and inherited share of what decided it: a path, the units, or a trace (p alone)."""
    best, share = wording.best(row), wording.measured_share(row)
    origins = {"base": row.base_origin, "model": row.model_origin}
    return {
        "base": row.claim.base,
        "base_commit": row.base_commit,
        "model": row.model or report.model,
        "model_commit": row.model_commit if row.model else report.commit,
        "relation": row.claim.relation,
        "part": row.part,
        "sources": list(row.claim.sources),
        **_outcome(row.verdict.code, verdicts.advise(report, row)),
        "exit_code": int(row.verdict.exit_code),
        "reason": row.verdict.reason,
        "score": best and best.comparison.score,
        "p_value_adjusted": wording.p_value(row),
        "inherited": share and _interval(share),
        "layers": row.layers,
        "notes": list(row.notes),
        "base_license": row.licence or None,
        "signatures": {who: origin and asdict(origin) for who, origin in origins.items()},
        "traffic": {name: asdict(downloaded) for name, downloaded in row.traffic.items()},
        "paths": [_path(path, evidence, row.verdict.by_path[path]) for path, evidence in row.verdict.evidence.items()],
        **_place_findings(OF_CLAIM, describe_claim(report, row)),
    }


def _interval(inherited: InheritedShare) -> dict[str, Any]:
    low, high = inherited.interval
    return {"share": inherited.share, "low": low, "high": high}


def _outcome(code: Code, advice: Sequence[str]) -> dict[str, Any]:
    return {"verdict": str(code.word), "code": code, "verified": code.word is Word.VERIFIED, "next": list(advice)}


def _path(path: str, evidence: Evidence, single: Verdict) -> dict[str, Any]:
    permutation, decides, inherited = evidence.permutation, evidence.decided_by, None
    error = evidence.comparison.standard_error
    if evidence.inherited:
        shares = dict(zip(map(str, evidence.layers[1]), map(float, evidence.inherited.by_layer), strict=True))
        origins = {str(layer): origin for layer, origin in evidence.origins.items()}
        inherited = {**_interval(evidence.inherited), "layers": shares, "origins": origins}
    return {
        **{"path": path, "verdict": single.word, "code": single.code, "reason": single.reason},
        "score": evidence.comparison.score,
        "standard_error": error if math.isfinite(error) else None,
        "p_value": permutation.p_value,
        "p_value_adjusted": evidence.p_value,
        "corrections": {"paths": evidence.first.correction, "interim_analyses": "Bonferroni"},
        "analyses": evidence.analyses,
        "further_tests": evidence.further,
        "inherited": inherited,
        "layers_read": evidence.layers_read,
        "sampled": evidence.sampled and asdict(evidence.sampled),
        **_distributions(evidence),
        "nulls": [
            {"name": null.name, "p_value": null.p_value, "decides": null is decides, "objection": null.objection}
            for null in evidence.nulls
        ],
        "layers": [
            {"layer": layer, "paired_with": partner, "cosine": cosine, "s_base": of_base, "s_model": of_model}
            for layer, partner, cosine, _, of_base, of_model in verdicts.layer_rows(evidence)
        ],
    }


def _distributions(evidence: Evidence) -> dict[str, Any]:
    null, empirical = evidence.permutation, evidence.empirical
    scores, undecided = null.scores, evidence.decided_by is None
    spread = {"mean": float(scores.mean()), "standard_deviation": float(scores.std()), "maximum": float(scores.max())}
    tests = {"z": null.z, "p_permutations": null.permuted.p_value, "p_signs": null.flipped.p_value}
    counts = {"permutations": len(scores), "flips": len(null.flipped.scores)}
    of_permutations = {"observed": null.observed, "coordinates": null.coordinates, **spread, **tests, **counts}
    of_models: dict[str, Any] | None = None
    if empirical:
        of_models = {"threshold": empirical.threshold, "p_value": evidence.p_value if undecided else None}
        of_models |= {"source": empirical.source, "scores": dict(empirical.scores)}
    return {"permutation_null": of_permutations, "empirical_null": of_models}


def render_statement(report: Report, _explain: bool = False) -> str:
    """Return the unsigned statement; NothingToCompare for what has no files of weights."""
    types = {"_type": "https://in-toto.io/Statement/v1", "subject": subjects(report), "predicateType": PREDICATE_TYPE}
    return encode(types | {"predicate": publish_report(report)})


def subjects(report: Report) -> list[dict[str, Any]]:
    """Return the files that hold the weights, as resource descriptors of in-toto; raise as `render_statement` does."""
    repo = _repository(report)
    files = sorted(weight_files(repo))
    return [{"name": printable(file, 200), "digest": {"sha256": repo.sha256(file)}} for file in files]


def render_predicate(report: Report, _explain: bool = False) -> str:
    """Return the statement without its subjects, which `actions/attest` takes as predicate."""
    _repository(report)
    return encode(publish_report(report))


def checksums(report: Report, _explain: bool = False) -> str:
    r"""Return the subjects as `sha256sum` prints them, which `actions/attest` takes as subject-checksums.

    The findings stand in comments. They hold no-break spaces alone: `sha256sum -c` passes over what begins with #,
    `actions/attest` over lines without a space (src/subject.ts, getSubjectFromChecksumsString).
    """
    lines = [f"# {printable(one)}.".replace(" ", "\N{NO-BREAK SPACE}") for one in state_all(command.public(report))]
    lines += (f"{subject['digest']['sha256']}  {subject['name']}" for subject in subjects(report))
    return "".join(f"{line}\n" for line in lines)


def _repository(report: Report) -> RepoRef:
    if report.source is None:
        raise NothingToCompare(
            f"{printable(report.model, 200)} is a stored signature, but a statement is about files; name the model"
        )
    return report.source
