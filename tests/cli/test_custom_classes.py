"""A class that the registry does not list: every command that its message prints works as it stands."""

import json
import re
import shlex
import shutil
import sys

import pytest
import torch

from hf_lineage import Options, check
from hf_lineage.architecture.registry.tables import registry_root
from hf_lineage.errors import OptionError
from hf_lineage.running import proof
from tests.conformance import tiny_model
from tests.invoking import lineage
from tests.models import card, edit_json, family, fine_tuned, spoil, tiny_llama

AS = "read as LlamaForCausalLM (--as) in place of YiForCausalLM; it is not proved that both compute the same"


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
    """The words of the commands that a result prints, each on one line, as it can be copied."""
    return [shlex.split(command)[1:] for command in re.findall(r"`(hf-lineage [^`\n]+)`", result.out)]


def test_the_message_prints_the_options_that_work_where_two_classes_fit(hub):
    typed = ("check", "fern/child", "--base", "acme/base", "--local-hub", hub)
    refused = lineage(*typed)
    assert refused.code == 3
    assert "add `--as LlamaForCausalLM` or `--as GemmaForCausalLM` to read it as one of them" in refused.sentences
    for name in re.findall(r"`--as (\w+)`", refused.sentences):
        result = lineage(*typed, "--as", name)
        assert (result.code, result.rows[0][-1]) == (0, "RELATED")
        assert AS.replace("LlamaForCausalLM", name) in result.sentences
        assert "code of the repository" in result.sentences


def test_the_one_class_that_fits_is_taken_at_the_first_command_and_verifies_nothing(hub):
    for name in ("child", "other"):
        edit_json(hub / f"fern/{name}/config.json", hidden_act="silu")
    related = lineage("check", "fern/child", "--local-hub", hub)
    assert (related.code, related.rows[0][-3:]) == (3, ["RELATED", "as", "read"])
    assert "read as LlamaForCausalLM; its own code decides what it computes" in related.sentences
    assert "not looked at" not in related.sentences
    assert lineage("check", "fern/other", "--local-hub", hub).code == 1


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
    assert "yiforcausallm.yaml, which is not proved yet" in written.err
    assert lineage("check", "fern/child", "--registry", drafts, "--local-hub", hub).rows[0][-1] == "INCONCLUSIVE"
    draft = drafts / "yiforcausallm.yaml"
    draft.write_text(draft.read_text().replace("exchangeable: false", "exchangeable: true"))
    for model, outcome in (("fern/child", (0, "RELATED")), ("fern/other", (1, "UNRELATED"))):
        result = lineage("check", model, "--registry", drafts, "--local-hub", hub)
        assert (result.code, result.rows[0][-1]) == outcome
        assert "read by yiforcausallm.yaml of --registry, an unproved factorization" in result.sentences
    again = lineage("registry", "--check", "fern/child", "--write", drafts, "--local-hub", hub)
    assert (again.code, "exists and may have been edited" in again.error) == (2, True)


def test_of_an_untouched_draft_is_told_what_a_check_by_it_rests_on(tmp_path):
    """The paths are INCONCLUSIVE, and the order of hidden units decides all the same."""
    base = tiny_llama(tmp_path / "base", layers=4, width=64)
    child, other = fine_tuned(base, tmp_path / "child"), tiny_llama(tmp_path / "other", seed=5, layers=4, width=64)
    for folder in (base, child, other):
        edit_json(folder / "config.json", architectures=["OddForCausalLM"], model_type="odd")
    written = lineage("registry", "--check", base, "--write", tmp_path / "drafts")
    for text in (written.out, (tmp_path / "drafts/oddforcausallm.yaml").read_text()):
        assert "until then a check rests on the\n#   order of hidden units alone" in text
        assert "until then a check is INCONCLUSIVE" not in text
    assert "a check uses only the order of hidden units" in written.err
    for model, code, word in ((child, 0, "RELATED"), (other, 1, "UNRELATED")):
        judged = lineage("check", model, "--base", base, "--registry", tmp_path / "drafts")
        assert (judged.code, judged.rows[0][-1], judged.rows[-1][-1]) == (code, "INCONCLUSIVE", word)


def odd(folder):
    """A model with a tensor in each layer that no listed class has."""

    def change(tensors):
        for name in list(tensors):
            tensors[name.replace("mlp.up_proj", "mlp.linear_v")] = tensors.pop(name)
        tensors |= {f"model.layers.{layer}.memory.gain": torch.ones(32) for layer in range(2)}

    return spoil(folder, change)


def test_names_that_fit_nothing_are_told_to_write_a_draft(hub):
    odd(hub / "fern/child")
    typed = ("check", "fern/child", "--base", "acme/base", "--local-hub", hub)
    refused = lineage(*typed)
    (drafting,) = printed(refused)
    drafts = hub / "drafts"
    assert lineage(*(drafts if word == "DIR" else word for word in drafting)).code == 3
    assert "`--registry DIR` to read" in refused.sentences
    assert "read by yiforcausallm.yaml of --registry" in lineage(*typed, "--registry", drafts).sentences


