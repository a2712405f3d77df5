"""What README.md and the pages in docs/ show is what the program prints, and their links lead somewhere."""

import re

import pytest
import yaml

from hf_lineage.cli.options import INTERRUPTED
from hf_lineage.evidence import verdict
from hf_lineage.evidence.verdict import ExitCode
from hf_lineage.report import NAMES
from tests.screenshots import LARGEST, SHOWN, picture
from tools.docs import BLOCKS, PAGES, README, ROOT, block

REPOSITORY = "https://github.com/hf-lineage/hf-lineage/"
FILES = sorted({README, *PAGES.rglob("*.md"), *(file for file, _ in BLOCKS.values())})
BINARY = {".safetensors", ".gguf", ".onnx", ".png", ".pyc"}
SLOW = {"demo", "review", "tree"}  # blocks that take seconds


@pytest.fixture(params=FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def text(request):
    return request.param.read_text(encoding="utf-8")


def rows(file, heading):
    section = f"\n{file.read_text(encoding='utf-8')}".partition(f"\n{heading}\n")[2]
    table = re.search(r"^\|.*\n\| ---.*\n((?:\|.*\n)+)", section, re.MULTILINE)
    assert table, f"{file}: {heading}"
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table[1].splitlines()]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in SLOW else []) for name in sorted(BLOCKS)]
)
def test_every_generated_block_is_up_to_date(name):
    file, render = BLOCKS[name]
    shown = block(file.read_text(encoding="utf-8"), name)[2].strip()
    assert shown == render().strip(), "run `make docs`"


def test_blocks_are_generated_and_links_lead_to_a_file_a_folder_or_a_heading(text):
    assert set(re.findall(r"^<!-- begin (.+) -->$", text, re.MULTILINE)) <= set(BLOCKS)
    for kind, path in re.findall(rf"{re.escape(REPOSITORY)}(blob|tree)/main/([\w./-]+)", text):
        assert (ROOT / path).is_dir() if kind == "tree" else (ROOT / path).is_file(), path
    for page, anchor in re.findall(rf"{re.escape(REPOSITORY)}blob/main/([\w./-]+\.md)#([\w-]+)", text):
        headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_the_readme_is_short_tells_how_to_set_up_and_has_links_that_work_anywhere():
    readme = README.read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 200
    assert ("$ make demo" in readme, "$ make test" in readme) == (True, True)
    attributes = re.findall(r"""(?:src|srcset|href)=["']?([^"'\s>]+)""", readme)
    assert (links := [*re.findall(r"\]\(([^)\s]+)\)", readme), *attributes])
    assert [link for link in links if not link.startswith("https://")] == []


def test_until_a_release_no_line_installs_what_bears_our_name_on_the_package_index():
    """The name is nobody's there: whoever registers it is installed."""
    examples = [file for file in (ROOT / "examples").rglob("*") if file.is_file() and file.suffix not in BINARY]
    shown = [*FILES, *examples, ROOT / "action.yml", *(ROOT / "hf_lineage").rglob("*.py")]
    installed = r"(pip|uv|pipx) install (--\S+ )*['\"]?hf-lineage(\[[\w{}.]+\])?(?!\[| @ (git\+)?https)"
    named = re.compile(rf"{installed}|hf-lineage(\[\w+\])?[=~>]=")
    lines = [(file.name, line) for file in shown for line in file.read_text(encoding="utf-8").splitlines()]
    assert [(name, line) for name, line in lines if named.search(line) and "do not run that" not in line] == []


def test_every_word_code_exit_code_and_format_is_told():
    for file, heading in ((README, "## Read the verdict"), (PAGES / "review.md", "## The verdicts")):
        assert [row[0] for row in rows(file, heading)] == list(verdict.Word)
    told = {(row[0], row[1].strip("`")) for row in rows(PAGES / "review.md", "## Codes")}
    assert told == {(code.word, code.value) for code in verdict.Code}
    codes = [row[0] for row in rows(PAGES / "review.md", "## Exit codes")]
    assert codes == [str(int(code)) for code in (*sorted(ExitCode), INTERRUPTED)]
    assert [row[0] for row in rows(PAGES / "reference.md", "## Reports")] == [f"`{name}`" for name in NAMES]


def test_every_page_is_in_the_navigation():
    def pages(entry):
        values = entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else None
        return [entry] if values is None else [page for value in values for page in pages(value)]

    listed = pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert sorted(listed) == sorted(page.relative_to(PAGES).as_posix() for page in PAGES.rglob("*.md"))


def test_the_demo_has_the_verdicts_that_its_cards_deserve():
    lines = block((PAGES / "many.md").read_text(encoding="utf-8"), "demo")[2].splitlines()
    rows = [line.split() for line in lines if "/" in line]
    by_word = {word: [row[0] for row in rows if row[5] == word] for word in ("UNRELATED", "RELATED")}
    unrelated = ["heron/llama-distilled", "magpie/llama-liar", "magpie/llama-lora-liar"]
    assert by_word == {"UNRELATED": unrelated, "RELATED": ["magpie/llama-grafted"]}
    assert sum(row[5] == "VERIFIED" for row in rows) >= 12
    assert {row[3] for row in rows if row[5] == "UNRELATED"} == {"0%", "-"}, "an adapter inherits no units"


def test_a_target_that_was_missed_is_marked():
    page = (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
    speed, missed = block(page, "speed")[2], block(page, "missed")[2]
    marked = {line.split(" | ")[0] for line in speed.splitlines() if line.endswith("| **missed** |")}
    assert "| extract 7B, mlp path, k = 64, CPU" in marked
    assert marked <= {line.split(" | ")[0] for line in missed.splitlines()}


def test_the_screenshots_are_shown_with_words_for_those_who_do_not_see_them():
    page = (PAGES / "reference.md").read_text(encoding="utf-8")
    shown = {file: words for words, file in re.findall(r"!\[([^\]]{40,})\]\(([^)]+)\)", page)}
    assert set(shown) == {picture(*one) for one in SHOWN} == {f"pages/{file.name}" for file in PAGES.glob("pages/*")}
    assert all((PAGES / name).stat().st_size < LARGEST for name in shown)
