"""The console blocks of README.md and the pages run as they are printed, on a small Hub that has the models they name.

Blocks that a program writes are none of these: tests/test_readme.py runs their commands and compares what they print.
"""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import gguf_models, onnx_models
from tests.example_pages import HUB
from tests.invoking import lineage
from tests.models import card
from tests.server import Hub, serving
from tests.server.client import connect, remote
from tests.server.commits import Commits
from tools.docs import PAGES, README, ROOT

GENERATED = re.compile(r"^<!-- begin (.+?) -->.*?^<!-- end \1 -->", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```(?:console|bash|sh|shell)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = "--local-hub examples/hub"
LEFT_OUT = "..."  # a line of a page that stands for any lines which a command prints
NOT_RUN = {
    "make demo": "tests/test_readme.py runs what it runs",
    "make test": "it is what runs this",
    "pip install": "it needs the network; tests/test_wheel.py installs the wheel",
    "git clone": "it needs the network",
    "cd hf-lineage": "the clone makes this folder",
    "gh ": "it needs an attestation on GitHub",
    "mkdir ": "the folder is there already",
    "hf upload ": "it needs the network",
    "hf-lineage identify other/model --index org/index": "nobody has uploaded that index",
    "model_signing ": "it needs a key or an account; tests/report/test_intoto.py signs and verifies",
    "hf-lineage index build --from models.txt --engine ray": "64 workers of Ray take long; tests/index starts two",
}
"""How a command begins that is not run here, and why."""
PUBLISHED = {
    "org/base": "acme/llama-base", "org/model": "fern/llama-finetune-a", "org/finetune-a": "fern/llama-finetune-a",
    "org/finetune-b": "fern/llama-finetune-b", "org/adapter": "fern/llama-lora",
    "org/merged": "fern/llama-lora-merged", "other/model": "heron/llama-pruned-50",
}  # fmt: skip
"""Under the name that a page uses, a model of examples/hub."""
FOLDERS = {
    "folder": "fern/llama-finetune-a", "folder-a": "acme/llama-base", "folder-b": "fern/llama-finetune-b",
    "model": "fern/llama-finetune-b", "adapter": "fern/llama-lora", "narrowed": "magpie/llama-laundered",
}  # fmt: skip
"""Likewise in the working directory."""


def publish_forms(room: Path, hub: Hub) -> None:
    """Put a fine-tune in GGUF, and a BERT in ONNX, on this machine and on the Hub."""
    for file in ("model-Q8_0.gguf", "gguf/model-Q8_0.gguf", "gguf/model-Q4_K_M.gguf"):
        gguf_models.write(HUB / "fern/llama-finetune-a", room / file, kind=gguf_models.KINDS.Q8_0)
    base = onnx_models.bert(room / "bert")
    for file in ("model.onnx", "onnx/onnx/model.onnx", "onnx/onnx/model_q4.onnx"):
        onnx_models.written(base, room / file)
    shutil.copy(base / "config.json", room / "onnx")
    for name, folder in (("org/model-GGUF", "gguf"), ("org/encoder", "bert"), ("org/model-ONNX", "onnx")):
        hub.publish(name, room / folder)


def by_hand(file: Path) -> str:
    """The text of a page without the blocks that a program writes."""
    return GENERATED.sub("", file.read_text(encoding="utf-8"))


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a page, its lines joined, with the lines that are shown of what it prints."""
    for block in CONSOLE.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            first, *lines = re.sub(r"(\|\|)\n|\\\n", r"\1", part).splitlines()
            *before, last = re.split(r"\s*\|\|\s*", first)
            yield from ((command, []) for command in before)
            yield last, lines


def in_order(lines: list[str], printed: str) -> bool:
    """Whether a page shows what was printed, but for what `...` stands for."""
    parts = "\n".join(lines).split(LEFT_OUT)
    return re.fullmatch(".*".join(map(re.escape, parts)), printed.strip("\n"), re.DOTALL) is not None


FILES = {file.relative_to(ROOT).as_posix(): file for file in (README, *sorted(PAGES.rglob("*.md")))}
SHORT = ("README.md", "docs/publish.md", "docs/ci.md")  # what is typed first, written, and what decides an exit
RUN = [
    pytest.param(page, marks=[pytest.mark.long] * (page not in SHORT))
    for page, file in FILES.items()
    if any(not command.startswith(tuple(NOT_RUN)) for command, _ in commands(by_hand(file)))
]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub in this process with the models of examples/hub, whose account `org` has a token."""
    with serving() as served:
        for model in sorted(HUB.glob("*/*/config.json")):
            served.publish(model.parent.relative_to(HUB).as_posix(), model.parent)
        connect(served, tmp_path / "cache", monkeypatch)
        for name, value in remote(served, tmp_path / "home").items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("HF_TOKEN", "hf_averysecrettoken")
        (tmp_path / "commits").mkdir()
        Commits(served, tmp_path / "commits", account="org").attach()
        yield served


@pytest.mark.parametrize("page", RUN)
def test_the_console_blocks_of_a_page_run_as_they_are_printed(hub, tmp_path, monkeypatch, page):
    text, room = by_hand(FILES[page]), tmp_path / "room"
    shutil.copytree(HUB, room / "examples/hub")
    for name, model in FOLDERS.items():
        shutil.copytree(HUB / model, room / name)
        (room / name / "lineage").mkdir()
    for name, model in PUBLISHED.items():
        if re.search(rf"\b{name}\b", text):
            hub.publish(name, HUB / model)
    if page == "docs/formats.md":
        publish_forms(room, hub)
    if page == "docs/publish.md":
        gguf_models.write(HUB / "acme/llama-base", room / "gguf/model-Q8_0.gguf", kind=gguf_models.KINDS.Q8_0)
        hub.publish("org/model-GGUF", card(room / "gguf", "acme/llama-base", "quantized"))
    monkeypatch.chdir(room / "folder" if page == "docs/ci.md" else room)
    Path("models.txt").write_text("org/base\norg/model\n", encoding="utf-8")
    for policy in ("lineage.yaml", "our-policy.yaml"):
        Path(policy).write_text("fail-on: unrelated\n", encoding="utf-8")
    if "./index" in text:
        monkeypatch.setenv("HF_LINEAGE_INDEX", str(room / "index"))
    for command, lines in commands(text):
        if not command.startswith(tuple(NOT_RUN)):
            program, *words = shlex.split(command, comments=True)
            assert program == "hf-lineage", command
            outcome = lineage(*words)
            assert outcome.code != 2, (command, outcome.err)
            assert not lines or in_order(lines, outcome.out), (command, outcome.out)


@pytest.mark.parametrize("page", FILES)
def test_a_page_whose_commands_name_the_example_models_says_where_they_run(page):
    text = FILES[page].read_text(encoding="utf-8")
    named = [command for command, _ in commands(text) if re.search(r"\b(acme|fern|heron|magpie|moss|otter)/", command)]
    assert [command for command in named if EXAMPLES not in command] == []
    assert not named or "in the root of a checkout" in " ".join(text.split()).lower()
