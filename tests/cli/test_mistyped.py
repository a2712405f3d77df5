"""What people type first: the words, the line that answers them, and the exit code."""

import pytest

from hf_lineage import LineageError, Options, __version__, check, compare, extract, inspect
from tests.invoking import lineage
from tests.models import tiny_llama

HELP = " (--help shows the usage)"
TYPED = {
    "check FT BASE": (
        "Got unexpected extra argument (BASE); to check a base, write `hf-lineage check FT --base BASE`; to compare "
        f"two models, whatever they declare, write `hf-lineage compare BASE FT`{HELP}"
    ),
    "check FT --base A B": (
        "Got unexpected extra argument (B); to check a base, write `hf-lineage check FT --base A --base B`; to "
        f"compare two models, whatever they declare, write `hf-lineage compare B FT`{HELP}"
    ),
    "check FT --json": f"No such option '--json'. Write --format json{HELP}",
    "compare A B --html": f"No such option '--html'. Write --format html{HELP}",
    "watch org --markdown": f"No such option '--markdown'. Write --format markdown{HELP}",
    "identify FT --html": f"No such option '--html'. Did you mean '--help'?{HELP}",
    "registry qwen3": "qwen3 is not in the registry; did you mean Qwen3ForCausalLM?",
    "registry qwen3_moe": "qwen3_moe is not in the registry; did you mean Qwen3MoeForCausalLM?",
    "registry LlamaForCasualLM": "LlamaForCasualLM is not in the registry; did you mean LlamaForCausalLM?",
    "check FT --as qwen3": "--as qwen3 is not a class of the registry; did you mean Qwen3ForCausalLM?",
}
"""What was typed, and the line on standard error; the exit code is 2, and nothing is on standard output."""


@pytest.mark.parametrize("typed", TYPED)
def test_what_no_command_has_is_answered_by_what_to_write(typed):
    assert lineage(*typed.split()).error == TYPED[typed]


def test_a_folder_is_named_as_one_in_the_command_that_is_to_be_written(tmp_path, monkeypatch):
    for name in ("ft", "base"):
        tiny_llama(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    error = lineage("check", "ft", "base").error
    assert "`hf-lineage check ./ft --base ./base`" in error
    assert lineage("check", "./ft", "--base", "./base").code == 0
    assert "`hf-lineage compare ./base ./ft`" in error


@pytest.mark.parametrize("typed", ["version", "-v", "-V", "--version"])
def test_the_version_is_told_however_it_is_asked_for(typed):
    outcome = lineage(typed)
    assert (outcome.code, outcome.out, outcome.err) == (0, f"hf-lineage, version {__version__}\n", "")


def test_help_is_a_word_as_well():
    assert lineage("help") == lineage("--help")


@pytest.mark.parametrize("function", [check, compare, extract, inspect])
def test_an_option_as_an_argument_of_python_names_the_record_it_belongs_in(function, tmp_path):
    model = tiny_llama(tmp_path / "model")
    others = (model,) if function is compare else ()
    with pytest.raises(LineageError) as raised:
        function(model, *others, alpha=0.001)
    line = f"alpha is a field of hf_lineage.Options; write {function.__name__}(..., options=Options(alpha=0.001))"
    assert str(raised.value) == line
    assert function(model, *others, options=Options(alpha=0.001, permutations=999)) is not None
    with pytest.raises(TypeError, match="nose"):
        function(model, nose=1)
