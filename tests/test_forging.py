"""Forgers who are not told how fool nobody, and whichever of the rules is switched off, they find out.

`python -m tests.forging` tries as many cases as there is time for; here are a few hundred, always the same ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hf_lineage.architecture.activity import expected as activity
from hf_lineage.architecture.activity import router as routing

from hf_lineage.architecture.loading.class_tensors import World
from hf_lineage.architecture.registry.lookups import listing
from hf_lineage.checking.source import opening as opened
from hf_lineage.evidence.units import comparison as framed
from hf_lineage.evidence.units import inherited
from hf_lineage.signature import values
from hf_lineage.signature.products import branches
from tests.forging.outputs import AT_WORK, BROKEN, IDLE, moved, said_of, sound
from tests.forging.search import classes, searched, subject

CLASSES = 34
"""Of so many factorizations a class is tried, with so many cases."""
CASES = 12
MOST = 500
"""Cases after which a forger gives up."""


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    for log in ("hf_lineage", "transformers"):
        logging.getLogger(log).setLevel(logging.CRITICAL)
    yield
    for log in ("hf_lineage", "transformers"):
        logging.getLogger(log).setLevel(logging.NOTSET)


@pytest.mark.long
@pytest.mark.parametrize("turn", [0, 10, 20, 1, 11, 21])
def test_no_forger_fools_a_verdict(turn):
    found, came = [], set()
    for listed, name in islice(classes(), turn, CLASSES * 5, 30):
        with subject(name, listed) as one:
            for kind, outcome in searched(one, 0, CASES):
                came.add(outcome.came)
                if outcome.fooled:
                    found.append((name, kind, outcome))
    assert found == []
    assert came >= {AT_WORK, f"{IDLE}: UNRELATED", "the copy: RELATED, verified"}


class Rule(NamedTuple):
    """A rule, how it is switched off, and where that is found out."""

    off: Callable[[pytest.MonkeyPatch], None]
    of: str
    kind: str
    form: int = 0


def replaced(module: Any, name: str, by: Any) -> Callable[[pytest.MonkeyPatch], None]:
    """Something in place of a rule."""
    return lambda patch: patch.setattr(module, name, by)


def by_writes(patch: pytest.MonkeyPatch) -> None:
    """The share of a layer counts for what the layer writes."""
    plain = inherited.inherited_units

    def weighed(base, candidate, comparison, seed, fewer=False):
        found = plain(base, candidate, comparison, seed, fewer)
        writes = np.where(candidate.usable, candidate.writes, 0.0)
        return found and replace(found, weights=writes / max(writes.sum(), 1e-300))

    patch.setattr("hf_lineage.evidence.judging.measurement.inherited_units", weighed)


def unweighed(patch: pytest.MonkeyPatch) -> None:
    """Layers count however large the stream is that they write into."""
    for module in (values, framed):
        patch.setattr(module, "writing", lambda writes, joins, counted: counted)


def uncorrected(patch: pytest.MonkeyPatch) -> None:
    """Routers choose by their logits alone."""
    odds, sent = activity.routed, routing.counting
    patch.setattr(activity, "routed", lambda spread, centre, chosen, *_: odds(spread, centre, chosen))
    patch.setattr(
        routing, "counting", lambda share, router, words: sent(share, router._replace(correction=None), words)
    )


def by_all(patch: pytest.MonkeyPatch) -> None:
    """Every expert is sent every token."""
    patch.setattr(activity, "routed", lambda spread, *_: np.ones_like(spread))
    patch.setattr(routing, "counting", lambda odds, *_: odds)


RULES = {
    "tensors that the class does not build are left out": Rule(
        replaced(opened, "world", lambda *_: World()), "Qwen3MoeForCausalLM", "added"
    ),
    "small tensors that scale a branch are reservations": Rule(
        replaced(opened, "scalar_reservations", lambda *_: ()), "Gemma4ForCausalLM", "scaled", form=1
    ),
    "gates are rows of a unit": Rule(replaced(inherited, "ROWS", ("inner", "outer")), "LlamaForCausalLM", "shut"),
    "a layer counts as a layer": Rule(by_writes, "LlamaForCausalLM", "shut"),
    "what layers write is weighed against the stream": Rule(unweighed, "LlamaForCausalLM", "scaled"),
    "experts weigh what their router sends them": Rule(by_all, "MixtralForCausalLM", "scaled"),
    "a correction of the scores counts": Rule(uncorrected, "Kolibri1ForCausalLM", "scaled"),
    "parameters of an activation count": Rule(
        replaced(branches, "activation", lambda layer_set, _: layer_set.activation), "ApertusForCausalLM", "scaled"
    ),
    "settings that take a branch out of the stream are reservations": Rule(
        replaced(opened, "settings_reservations", lambda *_: ()), "Inkling2ForCausalLM", "set"
    ),
    "multipliers are held to a range": Rule(
        replaced(opened, "settings_notes", lambda *_: ()), "GraniteForCausalLM", "set"
    ),
}
"""What a verdict rests on besides what is stored; the last two take long, for they are about every setting."""


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.few(8)
def test_a_rule_that_is_switched_off_is_found_out(monkeypatch, rule):
    """By a case that fools nobody while the rule is there."""
    listed = next(listing(rule.of))
    with subject(rule.of, listed, rule.form) as without, subject(rule.of, listed, rule.form) as one:
        for number in range(MOST):
            with monkeypatch.context() as patch:
                rule.off(patch)
                ((_, outcome),) = searched(without, 0, number + 1, (rule.kind,), first=number)
            if outcome.fooled:
                ((_, outcome),) = searched(one, 0, number + 1, (rule.kind,), first=number)
                if not outcome.fooled:
                    return
    pytest.fail("no forger found it out")


def test_what_does_nothing_is_told_from_what_is_at_work():
    torch.manual_seed(0)
    words = torch.randn(2, 24, 8)
    assert said_of([words], [words + 1e-5]) == IDLE
    assert said_of([words], [words + 1e-2]) == AT_WORK
    assert said_of([words * float("nan")], [words]) == BROKEN
    assert not sound([torch.ones(2, 24, 8)])
    assert moved([words[:, :3]], [words]) == float("inf")
