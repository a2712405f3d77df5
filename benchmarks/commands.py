"""Commands that are run whole, each in a cold process."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.clock import Run

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


class CommandError(Exception):
    """A command that is measured did not do its work."""


def lineage(*arguments: object) -> list[str]:
    """Return a command line of hf-lineage: its console script beside this interpreter."""
    script = shutil.which("hf-lineage", path=str(Path(sys.executable).parent))
    if script is None:
        raise CommandError("hf-lineage is not installed beside this Python; run `make bench`, or `pip install -e .`")
    return [script, *map(str, arguments)]


def environment(home: Path) -> Mapping[str, str]:
    """Return the environment of a rival: offline, and with a home of its own, where it may keep what it likes."""
    return os.environ | OFFLINE | {"HOME": str(home), "XDG_CACHE_HOME": str(home), "HF_HOME": str(home)}


def succeeded(run: Run, codes: tuple[int, ...] = (0,)) -> Run:
    """Return the run; raise CommandError with the end of what it printed if it ended with another exit code."""
    if run.code not in codes:
        raise CommandError(f"a command ended with exit code {run.code}: {run.output[-400:].strip()}")
    return run
