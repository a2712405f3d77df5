"""What two models of the Hub have in common as stored is told before a weight is read, and verifies nothing."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage import Options, check
from hf_lineage.checking.relation.copies import part_of
from hf_lineage.evidence.derivation import Part
from tests.gguf_models import write
from tests.models import WEIGHTS, card, fine_tuned, spoil, tiny_llama
from tests.server import serving
from tests.server.answers import Answer, json_answer
from tests.server.client import connect

LAYERS, WIDTH, CHUNK = 8, 64, 64
HEAD = 2**15
"""Bytes that are read of a file when it is opened."""
QUICK = Options(order_seed=1)
TERMS = "reconstructions"


@pytest.fixture
def base(tmp_path):
    return tiny_llama(tmp_path / "base", layers=LAYERS, width=WIDTH)


@pytest.fixture
def judge(base, tmp_path, monkeypatch):
    """Check a release against the base, both on one Hub that stores files as chunks; return its row."""
    with serving() as hub:
        hub.chunk = CHUNK

        def judged(folder, declared="acme/base", source=base, options=QUICK):
            hub.publish("acme/base", source)
            hub.publish("fern/release", card(folder, declared))
            connect(hub, tmp_path / "cache", monkeypatch)
            row, *_ = check("fern/release", options=options).rows
            return row

        judged.hub = hub
        yield judged


@pytest.fixture
def release(base, tmp_path):
    """Make a release of the base: its tensors go through a function, and are written to so many files."""

    def made(change=lambda tensors: tensors, files=1, **config):
        folder = shutil.copytree(base, tmp_path / "release")
        (folder / WEIGHTS).unlink()
        tensors = change(load_file(base / WEIGHTS))
        names = sorted(tensors)
        shards = {f"part-{number}.safetensors": names[number::files] for number in range(files)}
        for file, own in shards.items():
            save_file({name: tensors[name] for name in own}, folder / file, {"format": "pt", "by": "another tool"})
        index = {name: file for file, own in shards.items() for name in own}
        (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": index}), encoding="utf-8")
        said = json.loads((folder / "config.json").read_text("utf-8")) | config
        (folder / "config.json").write_text(json.dumps(said), encoding="utf-8")
        return folder

    return made


def trained(tensors, of=lambda name: True):
    """Some of the tensors moved by a little, as training does."""
    stream = torch.Generator().manual_seed(5)
    return {
        name: tensor + 0.1 * tensor.std() * torch.randn(tensor.shape, generator=stream)
        if tensor.ndim > 1 and of(name)
        else tensor
        for name, tensor in tensors.items()
    }


def doubled(tensors):
    """The middle layers twice, as a pass-through merge stacks them."""
    order = (*range(6), *range(2, 8))
    kept = {name: tensor for name, tensor in tensors.items() if ".layers." not in name}
    for new, old in enumerate(order):
        start = f"model.layers.{old}."
        kept |= {
            f"model.layers.{new}.{name.removeprefix(start)}": tensor.clone()
            for name, tensor in tensors.items()
            if name.startswith(start)
        }
    return kept


def test_a_model_in_other_files_is_related_by_the_listing_and_no_weights_are_read(judge, release):
    row = judge(release(files=3))
    assert row.verdict.words == "RELATED by the listing"
    assert row.verdict.reason.startswith("all 8 layers hold the bytes of layers of acme/base")
    assert (row.verdict.verified, row.verdict.exit_code) == (False, 3)
    assert judge.hub.moved() <= 4 * HEAD
    assert row.verdict.copies.share > 0.95


def test_a_gguf_whose_metadata_was_rewritten_is_related_by_the_listing(judge, base, tmp_path):
    ours = write(base, tmp_path / "ours" / "model.gguf").parent
    theirs = write(base, tmp_path / "theirs" / "model.gguf", said={"general.name": "Another " * 100}).parent
    row = judge(theirs, source=ours)
    assert row.verdict.words == "RELATED by the listing"
    assert judge.hub.moved() <= 2 * (HEAD + 2**16)


def test_a_pass_through_merge_is_related_by_the_listing_with_the_layers_that_it_took(judge, release):
    row = judge(release(doubled, num_hidden_layers=12))
    assert row.verdict.words == "RELATED by the listing"
    sources = {name: source.part.name for name, source in row.verdict.copies.layers.items()}
    assert sources["model.layers.5"] == "model.layers.5"
    assert sources["model.layers.11"] == "model.layers.7"
    assert judge.hub.moved() <= 2 * HEAD


def test_a_frozen_embedding_is_named_and_the_weights_decide(judge, release):
    row = judge(release(lambda tensors: trained(tensors, lambda name: ".layers." in name)))
    assert row.verdict.words == "RELATED"
    assert row.verdict.verified
    assert list(row.verdict.copies.copied) == [Part("model.embed_tokens.weight", False)]


def test_a_graft_is_named_and_the_weights_decide(judge, release):
    grafted = ".layers.2.", ".layers.3."
    row = judge(release(lambda tensors: trained(tensors, lambda name: not any(one in name for one in grafted))))
    assert set(row.verdict.copies.layers) == {"model.layers.2", "model.layers.3"}
    assert row.verdict.verified


def test_a_full_fine_tune_falls_through_to_its_weights_at_four_small_requests_more(judge, base, tmp_path):
    """Two to the Hub, and one for each file to its storage."""
    folder = fine_tuned(base, tmp_path / "child")
    row = judge(folder)
    assert (row.verdict.words, row.verdict.verified, row.verdict.copies) == ("RELATED", True, None)
    assert sum("xet-read-token" in request for request in judge.hub.requests) == 2
    assert sum(TERMS in place for place in judge.hub.sent) == 2


def test_the_chunks_of_a_model_that_declares_two_bases_are_asked_for_once(judge, base, tmp_path):
    judge.hub.publish("acme/other", tiny_llama(tmp_path / "other", seed=9, layers=LAYERS, width=WIDTH))
    judge(fine_tuned(base, tmp_path / "child"), declared=["acme/base", "acme/other"])
    assert sum("fern/release/xet-read-token" in request for request in judge.hub.requests) == 1
    assert sum(TERMS in place for place in judge.hub.sent) == 3


def test_an_independent_model_has_nothing_in_common(judge, tmp_path):
    row = judge(tiny_llama(tmp_path / "other", seed=9, layers=LAYERS, width=WIDTH))
    assert (row.verdict.words, row.verdict.copies) == ("UNRELATED", None)


def test_layers_of_zeros_show_no_copy(judge, base, tmp_path):
    """Chunks of zeros are the same in every model."""

    def emptied(tensors):
        for name in tensors:
            if ".layers." in name and ("2" in name or "3" in name) and tensors[name].ndim > 1:
                tensors[name] = torch.zeros_like(tensors[name])

    other = spoil(tiny_llama(tmp_path / "other", seed=9, layers=LAYERS, width=WIDTH), emptied)
    row = judge(other, source=spoil(base, emptied))
    assert row.verdict.copies is None


def test_files_of_the_base_that_the_index_does_not_name_show_nothing(judge, base, tmp_path):
    """Only what a loader reads counts."""
    other = tiny_llama(tmp_path / "other", seed=9, layers=LAYERS, width=WIDTH)
    index = dict.fromkeys(load_file(other / WEIGHTS), WEIGHTS)
    (other / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": index}), encoding="utf-8")
    shutil.copy(base / WEIGHTS, other / "model-00001-of-00002.safetensors")
    row = judge(other)
    assert (row.verdict.is_related, row.verdict.copies) == (False, None)


def test_a_storage_that_lies_verifies_nothing(judge, base, tmp_path):
    """It says that an independent model is made of the base's chunks: that is believed as a listing, and no further."""
    other = tiny_llama(tmp_path / "other", seed=9, layers=LAYERS, width=WIDTH)
    size = (base / WEIGHTS).stat().st_size
    assert (other / WEIGHTS).stat().st_size == size
    term = {"hash": "a" * 64, "unpacked_length": size, "range": {"start": 0, "end": 999}}
    judge.hub.plan(lambda _right: json_answer({"terms": [term]}), TERMS, times=2)
    row = judge(other)
    assert row.verdict.words == "RELATED by the listing"
    assert (row.verdict.verified, row.verdict.exit_code) == (False, 3)
    shutil.rmtree(tmp_path / "cache")
    judge.hub.plan(lambda _right: json_answer({"terms": [term]}), TERMS, times=2)
    assert judge(other, options=Options(order_seed=1, budget="full")).verdict.words == "UNRELATED"


