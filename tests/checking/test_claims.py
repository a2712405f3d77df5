"""Rows: every claim gets one, and what is wrong with a base is the verdict of its row alone."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hf_lineage import Options, check, compare, extract
from hf_lineage.checking.claims import Request, as_merge, judge_claim, opened_candidate
from hf_lineage.checking.result import NAMED
from hf_lineage.claims.sources import Claim
from hf_lineage.errors import CheckpointError
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import RepoRef
from hf_lineage.signature.store import save_signature
from tests.adapters import pair, written
from tests.models import EXAMPLES, WEIGHTS, card, edit_json, family, fine_tuned, spoil, tiny_llama

WHY = "the weights are stored as EXL2, which is not decoded; check the release in F16, BF16 or F32 instead"


@pytest.fixture
def models(tmp_path):
    base = tiny_llama(tmp_path / "base")
    return base, fine_tuned(base, tmp_path / "child")


def row(base, child, sources=NAMED, **said):
    """What is judged of a claim about a base, which a user made unless there are sources."""
    claim = Claim(str(base), None, sources, **said)
    return judge_claim(opened_candidate(RepoRef(str(child), child), Options()), claim, Request([claim], Options()))


def test_a_row_says_where_it_comes_from_and_one_without_a_usable_base_is_undecided(models):
    base, child = models
    found = row(base, child)
    assert (found.verdict.code, found.layers, found.traffic) == ("inherited", 2, {})
    assert found.base_origin is found.model_origin
    base, child = models
    found = row("acme/x", child, problem="two bases are named")
    assert (found.verdict, found.layers) == (Verdict(Code.NO_BASE, "two bases are named"), None)
    assert row(base, base, sources=("README.md: base_model",)).verdict.code == "no-base"
    assert row(base, base).verdict.code == "inherited"
    (child / WEIGHTS).write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):  # that of a base would be a verdict
        row(base, child)


def test_only_the_parents_of_a_merge_are_judged_together(models):
    base, child = models
    alone = row(base, child)
    merge = replace(alone, claim=replace(alone.claim, relation="merge"))
    assert as_merge([alone], 0.5) == (alone,)
    assert as_merge([alone, merge], 0.5)[0] is alone
    verified = replace(merge, verdict=replace(merge.verdict, code=Code.MERGE))
    assert as_merge([alone, merge, merge], 0.5)[1:] == (verified, verified)


@pytest.mark.long
def test_a_base_with_another_name_on_the_hub_is_compared_and_the_row_says_so(server):
    server.hub.renamed["acme/former"] = "acme/base"
    (row,) = check("fern/child", "acme/former").rows
    said = "the Hub leads from acme/former to acme/base, and acme/base was compared: name it in the card"
    assert (row.verdict.code, row.notes[-1]) == ("inherited", said)
    (row,) = check("fern/child").rows
    assert not [note for note in row.notes if "leads from" in note]


def test_a_signature_is_judged_on_the_bases_that_the_user_names_and_declares_none(tmp_path):
    base, file = EXAMPLES / "acme/llama-base", tmp_path / "child.lineage.safetensors"
    save_signature(extract(EXAMPLES / "fern/llama-finetune-a"), file)
    report = check(file, base)
    assert ([row.verdict.code for row in report.rows], report.source, report.notes) == (["inherited"], None, ())
    assert check(file).rows == ()
    assert [row.verdict.code for row in compare(base, file).rows] == ["inherited"]
    save_signature(extract(base), tmp_path / "base.lineage.safetensors")
    (row,) = compare(tmp_path / "base.lineage.safetensors", EXAMPLES / "otter/llama-independent").rows
    verdict = row.verdict
    assert (verdict.code, verdict.unit_comparison, verdict.evidence["mlp"].further) == ("unrelated", None, 0)


def with_adapter(folder):
    return written(folder, pair("model.layers.0.mlp.up_proj", 48, 32), base_model_name_or_path="acme/base")


def checked(hub):
    return check("fern/child", "acme/base", Options(local_hub=hub))


def both_ways(hub):
    return checked(hub), compare(hub / "acme/base", hub / "fern/child")


def test_an_adapter_in_a_folder_beside_a_model_is_named_and_not_judged(tmp_path):
    hub = family(tmp_path)
    with_adapter(hub / "fern/child/lora_adapter")
    for report in both_ways(hub):
        assert [row.verdict.code for row in report.rows] == ["inherited"]
        assert report.notes == ("lora_adapter/ holds an adapter that was not judged: check it by itself",)
    with_adapter(hub / "fern/child/b")
    assert checked(hub).notes == ("b/ and 1 more hold adapters that were not judged: check each by itself",)


@pytest.mark.parametrize("weights", ["adapter_model.safetensors", "adapter_model.bin"])
def test_an_adapter_beside_the_weights_leaves_the_claim_open_and_says_what_to_do(tmp_path, weights):
    hub = family(tmp_path)
    child = with_adapter(hub / "fern/child")
    (child / "adapter_model.safetensors").rename(child / weights)
    for (row,) in (report.rows for report in both_ways(hub)):
        said = "holds an adapter beside its weights, which transformers applies where peft is installed: merge it into"
        assert row.verdict.code == "ambiguous"
        assert row.verdict.reason.endswith(f"{said} the weights, or remove it")
    (child / weights).unlink()
    assert checked(hub).rows[0].verdict.code == "inherited"


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """Return what checks fern/child, whose base acme/packed says that it is acme/base in a form that is not decoded."""
    monkeypatch.chdir(tmp_path)
    base, folder = tiny_llama(tmp_path / "acme/base"), tiny_llama(tmp_path / "acme/packed", seed=9)
    rows = {"model.layers.0.mlp.up_proj.q_invperm": torch.ones(8, dtype=torch.int32)}
    edit_json(spoil(folder, lambda own: own.update(rows)) / "config.json", quantization_config={"quant_method": "exl2"})
    card(folder, "acme/base", "quantized")
    card(fine_tuned(base, tmp_path / "fern/child"), "acme/packed", "finetune")

    def judged():
        (row,) = check("fern/child", options=Options(local_hub=tmp_path)).rows
        assert (row.verdict.code, row.verdict.exit_code, dict(row.verdict.evidence)) == ("unsupported", 3, {})
        return row.verdict.reason

    return judged


def test_the_one_base_that_an_unreadable_base_declares_or_its_class_is_named(packed):
    card(Path("acme/packed"), "acme/base")
    assert packed() == f"acme/packed: {WHY}; name its base: --base acme/base"
    for declared in (None, ["acme/base", "acme/other"], "/home/me/base", "./acme/base"):
        card(Path("acme/packed"), declared)
        assert packed() == f"acme/packed: {WHY}"
    edit_json(Path("acme/base/config.json"), architectures=["YiForCausalLM"], model_type="Yi")
    card(Path("acme/base"), str(tiny_llama(Path("acme/first"))))
    card(Path("fern/child"), "acme/base")
    said = packed()
    assert ("--as LlamaForCausalLM" in said, "name its base" in said) == (True, False)
