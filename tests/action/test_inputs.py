"""The action in this process: inputs, whose lineage.yaml counts (by real commits), what steps put out and cache."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hf_lineage import __version__, action
from hf_lineage.cli.action_inputs import read_inputs
from hf_lineage.errors import OptionError
from tests.cli.test_process import committed
from tests.github import ROOT, commands, outputs
from tests.github import action as action_yml
from tests.invoking import environment, run_process
from tests.models import card, family


@pytest.fixture
def room(tmp_path, monkeypatch):
    """What the runner gives to every step, and a place to look at what comes back."""
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path))
    for name in ("OUTPUT", "STEP_SUMMARY"):
        monkeypatch.setenv(f"GITHUB_{name}", str(tmp_path / name))
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def step(room, monkeypatch, capsys):
    """Run a command of the action on these inputs: exit status, outputs, commands heard."""

    def run(command="check", **inputs):
        (room / "OUTPUT").write_text("")
        with monkeypatch.context() as patched:
            for name, value in inputs.items():
                patched.setenv(f"LINEAGE_{name.upper()}", str(value))
            code = action.main([command])
        return code, outputs((room / "OUTPUT").read_text("utf-8")), commands(capsys.readouterr().out)

    return run


REPOSITORY, FORK = {"id": 1}, {"id": 2}


def commit(folder, **files):
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8", newline="")
    committed(folder)
    return git(folder, "rev-parse", "HEAD")


def git(folder, *arguments):
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def started(room, name, sha, told=None, ref="refs/heads/main"):
    """The environment of a step whose workflow an event started; the repository has the number 1."""
    file = room / "event.json"
    file.write_text(json.dumps({} if told is None else told))
    return {
        "GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(file), "GITHUB_SHA": sha, "GITHUB_REF": ref,
        "GITHUB_REPOSITORY_ID": "1",
    }  # fmt: skip


def request(head, base=REPOSITORY, sha="0" * 40):
    return {"pull_request": {"head": {"repo": head, "sha": sha}, "base": {"repo": base}}}


OURS, THEIRS = "fail-on: undecided\n", "fail-on: never\n"
UNKNOWN = (
    *("branch_protection_rule", "check_run", "check_suite", "create", "delete", "deployment", "deployment_status"),
    *("discussion", "discussion_comment", "fork", "gollum", "image_version", "issue_comment", "issues", "label"),
    *("merge_group", "milestone", "page_build", "public", "pull_request_review", "pull_request_review_comment"),
    *("registry_package", "repository_dispatch", "status", "watch", "workflow_run"),
)
"""Every event that can start a workflow but those that the action knows."""


@pytest.fixture
def checkout(tmp_path):
    """A repository with a policy; `ours` is its last commit."""
    (folder := tmp_path / "checkout").mkdir()
    return folder


@pytest.fixture
def ours(checkout):
    return commit(checkout, lineage_yaml=OURS)


@pytest.fixture
def theirs(checkout, ours):
    """The commit of a pull request, which is checked out."""
    return commit(checkout, lineage_yaml=THEIRS)


def counts(folder, environ):
    return read_inputs({"LINEAGE_LOCAL_PATH": str(folder)} | environ).policy == "own"


class TestOwnCommits:
    def test_a_branch_a_tag_a_release_and_a_pull_request_from_a_branch_have_its_policy(self, checkout, ours, tmp_path):
        for name, ref in (("push", "heads/main"), ("release", "tags/v1"), ("workflow_dispatch", "heads/other")):
            assert counts(checkout, started(tmp_path, name, ours, ref=f"refs/{ref}")), name
        for name in ("pull_request", "pull_request_target"):  # as merged and as proposed
            for sha, proposed in ((ours, "0" * 40), ("f" * 40, ours)):
                told = request(REPOSITORY, sha=proposed)
                assert counts(checkout, started(tmp_path, name, sha, told, "refs/pull/1/merge")), name

    def test_so_have_committed_folders_line_ends_of_windows_worktrees_and_sha256(self, checkout, tmp_path):
        (checkout / "models/one").mkdir(parents=True)
        (checkout / "models/one/lineage.yaml").write_text(OURS)
        sha = commit(checkout, lineage_yaml=OURS)
        git(checkout, "worktree", "add", "-q", str(tmp_path / "beside"), sha)
        (checkout / "model.gguf").touch()
        (checkout / "lineage.yaml").write_bytes(OURS.replace("\n", "\r\n").encode())
        environ = started(tmp_path, "push", sha)
        places = [checkout, checkout / "models/one", checkout / "model.gguf", tmp_path / "beside"]
        assert [counts(place, environ) for place in places] == [True] * 4
        (other := tmp_path / "other").mkdir()
        git(other, "init", "-q", "--object-format=sha256")
        assert counts(other, started(tmp_path, "push", commit(other, lineage_yaml=OURS)))


class TestForks:
    def test_an_event_that_does_not_say_whose_commit_it_is_has_no_policy(self, checkout, theirs, tmp_path):
        """GitHub says `refs/heads/main` of most of them, whatever is checked out; nor does it help to ask by name."""
        given = {"LINEAGE_LOCAL_PATH": str(checkout), "LINEAGE_POLICY": "own"}
        for name, policy in (("issue_comment", ""), ("push", "own")):
            assert read_inputs(given | started(tmp_path, name, theirs)).policy == policy
        run = {"workflow_run": {"head_repository": REPOSITORY, "repository": REPOSITORY, "head_sha": theirs}}
        for name in (*UNKNOWN, "an event of next year", ""):
            for told in (None, request(REPOSITORY, sha=theirs), run):
                assert not counts(checkout, started(tmp_path, name, theirs, told)), name

    def test_another_commit_a_branch_of_github_and_another_side_have_none(self, checkout, ours, theirs, tmp_path):
        for name in ("push", "release", "schedule", "workflow_dispatch"):  # of ours, where theirs is checked out
            assert not counts(checkout, started(tmp_path, name, ours)), name
        for ref in ("refs/heads/gh-readonly-queue/main/pr-1-abc", "refs/pull/1/merge", ""):
            assert not counts(checkout, started(tmp_path, "push", theirs, ref=ref)), ref
        nobody = {"id": None}
        sides = ((FORK, REPOSITORY), (None, REPOSITORY), (REPOSITORY, FORK), (FORK, FORK), (nobody, nobody))
        requests = [request(head, base=base) for head, base in sides]
        for told in (*requests, {"pull_request": None}, {"pull_request": {}}, {}, [], None, "x"):
            assert not counts(checkout, started(tmp_path, "pull_request", theirs, told)), told
        commit(checkout, lineage_yaml=OURS)
        assert not counts(checkout, started(tmp_path, "workflow_dispatch", ours)), "of another commit with our policy"

    def test_what_the_runner_does_not_say_and_what_cannot_be_read_is_unknown(self, checkout, ours, tmp_path):
        environ = started(tmp_path, "push", ours)
        assert counts(checkout, environ)
        for variable in ("GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH", "GITHUB_SHA", "GITHUB_REF"):
            assert not counts(checkout, {key: value for key, value in environ.items() if key != variable}), variable
            assert not counts(checkout, environ | {variable: ""}), variable
        for content in (b"", b"{", b"[" * 100_000, b"\xff"):
            (tmp_path / "event.json").write_bytes(content)
            assert not counts(checkout, environ), content[:9]


class TestWhatIsCheckedOut:
    def test_a_policy_that_no_commit_of_ours_has_does_not_count(self, checkout, ours, tmp_path):
        """As where a step has put the files of a model of the Hub, or of a proposal, over or into the checkout."""
        shutil.copytree(checkout, checkout / "proposed")
        commit(checkout / "proposed", lineage_yaml=THEIRS)
        (tmp_path / "lineage.yaml").write_text(OURS)
        (checkout / "model").mkdir()
        for folder in (checkout, checkout / "model"):
            (folder / "lineage.yaml").write_text(THEIRS)
        for folder in (checkout / "proposed", tmp_path, checkout, checkout / "model"):
            assert not counts(folder, started(tmp_path, "push", ours)), folder

    def test_the_policy_that_would_be_read_is_the_one_that_has_to_be_ours(self, checkout, tmp_path, monkeypatch):
        """A path is one, whatever a local hub holds under the same name: the workflow has downloaded models into it."""
        for folder, policy in (("org/model", OURS), ("hub/org/model", THEIRS)):
            (checkout / folder).mkdir(parents=True)
            (checkout / folder / "lineage.yaml").write_text(policy)
        (checkout / ".gitignore").write_text("hub\n")
        environ = started(tmp_path, "push", commit(checkout))
        monkeypatch.chdir(checkout)
        assert counts("org/model", environ)
        assert counts("org/model", environ | {"LINEAGE_LOCAL_HUB": "hub"})
        assert not counts("hub/org/model", environ | {"LINEAGE_LOCAL_HUB": "hub"})

    def test_a_folder_of_a_proposal_that_git_would_take_for_a_repository_is_none(self, checkout, ours, tmp_path):
        """Nothing keeps a commit from holding `HEAD`, `config`, `objects` and `refs`; ours is the one in its HEAD."""
        model = checkout / "model"
        shutil.copytree(checkout / ".git", model)
        (model / "lineage.yaml").write_text(OURS)
        git(model, "config", "core.bare", "false")
        git(model, "config", "core.worktree", ".")
        git(checkout, "add", "-f", "model")
        git(checkout, "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "-m", "x")
        assert git(model, "rev-parse", "HEAD") == ours, "git by itself follows it"
        assert not counts(model, started(tmp_path, "workflow_dispatch", ours))

    @pytest.fixture
    def trap(self, checkout, ours, tmp_path):
        """A program of the checkout that is called git, and leaves a mark where it is run."""
        for name in ("git", "git.exe", "git.bat"):
            (checkout / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
            (checkout / name).chmod(0o755)
        return tmp_path / "ran"

    def test_a_program_that_is_called_git_is_not_run_and_odd_folders_are_unknown(
        self, checkout, ours, trap, tmp_path, monkeypatch
    ):
        monkeypatch.chdir(checkout)
        with monkeypatch.context() as patched:
            patched.setenv("PATH", os.pathsep.join(["", ".", os.environ["PATH"]]))
            assert counts(checkout, started(tmp_path, "push", ours))
        assert not trap.exists()
        for folder in ("--help", "a\0b", "x" * 5000, "nowhere/at/all"):
            assert not counts(folder, started(tmp_path, "push", ours)), folder
        monkeypatch.setenv("PATH", str(tmp_path))
        assert not counts(checkout, started(tmp_path, "push", ours)), "without git nothing is known"

    def test_nor_is_what_is_to_fetch_an_object_that_is_missing(self, checkout, ours, trap, tmp_path):
        """The folder of git is no more trusted than the rest: an archive may have brought it."""
        for key, value in {
            "core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "protocol.ext.allow": "always",
            "remote.origin.promisor": "true", "remote.origin.url": f"ext::{checkout}/git",
        }.items():  # fmt: skip
            git(checkout, "config", key, value)
        shutil.rmtree(checkout / ".git/objects")
        (checkout / ".git/objects").mkdir()
        assert not counts(checkout, started(tmp_path, "push", ours))
        assert not trap.exists()
        subprocess.run(["git", "rev-parse", "HEAD:lineage.yaml"], cwd=checkout, capture_output=True, check=False)
        assert trap.exists(), "by itself, git runs it"


@pytest.mark.parametrize(("environ", "message"), [
    ({}, "give either the input model or the input local-path"),
    ({"MODEL": "a/b", "LOCAL_PATH": "."}, "give either the input model or the input local-path"),
    ({"LOCAL_PATH": ".", "REVISION": "v1"}, "the input revision is for the input model; a folder has no revisions"),
    ({"MODEL": "a/b", "FORMATS": "json, xml"}, "the input formats must be one of text, json, .*, not xml"),
    ({"MODEL": "a/b", "FAIL_ON": "related"}, "fail-on must be one of unrelated, undeclared-parent, .*, not related"),
    ({"MODEL": "a/b", "ANNOTATE": "yes"}, "annotate must be one of never, write, pull-request, not yes"),
    ({"MODEL": "a/b", "RUN": "true"}, "the input run must be one of yes, no, not true"),
    ({"MODEL": "a/b", "OPTIONS": "--policy x"}, "--policy is an input of its own; leave it out of the input opt"),
    ({"MODEL": "a/b", "OPTIONS": "-o=x"}, "-o=x is an input of its own"),
    ({"MODEL": "a/b", "OPTIONS": "'"}, "the input options cannot be split into words: No closing quotation"),
    ({"MODEL": "./a/b"}, r"the input model must be a Hub name such as org/model, not \./a/b; see local-path"),
    ({"MODEL": "a/b", "VERSION": "9.9.9"}, f"this is hf-lineage {__version__}, not 9.9.9"),
])  # fmt: skip
def test_a_wrong_one_is_refused_by_name(environ, message):
    with pytest.raises(OptionError, match=message):
        read_inputs({f"LINEAGE_{name}": value for name, value in environ.items()})


def test_they_mean_what_action_yml_says_and_each_reaches_the_check():
    inputs = read_inputs(
        {
            "LINEAGE_MODEL": "org/model", "LINEAGE_REVISION": "v1", "LINEAGE_BASE": "a/b, c/d\ne/f a/b",
            "LINEAGE_FORMATS": "json,sarif html\n", "LINEAGE_OPTIONS": "--accept part\n--strict",
            "LINEAGE_FAIL_ON": "undecided", "LINEAGE_TOKEN": "hf_x", "LINEAGE_VERSION": f"v{__version__}",
            "LINEAGE_RUN": "yes", "RUNNER_TEMP": "/temp",
        }
    )  # fmt: skip
    assert (inputs.model, inputs.bases) == ("org/model@v1", ("a/b", "c/d", "e/f"))
    assert (inputs.formats, inputs.options) == (("json", "sarif", "html"), ("--accept", "part", "--strict"))
    assert (inputs.fail_on, inputs.card, inputs.token, inputs.run) == ("undecided", "never", "hf_x", True)
    (check,) = (step for step in action_yml()["runs"]["steps"] if step.get("id") == "check")
    assert (len(action_yml()["inputs"]), len(action_yml()["outputs"])) == (12, 6)
    given = {value for name, value in check["env"].items() if name.startswith("LINEAGE_")}
    assert given == {f"${{{{ inputs.{name} }}}}" for name in action_yml()["inputs"]}
    for named, model in (("LOCAL_PATH", "./org/model"), ("MODEL", "org/model")):
        for asked, policy in (
            ("", ""),
            ("none", ""),
            ("ours.yaml", "ours.yaml"),
        ):  # none of the folder without an event
            inputs = read_inputs({f"LINEAGE_{named}": "org/model", "LINEAGE_POLICY": asked})
            assert (inputs.model, inputs.policy) == (model, policy)
            assert action.arguments(inputs, [])[1:-2] == ([f"--policy={policy}"] if policy else [])


HUB = ROOT / "examples" / "hub"


def test_a_folder_that_is_called_like_a_base_or_the_model_is_neither(tmp_path, monkeypatch, step):
    """The folders of a checkout bear the names that its author gave them."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    family(tmp_path / "checkout")  # a model that declares its base, which lies beside it under its name on the Hub
    monkeypatch.chdir(tmp_path / "checkout")
    assert step("key", model="fern/child") == (0, {}, []), "none is asked for when signatures are looked for"
    assert step(local_path="fern/child")[1]["verdict"] == "UNDECIDED"
    code, outputs, _ = step(local_path="fern/child", base="acme/base", fail_on="never")
    assert (code, outputs["verdict"]) == (2, "ERROR")
    assert step(local_path="fern/child", base="./acme/base")[1]["verdict"] == "VERIFIED"
    for annotate in ("never", "write"):
        code, outputs, heard = step(model="fern/child", base="./acme/base", annotate=annotate)
        assert (code, outputs["verdict"]) == (2, "ERROR")
        assert heard[0][2].startswith("fern/child may be a name on the Hub, and there is a folder ./fern/child here")


