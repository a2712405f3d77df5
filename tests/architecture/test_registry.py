"""The registry: its files say what they must and nothing else, and a class finds the one that is meant for it."""

import os
import re
import shutil
from pathlib import Path

import pytest

import hf_lineage
from hf_lineage.architecture.registry import (
    LISTED,
    Choice,
    choose,
    factorizations,
    lookup,
    read_table,
    read_unsupported,
    registry_root,
)
from hf_lineage.errors import NothingToCompare, RegistryError, UnlistedClass
from tests.conformance.models import known_classes

TINY = """
classes: [TinyModel]
layers: h.{layer}
normalization: rms_norm
branches:
  mlp: {up: fc_in, down: fc_out}
  attention: {query: q, key: k, value: v, output: o}
"""
CONFIG = {"architectures": ["TinyModel"]}
NUMBER = "`layers` needs {layer} in place of the number of a layer"


def registry(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(content)
    return folder


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ("normalization: rms_norm", "normalization: rms_norm\ncolour: red", "unknown field `colour`"),
        ("up: fc_in", "up: fc_in, sideways: fc", "unknown field `sideways`"),
        ("normalization: rms_norm", "normalization: group_norm", "Invalid enum value 'group_norm'"),
        ("normalization: rms_norm", "", "missing required field `normalization`"),
        ("classes: [TinyModel]", "name: other\nclasses: [TinyModel]", "keyword argument 'name'"),
        *(("layers: h.{layer}", f"layers: {one}", NUMBER) for one in ("h.0", "{a: 'a.{layer}', b: b.0}")),
        ("layers: h.{layer}", "layers: h.{layer}\nheads: {a: n_head}", "`heads` must name the stacks of `layers`,"),
        ("up: fc_in, ", "", "mlp names the roles ['down'], but it needs ['down', 'up'], each once"),
        ("up: fc_in", "up: fc_in, query: q", "mlp names the roles ['down', 'query', 'up']"),
        ("value: v, ", "", "it needs ['key', 'output', 'query', 'value'], each once"),
        ("up: fc_in", "up: fc_in, packed: {fc: [gate, up]}", "mlp names the roles ['down', 'gate', 'up', 'up']"),
        ("up: fc_in", "up: fc_in, transposed: [fc]", "mlp lists ['fc'], which are not roles"),
        ("query: q", "query: q, latent: {c: [a, n]}", "attention lists ['c'], which are not roles"),
        ("query: q", "query: q, latent: {q: [a]}", "Expected `array` of length 2, got 1"),
        ("query: q", "query: q, blocks: 4", "attention has 4 blocks, but blocks are for `packed` only"),
        ("query: q", "query: q, up: u", "attention names the roles ['key', 'output', 'query', 'up', 'value']"),
        ("branches:", "branches: [", "while parsing a flow"),
        *((TINY, other, "must be a mapping") for other in ("- a list", "")),
    ],
)
def test_a_file_that_breaks_the_schema_is_refused_by_name(line, instead, said, tmp_path):
    with pytest.raises(RegistryError, match=rf"^tiny\.yaml: (?s:.*){re.escape(said)}"):
        factorizations(registry(tmp_path, tiny=TINY.replace(line, instead)))


def test_of_two_files_that_differ_the_one_whose_requirements_are_met_is_taken(tmp_path):
    root = registry(tmp_path, plain=TINY, special=f"requires: {{post_norm: true}}\n{TINY}")
    for said, name in (({}, "plain"), ({"post_norm": False}, "plain"), ({"post_norm": True}, "special")):
        assert lookup(CONFIG | said, root)[1].name == name
    message = r"^two\.yaml: TinyModel is listed in plain\.yaml too, and `requires` is the same$"
    with pytest.raises(RegistryError, match=message):
        factorizations(registry(tmp_path, two=TINY))


@pytest.mark.parametrize(
    ("required", "key", "fitting", "others"),
    [
        ("norm_eps: null", "norm_eps", [None], [1e-5]),
        (
            *("text_config.model_type: [llama, qwen2]", "text_config"),
            *([{"model_type": "llama"}, {"model_type": "qwen2"}], [{"model_type": "gemma"}, {}, None, "llama"]),
        ),
    ],
)
def test_a_class_is_read_only_where_its_requirement_is_met(tmp_path, required, key, fitting, others):
    """Null is a key that is null or not there."""
    root = registry(tmp_path, tiny=f"requires: {{{required}}}\n{TINY}")
    assert {lookup(CONFIG | {key: value}, root)[1].name for value in fitting} == {"tiny"}
    assert required != "norm_eps: null" or lookup(CONFIG, root)[1].name == "tiny"
    for said in ({key: value} for value in others):
        with pytest.raises(NothingToCompare, match=r"only if config\.json says \{'"):
            lookup(CONFIG | said, root)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"architectures": ["RemoteForCausalLM"]}, "RemoteForCausalLM is not in the registry$"),
        (
            {"architectures": ["Own"], "auto_map": {"AutoModel": "x.py"}},
            r"it is remote code \(auto_map\), which hf-lin",
        ),
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM is not supported: state space: between what reads"),
        *(({"architectures": named}, "names no class under `arc") for named in (None, [], "LlamaForCausalLM", [1])),
    ],
)
def test_a_class_that_is_not_listed_or_not_named_is_nothing_to_compare(config, said):
    with pytest.raises(NothingToCompare, match=said):
        lookup(config)


