"""The steps of action.yml, run as bash as the runner would: on a true claim, a false one, and a stranger's."""

import hashlib
import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hf_lineage import Options, check
from hf_lineage.report import FORMATS
from hf_lineage.report.intoto import PREDICATE_TYPE
from tests import hostile
from tests.github import ROOT, SHELL, action, installed, run_action
from tests.invoking import lineage
from tests.models import WEIGHTS, family

HUB = ROOT / "examples" / "hub"
EVERY = "text, json, markdown, sarif, cyclonedx, intoto"
SHELLCHECK = shutil.which("shellcheck", path=str(Path(sys.executable).parent))
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
    """What the action puts out of a report with one claim."""
    verdict = report.rows[0].verdict
    evidence = verdict.evidence[verdict.decisive]
    return {
        "verdict": verdict.word,
        "verified": str(verdict.verified).lower(),
        "code": str(verdict.code),
        "score": f"{evidence.comparison.score:.4g}",
        "p-value": f"{evidence.p_value:.4g}",
        "report-path": str(folder),
    }


def checked(model):
    return check(model, options=Options(local_hub=HUB, seed=0))


@pytest.mark.parametrize("step", SCRIPTS)
def test_every_step_is_bash_without_inputs_that_shellcheck_has_nothing_against(step):
    subprocess.run([*SHELL, "-n", "/dev/stdin"], input=SCRIPTS[step], text=True, check=True)
    checked = subprocess.run([SHELLCHECK, "--shell=bash", "-"], input=SCRIPTS[step], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, "${{" in SCRIPTS[step]) == (0, "", False)


def test_a_true_claim_passes_and_every_output_says_so(honest):
    room, ran = honest
    (folder,) = room.glob("hf-lineage-*")
    assert (ran.code, ran.outputs["verdict"]) == (0, "VERIFIED")
    assert ran.outputs == outputs(checked("fern/llama-finetune-a"), folder)
    assert sorted(file.name.removeprefix("lineage.") for file in folder.iterdir()) == FILES
    said = "acme/llama-base is VERIFIED inherited (score 0.993, 100%25 inherited, p = 0.003)"
    assert ran.heard == [("notice", "title=Lineage of fern/llama-finetune-a", said)]


def findings(summary):
    """A report in Markdown up to when, and by which command, it was made."""
    before, made, _ = summary.partition(" Checked on ")
    assert made
    return before


def test_the_summary_and_the_log_are_the_reports(honest):
    _, ran = honest
    report = checked("fern/llama-finetune-a")
    assert findings(ran.summary) == findings(FORMATS["markdown"](report, False))
    quiet, _, after = ran.log.partition(FORMATS["text"](report, False))
    assert quiet.startswith("::stop-commands::")
    assert after.splitlines()[-1].startswith("::notice ")


@pytest.mark.few(1)
@pytest.mark.parametrize(("of", "folder", "code"), [("honest", ROOT, 0), ("liar", HUB, 1)])
def test_the_log_begins_with_a_command_that_a_user_can_run(request, of, folder, code, monkeypatch):
    _, ran = request.getfixturevalue(of)
    (line,) = [line for line in ran.log.splitlines() if line.startswith("$ hf-lineage check ")]
    _, _, *command = shlex.split(line)
    monkeypatch.chdir(folder)
    again = lineage(*(word for word in command if not word.startswith("--output=")))
    assert again.code == code
    assert again.out.splitlines()[:3] == ran.log.partition(line)[2].splitlines()[1:4]


def test_what_actions_attest_takes_is_the_statement_in_parts(honest):
    _, ran = honest
    folder = ran.outputs["report-path"]
    statement, predicate = (
        json.loads((ROOT / folder / f"lineage.{name}.json").read_text()) for name in ("intoto", "predicate")
    )
    assert (statement["predicateType"], statement["predicate"]) == (PREDICATE_TYPE, predicate)
    model = HUB / "fern/llama-finetune-a"
    digest = hashlib.sha256((model / WEIGHTS).read_bytes()).hexdigest()
    lines = (ROOT / folder / "lineage.sha256").read_text().splitlines()
    assert [line for line in lines if " " in line] == [f"{digest}  {WEIGHTS}"], "it passes over lines without a space"


