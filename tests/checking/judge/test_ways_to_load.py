"""A model that can be loaded in several ways: one verdict where all agree, UNVERIFIABLE with both where they do not."""

from dataclasses import replace

import pytest

from hf_lineage.checking.judge.stages import judged_every_way
from hf_lineage.checking.options import Options
from hf_lineage.checking.source.model import open_model
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.hub.reference import RepoRef
from tests.models import fine_tuned, tiny_llama

OPTIONS = Options(order_seed=0)
HOW = "with the adapter on top of the weights"


def model(name, folder, **changes):
    return replace(open_model(RepoRef(name, folder), OPTIONS), **changes)


@pytest.fixture
def folders(tmp_path):
    base = tiny_llama(tmp_path / "base")
    return base, fine_tuned(base, tmp_path / "child"), tiny_llama(tmp_path / "other", seed=5)


def judged(folders, variants, **changes):
    base, child, _ = folders
    candidate = model("org/child", child, variants=variants, **changes)
    return judged_every_way(model("org/base", base), candidate, OPTIONS)


def test_a_model_that_loads_in_one_way_has_the_verdict_of_that_way(folders):
    verdict, notes = judged(folders, {})
    assert (verdict.name, notes) == ("RELATED", ())


def test_where_all_ways_agree_a_note_says_so(folders):
    verdict, notes = judged(folders, {HOW: model("org/child", folders[1])})
    assert verdict.name == "RELATED"
    assert notes == (f"org/child: RELATED also when loaded {HOW}, as transformers does where peft is installed",)


def test_where_two_ways_differ_it_is_unverifiable_and_names_both(folders):
    verdict, _ = judged(folders, {HOW: model("org/child", folders[2])})
    assert verdict.kind is Kind.UNVERIFIABLE
    assert verdict.reason == (
        f"loaded from its weights alone org/child is RELATED, loaded {HOW}, as transformers does where peft is "
        "installed, it is UNRELATED; remove the adapter or merge it"
    )


def test_a_way_that_cannot_be_judged_is_no_agreement(folders):
    verdict, _ = judged(folders, {HOW: Verdict(Kind.UNVERIFIABLE, "the adapter is truncated")})
    assert verdict.kind is Kind.UNVERIFIABLE
    assert "it is UNVERIFIABLE: the adapter is truncated; remove the adapter or merge it" in verdict.reason


def test_notes_of_both_models_come_with_their_names_and_before_the_ways(folders):
    base, child, _ = folders
    candidate = model("org/child", child, notes=("b.bin was not read",), variants={HOW: model("org/child", child)})
    _, notes = judged_every_way(model("org/base", base, notes=("a.bin was not read",)), candidate, OPTIONS)
    assert notes[:2] == ("org/base: a.bin was not read", "org/child: b.bin was not read")
    assert len(notes) == 3


def test_a_base_that_could_not_be_opened_is_its_own_verdict_however_the_model_loads(folders):
    gone = Verdict(Kind.UNVERIFIABLE, "org/base is gated")
    candidate = model("org/child", folders[1], variants={HOW: gone}, notes=("x was not read",))
    assert judged_every_way(gone, candidate, OPTIONS) == (gone, ("org/child: x was not read",))


def test_a_model_that_could_not_be_opened_has_no_notes(folders):
    broken = Verdict(Kind.UNREADABLE, "org/child is truncated")
    assert judged_every_way(model("org/base", folders[0]), broken, OPTIONS) == (broken, ())
