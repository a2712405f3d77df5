"""index build: what it says of models that were added, known and failed, and of wrong usage.

An index on the Hub by its name: what is said, and what is wrong in one line.

tree and check --index: drawn from the command line, and what is wrong is one clear line.
"""

import io
import re
import shlex
import shutil
import sys

import pytest

from hf_lineage.hub import listing
from tests.invoking import lineage
from tests.models import EXAMPLES

HUB = ("--local-hub", EXAMPLES)


def build(listed, folder, *options):
    file = folder / "models.txt"
    file.write_text(listed, encoding="utf-8")
    return lineage("index", "build", "--from", file, "--index", folder / "index", *options, *HUB)


def test_models_are_added_and_failures_are_told(tmp_path):
    done = build("# two models\nacme/gpt2-base\n\nacme/none\nacme/gpt2-base\n", tmp_path)
    assert done.code == 2
    assert done.out.splitlines() == ["acme/gpt2-base: added", "1 added, 0 already there, 1 could not be read"]
    assert done.err.startswith("acme/none cannot be fetched from the Hub")
    assert lineage("index", "list", "--index", tmp_path / "index").out.splitlines()[-1] == "1 models"


def test_a_list_is_read_from_standard_input(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"acme/gpt2-base\n")))
    done = lineage("index", "build", "--from", "-", "--index", tmp_path / "index", *HUB)
    assert (done.code, done.out.splitlines()[0]) == (0, "acme/gpt2-base: added")


def test_hostile_names_are_escaped(tmp_path):
    done = build("org/\x1b[2J::error::\n", tmp_path)
    assert done.code == 2
    assert "\x1b" not in done.err
    assert "::error" not in done.err


INDEX, MODELS = "wren/index", ("acme/llama-base", "fern/llama-finetune-a")


@pytest.fixture
def on_hub(online, tmp_path):
    """An index on the Hub."""
    assert lineage("index", "add", *MODELS, "--index", tmp_path / "index", *HUB).code == 0
    online.publish(INDEX, tmp_path / "index")
    listing.tree.cache_clear()


def test_a_verdict_is_not_lost_to_an_index_that_is_out_of_reach(online):
    checked = lineage("check", "fern/llama-finetune-a", "--index", "no/where", "--local-hub", EXAMPLES)
    assert checked.code == 0, checked
    assert "No index was searched: no/where is not on the Hub" in checked.sentences


def test_a_model_is_identified_and_checked_by_an_index_on_the_hub(on_hub, tmp_path):
    found = lineage("identify", "heron/llama-int8-rounded", "--index", INDEX, "--local-hub", EXAMPLES)
    assert "Nearest known relative: acme/llama-base" in found.sentences
    shutil.copytree(EXAMPLES / "fern/llama-merge-a-b", tmp_path / "hub" / "fern" / "llama-merge-a-b")
    shutil.copytree(EXAMPLES / "acme/llama-base", tmp_path / "hub" / "acme" / "llama-base")
    checked = lineage(
        "check", "fern/llama-merge-a-b", "--base", "acme/llama-base", "--index", INDEX, "--local-hub", tmp_path / "hub"
    )
    assert "fern/llama-finetune-a, which is in the index, is a nearer relative" in checked.sentences
    drawn = lineage("tree", "--index", INDEX)
    assert "acme/llama-base" in drawn.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("index", "build"), "Missing option '--from'"),
        (("index", "build", "--from", "none.txt"), "none.txt"),
        (("index", "build", "--from", "-", "--engine", "spark"), "'spark' is not one of 'local', 'ray'"),
        (("index", "build", "--from", "-", "--workers", "0"), "0 is not in the range"),
        (("index", "build", "--from", "-", "--rate", "0"), "0"),
        (("index", "add"), "name a MODEL, or an account with --author"),
        (("identify", "acme/llama-base", "--top", "11"), "11 is not in the range"),
        (("identify", "acme/llama-base", "--alpha", "0"), "alpha"),
        (("tree",), "name a MODEL, an account with --author, or an index with --index"),
        (("check", "acme/gpt2-base", "--index", "/no/such/folder"), "does not exist"),
        (("identify", "acme/llama-base", "--index", "no/where", *HUB), "no/where is not on the Hub, or is private"),
        (("index", "list", "--index", "a b/c"), "does not exist, and no index on the Hub has this name;"),
        (
            ("check", "acme/llama-base", "--index", "nowhere"),
            "nowhere does not exist, and no index on the Hub has this",
        ),
    ],
)
def test_what_is_wrong_is_one_line(online, arguments, message):
    assert message in lineage(*arguments).error


GPT2 = ("acme/gpt2-base", "fern/gpt2-finetune-a", "heron/llama-int8-rounded")


def test_a_tree_is_drawn_of_models_that_are_named():
    shown = lineage("tree", *GPT2, *HUB)
    assert shown.code == 0
    assert shown.out.startswith("acme/gpt2-base\n  fern/gpt2-finetune-a\n      verified, declared: finetune, seen: ")
    assert "heron/llama-int8-rounded\n    declares acme/llama-base: declared only" in shown.out


def test_a_model_that_cannot_be_read_is_told_and_the_others_are_drawn():
    shown = lineage("tree", "acme/gpt2-base", "acme/none", *HUB)
    assert (shown.code, shown.out.splitlines()[0]) == (2, "acme/gpt2-base")
    assert shown.err.startswith("acme/none: ")
    assert shown.err.count("\n") == 1


def test_of_an_adapter_the_command_is_told_that_judges_it():
    shown = lineage("tree", "acme/gpt2-base", "fern/llama-lora", *HUB)
    (judging,) = re.findall(r"`hf-lineage ([^`]+)`", shown.err)
    assert (shown.code, "merge" in shown.err) == (2, False)
    assert lineage(*shlex.split(judging)).rows[0][0] == "acme/llama-base"
