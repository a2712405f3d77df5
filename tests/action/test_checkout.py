"""A checkout full of files that Python and pip would run or obey: no step of the action and no hook does either.

Venvs, pip, its check of hashes and its builds are the real ones, on tiny wheels; the check is the real check.
"""

import os
import shutil
import subprocess
import sys

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import github
from tests.cli.test_pre_commit import committed
from tests.github import PYTHON, ROOT, run_action
from tests.invoking import environment
from tests.models import HIDDEN, VOCABULARY, edit_json, family

MODULES = (
    *("venv", "pip", "ensurepip", "json", "site", "sitecustomize", "usercustomize", "runpy", "hatchling", "setup"),
    *("subprocess", "hf_lineage", "hf_lineage.action", "hf_lineage.cli", "torch", "numpy", "huggingface_hub", "click"),
)
"""What a file of the checkout may be called that an import would rather take."""
CONFIGURATION = (
    "[global]\nno-index = false\nindex-url = https://127.0.0.1:1/\nrequire-hashes = true\nprefix = /nowhere\n"
)
BUILD = '[build-system]\nrequires = []\nbuild-backend = "venv"\nbackend-path = ["."]\n'


@pytest.fixture
def ran(tmp_path):
    """The file to which each hostile file writes its name when it is run."""
    return tmp_path / "ran"


@pytest.fixture
def checkout(tmp_path, ran):
    """A local hub of an honest model and its base, beside everything that could be run."""
    folder = family(tmp_path / "checkout")
    marked = "open({ran!r}, 'a').write({name!r} + '\\n')\n"
    for module in MODULES:
        path = module.replace(".", "/")
        package = [other for other in MODULES if other.startswith(f"{module}.")]
        file = folder / (f"{path}/__init__.py" if package else f"{path}.py")
        file.parent.mkdir(exist_ok=True)
        file.write_text(marked.format(ran=str(ran), name=module))
    (folder / "evil.pth").write_text("import venv\n")
    (folder / "pyvenv.cfg").write_text(f"home = {folder}\ninclude-system-site-packages = true\n")
    (folder / "pyproject.toml").write_text(BUILD)
    for name in ("pip.conf", "pip.ini", "setup.cfg", "pydistutils.cfg", "uv.toml"):
        (folder / name).write_text(CONFIGURATION)
    own = folder / f"lib/python3.{sys.version_info.minor}/site-packages"
    own.mkdir(parents=True)
    shutil.copy(folder / "usercustomize.py", own / "usercustomize.py")
    return folder


def surprises(folder):
    """What a job may have set, without thinking of a checkout that is hostile."""
    return {
        "PYTHONPATH": os.pathsep.join(["", ".", str(folder)]), "PYTHONSTARTUP": "sitecustomize.py",
        "PYTHONUSERBASE": str(folder), "PYTHONWARNINGS": "error::venv.Warning", "PYTHONBREAKPOINT": "venv.run",
        "PYTHONHOME": str(folder), "PIP_CONFIG_FILE": "pip.conf",
    }  # fmt: skip


