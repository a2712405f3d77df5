"""Tiny wheels: what pip installs where nothing may be asked of the package index."""

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from hf_lineage import __version__
from tests.github import HERE, ROOT

BUILDER = """
import shutil
from pathlib import Path

def build_wheel(folder, config_settings=None, metadata_directory=None):
    (wheel,) = Path.cwd().glob("*.whl")
    shutil.copy(wheel, folder)
    return wheel.name
"""
"""Stands for hatchling: the wheel is there already."""
COMMAND = "[console_scripts]\nhf-lineage = hf_lineage.cli:main\n"


def wheel(folder: Path, name: str, version: str, files: Mapping[str, str]) -> Path:
    """Write a wheel of these files."""
    said = f"{name}-{version}.dist-info"
    kind = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    about = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "WHEEL": kind, "RECORD": ""}
    file = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, content in {**files, **{f"{said}/{path}": content for path, content in about.items()}}.items():
            archive.writestr(path, content)
    return file


def shelf(folder: Path) -> Path:
    """A folder of wheels in which all is found that installing asks for."""
    folder.mkdir()
    wheel(folder, "hatchling", "1.33.0", {"hatchling/__init__.py": "", "hatchling/build.py": BUILDER})
    wheel(folder, "dependency", "1.0", {"dependency.py": ""})
    return folder


def source(folder: Path, wheels: Path) -> Path:
    """This project's files, but for the code: what is built finds that here, and pinned is what is on the shelf."""
    (folder / "requirements").mkdir(parents=True)
    for file in ("pyproject.toml", "constraints.txt", ".pre-commit-hooks.yaml"):
        (folder / file).write_text((ROOT / file).read_text("utf-8"), "utf-8")
    pins = (f"{one.name.split('-')[0]}=={one.name.split('-')[1]} --hash=sha256:{_digest(one)}" for one in _all(wheels))
    listed = "\n".join(pins)
    for name in ("action", "action-run"):
        (folder / f"requirements/{name}.txt").write_text(listed)
    script = f"hf_lineage-{__version__}.dist-info/entry_points.txt"
    wheel(folder, "hf_lineage", __version__, {"hf_lineage_is_elsewhere.pth": HERE, script: COMMAND})
    return folder


def _all(wheels: Path) -> list[Path]:
    return sorted(wheels.glob("*.whl"))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