def test_a_storage_that_contradicts_itself_says_nothing(judge, release):
    """The same chunks cannot have two sizes."""
    folder = release(files=1)
    terms = [
        {"hash": "a" * 64, "unpacked_length": length, "range": {"start": 0, "end": 9}}
        for length in (1000, (folder / "part-0.safetensors").stat().st_size - 1000)
    ]
    judge.hub.plan(lambda _right: json_answer({"terms": terms}), TERMS, times=2)
    row = judge(folder)
    assert (row.verdict.verified, row.verdict.copies) == (True, None)


@pytest.mark.parametrize("said", [Answer(401), Answer(404), Answer(500), Answer(0)], ids=str)
def test_without_an_answer_the_weights_are_read(judge, release, said):
    judge.hub.plan(lambda _right: said, TERMS, times=9)
    row = judge(release(files=2))
    assert (row.verdict.verified, row.verdict.copies) == (True, None)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model.layers.3.mlp.up_proj.weight", Part("model.layers.3", True)),
        ("model.layers.3.mlp.experts.7.up_proj.weight", Part("model.layers.3", True)),
        ("encoder.block.0.layer.1.wi.weight", Part("encoder.block.0", True)),
        ("blk.12.ffn_up.weight", Part("blk.12", True)),
        ("h.1.mlp.c_fc.weight", Part("h.1", True)),
        ("lm_head.weight", Part("lm_head.weight", False)),
        ("conv1.weight", Part("conv1.weight", False)),
    ],
)
def test_a_tensor_belongs_to_the_layer_whose_number_comes_first_in_its_name(name, part):
    assert part_of(name) == part
