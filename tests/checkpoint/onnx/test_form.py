"""Models in ONNX: a true descendant is RELATED, an independent one in the same clothes is not."""

import os
import shutil
import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hf_lineage import Options
from hf_lineage.architecture.registry import lookup
from hf_lineage.checkpoint.foreign_form import Piece, name_in_out, split_rows
from hf_lineage.checkpoint.onnx.form import name_tensors, onnx_form, read_graph
from hf_lineage.checkpoint.weight_files import foreign_model, weight_files
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.repo import RepoRef, resolve
from hf_lineage.source.config import read_config
from hf_lineage.source.headers import read_headers
from tests import onnx_models
from tests.checkpoint.gguf.test_form import ALL, BASES, CHILDREN, scores, verdict
from tests.checkpoint.onnx.test_header import graph
from tests.checkpoint.onnx.test_weights import product
from tests.conformance.models import tiny_model
from tests.long import first_of
from tests.models import fine_tuned, open_checkpoint
from tests.onnx_models import QUANTIZATIONS

LISTED = ("LlamaForCausalLM", "GPT2LMHeadModel", "BertModel", "Phi3ForCausalLM")
LLAMA, GPT2, BERT, PHI3 = (lookup({"architectures": [name]})[1] for name in LISTED)
CONFIG = {"num_attention_heads": 4, "num_key_value_heads": 2}
FILE = "onnx/model.onnx"
STORED = [(name, how) for how in ("8 bits", "4 bits") for name in CHILDREN]
OTHER_QUANTIZATIONS = [("llama", how) for how in QUANTIZATIONS if how not in ("8 bits", "4 bits")]
BART: Any = ("BartForConditionalGeneration", {}, "model.encoder.", "model.decoder.")
T5 = ("T5ForConditionalGeneration", {"feed_forward_proj": "relu"}, "encoder.", "decoder.")
OUTSIDE_FILE = {"save_as_external_data": True, "location": "model.onnx_data", "size_threshold": 0}
OUTSIDE = ["../model.onnx_data", "/etc/passwd", "a/../../x", "..\\x", "C:\\x", ".hidden", "a//b", "", "a/b/c/d/e/f"]


def names(factorization, *stored, config=CONFIG, shape=(8, 4)):
    return [piece.name for piece in name_tensors(factorization, dict.fromkeys(stored, shape), config)]


def test_shortened_names_are_whole_joined_matrices_split_by_heads_others_turned():
    own = ["embeddings.word_embeddings.weight", "encoder.layer.0.intermediate.dense.weight", "pooler.dense.bias"]
    for prefix in ("", "inner.", "model.0.auto_model.", "model."):  # what wraps the model
        assert names(BERT, *(prefix + name for name in own)) == own
    stored = [f"model.layers.0.{matrix}.weight" for matrix in ("attn.q_proj", "attn.o_proj", "mlp.up_proj")]
    assert names(LLAMA, *stored) == [name.replace(".attn.", ".self_attn.") for name in stored]
    assert names(GPT2, "transformer.h.0.attn.c_proj.weight") == ["transformer.h.0.attn.c_proj.weight"]
    joined, rows = "model.layers.1.attn.qkv_proj.weight", {"q": (0, 8), "k": (8, 12), "v": (12, 16)}
    pieces = [Piece(f"model.layers.1.self_attn.{role}_proj.weight", joined, ends) for role, ends in rows.items()]
    assert [*name_tensors(LLAMA, {joined: (16, 8)}, CONFIG)] == pieces
    assert names(PHI3, joined) == ["model.layers.1.self_attn.qkv_proj.weight"]
    assert name_in_out(LLAMA) == frozenset()
    assert name_in_out(GPT2) == {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}
    shapes = {"h.0.mlp.c_fc.weight": (16, 4), "h.0.mlp.c_fc.bias": (16,), "wte.weight": (50, 4)}
    assert [piece.turned for piece in name_tensors(GPT2, shapes, {})] == [True, False, False]
    for config in ({}, {"num_attention_heads": "4"}, {"num_attention_heads": True}):
        with pytest.raises(NothingToCompare, match="counts the heads of attention as"):
            names(LLAMA, "model.layers.1.attn.qkv_proj.weight", config=config)
    for rows, heads, groups in ((10, 4, 2), (8, 0, 0), (8, 2, 4), (8, -4, -2), (2**20, 2**19, 1)):
        with pytest.raises(NothingToCompare, match=f"{rows} rows do not make {heads} heads and 2 times {groups}"):
            list(split_rows(rows, heads, groups))


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """Models as ONNX, by name and exporter: the file of each, beside its configuration."""
    made = {}

    def graph(name, dynamo=False):
        if (name, dynamo) not in made:
            source = CHILDREN.get(name)
            folder = tmp_path_factory.mktemp("onnx")
            if name.startswith("bert"):
                base = onnx_models.bert(folder / "base", seed=5 if "independent" in name else 0)
                source = fine_tuned(base, folder / "child") if "child" in name else base
            shutil.copy(source / "config.json", folder / "config.json")
            made[name, dynamo] = (source, onnx_models.exported(source, folder / "model.onnx", dynamo))
        return made[name, dynamo]

    return graph


