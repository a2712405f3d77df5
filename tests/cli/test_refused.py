"""Bad input of every command, and what a model on disk can have wrong: one clear line, and nothing half-written."""

import math
import re
import shutil

import pytest
import torch

from hf_lineage.architecture.registry import registry_root
from tests.invoking import check, lineage
from tests.models import EXAMPLES, WEIGHTS, card, edit_json, spoil, tiny_llama
from tests.server.client import connect_to_nothing

BASE, CHILD = EXAMPLES.resolve() / "acme/llama-base", EXAMPLES.resolve() / "fern/llama-finetune-a"
READING = (
    ("identify", "{}"), ("index", "add", "{}"), ("inspect", "{}"), ("extract", "{}"),
    ("annotate", "{}", "--base", str(BASE)), ("compare", str(BASE), "{}"),
)  # fmt: skip
"""Commands that read a model, which stands in place of the braces."""
ASKING = (
    ("check", "org/model"), ("annotate", "org/model"), ("extract", "org/model"), ("compare", str(BASE), "org/model"),
    ("identify", "org/model"), ("identify", str(BASE), "--index", "org/index"), ("tree", "--author", "org"),
    ("tree", "--index", "org/index"), ("index", "add", "org/model"), ("index", "list", "--index", "org/index"),
)  # fmt: skip
"""Commands that ask the Hub."""
WRITING = (
    ("index", "add", str(BASE), "--index", "file/index"), ("check", str(CHILD), "-o", "json=file/report.json"),
    ("index", "build", "--from", "list", "--index", "file/index"), ("tree", str(BASE), "-o", "file/tree.txt"),
    ("identify", str(BASE), "-o", "file/found.txt"), ("extract", str(BASE), "-o", "file/signature.safetensors"),
)  # fmt: skip
"""Commands that write where nothing can be."""


def words(command):
    return " ".join(command).replace(f"{EXAMPLES.resolve()}/", "")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory and an index of its own; nothing is asked of the Hub."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_LINEAGE_INDEX", str(tmp_path / "index"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path


def refused(*arguments, code=2):
    """What is said, of which there is one line that can be printed."""
    shown = lineage(*arguments)
    assert (shown.code, shown.out) == (code, "")
    assert shown.err.endswith("\n")
    assert shown.err[:-1].isprintable()
    return shown.err


@pytest.mark.parametrize("command", READING, ids=words)
def test_an_empty_folder_is_no_model_and_a_truncated_file_is_named(place, command):
    (place / "empty").mkdir()
    assert "empty has no config.json" in refused(*(word.format("./empty") for word in command))
    assert [*(place / "empty").iterdir()] == []
    shutil.copytree(BASE, place / "cut")
    (place / "cut" / WEIGHTS).write_bytes((BASE / WEIGHTS).read_bytes()[:5000])
    said = refused(*(word.format("./cut") for word in command))
    assert f"{WEIGHTS}: the header claims 5944 bytes in a file of 5000" in said
    assert sorted(file.name for file in place.iterdir()) == ["cut", "empty"]


@pytest.mark.parametrize("command", [
    *READING, ("check", "{}"), ("check", str(BASE), "--policy", "{}"), ("check", str(BASE), "--index", "{}"),
    ("tree", "--author", "{}"), ("tree", "--index", "{}"), ("identify", str(BASE), "--index", "{}"),
    ("index", "list", "--index", "{}"), ("index", "build", "--from", "{}"), ("registry", "{}"),
    ("check", str(BASE), "--format", "{}"), ("compare", str(BASE), str(CHILD), "-o", "{}/report.txt"),
], ids=words)  # fmt: skip
def test_a_name_with_line_ends_and_escapes_is_shown_on_one_line(place, command):
    assert r"a\nb\x1b[31mc" in refused(*(word.format("a\nb\x1b[31mc") for word in command))


@pytest.mark.parametrize("command", ASKING, ids=words)
def test_where_no_request_is_allowed_and_where_nothing_answers_that_is_said(place, monkeypatch, command):
    shown = lineage(*command)
    assert (shown.code, "HF_HUB_OFFLINE" in shown.err + shown.out) == (2, True)
    assert "Traceback" not in shown.err
    connect_to_nothing(place / "cache", monkeypatch)
    message = refused(*command, code=2 if command[1] == "add" else 4)  # of several models, one cannot be read
    assert "Connection refused" in message
    assert not (place / "index").exists()


@pytest.mark.parametrize("command", WRITING, ids=words)
def test_where_nothing_can_be_written_the_place_is_named(place, command):
    (place / "file").write_text("", encoding="utf-8")
    (place / "list").write_text(f"{BASE}\n", encoding="utf-8")
    message = refused(*command)
    assert ("file" in message, "[Errno" in message) == (True, False)
    assert "-o" not in command or "there is no folder 'file' that can be written to; make it first" in message
    assert sorted(file.name for file in place.iterdir()) == ["file", "list"]
    assert "or `own` for lineage.yaml" in refused("check", BASE, "--policy", "absent.yaml")


@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "NoseForCausalLM"])
def test_the_code_of_a_repository_is_never_imported(hub, architecture):
    trap, child = hub / "sprung", hub / "fern/child"
    for name in ("modeling_nose.py", "configuration_nose.py", "__init__.py", "torch.py", "yaml.py"):
        (child / name).write_text(f"open({str(trap)!r}, 'w')")
    said = {"AutoModelForCausalLM": "modeling_nose.Nose"}
    edit_json(child / "config.json", architectures=[architecture], auto_map=said)
    assert check(hub).code == (0 if architecture.startswith("Llama") else 3)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("side", "value"),
    [("fern/child", math.nan), ("acme/base", math.inf), ("fern/child", 1e38), ("fern/child", 0.0), ("acme/base", 0.0)],
)
def test_weights_that_are_zero_not_finite_or_leave_float32_are_inconclusive(hub, side, value):
    name = "candidate" if side == "fern/child" else "base"
    message = f"Weights in layers 0-1 of the {name} are not finite, or too large for float32"
    message, inherited = (message, "-") if value else ("Only 0 of 2 layers hold weights that are not zero", "0%")
    spoil(hub / side, lambda all_of_it: [one.fill_(value) for name, one in all_of_it.items() if "_proj" in name])
    outcome = check(hub)
    assert (outcome.code, message in outcome.sentences) == (3, True)
    assert outcome.rows == [["acme/base", "0.000", inherited, "1", "UNDECIDED", "inconclusive"]]


