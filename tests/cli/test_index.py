"""index and identify: models are added, listed and found, and what is wrong is one clear line."""

import io
import json
import re
import shlex
import shutil
import sys

import pytest

from hf_lineage import Options, check, extract
from hf_lineage.hub import commits
from hf_lineage.index.store import Catalogue
from tests import gguf_models
from tests.blends import BASE, A, B, blended
from tests.invoking import Outcome, lineage
from tests.models import EXAMPLES

HUB = ("--local-hub", EXAMPLES)
GPT2, RIO = ("acme/gpt2-base", "fern/gpt2-finetune-a"), "wren/rio"
PARENTS = ("acme/llama-base", "fern/llama-finetune-a", "fern/llama-finetune-b", "acme/gpt2-base")


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    added = lineage("index", "add", *PARENTS, "--index", folder, *HUB)
    assert (added.code, added.out.splitlines()) == (0, [f"{name}: added" for name in PARENTS])
    return folder


def listed(index):
    document = json.loads(lineage("index", "list", "--index", index, "--format", "json").out)
    return [one["model"] for one in document["models"]]


def test_a_quantized_models_parent_comes_first_and_an_empty_index_finds_none(index, tmp_path):
    parent, file = EXAMPLES / "fern/llama-finetune-a", tmp_path / "model-Q4_0.gguf"
    quantized = gguf_models.write(parent, file, kind=gguf_models.KINDS.Q4_0)
    shown = lineage("identify", quantized, "--index", index, "--format", "json")
    (path,) = json.loads(shown.out)["paths"]
    assert (shown.code, path["relatives"][0]["model"]) == (0, "fern/llama-finetune-a")
    assert path["relatives"][0]["along"] > 0.5
    assert lineage("index", "list", "--index", index).out.splitlines()[-1] == "4 models"
    assert listed(index) == sorted(PARENTS)
    (tmp_path / "empty").mkdir()
    assert lineage("index", "list", "--index", tmp_path / "empty").out == "0 models\n"
    shown = lineage("identify", "acme/llama-base", "--index", tmp_path / "empty", *HUB)
    assert (shown.code, "0 of 0 models" in shown.out) == (3, True)


def test_a_damaged_file_of_an_index_is_one_line_and_no_verdict_is_lost_to_it(index, tmp_path):
    damaged, merge = shutil.copytree(index, tmp_path / "index"), "fern/llama-merge-a-b"
    (damaged / "keys" / "0.safetensors").write_bytes(b"x" * 1000)
    for command in (("identify", merge, *HUB), ("tree",), ("index", "list")):
        said = lineage(*command, "--index", damaged).error
        assert "0.safetensors is not a file of an index:" in said
        assert said.endswith("remove it and add its models again")
    shown = lineage("check", merge, "--base", "acme/llama-base", "--index", damaged, *HUB)
    assert (shown.code, "The index was not searched for acme/llama-base: " in shown.sentences) == (0, True), shown


@pytest.mark.long
def test_nothing_is_lost_to_a_missing_signature_until_the_model_is_added_again(index, tmp_path):
    folder = shutil.copytree(index, tmp_path / "index")
    (entry,) = (one for one in Catalogue(folder).entries() if one.model == "fern/llama-finetune-b")
    Catalogue(folder).signature_path(entry).unlink()
    asked = ("identify", "fern/llama-merge-a-b", "--index", folder, *HUB)
    shown = lineage(*asked)
    assert (shown.code, "Nearest known relative: " in shown.out) == (0, True)
    assert "1 models of the index could not be read and were left out; the first: fern/llama-finetune-b" in shown.err
    lineage("index", "add", "fern/llama-finetune-b", "--index", folder, *HUB)
    again = lineage(*asked)
    assert (again.code, again.err, max(map(len, again.out.splitlines())) <= 80) == (0, "", True)
    assert "Nearest known relative: fern/llama-finetune-" in again.sentences
    assert "57% is also in fern/llama-finetune-a and 55% is also in fern/llama-finetune-b: it may" in again.sentences
    assert "4 of 4 models in the index are comparable (path mlp)" in again.sentences


