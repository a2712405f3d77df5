"""Which files of a repository are read where transformers would load none of them."""

import pytest

from hf_lineage.checkpoint.foreign.ctranslate2 import header as ctranslate2_header
from hf_lineage.checkpoint.foreign.files import Converted, converted, nameable, parsed
from hf_lineage.checkpoint.foreign.onnx import header as onnx_header
from hf_lineage.errors import CheckpointError, NothingToCompare, OptionError
from hf_lineage.hub.reference import RepoRef


@pytest.fixture
def folder(tmp_path):
    """A repository with empty files of these names."""

    def made(*names, file=None):
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(b"")
        return RepoRef("org/model", tmp_path, file=file)

    return made


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
    assert converted(folder(*names, "config.json")) == Converted("onnx", tuple(files))


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
        converted(folder(*names))
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
        converted(folder(*names))
    assert converted(folder(*names, file="model.gguf")) == Converted("gguf", ("model.gguf",))


def test_an_encoder_is_read_with_the_decoder_that_is_stored_like_it(folder):
    names = [f"onnx/{part}{end}.onnx" for end in ("_q4", "_fp16") for part in ("encoder_model", "decoder_model_merged")]
    chosen = Converted("onnx pair", ("onnx/encoder_model_fp16.onnx", "onnx/decoder_model_merged_fp16.onnx"))
    assert converted(folder(*names, "onnx/encoder_model.onnx", "onnx/decoder_with_past_model.onnx")) == chosen


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
    assert getattr(converted(folder(*names)), "form", None) == form


@pytest.mark.parametrize(
    ("file", "form"), [("onnx/model_q4.onnx", "onnx"), ("model.bin", "ctranslate2"), ("a-Q8_0.gguf", "gguf")]
)
def test_a_file_that_is_named_is_read_whatever_lies_beside_it(folder, file, form):
    names = ("model.safetensors", "onnx/model.onnx", "onnx/model_q4.onnx", "model.bin", "a-Q8_0.gguf")
    assert converted(folder(*names, file=file)) == Converted(form, (file,))


@pytest.mark.parametrize(
    "file", ["other.onnx", "../model.onnx", "sub/model.bin", "nothing.gguf", "model.safetensors", "", "x"]
)
def test_a_file_that_is_not_there_or_of_another_kind_is_an_error_of_the_option(folder, file):
    with pytest.raises(OptionError, match=r"name another|is no file that --file can name"):
        converted(folder("model.onnx", "model.bin", "model.safetensors", file=file))


def test_only_these_files_stand_for_a_model():
    names = ("a/b.onnx", "x.gguf", "/a/model.bin", "pytorch_model.bin", "a.safetensors")
    assert [nameable(name) for name in names] == [True, True, True, False, False]


@pytest.mark.parametrize(("file", "parse"), [("a.onnx", onnx_header.parse), ("model.bin", ctranslate2_header.parse)])
def test_a_file_that_is_none_is_one_clear_line_with_its_name(folder, file, parse, tmp_path):
    repo = folder(file)
    for content, words in (
        (b"version https://git-lfs", "is a pointer of git-lfs, not the weights; run `git lfs pull` in its folder"),
        (b"PK\x03\x04", "is "),
    ):
        (tmp_path / file).write_bytes(content)
        with pytest.raises(CheckpointError) as caught:
            parsed(repo, file, parse)
        assert str(caught.value).startswith(f"org/model: {file} {words}")
    (tmp_path / file).unlink()
    with pytest.raises(CheckpointError, match="cannot be read: No such file or directory"):
        parsed(repo, file, parse)
