"""Ancestors: a base that cannot be compared is passed over for the one that it declares, and that verifies nothing."""

import json

import pytest
import torch

from hf_lineage import Options, check
from hf_lineage.checking.judge.claims import MOST, through
from hf_lineage.checking.results.claim_result import Step
from hf_lineage.evidence.judging.evaluation import judge_merge
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.report import FORMATS, renderer
from tests.invoking import lineage
from tests.models import WEIGHTS, card, edit_json, fine_tuned, spoil, tiny_llama

WHY = "the weights are stored as EXL2, which is not decoded; check the release in F16, BF16 or F32 instead"
STEP = Step("a/x", None, "why", "a/base", ("README.md",))


def unreadable(folder, base=None):
    """A model that is stored in a way that is not decoded, and that declares this base."""
    tiny_llama(folder, seed=9)

    def pack(tensors):
        tensors["model.layers.0.mlp.up_proj.q_invperm"] = torch.ones(8, dtype=torch.int32)

    edit_json(spoil(folder, pack) / "config.json", quantization_config={"quant_method": "exl2"})
    return card(folder, base, "quantized")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """acme/base; acme/packed, which says it is that quantized; fern/child and otter/other, which declare the latter."""
    monkeypatch.chdir(tmp_path)
    base = tiny_llama(tmp_path / "acme/base")
    unreadable(tmp_path / "acme/packed", "acme/base")
    card(fine_tuned(base, tmp_path / "fern/child"), "acme/packed", "finetune")
    card(tiny_llama(tmp_path / "otter/other", seed=5), "acme/packed", "finetune")
    return tmp_path


def row(hub, model="fern/child", **options):
    (one,) = check(model, options=Options(local_hub=hub, order_seed=0, **options)).rows
    return one


def test_the_base_of_the_base_is_compared_and_the_claim_is_not_verified(hub):
    judged = row(hub)
    assert (judged.verdict.name, judged.verdict.kind, judged.verdict.verified) == ("RELATED", Kind.INDIRECT, False)
    assert judged.verdict.exit_code == 3
    assert judged.verdict.by_path["mlp"].kind is Kind.INDIRECT
    assert judged.compared == "acme/base"
    assert judged.steps == (Step("acme/packed", None, WHY, "acme/base", ("README.md",)),)
    assert judged.verdict.reason == (
        f"hf-lineage compared acme/base instead of acme/packed: acme/packed could not be compared ({WHY}), and its "
        "README.md declares acme/base. The card says so, and nobody checked it"
    )


def test_no_option_makes_it_count(hub):
    assert row(hub, accept=("part", "basis"), min_share=0.01).verdict.exit_code == 3


def test_a_model_that_is_unrelated_to_the_base_of_its_base_is_not_contradicted(hub):
    """Its own base may be what its card does not say."""
    judged = row(hub, "otter/other")
    assert (judged.verdict.name, judged.verdict.exit_code, judged.verdict.verified) == ("INCONCLUSIVE", 3, False)
    assert judged.verdict.reason.startswith("UNRELATED to acme/base, which was compared in place of acme/packed: ")
    assert judged.verdict.by_path["mlp"].name == "INCONCLUSIVE"


def test_every_report_names_what_was_compared(hub):
    report = check("fern/child", options=Options(local_hub=hub, order_seed=0))
    for form in FORMATS:
        if form == "checksums":
            continue
        shown = " ".join(renderer(form)(report, False).split()).replace("&#47;", "/")
        assert "acme/base" in shown, form


def test_json_has_every_step(hub):
    result = lineage("check", "fern/child", "--local-hub", hub, "--format", "json")
    (claim,) = json.loads(result.out)["claims"]
    assert (result.code, claim["verified"], claim["kind"]) == (3, False, "indirect")
    assert (claim["base"], claim["compared"]) == ("acme/packed", "acme/base")
    said = {"base": "acme/packed", "commit": None, "reason": WHY, "declares": "acme/base", "sources": ["README.md"]}
    assert claim["steps"] == [said]


def test_the_card_says_that_nothing_is_verified(hub):
    result = lineage("annotate", hub / "fern/child", "--local-hub", hub, "--write")
    text = (hub / "fern/child/README.md").read_text(encoding="utf-8").replace("\\", "")
    assert result.code == 0, result
    assert "RELATED indirectly (not verified)" in text
    assert "hf-lineage compared acme/base instead of acme/packed" in text