def test_the_base_of_an_adapter_is_found_and_which_of_its_relatives_is_left_open(index):
    shown = lineage("identify", "fern/llama-lora", "--index", index, *HUB)
    assert (shown.code, max(map(len, shown.out.splitlines())) <= 80) == (0, True)
    told = shown.sentences
    assert "Made with acme/llama-base or with a near relative of it; the trace does not say which one" in told
    assert "near it by keys, and not tested: fern/llama-finetune-a, fern/llama-finetune-b" in told
    assert "4 of 4 models in the index have a stream 96 wide, as the adapter needs" in told
    assert "each for those near it: 1; not tested: 1; p is corrected for 2" in told


def test_the_command_that_an_adapter_is_told_for_a_folder_of_the_index_tests_it(tmp_path, monkeypatch):
    for name, copy in (("acme/llama-base", "base"), ("fern/llama-lora", "lora")):
        shutil.copytree(EXAMPLES / name, tmp_path / copy)
    monkeypatch.chdir(tmp_path)
    lineage("index", "add", "./base", "--index", "index")
    told = lineage("identify", "./lora", "--index", "index", "--as", "LlamaForCausalLM")
    assert (told.code, "each for those near it: 0; not tested: 1" in told.sentences) == (3, True)
    (command,) = re.findall(r"`hf-lineage ([^`\n]+)`", told.out)
    assert command == "check ./lora --base ./base --as LlamaForCausalLM --paths mlp"
    assert lineage(*shlex.split(command)).code == 0


def test_models_are_added_one_by_one_or_of_a_list_and_removed_and_failures_are_told(tmp_path, monkeypatch):
    (tmp_path / "list").write_text("# two\nacme/gpt2-base\n\nacme/none\nacme/gpt2-base\norg/\x1b[2J::error::\n")
    build = ("build", ("--from", tmp_path / "list"), ["1 added, 0 already there, 2 could not be read"])
    for name, models, lines in (("add", ("acme/none", "acme/gpt2-base"), []), build):
        done = lineage("index", name, *models, "--index", tmp_path / name, *HUB)
        assert (done.code, done.out.splitlines()) == (2, ["acme/gpt2-base: added", *lines])
        assert done.err.startswith("acme/none cannot be fetched from the Hub")
        assert ("\x1b" in done.err, "::error" in done.err) == (False, False)
        assert listed(tmp_path / name) == ["acme/gpt2-base"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"acme/gpt2-base\n")))
    done = lineage("index", "build", "--from", "-", "--index", tmp_path / "of standard input", *HUB)
    assert (done.code, done.out.splitlines()[0]) == (0, "acme/gpt2-base: added")
    there = ("--index", tmp_path / "add")
    lineage("index", "add", GPT2[1], *there, *HUB)
    refused = lineage("index", "remove", GPT2[0], "acme/gone", *there).error
    assert refused.startswith("acme/gone is not in the index, so nothing was removed; `hf-lineage index list --index ")
    assert lineage("index", "remove", GPT2[0], *there) == Outcome(0, f"{GPT2[0]}: removed\n", "")
    assert listed(there[1]) == [GPT2[1]]
    assert "does not exist, so there is no index" in lineage("index", "remove", "a/b", "--index", tmp_path / "no").error


def test_a_model_is_identified_and_checked_by_an_index_on_the_hub(online, index, tmp_path):
    online.publish("wren/index", index)
    commits.tree.cache_clear()
    there = ("--index", "wren/index")
    assert "Nearest known relative: acme/l" in lineage("identify", "heron/llama-int8-rounded", *there, *HUB).sentences
    for name in ("fern/llama-merge-a-b", "acme/llama-base"):
        shutil.copytree(EXAMPLES / name, tmp_path / "hub" / name)
    named = ("fern/llama-merge-a-b", "--base", "acme/llama-base", "--local-hub", tmp_path / "hub")
    assert "fern/llama-finetune-a, which is in the index, is a nearer" in lineage("check", *named, *there).sentences
    assert "acme/llama-base" in lineage("tree", *there).out
    out_of_reach = lineage("check", "fern/llama-finetune-a", "--index", "no/where", *HUB)
    assert out_of_reach.code == 0, "no verdict is lost to it"
    assert "No index was searched: no/where is not on the Hub" in out_of_reach.sentences


