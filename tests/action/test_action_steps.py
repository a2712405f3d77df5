"""The steps of action.yml as bash, also in a checkout full of files that Python and pip would run: with real venvs."""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hf_lineage import Options, check
from hf_lineage.report import FORMATS
from hf_lineage.report.json import PREDICATE_TYPE
from tests import github, hostile
from tests.cli.test_process import committed
from tests.github import PYTHON, ROOT, SHELL, action, installed, run_action
from tests.invoking import environment, lineage, run_process
from tests.models import HIDDEN, VOCABULARY, WEIGHTS, edit_json, family

HUB = ROOT / "examples" / "hub"
EVERY = "text, json, markdown, sarif, cyclonedx, intoto"
FILES = ["cdx.json", "intoto.json", "json", "md", "predicate.json", "sarif", "sha256", "txt"]
SCRIPTS = {step["id"]: step["run"] for step in action()["runs"]["steps"] if "run" in step}


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """What the steps before the check put out."""
    return installed(tmp_path_factory.mktemp("installed") / "venv")


@pytest.fixture(scope="module")
def honest(tmp_path_factory, ready):
    room = tmp_path_factory.mktemp("honest")
    drawn = f"--local-hub {HUB} --seed 0"
    return room, run_action(room, ready, model="fern/llama-finetune-a", options=drawn, formats=EVERY)


@pytest.fixture(scope="module")
def liar(tmp_path_factory, ready):
    room = tmp_path_factory.mktemp("liar")
    return room, run_action(room, ready, local_path="magpie/llama-liar", options="--local-hub . --seed 0", folder=HUB)


def outputs(report, folder):
    verdict = report.rows[0].verdict
    evidence = verdict.evidence[verdict.decisive]
    return {
        "verdict": verdict.word, "verified": str(verdict.verified).lower(), "code": str(verdict.code),
        "score": f"{evidence.comparison.score:.4g}", "p-value": f"{evidence.p_value:.4g}", "report-path": str(folder),
    }  # fmt: skip


def checked(model):
    return check(model, options=Options(local_hub=HUB, seed=0))


@pytest.mark.parametrize("step", SCRIPTS)
def test_every_step_is_bash_without_inputs_that_shellcheck_has_nothing_against(step):
    subprocess.run([*SHELL, "-n", "/dev/stdin"], input=SCRIPTS[step], text=True, check=True)
    shellcheck = shutil.which("shellcheck", path=str(Path(sys.executable).parent))
    checked = subprocess.run([shellcheck, "--shell=bash", "-"], input=SCRIPTS[step], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, "${{" in SCRIPTS[step]) == (0, "", False)


def test_a_true_claim_passes_and_outputs_summary_and_log_say_so(honest):
    room, ran = honest
    report = checked("fern/llama-finetune-a")
    (folder,) = room.glob("hf-lineage-*")
    assert (ran.code, ran.outputs["verdict"], ran.outputs) == (0, "VERIFIED", outputs(report, folder))
    assert sorted(file.name.removeprefix("lineage.") for file in folder.iterdir()) == FILES
    said = "acme/llama-base is VERIFIED inherited (score 0.993, 100%25 inherited, p = 0.003)"
    assert ran.heard == [("notice", "title=Lineage of fern/llama-finetune-a", said)]
    assert ran.summary.partition(" Checked on ")[:2] == FORMATS["markdown"](report, False).partition(" Checked on ")[:2]
    quiet, _, after = ran.log.partition(FORMATS["text"](report, False))
    assert quiet.startswith("::stop-commands::")
    assert after.splitlines()[-1].startswith("::notice ")
    statement, predicate = (
        json.loads((folder / f"lineage.{name}.json").read_text()) for name in ("intoto", "predicate")
    )
    assert (statement["predicateType"], statement["predicate"]) == (PREDICATE_TYPE, predicate)
    digest = hashlib.sha256((HUB / "fern/llama-finetune-a" / WEIGHTS).read_bytes()).hexdigest()
    lines = (folder / "lineage.sha256").read_text().splitlines()
    assert [line for line in lines if " " in line] == [f"{digest}  {WEIGHTS}"], "actions/attest passes over the others"


@pytest.mark.few(1)
@pytest.mark.parametrize(("of", "folder", "code"), [("honest", ROOT, 0), ("liar", HUB, 1)])
def test_the_log_begins_with_a_command_that_a_user_can_run(request, of, folder, code, monkeypatch):
    _, ran = request.getfixturevalue(of)
    (line,) = [line for line in ran.log.splitlines() if line.startswith("$ hf-lineage check ")]
    _, _, *command = shlex.split(line)
    monkeypatch.chdir(folder)
    again = lineage(*(word for word in command if not word.startswith("--output=")))
    assert (again.code, again.out.splitlines()[:3]) == (code, ran.log.partition(line)[2].splitlines()[1:4])


