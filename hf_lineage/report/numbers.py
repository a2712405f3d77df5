"""The numbers behind a verdict in words: what a score is held against, and every layer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hf_lineage.calibrate import PermutationNull
from hf_lineage.errors import printable
from hf_lineage.verdict import Evidence

LAYER_COLUMNS = ("Layer", "Paired with", "Cosine", "Inherited", "s of the base", "s of the model")


def null_range(null: PermutationNull) -> tuple[float, float]:
    """Return between which scores 98 of 100 permutations lie: what independent models of this shape score."""
    low, high = np.quantile(null.scores, (0.01, 0.99)).tolist()
    return low, high


def drawn(found: Evidence) -> bool:
    """Return whether another draw of layers or of units would give other figures."""
    return found.analyses > 1 or bool(found.inherited and found.inherited.error > 0)


def chance(found: Evidence) -> str:
    """Return what independent models score, as the permutations show it."""
    low, high = null_range(found.permutation)
    return f"independent models of this shape score {low:.3f} to {high:.3f} under permutation"


def independent(found: Evidence) -> str:
    """Return the same beside what this pair scores on those coordinates, which is not quite the score of all."""
    return f"{chance(found)}, this pair {found.permutation.observed:.3f} on the same coordinates"


def null_sentences(found: Evidence) -> Iterator[str]:
    """Yield what the score of one path was held against."""
    null = found.permutation
    error = found.comparison.standard_error
    yield f"score {found.comparison.score:.4f}" + (f", standard error of the sketch {error:.1g}" if error else "")
    low, high = null.scores.min(), null.scores.max()
    corrected = found.p_value != null.p_value and not found.calibrated
    yield (
        f"permutation null: {null.observed:.4f} on {null.coordinates} coordinates; {chance(found)} (98 of 100 do; "
        f"all {len(null.scores)} lie between {low:.4f} and {high:.4f}), p = {null.p_value:.3g}"
        + (f", {found.p_value:.3g} after {corrections(found)}" if corrected else "")
    )
    if found.empirical is not None:
        known = found.empirical
        decides = f"p = {known.p_value(found.comparison.score):.3g}" if found.calibrated else "the exact test decides"
        yield (
            f"empirical null: {len(known.scores)} independent models reach {known.threshold:.2g}; {decides}; "
            f"{printable(known.source)}"
        )


def corrections(found: Evidence) -> str:
    """Return what the p-value of a path was corrected for."""
    bonferroni = f"Bonferroni's correction over {found.analyses} interim analyses"
    return "Holm's correction over the paths" + (f" and {bonferroni}" if found.analyses > 1 else "")


def layer_rows(found: Evidence) -> Iterator[tuple[int, int, float, float | None, float, float]]:
    """Yield for each pair of layers: both numbers, their cosine, the partner's inherited share, both concentrations."""
    comparison = found.comparison
    (ours, theirs), (base, candidate) = comparison.concentration, found.layers
    for row, partner, cosine in zip(*comparison.pairs, comparison.by_layer, strict=True):
        known = None if found.inherited is None else float(found.inherited.by_layer[partner])
        yield base[row], candidate[partner], float(cosine), known, float(ours[row]), float(theirs[partner])


def layer_cells(line: tuple[int, int, float, float | None, float, float]) -> tuple[str, ...]:
    """Return one of these rows as it is printed."""
    layer, partner, cosine, known, ours, theirs = line
    shown = "-" if known is None else f"{known:.0%}"
    return str(layer), str(partner), f"{cosine:.3f}", shown, f"{ours:.2f}", f"{theirs:.2f}"