def test_a_hostile_name_of_a_model_is_quoted(hub):
    folder = odd(hub / "fern/child").rename(hub / "fern/x; touch y")
    surveyed = printed(lineage("check", folder, "--local-hub", hub))[0]
    assert surveyed[2] == str(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--as", "NobodyForCausalLM"], "--as NobodyForCausalLM is not a class of the registry"),
        (["--registry", "nowhere"], "--registry nowhere is not a folder"),
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
    with pytest.raises(OptionError, match="is not a class of the registry"):
        Options(as_class="Nobody")


@pytest.fixture
def unlisted(tmp_path):
    """A model of a class that transformers has and the registry does not, and the folder of its draft."""
    folder, drafts = tmp_path / "hub/acme/unlisted", tmp_path / "my drafts"
    tiny_model("Qwen3VLMoeTextModel", {}).save_pretrained(folder)
    written = lineage("registry", "--check", "acme/unlisted", "--write", drafts, "--local-hub", tmp_path / "hub")
    (file,) = drafts.glob("*.yaml")
    file.write_text(file.read_text().replace("exchangeable: false", "exchangeable: true"))
    command = re.search(r"`hf-lineage (registry --prove [^`]+)`", written.err)[1]
    return folder, drafts, shlex.split(command)


def test_a_report_says_that_a_factorization_is_unproved_until_it_is_proved(unlisted):
    folder, drafts, proving = unlisted
    comparing = ("compare", folder, folder, "--registry", drafts)
    assert "an unproved factorization" in lineage(*comparing).sentences
    proved = lineage(*proving)
    assert (proved.code, proved.sentences.startswith("Proved: ")) == (0, True)
    after = lineage(*comparing).sentences
    assert "qwen3vlmoetextmodel.yaml of --registry, which was proved on this machine" in after
    assert "unproved" not in after
    file = drafts / "qwen3vlmoetextmodel.yaml"
    file.write_text(file.read_text().replace("[mlp.gate]", "[mlp.gate, mlp.other]"))
    assert "an unproved factorization" in lineage(*comparing).sentences


def test_a_factorization_that_is_refused_stays_unproved(unlisted):
    folder, drafts, proving = unlisted
    file = drafts / "qwen3vlmoetextmodel.yaml"
    file.write_text(file.read_text().replace("[gate, up]", "[up, gate]"))
    refused = lineage(*proving, "--format", "json")
    assert (refused.code, json.loads(refused.out)["proved"]) == (3, False)
    assert "mlp plain" in json.loads(refused.out)["faults"]["deviations"]
    assert "an unproved factorization" in lineage("compare", folder, folder, "--registry", drafts).sentences


def test_a_proof_that_a_folder_brings_along_is_not_believed(unlisted, own_files):
    """Whoever publishes a folder of factorizations may copy the note of a proof into it, which counts nowhere."""
    folder, drafts, proving = unlisted
    assert lineage(*proving).code == 0
    for there in (drafts, drafts / "hf-lineage", drafts / "proved", folder):
        shutil.copytree(own_files / "config/hf-lineage/proved", there / "proved", dirs_exist_ok=True)
    shutil.rmtree(own_files / "config")
    assert "an unproved factorization" in lineage("compare", folder, folder, "--registry", drafts).sentences


def test_a_folder_of_factorizations_in_a_repository_is_not_read(hub):
    """Only the user says which folder counts, and a class that the registry lists is not read by any."""
    _, rest = (registry_root() / "llama.yaml").read_text().split("\nlayers:", 1)
    for folder in (hub / "fern/child", hub / "fern/child/registry"):
        folder.mkdir(exist_ok=True)
        (folder / "yi.yaml").write_text(f"classes: [LlamaForCausalLM, YiForCausalLM]\nlayers:{rest}")
    assert lineage("check", "fern/child", "--local-hub", hub).code == 3


def test_the_trust_file_may_name_the_folder(hub, tmp_path):
    _, rest = (registry_root() / "llama.yaml").read_text().split("\nlayers:", 1)
    (tmp_path / "trusted/mine").mkdir(parents=True)
    (tmp_path / "trusted/mine/yi.yaml").write_text(f"classes: [YiForCausalLM]\nlayers:{rest}")
    trust = tmp_path / "trusted/trust.yaml"
    trust.write_text("registry: mine\n")
    there = ("--local-hub", hub, "--set", f"trust={trust}")
    result = lineage("check", "fern/child", *there)
    assert (result.code, "read by yi.yaml of --registry" in result.sentences) == (0, True)
    assert lineage("check", "fern/other", *there).code == 1
    trust.write_text("registry: nowhere\n")
    broken = lineage("check", "fern/child", *there)
    assert (broken.code, "`registry` in the trust file" in broken.error) == (2, True)


def test_a_proof_without_its_packages_says_what_to_install(unlisted, monkeypatch):
    monkeypatch.setitem(sys.modules, "hf_lineage.running.proof.proving", None)
    monkeypatch.delitem(vars(proof), "prove", raising=False)
    refused = lineage(*unlisted[2])
    assert (refused.code, "pip install 'hf-lineage[run] @ git+" in refused.error) == (2, True)


@pytest.mark.parametrize("arguments", [[], ["x", "--coverage"], ["x", "--check", "y"]])
def test_a_proof_needs_one_model(arguments, tmp_path):
    assert lineage("registry", "--prove", tmp_path, *arguments).code == 2


def test_a_folder_that_lists_another_class_proves_nothing(unlisted, hub):
    refused = lineage("registry", "--prove", unlisted[1], "acme/base", "--local-hub", hub)
    assert (refused.code, "has no factorization for LlamaForCausalLM" in refused.error) == (2, True)
    _, rest = (registry_root() / "llama.yaml").read_text().split("\nlayers:", 1)
    (unlisted[1] / "yi.yaml").write_text(f"classes: [YiForCausalLM]\nlayers:{rest}")
    absent = lineage("registry", "--prove", unlisted[1], "fern/child", "--local-hub", hub)
    assert (absent.code, "has no class YiForCausalLM" in absent.error) == (2, True)
