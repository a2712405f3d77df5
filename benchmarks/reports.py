"""python -m benchmarks.reports OLD: the JSON reports on every example model, by another checkout and by this one.

Each number, word and list that both have is held against the other. A restructuring may change sentences and add keys;
it may change no verdict, no number, and take no key away. The exit status is 1 if it does.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.isolated import ROOT

HUB = ROOT / "examples" / "hub"
FILE = Path(__file__).with_name("results") / "reports.json"
SENTENCES = frozenset({"reason", "notes", "conflicts", "source", "description", "command"})
"""Keys that hold sentences for people, and words of a command."""
TOLERANCE = 1e-6
"""Relative: sums of float32 in another order."""
OPTIONS = ("--paths", "mlp,value_output,query_key", "--seed", "0", "--format", "json")


def report(tree: Path, model: str, options: Sequence[str] = OPTIONS) -> dict[str, Any]:
    """Return the JSON report on an example model, as the sources in `tree` write it."""
    command = [sys.executable, "-m", "hf_lineage.cli", "check", model, "--local-hub", str(HUB), *options]
    environment = os.environ | {"PYTHONPATH": str(tree), "HF_HUB_OFFLINE": "1", "SOURCE_DATE_EPOCH": "0"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"{tree}: {model}: {done.stderr}")
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def differences(old: Any, new: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield what differs between two reports: the kind of each difference, and where it is."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from ((("taken away" if name in old else "added"), f"{key}.{name}") for name in old.keys() ^ new.keys())
        for name in old.keys() & new.keys():
            yield from differences(old[name], new[name], f"{key}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for before, after in zip(old, new, strict=True):
            yield from differences(before, after, key)
    elif isinstance(old, float) and isinstance(new, float):
        if not math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            yield "changed", f"{key}: {old} is {new}"
    elif old != new:
        yield ("worded anew", key) if key.rpartition(".")[2] in SENTENCES else ("changed", f"{key}: {old} is {new}")


def main() -> int:
    """Compare all reports, write what was counted, and return 1 if anything changed or was taken away."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reports", description="Hold reports against old ones.")
    parser.add_argument("old", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--output", type=Path, default=FILE, help="where to write the result")
    spelled = "the options of the same meaning, where the old version spells them otherwise"
    parser.add_argument("--old-options", type=str.split, default=OPTIONS, help=spelled)
    asked = parser.parse_args()
    models = sorted(str(folder.relative_to(HUB)) for folder in HUB.glob("*/*") if (folder / "config.json").exists())
    found: Counter[tuple[str, str]] = Counter()
    for model in models:
        found.update(differences(report(asked.old, model, asked.old_options), report(ROOT, model)))
        print(f"{model}: done", file=sys.stderr)
    kinds = ("changed", "taken away", "worded anew", "added")
    result = {kind: {where: count for (of, where), count in sorted(found.items()) if of == kind} for kind in kinds}
    asked.output.write_text(json.dumps({"models": models, "options": OPTIONS} | result, indent=2) + "\n")
    for kind in kinds:
        print(f"{kind}: {sum(result[kind].values())} in {len(result[kind])} places of {len(models)} reports")
    return int(bool(result["changed"] or result["taken away"]))


if __name__ == "__main__":
    sys.exit(main())
