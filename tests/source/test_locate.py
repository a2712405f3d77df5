"""Whose name it is: what a repository wrote is a name on the Hub, whatever lies in the working directory."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hf_lineage import check
from hf_lineage.claims import names
from hf_lineage.claims.sources import Claim, Claims, read_claims
from hf_lineage.errors import OptionError, SignatureError
from hf_lineage.hub.repo import RepoRef
from hf_lineage.report.command import public
from hf_lineage.source.locate import is_path, locate, model_name, several, with_folders
from tests.invoking import lineage
from tests.models import EXAMPLES, LOADABLE, WEIGHTS, card, edit_json, fine_tuned, logits, tiny_llama

LLAMA = "meta-llama/Llama-3.1-8B"
DECLARING = {
    "card": card,
    "adapter": lambda folder, name: edit_json(folder / "adapter_config.json", base_model_name_or_path=name),
    "merge": lambda folder, name: edit_json(folder / "mergekit_config.yml", models=[{"model": name}]),
}
"""By file how a repository declares a base."""
MEANT = "{0} may be a name on the Hub, and there is a {1} ./{0} here: write ./{0}, or {0}@main for what is on the Hub"
GONE = " is not in the cache, or not completely, and HF_HUB_OFFLINE"
NO_NAME = "base_model must be a model name such as org/model, not "
ABSOLUTE = ("{here}/{0}", "/proc/self/cwd/{0}", "~/{0}", "file:{0}", "file://{here}/{0}", "/", "/etc")
PATHS = (*ABSOLUTE, "./{0}", "../{0}", "meta-llama/../{0}", "meta-llama//Llama-3.1-8B", "meta-llama\\Llama-3.1-8B")
REASONS: list[Any] = [(LLAMA, f"{LLAMA}{GONE}"), (".", f"{NO_NAME}."), ("..", f"{NO_NAME}..")]
REASONS += [(path.replace("{0}", LLAMA), (names.PATH, names.ELSEWHERE)) for path in PATHS]
NAMED = [("acme/base", "acme/base"), (Path("acme/base"), "./acme/base"), (Path("model.gguf"), "./model.gguf")]
NAMED += [(Path("./acme"), "./acme"), (Path("../acme"), "../acme"), (Path("/acme/base"), "/acme/base"), (Path(), ".")]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of a hostile author: a model, and its true base in a folder that is called as a famous model is."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    fine_tuned(tiny_llama(tmp_path / LLAMA, **LOADABLE), tmp_path / "model", noise=0.01)
    return tmp_path


def only(result):
    (base, *_, verdict), *_ = result.rows
    return base, verdict


def published():
    (claim,) = json.loads(Path("model/lineage/claims.json").read_text())["claims"]
    return claim


class TestDeclared:
    @pytest.mark.parametrize("file", DECLARING)
    @pytest.mark.parametrize(("name", "reason"), REASONS)
    @pytest.mark.crossed("name", "file")
    def test_neither_a_folder_that_is_called_like_it_nor_a_path_is_the_base(
        self, checkout, file, name, reason, monkeypatch
    ):
        monkeypatch.setenv("HOME", str(checkout))
        declared = name.format(here=checkout)
        DECLARING[file](checkout / "model", declared)
        result = lineage("check", "./model", "--format", "json")
        (claim,) = json.loads(result.out)["claims"]
        assert (result.code, claim["base"], claim["code"]) == (3, declared, "no-base")
        assert claim["reason"].startswith(reason)

    def test_a_signature_counts_where_it_is_typed_and_a_folder_for_transformers_alone(self, checkout):
        assert lineage("extract", f"./{LLAMA}").code == 0
        stored = "Llama-3.1-8B.lineage.safetensors"
        assert is_path(stored)
        assert lineage("check", "./model", "--base", stored).code == 0
        for name in (stored, f"{checkout}/{stored}"):
            card(checkout / "model", name)
            assert only(lineage("check", "./model"))[1] == "no-base"
        planted, model = logits(LLAMA), logits("model")
        assert torch.equal(planted, logits(checkout / LLAMA))
        assert torch.corrcoef(torch.stack([planted.flatten(), model.flatten()]))[0, 1] > 0.99
        card(checkout / "model", LLAMA)
        assert only(lineage("check", "./model")) == (LLAMA, "no-base")
        assert lineage("check", "./model", "--base", f"./{LLAMA}").rows[0][-1] == "inherited"

    def test_the_card_is_not_told_that_it_is_verified_nor_where_a_typed_folder_is(self, checkout):
        card(checkout / "model", LLAMA, "finetune")
        command = "hf-lineage check . --base {} --budget full --seed 0"
        assert lineage("annotate", "./model", "--write").code == 0
        expected = (LLAMA, "no-base", False, command.format(LLAMA))
        assert tuple(published()[key] for key in ("base", "code", "verified", "command")) == expected
        assert lineage("annotate", "./model", "--base", f"./{LLAMA}", "--write").code == 0
        expected = ("./Llama-3.1-8B", command.format(f"../{LLAMA}"))
        assert (published()["base"], published()["command"]) == expected


class TestTyped:
    @pytest.mark.parametrize(
        "typed",
        [
            "check {0}", "check ./model --base {0}", "check ./model --null {0} --base ./meta-llama/Llama-3.1-8B",
            "compare {0} ./model", "compare ./model {0}", "index add {0} --index ./index",
            "annotate ./model --base {0}", "extract {0}", "inspect {0}", "identify {0} --index ./index",
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("name", [LLAMA, "bare"])
    def test_a_name_that_a_folder_bears_as_well_is_refused_wherever_it_stands(self, checkout, typed, name):
        """The author of a checkout chooses neither the model nor the base by the name of a folder."""
        tiny_llama(checkout / "bare")
        outcome = lineage(*typed.format(name).split())
        assert (outcome.code, MEANT.format(name, "folder") in outcome.err) == (2, True)

    def test_it_is_a_folder_as_a_path_or_in_the_local_hub_and_a_null_only_as_a_path(self, checkout):
        for base in ([f"./{LLAMA}"], [f"{LLAMA}/"], [checkout / LLAMA], [LLAMA, "--local-hub", "."]):
            assert lineage("check", "./model", "--base", *base).rows[0][-1] == "inherited"
        assert lineage("compare", f"{LLAMA}/", "model/").rows[0][-1] == "inherited"
        assert check(Path("model"), Path(LLAMA)).rows[0].verdict.code == "inherited"
        assert GONE in lineage("check", "./model", "--base", f"{LLAMA}@main").sentences
        tiny_llama(checkout / "org/independent", seed=5)
        arguments = ("check", "./model", "--base", f"./{LLAMA}", "--null")
        assert lineage(*arguments, "./org/independent").rows[0][-1] == "inherited"
        assert MEANT.format("org/independent", "folder") in lineage(*arguments, "org/independent").error

    def test_a_file_with_the_name_of_a_model_is_not_its_signature(self, checkout):
        (checkout / "gpt2").write_bytes(b"not a signature")
        assert lineage("check", "./model", "--base", "gpt2").error == MEANT.format("gpt2", "file")
        (checkout / "a.lineage.safetensors").write_bytes(b"{}")
        for name in ("gpt2", "a.lineage.safetensors"):
            with pytest.raises(SignatureError, match="cannot be read as a signature"):
                locate(f"./{name}")


class TestLocalHub:
    @pytest.fixture
    def hub(self, checkout):
        fine_tuned(tiny_llama(checkout / "hub/acme/base", seed=3), checkout / "hub/fern/child")
        card(checkout / "hub/fern/child", "acme/base")
        return checkout / "hub"

    def test_it_resolves_what_a_repository_declares_but_no_path_and_may_be_a_link_itself(self, hub):
        hub.with_name("link").symlink_to(hub)
        for given in (hub, hub.with_name("link")):
            assert only(lineage("check", "fern/child", "--local-hub", given)) == ("acme/base", "inherited")
        for name in ("acme/..", "acme/../acme/base", "../hub/acme/base", "./acme/base"):
            card(hub / "fern/child", name)
            assert only(lineage("check", "fern/child", "--local-hub", hub)) == (name, "no-base")

    @pytest.mark.parametrize(
        ("link", "at", "to"), [("acme/linked", "acme/linked", "base"), ("linked/base", "linked", "")]
    )
    def test_a_link_that_leaves_it_is_not_followed(self, hub, checkout, link, at, to):
        target = shutil.copytree(hub / "acme/base", checkout / "elsewhere/base")
        (hub / at).symlink_to(checkout / "elsewhere" / to)
        card(hub / "fern/child", link)
        result = lineage("check", "fern/child", "--local-hub", hub)
        assert only(result) == (link, "no-base")
        assert f"{link} is a link out of the local hub and is not followed; give the folder itself" in result.sentences
        assert lineage("check", "fern/child", "--local-hub", hub, "--base", target).rows[0][-1] == "inherited"

    def test_a_link_that_stays_in_it_is_another_name(self, hub):
        (hub / "acme/alias").symlink_to("base")
        (hub / "acme/self").symlink_to("../fern/child")
        card(hub / "fern/child", ["acme/alias", "acme/self"])
        result = lineage("check", "fern/child", "--local-hub", hub)
        rows = [(row[0], row[-1]) for row in result.rows if row[0] != "value_output"]
        assert rows == [("acme/alias", "inherited"), ("acme/self", "no-base")]
        assert "The model declares itself, and a model cannot be its own base." in result.sentences
        assert "could not be opened" not in result.sentences
        assert "Declare the base that the model was made from" in result.sentences


def test_the_path_of_a_graph_means_the_repository_above_and_no_name_is_refused(tmp_path):
    for name in ("model/onnx/model_q4.onnx", "model/config.json", "alone/onnx/model.onnx"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    for folder, file in (("model", "onnx/model_q4.onnx"), ("alone/onnx", "model.onnx")):
        found = locate(str(tmp_path / folder / file))
        assert (found.folder, found.file) == (tmp_path / folder, file)
    for model in (7, None, b"acme/base", ["acme/base"]):
        with pytest.raises(OptionError, match="the name of a model must be a text or a path, not "):
            model_name(model)


@pytest.mark.parametrize(("model", "name"), NAMED)
def test_a_path_object_means_what_is_here_and_one_model_may_stand_for_several(model, name):
    assert model_name(model) == name
    assert several(model) == several([model]) == several(one for one in (model,)) == (name,)
    assert (several([model, model]), several(())) == ((name, name), ())


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "consolidated.00.pth"])
def test_a_file_of_weights_leads_to_its_folder_and_a_model_of_ollama_to_its_blob(tmp_path, name):
    folder = tiny_llama(tmp_path / "my model")
    file = (folder / WEIGHTS).rename(folder / name)
    told = f"{file} cannot be read as a signature; to name the model with these weights, give its folder, "
    assert lineage("check", file).error == f"{told}'{folder}', where its config.json is"
    (folder / "config.json").unlink()
    assert lineage("inspect", file).error == f"{told}with its config.json beside it"
    error = lineage("check", "ollama://llama3.2:1b").error
    assert error.startswith("ollama://llama3.2:1b: the store of Ollama is not read; its blob is a GGUF file")


@pytest.fixture
def here(tmp_path, monkeypatch):
    shutil.copytree(EXAMPLES / "acme/llama-base", tmp_path / "base")
    shutil.copytree(EXAMPLES / "fern/llama-lora", tmp_path / "lora")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lora/README.md").unlink()
    return tmp_path


def declares(folder, base):
    edit_json(folder / "adapter_config.json", base_model_name_or_path=base)


def added(text):
    return shlex.split(re.search(r"add `(--base [^`]+)`", text)[1])


@pytest.mark.parametrize("base", ["./base", "/data/run/base", "C:\\runs\\base", "../runs/base"])
def test_the_folder_beside_an_adapter_is_told_and_compared_as_it_is_told(here, base):
    declares(here / "lora", base)
    told = lineage("check", "./lora")
    assert (told.code, told.rows[0][-1]) == (3, "no-base")
    assert "to compare the folder ./base, add `--base ./base`" in told.sentences
    judged = lineage("check", "./lora", *added(told.sentences))
    assert (judged.code, judged.rows[0][0]) == (0, "./base")


def test_a_bare_name_is_one_on_the_hub_and_the_error_tells_of_the_folder(here, monkeypatch):
    declares(here / "lora", "base")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    error = lineage("check", "./lora").error
    assert error.startswith("base cannot be fetched from the Hub")
    assert added(error) == ["--base", "./base"]


def test_a_base_of_two_files_and_another_working_directory_and_no_such_folder(here, monkeypatch):
    monkeypatch.chdir(here / "lora")
    declares(card(here / "lora", "./base"), "./base")
    (claim,) = read_claims(RepoRef("lora", here / "lora")).claims
    assert claim.sources == ("README.md", "adapter_config.json")
    told = lineage("check", ".").sentences
    assert added(told) == ["--base", "../base"]
    assert "left out" not in told
    declares(card(here / "lora", "./gone"), "./gone")
    assert "not a name on the Hub; name the base with --base" in lineage("check", ".").sentences


def folder_of(base, model, **changes):
    claims = Claims((Claim(base, None, ("README.md",)),), ())
    return with_folders(claims, replace(RepoRef(str(model), model), **changes)).claims[0].folder


@pytest.mark.parametrize("base", ["acme/base", "..", ".", "/", "./lora", "", "x" * 5000, "a\0b", "./empty"])
def test_what_can_be_no_base_beside_the_model_is_not_told_nor_a_folder_outside(here, base, monkeypatch):
    (here / "empty").mkdir()
    assert folder_of(base, here / "lora") == ""
    (here / "inner/lora").mkdir(parents=True)
    monkeypatch.chdir(here / "inner")
    assert folder_of("../base", here / "inner/lora") == ""
    assert folder_of("./base", here / "lora", remote="fern/lora", commit="c0ffee") == ""
    assert folder_of("./base", here / "lora") == "../base"


def test_a_page_does_not_tell_where_the_folder_is(here, monkeypatch):
    declares(here / "lora", "./base")
    for name in ("secret", "a"):
        (here / name).mkdir()
    for name in ("base", "lora"):
        (here / name).rename(here / "secret" / name)
    monkeypatch.chdir(here / "a")
    report = check(here / "secret/lora")
    reasons = [one.rows[0].verdict.reason for one in (report, public(report))]
    assert ["`--base ../secret/base`" in reason for reason in reasons] == [True, False]
    assert "`--base ./base`" in reasons[1]
