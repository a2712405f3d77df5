"""Forgers who are not told how fool nobody, and whichever of the rules is switched off, they find out.

`python -m tests.forging` tries as many cases as there is time for; here are a few hundred, always the same ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from hf_lineage.architecture.registry import listing
from hf_lineage.checking import by_units
from hf_lineage.evidence import inherited
from hf_lineage.source import differences
from hf_lineage.source import headers as opened
from tests.forging.cases import TURNS, classes, searched, subject
from tests.forging.outputs import AT_WORK, BROKEN, IDLE, moved, said_of, sound
from tests.forging.subject import FORMATS

CLASSES = 34  # of so many factorizations a class is tried, with so many cases
CASES = 12
PLAIN = 0, 10, 20, 1, 11, 21
MOST = 500  # cases after which a forger gives up
PAID = "paid: VERIFIED inherited"


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    for log in ("hf_lineage", "transformers"):
        logging.getLogger(log).setLevel(logging.CRITICAL)
    yield
    for log in ("hf_lineage", "transformers"):
        logging.getLogger(log).setLevel(logging.NOTSET)


@pytest.mark.long
@pytest.mark.parametrize(("turn", "stored"), [*product(PLAIN, ["plain"]), (0, "gguf"), (20, "bnb_four_bits")])
def test_no_forger_fools_a_verdict(turn, stored):
    form, found, came = FORMATS[stored], [], set()
    able = (each for each in classes() if form.classes is None or each[1] in form.classes)
    for listed, name in islice(able, turn, CLASSES * 5, 30):
        with subject(name, listed, stored=stored) as one:
            for kind, outcome in searched(one, 0, CASES, form.kinds or TURNS):
                came.add(outcome.came)
                if outcome.fooled:
                    found.append((name, kind, outcome))
    assert found == []
    assert came >= ({AT_WORK, f"{IDLE}: UNRELATED", "the copy: VERIFIED inherited"} if stored == "plain" else {AT_WORK})


class Rule(NamedTuple):
    """A rule, how it is switched off, and where that is found out."""

    off: Callable[[pytest.MonkeyPatch], None]
    of: str
    kind: str
    form: int = 0
    alone: bool = True  # whether MLPs alone are compared, so that heads hide nothing that the rule is for


def replaced(module: Any, name: str, by: Any) -> Callable[[pytest.MonkeyPatch], None]:
    """Something in place of a rule."""
    return lambda patch: patch.setattr(module, name, by)


def by_writes(patch: pytest.MonkeyPatch) -> None:
    """The share of a layer counts for how large its product is."""
    plain = inherited.inherited_units

    def weighed(base, candidate, comparison, seed, fewer=False):
        found = plain(base, candidate, comparison, seed, fewer)
        writes = np.where(candidate.usable, candidate.norm, 0.0)
        return found and replace(found, weights=writes / max(writes.sum(), 1e-300))

    patch.setattr("hf_lineage.evidence.measure.inherited_units", weighed)


RULES = {
    "small tensors that scale a branch are reservations":
        Rule(replaced(opened, "scalar_reservations", lambda *_: ()), "Gemma4ForCausalLM", "scaled", form=1),
    "gates are rows of a unit": Rule(replaced(inherited, "ROWS", ("inner", "outer")), "LlamaForCausalLM", "shut"),
    "a layer counts as a layer": Rule(by_writes, "LlamaForCausalLM", "shut"),
    "heads are compared beside units":
        Rule(replaced(by_units, "resolve_paths", lambda *_: ("mlp",)), "LlamaForCausalLM", "scaled", alone=False),
    "a second name of a tensor is unaccounted for":
        Rule(replaced(differences, "doubts", lambda *_: ()), "Gemma3ForConditionalGeneration", "renamed", alone=False),
    "settings that take a branch out of the stream are reservations":
        Rule(replaced(opened, "settings_reservations", lambda *_: ()), "Inkling2ForCausalLM", "set"),
    "multipliers are held to a range":
        Rule(replaced(opened, "settings_notes", lambda *_: ()), "GraniteForCausalLM", "set"),
}  # fmt: skip
"""What a verdict rests on besides what is stored; the last two take long, for they are about every setting."""


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.few(1)
def test_a_rule_that_is_switched_off_is_found_out(monkeypatch, rule):
    """By a case that fools nobody while the rule is there."""
    listed = next(listing(rule.of))
    if rule.alone:
        monkeypatch.setattr(by_units, "resolve_paths", lambda *_: ("mlp",))
    with subject(rule.of, listed, rule.form) as without, subject(rule.of, listed, rule.form) as one:
        for number in range(MOST):
            with monkeypatch.context() as patch:
                rule.off(patch)
                ((_, outcome),) = searched(without, 0, number + 1, (rule.kind,), first=number)
            if outcome.fooled or outcome.came == PAID:
                ((_, outcome),) = searched(one, 0, number + 1, (rule.kind,), first=number)
                if not outcome.fooled and outcome.came != PAID:
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
