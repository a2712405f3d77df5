"""The Jenkinsfile: its script, run as an agent runs it; `make lint` reads the whole of it."""

import datetime
import os
import re
import subprocess
from xml.etree import ElementTree as ET

import pytest

from hf_lineage import __version__
from hf_lineage.checking.results.policies import under
from hf_lineage.policy.policy import Policy
from hf_lineage.report import FORMATS
from tests.examples.installed import HUB, asked, install, returning
from tests.github import ROOT
from tests.invoking import environment
from tests.pages import measured, report, row

TEXT = (ROOT / "examples/jenkins/Jenkinsfile").read_text("utf-8")
INSTALL, CHECK = re.findall(r"'''(.*?)'''", TEXT, re.DOTALL)


def script(folder, model, policy="", **changes):
    env = environment(WORKSPACE_TMP=str(folder / "tmp"), MODEL=model, POLICY=policy, **changes)
    return subprocess.run(["sh", "-ec", CHECK], cwd=folder, env=env, timeout=120, check=False).returncode


def test_the_version_is_the_one_of_this_repository():
    assert f"name: 'LINEAGE_VERSION', defaultValue: '{__version__}'" in TEXT


def test_what_is_trusted_is_beside_the_checkout():
    places = dict(re.findall(r'(\w+) = "\$\{(\w+)\}/[\w-]+"', TEXT))
    assert places == dict.fromkeys(("HF_LINEAGE_CACHE", "HF_HOME", "XDG_CONFIG_HOME"), "WORKSPACE_TMP")


def test_nothing_of_groovy_stands_in_a_script():
    assert "${" not in INSTALL + CHECK
    assert '"""' not in TEXT


@pytest.mark.skipif(os.name == "nt", reason="an agent on Linux runs it")
def test_the_script_returns_the_verdict_and_leaves_its_reports(tmp_path):
    install(tmp_path / "tmp/hf-lineage", local_hub=HUB)
    assert script(tmp_path, str(HUB / "magpie/llama-liar")) == 1
    suite = ET.parse(tmp_path / "lineage.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert (tmp_path / "lineage.html").exists()


@pytest.mark.skipif(os.name == "nt", reason="an agent on Linux runs it")
def test_nothing_of_the_checkout_is_taken_for_a_report_or_written_through(tmp_path):
    checkout, outside = tmp_path / "checkout", tmp_path / "outside"
    checkout.mkdir()
    outside.write_text("secret")
    reports = ("lineage.xml", "lineage.html", "lineage.told.json")
    for file in reports:
        (checkout / file).symlink_to(outside)
    install(checkout / "tmp/hf-lineage", local_hub=HUB)
    assert script(checkout, str(HUB / "magpie/llama-liar")) == 1
    assert outside.read_text() == "secret"
    assert [file for file in reports if (checkout / file).is_symlink()] == []


@pytest.mark.skipif(os.name == "nt", reason="an agent on Linux runs it")
def test_a_variable_that_ends_python_is_not_taken_for_a_verdict(tmp_path):
    install(tmp_path / "tmp/hf-lineage", local_hub=HUB)
    assert script(tmp_path, str(HUB / "fern/llama-finetune-a"), PYTHONIOENCODING="nonsense") == 0


@pytest.mark.skipif(os.name == "nt", reason="an agent on Linux runs it")
@pytest.mark.parametrize(
    ("policy", "codes"),
    [
        (None, [0, 1, 3]),
        (Policy("p"), [0, 1, 3]),
        (Policy("p", fail_on="undecided"), [0, 1, 1]),
        (Policy("p", fail_on="never"), [0, 0, 0]),
        (Policy("p", relations=("merge",)), [1, 1, 1]),
    ],
)
def test_what_is_undecided_is_unstable_unless_the_policy_says_otherwise(tmp_path, policy, codes):
    def returned(found):
        found = under(found, policy, datetime.date(2026, 11, 22))
        returning(tmp_path / "tmp/hf-lineage", int(found.status), FORMATS["github"](found, False))
        return script(tmp_path, "org/model", "p.yaml")

    unrelated = measured(score=0.005, p=0.5, share=0.0)
    claims = [row(mlp=measured()), row(mlp=unrelated), row(mlp=measured(share=0.3))]
    assert [returned(report(claim)) for claim in claims] == codes


@pytest.mark.skipif(os.name == "nt", reason="an agent on Linux runs it")
def test_the_policy_is_named_as_it_is_given(tmp_path):
    asked(tmp_path / "tmp/hf-lineage", ["policy"])
    assert [script(tmp_path, "m", policy) for policy in ("", "a policy.yaml")] == [0, 0]
    assert (tmp_path / "asked").read_text() == "--policy a policy.yaml\n"
