"""The inputs of the action: what each may be, and what it means to the check.

Whose lineage.yaml counts in the action: real checkouts by git, under the events that GitHub has.
"""

import os
import shutil
import subprocess

import pytest

from hf_lineage import __version__
from hf_lineage.action import arguments
from hf_lineage.cli.action_inputs import read_inputs
from hf_lineage.errors import OptionError
from tests.action.conftest import FORK, REPOSITORY, commit, git, request, started
from tests.github import action as action_yml

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
    folder = tmp_path / "checkout"
    folder.mkdir()
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
    def test_a_branch_or_a_tag_of_the_repository_has_its_policy(self, checkout, ours, tmp_path):
        for name, ref in (("push", "heads/main"), ("release", "tags/v1"), ("workflow_dispatch", "heads/other")):
            assert counts(checkout, started(tmp_path, name, ours, ref=f"refs/{ref}")), name

    @pytest.mark.parametrize("name", ["pull_request", "pull_request_target"])
    def test_so_has_a_pull_request_from_a_branch_as_merged_and_as_proposed(self, checkout, ours, tmp_path, name):
        assert counts(checkout, started(tmp_path, name, ours, request(REPOSITORY), "refs/pull/1/merge"))
        assert counts(checkout, started(tmp_path, name, "f" * 40, request(REPOSITORY, sha=ours), "refs/pull/1/merge"))

    def test_so_has_whatever_is_committed_and_what_differs_by_line_ends_of_windows(self, checkout, tmp_path):
        (checkout / "models/one").mkdir(parents=True)
        (checkout / "models/one/lineage.yaml").write_text(OURS)
        environ = started(tmp_path, "push", commit(checkout, lineage_yaml=OURS))
        (checkout / "model.gguf").touch()
        (checkout / "lineage.yaml").write_bytes(OURS.replace("\n", "\r\n").encode())
        assert [counts(checkout / place, environ) for place in ("models/one", "model.gguf", "")] == [True] * 3

    def test_so_has_a_worktree_and_a_repository_of_sha256(self, checkout, ours, tmp_path):
        git(checkout, "worktree", "add", "-q", str(tmp_path / "beside"), ours)
        assert counts(tmp_path / "beside", started(tmp_path, "push", ours))
        (other := tmp_path / "other").mkdir()
        git(other, "init", "-q", "--object-format=sha256")
        assert counts(other, started(tmp_path, "push", commit(other, lineage_yaml=OURS)))


class TestForks:
    def test_an_event_that_does_not_say_whose_commit_it_is_has_no_policy(self, checkout, theirs, tmp_path):
        """GitHub says `refs/heads/main` of most of them, whatever the workflow has checked out."""
        run = {"workflow_run": {"head_repository": REPOSITORY, "repository": REPOSITORY, "head_sha": theirs}}
        for name in (*UNKNOWN, "an event of next year", ""):
            for told in (None, request(REPOSITORY, sha=theirs), run):
                assert not counts(checkout, started(tmp_path, name, theirs, told)), name

    def test_who_checks_out_a_proposal_by_another_event_has_none(self, checkout, ours, theirs, tmp_path):
        for name in ("push", "release", "schedule", "workflow_dispatch"):
            assert not counts(checkout, started(tmp_path, name, ours)), name

    def test_nor_has_one_with_the_policy_that_we_have(self, checkout, ours, tmp_path):
        commit(checkout, config_json="{}")
        assert not counts(checkout, started(tmp_path, "workflow_dispatch", ours))

    def test_a_branch_that_github_makes_of_a_pull_request_has_none(self, checkout, theirs, tmp_path):
        for ref in ("refs/heads/gh-readonly-queue/main/pr-1-abc", "refs/pull/1/merge", ""):
            assert not counts(checkout, started(tmp_path, "push", theirs, ref=ref)), ref

    def test_a_pull_request_of_which_the_event_tells_another_side_or_none_has_none(self, checkout, theirs, tmp_path):
        nobody = {"id": None}
        sides = ((FORK, REPOSITORY), (None, REPOSITORY), (REPOSITORY, FORK), (FORK, FORK), (nobody, nobody))
        requests = [request(head, base=base) for head, base in sides]
        for told in (*requests, {"pull_request": None}, {"pull_request": {}}, {}, [], None, "x"):
            assert not counts(checkout, started(tmp_path, "pull_request", theirs, told)), told

    def test_what_the_runner_does_not_say_is_unknown(self, checkout, ours, tmp_path):
        environ = started(tmp_path, "push", ours)
        assert counts(checkout, environ)
        for name in ("EVENT_NAME", "EVENT_PATH", "SHA", "REF"):
            variable = f"GITHUB_{name}"
            assert not counts(checkout, {key: value for key, value in environ.items() if key != variable}), name
            assert not counts(checkout, environ | {variable: ""}), name

    def test_an_event_that_cannot_be_read_is_unknown(self, checkout, ours, tmp_path):
        environ = started(tmp_path, "push", ours)
        for content in (b"", b"{", b"[" * 100_000, b"\xff"):
            (tmp_path / "event.json").write_bytes(content)
            assert not counts(checkout, environ), content[:9]


