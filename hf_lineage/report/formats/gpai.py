"""A report as entries for the Model Documentation Form of the EU's Code of Practice for general-purpose AI.

Only those fields are filled in that weights and cards can show: the name, the authenticity, the dependencies and the
licence. Names and order are those of the form in the Transparency Chapter of 10 July 2025.
"""

from __future__ import annotations

from collections.abc import Iterator

from hf_lineage import __version__
from hf_lineage.checking import Report
from hf_lineage.checking.results import Row, moment, stamp
from hf_lineage.report.findings import state_all, state_outcome
from hf_lineage.report.formats.markdown import escaped, markdown_table
from hf_lineage.report.formats.materials import ancestors, digests
from hf_lineage.report.words import wording

FORM = "https://digital-strategy.ec.europa.eu/en/policies/ai-code-practice"
INTRODUCTION = (
    "Entries for the [Model Documentation Form]({form}), as far as the weights and the cards show them. Whoever "
    "fills in the form decides. They do not say whether a model was placed on the market or what a licence allows."
)
NO_DEPENDENCY = (
    "The weights confirm no dependency. That is not a reason to write N/A: N/A is for a model that was not made from "
    "another one, and only its provider knows that."
)
UNSTATED = "none stated"
"""What stands for a licence that a card does not state."""
NO_FILES = "No weight file was read, so there is no hash."


def render(report: Report, explain: bool = False) -> str:
    """Return the entries; `explain` adds nothing. The day is that of the check, or what SOURCE_DATE_EPOCH says."""
    del explain
    day = stamp(moment(report.checked_at)).partition("T")[0]
    by = f"Checked on {day} by hf-lineage {__version__}."
    blocks = (
        "### Model Documentation Form",
        INTRODUCTION.format(form=FORM),
        "#### Model name",
        escaped(report.model) + (f", commit {escaped(report.commit)}" if report.commit else ""),
        "#### Model authenticity",
        *_authenticity(report),
        "#### Model dependencies",
        *_dependencies(report),
        "#### License",
        *_licences(report),
        *_findings(report),
        f"<sub>{escaped(f'{by} {wording.settings(report)} {wording.MEANING}')}</sub>",
    )
    return "\n\n".join(blocks) + "\n"


def _authenticity(report: Report) -> Iterator[str]:
    """The digests of the files that hold the weights."""
    files = digests(report.source)
    yield markdown_table(("File", "SHA-256"), files.items()) if files else NO_FILES


def _dependencies(report: Report) -> Iterator[str]:
    """The bases that the weights confirm, then those that are declared and not verified."""
    verified = ancestors(report)
    if verified:
        yield "\n".join(_entry(row) for row in verified)
    else:
        yield NO_DEPENDENCY
    files = [(row.claim.base, *entry) for row in verified for entry in digests(row.base_folder).items()]
    if files:
        yield markdown_table(("Base", "File", "SHA-256"), files)
    if others := [row for row in report.rows if not row.verdict.verified]:
        yield "Declared, and not verified:"
        yield "\n".join(f"- {escaped(state_outcome(row))}" for row in others)


def _entry(row: Row) -> str:
    version = f", commit {escaped(row.base_commit)}" if row.base_commit else ""
    relation = f" by the relation {escaped(row.claim.relation)}" if row.claim.relation else ""
    declared = f"declared{relation} in {escaped(', '.join(row.claim.sources))}"
    return f"- **{escaped(row.claim.base)}**{version}: {declared}; {escaped(state_outcome(row))}"


def _licences(report: Report) -> Iterator[str]:
    """What the cards of the model and of its verified bases state."""
    stated = [(report.model, report.licence), *((row.claim.base, row.licence) for row in ancestors(report))]
    yield markdown_table(
        ("Model", "License, as its card states it"), [(name, str(one or UNSTATED)) for name, one in stated]
    )


def _findings(report: Report) -> Iterator[str]:
    """Further findings, which the form has no field for."""
    if statements := list(state_all(report)):
        yield "#### Further findings"
        yield "\n".join(f"- {escaped(statement)}." for statement in statements)
