"""What an install of hf-lineage downloads, by system, as the Markdown table of docs/install.md.

The package index is asked for the size of every wheel; nothing is downloaded or installed. Needs uv and a network.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tools.tables import table

ROOT = Path(__file__).parents[1]
PYTHON = "3.13"
SYSTEMS = {
    "Linux, x86-64": "x86_64-manylinux_2_28",
    "macOS, Apple silicon": "aarch64-apple-darwin",
    "Windows, x86-64": "x86_64-pc-windows-msvc",
}
CUDA = ("cuda", "nvidia", "triton")
"""How packages begin that only PyTorch's default build for Linux needs."""


def sizes(platform: str) -> dict[str, int]:
    """Return the bytes of every wheel that is installed on a platform, by package."""
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "pylock.toml"
        subprocess.run(
            [
                *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--only-binary", ":all:", "pyproject.toml"),
                *("--constraints", "constraints.txt", "--python-version", PYTHON, "--python-platform", platform),
                *("--no-python-downloads", "--output-file", str(lock)),
            ],
            cwd=ROOT,
            env=os.environ | {"MACOSX_DEPLOYMENT_TARGET": "14.0"},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        packages = tomllib.loads(lock.read_text(encoding="utf-8"))["packages"]
    return {package["name"]: package["wheels"][0]["size"] for package in packages}


def row(system: str, by_package: dict[str, int]) -> tuple[str, ...]:
    """Return the cells of one system."""
    cuda = sum(size for name, size in by_package.items() if name.startswith(CUDA))
    parts = (sum(by_package.values()), by_package["torch"], cuda)
    return (system, str(len(by_package)), *(f"{part / 1e6:,.0f} MB" for part in parts))


if __name__ == "__main__":
    rows = [row(system, sizes(platform)) for system, platform in SYSTEMS.items()]
    print(table(("System", "Packages", "Downloads", "of which PyTorch", "of which CUDA"), rows))