def test_a_famous_name_in_the_card_of_the_base_verifies_nothing(hub):
    """The base has nothing to do with the model that its card names, from which the child was made all the same."""
    card(unreadable(hub / "evil/packed"), "acme/base", "quantized")
    card(hub / "fern/child", "evil/packed", "finetune")
    judged = row(hub)
    assert (judged.verdict.verified, judged.verdict.exit_code, judged.compared) == (False, 3, "acme/base")


def test_several_steps_are_followed_each_named(hub):
    for number in range(1, MOST):
        unreadable(hub / f"acme/p{number}", f"acme/p{number - 1}" if number > 1 else "acme/base")
    card(hub / "fern/child", f"acme/p{MOST - 1}")
    judged = row(hub)
    assert judged.verdict.kind is Kind.INDIRECT
    assert [step.base for step in judged.steps] == [f"acme/p{number}" for number in range(MOST - 1, 0, -1)]
    assert judged.compared == "acme/base"


def test_more_steps_than_a_few_are_not_followed(hub):
    for number in range(1, MOST + 2):
        unreadable(hub / f"acme/p{number}", f"acme/p{number - 1}" if number > 1 else "acme/base")
    card(hub / "fern/child", f"acme/p{MOST + 1}")
    judged = row(hub)
    assert (judged.verdict.name, judged.steps) == ("UNVERIFIABLE", ())
    assert any(f"{MOST} bases before it could not be compared either" in note for note in judged.notes)


NOWHERE = {
    "itself": ("acme/packed", "it declares acme/packed, which leads back to it"),
    "the model that is checked": ("fern/child", "it declares fern/child, the model that is checked"),
    "a path": (
        "/home/me/base",
        "it declares /home/me/base: it is a path on the machine that trained the model, not a name",
    ),
    "a folder beside": ("./acme/base", "it declares ./acme/base: it is a path on the machine"),
    "several": (["acme/base", "acme/other"], "it declares 2 bases"),
    "a damaged one": ("acme/damaged", "acme/damaged"),
}


@pytest.mark.parametrize(("declared", "said"), NOWHERE.values(), ids=NOWHERE)
def test_what_leads_nowhere_is_not_followed_and_said(declared, said, hub):
    (tiny_llama(hub / "acme/damaged") / WEIGHTS).write_bytes(b"no weights")
    card(hub / "acme/packed", declared)
    judged = row(hub)
    assert (judged.verdict.name, judged.verdict.reason, judged.steps) == ("UNVERIFIABLE", f"acme/packed: {WHY}", ())
    (note,) = judged.notes
    assert note.startswith("acme/packed: its own base was not compared in its place: ")
    assert said in note


def test_two_bases_that_declare_each_other_end_the_way(hub):
    unreadable(hub / "acme/second", "acme/packed")
    card(hub / "acme/packed", "acme/second")
    judged = row(hub)
    assert (judged.verdict.name, judged.steps) == ("UNVERIFIABLE", ())
    assert any("it declares acme/packed, which leads back to it" in note for note in judged.notes)


def test_a_base_that_declares_none_is_unverifiable_as_before(hub):
    card(hub / "acme/packed")
    judged = row(hub)
    assert (judged.verdict.name, judged.verdict.reason, judged.notes) == ("UNVERIFIABLE", f"acme/packed: {WHY}", ())


def test_a_base_of_an_unknown_class_is_not_passed_over(hub):
    edit_json(hub / "acme/base/config.json", architectures=["YiForCausalLM"], model_type="Yi")
    tiny_llama(hub / "acme/first")
    card(hub / "acme/base", "acme/first")
    card(hub / "fern/child", "acme/base")
    judged = row(hub)
    assert (judged.verdict.name, judged.steps) == ("UNVERIFIABLE", ())
    assert "--as LlamaForCausalLM" in judged.verdict.reason


def test_parents_of_a_merge_that_are_related_indirectly_do_not_verify_each_other():
    indirect = Verdict(Kind.INDIRECT)
    assert judge_merge([indirect, indirect]) == [indirect, indirect]


def test_a_verdict_on_the_base_itself_stays_as_it_is():
    for outcome in (Verdict(Kind.RELATED), Verdict(Kind.UNRELATED), Verdict(Kind.INCOMPATIBLE, "widths")):
        assert through(outcome, ()) is outcome
    assert through(Verdict(Kind.INCOMPATIBLE, "widths"), (STEP,)) == Verdict(
        Kind.INCOMPATIBLE, "widths; a/x could not be compared (why), and its README.md declares a/base"
    )
