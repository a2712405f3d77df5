"""Streams that are closed, and variables that mean nothing, change no verdict."""

import os
import subprocess

import pytest

from hf_lineage import LineageError, Options, __version__, check, compare, extract, inspect
from hf_lineage.cli import cli
from tests.github import ROOT
from tests.invoking import COMMAND, Outcome, environment, lineage, process, shell
from tests.models import tiny_llama

CLOSED = "hf-lineage: standard output is closed, so the result cannot be printed; leave it open, or name a file with -o"


def test_a_closed_stream_changes_no_verdict(hub):
    tiny_llama(hub / "acme/base", seed=1)
    arguments = ["check", hub / "fern/child", "--local-hub", hub, "--seed", "0"]
    assert shell('"$@" 2>&- <&-', *arguments) == Outcome(1, lineage(*arguments).out, "")


@pytest.mark.few(1)
@pytest.mark.parametrize(("redirected", "told"), [(">&- 2>&-", ""), (">&- <&-", f"{CLOSED}\n")])
def test_a_report_that_cannot_be_printed_is_an_error_and_no_verdict(hub, redirected, told):
    done = shell(f'"$@" {redirected}', "check", hub / "fern/child", "--local-hub", hub)
    assert done == Outcome(2, "", told)


@pytest.mark.long
def test_who_asked_for_no_report_needs_no_standard_output(hub):
    assert shell('"$@" >&-', "check", hub / "fern/child", "--local-hub", hub, "--quiet").code == 0


def test_what_is_printed_never_lands_in_a_file_that_took_the_number_of_a_closed_stream(hub, tmp_path):
    arguments = ["check", hub / "fern/child", "--local-hub", hub, "--seed", "0"]
    assert lineage(*arguments, "-o", tmp_path / "expected").code == 0
    assert shell('"$@" >&- 2>&- <&-', *arguments, "-o", tmp_path / "report").code == 0
    assert (tmp_path / "report").read_bytes() == (tmp_path / "expected").read_bytes()


WHOLE = "must be a whole number of seconds"
ADDRESS = "must be the address of a Hub such as https://huggingface.co"


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("SOURCE_DATE_EPOCH", "zzz", "SOURCE_DATE_EPOCH must be seconds since 1970, not zzz"),
        ("HF_HUB_DOWNLOAD_TIMEOUT", "zzz", f"HF_HUB_DOWNLOAD_TIMEOUT {WHOLE}, not 'zzz'"),
        ("HF_HUB_DOWNLOAD_TIMEOUT", "1.5", f"HF_HUB_DOWNLOAD_TIMEOUT {WHOLE}, not '1.5'"),
        ("HF_HUB_ETAG_TIMEOUT", "", f"HF_HUB_ETAG_TIMEOUT {WHOLE}, not ''"),
        ("HF_LINEAGE_CACHE", "~nouser/x", "~nouser/x names the home folder of a user who has none; set HF_LINEAGE_CACHE"
         " to a path"),
        ("HF_ENDPOINT", "bogus", f"HF_ENDPOINT {ADDRESS}, not 'bogus'"),
        ("HF_ENDPOINT", "https://me:secret@hub:99999", f"HF_ENDPOINT {ADDRESS}, not 'hub:99999'"),
        ("HF_ENDPOINT", "http://[1", f"HF_ENDPOINT {ADDRESS}, not 'http://[1'"),
    ],
)  # fmt: skip
def test_a_variable_that_means_nothing_is_one_line_that_names_it(hub, monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    assert lineage("check", hub / "fern/child", "--local-hub", hub).error == message


@pytest.mark.skipif(os.name == "nt", reason="it looks otherwise there")
def test_an_isolated_python_takes_no_notice_of_variables_that_would_end_it(hub):
    """Without -I they end Python before any line of hf-lineage runs, with the code that means UNRELATED."""
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from hf_lineage.cli import main; sys.exit(main())"
    arguments = ["check", str(hub / "fern/child"), "--local-hub", str(hub)]
    codes = [
        subprocess.run(
            [COMMAND[0], *flags, "-c", script, *arguments],
            env=environment(PYTHONHASHSEED="nonsense"), capture_output=True, timeout=60,
        ).returncode
        for flags in ([], ["-I"])
    ]  # fmt: skip
    assert codes == [1, 0]


TYPED = {
    "watch org": "No such command 'watch'. (--help shows the usage)",
    "registry qwen3": "qwen3 is not in the registry; did you mean Qwen3ForCausalLM?",
    "registry qwen3_moe": "qwen3_moe is not in the registry; did you mean Qwen3MoeForCausalLM?",
    "registry LlamaForCasualLM": "LlamaForCasualLM is not in the registry; did you mean LlamaForCausalLM?",
    "check FT --as qwen3": "--as qwen3 is not a class of the registry; did you mean Qwen3ForCausalLM?",
}
"""What was typed, and the line on standard error; the exit code is 2, and nothing is on standard output."""


@pytest.mark.parametrize("typed", TYPED)
def test_what_no_command_has_is_answered_by_what_to_write(typed):
    assert lineage(*typed.split()).error == TYPED[typed]


@pytest.mark.parametrize("typed", ["-v", "-V", "--version"])
def test_the_version_is_told_however_it_is_asked_for(typed):
    outcome = lineage(typed)
    assert (outcome.code, outcome.out, outcome.err) == (0, f"hf-lineage, version {__version__}\n", "")


def test_asking_for_completions_is_no_error():
    asked = environment(_HF_LINEAGE_COMPLETE="bash_complete", COMP_WORDS="hf-lineage che", COMP_CWORD="1")
    assert process(env=asked) == Outcome(0, "plain,check\n", "")


def test_wherever_a_model_is_named_files_are_offered():
    named = {
        (command, parameter.name)
        for command in ("check", "compare", "annotate", "extract", "inspect", "identify", "tree")
        for parameter in cli.commands[command].params
        if parameter.param_type_name == "argument"
    }
    assert len(named) == 8
    context = cli.make_context("hf-lineage", ["check"], resilient_parsing=True)
    for command, name in named:
        parameter = next(each for each in cli.commands[command].params if each.name == name)
        assert [item.type for item in parameter.shell_complete(context, "x")] == ["file"], command


@pytest.mark.parametrize("function", [check, compare, extract, inspect])
def test_an_option_as_an_argument_of_python_names_the_record_it_belongs_in(function, tmp_path):
    model = tiny_llama(tmp_path / "model")
    others = (model,) if function is compare else ()
    with pytest.raises(LineageError) as raised:
        function(model, *others, alpha=0.001)
    line = f"alpha is a field of hf_lineage.Options; write {function.__name__}(..., options=Options(alpha=0.001))"
    assert str(raised.value) == line
    assert function(model, *others, options=Options(alpha=0.001, permutations=999)) is not None
    with pytest.raises(LineageError, match="takes no nose; it takes "):
        function(model, nose=1)
