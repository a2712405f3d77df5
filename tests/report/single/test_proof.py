"""The proof of a factorization as text and JSON."""

import json

import pytest

from hf_lineage.report.single.proof import ADVICE, PROOFS
from hf_lineage.running.proof.outcome import Proof

HELD = Proof("mine", "TheirModel", "5.23.0", {})
FAULTS = {"deviations": {"mlp plain": 1.25}, "names_unseen": ["a\x1bb"], "nobodys_rule": "::error x"}
FAILED = Proof("mine", "TheirModel", "5.23.0", FAULTS)


def test_a_proof_that_holds():
    assert PROOFS["text"](HELD).startswith("Proved: every product that mine.yaml for TheirModel names is what the")
    assert json.loads(PROOFS["json"](HELD)) == {
        "factorization": "mine",
        "architecture": "TheirModel",
        "release": "5.23.0",
        "proved": True,
        "faults": {},
    }


@pytest.mark.parametrize("form", PROOFS)
def test_a_proof_that_fails_says_by_what_and_echoes_nothing_harmful(form):
    shown = " ".join(PROOFS[form](FAILED).split())
    assert "mlp plain (off by 1.2)" in shown
    assert "\x1b" not in shown
    assert "::error" not in shown


def test_every_rule_of_the_proof_has_advice():
    from hf_lineage.running.proof.active import inactive
    from hf_lineage.running.proof.rules import RULES

    names = {rule.__name__ for rule in RULES} | {"unclaimed", "deviations", "names_unseen", "unfinished"}
    names |= {"activations_mistaken", "feeding_mistaken", "routing_mistaken", "activations_unproved"}
    assert inactive in RULES
    assert names == ADVICE.keys()
