"""The pages of six reports, one of each kind that people meet, as files: for the browser's tests and the pictures."""

import datetime
import json
import shutil
from dataclasses import replace
from pathlib import Path

from hf_lineage import Options, check
from hf_lineage.report.html import render

HUB = Path(__file__).parents[1] / "examples" / "hub"
MOMENT = datetime.datetime(2026, 11, 22, 9, 30, tzinfo=datetime.UTC)
MERGE = "fern/llama-merge-a-b"
PARENTS = (
    *("fern/llama-finetune-a", "fern/llama-finetune-b", "acme/llama-base"),
    *("otter/llama-independent", "magpie/llama-grafted"),
)
MODELS = {
    "related": ("fern/llama-finetune-a", ()),
    "unrelated": ("magpie/llama-liar", ()),
    "graft": ("magpie/llama-grafted", ()),
    "five-claims": (MERGE, PARENTS),
    "adapter": ("heron/llama-qlora", ()),
    "no_weights": ("wren/llama-chat", ()),
}
"""Name of the page -> the model, and the bases that are named; where none are, those that it declares count."""


def report(name: str):
    """The report on one of them, at a time that never changes."""
    model, bases = MODELS[name]
    return replace(check(model, bases, Options(local_hub=Path("examples/hub"), seed=0)), checked_at=MOMENT)


def no_weights(folder: Path):
    """The report on a model whose base published no weights, in a local hub of its own."""
    for model in ("acme/llama-base", "wren/llama-chat"):
        (folder / model).mkdir(parents=True)
        shutil.copy(HUB / "acme/llama-base/config.json", folder / model)
    shutil.copy(HUB / "fern/llama-finetune-a/model.safetensors", folder / "wren/llama-chat")
    card = {"base_model": "acme/llama-base", "base_model_relation": "finetune"}
    (folder / "wren/llama-chat/README.md").write_text(f"---\n{json.dumps(card)}\n---\n", encoding="utf-8")
    found = check("wren/llama-chat", options=Options(local_hub=folder, seed=0))
    return replace(found, checked_at=MOMENT)


def write(folder: Path) -> dict[str, Path]:
    """Write all pages into a folder and return their files by name."""
    files = {name: folder / f"{name}.html" for name in MODELS}
    for name, file in files.items():
        found = no_weights(folder / "hub") if name == "no_weights" else report(name)
        file.write_text(render(found), encoding="utf-8")
    return files
