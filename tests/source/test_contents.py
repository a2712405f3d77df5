"""Models in the folders of a repository: each that has a counterpart in the base is judged, one row each."""

import json
import shutil

import pytest
from safetensors.torch import load_file, save_file

from hf_lineage import Options, check, compare, extract, inspect
from hf_lineage.errors import CheckpointError, NoModelError, NothingToCompare, RepositoryError
from hf_lineage.hub.repo import RepoRef
from hf_lineage.source.contents import MOST, counterpart, folders_of, part_of
from tests.invoking import lineage
from tests.models import card, edit_json, family, fine_tuned, tiny_llama
from tests.published.steps import STEPS

DIFFUSION = "diffusion_pytorch_model.safetensors"


@pytest.fixture
def hub(tmp_path):
    return family(tmp_path)


def options(hub, **more):
    return Options(local_hub=hub, **more)


def into(folder, *subfolders):
    """Put a model into folders of its repository; the card stays."""
    held = shutil.copytree(folder, folder.with_name("held"), ignore=shutil.ignore_patterns("README.md"))
    for file in held.iterdir():
        (folder / file.name).unlink()
    for subfolder in subfolders:
        shutil.copytree(held, folder / subfolder)
    shutil.rmtree(held)
    return folder


def modules(folder):
    listed = [
        {"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (into(folder, "0_Transformer") / "modules.json").write_text(json.dumps(listed))
    edit_json(folder / "1_Pooling.json")
    return folder


def pipeline(folder, **parts):
    """A diffusers pipeline of text encoders, with a decoder beside them that no factorization reads."""
    into(folder, *parts)
    (folder / "vae").mkdir()
    edit_json(folder / "vae/config.json", _class_name="AutoencoderKL")
    encoders = {name: ["transformers", "CLIPTextModel"] for name in parts}
    edit_json(folder / "model_index.json", _class_name="P", vae=["diffusers", "AutoencoderKL"], **encoders)
    return folder


def rows(report):
    return [(row.claim.base, row.part, row.verdict.code) for row in report.rows]


@pytest.mark.parametrize("model", ["fern/child", "acme/base"])
def test_a_sentence_transformer_or_its_base_is_in_a_folder(hub, model):
    modules(hub / model)
    part = "0_Transformer" if model == "fern/child" else ""
    assert rows(check("fern/child", options=options(hub))) == [("acme/base", part, "inherited")]


def test_a_model_and_its_base_may_both_be_in_folders_and_reports_name_the_part(hub):
    for model in ("acme/base", "fern/child"):
        modules(hub / model)
    assert rows(compare("acme/base", "fern/child", options(hub))) == [("acme/base", "0_Transformer", "inherited")]
    result = lineage("check", "fern/child", "--local-hub", hub)
    assert "acme/base (0_Transformer)" in result.sentences
    (claim,) = json.loads(lineage("check", "fern/child", "--local-hub", hub, "--format", "json").out)["claims"]
    assert (claim["base"], claim["part"], claim["code"]) == ("acme/base", "0_Transformer", "inherited")
    for form in ("html", "sarif", "intoto"):
        assert lineage("check", "fern/child", "--local-hub", hub, "--format", form).code in (0, 2)


def test_of_checkpoints_the_last_is_judged_and_the_others_are_said_and_may_be_named(hub):
    into(hub / "fern/child", "checkpoint-90", "checkpoint-500")
    tiny_llama(hub / "fern/child/checkpoint-100", seed=4)
    report = check("fern/child", options=options(hub))
    assert rows(report) == [("acme/base", "checkpoint-500", "inherited")]
    assert "the last of 3 checkpoints was judged, checkpoint-500; MODEL/FOLDER names another" in report.rows[0].notes
    other = check("fern/child", options=options(hub, subfolder="checkpoint-100"))
    assert rows(other) == [("acme/base", "checkpoint-100", "unrelated")]
    named = "fern/child/checkpoint-90"
    assert rows(check(named, options=options(hub))) == [("acme/base", "checkpoint-90", "inherited")]
    assert extract(named, options(hub)).model == named
    assert inspect("fern/child", options(hub)).pairings


def test_a_part_of_a_pipeline_and_the_pipeline_are_named_by_their_paths(hub, monkeypatch):
    pipeline(hub / "fern/child", text_encoder={})
    monkeypatch.chdir(hub / "fern/child")
    for model in (".", "./", "text_encoder/", "./text_encoder", "../child/text_encoder/"):
        assert ("acme/base", "text_encoder", "inherited") in rows(check(model, options=options(hub))), model


def test_several_models_in_folders_are_each_judged_and_only_one_can_be_extracted(hub):
    into(hub / "fern/child", "first", "second")
    judged = rows(check("fern/child", options=options(hub)))
    assert judged == [("acme/base", "first", "inherited"), ("acme/base", "second", "inherited")]
    with pytest.raises(NothingToCompare, match=r"several models, in first, second; name one as MODEL/FOLDER"):
        extract("fern/child", options(hub))


def test_the_card_of_a_part_counts_where_the_root_has_none(hub):
    into(hub / "fern/child", "checkpoint-90")
    (hub / "fern/child/README.md").unlink()
    card(hub / "fern/child/checkpoint-90", "acme/base")
    assert rows(check("fern/child/checkpoint-90", options=options(hub)))[0][2] == "inherited"


@pytest.mark.parametrize("subfolder", ["..", "../acme/base", "/etc", "a//b", ".git", "x\0y", "a/../../b", "~"])
def test_no_folder_above_the_repository_is_a_part_of_it(hub, subfolder):
    with pytest.raises(RepositoryError, match="is not a folder of"):
        part_of(RepoRef("fern/child", hub / "fern/child"), subfolder)


def test_a_link_out_of_the_repository_is_not_followed(hub, tmp_path):
    into(hub / "fern/child")
    shutil.copytree(hub / "acme/base", tmp_path / "outside")
    (hub / "fern/child/checkpoint-1").symlink_to(tmp_path / "outside")
    with pytest.raises(CheckpointError, match="a link out of the model's folder"):
        check("fern/child", options=options(hub))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *(("modules.json", content) for content in ("", "{", "7", "[7, null]", "[" * 9**5)),
        ("modules.json", '[{"path": "../acme", "type": "x.Transformer"}]'),
        *(("model_index.json", content) for content in ("{}", '{"x": 1}', '{"x": ["transformers", 2]}')),
        ("model_index.json", '{"../y": ["transformers", "X"]}'),
    ],
)
def test_a_list_of_parts_that_says_nothing_usable_is_passed_over(hub, file, content):
    into(hub / "fern/child", "0_Transformer")
    (hub / "fern/child" / file).write_text(content)
    (part,) = folders_of(RepoRef("fern/child", hub / "fern/child")).models
    assert part.subfolder == "0_Transformer"