@pytest.mark.parametrize(("patch", "message"), [
    ("sys.modules['msgspec'] = None", "a package that is needed cannot be imported (import of msgspec halted; "),
    ("import hf_lineage.action as s\ndef broken(environ): raise MemoryError\ns.run_check = broken",
     "not enough memory"),
])  # fmt: skip
def test_what_keeps_a_step_from_beginning_is_an_error_like_any_other(room, patch, message):
    script = f"import sys\n{patch}\nfrom hf_lineage.action import main\nsys.exit(main(['check']))"
    done = run_process([sys.executable, "-c", script], env=environment(GITHUB_OUTPUT=str(room / "OUTPUT")))
    assert (done.code, "Traceback" in done.err) == (2, True)
    assert outputs((room / "OUTPUT").read_text("utf-8")) == {"verdict": "ERROR"}
    ((level, _, annotation),) = commands(done.out)
    assert (level, annotation.startswith(message)) == ("error", True)


def test_what_the_command_does_not_take_is_one_error_of_the_step(step):
    for options, message in (
        ("--accept unmeasured", "'unmeasured' is not one of 'part', 'embedding', 'calibrated', 'weak'"),
        ("--budget 'no\n::error::x'", "is not one of 'quick', 'full'"),
        ("--alpha", "Invalid value for '--alpha'"),
        ("--help", "the input options make no report; leave --help and --verify out"),
    ):
        code, outputs, ((level, _, annotation),) = step(model="a/b", options=options)
        assert (code, outputs["verdict"], level, message in annotation) == (2, "ERROR", "error", True)