@pytest.mark.parametrize(("path", "other"), [("mlp.up_proj", "value_output"), ("self_attn.v_proj", "mlp")])
def test_what_is_wrong_along_one_path_is_told_and_the_other_is_judged(hub, path, other):
    spoil(hub / "fern/child", lambda tensors: [tensors[key].fill_(torch.nan) for key in tensors if path in key])
    outcome = check(hub)
    assert (outcome.code, "RELATED part" in outcome.sentences) == (3, True)
    assert re.search("Along (mlp|value_output), weights in layers 0-1 of the candidate are not fin", outcome.sentences)
    assert [row[-1] for row in check(hub, "--explain").rows if other in row] == ["inherited"]


AS = "as LlamaForCausalLM (--as) in place of YiForCausalLM; it is not proved that both compute the same"


@pytest.fixture
def unlisted(hub):
    """The same local hub and a stranger, both of a class that the registry does not list."""
    card(tiny_llama(hub / "fern/other", seed=8), "acme/base")
    said = {"architectures": ["YiForCausalLM"], "model_type": "Yi", "auto_map": {"A": "b.C"}}
    for name in ("child", "other"):
        edit_json(hub / f"fern/{name}/config.json", **said)
    return hub


def test_the_message_prints_the_options_that_work_where_two_classes_fit_or_none_does(unlisted):
    typed = ("check", "fern/child", "--base", "acme/base", "--local-hub", unlisted)
    refused = lineage(*typed)
    assert refused.code == 3
    assert "add `--as LlamaForCausalLM` or `--as GemmaForCausalLM` to read it as one of them" in refused.sentences
    assert "Next: Read it as that class, with --as LlamaForCausalLM." in refused.sentences
    for name in re.findall(r"`--as (\w+)`", refused.sentences):
        result = lineage(*typed, "--as", name)
        assert (result.code, result.rows[0][-2:]) == (0, ["VERIFIED", "inherited"])
        assert AS.replace("LlamaForCausalLM", name) in result.sentences
        assert "code of the repository" in result.sentences

    def change(tensors):
        for name in list(tensors):
            tensors[name.replace("mlp.up_proj", "mlp.linear_v")] = tensors.pop(name)
        tensors |= {f"model.layers.{layer}.memory.gain": torch.ones(32) for layer in range(2)}

    spoil(unlisted / "fern/child", change)
    fitting_nothing = lineage(*typed)
    assert fitting_nothing.code == 3
    assert "registry/README.md explains how to write a factorization" in fitting_nothing.sentences
    assert "The class is not supported yet." in fitting_nothing.sentences


def test_the_one_class_that_fits_is_taken_at_the_first_command_and_verifies_nothing(unlisted):
    for name in ("child", "other"):
        edit_json(unlisted / f"fern/{name}/config.json", hidden_act="silu")
    related = lineage("check", "fern/child", "--local-hub", unlisted)
    assert (related.code, related.rows[0][-2:]) == (3, ["RELATED", "unlisted-class"])
    assert "Read as LlamaForCausalLM. YiForCausalLM is not in the registry" in related.sentences
    assert "not looked at" not in related.sentences
    assert "Next: If you know that its class computes what LlamaForCausalLM computes, add --as" in related.sentences
    assert lineage("check", "fern/other", "--local-hub", unlisted).code == 1


def test_every_command_reads_it_so(unlisted, tmp_path):
    there = ("--as", "LlamaForCausalLM", "--local-hub", unlisted)
    assert AS in lineage("compare", "acme/base", "fern/child", *there).sentences
    assert lineage("extract", "fern/child", *there, "-o", tmp_path / "signature").code == 0
    assert lineage("inspect", "fern/child", *there).code == 0
    assert lineage("annotate", unlisted / "fern/child", "--write", *there).code == 0
    assert "--as LlamaForCausalLM" in (unlisted / "fern/child/README.md").read_text()


def test_a_registry_in_a_repository_is_not_read_and_one_that_is_broken_is_one_line(unlisted, tmp_path):
    """Only the user says which folder counts, and a class that the registry lists is not read by any."""
    _, rest = (registry_root() / "llama.yaml").read_text().split("\nlayers:", 1)
    for folder in (unlisted / "fern/child", unlisted / "fern/child/registry"):
        folder.mkdir(exist_ok=True)
        (folder / "yi.yaml").write_text(f"classes: [LlamaForCausalLM, YiForCausalLM]\nlayers:{rest}")
    assert lineage("check", "fern/child", "--local-hub", unlisted).code == 3
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/x.yaml").write_text("classes: [YiForCausalLM]\nlayers: [1]\n")
    no_folder = "nowhere is not a folder; name the one with the factorizations"
    for folder, message in (("./nowhere", no_folder), (tmp_path / "broken", "x.yaml")):
        assert message in lineage("check", "fern/child", "--as", folder, "--local-hub", unlisted).error