def test_listed_classes_are_those_of_transformers_and_none_is_named_in_the_package():
    listed = {name for found in factorizations() for name in found.classes}
    own = {name for name in listed if "." not in name}  # tests/test_conformance.py has the others
    assert [name for name in sorted(own) if name not in known_classes()] == []
    assert {name.partition(".")[0] for name in listed - own} == {"diffusers", "timm"}
    assert [found.name for found in factorizations() if list(found.classes) != sorted(set(found.classes))] == []
    sources = "".join(path.read_text() for path in Path(hf_lineage.__file__).parent.rglob("*.py"))
    assert sorted(listed & set(re.findall(r"\w+", sources))) == []
    unsupported = read_unsupported(registry_root()).keys()
    assert (bool(unsupported), listed & unsupported) == (True, set())


YI = {"architectures": ["YiForCausalLM"], "auto_map": {}}


@pytest.fixture
def own(tmp_path):
    _, rest = (registry_root() / "gpt2.yaml").read_text().split("\nlayers:", 1)
    (tmp_path / "mine.yaml").write_text(f"classes: [YiForCausalLM]\nlayers:{rest}")
    return tmp_path


def test_a_listed_class_is_read_as_the_registry_says_whatever_is_chosen(own):
    for asked in (LISTED, Choice("GPT2LMHeadModel"), Choice(registry=own)):
        chosen = choose({"architectures": ["LlamaForCausalLM"]}, asked)
        assert (chosen.architecture, chosen.factorization.name, chosen.notes) == ("LlamaForCausalLM", "llama", ())


def test_an_unlisted_class_is_read_as_a_listed_one_if_that_is_chosen():
    with pytest.raises(UnlistedClass, match="YiForCausalLM is not in the registry"):
        choose(YI, LISTED)
    chosen = choose(YI, Choice("LlamaForCausalLM"))
    assert (chosen.architecture, chosen.factorization.name) == ("YiForCausalLM", "llama")
    assert chosen.notes == (
        "read as LlamaForCausalLM (--as) in place of YiForCausalLM; it is not proved that both compute the same",
    )

    for named in (None, [], "YiForCausalLM", [7]):
        chosen = choose({"architectures": named}, Choice("LlamaForCausalLM"))
        assert (chosen.architecture, chosen.factorization.name) == ("LlamaForCausalLM", "llama")
        assert "in place of a class that config.json does not name" in chosen.notes[0]


def test_a_folder_of_ones_own_lists_more_classes(own):
    chosen = choose(YI, Choice(registry=own))
    assert (chosen.architecture, chosen.factorization.name) == ("YiForCausalLM", "mine")
    assert chosen.notes == ("read by mine.yaml of the folder that --as names, an unproved factorization",)
    both = choose({"architectures": ["ZiForCausalLM"]}, Choice("YiForCausalLM", own))
    assert (both.factorization.name, len(both.notes)) == ("mine", 2)
    for config, said in (
        ({"architectures": ["ZiForCausalLM"]}, "ZiForCausalLM is not in the re"),
        ({}, "names no class"),
    ):
        with pytest.raises(UnlistedClass, match=said):
            choose(config, Choice(registry=own))
    shutil.copy(registry_root() / "gpt2.yaml", own / "mine.yaml")
    with pytest.raises(UnlistedClass):  # a file that changes is read anew
        choose(YI, Choice(registry=own))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "mine.yaml").unlink(), "holds no factorization"),
        (lambda folder: (folder / "x.yaml").write_bytes(b"\xff\xfe"), "cannot be read"),
        (lambda folder: os.mkfifo(folder / "x.yaml"), "cannot be read: .* is a pipe or a device, not a regular file"),
    ],
    ids=["empty", "no text", "a pipe, which is not waited for"],
)
def test_a_folder_that_cannot_be_read_is_an_error(own, spoil, said):
    spoil(own)
    with pytest.raises(RegistryError, match=said):
        choose(YI, Choice(registry=own))


@pytest.mark.parametrize(
    ("file", "text"),
    [("a.yaml", "x: ["), ("a.yaml", "x: one"), ("a.yaml", ""), ("a.json", "{"), ("a.json", "[]"), ("b/no.yaml", None)],
)
def test_a_table_is_read_by_the_ending_of_its_name_and_anything_else_is_an_error(tmp_path, file, text):
    for name, content in (("good.yaml", "x: 1"), ("good.json", '{"x": 1}')):
        (tmp_path / name).write_text(content)
        assert read_table(tmp_path, name, dict[str, int]) == {"x": 1}
    if text is not None:
        (tmp_path / file).write_text(text)
    with pytest.raises(RegistryError, match=rf"{file}: .*registry/README.md documents the schema"):
        read_table(tmp_path, file, dict[str, int])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {reason: odd, classes: [A]}\n- {reason: even, classes: [A]}", "A is listed twice"),
        ("- {reason: odd, classes: [A], colour: red}", "unknown field `colour`"),
        ("- {classes: [A]}", "missing required field `reason`"),
        ("- [", "while parsing a flow node"),
    ],
)
def test_a_file_of_unsupported_classes_that_breaks_the_schema_is_refused(tmp_path, text, said):
    (tmp_path / "unsupported").mkdir()
    (tmp_path / "unsupported/some.yaml").write_text(text)
    with pytest.raises(RegistryError, match=rf"^unsupported/some\.yaml: (?s:.*){said}"):
        read_unsupported(tmp_path)
