"""A class that the registry does not list: every command that its message prints works as it stands."""

import re
import shlex

import pytest

from hf_lineage import Options, check
from hf_lineage.errors import OptionError
from tests.models import card, edit_json, family, spoil, tiny_llama
from tests.running import lineage

AS = "read as LlamaForCausalLM (--as) in place of YiForCausalLM; that it computes the same is not proved"


@pytest.fixture
def hub(tmp_path):
    hub = family(tmp_path / "hub")
    card(tiny_llama(hub / "fern/other", seed=8), "acme/base")
    for name in ("child", "other"):
        edit_json(
            hub / f"fern/{name}/config.json", architectures=["YiForCausalLM"], model_type="Yi", auto_map={"A": "b.C"}
        )
    return hub


def printed(result):
    """The commands that a result prints, with the arguments in place of what it leaves open."""
    return [shlex.split(command)[1:] for command in re.findall(r"`(hf-lineage [^`]+)`", result.sentences)]


def test_the_message_prints_the_command_that_works(hub):
    refused = lineage("check", "fern/child", "--local-hub", hub)
    assert refused.code == 3
    judged, surveyed = printed(refused)
    assert judged[-2:] == ["--as", "LlamaForCausalLM"]
    result = lineage(*judged, "--local-hub", hub)
    assert (result.code, result.rows[0][-1]) == (0, "RELATED")
    assert AS in result.sentences
    assert "code of the repository's own" in result.sentences
    assert "llama.yaml" in lineage(*surveyed, "--local-hub", hub).out


def test_an_independent_model_in_the_same_clothes_is_unrelated(hub):
    result = lineage("check", "fern/other", "--as", "LlamaForCausalLM", "--local-hub", hub)
    assert (result.code, result.rows[0][-1]) == (1, "UNRELATED")


def test_every_command_reads_it_so(hub, tmp_path):
    there = ("--as", "LlamaForCausalLM", "--local-hub", hub)
    assert AS in lineage("compare", "acme/base", "fern/child", *there).sentences
    assert lineage("extract", "fern/child", *there, "-o", tmp_path / "signature").code == 0
    assert lineage("inspect", "fern/child", *there).code == 0
    assert lineage("annotate", hub / "fern/child", "--write", *there).code == 0
    assert "--as LlamaForCausalLM" in (hub / "fern/child/README.md").read_text()


def test_a_draft_is_usable_at_once_and_decides_once_its_open_line_is_decided(hub, tmp_path):
    drafts = tmp_path / "drafts"
    written = lineage("registry", "--check", "fern/child", "--write", drafts, "--local-hub", hub)
    assert "yiforcausallm.yaml, which nothing proves" in written.err
    assert lineage("check", "fern/child", "--registry", drafts, "--local-hub", hub).rows[0][-1] == "INCONCLUSIVE"
    draft = drafts / "yiforcausallm.yaml"
    draft.write_text(draft.read_text().replace("exchangeable: false", "exchangeable: true"))
    for model, outcome in (("fern/child", (0, "RELATED")), ("fern/other", (1, "UNRELATED"))):
        result = lineage("check", model, "--registry", drafts, "--local-hub", hub)
        assert (result.code, result.rows[0][-1]) == outcome
        assert "read by yiforcausallm.yaml of --registry, an unproved factorization" in result.sentences
    again = lineage("registry", "--check", "fern/child", "--write", drafts, "--local-hub", hub)
    assert (again.code, "exists and may have been edited" in again.error) == (2, True)


def test_names_that_fit_nothing_are_told_to_write_a_draft(hub):
    def rename(tensors):
        for name in list(tensors):
            tensors[name.replace("mlp.up_proj", "mlp.linear_v")] = tensors.pop(name)

    spoil(hub / "fern/child", rename)
    drafting, judging = printed(lineage("check", "fern/child", "--local-hub", hub))
    assert drafting == ["registry", "--check", "fern/child", "--write", "DIR"]
    assert judging == ["check", "fern/child", "--registry", "DIR"]


def test_a_hostile_name_of_a_model_is_quoted(hub):
    folder = (hub / "fern/child").rename(hub / "fern/x; touch y")
    judged = printed(lineage("check", folder, "--local-hub", hub))[0]
    assert judged[1].replace(" ", "") == str(folder).replace(" ", "")  # a line may end inside a long path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--as", "NobodyForCausalLM"], "--as NobodyForCausalLM is no class of the registry"),
        (["--registry", "nowhere"], "--registry nowhere is no folder"),
    ],
)
def test_a_wrong_choice_is_a_usage_error(hub, options, message):
    result = lineage("check", "fern/child", *options, "--local-hub", hub)
    assert (result.code, message in result.error) == (2, True)


def test_a_broken_factorization_is_an_input_error(hub, tmp_path):
    (tmp_path / "x.yaml").write_text("classes: [YiForCausalLM]\nlayers: [1]\n")
    result = lineage("check", "fern/child", "--registry", tmp_path, "--local-hub", hub)
    assert (result.code, "x.yaml" in result.error) == (2, True)


def test_a_draft_needs_a_model():
    assert lineage("registry", "--write", "x").code == 2


def test_in_python_it_is_an_option(hub):
    options = Options(local_hub=hub, as_class="LlamaForCausalLM")
    assert [row.verdict.name for row in check("fern/child", options=options).rows] == ["RELATED"]
    with pytest.raises(OptionError, match="is no class of the registry"):
        Options(as_class="Nobody")
