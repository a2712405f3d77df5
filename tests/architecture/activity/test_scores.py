import numpy as np
import pytest
from scipy import integrate

from hf_lineage.architecture.activity.expected import routed
from hf_lineage.architecture.activity.normal import density_at
from hf_lineage.architecture.activity.scores import SCORES

LOGITS = np.array([-30.0, -2.0, 0.0, 0.5, 3.0, 40.0])


@pytest.mark.parametrize("name", SCORES)
def test_a_score_rises_with_the_logit_and_leads_back_to_it(name):
    scores = SCORES[name]
    found = scores.chosen_by(LOGITS)
    assert np.all(np.diff(found) >= 0)
    assert np.all((found >= scores.least) & (found <= scores.most))
    back = scores.logit(found)
    assert (back - back[2])[:5] == pytest.approx(LOGITS[:5], rel=1e-6)
    assert np.all(scores.mixed_by(LOGITS) >= 0)


def test_beyond_its_ends_a_score_has_an_infinite_logit():
    assert SCORES["sigmoid"].logit(np.array([-0.5, 1.5])).tolist() == [-np.inf, np.inf]
    assert SCORES["sqrtsoftplus"].logit(np.array([-0.5, 0.0])).tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize("name", [name for name, scores in SCORES.items() if scores.alone])
def test_of_two_corrected_experts_each_is_chosen_as_often_as_an_integral_says(name):
    """With one of two chosen, each by a threshold of its own: P(score > t) adds up to one at the threshold."""
    scores, added = SCORES[name], np.array([0.2, 0.0])
    shares = routed(np.ones(2), np.zeros(2), 1, added, scores)
    assert shares.sum() == pytest.approx(1)
    threshold = scores.chosen_by(np.array([-_quantile(shares[0])]))[0] + 0.2
    bound = scores.logit(np.array([threshold]))[0]
    second, _ = integrate.quad(lambda z: float(density_at(np.array(z))), bound, 12)
    assert shares[1] == pytest.approx(second, abs=1e-6)


def _quantile(share):
    from scipy.special import ndtri

    return float(ndtri(share))