def test_a_false_claim_fails_with_the_exit_code_and_is_an_alert_at_its_line(liar):
    room, ran = liar
    report = replace(checked("magpie/llama-liar"), model="./magpie/llama-liar")
    (folder,) = room.glob("hf-lineage-*")
    assert (ran.code, ran.outputs["verdict"], ran.outputs) == (1, "UNRELATED", outputs(report, folder))
    said = "acme/llama-base is UNRELATED (score 0.020, 0%25 inherited, p = 1)"
    assert ran.heard == [("error", "title=Lineage of ./magpie/llama-liar", said)]
    assert ran.summary.partition(" Checked on ")[:2] == FORMATS["markdown"](report, False).partition(" Checked on ")[:2]
    assert sorted(file.name for file in folder.iterdir()) == ["lineage.json", "lineage.md", "lineage.sarif"]
    (result,) = json.loads((ROOT / ran.outputs["report-path"] / "lineage.sarif").read_text())["runs"][0]["results"]
    where = result["locations"][0]["physicalLocation"]
    assert (where["artifactLocation"]["uri"], where["region"]) == ("magpie/llama-liar/README.md", {"startLine": 2})


@pytest.mark.long
def test_a_model_that_is_not_there_is_said_everywhere(tmp_path, ready):
    ran = run_action(tmp_path, ready, local_path="no/such model")
    why = "./no/such model is neither a folder nor a Hub name such as org/model or org/model@revision"
    assert (ran.code, ran.heard) == (2, [("error", "title=Lineage could not be checked", why)])
    assert ran.summary == f"### Lineage could not be checked\n\n{why.replace('@', '&#64;')}\n"
    assert {name: value for name, value in ran.outputs.items() if value} == {"verdict": "ERROR"}


@pytest.mark.long
def test_a_bug_is_shown_where_the_runner_takes_nothing_for_a_command(tmp_path):
    ready = installed(tmp_path / "venv")
    (packages,) = (tmp_path / "venv").rglob("site-packages")
    raises = "def render(*arguments): raise KeyError('x\\n::error::owned\\n##[error]owned')"
    (packages / "sitecustomize.py").write_text(
        f"import hf_lineage.report.text as text\n{raises}\ntext.render = render\n"
    )
    room = tmp_path / "room"
    room.mkdir()
    ran = run_action(room, {**ready, "commits": {}}, model="magpie/llama-liar", options=f"--local-hub {HUB}")
    assert (ran.code, "Traceback" in ran.log, [name for name, _, _ in ran.heard]) == (2, True, ["error"])
    assert "Please report it" in ran.heard[0][2]


def test_of_hostile_names_the_runner_hears_one_annotation_and_finds_no_trace(tmp_path, ready):
    odd = tmp_path / "<script>`x`|::error::\n\u202e"
    shutil.move(family(tmp_path / "hub") / "fern/child", odd)
    (odd / "README.md").write_text(hostile.card(), encoding="utf-8")
    hostile_run = run_action(tmp_path, ready, local_path=str(odd), formats=EVERY, fail_on="undecided")
    assert ([name for name, _, _ in hostile_run.heard], hostile_run.code) == (["error"], 3)
    assert hostile_run.outputs["verdict"] == "UNDECIDED"
    assert set(hostile_run.steps["check"]) == set(action()["outputs"])
    assert not hostile.traces("\n".join((hostile_run.summary, *hostile_run.steps["check"].values())))
    assert not [word for word in ("](", "@everyone") if word in hostile_run.summary]
    assert not hostile.traces(hostile_run.log, hostile.LINES)
    files = sorted((ROOT / hostile_run.outputs["report-path"]).iterdir())
    assert [file.name.removeprefix("lineage.") for file in files] == FILES
    for file in files:
        patterns = hostile.LINES if file.suffix == ".txt" else hostile.MARKUP + hostile.LINES
        whole = file.name in ("lineage.json", "lineage.intoto.json", "lineage.predicate.json")  # no name is cut
        assert not hostile.traces(file.read_text("utf-8"), patterns[: -1 if whole else None]), file
    branch = run_action(tmp_path, ready, model="org/model", revision="main\n::error::<script>\u202e")
    assert (branch.code, [name for name, _, _ in branch.heard]) == (2, ["error"])
    assert not hostile.traces(branch.log, hostile.LINES) + hostile.traces(branch.summary)


MODULES = (
    *("venv", "pip", "ensurepip", "json", "site", "sitecustomize", "usercustomize", "runpy", "hatchling", "setup"),
    *("subprocess", "hf_lineage", "hf_lineage.action", "hf_lineage.cli", "torch", "numpy", "huggingface_hub", "click"),
)
"""What a file of the checkout may be called that an import would rather take."""


