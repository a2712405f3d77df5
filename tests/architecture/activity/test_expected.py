"""Expected activity: every activation against torch's own, every mean against a brute-force integral."""

import itertools
import time

import numpy as np
import pytest
import torch

from hf_lineage.architecture.activity.activations import ACTIVATIONS, xielu
from hf_lineage.architecture.activity.curves import ZERO, Curve
from hf_lineage.architecture.activity.expected import (
    CLAMPED,
    activation,
    mean_slope,
    mean_steepness,
    mean_value,
    routed,
    share_inside,
)
from hf_lineage.errors import NothingToCompare

EVERY = {**ACTIVATIONS, **{name: activation((name,), {}) for name in CLAMPED}}
SPREADS = (0.01, 0.2, 0.28, 0.6, 1.0, 1.01, 1.5, 4.0, 20.0)
CENTRES = np.array([-12.0, -6.0, -3.0, -1.2, -0.3, 0.0, 0.4, 1.0, 2.5, 7.0, 11.0])
MEANS = {"curve": mean_value, "tangent": mean_slope, "steepness": mean_steepness}


LITTLE = 0.011
"""What an activation is at most where it counts as zero because one of the floating-point types gives zero."""


def torch_of(name):
    from transformers.activations import ACT2FN

    if name.startswith("gated-"):
        return ACT2FN[name.removeprefix("gated-").replace("gelu_new", "gelu").replace("gelu", "gelu_new")]
    if name == "clamped_silu":
        return lambda x: torch.nn.functional.silu(x.clamp(max=10.0))
    if name == "clamped_quick_gelu":
        return lambda x: x.clamp(max=7.0) * torch.sigmoid(1.702 * x.clamp(max=7.0))
    return ACT2FN[name]


@pytest.mark.parametrize("name", sorted(EVERY.keys() - {"xielu"}))
def test_value_and_slope_are_those_of_transformers(name):
    x = torch.arange(-24.995, 25, 0.01, dtype=torch.float64, requires_grad=True)
    expected = torch_of(name)(x)
    (gradient,) = torch.autograd.grad(expected.sum(), x)
    points, exact = x.detach().numpy(), EVERY[name].curve.cuts[0]
    there = points > exact if EVERY[name].curve.left == ZERO else np.full(points.shape, True)
    assert np.allclose(EVERY[name].value(points)[there], expected.detach().numpy()[there], atol=1e-6, rtol=0)
    assert np.allclose(EVERY[name].slope(points)[there], gradient.numpy()[there], atol=2e-6, rtol=0)
    assert np.abs(expected.detach().numpy()[~there]).max(initial=0) < LITTLE


def test_xielu_is_that_of_transformers_for_the_factors_it_learned():
    from transformers.activations import ACT2FN

    module = ACT2FN["xielu"].double()
    positive = torch.nn.functional.softplus(module.alpha_p).item()
    negative = (module.beta + torch.nn.functional.softplus(module.alpha_n)).item()
    x = torch.arange(-24.995, 25, 0.01, dtype=torch.float64, requires_grad=True)
    expected = module(x)
    (gradient,) = torch.autograd.grad(expected.sum(), x)
    found = xielu(positive, negative)
    assert np.allclose(found.value(x.detach().numpy()), expected.detach().numpy(), atol=2e-6, rtol=0)
    assert np.allclose(found.slope(x.detach().numpy()), gradient.numpy(), atol=2e-6, rtol=0)


def brute_force(curve: Curve, spread: float, centre: float) -> float:
    """The mean by a sum over pieces so short that nothing bends within one."""
    ends = sorted({centre - 10 * spread, centre + 10 * spread, *curve.cuts})
    nodes, weights = np.polynomial.legendre.leggauss(20)
    total = 0.0
    for low, high in itertools.pairwise(ends):
        edges = np.linspace(low, high, 2 + int((high - low) / min(spread, 0.5)))
        middle, half = (edges[1:] + edges[:-1])[:, None] / 2, (edges[1:] - edges[:-1])[:, None] / 2
        x = middle + half * nodes
        total += (curve.at(x) * np.exp(-(((x - centre) / spread) ** 2) / 2) * weights * half).sum()
    return total / spread / np.sqrt(2 * np.pi)


