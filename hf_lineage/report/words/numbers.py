"""The numbers behind a verdict in words: the nulls that a score is tested against, and every layer."""

from __future__ import annotations

from collections.abc import Iterator

from hf_lineage.evidence import Evidence
from hf_lineage.evidence.paths import moved, runs

LAYER_COLUMNS = ("Layer", "Paired with", "Cosine", "Inherited", "s of the base", "s of the model")


def drawn(evidence: Evidence) -> bool:
    """Return whether another draw of layers or of units would give other figures."""
    return evidence.analyses > 1 or bool(evidence.inherited and evidence.inherited.error > 0)


def independent(evidence: Evidence) -> str:
    """Return the scores of independent models, and the score of this pair on the same test coordinates."""
    low, high = evidence.permutation.range
    return (
        f"on the test coordinates this pair scores {evidence.permutation.observed:.3f}, and independent models "
        f"of this shape score {low:.3f} to {high:.3f} (by permutation)"
    )


def null_sentences(evidence: Evidence) -> Iterator[str]:
    """Yield a sentence for the score of one path, and one for each null that it was tested against."""
    error = evidence.comparison.standard_error
    of = "sample" if evidence.sampled else "sketch"
    yield f"score {evidence.comparison.score:.4f}" + (f", standard error of the {of} {error:.1g}" if error else "")
    for null in evidence.nulls:
        decides = null is evidence.decided_by
        after = f", {evidence.p_value:.3g} after {corrections(evidence)}" if evidence.p_value != null.p_value else ""
        yield (
            f"{null.name} null: {null.describe()}, p = {null.p_value:.3g}"
            + (after if decides else f"; {null.objection or 'another null decides'}")
        )


def came_from(evidence: Evidence) -> Iterator[str]:
    """Yield which layers come from which of the base, unless each comes from the layer of its number."""
    if moved(evidence.origins):
        yield ", ".join(map(str, runs(evidence.origins)))


def of_each(evidence: Evidence) -> str:
    """Return how much of each layer was read, as a phrase that follows the layers; empty where that is all of it."""
    if (part := evidence.sampled) is None:
        return ""
    return (
        f", and in each of them {part.units:,} of {part.of_units:,} hidden units on {part.coordinates:,} of "
        f"{part.of_coordinates:,} coordinates at random"
    )


def decided_at(evidence: Evidence) -> str:
    """Return at which analysis it was decided, as a phrase that ends with the number of analyses."""
    part, analyses = evidence.sampled, f"{evidence.analyses} interim analyses"
    if part is not None and part.units == part.of_units:
        return f"by a sample that can only say UNRELATED, beside {analyses}"
    return f"at one of {analyses}"


def corrections(evidence: Evidence) -> str:
    """Return what the p-value of a path was corrected for."""
    null = evidence.first
    over_paths = [f"correction over the paths ({null.correction})"] if null.p_over_paths != null.p_value else []
    tests = [f"{evidence.analyses} interim analyses"] if evidence.analyses > 1 else []
    tests += ["a test of the hidden units that may follow"] if evidence.further else []
    over_tests = [f"Bonferroni's correction over {' and '.join(tests)}"] if tests else []
    return " and ".join(over_paths + over_tests)


def p_explained(evidence: Evidence) -> str:
    """Return in plain words how the p-value came about, as a sentence behind others; empty where nothing is to tell."""
    null, tries = evidence.permutation, len(evidence.permutation.scores)
    if evidence.first is not null:
        return ""
    least = f"the smallest value that {tries} permutations can show" if null.p_value * (tries + 1) < 2 else ""
    why = " and ".join(_further_tests(evidence))
    if not why or evidence.p_value == 1:
        return f" It is {least}." if least else ""
    times = f"{evidence.p_value / null.p_value:.3g}"
    grown = "doubled" if times == "2" else f"multiplied by {times}"
    return f" This test alone gives {null.p_value:.3g}{least and f', {least}'}; p is {grown}, because {why}."


def _further_tests(evidence: Evidence) -> Iterator[str]:
    """Yield why p is larger than that of one test, in plain words."""
    if evidence.permutation.p_over_paths != evidence.permutation.p_value:
        yield "several paths are tested"
    if evidence.analyses > 1:
        yield f"reading may stop after each of {evidence.analyses} tests"
    if evidence.further:
        yield "a second test, of the hidden units, may follow"


def layer_rows(evidence: Evidence) -> Iterator[tuple[int, int, float, float | None, float, float]]:
    """Yield for each pair of layers: both numbers, their cosine, the partner's inherited share, both concentrations."""
    comparison = evidence.comparison
    (of_base, of_candidate), (base, candidate) = comparison.concentration, evidence.layers
    for row, partner, cosine in zip(*comparison.pairs, comparison.by_layer, strict=True):
        inherited = None if evidence.inherited is None else float(evidence.inherited.by_layer[partner])
        yield base[row], candidate[partner], float(cosine), inherited, float(of_base[row]), float(of_candidate[partner])


def layer_cells(line: tuple[int, int, float, float | None, float, float]) -> tuple[str, ...]:
    """Return the cells of one row of `layer_rows` as they are printed."""
    layer, partner, cosine, inherited, of_base, of_candidate = line
    shown = "-" if inherited is None else f"{inherited:.0%}"
    return str(layer), str(partner), f"{cosine:.3f}", shown, f"{of_base:.2f}", f"{of_candidate:.2f}"