@pytest.fixture
def checkout(tmp_path):
    """A local hub of an honest model and its base, beside everything that could be run, which then notes its name."""
    folder, ran = family(tmp_path / "checkout"), str(tmp_path / "ran")
    for module in MODULES:
        path = module.replace(".", "/")
        package = [other for other in MODULES if other.startswith(f"{module}.")]
        file = folder / (f"{path}/__init__.py" if package else f"{path}.py")
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"open({ran!r}, 'a').write({module!r} + '\\n')\n")
    (folder / "evil.pth").write_text("import venv\n")
    (folder / "pyvenv.cfg").write_text(f"home = {folder}\ninclude-system-site-packages = true\n")
    build = '[build-system]\nrequires = []\nbuild-backend = "venv"\nbackend-path = ["."]\n'
    (folder / "pyproject.toml").write_text(build)
    settings = ("no-index = false", "index-url = https://127.0.0.1:1/", "require-hashes = true", "prefix = /nowhere")
    for name in ("pip.conf", "pip.ini", "setup.cfg", "pydistutils.cfg", "uv.toml"):
        (folder / name).write_text("\n".join(["[global]", *settings, ""]))
    own = folder / f"lib/python3.{sys.version_info.minor}/site-packages"
    own.mkdir(parents=True)
    shutil.copy(folder / "usercustomize.py", own / "usercustomize.py")
    return folder


def offline(shelf):
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(shelf)}


class TestAction:
    @pytest.fixture
    def job(self, tmp_path, checkout):
        """Run all steps of the action, the first one as well, on the model of the checkout."""
        shelf = github.shelf(tmp_path / "shelf")
        place = github.source(tmp_path / "action", shelf)
        (tmp_path / "temp").mkdir()

        def run(inputs=()):
            folder = str(checkout)
            surprises = {  # what a job may have set, without thinking of a checkout that is hostile
                "PYTHONPATH": os.pathsep.join(["", ".", folder]), "PYTHONSTARTUP": "sitecustomize.py",
                "PYTHONUSERBASE": folder, "PYTHONWARNINGS": "error::venv.Warning", "PYTHONBREAKPOINT": "venv.run",
                "PYTHONHOME": folder, "PIP_CONFIG_FILE": "pip.conf", "HF_HOME": str(tmp_path / "home"),
            }  # fmt: skip
            given = {"local_path": "fern/child", "options": "--local-hub ."} | dict(inputs)
            env = surprises | offline(shelf)
            return run_action(tmp_path / "temp", {"python": PYTHON}, checkout, env, place, **given)

        return run

    def test_no_step_runs_or_obeys_any_of_it(self, job, tmp_path):
        done = job()
        assert not (tmp_path / "ran").exists()
        assert (done.code, done.outputs["verdict"]) == (0, "VERIFIED"), done.log
        assert set(done.steps) == {"python", "install", "commits", "check"}

    @pytest.mark.long
    def test_what_it_is_built_with_must_be_the_pinned_package_too(self, job, tmp_path):
        github.wheel(tmp_path / "shelf", "hatchling", "1.33.0", {"hatchling/build.py": "# another"})
        done = job()
        assert done.code != 0
        assert ("DO NOT MATCH THE HASHES" in done.log, "check" in done.steps) == (True, False)

    @pytest.mark.long
    def test_models_are_run_where_that_is_asked_for_with_what_is_pinned_for_it(self, job, checkout, tmp_path):
        edit_json(checkout / "fern/child/config.json", intermediate_size=HIDDEN, vocab_size=VOCABULARY)
        (tmp_path / "action/requirements/action.txt").unlink()
        done = job({"run": "yes"})
        assert not (tmp_path / "ran").exists()
        assert (done.code, done.outputs["verdict"]) == (0, "VERIFIED"), done.log
        assert " --run " in done.log


@pytest.mark.long
def test_the_hook_runs_none_of_it_in_a_venv_of_its_own(checkout, tmp_path):
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
    settings = {
        "PRE_COMMIT_HOME": str(tmp_path / "cache"), "HF_HOME": str(tmp_path / "home"),
        "PYTHONPATH": f"{os.pathsep}/nowhere", "PYTHONSAFEPATH": "", "PYTHONUSERBASE": ".",
    }  # fmt: skip
    command = [sys.executable, "-I", "-m", "pre_commit", "try-repo", source, "hf-lineage", "--color", "never"]
    command += ["--hook-stage", "pre-push", "--all-files", "--verbose"]
    done = run_process(command, cwd=model, timeout=300, env=environment(**(offline(shelf) | settings)))
    assert not (tmp_path / "ran").exists()
    assert (done.code, "VERIFIED inherited" in done.out) == (0, True), done


def pins(name):
    """Package -> version and number of hashes of a file of requirements, as `make pins` writes them."""
    lines = (ROOT / f"requirements/{name}.txt").read_text("utf-8").replace("\\\n", " ").splitlines()
    return {
        canonicalize_name(requirement.name): (str(requirement.specifier), hashes)
        for line in lines
        if not line.startswith("#")
        for requirement, hashes in [(Requirement(line.partition("--hash")[0]), line.count("--hash=sha256:"))]
    }


@pytest.mark.parametrize("name", ["action", "action-run"])
def test_each_pin_is_one_version_with_hashes_and_the_same_as_everywhere_else(name):
    assert all(version.startswith("==") and hashes for version, hashes in pins(name).values())
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    everywhere = [Requirement(line) for line in lines if line and not line.startswith("#")]
    both = {canonicalize_name(one.name): str(one.specifier) for one in everywhere}
    pinned = {one: version for one, (version, _) in pins(name).items() if one in both}
    assert {one: both[one] for one in pinned} == pinned
    assert len(pinned) > 12
    assert pins("action").items() <= pins("action-run").items()