@pytest.mark.parametrize("kind", MEANS)
@pytest.mark.parametrize("name", EVERY)
def test_a_mean_is_the_integral(name, kind):
    for spread in SPREADS:
        expected = np.array([brute_force(getattr(EVERY[name], kind), spread, centre) for centre in CENTRES])
        scale = 1e-6 * np.maximum(1, spread + np.abs(CENTRES)) ** (2 if name in ("relu2", "xielu") else 1)
        assert (np.abs(MEANS[kind](EVERY[name], np.full(CENTRES.shape, spread), CENTRES) - expected) < scale).all()


@pytest.mark.parametrize("name", ["silu", "gelu", "relu2"])
def test_a_mean_is_that_of_a_sample(name):
    z = np.random.default_rng(0).standard_normal(4_000_000)
    x, spread, centre = 0.8 * z - 0.4, np.array([0.8]), np.array([-0.4])
    assert mean_value(EVERY[name], spread, centre) == pytest.approx(EVERY[name].value(x).mean(), abs=2e-3)
    assert mean_slope(EVERY[name], spread, centre) == pytest.approx(EVERY[name].slope(x).mean(), abs=2e-3)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("spread", [0.0, 1e-300, 1e-30, 1e20, 1e300])
def test_no_finite_spread_or_centre_gives_nan(name, spread):
    centres = np.array([0.0, 1e-3, -9.0, 1e20, -1e20, 1e300, -1e300])
    for mean in MEANS.values():
        assert not np.isnan(mean(EVERY[name], np.full(centres.shape, spread), centres)).any()


def test_without_spread_a_mean_is_the_activation():
    assert mean_value(EVERY["silu"], np.array([0.0, 1e-30]), np.array([1.0, 1.0])) == pytest.approx(0.7310585786)
    assert mean_slope(EVERY["relu"], np.zeros(2), np.array([-1.0, 1.0])).tolist() == [0.0, 1.0]


def test_what_is_not_finite_is_not_a_number():
    spread, centre = np.array([np.inf, 1.0, np.nan, 1.0]), np.array([0.0, -np.inf, 0.0, 0.0])
    assert np.isnan(mean_value(EVERY["silu"], spread, centre)).tolist() == [True, True, True, False]
    assert np.isnan(share_inside(EVERY["silu"], spread, centre)).tolist() == [True, True, True, False]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("kind", MEANS)
def test_no_mean_makes_a_number_of_what_is_none(name, kind):
    """Not even where the activation is a constant far out: a model with NaN in its weights is never a quiet zero."""
    spread, centre = np.array([np.nan, 1.0, 0.0, np.nan]), np.array([0.0, np.nan, np.nan, np.nan])
    assert np.isnan(MEANS[kind](EVERY[name], spread, centre)).all()


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", [name for name, each in ACTIVATIONS.items() if each.curve.left == ZERO])
def test_a_unit_that_is_constant_in_floating_point_weighs_exactly_nothing(name, kind):
    x = torch.arange(-30, 12, 1e-3, dtype=torch.float64).to(kind)
    alive = (torch_of(name)(x) != 0).nonzero()[0]
    dead = np.array([min(float(x[alive]) - 1e-3, -1e-3), -1e4])
    cancelling = ACTIVATIONS[name].curve.cuts[0] > -20 / 1.702
    dead = dead if cancelling else np.array([-100.0, -1e4])
    for mean in MEANS.values():
        assert mean(ACTIVATIONS[name], np.zeros(2), dead).tolist() == [0.0, 0.0]
        assert mean(ACTIVATIONS[name], np.full(2, 1e-12), dead).tolist() == [0.0, 0.0]


def test_a_dead_gelu_unit_with_a_writer_of_1e20_weighs_nothing():
    assert float(torch.nn.functional.gelu(torch.tensor(-9.0))) == 0.0
    assert mean_slope(EVERY["gelu"], np.array([1e-3]), np.array([-9.0])) * 1e20 == 0.0


def test_a_unit_over_its_clamp_passes_nothing_on():
    assert mean_slope(EVERY["clamped_silu"], np.array([0.1]), np.array([20.0])) == 0.0
    assert share_inside(EVERY["clamped_quick_gelu"], np.array([0.5, 0.5]), np.array([0.0, 20.0])) == pytest.approx(
        [1.0, 0.0]
    )