@pytest.mark.parametrize(("typed", "message"), [
    ("index build", "Missing option '--from'"),
    ("index build --from none.txt", "none.txt"),
    ("index build --from - --engine spark", "'spark' is not one of 'local', 'ray'"),
    ("index build --from - --workers 0", "0 is not in the range"),
    ("index build --from - --rate 0", "0"),
    ("index add", "name a MODEL, or an account with --author"),
    ("identify acme/llama-base --top 11", "11 is not in the range"),
    ("identify acme/llama-base --alpha 0", "alpha"),
    ("tree", "name a MODEL, an account with --author, or an index with --index"),
    ("check acme/gpt2-base --index /no/such/folder", "does not exist"),
    (f"identify acme/llama-base --index no/where --local-hub {EXAMPLES}", "no/where is not on the Hub, or is priv"),
    ("index list --index 'a b/c'", "does not exist, and no index on the Hub has this name;"),
    ("check acme/llama-base --index nowhere", "nowhere does not exist, and no index on the Hub has"),
])  # fmt: skip
def test_what_is_wrong_is_one_line(online, typed, message):
    assert message in lineage(*shlex.split(typed)).error


def test_a_tree_is_drawn_of_what_can_be_read_and_of_others_a_command_is_told():
    shown = lineage("tree", *GPT2, "heron/llama-int8-rounded", *HUB)
    assert shown.code == 0
    assert shown.out.startswith("acme/gpt2-base\n  fern/gpt2-finetune-a\n      verified, declared: finetune, seen: ")
    assert "heron/llama-int8-rounded\n    declares acme/llama-base: declared only" in shown.out
    shown = lineage("tree", "acme/gpt2-base", "acme/none", *HUB)
    assert (shown.code, shown.out.splitlines()[0]) == (2, "acme/gpt2-base")
    assert (shown.err.startswith("acme/none: "), shown.err.count("\n")) == (True, 1)
    shown = lineage("tree", "acme/gpt2-base", "fern/llama-lora", *HUB)
    (judging,) = re.findall(r"`hf-lineage ([^`]+)`", shown.err)
    assert (shown.code, "merge" in shown.err) == (2, False)
    assert lineage(*shlex.split(judging)).rows[0][0] == "acme/llama-base"


@pytest.mark.long
def test_a_blend_has_the_same_numbers_by_python_by_an_index_and_by_named_bases(tmp_path):
    catalogue = Catalogue(tmp_path / "index")
    for name in (BASE, A, B):
        shutil.copytree(EXAMPLES / name, tmp_path / name)
        catalogue.add(extract(name, Options(local_hub=tmp_path)))
    blended(tmp_path / RIO, {BASE: 0.43, B: 0.57})
    expected = check(RIO, (BASE, B), Options(local_hub=tmp_path, seed=0)).to_dict()["blend"]
    assert [round(one["share"], 3) for one in expected["parents"]] == [0.43, 0.57]
    for how in (("--index", tmp_path / "index"), ("--base", BASE, "--base", B)):
        typed = ("check", RIO, "--local-hub", tmp_path, *how, "--format")
        assert json.loads(lineage(*typed, "json").out)["blend"] == expected
        text = lineage(*typed, "text")
        assert text.code == 3
        assert (
            f"{B} shows as an undeclared parent: 57% (± 0.1) of {B} and 43% (± 0.1) of {BASE} explain 99.9% of the "
            f"model; nothing was trained after the blend; the model names {BASE} alone"
        ) in text.sentences
