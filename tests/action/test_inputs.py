"""The inputs of the action: what each may be, and what it means to the check."""

import pytest

from hf_lineage import __version__
from hf_lineage.action.inputs import read_inputs
from hf_lineage.action.steps import arguments
from hf_lineage.errors import OptionError
from tests.github import action as action_yml


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "give one of the inputs model and local-path"),
        ({"MODEL": "a/b", "LOCAL_PATH": "."}, "give one of the inputs model and local-path"),
        ({"LOCAL_PATH": ".", "REVISION": "v1"}, "the input revision is for the input model; a folder has no revisions"),
        ({"MODEL": "a/b", "FORMATS": "json, xml"}, "the input formats must be one of text, json, .*, not xml"),
        (
            {"MODEL": "a/b", "FAIL_ON": "related"},
            "fail-on must be one of unrelated, undeclared-parent, undecided, never, not related",
        ),
        (
            {"MODEL": "a/b", "ANNOTATE": "yes"},
            "annotate must be one of never, write, pull-request, not yes",
        ),
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
            "LINEAGE_FORMATS": "json,sarif junit\n", "LINEAGE_ACCEPT": "part, basis, weak",
            "LINEAGE_FAIL_ON": "undecided", "LINEAGE_TOKEN": "hf_x", "LINEAGE_SET": "alpha=0.001 seed=3",
            "LINEAGE_VERSION": f"v{__version__}", "LINEAGE_LOCAL_HUB": "hub", "RUNNER_TEMP": "/temp",
        }
    )  # fmt: skip
    assert (inputs.model, inputs.bases, list(inputs.formats)) == (
        "org/model@v1", ("a/b", "c/d", "e/f"), ["json", "sarif", "junit"],
    )  # fmt: skip
    assert inputs.fail_on == "undecided"
    assert (inputs.card, inputs.token, str(inputs.local_hub)) == ("never", "hf_x", "hub")
    assert inputs.options == (
        "--base=a/b", "--base=c/d", "--base=e/f",
        "--accept=part", "--accept=basis", "--accept=weak", "--set=alpha=0.001", "--set=seed=3", "--local-hub=hub",
    )  # fmt: skip


def test_the_defaults_are_those_of_the_command():
    inputs = read_inputs({"LINEAGE_LOCAL_PATH": "."})
    assert (inputs.model, inputs.bases, inputs.fail_on) == (".", (), "")
    assert inputs.options == ()


def test_every_input_reaches_the_check_as_a_variable_of_its_own():
    (check,) = (step for step in action_yml()["runs"]["steps"] if step.get("id") == "check")
    given = {value for name, value in check["env"].items() if name.startswith("LINEAGE_")}
    assert given == {f"${{{{ inputs.{name} }}}}" for name in action_yml()["inputs"]}


def test_an_input_that_is_empty_is_as_one_that_is_left_out():
    names = (
        "REVISION",
        "BASE",
        "FORMATS",
        "FAIL_ON",
        "ANNOTATE",
        "TOKEN",
        "VERSION",
        "LOCAL_HUB",
        "ACCEPT",
        "SET",
        "BUDGET",
        "POLICY",
    )
    empty = read_inputs({"LINEAGE_MODEL": " org/model\n"} | {f"LINEAGE_{name}": "  " for name in names})
    assert empty == read_inputs({"LINEAGE_MODEL": "org/model"})


def test_a_model_is_one_of_the_hub_only_where_it_is_named_as_one():
    assert read_inputs({"LINEAGE_MODEL": "org/model"}).on_hub
    local = read_inputs({"LINEAGE_LOCAL_PATH": "org/model"})
    assert (local.on_hub, local.model) == (False, "./org/model")


def test_a_verdict_that_never_fails_is_an_input_too():
    assert read_inputs({"LINEAGE_LOCAL_PATH": ".", "LINEAGE_FAIL_ON": "never"}).fail_on == "never"


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ({"LOCAL_PATH": "."}, ""),
        ({"LOCAL_PATH": ".", "POLICY": "none"}, ""),
        ({"LOCAL_PATH": ".", "POLICY": "ours.yaml"}, "ours.yaml"),
        ({"MODEL": "org/model"}, ""),
        ({"MODEL": "org/model", "POLICY": "ours.yaml"}, "ours.yaml"),
    ],
)
def test_the_policy_is_the_one_that_the_workflow_names_and_without_an_event_no_other(given, policy):
    inputs = read_inputs({f"LINEAGE_{name}": value for name, value in given.items()})
    assert inputs.policy == policy
    options = [word for word in arguments(inputs, []) if word.startswith("--policy")]
    assert options == ([f"--policy={policy}"] if policy else [])


def test_signatures_are_cached_where_the_runner_keeps_what_is_temporary(tmp_path):
    inputs = read_inputs({"LINEAGE_LOCAL_PATH": ".", "RUNNER_TEMP": str(tmp_path)})
    assert inputs.cache == tmp_path / "hf-lineage-signatures"


def test_variables_of_others_are_no_inputs():
    assert read_inputs({"LINEAGE_LOCAL_PATH": ".", "BASE": "a/b", "INPUT_BASE": "a/b"}).bases == ()
