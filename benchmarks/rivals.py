"""The rival tools: each installed from the package index into a virtual environment of its own."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.isolated import ROOT


class Rival(NamedTuple):
    """A command that compares two local folders."""

    package: str  # its name on the package index, with the version that was measured
    command: str
    options: tuple[str, ...]
    slow: bool  # whether a run takes a minute

    def compare(self, environment: Path, a: Path, b: Path, *more: str) -> list[str]:
        """Return the command line that compares two folders, in the environment where it is installed."""
        return [str(environment / "bin" / self.command), "compare", str(a), str(b), *self.options, *more]


RIVALS = (
    Rival("modeldna==0.1.0", "modeldna", (), slow=False),
    Rival("cisco-ai-provenance-kit==1.0.0", "provenancekit", ("--no-cache",), slow=True),
)


def found(rival: Rival, root: Path) -> Path | None:
    """Return the virtual environment of a rival in `root`; None if it is not there."""
    environment = root / rival.package
    return environment if (environment / "bin" / rival.command).exists() else None


def installed(rival: Rival, root: Path) -> Path | None:
    """Return the virtual environment of a rival in `root`, made now if it is not there; None if it cannot be made.

    Packages that both need come in the versions of constraints.txt; which Python a rival asks for is ignored.
    """
    return found(rival, root) or _made(rival, root / rival.package)


def _made(rival: Rival, environment: Path) -> Path | None:
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "-qq", "--ignore-requires-python"]
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        subprocess.run([*pip, "-c", ROOT / "constraints.txt", rival.package], check=True)
    except (OSError, subprocess.CalledProcessError):
        shutil.rmtree(environment, ignore_errors=True)
        return None
    return environment
