"""index and identify: models are added, listed and found, and what is wrong is one clear line."""

import json

import pytest

from tests.models import EXAMPLES
from tests.running import lineage

HUB = ("--local-hub", EXAMPLES)
PARENTS = ("acme/llama-base", "fern/llama-finetune-a", "fern/llama-finetune-b", "acme/gpt2-base")


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    added = lineage("index", "add", *PARENTS, "--index", folder, *HUB)
    assert added.code == 0
    assert added.out.splitlines() == [f"{name}: added" for name in PARENTS]
    return folder


def test_the_nearest_relatives_are_named(index):
    shown = lineage("identify", "fern/llama-merge-a-b", "--index", index, *HUB)
    assert shown.code == 0
    words = " ".join(shown.out.split())
    assert "Nearest known relative: fern/llama-finetune-a (57%) and fern/llama-finetune-b (54%); by that share" in words
    assert "4 of 4 models in the index are comparable (path mlp)" in words
    assert all(len(line) <= 80 for line in shown.out.splitlines())


def test_a_liar_has_no_relative(index):
    shown = lineage("identify", "magpie/llama-liar", "--index", index, *HUB)
    assert shown.code == 3
    assert "No relative was found: 4 of 4 models in the index are comparable" in " ".join(shown.out.split())


def test_programs_get_the_same_as_json(index):
    shown = lineage("identify", "heron/llama-pruned-50", "--index", index, "--format", "json", *HUB)
    (path,) = json.loads(shown.out)["paths"]
    assert path["ancestor"] == path["relatives"][0]["model"] == "acme/llama-base"
    assert {one["verdict"] for one in path["relatives"]} == {"RELATED"}


def test_the_index_is_listed(index):
    shown = lineage("index", "list", "--index", index)
    assert shown.out.splitlines()[-1] == "4 models"
    models = json.loads(lineage("index", "list", "--index", index, "--format", "json").out)["models"]
    assert [one["model"] for one in models] == sorted(PARENTS)


def test_an_empty_index_says_so_and_finds_nothing(tmp_path):
    assert lineage("index", "list", "--index", tmp_path / "none").out == "0 models\n"
    shown = lineage("identify", "acme/llama-base", "--index", tmp_path / "none", *HUB)
    assert (shown.code, "0 of 0 models" in shown.out) == (3, True)


def test_a_model_that_cannot_be_read_is_an_error_and_the_others_are_added(tmp_path):
    added = lineage("index", "add", "acme/none", "acme/gpt2-base", "--index", tmp_path, *HUB)
    assert added.code == 2
    assert added.err.startswith("acme/none cannot be fetched from the Hub")
    assert added.out == "acme/gpt2-base: added\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("index", "add"), "name a MODEL, or an account with --author"),
        (("identify", "acme/llama-base", "--top", "11"), "11 is not in the range"),
        (("identify", "acme/llama-base", "--alpha", "0"), "alpha"),
    ],
)
def test_wrong_usage_is_one_line(arguments, message, tmp_path):
    shown = lineage(*arguments, "--index", tmp_path, *(HUB if arguments[0] == "identify" else ()))
    assert shown.code == 2
    assert message in shown.error
    assert len(shown.error.splitlines()) == 1


def test_a_damaged_index_is_one_line(index, tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "x.parquet").write_bytes(b"no table")
    shown = lineage("index", "list", "--index", tmp_path)
    assert (shown.code, len(shown.error.splitlines())) == (2, 1)
    assert "x.parquet is no file of an index" in shown.error
