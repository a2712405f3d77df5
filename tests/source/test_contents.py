"""What a repository holds beside one model (models in folders, adapters, named parents): a row for each counterpart."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage import Options, check, compare, extract, inspect
from hf_lineage.errors import CheckpointError, NoModelError, NothingToCompare, RepositoryError
from hf_lineage.evidence.verdict import ExitCode
from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef
from hf_lineage.source.contents import MOST, counterpart, folders_of, part_of
from tests import pictures
from tests.adapters import WEIGHTS as ADAPTER
from tests.adapters import pair, trained, written
from tests.blends import BASE, B, blended
from tests.invoking import lineage
from tests.models import EXAMPLES, WEIGHTS, card, edit_json, fine_tuned, spoil, tiny_llama
from tests.published.steps import STEPS

DIFFUSION = "diffusion_pytorch_model.safetensors"
OTHER, PATH = "otter/llama-independent", "/home/me/models/base"
OPTIONS = Options(local_hub=EXAMPLES, seed=0)
UP = "model.layers.0.mlp.up_proj"
PATHS = {"french": PATH, "german": PATH}
UNUSABLE = [
    *(("modules.json", content) for content in ("", "{", "7", "[7, null]", "[" * 9**5)),
    ("modules.json", '[{"path": "../acme", "type": "x.Transformer"}]'),
    *(("model_index.json", content) for content in ("{}", '{"x": 1}', '{"x": ["transformers", 2]}')),
    ("model_index.json", '{"../y": ["transformers", "X"]}'),
]
NAMED_BASES = [
    ({"french": BASE, "german": OTHER}, BASE, [(BASE, "french", "adapter"), (OTHER, "german", "adapter")]),
    ({"french": BASE}, OTHER, [(BASE, "french", "adapter"), (OTHER, "french", "unrelated")]),
    (PATHS, BASE, [(BASE, "french", "adapter"), (BASE, "german", "unrelated")]),
]


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
    kind = "sentence_transformers.models"
    names = enumerate(("Transformer", "Pooling"))
    listed = [{"idx": n, "name": str(n), "path": f"{n}_{name}", "type": f"{kind}.{name}"} for n, name in names]
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


@pytest.mark.parametrize("models", [["fern/child"], ["acme/base"], ["acme/base", "fern/child"]])
def test_a_sentence_transformer_or_its_base_or_both_are_in_a_folder(hub, models):
    for model in models:
        modules(hub / model)
    part = "0_Transformer" if "fern/child" in models else ""
    expected = [("acme/base", part, "inherited")]
    assert rows(check("fern/child", options=options(hub))) == expected
    if len(models) == 2:
        assert rows(compare("acme/base", "fern/child", options(hub))) == expected
        assert "acme/base (0_Transformer)" in lineage("check", "fern/child", "--local-hub", hub).sentences
        (claim,) = json.loads(lineage("check", "fern/child", "--local-hub", hub, "--format", "json").out)["claims"]
        assert [(claim["base"], claim["part"], claim["code"])] == expected
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
    (hub / "fern/child/README.md").unlink()
    card(hub / named, "acme/base")
    assert rows(check(named, options=options(hub))) == [("acme/base", "checkpoint-90", "inherited")]


def test_paths_name_parts_and_of_several_models_only_one_can_be_extracted(hub, monkeypatch):
    two = shutil.copytree(hub / "fern/child", hub / "fern/two")
    pipeline(hub / "fern/child", text_encoder={})
    monkeypatch.chdir(hub / "fern/child")
    for model in (".", "./", "text_encoder/", "./text_encoder", "../child/text_encoder/"):
        assert ("acme/base", "text_encoder", "inherited") in rows(check(model, options=options(hub))), model
    judged = rows(check(str(into(two, "first", "second")), options=options(hub)))
    assert judged == [("acme/base", "first", "inherited"), ("acme/base", "second", "inherited")]
    with pytest.raises(NothingToCompare, match=r"several models, in first, second; name one as MODEL/FOLDER"):
        extract("fern/two", options(hub))


def test_a_link_out_of_the_repository_is_not_followed_and_parts_are_bounded(hub, tmp_path):
    into(hub / "fern/child")
    shutil.copytree(hub / "acme/base", tmp_path / "outside")
    (hub / "fern/child/checkpoint-1").symlink_to(tmp_path / "outside")
    with pytest.raises(CheckpointError, match="a link out of the model's folder"):
        check("fern/child", options=options(hub))
    for number in range(MOST + 5):
        (hub / f"fern/many/part{number:02}").mkdir(parents=True)
        edit_json(hub / f"fern/many/part{number:02}/config.json")
    parts = folders_of(RepoRef("fern/many", hub / "fern/many"))
    assert len(parts.models) == MOST
    assert parts.notes == (f"only the first {MOST} of {MOST + 5} folders with models were judged",)


@pytest.mark.parametrize(("file", "content"), UNUSABLE)
def test_a_list_of_parts_that_says_nothing_usable_is_passed_over(hub, file, content):
    into(hub / "fern/child", "0_Transformer")
    (hub / "fern/child" / file).write_text(content)
    (part,) = folders_of(RepoRef("fern/child", hub / "fern/child")).models
    assert part.subfolder == "0_Transformer"


def test_a_repository_without_any_model_and_a_folder_above_it_are_input_errors(hub):
    into(hub / "fern/child")
    with pytest.raises(NoModelError, match=r"has no config\.json"):
        check("fern/child", options=options(hub))
    result, missing = (lineage("check", name, "--local-hub", hub) for name in ("fern/child", "fern/child/nowhere"))
    assert (result.code, missing.code) == (2, 2)
    assert "fern/child has no folder nowhere; write ORG/NAME/FOLDER for a folder of it" in missing.error
    base = RepoRef("acme/base", hub / "acme/base")
    assert counterpart(base, "nowhere") is base
    for subfolder in ("..", "../acme/base", "/etc", "a//b", ".git", "x\0y", "a/../../b", "~"):
        with pytest.raises(RepositoryError, match="is not a folder of"):
            part_of(RepoRef("fern/child", hub / "fern/child"), subfolder)


def test_on_the_hub_a_part_is_read_by_ranges_and_a_file_known_by_its_header(online, tmp_path, pictured):
    online.publish("acme/base", tiny_llama(tmp_path / "base"))
    online.publish("fern/child", modules(card(fine_tuned(tmp_path / "base", tmp_path / "child"), "acme/base")))
    report = check("fern/child")
    assert rows(report) == [("acme/base", "0_Transformer", "inherited")]
    assert rows(check("fern/child/0_Transformer", options=Options())) == rows(report)
    online.publish("acme/pictures", pictured / "acme/pictures")
    folder = shutil.copytree(pictured / "fern/flat", tmp_path / "flat")
    online.publish("fern/flat", card(folder, "acme/pictures", "adapter"))
    (row,) = check("fern/flat", options=Options(seed=0)).rows
    assert (row.claim.base, row.verdict.label) == ("acme/pictures", "VERIFIED adapter")
    assert row.traffic["acme/pictures/unet"].moved < row.traffic["acme/pictures/unet"].stored


def test_a_key_of_diffusers_or_blocks_that_it_would_not_load_make_nothing_related(hub):
    """transformers loads model.safetensors, whatever stands beside it under the name that diffusers loads."""
    liar = card(tiny_llama(hub / "fern/other", seed=9), "acme/base")
    shutil.copy(hub / "acme/base/model.safetensors", liar / DIFFUSION)
    edit_json(liar / "config.json", _class_name="UNet2DConditionModel", _diffusers_version="0.30")
    assert rows(check("fern/other", options=options(hub))) == [("acme/base", "", "unrelated")]
    for folder in (hub / "acme/base", card(tiny_llama(hub / "fern/liar", seed=9), "acme/base")):
        STEPS["as_unet"](folder)
    own, copied = (load_file(hub / name / DIFFUSION) for name in ("fern/liar", "acme/base"))
    for times in range(1, 4):
        own |= {name.replace("attentions.0", f"attentions.{times}"): tensor.clone() for name, tensor in copied.items()}
    save_file(own, hub / "fern/liar" / DIFFUSION)
    (row,) = check("fern/liar", options=options(hub)).rows
    assert row.verdict.code == "incompatible"


@pytest.fixture(scope="module")
def pictured(tmp_path_factory):
    """Two pipelines and the factors of a LoRA on the first, in every form in which one is found."""
    folder = tmp_path_factory.mktemp("pictures")
    factors = pictures.unet_factors(pictures.pipeline(folder / "acme/pictures", 0))
    pictures.pipeline(folder / "otter/pictures", 1)
    pictures.by_diffusers(folder / "fern/new", factors)
    pictures.by_old_diffusers(folder / "fern/old", factors)
    pictures.by_kohya(folder / "fern/flat", factors)
    return folder


@pytest.mark.parametrize("form", ["new", "old", "flat"])
@pytest.mark.long
def test_an_adapter_of_diffusers_is_found_whatever_its_names(pictured, form):
    model, drawn = str(pictured / "fern" / form), Options(seed=0)
    own, other = (compare(str(pictured / base / "pictures"), model, drawn).rows for base in ("acme", "otter"))
    assert [row.verdict.label for row in (*own, *other)] == ["VERIFIED adapter", "UNDECIDED inconclusive"]
    assert set(own[0].verdict.trace.by_role) == {"value", "output", "up", "gate"}
    assert own[0].verdict.trace.p_value == 0.0005
    assert other[0].verdict.trace.p_value > 0.01
    assert other[0].verdict.trace.power(0.01) == 0.0
    assert other[0].verdict.reason.endswith("how strong a trace such adapters show")
    assert own[0].part == ("style.safetensors" if form == "flat" else pictures.FILE)
    assert "a LoRA adapter of rank 4 on 70 matrices" in own[0].notes[0]
    assert "other tensors" not in own[0].notes[0]


def test_a_card_declares_the_base_of_a_bare_adapter_and_vouches_for_no_other_weights(pictured, tmp_path):
    folder = card(shutil.copytree(pictured / "fern/new", tmp_path / "lora"), "acme/pictures", "adapter")
    report = check(str(folder), options=options(pictured, seed=0))
    assert [(row.claim.base, row.verdict.label) for row in report.rows] == [("acme/pictures", "VERIFIED adapter")]
    assert (report.exit_code, report.notes) == (ExitCode.VERIFIED, ())
    assert check(str(pictured / "fern/new")).rows == ()
    save_file({"x.weight": torch.ones(2, 2)}, folder / "whole.safetensors")
    report = check(str(folder), options=options(pictured, seed=0))
    assert [row.verdict.code for row in report.rows] == ["adapter", "unsupported"]
    assert report.rows[1].verdict.reason.endswith("may come from elsewhere: whole.safetensors")
    assert report.exit_code == ExitCode.UNDECIDED


def test_of_a_file_for_several_models_each_is_judged_on_its_own_or_the_named(pictured, tmp_path):
    (row,) = compare(str(pictured / "acme/pictures/unet"), str(pictured / "fern/flat"), OPTIONS).rows
    assert row.verdict.label == "VERIFIED adapter"
    tensors = load_file(pictured / "fern/flat/style.safetensors")
    tensors |= {"lora_te_x.lora_down.weight": torch.ones(2, 4), "lora_te_x.lora_up.weight": torch.ones(4, 2)}
    save_file(tensors, tmp_path / "both.safetensors")
    rows = {row.part: row.verdict for row in compare(str(pictured / "acme/pictures"), str(tmp_path), OPTIONS).rows}
    assert rows["both.safetensors"].label == "VERIFIED adapter"
    assert rows["both.safetensors: text_encoder"].code == "unsupported"
    assert "has no folder text_encoder" in rows["both.safetensors: text_encoder"].reason


def test_a_flattened_name_of_several_matrices_decides_nothing(tmp_path):
    again = {"extra.a_b.weight": torch.ones(4, 4), "extra_a.b.weight": torch.ones(4, 4)}
    base = spoil(tiny_llama(tmp_path / "base"), lambda tensors: tensors.update(again))
    (tmp_path / "lora").mkdir()
    name = "lora_unet_extra_a_b.lora_{}.weight"
    factors = {name.format("down"): torch.ones(2, 4), name.format("up"): torch.ones(4, 2)}
    save_file(factors, tmp_path / "lora" / "style.safetensors")
    (row,) = compare(str(base), str(tmp_path / "lora")).rows
    assert row.verdict.code == "ambiguous"
    assert "and several matrices of " in row.verdict.reason
    assert row.verdict.reason.endswith("may be meant")


@pytest.mark.long
def test_a_class_that_peft_alone_adapts_is_found_in_attention_to_the_text_too(tmp_path):
    bases = [tmp_path / str(seed) for seed in range(2)]
    model, _ = (pictures.pixart(folder, seed) for seed, folder in enumerate(bases))
    adapter = pictures.pixart_adapter(model, tmp_path / "adapter")
    own, other = (compare(str(base), str(adapter)).rows[0].verdict for base in bases)
    assert (own.label, own.trace.p_value) == ("VERIFIED adapter", 0.0005)
    assert own.trace.roles.count("value") == 8
    assert other.trace.p_value > 0.01


@pytest.fixture(scope="module")
def adapters(tmp_path_factory):
    """A LoRA on the example base and one on another model, each in a folder that names the example base."""
    root = tmp_path_factory.mktemp("several")
    for name, base in (("french", BASE), ("german", OTHER)):
        trained(EXAMPLES / base, root / name, target_modules=["v_proj", "o_proj"])
        edit_json(root / name / ADAPTER_CONFIG, base_model_name_or_path=BASE)
    return root


def test_adapters_in_folders_are_judged_one_by_one_and_each_may_be_named(adapters):
    report = check(str(adapters), options=OPTIONS)
    assert rows(report) == [(BASE, "french", "adapter"), (BASE, "german", "unrelated")]
    assert report.exit_code == ExitCode.UNRELATED
    others = rows(compare(str(EXAMPLES / OTHER), str(adapters), OPTIONS))
    assert [other[1:] for other in others] == [("french", "unrelated"), ("german", "adapter")]
    (row,) = check(str(adapters), options=options(EXAMPLES, seed=0, subfolder="french")).rows
    assert row.verdict.label == "VERIFIED adapter"


@pytest.mark.parametrize(
    ("bases", "of_card", "expected"),
    NAMED_BASES,
    ids=["each on the base that it names", "one of the card that no folder names", "one that cannot be followed"],
)
def test_a_folder_is_judged_on_its_base_or_on_that_of_the_card(adapters, tmp_path, bases, of_card, expected):
    for name, base in bases.items():
        shutil.copytree(adapters / name, tmp_path / name)
        edit_json(tmp_path / name / ADAPTER_CONFIG, base_model_name_or_path=base)
    report = check(str(card(tmp_path, of_card, "adapter")), options=OPTIONS)
    assert rows(report) == expected
    assert (report.exit_code == ExitCode.VERIFIED) is all(code == "adapter" for *_, code in expected)


@pytest.fixture
def several(tmp_path):
    for name in ("a", "b", "c"):
        written(tmp_path / "lora" / name, pair(UP, 48, 32))
    return tiny_llama(tmp_path / "base"), tmp_path / "lora"


def test_an_adapter_that_is_damaged_hides_no_other(several):
    base, root = several
    edit_json(root / "b" / ADAPTER_CONFIG, r=0)
    stored = root / "c" / "adapter_model.safetensors"
    save_file({name: tensor.fill_(torch.nan) for name, tensor in load_file(stored).items()}, stored)
    report = check(str(root), [str(base)])
    named = [row.verdict.code for row in report.rows]
    assert named == ["inconclusive", "damaged", "damaged"]
    assert report.exit_code == ExitCode.ERROR
    shutil.rmtree(root / "a")
    shutil.rmtree(root / "c")
    with pytest.raises(CheckpointError, match="gives the rank 0"):
        check(str(root), [str(base)])


def test_of_very_many_adapters_some_are_judged_and_earlier_states_of_training_not(several, monkeypatch):
    base, root = several
    with monkeypatch.context() as few:
        few.setattr("hf_lineage.source.contents.MOST", 2)
        *some, others = check(str(root), [str(base)]).rows
    assert [row.part for row in some] == ["a", "b"]
    told = "other weights of the repository may come from elsewhere: c"
    assert (others.verdict.code, others.verdict.reason) == ("unsupported", told)
    for old, new in (("a", "checkpoint-9"), ("b", "checkpoint-10"), ("c", "final")):
        (root / old).rename(root / new)
    report = check(str(root), [str(base)])
    assert [row.part for row in report.rows] == ["final", "checkpoint-10"]
    assert report.notes == ("1 earlier states of training, such as checkpoint-9, were not judged",)
    written(root, pair(UP, 48, 32))
    assert [row.part for row in check(str(root), [str(base)]).rows] == ["", "final"]


@pytest.mark.long
def test_a_model_in_a_folder_beside_adapters_is_judged_as_well_or_said(pictured, adapters, tmp_path):
    root = shutil.copytree(adapters, tmp_path / "several")
    shutil.copytree(EXAMPLES / OTHER, root / "model")
    expected = [("french", "adapter"), ("german", "unrelated"), ("model", "unrelated")]
    rows = check(str(root), [str(EXAMPLES / BASE)], Options(seed=0)).rows
    assert [(row.part, row.verdict.code) for row in rows] == expected
    compared = compare(str(EXAMPLES / BASE), str(root), Options(seed=0)).rows
    assert [row.part for row in compared] == [row.part for row in rows]
    files, base = shutil.copytree(pictured / "fern/flat", tmp_path / "flat"), str(pictured / "acme/pictures")
    shutil.copytree(EXAMPLES / OTHER, files / "model")
    _, said = check(str(files), [base], Options(seed=0)).rows
    assert said.verdict.reason.endswith("may come from elsewhere: model")
    shutil.rmtree(files / "model")
    shutil.copy(files / "style.safetensors", files / "b.safetensors")  # one of several files can be named
    assert [row.part for row in compare(base, str(files)).rows] == ["b.safetensors", "style.safetensors"]
    assert [row.part for row in compare(base, str(files), Options(file="b.safetensors")).rows] == ["b.safetensors"]


@pytest.mark.long
def test_on_the_hub_adapters_in_folders_are_found(online, adapters):
    online.publish("fern/several", adapters)
    report = check("fern/several", options=Options(seed=0))
    assert rows(report) == [(BASE, "french", "adapter"), (BASE, "german", "unrelated")]
    (row,) = check("fern/several/french", options=Options(seed=0)).rows
    assert (row.part, row.verdict.label) == ("french", "VERIFIED adapter")


@pytest.fixture
def blends(tmp_path):
    """A local hub of a base, its fine-tune and the blend of both, whose card names the base alone."""
    for name in (BASE, B):
        shutil.copytree(EXAMPLES / name, tmp_path / name)
    blended(tmp_path / "wren/rio", {BASE: 0.43, B: 0.57})
    return tmp_path


def asked(hub, *bases, model="wren/rio"):
    return check(model, (BASE, *bases), options(hub, seed=0))


def told(report):
    return " ".join(report.to_text(explain=True).split())


@pytest.mark.long
def test_a_copy_of_a_parent_hides_nobody_and_of_three_on_a_line_two_have_shares(blends):
    shutil.copytree(blends / B, blends / "mirror/of-b")
    report = asked(blends, "mirror/of-b", B)
    assert (report.undeclared, report.exit_code) == (("mirror/of-b",), 3)
    assert f"what {B} gave cannot be told: it equals another parent, or a combination of others" in told(report)
    card(blends / "wren/rio", [BASE, "mirror/of-b"], "merge")
    report = asked(blends, B, "mirror/of-b")
    assert (report.undeclared, report.exit_code) == ((), 0)
    for name, share in (("wren/half", 0.5), ("wren/rio32", 0.57)):
        blended(blends / name, {BASE: 1 - share, B: share}, torch.float32)
    report = asked(blends, B, "wren/half", model="wren/rio32")
    assert report.undeclared == (B,)
    assert "what wren/half gave cannot be told: it equals another parent, or a combination of others" in told(report)
    assert "the weights do not tell whether the model is a blend with" in told(report)
    assert asked(blends, "wren/half").undeclared == (), "further along the line is no blend"


@pytest.mark.long
def test_parents_that_cannot_be_read_or_have_other_shapes_cost_no_number(blends, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    tiny_llama(blends / "bad/wide", seed=5, width=64)
    (tiny_llama(blends / "bad/gone") / WEIGHTS).unlink()
    shutil.copytree(blends / B, blends / "bad/cut")
    with (blends / "bad/cut" / WEIGHTS).open("r+b") as stream:
        stream.truncate(1000)
    for number in range(5):
        fine_tuned(blends / B, blends / f"kin/{number}", noise=0.3, seed=number)
    bad, kin = ("bad/wide", "bad/gone", "bad/cut", "bad/nowhere"), [f"kin/{number}" for number in range(5)]
    report = asked(blends, B, *bad, *kin)
    assert report.undeclared == (B,)
    assert [row.verdict.is_related for row in report.rows[2:6]] == [False] * 4
    shares = dict(zip(report.blended.parents, report.blended.blend.shares.parents, strict=True))
    assert (shares[BASE].value, shares[B].value) == pytest.approx((0.43, 0.57), abs=0.01)
    assert report.exit_code == 2, "a base that is damaged outranks what is not declared"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.few(1)
def test_one_adapter_that_two_people_merged_at_other_strengths_makes_nobody_a_parent(tmp_path, monkeypatch, dtype):
    shutil.copytree(EXAMPLES / BASE, tmp_path / BASE)
    base, factors = load_file(EXAMPLES / BASE / WEIGHTS), load_file(EXAMPLES / "fern/llama-lora" / ADAPTER)

    def merged(folder, strength):
        tensors = {name: tensor.float() for name, tensor in base.items()}
        for name, down in factors.items():
            if ".lora_A." in name:
                key = name.removeprefix("base_model.model.").replace(".lora_A", "")
                tensors[key] += strength * factors[name.replace("lora_A", "lora_B")].float() @ down.float()
        shutil.copytree(EXAMPLES / BASE, folder, ignore=shutil.ignore_patterns("README.md"))
        save_file({name: tensor.to(dtype) for name, tensor in tensors.items()}, folder / WEIGHTS)
        return card(folder, [BASE], "finetune")

    merged(tmp_path / "wren/twice", 2.0)
    merged(tmp_path / "robin/once", 1.0)
    report = asked(tmp_path, "wren/twice", model="robin/once")
    assert (report.undeclared, report.exit_code) == ((), 0)
    assert "as one adapter that was merged at several strengths" in told(report)
    assert "nothing was trained after" not in told(report)
    if dtype is torch.float32:
        monkeypatch.setattr("hf_lineage.evidence.merge.is_low_rank", lambda *_: False)
        assert asked(tmp_path, "wren/twice", model="robin/once").undeclared == ("wren/twice",)
