"""Which files hold the weights: what transformers would load, and what may be instead."""

import re
import shutil

import onnx
import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage import check, compare
from hf_lineage.checkpoint.onnx.form import REMARK
from hf_lineage.checkpoint.weight_files import DEEPEST, WRAPPERS, find_weights, foreign_model, weight_files, wrapping
from hf_lineage.errors import CheckpointError, NothingToCompare, OptionError
from tests.checkpoint import conftest
from tests.checkpoint.conftest import FIRST, INDEX, SECOND, opened, repository, same
from tests.checkpoint.onnx.test_weights import product
from tests.models import WEIGHTS, edit_json, family, fine_tuned, open_checkpoint, shard, tiny_llama

PICKLE = "pytorch_model.bin"
ADAPTER = ["adapter_config.json", "adapter_model.safetensors"]
DISTRIBUTED = "shard-00001-model-00001-of-00002.safetensors"
TRAINING = "optimizer.pt training_args.bin tokenizer.bin scheduler.pt notes.txt"
UNREAD = "may hold weights too and was not read"
NOTES = {"": "", TRAINING: "", "b.bin a.onnx c.h5": f"a.onnx and 2 more {UNREAD}"}
NOTES["a.gguf"] = f"a.gguf {UNREAD}: transformers loads model.safetensors, other"
WITHOUT = [
    ([], "holds no weights (model.safetensors or model.safetensors.index.json)"),
    (ADAPTER, "holds only a LoRA adapter; `hf-lineage check"),
    (["one.safetensors", "two.safetensors"], "it is not clear which file is the model: one.safetensors, two.safet"),
    ([DISTRIBUTED, WEIGHTS], "holds a distributed checkpoint (shard-00001-model"),
]


@pytest.mark.parametrize(("names", "message"), WITHOUT)
def test_without_weights_that_are_read_the_reason_says_what_is_there_instead(files, names, message):
    repo = files(*names)
    with pytest.raises(NothingToCompare, match=rf"^org/model.*{re.escape(message)}"):
        open_checkpoint(repo)


@pytest.mark.parametrize(("names", "sentence"), NOTES.items())
def test_other_files_that_may_hold_weights_are_named(tmp_path, files, names, sentence):
    tiny_llama(tmp_path)
    found = find_weights(files(*names.split())).notes()
    assert len(found) == bool(sentence)
    assert "".join(found).startswith(sentence)


def test_the_single_file_or_the_shards_are_read_or_those_that_the_config_names(tmp_path):
    """`transformers_weights` in config.json."""
    single, sharded = tiny_llama(tmp_path / "a"), shard(tiny_llama(tmp_path / "b"))
    for folder, old, name in ((single, WEIGHTS, "other.safetensors"), (sharded, INDEX, "other.safetensors.index.json")):
        (folder / old).rename(folder / name)
        edit_json(folder / "config.json", transformers_weights=name)
    assert weight_files(repository(single)) == ["other.safetensors"]
    assert "model.norm.weight" in opened(single).stored
    assert weight_files(repository(sharded)) == [FIRST, SECOND]
    assert weight_files(repository(tiny_llama(tmp_path / "a"))) == [WEIGHTS]
    assert weight_files(repository(shard(tiny_llama(tmp_path / "b")))) == [FIRST, SECOND]


def test_a_named_file_beside_the_usual_one_makes_two_models_and_missing_it_is_damage(tmp_path):
    edit_json(tiny_llama(tmp_path) / "config.json", transformers_weights="other.safetensors")
    with pytest.raises(NothingToCompare, match=r"loads other\.safetensors, which config\.json names .* keep"):
        opened(tmp_path)
    (tmp_path / WEIGHTS).unlink()
    with pytest.raises(CheckpointError, match=r"names the weights other\.safetensors, which are missing"):
        opened(tmp_path)
    for name in ("../x.safetensors", "pytorch_model.bin", "", 7, ["a"], {"a": 1}):
        edit_json(tmp_path / "config.json", transformers_weights=name)
        with pytest.raises(NothingToCompare, match=r"which is not a safetensors file of this folder; leave the key"):
            opened(tmp_path)


@pytest.fixture
def single(tmp_path):
    """A folder with a file of torch.save, which the user allows."""
    tensors = load_file(tiny_llama(tmp_path) / WEIGHTS)
    (tmp_path / WEIGHTS).unlink()
    torch.save(tensors, tmp_path / PICKLE)
    return tmp_path


