"""Completion, asked for in real shells: what a person is offered who presses the tab key.

`doctor`: a line for each thing, an exit code that a script can read, and JSON.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest

from hf_lineage.cli import cli
from hf_lineage.cli.completing import SHELLS
from tests.invoking import Outcome, environment, lineage, process
from tests.server.client import connect_to_nothing

ASKED = {
    "bash": """
        eval "$(hf-lineage completion bash)"
        COMP_WORDS=({words}) COMP_CWORD={last} COMPREPLY=()
        compopt() {{ echo "offered as files"; }}
        _hf_lineage_completion hf-lineage
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """,
    "zsh": """
        autoload -Uz compinit && compinit -D
        eval "$(hf-lineage completion zsh)"
        words=({words}) CURRENT={next}
        _describe() {{ print -rl -- $completions_with_descriptions }}
        compadd() {{ print -rl -- $completions }}
        _path_files() {{ print "offered as files" }}
        _hf_lineage_completion
    """,
    "fish": "hf-lineage completion fish | source; complete --do-complete {line}",
}
"""What a script does with the words of a line, the last of which is not finished."""


@pytest.fixture(params=SHELLS)
def shell(request):
    if sys.platform == "win32":
        pytest.skip("its shells are others")
    if shutil.which(request.param) is None:
        (pytest.fail if request.param == "bash" and sys.platform == "linux" else pytest.skip)("it is not installed")
    return request.param


@pytest.fixture
def ask(shell, tmp_path):
    """Ask a shell what it offers behind a line."""
    program = tmp_path / "bin" / "hf-lineage"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hf_lineage.cli "$@"\n')
    program.chmod(0o755)
    (tmp_path / "model.gguf").touch()

    def offered(line):
        words = line.split(" ")
        script = ASKED[shell].format(
            words=" ".join(word or "''" for word in words), last=len(words) - 1, next=len(words), line=shlex.quote(line)
        )
        env = environment(PATH=f"{program.parent}{os.pathsep}{os.environ['PATH']}", HOME=str(tmp_path))
        done = subprocess.run([shell, "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.stderr == ""
        return [offer.partition("\t")[0].partition(":")[0] for offer in done.stdout.split("\n") if offer]

    return offered


def test_a_shell_completes_commands_options_and_values(ask):
    assert ask("hf-lineage com") == ["compare", "completion"]
    assert ask("hf-lineage check --form") == ["--format"]
    assert ask("hf-lineage watch org --format s") == ["slack"]


def test_where_a_model_is_named_files_are_offered(ask, shell):
    files = ["model.gguf"] if shell == "fish" else ["offered as files"]
    assert ask("hf-lineage check model") == files


def test_the_script_of_each_shell_asks_the_program_itself():
    for shell in SHELLS:
        outcome = lineage("completion", shell)
        assert (outcome.code, outcome.err) == (0, "")
        assert f"_HF_LINEAGE_COMPLETE={shell}_complete" in outcome.out


def test_another_shell_is_refused_in_one_line():
    assert "'nose' is not one of 'bash', 'zsh', 'fish'" in lineage("completion", "nose").error


def test_wherever_a_model_is_named_files_are_offered():
    named = {
        (command, parameter.name): parameter.type.name
        for command in ("check", "compare", "annotate", "extract", "inspect", "identify", "tree")
        for parameter in cli.commands[command].params
        if parameter.param_type_name == "argument"
    }
    assert len(named) == 8
    context = cli.make_context("hf-lineage", ["check"], resilient_parsing=True)
    for command, name in named:
        parameter = next(each for each in cli.commands[command].params if each.name == name)
        assert [item.type for item in parameter.shell_complete(context, "x")] == ["file"], command


def test_asking_for_completions_is_no_error():
    asked = environment(_HF_LINEAGE_COMPLETE="bash_complete", COMP_WORDS="hf-lineage che", COMP_CWORD="1")
    assert process(env=asked) == Outcome(0, "plain,check\n", "")


def test_where_nothing_is_wrong_the_exit_code_is_0_and_every_line_fits_80_columns(online):
    found = lineage("doctor")
    assert (found.code, found.err) == (0, "")
    assert max(map(len, found.out.splitlines())) <= 80
    heads = [line.split()[:2] for line in found.out.splitlines() if not line.startswith(" ")]
    assert (heads[0], heads[-1]) == (["ok", "versions"], ["absent", "account"])


def test_a_hub_out_of_reach_is_exit_code_2_and_is_said_with_all_that_is_there(tmp_path, monkeypatch):
    connect_to_nothing(tmp_path, monkeypatch)
    found = lineage("doctor", "--format", "json")
    findings = json.loads(found.out)
    assert found.code == 2
    assert [finding["about"] for finding in findings if finding["state"] == "wrong"] == ["Hub"]
    assert findings[-1]["sentence"].endswith("check the connection and try again")
    assert {"about", "state", "sentence"} == set(findings[0])