def test_11008_units_take_milliseconds():
    spread = np.random.default_rng(0).uniform(0.3, 3, 11_008)
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        mean_value(EVERY["silu"], spread, np.zeros(11_008))
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.04


def test_the_first_name_that_applies_counts():
    assert activation((), {}) is None
    assert activation(("hidden_act", "silu"), {}).name == "silu"
    assert activation(("hidden_act", "silu"), {"hidden_act": "relu"}).name == "relu"
    assert activation(("text_config.hidden_act", "silu"), {"text_config": {"hidden_act": "mish"}}).name == "mish"
    assert activation(("clamped_quick_gelu",), {"swiglu_limit": 3}).limit == 3.0


@pytest.mark.parametrize(
    "said", ["no_such", "clamped_silu", ["silu"], {"a": 1}, True, 7, "\x1b[31m\u202e::error::", "x" * 10_000]
)
def test_a_setting_that_is_no_activation_is_refused_on_one_printable_line(said):
    with pytest.raises(NothingToCompare, match="hidden_act") as refused:
        activation(("hidden_act", "silu"), {"hidden_act": said})
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("limit", [0, -1, 1e-9, 1e9, "7", True, [7], float("inf"), float("nan")])
def test_a_limit_that_is_none_is_refused(limit):
    with pytest.raises(NothingToCompare, match="swiglu_limit"):
        activation(("clamped_silu",), {"swiglu_limit": limit})


def test_the_steepness_of_a_clamped_gate_is_that_of_config_json():
    assert activation(("clamped_quick_gelu",), {"text_config": {"swiglu_alpha": 1}}).value(np.array([1.0])) == (
        pytest.approx(0.7310585786)
    )
    with pytest.raises(NothingToCompare, match="swiglu_alpha"):
        activation(("clamped_quick_gelu",), {"swiglu_alpha": -1.702})


def test_no_name_that_applies_is_refused():
    with pytest.raises(NothingToCompare, match="hidden_act or act"):
        activation(("hidden_act", "act"), {})


def test_experts_alike_are_chosen_alike():
    assert routed(np.ones(4), np.zeros(4), 2) == pytest.approx([0.5] * 4)
    assert routed(np.zeros(4), np.zeros(4), 2) == pytest.approx([0.5] * 4)


def test_the_shares_of_experts_add_up_and_follow_their_order():
    draw = np.random.default_rng(0)
    spread, centre = draw.uniform(0, 3, 64), draw.normal(0, 2, 64)
    shares, order = routed(spread, centre, 6), draw.permutation(64)
    assert shares.sum() == pytest.approx(6)
    assert np.allclose(routed(spread[order], centre[order], 6), shares[order], atol=1e-9)


def test_an_expert_that_is_never_chosen_has_no_share():
    assert routed(np.ones(4), np.array([0.0, 0, -np.inf, 0]), 2) == pytest.approx([2 / 3, 2 / 3, 0, 2 / 3])
    assert routed(np.ones(4), np.array([0.0, 0, -1e9, 0]), 2)[2] == 0.0
    assert routed(np.ones(4), np.zeros(4), 2, np.array([0.0, 0, -1e9, 0]))[2] == 0.0
    assert routed(np.ones(2), np.array([0.0, -np.inf]), 2).tolist() == [1.0, 0.0]


def test_every_expert_is_chosen_where_all_are_asked_for():
    assert routed(np.ones(3), np.array([0.0, 5, -5]), 3).tolist() == [1.0, 1.0, 1.0]
    assert routed(np.ones(3), np.array([0.0, 5, -5]), 9).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("spread", [0.0, 1e-30, 1e20, 1e300])
def test_extreme_routers_give_shares(spread):
    shares = routed(np.array([spread, 1, 1, 1]), np.array([0.0, 1e20, -1e20, 0]), 2)
    assert ((shares >= 0) & (shares <= 1)).all()
    assert shares.sum() == pytest.approx(2, abs=1e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_routers_that_are_not_finite_are_not_a_number(bad):
    assert np.isnan(routed(np.array([1.0, bad]), np.zeros(2), 1)).all()
    assert np.isnan(routed(np.ones(2), np.array([0.0, bad]), 1)).all()