def again(file, target, how):
    target.mkdir()
    shutil.copy(file.parent / "config.json", target)
    return how(file, target / "model.onnx")


@pytest.mark.parametrize(
    ("name", "dynamo"), first_of([("llama", False), ("gpt2", True), ("llama", True), ("gpt2", False)])
)
def test_a_descendant_exported_by_pytorch_is_related(name, dynamo, graphs):
    source, file = graphs(name, dynamo)
    outcome = verdict(BASES[name], file)
    assert (outcome.code, min(scores(outcome).values()) > 0.95) == ("inherited", True)
    assert min(scores(verdict(source, file)).values()) > 0.99999


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "how"), [*STORED, *OTHER_QUANTIZATIONS])
def test_a_descendant_quantized_by_onnx_runtime_is_related(name, how, graphs, tmp_path):
    source, file = graphs(name)
    bits, quantize = QUANTIZATIONS[how]
    stored = again(file, tmp_path / "child", quantize)
    assert verdict(BASES[name], stored).code == "inherited"
    itself = scores(verdict(source, stored))
    assert min(itself.values()) > {4: 0.97, 8: 0.999}[bits], itself


@pytest.mark.parametrize("dynamo", first_of({"TorchScript": False, "dynamo": True}))
def test_an_encoder_is_related_to_its_base_and_another_one_is_not(dynamo, graphs, tmp_path):
    """Also where its matrices have no name at all, and are found through their biases."""
    base, _ = graphs("bert base")
    for name, code in (("bert child", "inherited"), ("bert independent", "unrelated")):
        _, file = graphs(name, dynamo if code == "inherited" else False)
        bare = again(graphs(name)[1], tmp_path / name, partial(onnx_models.changed, change=onnx_models.bare))
        assert (verdict(base, file).code, verdict(base, bare).code) == (code, code)
    eight = again(graphs("bert child", dynamo)[1], tmp_path / "eight", partial(onnx_models.dynamic, kind="QUInt8"))
    assert verdict(base, eight).code == "inherited"


def test_a_graph_without_a_configuration_is_read_as_the_class_that_the_user_names(graphs, tmp_path):
    base, _ = graphs("bert base")
    _, file = graphs("bert child")
    alone = shutil.copy(file, tmp_path / "model.onnx")
    outcome = verdict(base, alone)
    assert (outcome.code, "--as BertModel" in outcome.reason) == ("unsupported", True)
    heads = {"num_attention_heads": 4, "n_head": 4, "n_heads": 4}
    assert foreign_model(RepoRef("x", tmp_path)).config() == heads
    assert verdict(base, alone, Options(paths=ALL.paths, seed=0, as_class="BertModel")).code == "inherited"


