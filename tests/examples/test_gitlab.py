"""The component for GitLab: what its own schema demands, and its script, run as a runner runs it."""

import datetime
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import yaml

from hf_lineage import __version__
from hf_lineage.checking.results.policies import under
from hf_lineage.evidence.criteria import ACCEPTABLE, FAIL_ON
from hf_lineage.policy.policy import Policy
from hf_lineage.report import FORMATS
from tests.examples.installed import HUB, asked, install, returning
from tests.github import ROOT
from tests.invoking import environment
from tests.pages import measured, report, row

FILE = ROOT / "examples/gitlab/templates/hf-lineage.yml"
SPEC, JOBS = FILE.read_text("utf-8").split("\n---\n")
INPUTS = yaml.safe_load(SPEC)["spec"]["inputs"]
INPUT = re.compile(r"\$\[\[ inputs\.([a-z-]+) \]\]")
SCHEMA = jsonschema.Draft7Validator(json.loads((ROOT / "tests/data/schemas/gitlab-ci.json").read_text("utf-8")))
HONEST = "./fern/llama-finetune-a"
TODAY = datetime.date(2026, 11, 22)


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


def run(checkout, variables=(), /, **given):
    """Run the script of the job as a runner does, beside variables of its own, and return its exit code."""
    _, body = job(**given)
    inputs = {key: value for key, value in body["variables"].items() if key.startswith("LINEAGE_")}
    env = environment(CI_PROJECT_DIR=str(checkout), **inputs, **dict(variables))
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
    assert INPUTS["fail-on"]["options"] == ["", *FAIL_ON]


def test_no_input_stands_in_a_script():
    """A model with a strange name cannot become a command: the shell takes it from a variable."""
    name, body = job(model="x")
    assert name == "hf-lineage"
    written = yaml.safe_load(JOBS.replace("$[[ inputs.job-name ]]", "job"))["job"]
    assert INPUT.findall("\n".join(written["before_script"] + written["script"])) == []
    assert body["allow_failure"] == {"exit_codes": 3}


def test_what_is_trusted_is_beside_the_checkout_and_not_in_a_cache_of_gitlab():
    _, body = job(model="x")
    assert "cache" not in body
    trusted = [body["variables"][name] for name in ("HF_LINEAGE_CACHE", "HF_HOME")]
    assert all(place.startswith("$CI_PROJECT_DIR.tmp/") for place in trusted)


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

    def test_what_the_owner_accepts_passes_unless_a_fork_proposes_it(self, checkout):
        liar = checkout / "magpie/llama-liar"
        shutil.copytree(HUB / "magpie/llama-liar", liar)
        accepted = "{base: ./acme/llama-base, verdict: unrelated, reason: distilled, expires: 2999-01-01}"
        (liar / "lineage.yaml").write_text(f"accepted: [{accepted}]")
        given = {"model": "./magpie/llama-liar", "base": "./acme/llama-base", "policy": "own"}
        assert run(checkout, **given) == 0
        (entry,) = json.loads((checkout / "lineage.codequality.json").read_text("utf-8"))
        assert (entry["severity"], entry["location"]["path"]) == ("info", "magpie/llama-liar/README.md")
        fork = {"CI_MERGE_REQUEST_PROJECT_ID": "1", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "2"}
        assert run(checkout, fork, **given) == 1

    @pytest.mark.parametrize(
        ("fail_on", "policy", "codes"),
        [
            ("", None, [0, 1, 3, 3]),
            ("unrelated", None, [0, 1, 3, 3]),
            ("undecided", None, [0, 1, 1, 1]),
            ("never", None, [0, 3, 3, 3]),
            ("", Policy("p"), [0, 1, 3, 3]),
            ("", Policy("p", fail_on="unrelated"), [0, 1, 3, 3]),
            ("", Policy("p", fail_on="undecided"), [0, 1, 1, 1]),
            ("", Policy("p", fail_on="never"), [0, 3, 3, 3]),
            ("unrelated", Policy("p", fail_on="never"), [0, 1, 3, 3]),
            ("", Policy("p", relations=("merge",)), [1, 1, 1, 1]),
            ("unrelated", Policy("p", relations=("merge",)), [1, 1, 1, 1]),
            ("never", Policy("p", relations=("merge",)), [0, 3, 3, 3]),
        ],
    )
    def test_the_code_of_the_job_is_what_the_input_asks_for_else_the_policy(self, checkout, fail_on, policy, codes):
        """Of a claim that holds, one that does not, one that is undecided, and of none."""
        if fail_on:
            policy = replace(policy or Policy(), fail_on=fail_on)

        def returned(found):
            found = under(found, policy, TODAY)
            told = FORMATS["github"](found, False)
            returning(Path(f"{checkout}.tmp/hf-lineage"), int(found.status), told)
            return run(checkout, **{"model": "org/model", "fail-on": fail_on, "policy": "p"})

        shares = {"score": 0.005, "p": 0.5, "share": 0.0}
        claims = [row(mlp=measured()), row(mlp=measured(**shares)), row(mlp=measured(share=0.3))]
        assert [*(returned(report(claim)) for claim in claims), returned(report())] == codes

    def test_what_could_not_be_read_fails_whatever_is_asked_for(self, checkout):
        (checkout / "lineage.told.json").write_text('{\n  "fail_on": null,\n  "unmet": false,\n}')  # of a run before
        for code in (2, 3):
            returning(Path(f"{checkout}.tmp/hf-lineage"), code)
            assert run(checkout, **{"model": "org/model", "fail-on": "never"}) == {2: 2, 3: 1}[code]

    def test_the_policy_and_what_fails_reach_the_command_as_they_are_given(self, checkout):
        asked(Path(f"{checkout}.tmp/hf-lineage"), ["policy", "fail-on"])
        run(checkout, model="org/model")
        assert (checkout / "asked").read_text() == ""
        run(checkout, **{"model": "org/model", "policy": "a policy.yaml", "fail-on": "never"})
        assert (checkout / "asked").read_text() == "--policy a policy.yaml\n--fail-on never\n"

    def test_nothing_of_the_checkout_is_taken_for_a_report_or_written_through(self, checkout):
        outside = checkout.with_name("outside")
        outside.write_text("secret")
        outside.chmod(0o600)
        reports = ("lineage.xml", "lineage.html", "lineage.cdx.json", "lineage.codequality.json", "lineage.told.json")
        for file in reports:
            (checkout / file).symlink_to(outside)
        assert run(checkout, model=HONEST, base="./acme/llama-base") == 0
        assert outside.read_text() == "secret"
        assert [file for file in reports if (checkout / file).is_symlink()] == []
        for file in reports:
            (checkout / file).unlink()
            (checkout / file).mkdir()
        returning(Path(f"{checkout}.tmp/hf-lineage"), 2)
        assert run(checkout, model="org/model") == 2
        assert [file for file in reports if (checkout / file).exists()] == []

    @pytest.mark.parametrize("variable", ["PYTHONIOENCODING", "PYTHONHASHSEED"])
    @pytest.mark.few(1)
    def test_a_variable_that_ends_python_is_not_taken_for_a_verdict(self, checkout, variable):
        assert run(checkout, {variable: "nonsense"}, model=HONEST, base="./acme/llama-base") == 0

    def test_a_name_that_looks_like_an_option_or_a_command_is_a_name(self, checkout):
        assert run(checkout, model="--help") == 2
        assert run(checkout, model="$(touch owned)") == 2
        assert not (checkout / "owned").exists()