def test_every_input_is_an_option_of_the_command_and_none_is_taken_for_another():
    options = {"LOCAL_PATH": ".", "BASE": "c/d ./e", "OPTIONS": "--accept part --local-hub 'my hub'", "RUN": "yes"}
    words = ["check", "--base=c/d", "--base=./e", "--run"]
    for environ, command in (
        ({"LOCAL_PATH": "--help"}, ["check", "--", "./--help"]),
        ({"MODEL": "a/b", "REVISION": "v1"}, ["check", "--", "a/b@v1"]),
        (options, [*words, "--accept", "part", "--local-hub", "my hub", "--", "."]),
        ({"MODEL": "a/b", "ANNOTATE": "pull-request"}, ["annotate", "--pull-request", "--", "a/b"]),
    ):
        given = {f"LINEAGE_{name}": value for name, value in environ.items()} | {"LINEAGE_TOKEN": "hf_secret"}
        assert action.arguments(read_inputs(given), []) == command
        assert "hf_secret" not in " ".join(action.arguments(read_inputs(given), [("json", Path("x"))]))


ACCEPTED = "accepted: [{base: acme/llama-base, code: unrelated, reason: tested, expires: 2999-01-01}]"


@pytest.mark.parametrize(("event", "code"), [("push", 0), ("issue_comment", 1), ("check_run", 1), ("merge_group", 1)])
def test_the_policy_of_a_folder_accepts_only_where_the_repository_has_it(step, tmp_path, monkeypatch, event, code):
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


