"""The component for GitLab: what its own schema demands, and its script, run as a runner runs it."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import yaml

from hf_lineage import __version__
from hf_lineage.evidence.procedure import ACCEPTABLE
from tests.examples.installed import HUB, install, returning
from tests.github import ROOT
from tests.running import environment

FILE = ROOT / "examples/gitlab/templates/hf-lineage.yml"
SPEC, JOBS = FILE.read_text("utf-8").split("\n---\n")
INPUTS = yaml.safe_load(SPEC)["spec"]["inputs"]
INPUT = re.compile(r"\$\[\[ inputs\.([a-z-]+) \]\]")
SCHEMA = jsonschema.Draft7Validator(json.loads((ROOT / "tests/data/schemas/gitlab-ci.json").read_text("utf-8")))
HONEST = "./fern/llama-finetune-a"


def job(**given):
    """The one job, with the inputs of whoever includes it."""
    values = {name: about.get("default") for name, about in INPUTS.items()} | given
    ((name, body),) = yaml.safe_load(INPUT.sub(lambda found: values[found[1]], JOBS)).items()
    return name, body


@pytest.fixture
def checkout(tmp_path):
    """A checkout of a model and its base, beside which hf-lineage is installed."""
    for model in ("acme/llama-base", HONEST):
        shutil.copytree(HUB / model, tmp_path / "checkout" / model)
    install(tmp_path / "checkout.tmp/hf-lineage")
    return tmp_path / "checkout"


def run(checkout, **given):
    """Run the script of the job as a runner does, and return its exit code."""
    _, body = job(**given)
    variables = {key: value for key, value in body["variables"].items() if key.startswith("LINEAGE_")}
    env = environment(CI_PROJECT_DIR=str(checkout), **variables)
    script = "\n".join(body["script"])
    return subprocess.run(["sh", "-ec", script], cwd=checkout, env=env, check=False, timeout=120).returncode


@pytest.mark.parametrize("part", [SPEC, JOBS], ids=["its inputs", "its job"])
def test_the_schema_that_gitlab_publishes_accepts_it(part):
    assert [error.message for error in SCHEMA.iter_errors(yaml.safe_load(part))] == []


def test_the_schema_would_refuse_a_misspelt_keyword():
    misspelt = yaml.safe_load(JOBS.replace("exit_codes: 3", "exit_code: 3"))
    assert list(SCHEMA.iter_errors(misspelt))


def test_every_input_is_described_and_used():
    assert set(INPUT.findall(JOBS)) == set(INPUTS)
    assert all(about["description"] for about in INPUTS.values())
    assert [name for name, about in INPUTS.items() if "default" not in about] == ["model"]
    assert all(kind in INPUTS["accept"]["description"] for kind in ACCEPTABLE)


def test_no_input_stands_in_a_script():
    """A model with a strange name cannot become a command: the shell takes it from a variable."""
    name, body = job(model="x")
    assert name == "hf-lineage"
    written = yaml.safe_load(JOBS.replace("$[[ inputs.job-name ]]", "job"))["job"]
    assert INPUT.findall("\n".join(written["before_script"] + written["script"])) == []
    assert body["allow_failure"] == {"exit_codes": 3}


def test_the_version_is_the_one_of_this_repository():
    assert INPUTS["version"]["default"] == __version__
    assert re.fullmatch(INPUTS["version"]["regex"].strip("/"), __version__)


@pytest.mark.skipif(os.name == "nt", reason="a runner on Linux runs it")
class TestScript:
    def test_an_honest_model_passes_and_leaves_its_reports(self, checkout):
        assert run(checkout, model=HONEST, base="./acme/llama-base") == 0
        suite = ET.parse(checkout / "lineage.xml").getroot()
        assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
        _, body = job(model=HONEST)
        assert all((checkout / file).stat().st_size for file in body["artifacts"]["reports"].values())
        assert (checkout / "lineage.html").read_text("utf-8").startswith("<!doctype html>")

    @pytest.mark.parametrize(
        ("fail_on", "codes"),
        [("unrelated", [0, 1, 2, 3]), ("undecided", [0, 1, 2, 1]), ("never", [0, 3, 2, 3])],
    )
    def test_the_code_of_the_job_is_what_the_input_asks_for(self, checkout, fail_on, codes):
        def returned(code):
            returning(Path(f"{checkout}.tmp/hf-lineage"), code)
            return run(checkout, **{"model": "org/model", "fail-on": fail_on})

        assert [returned(code) for code in range(4)] == codes

    def test_a_name_that_looks_like_an_option_or_a_command_is_a_name(self, checkout):
        assert run(checkout, model="--help") == 2
        assert run(checkout, model="$(touch owned)") == 2
        assert not (checkout / "owned").exists()
