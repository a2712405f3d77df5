"""Golden files: what today's formats look like, committed, so that tomorrow's code still reads and writes them.

A change of a format that is meant is written with `python -m tests.goldens`, and its diff is part of the review. A file
of an older version is never written again: a new version gets a file of its own.
"""

import datetime
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hf_lineage import Options, __version__
from hf_lineage.checking.check import check
from hf_lineage.checking.report import Report
from hf_lineage.report import json

DATA = Path(__file__).parent / "data"
HUB = Path(__file__).parents[1] / "examples" / "hub"
MOMENT = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.UTC)
THIS_VERSION = "(the version that writes it)"
"""What stands in a golden file for the one thing that each release changes."""


def pair() -> Report:
    """Return what is found of an example model and the base that it declares, along two paths."""
    options = Options(local_hub=HUB, seed=0, paths=("mlp", "query_key"), permutations=199)
    return replace(check("fern/llama-finetune-a", options=options), checked_at=MOMENT)


def report() -> bytes:
    """Return the report for machines."""
    return _versionless(json.render(pair()).encode())


REPORT = "report-v5.json"
GOLDEN: dict[str, Callable[[], bytes]] = {REPORT: report}


def read(name: str) -> bytes:
    """Return a golden file as it would be if this version had written it."""
    return (DATA / name).read_bytes().replace(THIS_VERSION.encode(), __version__.encode())


def _versionless(content: bytes) -> bytes:
    return content.replace(f'"version": "{__version__}"'.encode(), f'"version": "{THIS_VERSION}"'.encode())


def differences(golden: Any, now: Any, where: str = "") -> list[str]:
    """Return where plain values differ: numbers by more than machines do, everything else at all, order of keys too."""
    if isinstance(golden, dict) and isinstance(now, dict) and list(golden) == list(now):
        return [line for key in golden for line in differences(golden[key], now[key], f"{where}.{key}")]
    if isinstance(golden, list) and isinstance(now, list) and len(golden) == len(now):
        pairs = enumerate(zip(golden, now, strict=True))
        return [line for number, each in pairs for line in differences(*each, f"{where}[{number}]")]
    if isinstance(golden, float) and isinstance(now, float) and math.isclose(golden, now, rel_tol=2e-3, abs_tol=1e-6):
        return []
    same = golden == now and type(golden) is type(now) and not isinstance(now, dict)
    return [] if same else [f"{where}: {golden!r} became {now!r}"]


if __name__ == "__main__":
    for name, write in GOLDEN.items():
        (DATA / name).write_bytes(write())
