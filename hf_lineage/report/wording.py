"""Words that all formats share: cells of the table, and sentences below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import NAMED, Bar, ClaimResult
from hf_lineage.errors import printable
from hf_lineage.evidence.comparison import runs
from hf_lineage.evidence.evaluate import spans
from hf_lineage.evidence.inherited import InheritedShare
from hf_lineage.evidence.measure import graft
from hf_lineage.evidence.verdict import Code, Evidence

if TYPE_CHECKING:
    from hf_lineage.evidence import unit_comparison

COLUMNS = ("Declared base", "Relation", "Path", "Score", "Inherited", "p", "Verdict")
FIGURES = COLUMNS[3:6]  # columns of numbers
NOTHING_DECLARED = (
    "Nothing is declared: no base_model in README.md, adapter_config.json or mergekit_config.yml. Name one with --base."
)
MEANING = (
    "A verdict says whether two models share weights by ancestry. It never says who came first, who owns what, or "
    "that anyone did wrong."
)


def came_from(evidence: Evidence) -> Iterator[str]:
    """Yield which layers come from which of the base, unless each comes from the layer of its number."""
    if any(number != origin for number, origin in evidence.origins.items()):
        yield ", ".join(map(str, runs(evidence.origins)))


def columns(report: Report, explain: bool = False) -> tuple[str, ...]:
    """Return the head of the table of claims; `explain` adds relation and path. Bases of the user are not declared."""
    by_user = bool(report.rows) and all(row.claim.sources == NAMED for row in report.rows)
    first = "Model" if any(row.model for row in report.rows) else "Base" if by_user else COLUMNS[0]
    return (first, *(COLUMNS[1:3] if explain else ()), *COLUMNS[3:])


def line(row: ClaimResult) -> tuple[str, ...]:
    """Return the cells of one claim in one line: the figures of what decided, and the verdict."""
    evidence, p, share = best(row), p_value(row), inherited_share(row)
    figures = "-" if share is None else f"{share:.0%}", "-" if p is None else f"{p:.3g}"
    score = f"{evidence.comparison.score:.3f}" if evidence else "-"
    return about(row), score, *figures, row.verdict.label


def rows(report: Report, explain: bool = False) -> list[tuple[str, ...]]:
    """Return the cells of every claim, in one line each; with `explain` in a line for each path."""
    return [one for row in report.rows for one in (cells(row) if explain else [line(row)])]


def cells(row: ClaimResult) -> Iterator[tuple[str, ...]]:
    """Yield the cells of one claim with relation and path: a line for each path, or one where nothing was measured."""
    base, declared = about(row), printable(row.claim.relation or "-", 40)
    if not row.verdict.evidence and not row.verdict.unit_comparison:
        trace = row.verdict.trace
        path, p = ("-", "-") if trace is None else ("adapter", f"{trace.p_value:.3g}")
        yield base, declared, path, "-", "-", p, row.verdict.label
    for number, (path, evidence) in enumerate(row.verdict.evidence.items()):
        words = row.verdict.by_path[path].label
        first = (base, declared) if number == 0 else ("", "")
        score = f"{evidence.comparison.score:.3f}"
        yield *first, path, score, print_share(evidence), f"{evidence.p_value:.3g}", words
    if equal := row.verdict.equal:
        yield "", "", "numbers", "-", f"{equal.share:.0%}", f"{equal.p_value:.3g}", row.verdict.label
    if comparison := row.verdict.unit_comparison:
        first = ("", "") if row.verdict.evidence else (base, declared)
        yield *first, "units", "-", print_share(comparison), order_p(comparison), row.verdict.label


def bar_cells(bar: Bar) -> tuple[str, ...]:
    """Return the cells of one bar of a picture in a table."""
    return bar.label, *(f"{value:.2f}" for value in (bar.value, bar.low, bar.high))


def about(row: ClaimResult) -> str:
    """Return the base of a row, or its model where several are compared with one, and the folder that it is about."""
    return printable(row.model or row.claim.base, 200) + (f" ({printable(row.part, 100)})" if row.part else "")


def print_share(measured: Evidence | unit_comparison.UnitComparison) -> str:
    """Return the share of what the model's units write that is inherited, as it is printed."""
    return "-" if measured.inherited is None else f"{measured.inherited.share:.0%}"


def share(measured: Evidence | unit_comparison.UnitComparison) -> str:
    """Return that share with its 99 % interval, where that is wider than what is printed; empty if not measured."""
    if measured.inherited is None:
        return ""
    low, high = (f"{end:.0%}" for end in measured.inherited.interval)
    return print_share(measured) + ("" if low == high else f" ({low.rstrip('%')}-{high})")


def order_p(comparison: unit_comparison.UnitComparison) -> str:
    """Return the p-value of the order of units, as it is printed; a dash where nothing is tested."""
    return "-" if comparison.p_value is None else f"{comparison.p_value:.3g}"


def p_value(row: ClaimResult) -> float | None:
    """Return the p-value that decided, None where nothing was measured."""
    verdict, evidence = row.verdict, best(row)
    if verdict.trace:
        return verdict.trace.p_value
    if verdict.unit_comparison and verdict.by_units:
        return verdict.unit_comparison.p_value
    by_path = any(single.code is verdict.code for single in verdict.by_path.values())
    if verdict.equal and not (evidence and by_path):
        return verdict.equal.p_value
    return None if evidence is None else evidence.p_value


def best(row: ClaimResult) -> Evidence | None:
    """Return the evidence of the path that decided, None where nothing was measured, or the hidden units decide."""
    path = None if row.verdict.by_units else row.verdict.decisive
    return None if path is None else row.verdict.evidence[path]