def test_where_there_is_no_model_or_no_claim_there_is_no_verdict(step, tmp_path):
    (tmp_path / "data").mkdir()
    card(tmp_path / "data", "acme/llama-base")
    for fail_on, expected in (("undecided", (2, "ERROR", "error")), ("never", (0, "UNDECIDED", "warning"))):
        code, outputs, heard = step(local_path=str(tmp_path / "data"), fail_on=fail_on, formats="")
        assert (code, outputs["verdict"], heard[0][0]) == expected
    code, outputs, ((level, _, message),) = step(model="acme/llama-base", options=f"--local-hub {HUB}")
    assert (code, outputs["verdict"], outputs["score"], outputs["p-value"]) == (0, "UNDECIDED", "", "")
    assert (level, message.startswith("Nothing is declared")) == ("warning", True)


def test_the_key_names_the_commits_and_a_second_check_of_them_moves_no_weights(room, online, step):
    def keys(model):
        return step("key", model=model)[1]

    online.publish("fern/llama-finetune-b", HUB / "fern/llama-finetune-b")
    one, other = keys("fern/llama-finetune-a"), keys("fern/llama-finetune-b")
    assert one["restore-keys"] == other["restore-keys"]  # the base is the same
    assert one["key"] != other["key"]
    assert one["key"].startswith(one["restore-keys"])
    assert one["restore-keys"].startswith(f"hf-lineage-{__version__}-")
    first = step(model="fern/llama-finetune-a")
    shutil.rmtree(room / "cache")
    online.forget()
    second = step(model="fern/llama-finetune-a")
    assert (second[0], second[1]["score"], online.moved()) == (first[0], first[1]["score"], 0)
    assert len(list((room / "hf-lineage-signatures").rglob("*.safetensors"))) == 4
    online.publish("acme/llama-base", HUB / "fern/llama-finetune-b")
    assert keys("fern/llama-finetune-a")["restore-keys"] != one["restore-keys"]
    assert step("key", model="no such model") == (0, {}, []), "what goes wrong is left to the check"


