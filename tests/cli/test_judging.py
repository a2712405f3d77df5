"""check and compare: one judgement, and as many reports of it as were asked for."""

import json

import pytest

from tests.invoking import lineage
from tests.models import EXAMPLES, tiny_gpt2, tiny_llama

BASE, CHILD = "acme/base", "fern/child"


def test_check_asks_what_is_declared_and_compare_does_not(hub):
    checked = lineage("check", CHILD, "--local-hub", hub, "--seed", "0")
    compared = lineage("compare", BASE, CHILD, "--local-hub", hub, "--seed", "0")
    assert (checked.code, compared.code) == (0, 0)
    assert (checked.rows[0][0], compared.rows[0][0]) == (BASE, BASE)
    assert checked.rows[0][-3:] == compared.rows[0][-3:]
    assert lineage("check", BASE, "--local-hub", hub).code == 3
    assert lineage("compare", CHILD, BASE, "--local-hub", hub).code == 0


LLAMA_PATHS = ["mlp", "mlp_gate", "value_output", "query_key"]


def paths(*arguments):
    """The measurements of the only claim, by path."""
    (claim,) = json.loads(lineage(*arguments, "--seed", "0", "--format", "json").out)["claims"]
    return {measured["path"]: measured for measured in claim["paths"]}


def test_all_paths_are_those_that_the_models_have(hub, tmp_path):
    command = ("check", CHILD, "--local-hub", hub)
    every = paths(*command, "--paths", "all")
    assert list(every) == LLAMA_PATHS
    assert every == paths(*command, "--paths", ",".join(LLAMA_PATHS))
    assert list(paths(*command)) == ["mlp", "value_output"]
    model = tiny_gpt2(tmp_path / "gpt2")
    assert list(paths("compare", model, model, "--paths", "all")) == ["mlp", "value_output", "query_key"]


def test_all_paths_are_those_that_both_models_have(tmp_path):
    model, mlp, attention = tiny_llama(tmp_path / "a"), tmp_path / "mlp.safetensors", tmp_path / "v.safetensors"
    assert lineage("extract", model, "--paths", "mlp", "-o", mlp).code == 0
    assert lineage("extract", model, "--paths", "value_output", "-o", attention).code == 0
    assert list(paths("compare", mlp, model, "--paths", "all")) == ["mlp"]
    outcome = lineage("compare", mlp, attention, "--paths", "all")
    assert (outcome.code, outcome.rows[0][-1]) == (3, "incompatible")
    assert "No path is in both models: " in outcome.sentences
    assert lineage("extract", model, "--paths", "all", "-o", mlp).code == 0
    assert list(paths("compare", mlp, model, "--paths", "all")) == LLAMA_PATHS


HUB = ("--local-hub", EXAMPLES, "--seed", "0")
PAIR = ("compare", "acme/llama-base", "fern/llama-finetune-a")


def test_several_models_have_a_row_each_and_one_exit_code(tmp_path):
    page, others = tmp_path / "page.html", ("otter/llama-independent", str(tmp_path / "none"))
    shown = lineage(*PAIR, *others, *HUB, "-o", f"html={page}", "-o", f"json={tmp_path / 'a.json'}")
    assert (shown.code, shown.out.splitlines()[0]) == (1, "acme/llama-base")
    claims = json.loads((tmp_path / "a.json").read_text())["claims"]
    assert {claim["model"]: claim["verdict"] for claim in claims} == dict(
        zip((PAIR[2], *others), ("VERIFIED", "UNRELATED", "UNDECIDED"), strict=True)
    )
    assert {claim["base"] for claim in claims} == {PAIR[1]}
    for claim in claims[:2]:
        alone = lineage("compare", claim["base"], claim["model"], *HUB, "--format", "json").out
        assert json.loads(alone)["claims"][0]["paths"] == claim["paths"]
    text = page.read_text()
    assert all(name in text for name in (PAIR[2], others[0], "./none"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--format", "sarif"), "--format sarif is about one model; compare two models with it"),
        (("-o", "intoto=b.json"), "--format intoto is about one model"),
    ],
)
def test_what_is_about_one_model_is_refused_of_several(arguments, message):
    shown = lineage(*PAIR, "otter/llama-independent", *arguments, *HUB[:2])
    assert (shown.code, message in shown.error) == (2, True)
