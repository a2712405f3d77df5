"""The section of a model card with the verdict of each claim; untrusted names are escaped."""

from __future__ import annotations

from collections.abc import Iterator

from hf_lineage.report.findings import merge
from hf_lineage.report.formats import markdown_table, paragraph
from hf_lineage.report.record import HERE, Record, RecordedClaim
from hf_lineage.report.words import wording

COLUMNS = ("Base", "Relation (as declared)", "Verdict", "Score", "Inherited", "p-value", "Commit of the base")
SHARES = ("Parent of the merge", "Path", "Share", "By its recipe")
UNDECLARED = "blend"
"""The finding of a parent that the model does not name, which is recorded where there is one."""
SHARES_MEAN = (
    "`hf-lineage check` measures merge contributions if it checks all parents at once, without `--base`; they do not "
    "change the verdict."
)
NONE = "–"
INHERITED = (
    "*Inherited* is the share of what the model's hidden units write that has a counterpart in the base. A base is "
    "VERIFIED if more than {:.0%} is inherited, by an exact test."
)
NO_MORE = "UNRELATED says only that the two models could be independent by their weights."


def render(record: Record) -> str:
    """Return a record as Markdown."""
    return "\n\n".join(_blocks(record))


def _blocks(record: Record) -> Iterator[str]:
    yield "## Lineage"
    if undeclared := record.findings.get(UNDECLARED):
        yield from map(paragraph, undeclared.sentences)
    yield markdown_table(COLUMNS, map(_cells, record.claims))
    if any(claim.parent for claim in record.claims):
        yield markdown_table(SHARES, (cells for claim in record.claims for cells in _shares(claim)))
        yield SHARES_MEAN
    for claim in record.claims:
        if claim.reason:
            yield paragraph(f"{claim.base}: {claim.reason.removeprefix(f'{claim.base}: ')}")
    for claim in record.claims:
        if claim.strict:
            yield paragraph(f"{claim.base}: {claim.strict.sentence}")
    yield markdown_table(("Checked", ""), _settings(record))
    yield "\n".join(("Check it yourself:", "", "```console", *(f"$ {claim.command}" for claim in record.claims), "```"))
    inherited = INHERITED.format(max((claim.test.min_share for claim in record.claims), default=0.5))
    yield f"{inherited} {wording.MEANING} {NO_MORE}"


def figures(score: float | None, p_value: float | None) -> tuple[str, str]:
    """Return score and p-value as text, a dash for None."""
    return NONE if score is None else f"{score:.3f}", NONE if p_value is None else f"{p_value:.3g}"


def share(inherited: float | None) -> str:
    """Return the inherited share as text, a dash for None."""
    return NONE if inherited is None else f"{inherited:.0%}"


def _cells(claim: RecordedClaim) -> tuple[str, ...]:
    score, p_value = figures(claim.score, claim.p_value_adjusted)
    return (
        claim.base,
        claim.relation or NONE,
        claim.label,
        score,
        share(claim.inherited.share if claim.inherited else None),
        p_value,
        claim.base_commit or NONE,
    )


def _shares(claim: RecordedClaim) -> Iterator[tuple[str, ...]]:
    """Yield the shares of one parent in a merge: a line for each path, or one that says why none was measured."""
    parent = claim.parent
    if parent is None:
        return
    if parent.reason:
        yield claim.base, NONE, f"not measured: {parent.reason}", NONE
    for path, share in parent.shares.items():
        recipe = merge.figure(share.declared) if share.declared is not None else NONE
        yield (
            claim.base,
            path,
            merge.describe_share(parent.is_base, share.share, share).rstrip(","),
            "base" if parent.is_base else recipe,
        )


def _settings(record: Record) -> Iterator[tuple[str, str]]:
    if record.model != HERE:
        yield "Model", record.model
        yield "Commit of the model", record.commit or NONE
    yield "Recipe", next(map(_recipe, record.claims), NONE)
    yield "Version", f"{record.tool.name} {record.tool.version}"
    yield "Date", next((claim.date.isoformat() for claim in record.claims), NONE)


def _recipe(claim: RecordedClaim) -> str:
    probes = "exact" if claim.recipe.probes is None else f"{claim.recipe.probes} probes"
    paths = ", ".join(claim.evidence) or NONE
    test = f"{claim.test.permutations} permutations (seed {claim.test.seed}), alpha {claim.test.alpha:g}"
    return f"{claim.recipe.option}, {probes}, paths: {paths}; {test}"