@pytest.mark.parametrize("in_the_way", [False, True])
def test_the_folder_is_annotated_with_what_is_put_out_and_an_error_leaves_reports(room, step, in_the_way):
    model = room / "model"
    shutil.copytree(HUB / "fern/llama-finetune-a", model)
    if in_the_way:
        (model / "lineage").write_text("in the way")
    code, outputs, _ = step(local_path=model, options=f"--local-hub {HUB}", annotate="write")
    assert (code, outputs["verdict"]) == ((2, "ERROR") if in_the_way else (0, "VERIFIED"))
    assert (outputs["score"], Path(outputs["report-path"]).is_dir()) == ("0.9935", True)
    assert in_the_way or json.loads((model / "lineage/claims.json").read_text())["claims"][0]["verified"]


def test_outputs_stand_between_marks_of_their_own_and_a_summary_ends_with_a_line(tmp_path):
    environ = {"GITHUB_OUTPUT": str(tmp_path / "out")}
    for value in ("x", "x\nb<<EOF\ny"):
        action.set_outputs(environ, {"a": value, "b": ""})
    text = (tmp_path / "out").read_text()
    marks = [line.partition("<<")[2] for line in text.splitlines() if "<<" in line and len(line) > 30]
    assert len(set(marks)) == len(marks) == 4
    assert outputs(text) == {"a": "x b<<EOF y", "b": ""}
    action.add_summary({"GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}, "| é |\n" * 200_000)
    content = (tmp_path / "summary").read_bytes()
    assert 2**20 - 2**11 < len(content) < 2**20
    beginning, _, rest = content.decode().rpartition("| é |\n")
    assert (set(beginning.splitlines()), "The rest is left out" in rest) == ({"| é |"}, True)


def test_what_is_printed_while_nobody_listens_is_no_command_and_an_error_ends_that(capsys):
    def owned():
        print("::error::owned")
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"), action.without_commands():
        owned()
    print(action.command("warning", "heard", title="T"))
    assert commands(capsys.readouterr().out) == [("warning", "title=T", "heard")]
    line = action.command("error", "50%\r\n::error::x", title="a: b,\nc")
    assert line == "::error title=a%3A b%2C%0Ac::50%25%0D%0A::error::x"