def test_what_leads_to_no_output_of_the_graph_does_not_count(graphs, tmp_path):
    """Matrices of the base that are stored, or multiplied with, beside the model do not make it a descendant."""
    _, base = graphs("bert base")
    _, other = graphs("bert independent")
    for how in (onnx_models.beside, onnx_models.in_a_dead_branch):
        decoy = again(other, tmp_path / how.__name__, lambda source, target, how=how: how(source, base, target))
        assert verdict(graphs("bert base")[0], decoy).code == "unrelated"


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "settings", "encoder", "decoder"), [BART, T5])
def test_an_encoder_and_its_decoder_in_two_files_are_one_model(name, settings, encoder, decoder, tmp_path):
    """The encoder is exported by itself, so nothing stands before its names; the decoder is within the model."""
    tiny_model(name, settings).save_pretrained(tmp_path / "base")
    child = fine_tuned(tmp_path / "base", tmp_path / "child")
    repo = tmp_path / "graphs"
    onnx_models.written(child, repo / "onnx/encoder_model.onnx", within=encoder)
    onnx_models.written(child, repo / "onnx/decoder_model_merged.onnx", within=decoder, before=decoder)
    shutil.copy(child / "config.json", repo)
    outcome = verdict(tmp_path / "base", repo)
    assert outcome.code == "inherited", outcome.reason
    itself, original = (read_headers(read_config(RepoRef("x", folder))) for folder in (repo, child))
    assert itself.layout.widths == original.layout.widths
    assert "onnx/encoder_model.onnx is a graph;" in itself.notes[-1]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "onnx").mkdir()
    return tmp_path


def saved(folder, model, file=FILE, **options):
    onnx.save(model, folder / file, **options)
    return RepoRef("org/model", folder)


def matrix(model):
    return numpy_helper.to_array(model.graph.initializer[0]).T


def beside(folder, location="model.onnx_data"):
    """A model whose numbers are beside it, in a file that may be named otherwise afterwards."""
    model = product()
    expected = matrix(model)
    saved(folder, model, **OUTSIDE_FILE)
    held = onnx.load(folder / FILE, load_external_data=False)
    for entry in held.graph.initializer[0].external_data:
        entry.value = location if entry.key == "location" else entry.value
    (folder / FILE).write_bytes(held.SerializeToString())
    return RepoRef("org/model", folder), expected


def test_matrices_are_read_as_out_in_and_numbers_beside_the_model_are_read_there(folder):
    model = product(bias=True)
    checkpoint = open_checkpoint(saved(folder, model))
    assert checkpoint.shapes == {"up.weight": (24, 40), "up.bias": (24,)}
    np.testing.assert_array_equal(checkpoint.read("up.weight"), matrix(model))
    assert weight_files(RepoRef("org/model", folder)) == [FILE]
    saved(folder, product())
    with pytest.raises(CheckpointError, match="the file changed"):
        checkpoint.read("up.weight")
    repo, expected = beside(folder)
    np.testing.assert_array_equal(open_checkpoint(repo).read("up.weight"), expected)
    assert weight_files(repo) == [FILE, f"{FILE}_data"]


@pytest.mark.parametrize("location", [*OUTSIDE, "x" * 300])
def test_numbers_never_lie_outside_the_repository(folder, location):
    repo, _ = beside(folder, location)
    with pytest.raises(CheckpointError, match=r"not a file beside it; do not trust it|does not say where"):
        open_checkpoint(repo)


