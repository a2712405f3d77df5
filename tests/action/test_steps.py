"""The steps of the action in this process: what they put out, what they cache, what becomes of the card."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hf_lineage import __version__, action
from hf_lineage.cli.action_inputs import read_inputs
from tests.action.conftest import commit, started
from tests.github import ROOT, commands, outputs
from tests.invoking import environment
from tests.models import card, family

HUB = ROOT / "examples" / "hub"


class TestCheckout:
    """The folders of a checkout bear the names that its author gave them."""

    @pytest.fixture
    def checkout(self, tmp_path, monkeypatch):
        """A model that declares its base, which lies beside it under the name that the base has on the Hub."""
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        family(tmp_path / "checkout")
        monkeypatch.chdir(tmp_path / "checkout")

    def test_one_that_is_called_like_the_declared_base_is_not_the_base(self, checkout, step):
        assert step(local_path="fern/child")[1]["verdict"] == "UNDECIDED"

    def test_nor_like_the_base_that_the_workflow_names(self, checkout, step):
        code, outputs, _ = step(local_path="fern/child", base="acme/base", fail_on="never")
        assert (code, outputs["verdict"]) == (2, "ERROR")
        assert step(local_path="fern/child", base="./acme/base")[1]["verdict"] == "VERIFIED"

    @pytest.mark.parametrize("card", ["never", "write"])
    def test_nor_like_the_model(self, checkout, step, card):
        code, outputs, heard = step(model="fern/child", base="./acme/base", annotate=card)
        assert (code, outputs["verdict"]) == (2, "ERROR")
        assert heard[0][2].startswith("fern/child may be a name on the Hub, and there is a folder ./fern/child here")

    def test_none_of_them_is_asked_for_when_signatures_are_looked_for(self, checkout, step):
        assert step("key", model="fern/child") == (0, {}, [])


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ("sys.modules['msgspec'] = None", "a package that is needed cannot be imported (import of msgspec halted; "),
        ("import hf_lineage.action as s\ndef broken(environ): raise MemoryError\ns.COMMANDS['check'] = broken",
         "not enough memory"),
    ],
)  # fmt: skip
def test_what_keeps_a_step_from_beginning_is_an_error_like_any_other(room, patch, message):
    script = f"import sys\n{patch}\nfrom hf_lineage.action import main\nsys.exit(main(['check']))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=environment(GITHUB_OUTPUT=str(room / "OUTPUT")),
    )
    assert done.returncode == 2
    assert outputs((room / "OUTPUT").read_text("utf-8")) == {"verdict": "ERROR"}
    ((level, _, annotation),) = commands(done.stdout)
    assert (level, annotation.startswith(message)) == ("error", True)
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"options": "--accept unmeasured"}, "'unmeasured' is not one of 'part', 'embedding', 'calibrated', 'weak'"),
        ({"options": "--budget 'no\n::error::x'"}, "is not one of 'quick', 'full'"),
        ({"options": "--alpha"}, "Invalid value for '--alpha'"),
        ({"options": "--help"}, "the input options make no report; leave --help and --verify out"),
    ],
)
def test_what_the_command_does_not_take_is_one_error_of_the_step(step, inputs, message):
    code, outputs, ((level, _, annotation),) = step(model="a/b", **inputs)
    assert (code, outputs["verdict"], level) == (2, "ERROR", "error")
    assert message in annotation


class TestArguments:
    @pytest.mark.parametrize(
        ("environ", "command"),
        [
            ({"LOCAL_PATH": "--help"}, ["check", "--", "./--help"]),
            ({"MODEL": "a/b", "REVISION": "v1"}, ["check", "--", "a/b@v1"]),
            (
                {"LOCAL_PATH": ".", "BASE": "c/d ./e", "OPTIONS": "--accept part --local-hub 'my hub'", "RUN": "yes"},
                ["check", "--base=c/d", "--base=./e", "--run", "--accept", "part", "--local-hub", "my hub", "--", "."],
            ),
            ({"MODEL": "a/b", "ANNOTATE": "pull-request"}, ["annotate", "--pull-request", "--", "a/b"]),
        ],
    )
    def test_every_input_is_an_option_of_the_command_and_none_is_taken_for_another(self, environ, command):
        inputs = read_inputs({f"LINEAGE_{name}": value for name, value in environ.items()})
        assert action.arguments(inputs, []) == command

    def test_the_token_is_none_of_them(self):
        inputs = read_inputs({"LINEAGE_MODEL": "a/b", "LINEAGE_TOKEN": "hf_secret"})
        assert "hf_secret" not in " ".join(action.arguments(inputs, [("json", Path("x"))]))


ACCEPTED = "accepted: [{base: acme/llama-base, code: unrelated, reason: tested, expires: 2999-01-01}]"


@pytest.mark.parametrize(("event", "code"), [("push", 0), ("issue_comment", 1), ("check_run", 1), ("merge_group", 1)])
def test_the_policy_of_a_folder_accepts_only_where_it_belongs_to_the_repository(
    step, tmp_path, monkeypatch, event, code
):
    folder = shutil.copytree(HUB / "magpie/llama-liar", tmp_path / "checkout")
    sha = commit(folder, lineage_yaml=ACCEPTED)
    for name, value in started(tmp_path, event, sha).items():
        monkeypatch.setenv(name, value)
    status, outputs, _ = step(local_path=folder, options=f"--local-hub {HUB}", formats="")
    assert (status, outputs["verdict"]) == (code, "UNRELATED")


def test_a_policy_accepts_and_says_what_fails_and_an_input_goes_before_it(step, tmp_path):
    policy = tmp_path / "ours.yaml"
    given = {"options": f"--local-hub {HUB}", "policy": policy, "formats": ""}
    policy.write_text("fail-on: undecided")
    assert step(model="acme/llama-base", **given)[0] == 3
    assert step(model="acme/llama-base", fail_on="unrelated", **given)[0] == 0
    policy.write_text(ACCEPTED.replace("}", ", model: magpie/llama-liar}"))
    code, outputs, heard = step(model="magpie/llama-liar", **given)
    assert (code, outputs["verdict"], heard[0][0]) == (0, "UNRELATED", "warning")
    assert heard[0][2].endswith("; accepted until 2999-01-01: tested")


def test_a_repository_without_a_model_is_an_error_unless_nothing_fails(step, tmp_path):
    (tmp_path / "data").mkdir()
    card(tmp_path / "data", "acme/llama-base")
    for fail_on, expected in (("undecided", (2, "ERROR", "error")), ("never", (0, "UNDECIDED", "warning"))):
        code, outputs, heard = step(local_path=str(tmp_path / "data"), fail_on=fail_on, formats="")
        assert (code, outputs["verdict"], heard[0][0]) == expected


def test_a_model_that_declares_nothing_has_no_verdict(step):
    code, outputs, ((level, _, message),) = step(model="acme/llama-base", options=f"--local-hub {HUB}")
    assert (code, outputs["verdict"], outputs["score"], outputs["p-value"]) == (0, "UNDECIDED", "", "")
    assert (level, message.startswith("Nothing is declared")) == ("warning", True)


class TestCache:
    @pytest.fixture
    def hub(self, room, online):
        online.publish("fern/llama-finetune-b", HUB / "fern/llama-finetune-b")
        return online

    def test_the_key_names_the_commits(self, hub, step):
        def keys(model):
            return step("key", model=model)[1]

        one, other = keys("fern/llama-finetune-a"), keys("fern/llama-finetune-b")
        assert one["restore-keys"] == other["restore-keys"]  # the base is the same
        assert one["key"] != other["key"]
        assert one["key"].startswith(one["restore-keys"])
        assert one["restore-keys"].startswith(f"hf-lineage-{__version__}-")
        hub.publish("acme/llama-base", HUB / "fern/llama-finetune-b")
        assert keys("fern/llama-finetune-a")["restore-keys"] != one["restore-keys"]

    def test_a_second_check_of_the_same_commits_moves_no_weights(self, hub, step, room):
        first = step(model="fern/llama-finetune-a")
        shutil.rmtree(room / "cache")
        hub.forget()
        second = step(model="fern/llama-finetune-a")
        assert (second[0], second[1]["score"]) == (first[0], first[1]["score"])
        assert hub.moved() == 0
        assert len(list((room / "hf-lineage-signatures").rglob("*.safetensors"))) == 4

    def test_what_goes_wrong_is_left_to_the_check(self, step):
        assert step("key", model="no such model") == (0, {}, [])


@pytest.mark.parametrize("in_the_way", [False, True])
def test_the_folder_is_annotated_with_what_is_put_out_and_an_error_leaves_the_reports(room, step, in_the_way):
    model = room / "model"
    shutil.copytree(HUB / "fern/llama-finetune-a", model)
    if in_the_way:
        (model / "lineage").write_text("in the way")
    code, outputs, _ = step(local_path=model, options=f"--local-hub {HUB}", annotate="write")
    assert (code, outputs["verdict"]) == ((2, "ERROR") if in_the_way else (0, "VERIFIED"))
    assert (outputs["score"], Path(outputs["report-path"]).is_dir()) == ("0.9935", True)
    assert in_the_way or json.loads((model / "lineage/claims.json").read_text())["claims"][0]["verified"]


def test_a_command_is_one_line_whatever_it_says():
    assert action.command("error", "50%\r\n::error::x", title="a: b,\nc") == (
        "::error title=a%3A b%2C%0Ac::50%25%0D%0A::error::x"
    )


def test_outputs_are_appended_each_between_marks_of_its_own_and_cannot_end_before(tmp_path):
    environ = {"GITHUB_OUTPUT": str(tmp_path / "out")}
    for value in ("x", "x\nb<<EOF\ny"):
        action.set_outputs(environ, {"a": value, "b": ""})
    text = (tmp_path / "out").read_text()
    marks = [line.partition("<<")[2] for line in text.splitlines() if "<<" in line and len(line) > 30]
    assert len(set(marks)) == len(marks) == 4
    assert outputs(text) == {"a": "x b<<EOF y", "b": ""}


def test_a_summary_stays_under_a_mebibyte_and_ends_with_a_whole_line(tmp_path):
    action.add_summary({"GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}, "| é |\n" * 200_000)
    content = (tmp_path / "summary").read_bytes()
    assert 2**20 - 2**11 < len(content) < 2**20
    beginning, _, rest = content.decode().rpartition("| é |\n")
    assert set(beginning.splitlines()) == {"| é |"}
    assert "The rest is left out" in rest


def test_what_is_printed_while_nobody_listens_is_no_command_and_an_error_ends_that(capsys):
    def owned():
        print("::error::owned")
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"), action.without_commands():
        owned()
    print(action.command("warning", "heard", title="T"))
    assert commands(capsys.readouterr().out) == [("warning", "title=T", "heard")]
