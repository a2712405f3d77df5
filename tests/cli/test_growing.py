"""tree and check --index: drawn from the command line, and what is wrong is one clear line."""

import json
import re
import shlex

import pytest

from hf_lineage.cli.growing import FORMATS
from hf_lineage.report.tree import formats as tree
from tests.invoking import lineage
from tests.models import EXAMPLES

pytestmark = pytest.mark.usefixtures("shared_decoders")

HUB = ("--local-hub", EXAMPLES)
GPT2 = ("acme/gpt2-base", "fern/gpt2-finetune-a", "heron/llama-int8-rounded")


def test_a_tree_is_drawn_of_models_that_are_named():
    shown = lineage("tree", *GPT2, *HUB)
    assert shown.code == 0
    assert shown.out.startswith("acme/gpt2-base\n  fern/gpt2-finetune-a\n      verified, declared: finetune, seen: ")
    assert "heron/llama-int8-rounded\n    declares acme/llama-base: declared only" in shown.out


def test_a_tree_is_drawn_of_an_index(tmp_path):
    lineage("index", "add", *GPT2, "--index", tmp_path, *HUB)
    shown = lineage("tree", "--index", tmp_path, "--format", "json")
    (edge,) = json.loads(shown.out)["edges"]
    assert (edge["mark"], edge["directed"]) == ("measured", False)


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


def test_the_formats_of_the_command_are_those_of_the_table():
    assert tuple(tree.FORMATS) == FORMATS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tree",), "name a MODEL, an account with --author, or an index with --index"),
        (("check", "acme/gpt2-base", "--index", "/no/such/folder"), "does not exist"),
    ],
)
def test_wrong_usage_is_one_line(arguments, message):
    assert message in lineage(*arguments).error
