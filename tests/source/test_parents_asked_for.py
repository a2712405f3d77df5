"""Parents that somebody names to a check: copies, those on one line, those that cannot be read, and many of them."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage import Options, check
from tests.adapters import WEIGHTS as ADAPTER
from tests.blends import BASE, B, blended
from tests.models import EXAMPLES, WEIGHTS, card, fine_tuned, tiny_llama


@pytest.fixture
def blends(tmp_path):
    """A local hub of a base, its fine-tune and the blend of both, whose card names the base alone."""
    for name in (BASE, B):
        shutil.copytree(EXAMPLES / name, tmp_path / name)
    blended(tmp_path / "wren/rio", {BASE: 0.43, B: 0.57})
    return tmp_path


def asked(hub, *bases, model="wren/rio"):
    return check(model, (BASE, *bases), Options(local_hub=hub, seed=0))


def told(report):
    return " ".join(report.to_text(explain=True).split())


@pytest.mark.long
def test_a_copy_of_a_parent_hides_nobody(blends):
    shutil.copytree(blends / B, blends / "mirror/of-b")
    report = asked(blends, "mirror/of-b", B)
    assert (report.undeclared, report.exit_code) == (("mirror/of-b",), 3)
    assert f"what {B} gave cannot be told: it equals another parent, or a combination of others" in told(report)


@pytest.mark.long
def test_a_parent_that_is_named_counts_before_its_copy(blends):
    shutil.copytree(blends / B, blends / "mirror/of-b")
    card(blends / "wren/rio", [BASE, "mirror/of-b"], "merge")
    report = asked(blends, B, "mirror/of-b")
    assert (report.undeclared, report.exit_code) == ((), 0)


@pytest.mark.long
def test_of_three_on_one_line_the_first_two_have_shares_and_it_is_said_that_the_third_cannot_be_told(blends):
    for name, share in (("wren/half", 0.5), ("wren/rio32", 0.57)):
        blended(blends / name, {BASE: 1 - share, B: share}, torch.float32)
    report = asked(blends, B, "wren/half", model="wren/rio32")
    assert report.undeclared == (B,)
    assert "what wren/half gave cannot be told: it equals another parent, or a combination of others" in told(report)
    assert "the weights do not tell whether the model is a blend with" in told(report)


@pytest.mark.long
def test_of_a_base_and_a_part_of_its_own_fine_tune_nothing_is_told_but_the_line(blends):
    blended(blends / "wren/half", {BASE: 0.5, B: 0.5})
    report = asked(blends, "wren/half")
    assert report.undeclared == (), "further along the line is no blend"


@pytest.mark.long
def test_parents_that_cannot_be_read_or_have_other_shapes_and_ten_of_them_cost_no_number(blends, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    tiny_llama(blends / "bad/wide", seed=5, width=64)
    (tiny_llama(blends / "bad/gone") / WEIGHTS).unlink()
    shutil.copytree(blends / B, blends / "bad/cut")
    with (blends / "bad/cut" / WEIGHTS).open("r+b") as stream:
        stream.truncate(1000)
    for number in range(5):
        fine_tuned(blends / B, blends / f"kin/{number}", noise=0.3, seed=number)
    bad, kin = ("bad/wide", "bad/gone", "bad/cut", "bad/nowhere"), [f"kin/{number}" for number in range(5)]
    report = asked(blends, B, *bad, *kin)
    assert report.undeclared == (B,)
    assert [row.verdict.is_related for row in report.rows[2:6]] == [False] * 4
    shares = dict(zip(report.blended.parents, report.blended.blend.shares.parents, strict=True))
    assert (shares[BASE].value, shares[B].value) == pytest.approx((0.43, 0.57), abs=0.01)
    assert report.exit_code == 2, "a base that is damaged outranks what is not declared"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.few(1)
def test_one_adapter_that_two_people_merged_at_other_strengths_makes_nobody_a_parent(tmp_path, monkeypatch, dtype):
    shutil.copytree(EXAMPLES / BASE, tmp_path / BASE)
    base, factors = load_file(EXAMPLES / BASE / WEIGHTS), load_file(EXAMPLES / "fern/llama-lora" / ADAPTER)

    def merged(folder, strength):
        tensors = {name: tensor.float() for name, tensor in base.items()}
        for name, down in factors.items():
            if ".lora_A." in name:
                key = name.removeprefix("base_model.model.").replace(".lora_A", "")
                tensors[key] += strength * factors[name.replace("lora_A", "lora_B")].float() @ down.float()
        shutil.copytree(EXAMPLES / BASE, folder, ignore=shutil.ignore_patterns("README.md"))
        save_file({name: tensor.to(dtype) for name, tensor in tensors.items()}, folder / WEIGHTS)
        return card(folder, [BASE], "finetune")

    merged(tmp_path / "wren/twice", 2.0)
    merged(tmp_path / "robin/once", 1.0)
    report = asked(tmp_path, "wren/twice", model="robin/once")
    assert (report.undeclared, report.exit_code) == ((), 0)
    assert "as one adapter that was merged at several strengths" in told(report)
    assert "nothing was trained after" not in told(report)
    if dtype is torch.float32:
        monkeypatch.setattr("hf_lineage.evidence.merge.is_low_rank", lambda *_: False)
        assert asked(tmp_path, "wren/twice", model="robin/once").undeclared == ("wren/twice",)