def test_a_false_claim_fails_with_the_exit_code_of_the_check(liar):
    room, ran = liar
    report = replace(checked("magpie/llama-liar"), model="./magpie/llama-liar")
    (folder,) = room.glob("hf-lineage-*")
    assert (ran.code, ran.outputs["verdict"]) == (1, "UNRELATED")
    assert ran.outputs == outputs(report, folder)
    said = "acme/llama-base is UNRELATED (score 0.020, 0%25 inherited, p = 1)"
    assert ran.heard == [("error", "title=Lineage of ./magpie/llama-liar", said)]
    assert findings(ran.summary) == findings(FORMATS["markdown"](report, False))
    assert sorted(file.name for file in folder.iterdir()) == ["lineage.json", "lineage.md", "lineage.sarif"]


def test_the_false_claim_is_an_alert_at_its_line(liar):
    _, ran = liar
    (result,) = json.loads((ROOT / ran.outputs["report-path"] / "lineage.sarif").read_text())["runs"][0]["results"]
    where = result["locations"][0]["physicalLocation"]
    assert (where["artifactLocation"]["uri"], where["region"]) == ("magpie/llama-liar/README.md", {"startLine": 2})


@pytest.mark.long
def test_a_model_that_is_not_there_is_said_everywhere(tmp_path, ready):
    ran = run_action(tmp_path, ready, local_path="no/such model")
    why = "./no/such model is neither a folder nor a Hub name such as org/model or org/model@revision"
    assert ran.code == 2
    assert ran.heard == [("error", "title=Lineage could not be checked", why)]
    assert ran.summary == f"### Lineage could not be checked\n\n{why.replace('@', '&#64;')}\n"
    assert {name: value for name, value in ran.outputs.items() if value} == {"verdict": "ERROR"}


@pytest.mark.long
def test_a_bug_is_shown_where_the_runner_takes_nothing_for_a_command(tmp_path):
    ready = installed(tmp_path / "venv")
    (packages,) = (tmp_path / "venv").rglob("site-packages")
    (packages / "sitecustomize.py").write_text(
        "import hf_lineage.report.text as text\n"
        "def render(*arguments): raise KeyError('x\\n::error::owned\\n##[error]owned')\n"
        "text.render = render\n"
    )
    room = tmp_path / "room"
    room.mkdir()
    ran = run_action(room, {**ready, "commits": {}}, model="magpie/llama-liar", options=f"--local-hub {HUB}")
    assert ran.code == 2
    assert "Traceback" in ran.log
    assert [name for name, _, _ in ran.heard] == ["error"]
    assert "Please report it" in ran.heard[0][2]


@pytest.fixture(scope="module")
def hostile_run(tmp_path_factory, ready):
    room = tmp_path_factory.mktemp("hostile")
    child = family(room / "hub") / "fern/child"
    odd = room / "<script>`x`|::error::\n\u202e"
    shutil.move(child, odd)
    (odd / "README.md").write_text(hostile.card(), encoding="utf-8")
    return run_action(room, ready, local_path=str(odd), formats=EVERY, fail_on="undecided")


class TestHostile:
    def test_the_runner_hears_one_annotation_and_outputs_hold_what_they_should(self, hostile_run):
        assert ([name for name, _, _ in hostile_run.heard], hostile_run.code) == (["error"], 3)
        assert hostile_run.outputs["verdict"] == "UNDECIDED"
        assert set(hostile_run.steps["check"]) == set(action()["outputs"])
        assert not hostile.traces("\n".join(hostile_run.steps["check"].values()))

    def test_the_summary_and_the_log_are_only_text(self, hostile_run):
        assert not hostile.traces(hostile_run.summary)
        assert not [word for word in ("](", "@everyone") if word in hostile_run.summary]
        assert not hostile.traces(hostile_run.log, hostile.LINES)

    def test_no_report_has_a_trace_of_it(self, hostile_run):
        files = sorted((ROOT / hostile_run.outputs["report-path"]).iterdir())
        assert [file.name.removeprefix("lineage.") for file in files] == FILES
        for file in files:
            patterns = hostile.LINES if file.suffix == ".txt" else hostile.MARKUP + hostile.LINES
            whole = file.name in ("lineage.json", "lineage.intoto.json", "lineage.predicate.json")  # no name is cut
            traces = hostile.traces(file.read_text("utf-8"), patterns[: -1 if whole else None])
            assert not traces, file

    def test_a_hostile_branch_is_refused_in_one_line(self, tmp_path, ready):
        ran = run_action(tmp_path, ready, model="org/model", revision="main\n::error::<script>\u202e")
        assert (ran.code, [name for name, _, _ in ran.heard]) == (2, ["error"])
        assert not hostile.traces(ran.log, hostile.LINES)
        assert not hostile.traces(ran.summary)
