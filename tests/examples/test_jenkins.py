"""The Jenkinsfile: its script, run as an agent runs it; `make lint` reads the whole of it."""

import os
import re
import subprocess
from xml.etree import ElementTree as ET

import pytest

from hf_lineage import __version__
from tests.examples.installed import HUB, install
from tests.github import ROOT
from tests.running import environment

TEXT = (ROOT / "examples/jenkins/Jenkinsfile").read_text("utf-8")
INSTALL, CHECK = re.findall(r"'''(.*?)'''", TEXT, re.DOTALL)


def test_the_version_is_the_one_of_this_repository():
    assert f"name: 'LINEAGE_VERSION', defaultValue: '{__version__}'" in TEXT


def test_nothing_of_groovy_stands_in_a_script():
    assert "${" not in INSTALL + CHECK
    assert '"""' not in TEXT


@pytest.mark.skipif(os.name == "nt", reason="an agent on Linux runs it")
def test_the_script_returns_the_verdict_and_leaves_its_reports(tmp_path):
    install(tmp_path / "tmp/hf-lineage", local_hub=HUB)
    env = environment(WORKSPACE_TMP=str(tmp_path / "tmp"), MODEL=str(HUB / "magpie/llama-liar"))
    done = subprocess.run(["sh", "-ec", CHECK], cwd=tmp_path, env=env, timeout=120, check=False)
    assert done.returncode == 1
    suite = ET.parse(tmp_path / "lineage.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert (tmp_path / "lineage.html").exists()
