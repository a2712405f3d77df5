"""scan: what the command prints, and how it ends."""

import json
import shutil

import pytest

from tests.gguf_models import write
from tests.invoking import environment, lineage, process
from tests.models import EXAMPLES, card
from tests.ollama_store import pulled, written
from tests.scan.test_places import cached

CHILD = EXAMPLES / "fern/llama-finetune-a"
SAID = {"general.base_model.count": 1, "general.base_model.0.repo_url": "https://huggingface.co/acme/llama-base"}


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "disk/store"))
    return tmp_path / "disk/store"


@pytest.fixture
def child(tmp_path):
    return write(CHILD, tmp_path / "child.gguf", said=SAID)


def scan(store, *arguments):
    return lineage("scan", store.parent, "--local-hub", EXAMPLES, *arguments)


def test_models_are_listed_and_nothing_is_judged(store, child):
    pulled(store, "child", child)
    outcome = scan(store)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.rows == [["ollama://child:latest", "Ollama", "2.6", "MB", "acme/llama-base", "GGUF"]]
    assert "Verdict" not in outcome.out


def test_a_check_adds_the_verdict_and_its_exit_code(store, child):
    pulled(store, "child", child)
    outcome = scan(store, "--check", "--set", "order-seed=0")
    assert (outcome.code, outcome.rows[0][-1]) == (0, "RELATED")
    liar = card(shutil.copytree(EXAMPLES / "otter/llama-independent", store.parent / "liar"), "acme/llama-base")
    outcome = scan(store, "--check")
    assert (outcome.code, [row[-1] for row in outcome.rows if row[-1].isupper()]) == (1, ["UNRELATED", "RELATED"])
    document = json.loads(scan(store, "--check", "--format", "json").out)
    assert {one["name"]: [claim["verdict"] for claim in one["claims"]] for one in document["models"]} == {
        str(liar): ["UNRELATED"],
        "ollama://child:latest": ["RELATED"],
    }


def test_a_model_that_cannot_be_read_is_a_line_and_the_exit_code_2(store, child):
    pulled(store, "child", child)
    written(store, "bad", b"{")
    outcome = scan(store)
    assert outcome.code == 2
    assert "ollama://bad:latest: its manifest is not one of Ollama" in outcome.sentences
    assert outcome.rows[-1][0] == "ollama://child:latest"


def test_digests_show_the_same_numbers_under_another_name(store, child, tmp_path):
    pulled(store, "child", child)
    write(CHILD, store.parent / "mine.gguf", said=SAID | {"general.name": "Mine"})
    outcome = scan(store, "--digest")
    assert outcome.code == 0
    assert (
        f"The same numbers: ollama://child:latest, {store.parent / 'mine.gguf'}."
        in outcome.sentences.replace("- ", "-").replace("/ ", "/")
        or "The same numbers" in outcome.sentences
    )


def test_a_place_that_is_none_is_one_error(tmp_path):
    assert lineage("scan", tmp_path / "nowhere").error.endswith(
        "nowhere is not a folder, so nothing in it can be listed; check it"
    )


def test_the_result_may_go_to_a_file(store, child, tmp_path):
    pulled(store, "child", child)
    assert scan(store, "--format", "json", "-o", tmp_path / "scan.json").out == ""
    assert json.loads((tmp_path / "scan.json").read_text())["models"][0]["where"] == "Ollama"


def test_nothing_of_the_network_is_asked_for_a_list(store, child, tmp_path):
    """In a process that has no network at all, also of a cache of the Hub."""
    pulled(store, "child", child)
    outcome = process("scan", store.parent)
    assert (outcome.code, "ollama://child:latest" in outcome.out) == (0, True)


def test_a_base_is_read_from_the_cache_of_the_hub_where_it_is_there(store, child, tmp_path):
    """In a process that may ask the Hub nothing: candidate and base were downloaded before."""
    for name in ("fern/llama-finetune-a", "acme/llama-base"):
        cached(tmp_path / "hub", name, EXAMPLES / name)
    pulled(store, "child", child)
    surroundings = environment(HF_HUB_CACHE=str(tmp_path / "hub"), HF_HUB_OFFLINE="1")
    outcome = process("scan", store.parent, tmp_path / "hub", "--check", "--format", "json", env=surroundings)
    assert (outcome.code, outcome.err) == (0, "")
    models = {one["name"]: [claim["verdict"] for claim in one["claims"]] for one in json.loads(outcome.out)["models"]}
    assert models == {
        "ollama://child:latest": ["RELATED"],
        "acme/llama-base": [],
        "fern/llama-finetune-a": ["RELATED"],
    }
    gone = process("scan", store.parent, "--check", env=surroundings | {"HF_HUB_CACHE": str(tmp_path / "empty")})
    assert (gone.code, gone.rows[0][-1]) == (3, "UNVERIFIABLE")