class TestWhatIsCheckedOut:
    def test_a_policy_that_no_commit_has_does_not_count(self, checkout, ours, tmp_path):
        """As where a step has put the files of a model of the Hub, or of a proposal, over the checkout."""
        (checkout / "lineage.yaml").write_text(THEIRS)
        assert not counts(checkout, started(tmp_path, "push", ours))
        (checkout / "model").mkdir()
        (checkout / "model/lineage.yaml").write_text(THEIRS)
        assert not counts(checkout / "model", started(tmp_path, "push", ours))

    def test_a_proposal_in_the_checkout_and_a_folder_that_is_none_have_none(self, checkout, ours, tmp_path):
        shutil.copytree(checkout, checkout / "proposed")
        commit(checkout / "proposed", lineage_yaml=THEIRS)
        (tmp_path / "lineage.yaml").write_text(OURS)
        for folder in (checkout / "proposed", tmp_path):
            assert not counts(folder, started(tmp_path, "push", ours))

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

    def test_a_program_of_the_checkout_that_is_called_git_is_not_run(self, checkout, ours, trap, tmp_path, monkeypatch):
        monkeypatch.chdir(checkout)
        monkeypatch.setenv("PATH", os.pathsep.join(["", ".", os.environ["PATH"]]))
        assert counts(checkout, started(tmp_path, "push", ours))
        assert not trap.exists()

    @pytest.mark.skipif(os.name == "nt", reason="the program is a script of a shell")
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

    def test_without_git_nothing_is_known(self, checkout, ours, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path))
        assert not counts(checkout, started(tmp_path, "push", ours))

    def test_an_odd_folder_has_none(self, tmp_path, ours, checkout, monkeypatch):
        monkeypatch.chdir(checkout)
        for folder in ("--help", "a\0b", "x" * 5000, "nowhere/at/all"):
            assert not counts(folder, started(tmp_path, "push", ours)), folder


def test_asking_for_the_policy_of_the_folder_by_name_is_no_way_around(checkout, theirs, tmp_path):
    given = {"LINEAGE_LOCAL_PATH": str(checkout), "LINEAGE_POLICY": "own"}
    assert read_inputs(given | started(tmp_path, "issue_comment", theirs)).policy == ""
    assert read_inputs(given | started(tmp_path, "push", theirs)).policy == "own"


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "give either the input model or the input local-path"),
        ({"MODEL": "a/b", "LOCAL_PATH": "."}, "give either the input model or the input local-path"),
        ({"LOCAL_PATH": ".", "REVISION": "v1"}, "the input revision is for the input model; a folder has no revisions"),
        ({"MODEL": "a/b", "FORMATS": "json, xml"}, "the input formats must be one of text, json, .*, not xml"),
        (
            {"MODEL": "a/b", "FAIL_ON": "related"},
            "fail-on must be one of unrelated, undeclared-parent, undecided, never, not related",
        ),
        ({"MODEL": "a/b", "ANNOTATE": "yes"}, "annotate must be one of never, write, pull-request, not yes"),
        ({"MODEL": "a/b", "RUN": "true"}, "the input run must be one of yes, no, not true"),
        ({"MODEL": "a/b", "RUN": "1"}, "the input run must be one of yes, no, not 1"),
        (
            {"MODEL": "a/b", "OPTIONS": "--policy x"},
            "--policy is an input of its own; leave it out of the input options",
        ),
        ({"MODEL": "a/b", "OPTIONS": "-o=x"}, "-o=x is an input of its own"),
        ({"MODEL": "a/b", "OPTIONS": "'"}, "the input options cannot be split into words: No closing quotation"),
        ({"MODEL": "./a/b"}, r"the input model must be a Hub name such as org/model, not \./a/b; see local-path"),
        ({"MODEL": "a/b", "VERSION": "9.9.9"}, f"this is hf-lineage {__version__}, not 9.9.9"),
    ],
)
def test_a_wrong_one_is_refused_by_name(environ, message):
    with pytest.raises(OptionError, match=message):
        read_inputs({f"LINEAGE_{name}": value for name, value in environ.items()})


def test_they_mean_what_action_yml_says():
    inputs = read_inputs(
        {
            "LINEAGE_MODEL": "org/model", "LINEAGE_REVISION": "v1", "LINEAGE_BASE": "a/b, c/d\ne/f a/b",
            "LINEAGE_FORMATS": "json,sarif html\n", "LINEAGE_OPTIONS": "--accept part\n--strict",
            "LINEAGE_FAIL_ON": "undecided", "LINEAGE_TOKEN": "hf_x",
            "LINEAGE_VERSION": f"v{__version__}", "LINEAGE_RUN": "yes",
            "RUNNER_TEMP": "/temp",
        }
    )  # fmt: skip
    assert (inputs.model, inputs.bases) == ("org/model@v1", ("a/b", "c/d", "e/f"))
    assert (inputs.formats, inputs.options) == (("json", "sarif", "html"), ("--accept", "part", "--strict"))
    assert (inputs.fail_on, inputs.card, inputs.token, inputs.run) == ("undecided", "never", "hf_x", True)


def test_every_input_reaches_the_check_as_a_variable_of_its_own():
    (check,) = (step for step in action_yml()["runs"]["steps"] if step.get("id") == "check")
    assert (len(action_yml()["inputs"]), len(action_yml()["outputs"])) == (12, 6)
    given = {value for name, value in check["env"].items() if name.startswith("LINEAGE_")}
    assert given == {f"${{{{ inputs.{name} }}}}" for name in action_yml()["inputs"]}


@pytest.mark.parametrize(("asked", "policy"), [("", ""), ("none", ""), ("ours.yaml", "ours.yaml")])
@pytest.mark.parametrize(("named", "model"), [("LOCAL_PATH", "./org/model"), ("MODEL", "org/model")])
def test_model_and_policy_are_those_that_the_workflow_names_and_without_an_event_no_other(named, model, asked, policy):
    inputs = read_inputs({f"LINEAGE_{named}": "org/model", "LINEAGE_POLICY": asked})
    assert (inputs.model, inputs.policy) == (model, policy)
    options = [word for word in arguments(inputs, []) if word.startswith("--policy")]
    assert options == ([f"--policy={policy}"] if policy else [])