@pytest.fixture
def repo(single):
    return repository(single, allow_pickle=True)


def test_tensors_of_a_pickle_are_read_as_from_safetensors_which_come_first(single, repo, tmp_path_factory):
    read = "pytorch_model.bin is a pickle; its tensors were read and nothing was run (--allow-pickle)"
    assert find_weights(repo).notes() == (read,)
    same(open_checkpoint(repo), opened(tiny_llama(tmp_path_factory.mktemp("safe"))))
    tiny_llama(single)
    repo = repository(single, allow_pickle=True)
    assert weight_files(repo) == [WEIGHTS]
    assert find_weights(repo).notes()[0].startswith("pytorch_model.bin may hold weights too and was not")


def test_what_belongs_to_a_training_run_is_no_model_and_of_several_none_is_taken(single, repo):
    for name in ("training_args.bin", "optimizer.pt", "last.pt"):
        torch.save({"a": torch.ones(1)}, single / name)
    assert weight_files(repo) == [PICKLE]
    (single / PICKLE).rename(single / "best.pt")
    with pytest.raises(NothingToCompare, match=r"not clear which file is the model: best\.pt, last\.pt"):
        weight_files(repository(single, allow_pickle=True))
    (single / "last.pt").unlink()
    assert weight_files(repository(single, allow_pickle=True)) == ["best.pt"]


@pytest.mark.parametrize("name", ["../x.bin", WEIGHTS, "/etc/x.bin", "", "gone.bin"])
def test_an_index_of_pickles_that_lies_is_refused(single, repo, name):
    (single / PICKLE).unlink()
    edit_json(single / f"{PICKLE}.index.json", weight_map={"a": name})
    gone = r"names the shard gone\.bin, which is missing; fetch it"
    with pytest.raises(
        CheckpointError, match=gone if name == "gone.bin" else "not a bin file of this folder: .*; do not"
    ):
        open_checkpoint(repo)


ONLY = "the only file with weights; transformers loads model.safetensors alone"
UNUSUAL = {"model.fp16.safetensors": "read; transformers loads it only with the variant fp16"}
UNUSUAL |= {f"{name}.safetensors": ONLY for name in ("weights", "pytorch_model", "model-00001-of-00001")}
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


def same_as_usual(model, tmp_path):
    """Assert that the model is read as it would be under the usual name; return its checkpoint."""
    found = opened(model)
    conftest.same(found, opened(tiny_llama(tmp_path / "plain")))
    return found


@pytest.mark.parametrize(("name", "note"), UNUSUAL.items())
def test_a_single_file_of_another_name_is_read(model, tmp_path, name, note):
    (model / WEIGHTS).rename(model / name)
    same_as_usual(model, tmp_path)
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
    same_as_usual(model, tmp_path)
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
    same_as_usual(model, tmp_path)
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
    assert prefix in "".join(same_as_usual(wrapped(model, prefix), tmp_path).notes)
    checkpoint = opened(wrapped(tiny_llama(tmp_path / "other"), prefix, keep={"model.norm.weight"}))
    assert (checkpoint.notes, f"{prefix}model.embed_tokens.weight" in checkpoint.tensors) == ((), True)
    assert wrapping([]) == ""
    assert wrapping(["module." * 100 + "x"]) == "module." * DEEPEST, "no name is unwrapped without end"


def test_a_child_that_is_wrapped_is_related_and_the_report_says_so(tmp_path):
    child = wrapped(family(tmp_path) / "fern/child", "_orig_mod.")
    (row,) = check(str(child), [str(tmp_path / "acme/base")]).rows
    told = "every tensor's name begins with _orig_mod.; it was removed, but transformers does not"
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
    told = REMARK.format("model.onnx")
    which = "the most precise ONNX file by its name that can be read; name another by its path, or with --file for the "
    which += "model that is judged; model_q4.onnx may hold weights too and was not read"
    assert find_weights(repository(tmp_path)).notes() == (told, f"model.onnx was read, {which}")
    named = repository(tmp_path, file="model_q4.onnx")
    assert find_weights(named).notes()[1].startswith("model_q4.onnx was read, as it was named; model.onnx may")
    (tmp_path / "model_q4.onnx").unlink()
    assert find_weights(repository(tmp_path)).notes() == (told,)
