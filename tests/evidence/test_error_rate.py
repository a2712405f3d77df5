"""How often independent models are called RELATED: many pairs, analysed as a check does until nothing is in doubt.

Each analysis has a test of its own at alpha over their number (Bonferroni). Without that correction the same pairs are
called RELATED far more often than alpha, which the bound here notices.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import binom

from hf_lineage.evidence import p_values as permutations
from hf_lineage.evidence import permutation
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import judge
from hf_lineage.evidence.measure import DOUBTFUL, Pair, analyses, enough, measure, reading_order
from hf_lineage.signature.values import PathSignature, UnitCodes
from tests.long import first_of

LAYERS, WIDTH, RANK, UNITS = 12, 12, 3, 8
ALPHA, PERMUTATIONS = 0.05, 39
STOPS = analyses(LAYERS, 0.5)
CRITERIA = Criteria(ALPHA, minimum_effect=-1.0, permutations=PERMUTATIONS, analyses=len(STOPS))
"""The p-value alone decides: the minimum effect would make errors of any rule rarer."""


def most(count, alpha=ALPHA):
    """So many false positives, and no more, a test of level alpha has in all but one of a thousand runs."""
    return int(binom.ppf(0.999, count, alpha))


@dataclass(frozen=True)
class Judged:
    """One pair: what each analysis says by itself, uncorrected and corrected."""

    p_values: tuple[float, ...]
    names: tuple[str, ...]


def signature(random):
    """Layers of random products of low rank, as trained ones are: any permutation of coordinates is as likely."""
    out, inn = random.standard_normal((2, LAYERS, WIDTH, RANK))
    blocks = (out @ inn.transpose(0, 2, 1)).astype(np.float32)
    scales = random.lognormal(size=LAYERS)
    codes = random.integers(0, 256, (LAYERS, 3, UNITS, 16), dtype=np.uint8)
    units = tuple(UnitCodes(np.ones(UNITS, np.float32), *rows) for rows in codes)
    return PathSignature(
        sketch=blocks,
        corner=blocks,
        trace=blocks.trace(axis1=1, axis2=2).astype(float) + scales,
        norm=np.linalg.norm(blocks, axis=(1, 2)).astype(float),
        units=units,
    )


def judged(seed):
    """What the analyses of one pair of independent models say, in the order in which they are made."""
    random = np.random.default_rng(seed)
    base, candidate = signature(random), signature(random)
    order = reading_order(LAYERS, seed)
    p_values, names = [], []
    for read in STOPS:
        rows = sorted(order[:read])
        evidence = measure([Pair.along("mlp", base.select(rows), candidate.select(rows))], replace(CRITERIA, seed=seed))
        p_values.append(evidence["mlp"].permutation.p_value)
        names.append(judge(evidence, CRITERIA).word)
        if names[-1] == "UNRELATED" and read >= enough(LAYERS) and p_values[-1] > DOUBTFUL:
            break
    return Judged(tuple(p_values), tuple(names))


@pytest.fixture(scope="module", params=first_of([200, 2000]))
def pairs(request):
    """All of them, in less time than with the usual constants, which say how long a p-value takes and not its level."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.cpu_count", lambda: 1)
        patch.setattr(permutation, "BATCHES", (32, 32))
        patch.setitem(permutation.TILES, "permutations", 32)
        patch.setattr(permutations, "LONGER", 3)
        patch.setattr(permutations, "MANY", 60)
        return [judged(seed) for seed in range(request.param)]


def test_there_are_several_interim_analyses(pairs):
    assert STOPS == (5, 9, 12)
    counts = [sum(len(each.names) == count for each in pairs) for count in (1, 2, 3)]
    assert counts[0] == 0
    assert counts[1] > counts[2] > len(pairs) / 20


def test_independent_models_are_called_related_at_any_analysis_no_more_often_than_alpha(pairs):
    wrong = sum("RELATED" in each.names for each in pairs)
    assert 0 < wrong <= most(len(pairs)), wrong / len(pairs)


def test_the_first_analysis_keeps_to_its_part_of_alpha(pairs):
    wrong = sum(each.names[0] == "RELATED" for each in pairs)
    assert 0 < wrong <= most(len(pairs), ALPHA / len(STOPS))


@pytest.mark.long
@pytest.mark.parametrize("pairs", [2000], indirect=True)
def test_without_the_correction_they_are_called_related_far_more_often(pairs):
    wrong = sum(min(each.p_values) <= ALPHA for each in pairs)
    assert wrong > 1.1 * most(len(pairs)), wrong / len(pairs)
