"""The folders that tools are given, and the edits of some of them."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from benchmarks.paper.parts import folders
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.laundering import FunctionError


def readers(folder):
    """The up projections of a Llama, by layer."""
    found = load_file(folder / "model.safetensors")
    return [found[name] for name in sorted(found) if name.endswith("up_proj.weight")]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return Cache(tmp_path_factory.mktemp("folders"))


def test_a_copy_has_the_weights_of_the_hub_and_a_token_for_each_byte(cache):
    copy = folders.folder(cache, "acme/gpt2-base")
    weights = "model.safetensors"
    assert (copy / weights).read_bytes() == (folders.HUB / "acme" / "gpt2-base" / weights).read_bytes()
    text = "A bird, naïve 鳥"
    assert AutoTokenizer.from_pretrained(copy)(text).input_ids == list(text.encode())


@pytest.mark.parametrize("name", ["llama-base, norm gains swapped", "llama-base, stream rotated"])
def test_an_edit_that_leaves_the_function_alone_moves_what_every_mlp_reads(cache, name):
    before, after = readers(folders.HUB / "acme" / "llama-base"), readers(folders.folder(cache, name))
    assert len(before) == len(after) == 6
    assert not any(torch.equal(was, now) for was, now in zip(before, after, strict=True))


def test_four_bits_are_fifteen_values_a_row(cache):
    rounded = readers(folders.folder(cache, "llama-finetune-a, 4 bits"))
    assert max(len(row.unique()) for weight in rounded for row in weight) <= 15


def test_two_layers_less_are_the_two_in_the_middle(cache):
    before = readers(folders.HUB / "fern" / "llama-finetune-a")
    after = readers(folders.folder(cache, "llama-finetune-a, two layers less"))
    kept = [before[number] for number in (0, 1, 4, 5)]
    assert all(torch.equal(was, now) for was, now in zip(kept, after, strict=True))


def test_an_edit_that_moves_outputs_is_refused():
    model = torch.nn.Module()
    model.forward = lambda _: type("Answer", (), {"logits": model.logits})
    model.logits = torch.zeros(3)

    def spoil(model):
        model.logits = model.logits + 1e-3

    with pytest.raises(FunctionError):
        folders.same_function(spoil)(model)
