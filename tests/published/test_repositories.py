"""Every repository of repositories.yaml, built from tiny models and checked as users would, has its own verdict."""

import json
from pathlib import Path

import pytest
import yaml

from hf_lineage.architecture.registry import registry_root
from tests.invoking import lineage
from tests.long import first_with
from tests.models import fine_tuned, tiny_llama
from tests.published.steps import STEPS, card, named, take
from tools.published import published_counts

CASES = yaml.safe_load(Path(__file__).with_name("repositories.yaml").read_text(encoding="utf-8"))
INSIDE = {"InternVLChatModel": ("language_model", "heads: llm_config.num_attention_heads\n"), "MiniCPMV": ("llm", "")}
"""Class of remote code -> where its language model is, and what a user writes of it beside that."""
KEYS = {"name", "card", "files", "steps", "base", "arguments", "folder", "notes", "undecided", "rows", "other", "as"}


IN_REPORTS = {"awq", "bnb_four_bits", "fp8", "gptq", "{'mlx_bits': 8}"}
"""Packings of which test_reports.py has a descendant and an independent model as well."""


def steps(case):
    """What is done to the weights of a case, and to its base; or a card that leaves the claim undecided."""
    return {*map(str, (*case.get("steps", ()), *case.get("base", ()))), *case.keys() & {"undecided"}} - IN_REPORTS


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Check a repository of a case: that of a descendant, or of an independent model."""
    monkeypatch.chdir(tmp_path)
    base = tiny_llama(tmp_path / "hub/acme/base")
    fine_tuned(base, tmp_path / "hub/fern/child")
    tiny_llama(tmp_path / "hub/fern/other", seed=5)
    (tmp_path / "registry").mkdir()
    _, rest = (registry_root() / "llama.yaml").read_text().split("\nlayers:", 1)
    (tmp_path / "registry/yi.yaml").write_text(f"classes: [YiForCausalLM]\nlayers:{rest}")
    for name, (prefix, keys) in INSIDE.items():
        _, behind = rest.split("\nnormalization:", 1)
        written = f"classes: [{name}]\nlayers: {prefix}.model.layers.{{layer}}\n{keys}normalization:{behind}"
        (tmp_path / f"registry/{name}.yaml").write_text(written)

    def check(case, name):
        folder = take(tmp_path / "hub/fern" / name, case.get("steps", ()))
        if (said := case.get("card", {"base_model": "acme/base"})) is not None:
            card(folder, said)
        take(folder, [{"write": case.get("files", {})}])
        model = "/".join(filter(None, ("fern", name, case.get("folder"))))
        return lineage("check", model, "--local-hub", "hub", "--format", "json", *case.get("arguments", ()))

    def prepared(case):
        take(base, case.get("base", ()))
        return {name: check(case, name) for name in ("child", "other")}

    return prepared


@pytest.mark.parametrize("case", first_with(CASES, steps))
def test_a_repository_has_the_verdict_that_is_expected_of_it(case, checked):
    results = checked(case)
    reports = {name: json.loads(result.out) for name, result in results.items()}
    verdicts = {name: [claim["verdict"] for claim in report["claims"]] for name, report in reports.items()}
    if "undecided" in case:
        assert {tuple(of_one) for of_one in verdicts.values()} == {("UNDECIDED",)}
        assert all(result.code == 3 for result in results.values())
        assert all(case["undecided"] in report["claims"][0]["reason"] for report in reports.values())
        return
    assert verdicts["child"] == case.get("rows", ["RELATED" if "as" in case else "VERIFIED"])
    assert verdicts["other"][0] == case.get("other", "UNRELATED")
    assert results["child"].code == (0 if set(verdicts["child"]) == {"VERIFIED"} else 3)
    assert results["other"].code == (1 if verdicts["other"][0] == "UNRELATED" else 3)
    report = reports["child"]
    sentences = " ".join([*report["notes"], *report["conflicts"], *report["claims"][0]["notes"]])
    if "as" in case:
        assert report["claims"][0]["code"] == "unlisted-class"
        assert f"read as {case['as']}; its own code decides" in report["claims"][0]["reason"]
    for words in case.get("notes", ()):
        assert words in sentences


def test_the_list_is_long_enough_and_what_is_left_undecided_is_little():
    """Every other test here shows that one repository has its verdict: these are the counts of them."""
    _, descendants, decided = published_counts()
    assert descendants >= 86
    assert decided >= 0.97 * descendants


def test_the_tables_have_no_key_that_nothing_reads_and_no_step_is_idle():
    assert not [case["name"] for case in CASES if not case.keys() <= KEYS]
    assert len({case["name"] for case in CASES}) == len(CASES)
    tables = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in Path(__file__).parent.glob("*.yaml")]
    rows = [row for table in tables for row in table if isinstance(row, dict)]
    taken = [step for row in rows for key in ("steps", "base", "do") for step in row.get(key, ())]
    assert {name for name, _ in named(taken)} == STEPS.keys()