def test_parts_are_bounded(hub):
    for number in range(MOST + 5):
        (hub / f"fern/many/part{number:02}").mkdir(parents=True)
        edit_json(hub / f"fern/many/part{number:02}/config.json")
    parts = folders_of(RepoRef("fern/many", hub / "fern/many"))
    assert len(parts.models) == MOST
    assert parts.notes == (f"only the first {MOST} of {MOST + 5} folders with models were judged",)


def test_a_repository_without_any_model_is_an_input_error_and_so_is_its_folder(hub):
    into(hub / "fern/child")
    with pytest.raises(NoModelError, match=r"has no config\.json"):
        check("fern/child", options=options(hub))
    result, missing = (lineage("check", name, "--local-hub", hub) for name in ("fern/child", "fern/child/nowhere"))
    assert (result.code, missing.code) == (2, 2)
    assert "fern/child has no folder nowhere; write ORG/NAME/FOLDER for a folder of it" in missing.error
    base = RepoRef("acme/base", hub / "acme/base")
    assert counterpart(base, "nowhere") is base


def test_a_part_of_a_model_on_the_hub_is_read_by_ranges(online, tmp_path):
    base = tiny_llama(tmp_path / "base")
    child = card(fine_tuned(base, tmp_path / "child"), "acme/base")
    online.publish("acme/base", base)
    online.publish("fern/child", modules(child))
    report = check("fern/child")
    assert rows(report) == [("acme/base", "0_Transformer", "inherited")]
    assert rows(check("fern/child/0_Transformer", options=Options())) == rows(report)


def test_blocks_that_diffusers_would_not_load_do_not_make_a_network_related(hub):
    """An independent network with copies of the base's blocks under further numbers."""
    for folder in (hub / "acme/base", card(tiny_llama(hub / "fern/liar", seed=9), "acme/base")):
        STEPS["as_unet"](folder)
    own, copied = (load_file(hub / name / DIFFUSION) for name in ("fern/liar", "acme/base"))
    for times in range(1, 4):
        own |= {name.replace("attentions.0", f"attentions.{times}"): tensor.clone() for name, tensor in copied.items()}
    save_file(own, hub / "fern/liar" / DIFFUSION)
    (row,) = check("fern/liar", options=options(hub)).rows
    assert row.verdict.code == "incompatible"


def test_a_key_of_diffusers_makes_no_other_file_that_of_transformers(hub):
    """transformers loads model.safetensors, whatever stands beside it under the name that diffusers loads."""
    liar = card(tiny_llama(hub / "fern/liar", seed=9), "acme/base")
    shutil.copy(hub / "acme/base/model.safetensors", liar / DIFFUSION)
    edit_json(liar / "config.json", _class_name="UNet2DConditionModel", _diffusers_version="0.30")
    assert rows(check("fern/liar", options=options(hub))) == [("acme/base", "", "unrelated")]