def measured_share(row: ClaimResult) -> InheritedShare | None:
    """Return what decided on the share of the model's units that is inherited; None where it was not measured."""
    measured = row.verdict.unit_comparison if row.verdict.by_units else best(row)
    return measured.inherited if measured else None


def inherited_share(row: ClaimResult) -> float | None:
    """Return the share of what the model's units write that is inherited; None where it was not measured."""
    measured = measured_share(row)
    return measured.share if measured else None


def figures(evidence: Evidence) -> str:
    """Return score, share and p-value of one path."""
    inherited = f"{text} inherited, " if (text := share(evidence)) else ""
    return f"score {evidence.comparison.score:.3f}, {inherited}p = {evidence.p_value:.3g}"


def remarks(report: Report) -> Iterator[str]:
    """Yield the sentences that concern what is declared as a whole: files that disagree, and what does not count."""
    yield from (f"Conflicting claims: {printable(conflict)}" for conflict in report.conflicts)
    yield from map(printable, report.notes)


def describe_measures(row: ClaimResult) -> Iterator[str]:
    """Yield what several paths say together, then what is inherited and what scores without ancestry would be."""
    several, evidence = row.verdict.evidence.values(), best(row)
    if len(several) > 1:
        by = "; ".join(sorted({one.first.correction for one in several}))
        verdict = f"{row.verdict.label} over {len(several)} paths"
        yield f"{about(row)}: {verdict}, p-values corrected for all of them ({by})"
    if evidence is None or any(evidence.not_finite):
        return
    start = f"inherited {inherited}; " if (inherited := share(evidence)) else ""
    low, high = evidence.permutation.range
    yield (
        f"{about(row)}: {start}on the test coordinates this pair scores {evidence.permutation.observed:.3f}, and "
        f"independent models of this shape score {low:.3f} to {high:.3f} (by permutation)"
    )
    yield from (f"{about(row)}: {layers} of the base" for layers in came_from(evidence))


def reading(row: ClaimResult) -> Iterator[str]:
    """Yield what was not read in this run, which depths are compared, how much was read, and what was downloaded."""
    for who, origin in (("the base", row.base_origin), ("the model", row.model_origin)):
        start = f"{about(row)}: the signature of {who}"
        if origin and origin.kind == "cache":
            yield (f"{start} was cached on this machine when its weights were read; --no-cache reads the weights again")
        if origin and origin.kind == "file":
            yield f"{start} was given as a file; its weights were not read"
    for path, evidence in row.verdict.evidence.items():
        depths = [len(layers) for layers in evidence.layers]
        if evidence.analyses == 1 and depths[0] != depths[1]:
            yield (
                f"{about(row)}: along {path} the base has {depths[0]} layers and the model "
                f"{depths[1]}; the score counts the {min(depths)} layers that are paired"
            )
    early = [evidence for evidence in row.verdict.evidence.values() if evidence.analyses > 1]
    if row.layers is not None and 0 < max((evidence.layers_read for evidence in early), default=0) < row.layers:
        yield f"{about(row)}: {_decided_early(row, row.layers, early)}; --budget full reads all layers"
    for name, traffic in row.traffic.items():
        yield (
            f"{printable(name, 200)}: {traffic.moved / 1e6:.1f} of {traffic.stored / 1e6:.1f} MB "
            f"({traffic.moved / max(traffic.stored, 1):.1%}) were downloaded, in {traffic.requests} requests"
        )


def _decided_early(row: ClaimResult, depth: int, paths: Sequence[Evidence]) -> str:
    """Return after which layers a verdict was clear, how much of them was read, and what an UNRELATED leaves open."""
    numbers = spans(sorted({number for evidence in paths for number in evidence.layers[1]}))
    read, part = max(evidence.layers_read for evidence in paths), paths[0].sampled
    each, when = "", f"at one of {paths[0].analyses} interim analyses"
    if part is not None:
        each = (
            f", and in each of them {part.units:,} of {part.of_units:,} hidden units on {part.coordinates:,} of "
            f"{part.of_coordinates:,} coordinates at random"
        )
        if part.units == part.of_units:
            when = f"by a sample that can only say UNRELATED, beside {paths[0].analyses} interim analyses"
    least = graft(depth) if row.verdict.code is Code.UNRELATED else 0
    missed = f"; the layers that were not read may hold copies of fewer than {least}" if least else ""
    drawn = f"decided after {read} of {depth} layers ({numbers}), drawn in a random order{each}, {when}"
    return f"{drawn}; p is corrected for them (Bonferroni){missed}"


def reason(row: ClaimResult) -> str:
    """Return why a row is undecided, without the name of the base in front; empty if the evidence speaks for itself."""
    return printable(row.verdict.reason).removeprefix(f"{printable(row.claim.base, 200)}: ")


def settings(report: Report) -> str:
    """Return the recipe and the test in one sentence: what has to be the same for a number to come out again."""
    recipe, options = report.options.recipe, report.options
    probes = "exact" if recipe.probes is None else f"{recipe.probes} probes"
    return (
        f"Recipe {recipe.option}, {probes}; {options.permutations} permutations of at most {recipe.coordinates} "
        f"coordinates; alpha {options.alpha:g}; seed {options.seed}; verified with more than "
        f"{options.min_share:.0%} inherited."
    )


def whole(sentence: str) -> str:
    """Return a sentence with a capital in front, unless it begins with a name, and a stop behind.

    >>> whole("score 0.9"), whole("All 6 layers."), whole("org/name: no weights")
    ('Score 0.9.', 'All 6 layers.', 'org/name: no weights.')
    """
    first, stop = sentence.partition(" ")[0], "" if sentence.endswith((".", "…")) else "."
    return f"{sentence[:1].upper() if first.isalpha() else sentence[:1]}{sentence[1:]}{stop}"
