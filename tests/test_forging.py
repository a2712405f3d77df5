"""Forgers who are not told how fool nobody, and whichever of the rules is switched off, they find out.

`python -m tests.forging` tries as many cases as there is time for; here are a few hundred, always the same ones.
"""

import logging
from dataclasses import replace
from itertools import islice, product

import numpy as np
import pytest
import torch

from hf_lineage.architecture.registry import listing
from hf_lineage.checking import by_units
from hf_lineage.evidence import inherited, measure
from hf_lineage.source import differences
from hf_lineage.source import headers as opened
from tests.forging.cases import TURNS, classes, searched, subject
from tests.forging.outputs import AT_WORK, BROKEN, IDLE, moved, said_of, sound
from tests.forging.subject import FORMATS

PLAIN = 0, 10, 20, 1, 11, 21
PAID = "paid: VERIFIED inherited"


@pytest.fixture(autouse=True)
def quiet():
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.long
@pytest.mark.parametrize(("turn", "stored"), [*product(PLAIN, ["plain"]), (0, "gguf"), (20, "bnb_four_bits")])
def test_no_forger_fools_a_verdict(turn, stored):
    form, found, came = FORMATS[stored], [], set()
    able = (each for each in classes() if form.classes is None or each[1] in form.classes)
    for listed, name in islice(able, turn, 170, 30):
        with subject(name, listed, stored=stored) as one:
            for kind, outcome in searched(one, 0, 12, form.kinds or TURNS):
                came.add(outcome.came)
                if outcome.fooled:
                    found.append((name, kind, outcome))
    assert found == []
    assert came >= ({AT_WORK, f"{IDLE}: UNRELATED", "the copy: VERIFIED inherited"} if stored == "plain" else {AT_WORK})


def weighed(base, candidate, comparison, seed, fewer=False):
    """Let the share of a layer count for how large its product is."""
    found = inherited.inherited_units(base, candidate, comparison, seed, fewer)
    writes = np.where(candidate.usable, candidate.norm, 0.0)
    return found and replace(found, weights=writes / max(writes.sum(), 1e-300))


def nothing(*_):
    return ()


def mlps_alone(*_):
    return ("mlp",)


LLAMA, GEMMA = "LlamaForCausalLM", "Gemma3ForConditionalGeneration"
RULES = {
    "small tensors that scale a branch are reservations":
        ((opened, "scalar_reservations", nothing), "Gemma4ForCausalLM", "scaled", 1),
    "gates are rows of a unit": ((inherited, "ROWS", ("inner", "outer")), LLAMA, "shut", 0),
    "a layer counts as a layer": ((measure, "inherited_units", weighed), LLAMA, "shut", 0),
    "heads are compared beside units": ((by_units, "resolve_paths", mlps_alone), LLAMA, "scaled", 0),
    "a second name of a tensor is unaccounted for": ((differences, "doubts", nothing), GEMMA, "renamed", 0),
    "settings that take a branch out of the stream are reservations":
        ((opened, "settings_reservations", nothing), "Inkling2ForCausalLM", "set", 0),
    "multipliers are held to a range": ((opened, "settings_notes", nothing), "GraniteForCausalLM", "set", 0),
}  # fmt: skip
"""What a verdict rests on besides what is stored, and what finds it out; the last two are about every setting."""


@pytest.mark.parametrize(("rule", "of", "kind", "form"), RULES.values(), ids=RULES)
@pytest.mark.few(1)
def test_a_rule_that_is_switched_off_is_found_out(monkeypatch, rule, of, kind, form):
    """By a case that fools nobody while the rule is there."""
    listed = next(listing(of))
    if kind != "renamed" and rule[0] is not by_units:  # so that heads hide nothing that the rule is for
        monkeypatch.setattr(by_units, "resolve_paths", mlps_alone)
    with subject(of, listed, form) as without, subject(of, listed, form) as one:
        for number in range(500):
            with monkeypatch.context() as patch:
                patch.setattr(*rule)
                ((_, outcome),) = searched(without, 0, number + 1, (kind,), first=number)
            if outcome.fooled or outcome.came == PAID:
                ((_, outcome),) = searched(one, 0, number + 1, (kind,), first=number)
                if not outcome.fooled and outcome.came != PAID:
                    return
    pytest.fail("no forger found it out")


def test_what_does_nothing_is_told_from_what_is_at_work():
    torch.manual_seed(0)
    words = torch.randn(2, 24, 8)
    assert [said_of([words], [words + noise]) for noise in (1e-5, 1e-2)] == [IDLE, AT_WORK]
    assert said_of([words * float("nan")], [words]) == BROKEN
    assert (sound([torch.ones(2, 24, 8)]), moved([words[:, :3]], [words])) == (False, float("inf"))
