"""Measured: the blocks that show what the last committed run of a benchmark measured."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.paper.experiment import Results, differs, file_name
from benchmarks.paper.items import ours_rivals
from hf_lineage.report import markdown
from tools.tables import table

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
HEADLINES = (
    ("tab:survival", "AUROC", "159 pairs of residual MLPs: AUROC of our score"),
    ("tab:survival", "least related score", "the same: least score of a descendant"),
    ("tab:survival", "largest unrelated score", "the same: largest score of any other"),
    ("tab:gpt2-survival", "AUROC", "45 pairs of GPT-2, ours 64 wide: AUROC of our score"),
    ("tab:gpt2-survival", "least related score", "the same: least score of a descendant"),
    ("tab:gpt2-survival", "largest unrelated score", "the same: largest score of any other"),
    ("tab:laundering", "MLP, PD, ours: AUROC", "hidden units reordered and rescaled: AUROC of our score"),
    ("tab:laundering", "MLP, PD, Re-Basin+scale: AUROC", "the same, Re-Basin with scale"),
    ("tab:laundering", "MLP, PD, weight cosine: AUROC", "the same, weight cosine"),
    ("tab:laundering", "MLP, PD, aligned Frobenius: AUROC", "the same, aligned Frobenius distance"),
    ("tab:gpt2-latency", "Re-Basin+scale over ours: times", "time of Re-Basin, in times ours; one thread"),
    ("tab:harder-bench", "ours, graft: Spearman", "grafts: rank correlation of our score with the share"),
    ("fig:hero", "b, ResNet: pair accuracy", "24 blocks with skips that find their own `W_in` by trace"),
    ("fig:hero", "b, PlainNet: pair accuracy", "the same without skips"),
    ("fig:lineage-roc", "trace concentration alone: AUROC", "trace concentration alone as a verifier: AUROC"),
    (
        "fig:mechanism-triad",
        "b: share of s lost by shuffling",
        "trace concentration lost where gradients are exchanged",
    ),
    ("tab:attack-pareto", "λ = 0.01: score", "score after training against it, utility kept (λ = 0.01)"),
)
"""Item, row, and what the row is in words."""


def speed_block() -> str:
    """What the last committed run of the benchmark measured."""
    run = _run("speed")
    rows = [(row["what"], row["target"], _figure(row), outcome(row)) for row in run["rows"]]
    machine = "{cores} cores of an {processor}, {memory}, {system}, torch {torch}".format(**run["machine"])
    return f"{machine}:\n\n" + table(("What", "Target", "Measured", "Target is"), rows)


def missed_block() -> str:
    """The figures that miss their target, each with what the benchmark noted."""
    rows = [
        (row["what"], row["target"], f"{_figure(row)}, {outcome(row)}", row["note"])
        for row in _run("speed")["rows"]
        if not row["met"] and row["target"] != "none"
    ]
    return table(("What", "Target", "Measured", "Note of the benchmark"), rows)


def paper_block() -> str:
    """Some figures of the paper beside ours, by the last committed run."""
    rows = []
    for item, name, words in HEADLINES:
        (row,) = (row for row in Results.read(RESULTS / file_name(item)).rows if row.name == name)
        assert isinstance(row.paper, float | int)
        remark = "differs" if differs(row.number, row.paper) else ""
        rows.append((words, item, f"{row.paper:.3g}", f"{row.number:.3g}", remark))
    return table(("What", "Item", "Paper", "Ours", ""), rows)


def rivals_block() -> str:
    """What each tool says of the same folders, by the last committed run."""
    rows = Results.read(RESULTS / "ours-rivals.json").rows
    return markdown.table(ours_rivals.COLUMNS, ours_rivals.summary({row.name: row for row in rows}))


def adapters_block() -> str:
    """What each projection of an adapter shows by itself, by the last committed run."""
    rows = {row.name: row for row in Results.read(RESULTS / "ours-adapters.json").rows}
    ends = (": median z of true bases", ": true bases found at 0.01", ": false ones found at 0.01")
    projections = [name.removesuffix(ends[0]) for name in rows if name.endswith(ends[0])]
    lines = [
        (role, f"{rows[role + ends[0]].number:.1f}", *(rows[role + end].note for end in ends[1:]))
        for role in projections
    ]
    return table(
        ("Projection", "Median z on its own base", "Own base found at 0.01", "Other bases found at 0.01"), lines
    )


def outcome(row: dict[str, Any]) -> str:
    """Return what became of the target of one row of a results file."""
    if row["target"] == "none":
        return "–"
    if row["measured"] is None:
        return "not measured"
    return "met" if row["met"] else "**missed**"


def summary_block(name: str) -> str:
    """Return what the last committed run of an item of the paper says, as that item sums it up."""
    item = import_module(f"benchmarks.paper.items.ours_{name}")
    rows = Results.read(RESULTS / file_name(f"ours:{name}")).rows
    return table(item.COLUMNS, item.summary({row.name: row for row in rows}))


def _figure(row: dict[str, Any]) -> str:
    return "–" if row["measured"] is None else f"{row['measured']:g} {row['unit']}"


def _run(name: str) -> dict[str, Any]:
    run: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return run
