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
COLUMNS = ("System", "Packages", "Downloads", "Downloads with `gpu`", "of which PyTorch", "of which CUDA")
CUDA = ("cuda", "nvidia", "triton")
"""How packages begin that only PyTorch's default build for Linux needs."""


def sizes(platform: str, *options: str) -> dict[str, int]:
    """Return the bytes of every wheel that is installed on a platform, by package; `options` are those of uv."""
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "pylock.toml"
        subprocess.run(
            [
                *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--only-binary", ":all:", "pyproject.toml"),
                *("--constraints", "constraints.txt", "--python-version", PYTHON, "--python-platform", platform),
                *("--no-python-downloads", "--output-file", str(lock), *options),
            ],
            cwd=ROOT,
            env=os.environ | {"MACOSX_DEPLOYMENT_TARGET": "14.0"},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        packages = tomllib.loads(lock.read_text(encoding="utf-8"))["packages"]
    return {package["name"]: package["wheels"][0]["size"] for package in packages}


def row(system: str, plain: dict[str, int], gpu: dict[str, int]) -> tuple[str, ...]:
    """Return the cells of one system, from what is installed on it without extras and with the extra `gpu`."""
    cuda = sum(size for name, size in gpu.items() if name.startswith(CUDA))
    parts = (sum(plain.values()), sum(gpu.values()), gpu["torch"], cuda)
    return (system, str(len(plain)), *(f"{part / 1e6:,.0f} MB" for part in parts))


if __name__ == "__main__":
    rows = [row(system, sizes(platform), sizes(platform, "--extra", "gpu")) for system, platform in SYSTEMS.items()]
    print(table(COLUMNS, rows))
