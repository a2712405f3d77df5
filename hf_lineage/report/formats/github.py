"""Output of the GitHub Action to the runner about a report, as JSON: outputs of its step, annotation and summary."""

from __future__ import annotations

from hf_lineage.checking import Report
from hf_lineage.errors import printable
from hf_lineage.evidence import Word
from hf_lineage.report.findings import state_first, state_outcome
from hf_lineage.report.formats import markdown
from hf_lineage.report.words import encode, wording


def render(report: Report, explain: bool = False) -> str:
    """Return the values as a JSON object; `explain` adds nothing, because a summary is short."""
    del explain
    told = (*state_first(report), *map(state_outcome, report.rows))
    message = "; ".join(told) or wording.NOTHING_DECLARED
    return encode(
        {
            "exit_code": int(report.exit_code),
            "unaccepted": int(report.unaccepted),
            "unmet": report.unmet,
            "undeclared_parent": report.counted,
            "fail_on": report.policy and report.policy.fail_on,
            "title": f"Lineage of {printable(report.model, 200)}",
            "message": printable(message),
            "summary": markdown.render(report),
            "outputs": _outputs(report),
        }
    )


def _outputs(report: Report) -> dict[str, str]:
    """Return the outputs of the claim that decides: the first of the worst."""
    row = report.worst
    best = None if row is None else wording.best(row)
    p_value = None if row is None else wording.p_value(row)
    return {
        "verdict": str(report.code.word),
        "code": report.code,
        "verified": "true" if report.code.word is Word.VERIFIED else "false",
        "score": "" if best is None else f"{best.comparison.score:.4g}",
        "p-value": "" if p_value is None else f"{p_value:.4g}",
    }
