"""Which files of a repository are read where transformers would load none: where it is clear which is the model."""

import re
import shutil

import onnx
import pytest
from safetensors.torch import load_file, save_file

from hf_lineage import check, compare
from hf_lineage.checkpoint.foreign import DEEPEST, WRAPPERS, foreign_model, wrapping
from hf_lineage.checkpoint.onnx.form import Onnx
from hf_lineage.checkpoint.weight_files import find_weights, weight_files
from hf_lineage.errors import CheckpointError, NothingToCompare, OptionError
from tests.checkpoint import conftest
from tests.checkpoint.conftest import INDEX, opened, repository
from tests.checkpoint.onnx.test_weights import product
from tests.models import WEIGHTS, family, fine_tuned, shard, tiny_llama

ONLY = "the only file with weights; transformers loads model.safetensors alone"
NOTES = {"model.fp16.safetensors": "read; transformers loads it only with the variant fp16"}
NOTES |= {f"{name}.safetensors": ONLY for name in ("weights", "pytorch_model", "model-00001-of-00001")}
SEVERAL = ("a b", "model.fp16 model.bf16", "model-00001-of-00001 other", "a b c d e f g h")
UNCLEAR = "not clear which file is the model: {}, weights.safetensors"
OTHERS = ("model.gguf", "model.onnx", "tf_model.h5", "flax_model.msgpack", "weights.pt")
LABELS = (" _fp16 _int8 _quantized _q4 _q4f16 _bnb4", " _O1 _O4 _qint8_avx512_vnni _quint8_avx2")
LABELLED = [[f"onnx/model{label}.onnx" for label in labels.split(" ")] for labels in LABELS]
"""Files of one model, the most precise first."""
INSTEAD = "name one by its path, or with --file for the model that is judged"
GRAPHS = ("a b", "text_model vision_model", "decoder_model_q4 encoder_model", "encoder_model other")
NOT_ONE = [([f"{name}.onnx" for name in names.split()], "models as ONNX") for names in GRAPHS]
NAMES = ("model.safetensors", "model.bin", "onnx/model.onnx", "onnx/model_q4.onnx", "a-Q8_0.gguf")
BESIDE = [
    ("weights", "pytorch_model.bin", "transformers loads the pickle pytorch_model.bin"),
    *((beside, "notes.txt", "holds") for beside in ("adapter_model", "optimizer", "scaler", "rng_state_0")),
    *(("weights", other, UNCLEAR.format(other)) for other in OTHERS),
]
PRECISION = [
    (["model.onnx"], ["model.onnx"]),
    *[(sorted(names), names) for names in LABELLED],
    (["paraphrase-MiniLM-L3-v2.onnx"], ["paraphrase-MiniLM-L3-v2.onnx"]),
    (["onnx/model.onnx", "model.onnx"], ["model.onnx", "onnx/model.onnx"]),
    ([f"decoder_{end}.onnx" for end in ("model", "model_merged", "past")], ["decoder_model_merged.onnx"]),
    (["onnx/model.onnx", "onnx/vision_encoder.onnx"], ["onnx/model.onnx"]),
]
FORMS = [
    ("model.gguf model.bin vocabulary.json", "gguf"),
    ("model.gguf params.json consolidated.00.pth", "gguf"),
    ("model.bin config.json", None),
    ("model.bin vocabulary.json model.safetensors", None),
    ("onnx/model.onnx model.safetensors", None),
    ("onnx/model.onnx pytorch_model.bin", None),
    ("README.md", None),
]


@pytest.fixture
def model(tmp_path):
    return tiny_llama(tmp_path / "model")


def same(model, tmp_path):
    """Assert that the model is read as it would be under the usual name; return its checkpoint."""
    found = opened(model)
    conftest.same(found, opened(tiny_llama(tmp_path / "plain")))
    return found


@pytest.mark.parametrize(("name", "note"), NOTES.items())
def test_a_single_file_of_another_name_is_read(model, tmp_path, name, note):
    (model / WEIGHTS).rename(model / name)
    same(model, tmp_path)
    assert weight_files(repository(model)) == [name]
    (sentence,) = find_weights(repository(model)).notes()
    assert sentence.startswith(f"{name} was read")
    assert note in sentence


@pytest.mark.parametrize("form", ["model-{}", "model.fp16-{}", "consolidated-{}", "model-{}.fp16"])
def test_shards_without_an_index_are_read_and_a_missing_one_is_an_error(model, tmp_path, form):
    shard(model)
    (model / INDEX).unlink()
    first, second = (form.format(f"{number:05}-of-00002") for number in (1, 2))
    for number, name in enumerate((first, second), 1):
        (model / f"model-{number:05}-of-00002.safetensors").rename(model / f"{name}.safetensors")
    same(model, tmp_path)
    (sentence,) = find_weights(repository(model)).notes()
    assert sentence.startswith("the 2 shards such as ")
    (model / f"{first}.safetensors").unlink()
    with pytest.raises(CheckpointError, match=rf"has 1 of 2 shards, {re.escape(second)}\.safetensors; download"):
        opened(model)


@pytest.mark.parametrize("names", SEVERAL)
def test_of_several_files_none_is_taken_and_all_are_listed(model, names):
    (model / WEIGHTS).unlink()
    for name in names.split():
        (model / f"{name}.safetensors").touch()
    with pytest.raises(NothingToCompare, match="it is not clear which file is the model:") as error:
        opened(model)
    many = len(names.split())
    assert str(error.value).count(".safetensors") == min(many, 6) + 1
    assert ("and 2 more" in str(error.value)) == (many == 8)


