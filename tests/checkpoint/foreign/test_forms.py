"""Which files of a repository are read where transformers would load none of them."""

import json

import numpy as np
import onnx
import pytest

from hf_lineage.checking.source.opening import bound, described
from hf_lineage.checkpoint.files import files_beside, weight_files
from hf_lineage.checkpoint.foreign import forms
from hf_lineage.checkpoint.foreign.form import ForeignForm, ListedForm, parse_once
from hf_lineage.checkpoint.foreign.forms import foreign_model, nameable
from hf_lineage.checkpoint.foreign.onnx.form import GRAPH
from hf_lineage.checkpoint.foreign.pieces import Piece, by_pieces
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.opening import open_checkpoint
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import NothingToCompare, OptionError
from hf_lineage.hub.reference import RepoRef
from tests.checkpoint.foreign.ctranslate2.test_form import written
from tests.checkpoint.foreign.onnx.test_products import product
from tests.models import tiny_llama


@pytest.fixture
def folder(tmp_path):
    """A repository with empty files of these names."""

    def made(*names, file=None):
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(b"")
        return RepoRef("org/model", tmp_path, file=file)

    return made


def chosen(repo):
    """The name of the form in which a repository is read, and the files that were chosen."""
    model = foreign_model(repo)
    return model.form.name, model.files


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (["model.onnx"], ["model.onnx"]),
        (
            [f"onnx/model{end}.onnx" for end in ("", "_bnb4", "_fp16", "_int8", "_q4", "_q4f16", "_quantized")],
            [f"onnx/model{end}.onnx" for end in ("", "_fp16", "_int8", "_quantized", "_q4", "_q4f16", "_bnb4")],
        ),
        (
            [f"onnx/model{end}.onnx" for end in ("_O4", "_O1", "_quint8_avx2", "", "_qint8_avx512_vnni")],
            [f"onnx/model{end}.onnx" for end in ("", "_O1", "_O4", "_qint8_avx512_vnni", "_quint8_avx2")],
        ),
        (["paraphrase-MiniLM-L3-v2.onnx"], ["paraphrase-MiniLM-L3-v2.onnx"]),
        (["onnx/model.onnx", "model.onnx"], ["model.onnx", "onnx/model.onnx"]),
        ([f"decoder_{end}.onnx" for end in ("model", "model_merged", "past")], ["decoder_model_merged.onnx"]),
        (["onnx/model.onnx", "onnx/vision_encoder.onnx"], ["onnx/model.onnx"]),
    ],
)  # fmt: skip
def test_of_several_onnx_files_of_one_model_the_most_precise_comes_first(folder, names, files):
    assert chosen(folder(*names, "config.json")) == ("onnx", tuple(files))


@pytest.mark.parametrize(
    "names",
    [
        ["a.onnx", "b.onnx"],
        ["text_model.onnx", "vision_model.onnx"],
        ["encoder_model.onnx", "decoder_model_q4.onnx"],
        ["encoder_model.onnx", "other.onnx"],
    ],
)
def test_several_models_are_refused_with_their_names(folder, names):
    with pytest.raises(NothingToCompare) as caught:
        foreign_model(folder(*names))
    assert (
        str(caught.value)
        == f"org/model holds several models as ONNX ({', '.join(sorted(names))}); name one by its path, or with --file "
        "for the model that is judged"
    )


@pytest.mark.parametrize(
    "names",
    [("model.gguf", "onnx/model.onnx"), ("model.gguf", "model.bin", "vocabulary.json")],
    ids=["ONNX", "CTranslate2"],
)
def test_models_for_several_libraries_need_not_be_the_same(folder, names):
    with pytest.raises(
        NothingToCompare,
        match=rf"for several libraries \(model\.gguf, {names[1]}\); name one by its path, or with --file for",
    ):
        foreign_model(folder(*names))
    assert chosen(folder(*names, file="model.gguf")) == ("gguf", ("model.gguf",))


def test_an_encoder_is_read_with_the_decoder_that_is_stored_like_it(folder):
    names = [f"onnx/{part}{end}.onnx" for end in ("_q4", "_fp16") for part in ("encoder_model", "decoder_model_merged")]
    pair = ("onnx", ("onnx/encoder_model_fp16.onnx", "onnx/decoder_model_merged_fp16.onnx"))
    assert chosen(folder(*names, "onnx/encoder_model.onnx", "onnx/decoder_with_past_model.onnx")) == pair


@pytest.mark.parametrize(
    ("names", "form"),
    [
        (["model.bin", "vocabulary.json", "config.json"], "ctranslate2"),
        (["model.bin", "shared_vocabulary.txt"], "ctranslate2"),
        (["model.bin", "config.json"], None),
        (["model.bin", "vocabulary.json", "model.safetensors"], None),
        (["onnx/model.onnx", "model.safetensors"], None),
        (["onnx/model.onnx", "pytorch_model.bin"], None),
        (["README.md"], None),
    ],
)
def test_what_transformers_loads_comes_first(folder, names, form):
    model = foreign_model(folder(*names))
    assert (model and model.form.name) == form


@pytest.mark.parametrize(
    ("file", "form"), [("onnx/model_q4.onnx", "onnx"), ("model.bin", "ctranslate2"), ("a-Q8_0.gguf", "gguf")]
)
def test_a_file_that_is_named_is_read_whatever_lies_beside_it(folder, file, form):
    names = ("model.safetensors", "onnx/model.onnx", "onnx/model_q4.onnx", "model.bin", "a-Q8_0.gguf")
    assert chosen(folder(*names, file=file)) == (form, (file,))


