"""A model, and a signature that stands for one, judged on the bases that are claimed."""

from pathlib import Path

import pytest

from hf_lineage import Options, check, compare, extract
from hf_lineage.signature.store import save_signature
from tests.adapters import pair, written
from tests.models import card, family, fine_tuned, tiny_llama

HUB = Path("examples/hub")
BASE, CHILD = HUB / "acme/llama-base", HUB / "fern/llama-finetune-a"


@pytest.fixture(scope="module")
def signature(tmp_path_factory):
    """The file with the signature of a fine-tuned model."""
    file = tmp_path_factory.mktemp("signatures") / "child.lineage.safetensors"
    save_signature(extract(CHILD), file)
    return file


def test_a_signature_is_judged_on_the_bases_that_the_user_names_and_declares_none(signature):
    report = check(signature, BASE)
    assert ([row.verdict.code for row in report.rows], report.source, report.notes) == (["inherited"], None, ())
    assert check(signature).rows == ()


def test_a_signature_may_be_compared_in_place_of_a_model(signature):
    assert [row.verdict.code for row in compare(BASE, signature).rows] == ["inherited"]


def test_a_model_in_a_folder_of_its_repository_is_compared_with_that_of_the_same_name(tmp_path):
    hub = family(tmp_path)
    for name in ("acme/both", "fern/both"):
        tiny_llama(hub / name / "a", seed=1)
        tiny_llama(hub / name / "b", seed=2)
    options = Options(local_hub=hub, subfolder="b")
    (row,) = compare("acme/both", "fern/both", options).rows
    assert (row.part, row.verdict.code) == ("b", "inherited")


def test_a_card_is_held_against_what_is_stored(tmp_path):
    base = tiny_llama(tmp_path / "acme/base")
    card(fine_tuned(base, tmp_path / "fern/child"), "acme/base", "quantized")
    (note,) = check("fern/child", options=Options(local_hub=tmp_path)).notes
    assert note.startswith("README.md declares the relation quantized, but no tensor is quantized")


def with_adapter(folder):
    return written(folder, pair("model.layers.0.mlp.up_proj", 48, 32), base_model_name_or_path="acme/base")


def test_an_adapter_in_a_folder_beside_a_model_is_named_and_not_judged(tmp_path):
    hub = family(tmp_path)
    with_adapter(hub / "fern/child/lora_adapter")
    for report in (
        check("fern/child", "acme/base", Options(local_hub=hub)),
        compare(hub / "acme/base", hub / "fern/child"),
    ):
        assert [row.verdict.code for row in report.rows] == ["inherited"]
        assert report.notes == ("lora_adapter/ holds an adapter that was not judged: check it by itself",)
    with_adapter(hub / "fern/child/b")
    (note,) = check("fern/child", "acme/base", Options(local_hub=hub)).notes
    assert note == "b/ and 1 more hold adapters that were not judged: check each by itself"


@pytest.mark.parametrize("weights", ["adapter_model.safetensors", "adapter_model.bin"])
def test_an_adapter_beside_the_weights_leaves_the_claim_open_and_says_what_to_do(tmp_path, weights):
    hub = family(tmp_path)
    child = with_adapter(hub / "fern/child")
    (child / "adapter_model.safetensors").rename(child / weights)
    for report in (check("fern/child", "acme/base", Options(local_hub=hub)), compare(hub / "acme/base", child)):
        (row,) = report.rows
        assert row.verdict.code == "ambiguous"
        assert row.verdict.reason.endswith(
            "holds an adapter beside its weights, which transformers applies where peft is installed: merge it into "
            "the weights, or remove it"
        )
    (child / weights).unlink()
    assert check("fern/child", "acme/base", Options(local_hub=hub)).rows[0].verdict.code == "inherited"