@pytest.mark.parametrize(("name", "other", "said"), BESIDE)
def test_what_lies_beside_a_model_or_is_of_another_library_makes_it_none_or_unclear(model, name, other, said):
    """Transformers loads neither: whoever uses the repository loads the other, which may be any model."""
    (model / WEIGHTS).rename(model / f"{name}.safetensors")
    (model / other).write_bytes(b"pickle")
    with pytest.raises(NothingToCompare, match=re.escape(said)):
        opened(model)


def test_the_usual_name_is_read_and_an_encoder_with_its_decoder(model, tmp_path, files):
    tiny_llama(tmp_path / "other", seed=3)
    shutil.copy(tmp_path / "other" / WEIGHTS, model / "model.fp16.safetensors")
    same(model, tmp_path)
    assert "model.fp16.safetensors may hold weights too" in find_weights(repository(model)).notes()[0]
    names = [f"onnx/{part}{end}.onnx" for end in ("_q4", "_fp16") for part in ("encoder_model", "decoder_model_merged")]
    pair = ("onnx", ("onnx/encoder_model_fp16.onnx", "onnx/decoder_model_merged_fp16.onnx"))
    assert chosen(files(*names, "onnx/encoder_model.onnx", "onnx/decoder_with_past_model.onnx")) == pair


def wrapped(folder, prefix, keep=()):
    tensors = load_file(folder / WEIGHTS)
    save_file({(name if name in keep else prefix + name): one for name, one in tensors.items()}, folder / WEIGHTS)
    return folder


@pytest.mark.parametrize("prefix", [*WRAPPERS, "module._orig_mod.", "_orig_mod.module.base_model.model."])
def test_a_prefix_of_the_whole_file_is_taken_off_but_not_one_of_some_tensors(model, tmp_path, prefix):
    assert prefix in "".join(same(wrapped(model, prefix), tmp_path).notes)
    checkpoint = opened(wrapped(tiny_llama(tmp_path / "other"), prefix, keep={"model.norm.weight"}))
    assert (checkpoint.notes, f"{prefix}model.embed_tokens.weight" in checkpoint.tensors) == ((), True)
    assert wrapping([]) == ""
    assert wrapping(["module." * 100 + "x"]) == "module." * DEEPEST, "no name is unwrapped without end"


def test_a_child_that_is_wrapped_is_related_and_the_report_says_so(tmp_path):
    child = wrapped(family(tmp_path) / "fern/child", "_orig_mod.")
    (row,) = check(str(child), [str(tmp_path / "acme/base")]).rows
    told = "the name of every tensor begins with _orig_mod.; it was removed, but transformers does not"
    assert (row.verdict.code, row.notes) == ("inherited", (f"{child}: {told}",))
    other = wrapped(tiny_llama(tmp_path / "other", seed=5), "module.")
    assert compare(str(tmp_path / "acme/base"), str(other)).rows[0].verdict.code == "unrelated"


def test_a_file_of_another_name_on_the_hub_is_read_by_ranges(online, tmp_path):
    online.publish("acme/base", tiny_llama(tmp_path / "base"))
    child = fine_tuned(tmp_path / "base", tmp_path / "child")
    (child / WEIGHTS).rename(child / "model.bf16.safetensors")
    online.publish("fern/child", child)
    (row,) = compare("acme/base", "fern/child").rows
    assert (row.verdict.code, "the variant bf16" in " ".join(row.notes)) == ("inherited", True)


def chosen(repo):
    model = foreign_model(repo)
    return model.end[1:], model.files


@pytest.mark.parametrize(("names", "expected"), PRECISION)
def test_of_several_onnx_files_of_one_model_the_most_precise_comes_first(files, names, expected):
    assert chosen(files(*names, "config.json")) == ("onnx", tuple(expected))


@pytest.mark.parametrize(("names", "what"), [*NOT_ONE, (["model.gguf", "onnx/model.onnx"], "libraries")])
def test_several_models_or_models_for_several_libraries_are_refused_with_their_names(files, names, what):
    repo, listed = files(*names), re.escape(", ".join(names))
    with pytest.raises(NothingToCompare, match=rf"^org/model holds .*several {what} \({listed}\); {INSTEAD}"):
        foreign_model(repo)


@pytest.mark.parametrize(("names", "form"), FORMS)
def test_what_transformers_loads_comes_first(files, names, form):
    model = foreign_model(files(*names.split()))
    assert (model and model.end[1:]) == form


@pytest.mark.parametrize(("file", "form"), [("onnx/model_q4.onnx", "onnx"), ("a-Q8_0.gguf", "gguf")])
def test_a_file_that_is_named_is_read_whatever_lies_beside_it(files, file, form):
    assert chosen(files(*NAMES, file=file)) == (form, (file,))


@pytest.mark.parametrize(
    "file", ["other.onnx", "../model.onnx", "sub/model.bin", "nothing.gguf", "model.safetensors", "", "x"]
)
def test_a_file_that_is_not_there_or_of_another_kind_is_an_error_of_the_option(files, file):
    with pytest.raises(OptionError, match=r"name another|is not a file for --file"):
        foreign_model(files(*NAMES, file=file))


def test_a_graph_and_what_lies_beside_it_is_told(tmp_path):
    for name in ("model.onnx", "model_q4.onnx"):
        onnx.save(product(), tmp_path / name)
    told = Onnx.remark.format("model.onnx")
    which = "the most precise ONNX file by its name that can be read; name another by its path, or with --file for the "
    which += "model that is judged; model_q4.onnx may hold weights too and was not read"
    assert find_weights(repository(tmp_path)).notes() == (told, f"model.onnx was read, {which}")
    named = repository(tmp_path, file="model_q4.onnx")
    assert find_weights(named).notes()[1].startswith("model_q4.onnx was read, as it was named; model.onnx may")
    (tmp_path / "model_q4.onnx").unlink()
    assert find_weights(repository(tmp_path)).notes() == (told,)
