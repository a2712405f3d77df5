"""What public reports are about has its answer: files, quantized folders, adapters, cards, GGUF files and merges."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.invoking import check, lineage
from tests.long import first_with
from tests.models import EXAMPLES, card, family, tiny_llama
from tests.published.steps import card as written_card
from tests.published.steps import named, take

FILES, DAMAGED, CASES = (
    yaml.safe_load(Path(__file__).with_name(f"{of}.yaml").read_text("utf-8")) for of in ("files", "damaged", "cases")
)
KEYS = {"name", "link", "of", "steps", "card", "files", "arguments", "code", "says", "silent"}


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
    if row["code"] == 2 and "at" not in row:
        assert "fern/child" in outcome.error
    else:
        assert outcome.err == ""
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
    written_card(folder, case.get("card", {"base_model": "acme/llama-base"}), files.pop("encoding", "utf-8"))
    take(folder, [{"write": files}])
    result = lineage("check", "fern/case", "--local-hub", hub, "--explain", *case.get("arguments", ()))
    told = " ".join(f"{result.out} {result.err}".split())
    assert result.code == case["code"], told
    assert all(words in told for words in case["says"]), told
    assert not any(words in told for words in case.get("silent", ())), told


def test_the_tables_say_where_each_report_stands_and_what_it_is_called():
    assert (len(FILES) >= 55, len(CASES) >= 40) == (True, True)
    for rows in ((*FILES, *DAMAGED), CASES):
        assert len({row["name"] for row in rows}) == len(rows)
    linked = [*FILES, *CASES]
    assert [
        row["name"] for row in linked if not re.match(r"https://(github\.com|huggingface\.co)/\w", row["link"])
    ] == []
    assert all(case.keys() <= KEYS for case in CASES)