def test_numbers_that_are_missing_or_cut_or_behind_a_link_are_one_clear_line(folder, tmp_path_factory):
    beside(folder)
    data, elsewhere = folder / f"{FILE}_data", tmp_path_factory.mktemp("elsewhere") / "secret"
    shutil.copy(data, elsewhere)
    damages = {
        r"model\.onnx_data is truncated: up\.weight ends at byte 3840 of 3839": lambda: os.truncate(data, 3839),
        r"onnx/model\.onnx_data is missing; download it too": data.unlink,
        "is a link out of the model's folder": lambda: data.symlink_to(elsewhere),
    }
    for message, damage in damages.items():
        damage()
        with pytest.raises(CheckpointError, match=message):
            open_checkpoint(RepoRef("org/model", folder))


def changed_product(**changes):
    model = product()
    node = model.graph.node[0]
    for key, value in changes.items():
        setattr(node, key, value)
    return model


def test_of_several_files_the_first_that_can_be_read_is_but_for_damaged_ones(folder):
    repo = saved(folder, changed_product(op_type="Attention", domain="com.microsoft"))
    with pytest.raises(NothingToCompare, match="the operation Attention"):
        open_checkpoint(repo)
    repo = saved(folder, product(), "onnx/model_fp16.onnx")
    assert open_checkpoint(repo).shapes == {"up.weight": (24, 40)}
    assert weight_files(repo) == ["onnx/model_fp16.onnx"]
    pointer = "is a pointer of git-lfs, not the weights; run `git lfs pull` in its folder"
    unreadable = "cannot be read: No such file or directory"
    for content, said in ((b"PK\3\4", "is damaged"), (b"version https", pointer), (None, unreadable)):
        (folder / FILE).write_bytes(content) if content else (folder / FILE).unlink()
        with pytest.raises(CheckpointError, match=rf"^org/model: onnx/model\.onnx {said}"):
            read_graph(RepoRef("org/model", folder), (FILE,))


def test_a_graph_without_matrices_is_not_read_and_a_huge_claim_takes_no_memory(folder):
    bare = changed_product(name="")
    bare.graph.node[0].input[1] = bare.graph.initializer[0].name = "onnx::MatMul_1"
    clash = product()
    clash.graph.node.append(helper.make_node("MatMul", ["x", "onnx::1"], ["y"], name="/up/MatMul"))
    clash.graph.initializer.append(numpy_helper.from_array(np.ones((40, 24), np.float32), "onnx::1"))
    for model, kind, said in (
        (bare, NothingToCompare, "the ONNX graph has 1 matrices whose place in the model is unknown;"),
        (graph(), NothingToCompare, "has no product with a stored matrix;"),
        (clash, CheckpointError, r"org/model: a\.onnx: two matrices of the ONNX graph are up\.weight"),
    ):
        with pytest.raises(kind, match=said):
            onnx_form(saved(folder, model, "a.onnx")).open()
    model = changed_product(op_type="MatMulNBits")
    model.graph.node[0].input.append("up.weight")
    for name, value in (("N", 2**30), ("K", 2**30), ("bits", 4), ("block_size", 32)):
        model.graph.node[0].attribute.append(helper.make_attribute(name, value))
    tracemalloc.start()
    with pytest.raises(CheckpointError):
        onnx_form(saved(folder, model)).open()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**20


def test_on_the_hub_only_the_wanted_numbers_beside_the_graph_are_downloaded(online, folder):
    model = product()
    other = numpy_helper.from_array(np.ones((40, 4096), np.float32), "down.weight")
    model.graph.initializer.append(other)
    model.graph.node.append(helper.make_node("MatMul", ["x", "down.weight"], ["z"], name="/down/MatMul"))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    expected = matrix(model)
    saved(folder, model, **OUTSIDE_FILE)
    (folder / "config.json").write_text("{}")
    online.publish("org/onnx", folder)
    checkpoint = open_checkpoint(resolve("org/onnx"))
    np.testing.assert_array_equal(checkpoint.read("up.weight"), expected)
    checkpoint.release()
    sent = {(part.file, part.start, part.stop) for part in online.parts if part.file.endswith("_data")}
    assert sum(stop - start for _, start, stop in sent) == expected.nbytes
