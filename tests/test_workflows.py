"""The workflows of this project and those that users copy: pinned, without rights, bounded, of calls that there are."""

import ast
import inspect
import re

import pytest
import yaml
from huggingface_hub import HfApi

from hf_lineage.evidence.criteria import FAIL_ON
from hf_lineage.report.json import PREDICATE_TYPE
from tests.github import ROOT, action

FILES = sorted([*(ROOT / ".github/workflows").glob("*.yml"), *(ROOT / "examples/workflows").glob("*.yml")])
PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
OURS = "uses: hf-lineage/hf-lineage@v0.1.0 # zizmor: ignore[unpinned-uses]"
"""In an example: whoever copies it pins the commit of the release that they read."""


def workflow(file):
    return yaml.safe_load(file.read_text("utf-8"))


def steps(file):
    return [step for job in workflow(file)["jobs"].values() for step in job["steps"]]


@pytest.fixture(params=FILES, ids=lambda file: f"{file.parent.parent.name}/{file.name}")
def file(request):
    return request.param


def test_there_are_workflows_to_copy_and_the_statement_of_a_release_is_ours():
    names = {f"{name}.yml" for name in ("ci", "release", "on-release", "on-push", "nightly", "organisation")}
    assert {file.name for file in FILES} >= names
    everything = "".join(file.read_text("utf-8") for file in (*FILES, ROOT / "action.yml"))
    pins = set(re.findall(r"uses: ([\w./-]+)@([0-9a-f]{40})", everything))
    assert len({name for name, _ in pins}) == len(pins), "one action is one commit everywhere"
    assert f"predicate-type: {PREDICATE_TYPE}\n" in (ROOT / "examples/workflows/on-release.yml").read_text("utf-8")


def test_every_action_is_pinned_to_a_commit_and_says_its_version(file):
    used = [line.strip().removeprefix("- ") for line in file.read_text("utf-8").splitlines() if "uses: " in line]
    ours = OURS if file.parent.parent.name == "examples" else "uses: ./ # zizmor: ignore[self-repository]"
    assert [use for use in used if not PINNED.fullmatch(use) and not use.startswith(ours)] == []


def test_every_job_ends_names_its_rights_and_inputs_and_holds_no_expression(file):
    assert (workflow(file)["permissions"], "group" in workflow(file)["concurrency"]) == ({}, True)
    jobs = workflow(file)["jobs"].values()
    assert all(job["timeout-minutes"] <= 350 for job in jobs)
    assert not [step["run"] for step in steps(file) if "${{" in step.get("run", "")]
    for step in (step for step in steps(file) if step.get("uses", "").startswith(("./", "hf-lineage/"))):
        assert set(step["with"]) <= set(action()["inputs"])
        assert step["with"].get("fail-on", "never") in FAIL_ON


@pytest.mark.parametrize(
    "script", [step["run"] for file in FILES for step in steps(file) if step.get("shell") == "python"]
)
def test_what_a_script_asks_of_the_hub_is_there(script):
    calls = [node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Call)]
    asked = [call for call in calls if isinstance(call.func, ast.Attribute) and hasattr(HfApi, call.func.attr)]
    assert asked
    for call in asked:
        method = inspect.signature(getattr(HfApi, call.func.attr))
        method.bind(None, *call.args, **{keyword.arg: keyword.value for keyword in call.keywords})


def test_every_version_that_the_project_supports_is_tested():
    matrix = workflow(ROOT / ".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]
    classifiers = re.findall(r"Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text("utf-8"))
    assert matrix["python"] == classifiers
    assert {each["system"] for each in matrix["include"]} == {"macos-latest", "windows-latest"}
