"""index build: what it says of models that were added, known and failed, and of wrong usage."""

import io
import sys

import pytest

from tests.invoking import lineage
from tests.models import EXAMPLES

pytestmark = pytest.mark.usefixtures("shared_decoders")

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


def test_an_empty_list_adds_nothing(tmp_path):
    assert build("\n# nothing\n", tmp_path).out == "0 added, 0 already there, 0 could not be read\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing option '--from'"),
        (("--from", "none.txt"), "none.txt"),
        (("--from", "-", "--engine", "spark"), "'spark' is not one of 'local', 'ray'"),
        (("--from", "-", "--workers", "0"), "0 is not in the range"),
        (("--from", "-", "--rate", "0"), "0"),
    ],
)
def test_wrong_usage_is_one_line(arguments, message):
    assert message in lineage("index", "build", *arguments).error


def test_hostile_names_are_escaped(tmp_path):
    done = build("org/\x1b[2J::error::\n", tmp_path)
    assert done.code == 2
    assert "\x1b" not in done.err
    assert "::error" not in done.err