@pytest.mark.parametrize(
    "file", ["other.onnx", "../model.onnx", "sub/model.bin", "nothing.gguf", "model.safetensors", "", "x"]
)
def test_a_file_that_is_not_there_or_of_another_kind_is_an_error_of_the_option(folder, file):
    with pytest.raises(OptionError, match=r"name another|is not a file for --file"):
        foreign_model(folder("model.onnx", "model.bin", "model.safetensors", file=file))


def test_only_these_files_stand_for_a_model():
    names = ("a/b.onnx", "x.gguf", "/a/model.bin", "pytorch_model.bin", "a.safetensors")
    assert [nameable(name) for name in names] == [True, True, True, False, False]


def test_a_graph_and_what_lies_beside_it_is_told(tmp_path):
    for name in ("model.onnx", "model_q4.onnx"):
        onnx.save(product(), tmp_path / name)
    told = GRAPH.format("model.onnx")
    assert files_beside(RepoRef("org/model", tmp_path)) == (
        told,
        "model.onnx was read, the most precise ONNX file by its name that can be read; name another by its path, or "
        "with --file for the model that is judged; 1 more files may hold weights too",
    )
    named = RepoRef("org/model", tmp_path, file="model_q4.onnx")
    assert files_beside(named)[1].startswith("model_q4.onnx was read, as it was named; 1 more")
    (tmp_path / "model_q4.onnx").unlink()
    assert files_beside(RepoRef("org/model", tmp_path)) == (told,)


def test_of_ctranslate2_nothing_is_told_where_there_is_nothing_else(tmp_path):
    repo = written(tmp_path)
    (tmp_path / "vocabulary.json").write_text("[]")
    assert files_beside(repo) == ()
    (tmp_path / "tf_model.h5").write_bytes(b"")
    assert files_beside(RepoRef("org/model", tmp_path)) == (
        "model.bin was read, which CTranslate2 loads; name another by its path, or with --file for the model that is "
        "judged; 1 more files may hold weights too",
    )


TOY_FILE = "weights.toy"


def toy_header(repo):
    """A line of JSON: the configuration, and for each tensor its shape and where its numbers begin."""
    return parse_once(repo, TOY_FILE, lambda stream, size: json.loads(stream.readline()))


def open_toy(repo, files):
    header, stamp = toy_header(repo)
    stored = {
        name: StoredTensor(repo.located(files[0]), "F32", tuple(shape), start, stamp)
        for name, (shape, start) in header["tensors"].items()
    }
    return Checkpoint(stored, {name: TensorInfo(tensor.shape, (name,)) for name, tensor in stored.items()})


def rename_toy(repo, files, factorization, config, checkpoint):
    return by_pieces(checkpoint, [Piece(name.removeprefix("toy/"), name) for name in checkpoint.tensors])


TOY = ForeignForm(
    "toy",
    lambda repo: (TOY_FILE,) if TOY_FILE in repo.files() else (),
    lambda repo, files: toy_header(repo)[0]["config"],
    open_toy,
    rename=rename_toy,
    how="the only kind of toy",
    remark="{} is a toy",
)


def write_toy(plain, folder):
    """Write the model of a checkpoint as a toy, its numbers behind a header of fixed length."""
    tensors, blocks, start = {}, [], 2**16
    for name in plain.tensors:
        values = np.asarray(plain.read(name), np.float32)
        tensors[f"toy/{name}"] = [values.shape, start]
        blocks.append(values.tobytes())
        start += values.nbytes
    header = json.dumps({"config": json.loads((folder / "config.json").read_text()), "tensors": tensors})
    content = header.encode().ljust(2**16 - 1) + b"\n" + b"".join(blocks)
    (folder / "toy").mkdir()
    (folder / "toy" / TOY_FILE).write_bytes(content)
    return RepoRef("org/toy", folder / "toy")


def test_a_new_form_is_one_value_and_one_line_of_the_table(tmp_path, monkeypatch):
    original = RepoRef("org/model", tiny_llama(tmp_path))
    plain = open_checkpoint(original)
    repo = write_toy(plain, tmp_path)
    assert not nameable(TOY_FILE)
    monkeypatch.setattr(forms, "FORMS", [*forms.FORMS, ListedForm((".toy",), lambda: TOY)])
    assert nameable(TOY_FILE)
    assert (foreign_model(repo).form, foreign_model(original)) == (TOY, None)
    model = bound(described(repo))
    assert model.described.architecture == "LlamaForCausalLM"
    assert model.checkpoint.shapes == plain.shapes
    for name in plain.tensors:
        np.testing.assert_array_equal(model.checkpoint.read(name), plain.read(name))
    assert weight_files(repo) == [TOY_FILE]
    assert files_beside(repo) == ("weights.toy is a toy",)
    with pytest.raises(OptionError, match=r"it reads \.gguf, \.onnx, model\.bin and \.toy"):
        foreign_model(RepoRef("org/toy", repo.folder, file="other.x"))


def test_a_form_that_transformers_opens_is_chosen_only_where_no_other_one_is(folder):
    names = ("params.json", "consolidated.00.pth")
    assert chosen(folder(*names)) == ("original", ("consolidated.00.pth",))
    assert chosen(folder(*names, "model.gguf")) == ("gguf", ("model.gguf",))
