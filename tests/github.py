"""The part of GitHub's runner that a composite action meets, and tiny wheels where no package index may be asked."""

import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hf_lineage import __version__
from tests.invoking import environment

ROOT = Path(__file__).parents[1]
SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail")  # what `shell: bash` means
NOTHING: Mapping[str, str] = {}
Outputs = Mapping[str, dict[str, str]]  # what each step puts out
EXPRESSION = re.compile(r"\$\{\{\s*(inputs|steps|github)\.([\w.-]+)\s*\}\}")
V1_COMMAND = re.compile(r"##\[([^\]]+)\](.*)")
V2_COMMAND = re.compile(r"::([\w-]+)(?: ([^:]*(?:(?!::).)*?))?::(.*)")


@dataclass
class Ran:
    code: int = 0
    log: str = ""
    steps: dict[str, dict[str, str]] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""

    @property
    def heard(self) -> list[tuple[str, str, str]]:
        """The commands that the runner takes from the log: name, properties, message."""
        return commands(self.log)


def action() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8")))


def run_action(
    room: Path, known: Outputs, folder: Path = ROOT, env: Mapping[str, str] = NOTHING, place: Path = ROOT, **inputs: str
) -> Ran:
    """Run the steps of the action in order, as the runner would; those whose outputs are `known` are not run.

    The checkout is `folder`, `env` is what the job has set, and `place` where the action is.
    """
    said = {name: each.get("default", "") for name, each in action()["inputs"].items()}
    assert set(inputs) <= {name.replace("-", "_") for name in said}, inputs
    said |= {name.replace("_", "-"): value for name, value in inputs.items()}
    ran = Ran(steps=dict(known))
    for step in action()["runs"]["steps"]:
        if "uses" in step or step["id"] in known or ran.code:
            continue
        output, summary = room / f"{step['id']}.output", room / f"{step['id']}.summary"
        for file in (output, summary):
            file.touch()
        given = {
            "GITHUB_ACTIONS": "true", "GITHUB_ACTION_PATH": str(place), "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary), "RUNNER_TEMP": str(room), **env,
            **{name: _evaluated(value, said, ran.steps) for name, value in step["env"].items()},
        }  # fmt: skip
        (room / "step.sh").write_text(step["run"], encoding="utf-8")
        done = subprocess.run(
            [*SHELL, room / "step.sh"], cwd=folder, env=environment(**given), timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False,
        )  # fmt: skip
        ran.code, ran.steps[step["id"]] = done.returncode, outputs(output.read_text("utf-8"))
        ran.log, ran.summary = ran.log + done.stdout, ran.summary + summary.read_text("utf-8")
    ran.outputs = {name: _evaluated(each["value"], said, ran.steps) for name, each in action()["outputs"].items()}
    return ran


def _evaluated(text: str, inputs: Mapping[str, str], steps: Mapping[str, Mapping[str, str]]) -> str:
    def value(found: re.Match[str]) -> str:
        where, what = found.groups()
        if where == "inputs":
            return inputs[what]
        if where == "github":
            return {"action_path": str(ROOT)}[what]
        step, _, output = what.partition(".outputs.")
        return steps.get(step, {}).get(output, "")

    return EXPRESSION.sub(value, text)


def outputs(text: str) -> dict[str, str]:
    """What a file of outputs says, each between its marks, or on a line where a script writes what it chose itself."""
    found, lines = {}, iter(text.splitlines())
    for line in lines:
        name, between, mark = line.partition("<<")
        if not between:
            name, _, value = line.partition("=")
            found[name] = value
            continue
        assert len(mark) == 32, line
        found[name] = "\n".join(iter(lines.__next__, mark))
    return found


def commands(log: str) -> "list[tuple[str, str, str]]":
    """The commands in a log: `::name` where a line begins, `##[name]` anywhere, none between stop and its token."""
    heard, stopped = [], None
    for line in log.splitlines():
        if stopped:
            stopped = None if line.strip() == f"::{stopped}::" else stopped
        elif found := V2_COMMAND.fullmatch(line.strip()):
            name, properties, message = found.groups()
            if name == "stop-commands":
                stopped = message
            else:
                heard.append((name, properties or "", message))
        elif found := V1_COMMAND.search(line):
            heard.append((found[1], "", found[2]))
    return heard


PYTHON = {"python-path": sys.executable}  # the outputs of setting up Python


def installed(folder: Path) -> Outputs:
    """The outputs of setting up Python and installing into this folder, which no variable has a say in."""
    venv.EnvBuilder(symlinks=os.name != "nt").create(folder)
    place = {"base": str(folder), "platbase": str(folder)}
    (Path(sysconfig.get_path("purelib", vars=place)) / "here.pth").write_text(HERE, encoding="utf-8")
    return {"python": PYTHON, "install": {"python": f"{sysconfig.get_path('scripts', vars=place)}/python"}}


HERE = "\n".join(dict.fromkeys((str(ROOT), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))) + "\n"
"""What a file of a site-packages has to say for this project, and what it needs, to be found."""


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
    pins = []
    for one in sorted(wheels.glob("*.whl")):
        package, number, *_ = one.name.split("-")
        pins.append(f"{package}=={number} --hash=sha256:{hashlib.sha256(one.read_bytes()).hexdigest()}")
    for name in ("action", "action-run"):
        (folder / f"requirements/{name}.txt").write_text("\n".join(pins))
    script = f"hf_lineage-{__version__}.dist-info/entry_points.txt"
    wheel(folder, "hf_lineage", __version__, {"hf_lineage_is_elsewhere.pth": HERE, script: COMMAND})
    return folder
