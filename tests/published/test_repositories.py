"""Repositories as people publish them, built from tiny models and checked as users would, each with its own answer.

Those of repositories.yaml have a verdict; what public reports are about is read, or named as what it is.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from hf_lineage.architecture.registry import registry_root
from tests.invoking import check, lineage
from tests.long import first_with
from tests.models import EXAMPLES, card, family, fine_tuned, tiny_llama
from tests.published import steps
from tests.published.steps import STEPS, named, take
from tools.published import published_counts

TABLES = {
    of: yaml.safe_load(Path(__file__).with_name(f"{of}.yaml").read_text("utf-8"))
    for of in ("repositories", "files", "damaged", "cases")
}
REPOSITORIES, FILES, DAMAGED, CASES = TABLES.values()
INSIDE = {"InternVLChatModel": ("language_model", "heads: llm_config.num_attention_heads\n"), "MiniCPMV": ("llm", "")}
"""Class of remote code -> where its language model is, and what a user writes of it beside that."""
KEYS = {"name", "card", "files", "steps", "base", "arguments", "folder", "notes", "undecided", "rows", "other", "as"}
IN_REPORTS = {"awq", "bnb_four_bits", "fp8", "gptq", "{'mlx_bits': 8}"}
"""Packings of which a report has a descendant and an independent model as well."""


def of_repository(case):
    """What is done to the weights of a case, and to its base; or a card that leaves the claim undecided."""
    return {*map(str, (*case.get("steps", ()), *case.get("base", ()))), *case.keys() & {"undecided"}} - IN_REPORTS


def checked(case, tmp_path):
    """What is said of the repository of a case as that of a descendant, and of an independent model."""
    base = tiny_llama(tmp_path / "hub/acme/base")
    fine_tuned(base, tmp_path / "hub/fern/child")
    tiny_llama(tmp_path / "hub/fern/other", seed=5)
    (tmp_path / "registry").mkdir()
    _, rest = (registry_root() / "llama.yaml").read_text().split("\nlayers:", 1)
    (tmp_path / "registry/yi.yaml").write_text(f"classes: [YiForCausalLM]\nlayers:{rest}")
    _, behind = rest.split("\nnormalization:", 1)
    for name, (prefix, keys) in INSIDE.items():
        written = f"classes: [{name}]\nlayers: {prefix}.model.layers.{{layer}}\n{keys}normalization:{behind}"
        (tmp_path / f"registry/{name}.yaml").write_text(written)
    take(base, case.get("base", ()))
    for name in ("child", "other"):
        folder = take(tmp_path / "hub/fern" / name, case.get("steps", ()))
        if (said := case.get("card", {"base_model": "acme/base"})) is not None:
            steps.card(folder, said)
        take(folder, [{"write": case.get("files", {})}])
        model = "/".join(filter(None, ("fern", name, case.get("folder"))))
        yield name, lineage("check", model, "--local-hub", "hub", "--format", "json", *case.get("arguments", ()))


@pytest.mark.parametrize("case", first_with(REPOSITORIES, of_repository))
def test_a_repository_has_the_verdict_that_is_expected_of_it(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = dict(checked(case, tmp_path))
    reports = {name: json.loads(result.out) for name, result in results.items()}
    verdicts = {name: [claim["verdict"] for claim in report["claims"]] for name, report in reports.items()}
    if "undecided" in case:
        assert [(verdicts[name], results[name].code) for name in results] == [(["UNDECIDED"], 3)] * 2
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
    assert [words for words in case.get("notes", ()) if words not in sentences] == []


OF_CASE = {"name", "link", "of", "steps", "card", "files", "arguments", "code", "says", "silent"}


def of_file(row):
    """What is done to a folder, by its kind and for a packing by its name; and the exit code."""
    return {f"{given if name == 'pack' else name} {row['code']}" for name, given in named(row["do"])}


def of_case(case):
    """What is done to the folder of a case, and which files are written into it."""
    return {case.get("of", ""), *(name for name, _ in named(case.get("steps", ()))), *case.get("files", ())}


@pytest.mark.parametrize("row", first_with([*FILES, *DAMAGED], of_file))
def test_what_was_reported_is_read_or_named_as_what_it_is(row, tmp_path):
    """An independent model in the same clothes is UNRELATED wherever the descendant is verified."""
    hub = family(tmp_path / "hub")
    take(hub / row.get("at", "fern/child"), row["do"])
    outcome = check(hub, "--explain")
    text = f"{outcome.sentences} {outcome.err}"
    assert outcome.code == row["code"], text
    assert [words for words in row["says"] if words not in text] == [], text
    assert "fern/child" in outcome.error if row["code"] == 2 and "at" not in row else outcome.err == ""
    if "row" in row:
        assert outcome.rows == [["acme/base", "finetune", "-", "-", "-", "-", *row["row"].split()]]
    if outcome.code == 0:
        take(card(tiny_llama(hub / "fern/other", seed=5), "acme/base", "finetune"), row["do"])
        assert lineage("check", "fern/other", "--local-hub", hub).code == 1


@pytest.mark.parametrize("case", first_with(CASES, of_case))
def test_a_report_has_its_answer(case, tmp_path):
    hub = shutil.copytree(EXAMPLES, tmp_path / "hub") if "of" in case else tmp_path / "hub"
    folder = hub / "fern/case"
    if "of" in case:
        shutil.copytree(hub / case["of"], folder)
        (folder / "README.md").unlink()
    take(folder, case.get("steps", ()))
    files = dict(case.get("files", {}))
    steps.card(folder, case.get("card", {"base_model": "acme/llama-base"}), files.pop("encoding", "utf-8"))
    take(folder, [{"write": files}])
    result = lineage("check", "fern/case", "--local-hub", hub, "--explain", *case.get("arguments", ()))
    told = " ".join(f"{result.out} {result.err}".split())
    assert result.code == case["code"], told
    assert all(words in told for words in case["says"]), told
    assert not any(words in told for words in case.get("silent", ())), told


def test_the_tables_are_long_enough_with_names_links_known_keys_and_no_idle_step():
    _, descendants, decided = published_counts()
    assert min(descendants - 86, decided - 0.97 * descendants, len(FILES) - 55, len(CASES) - 40) >= 0
    for rows in (REPOSITORIES, (*FILES, *DAMAGED), CASES):
        assert len({row["name"] for row in rows}) == len(rows)
    assert all(re.match(r"https://(github\.com|huggingface\.co)/\w", row["link"]) for row in (*FILES, *CASES))
    assert not [
        row["name"] for table, keys in ((REPOSITORIES, KEYS), (CASES, OF_CASE)) for row in table if row.keys() - keys
    ]
    rows = [row for table in TABLES.values() for row in table]
    taken = [step for row in rows for key in ("steps", "base", "do") for step in row.get(key, ())]
    assert {name for name, _ in named(taken)} == STEPS.keys()
