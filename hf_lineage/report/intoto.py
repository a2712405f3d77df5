"""A report as an in-toto Statement v1 to be signed; docs/attestation/v5 describes its predicate."""

from __future__ import annotations

from typing import Any

from hf_lineage.checking.report import Report
from hf_lineage.checkpoint.weight_files import weight_files
from hf_lineage.errors import NothingToCompare, printable
from hf_lineage.hub.repo import RepoRef
from hf_lineage.report.command import public
from hf_lineage.report.findings import state_all
from hf_lineage.report.json import encode, publish_report

PREDICATE_TYPE = "https://github.com/hf-lineage/hf-lineage/tree/main/docs/attestation/v5"


def render(report: Report, _explain: bool = False) -> str:
    """Return the unsigned statement; NothingToCompare for what has no files of weights."""
    types = {"_type": "https://in-toto.io/Statement/v1", "subject": subjects(report), "predicateType": PREDICATE_TYPE}
    return encode(types | {"predicate": publish_report(report)})


def subjects(report: Report) -> list[dict[str, Any]]:
    """Return the files that hold the weights, as resource descriptors of in-toto; raise as `render` does."""
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
    lines = [f"# {printable(one)}.".replace(" ", "\N{NO-BREAK SPACE}") for one in state_all(public(report))]
    lines += (f"{subject['digest']['sha256']}  {subject['name']}" for subject in subjects(report))
    return "".join(f"{line}\n" for line in lines)


def _repository(report: Report) -> RepoRef:
    if report.source is None:
        raise NothingToCompare(
            f"{printable(report.model, 200)} is a stored signature, but a statement is about files; name the model"
        )
    return report.source