def offline(shelf):
    """Where pip may look."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(shelf)}


class TestAction:
    @pytest.fixture
    def job(self, tmp_path, checkout):
        """Run all steps of the action, the first one as well, on the model of the checkout."""
        shelf = github.shelf(tmp_path / "shelf")
        place = github.source(tmp_path / "action", shelf)
        (tmp_path / "temp").mkdir()

        def run(inputs=(), **env):
            settings = surprises(checkout) | offline(shelf) | {"HF_HOME": str(tmp_path / "home")} | env
            given = {"local_path": "fern/child", "options": "--local-hub ."} | dict(inputs)
            return run_action(tmp_path / "temp", {"python": PYTHON}, checkout, settings, place, **given)

        return run

    def test_no_step_runs_or_obeys_any_of_it(self, job, ran):
        done = job()
        assert not ran.exists(), ran.read_text()
        assert (done.code, done.outputs["verdict"]) == (0, "VERIFIED"), done.log
        assert set(done.steps) == {"python", "install", "commits", "check"}

    @pytest.mark.long
    def test_what_it_is_built_with_must_be_the_pinned_package_too(self, job, tmp_path):
        github.wheel(tmp_path / "shelf", "hatchling", "1.33.0", {"hatchling/build.py": "# another"})
        done = job()
        assert done.code != 0
        assert "DO NOT MATCH THE HASHES" in done.log
        assert "check" not in done.steps

    @pytest.mark.long
    def test_models_are_run_where_that_is_asked_for_with_what_is_pinned_for_it(self, job, checkout, tmp_path, ran):
        edit_json(checkout / "fern/child/config.json", intermediate_size=HIDDEN, vocab_size=VOCABULARY)
        (tmp_path / "action/requirements/action.txt").unlink()
        done = job({"run": "yes"})
        assert not ran.exists(), ran.read_text()
        assert (done.code, done.outputs["verdict"]) == (0, "VERIFIED"), done.log
        assert " --run " in done.log


class TestHook:
    def hook(self, checkout, tmp_path, **env):
        """The hook as pre-commit installs it, in a venv of its own, from tiny wheels."""
        shelf = github.shelf(tmp_path / "shelf")
        source = github.source(tmp_path / "source", shelf)
        (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
        (source / ".pre-commit-hooks.yaml").write_text(yaml.safe_dump([hook | {"args": ["--local-hub", "../.."]}]))
        model = checkout / "fern/child"
        for file in checkout.iterdir():
            if file.name not in ("acme", "fern"):
                shutil.move(file, model / file.name)
        (model / "hf_lineage/notes.txt").write_text("x")
        committed(source)
        committed(model)
        settings = {"PRE_COMMIT_HOME": str(tmp_path / "cache"), "HF_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-I", "-m", "pre_commit", "try-repo", source, "hf-lineage", "--color", "never"]
        return subprocess.run(
            [*command, "--hook-stage", "pre-push", "--all-files", "--verbose"], cwd=model, timeout=300, text=True,
            env=environment(**(offline(shelf) | settings | env)), capture_output=True, check=False,
        )  # fmt: skip

    @pytest.mark.long
    def test_it_runs_none_of_it(self, checkout, tmp_path, ran):
        done = self.hook(checkout, tmp_path, PYTHONPATH=f"{os.pathsep}/nowhere", PYTHONSAFEPATH="", PYTHONUSERBASE=".")
        assert not ran.exists(), ran.read_text()
        assert done.returncode == 0, done.stdout + done.stderr
        assert "VERIFIED inherited" in done.stdout


class TestPins:
    """requirements/action.txt and action-run.txt, as `make pins` writes them."""

    @pytest.fixture(params=["action", "action-run"])
    def name(self, request):
        return request.param

    @pytest.fixture
    def pins(self, name):
        return self.read(name)

    @staticmethod
    def read(name):
        lines = (ROOT / f"requirements/{name}.txt").read_text("utf-8").replace("\\\n", " ").splitlines()
        return {
            canonicalize_name(requirement.name): (str(requirement.specifier), hashes)
            for line in lines
            if not line.startswith("#")
            for requirement, hashes in [(Requirement(line.partition("--hash")[0]), line.count("--hash=sha256:"))]
        }

    def test_each_is_one_version_with_hashes(self, pins):
        assert all(version.startswith("==") and hashes for version, hashes in pins.values())

    def test_none_is_another_version_than_everywhere_else(self, pins):
        lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        everywhere = [Requirement(line) for line in lines if line and not line.startswith("#")]
        both = {canonicalize_name(one.name): str(one.specifier) for one in everywhere}
        assert {name: both[name] for name in pins if name in both} == {
            name: version for name, (version, _) in pins.items() if name in both
        }
        assert len(both.keys() & pins.keys()) > 12

    def test_where_models_are_run_everything_else_is_the_same(self):
        assert self.read("action").items() <= self.read("action-run").items()
