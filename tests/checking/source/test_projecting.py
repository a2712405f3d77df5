"""The tower of the base in a part that nothing uses is never verified, whichever way it is cut off."""

import json
import shutil

import pytest
import torch

from hf_lineage import Options, check
from hf_lineage.architecture.registry import registry_table
from hf_lineage.checking.source.components import PARTS, Parts, parts_of_model
from hf_lineage.checking.source.opening import headers
from hf_lineage.hub import resolve
from tests.long import first_of
from tests.models import card, edit_json, fine_tuned, spoil
from tests.parts import saved

NAME = "LlavaForConditionalGeneration"
FIRST, SECOND = (f"multi_modal_projector.linear_{number}" for number in (1, 2))
DEEP = {"num_hidden_layers": 4}


def drawn(folder, seed, within=""):
    """Numbers as at the start of a training in every matrix under a name, and none in biases."""

    def draw(tensors):
        torch.manual_seed(seed)
        for name, tensor in tensors.items():
            numbers = torch.randn(tensor.shape) / max(tensor.shape[-1], 1) ** 0.5
            if within in name and tensor.ndim > 1:
                tensors[name] = numbers

    return spoil(folder, draw)


def deepened(folder):
    """The same model with four layers in its tower."""

    def deepen(tensors):
        for name in [name for name in tensors if "vision" in name and ".layers.0." in name]:
            for number in range(1, 4):
                tensors[name.replace(".layers.0.", f".layers.{number}.")] = tensors[name].clone()

    spoil(folder, deepen)
    said = json.loads((folder / "config.json").read_text())["vision_config"]
    edit_json(folder / "config.json", vision_config=said | DEEP, vision_feature_layer=-1)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A base, and a model with a language model of its own and the tower of the base, trained a little further."""
    folder = tmp_path_factory.mktemp("made")
    base = drawn(deepened(saved(NAME, folder / "base").folder), 1)
    fine_tuned(base, folder / "child", noise=0.02)
    return folder


@pytest.fixture
def hub(made, tmp_path):
    shutil.copytree(made / "base", tmp_path / "hub/acme/base")
    shutil.copytree(made / "child", tmp_path / "hub/fern/child")
    card(tmp_path / "hub/fern/child", "acme/base")
    return tmp_path / "hub"


def vision(hub):
    (row,) = [row for row in check("fern/child", options=Options(local_hub=hub)).rows if row.part == "vision"]
    return row


def test_a_tower_that_is_used_is_verified(hub):
    row = vision(hub)
    assert (row.verdict.name, row.verdict.verified, row.layers) == ("RELATED", True, 4)


def few(tensors):
    """Zeros with a few numbers above the smallest that count."""
    for name in (f"{FIRST}.weight", f"{SECOND}.weight"):
        tensors[name] = torch.zeros_like(tensors[name])
        tensors[name].view(-1)[:5] = 1e-3


def one_loud(tensors):
    tensors[f"{SECOND}.weight"] = torch.zeros_like(tensors[f"{SECOND}.weight"])
    tensors[f"{SECOND}.weight"][0, 0] = 1e4


def one_direction(tensors):
    """Every column alike: of what the tower gives out only the sum is read, which norms take out."""
    tensors[f"{FIRST}.weight"] = tensors[f"{FIRST}.weight"][:, :1].repeat(1, tensors[f"{FIRST}.weight"].shape[1])


def tiny(tensors):
    for name in (f"{FIRST}.weight", f"{SECOND}.weight"):
        tensors[name] *= 1e-5


def drowned(tensors):
    tensors[f"{SECOND}.bias"] = torch.full_like(tensors[f"{SECOND}.bias"], 1e3)


def held_back(tensors):
    """A bias below which the activation gives nothing."""
    rows = tensors[f"{FIRST}.weight"].norm(dim=1)
    tensors[f"{FIRST}.bias"] = -6 * rows


def past_each_other(tensors):
    """Half of the units between are written, and the other half is read."""
    half = len(tensors[f"{FIRST}.weight"]) // 2
    tensors[f"{FIRST}.weight"][:half] = 0
    tensors[f"{SECOND}.weight"][:, half:] = 0


def far_from_finite(tensors):
    tensors[f"{SECOND}.weight"][:] = float("inf")


def blind(tensors):
    """A tower whose pictures never reach it."""
    for name in [name for name in tensors if "patch_embed" in name]:
        tensors[name] = torch.zeros_like(tensors[name])


@pytest.mark.parametrize(
    "attack",
    [few, one_loud, one_direction, tiny, drowned, held_back, past_each_other, far_from_finite, blind],
    ids=lambda attack: attack.__name__,
)
def test_a_tower_behind_a_projector_that_lets_next_to_nothing_through_is_not_verified(hub, attack):
    spoil(hub / "fern/child", attack)
    row = vision(hub)
    assert (row.verdict.name, row.verdict.verified) == ("INCONCLUSIVE", False)
    assert "so that what the part gives out is not used" in row.verdict.reason


@pytest.mark.parametrize(
    ("name", "tensor", "word"),
    [
        (f"{FIRST}.weight", torch.zeros(0, 32), "INCONCLUSIVE"),
        (f"{FIRST}.weight", torch.full((32, 32), 1e300, dtype=torch.float64), "INCONCLUSIVE"),
        (f"{SECOND}.bias", torch.full((32,), float("nan")), "INCONCLUSIVE"),
        (f"{SECOND}.bias", torch.full((32,), 1e300, dtype=torch.float64), "INCONCLUSIVE"),
        (f"{FIRST}.bias", torch.ones(5, 5), "RELATED"),
        ("multi_modal_projector.norm.weight", torch.zeros(0), "RELATED"),
        ("multi_modal_projector.norm.weight", torch.tensor(1.0), "RELATED"),
        ("multi_modal_projector.more.weight", torch.ones(2, 3, 4, 5), "RELATED"),
        ("model.embed_tokens.weight", torch.full((64, 32), float("inf")), "INCONCLUSIVE"),
        ("model.embed_tokens.weight", torch.full((64, 32), 1e-3), "RELATED"),
        ("other.embed_tokens.weight", torch.zeros(0, 32), "INCONCLUSIVE"),
    ],
)
def test_whatever_stands_in_a_projector_is_told_and_no_error(hub, name, tensor, word):
    spoil(hub / "fern/child", lambda tensors: tensors.update({name: tensor}))
    assert vision(hub).verdict.name == word


def test_what_is_written_counts_beside_the_words_that_it_joins(hub):
    """Vectors that would do beside words of a usual length do not beside words that are a million times as long."""

    def loud(tensors):
        for name in tensors:
            if name.endswith("embed_tokens.weight"):
                tensors[name] *= 1e6

    spoil(hub / "fern/child", loud)
    assert "and the rows of the embedding have" in vision(hub).verdict.reason


@pytest.mark.parametrize("scale", [0.1, 10.0])
def test_a_projector_of_another_size_is_used(hub, scale):
    def scaled(tensors):
        for name in (f"{FIRST}.weight", f"{SECOND}.weight"):
            tensors[name] *= scale

    spoil(hub / "fern/child", scaled)
    assert vision(hub).verdict.verified


def test_layers_that_the_rest_of_the_model_never_reads_do_not_count(hub):
    """Two layers of its own in front of those of the base, which the model stores and never reads."""
    spoil(
        hub / "fern/child",
        lambda tensors: tensors.update(
            {
                name: torch.randn_like(tensor) / tensor.shape[-1] ** 0.5
                for name, tensor in tensors.items()
                if tensor.ndim > 1 and "vision" in name and any(f".layers.{n}." in name for n in (0, 1))
            }
        ),
    )
    edit_json(hub / "fern/child/config.json", vision_feature_layer=2)
    row = vision(hub)
    assert (row.verdict.words, row.verdict.verified, row.layers) == ("RELATED by the basis only", False, 2)
    assert "fern/child/vision: the last 2 layers are not used by the rest of the model" in " ".join(row.notes)


@pytest.mark.parametrize(("said", "layers"), [(-2, 3), ([-2, 1], 3), (4, 4), ([0, -4], 1)])
def test_a_tower_is_read_up_to_the_last_layer_that_is_used(hub, said, layers):
    for name in ("acme/base", "fern/child"):
        edit_json(hub / name / "config.json", vision_feature_layer=said)
    assert vision(hub).layers == layers


@pytest.mark.parametrize("said", [0, [0], [], True, "x", 5, -6, [1, None], {"a": 1}])
def test_a_setting_that_names_no_layer_leaves_nothing_to_compare(hub, said):
    edit_json(hub / "fern/child/config.json", vision_feature_layer=said)
    row = vision(hub)
    assert row.verdict.name == "UNVERIFIABLE"
    assert "none of the 4 layers of the part is read" in row.verdict.reason


def test_of_several_layers_side_by_side_each_has_to_be_read(hub):
    """A projector that reads the first layer alone, beside a copy of the last one of the base."""

    def wide(tensors):
        first = tensors[f"{FIRST}.weight"]
        tensors[f"{FIRST}.weight"] = torch.cat([first, first.flip(0)], dim=1)

    def half(tensors):
        tensors[f"{FIRST}.weight"][:, tensors[f"{FIRST}.weight"].shape[1] // 2 :] = 0

    for name in ("acme/base", "fern/child"):
        edit_json(hub / name / "config.json", vision_feature_layer=[1, 4])
        spoil(hub / name, wide)
    assert vision(hub).verdict.verified
    spoil(hub / "fern/child", half)
    assert (vision(hub).verdict.name, vision(hub).verdict.verified) == ("INCONCLUSIVE", False)


def test_what_a_class_says_where_its_configuration_is_silent(hub):
    config = json.loads((hub / "fern/child/config.json").read_text())
    del config["vision_feature_layer"]
    (hub / "fern/child/config.json").write_text(json.dumps(config))
    assert vision(hub).layers == 3


def reasons(folder):
    """Why the part beside the language model is not used, of a model in a folder."""
    return [
        reason
        for part in parts_of_model(resolve(str(folder)), read=True)
        if part.part in ("vision", "audio")
        for reason in headers(part).reservations
    ]


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("Qwen2_5_VLForConditionalGeneration", "merger.mlp.2.weight"),
        ("Gemma3ForConditionalGeneration", "mm_input_projection_weight"),
        ("Mistral3ForConditionalGeneration", "multi_modal_projector.linear_2.weight"),
        ("Qwen2AudioForConditionalGeneration", "multi_modal_projector.linear.weight"),
        ("GlmOcrForConditionalGeneration", "merger.down_proj.weight"),
        ("Idefics3ForConditionalGeneration", "connector.modality_projection.proj.weight"),
    ],
)
@pytest.mark.few(2)
def test_a_projector_is_found_wherever_a_class_has_it(tmp_path, name, end):
    folder = saved(name, tmp_path / "model").folder
    assert reasons(folder) == []

    def few_numbers(tensors):
        (found,) = [name for name in tensors if name.endswith(end)]
        tensors[found] = torch.zeros_like(tensors[found])
        tensors[found].view(-1)[:3] = 1.0

    spoil(folder, few_numbers)
    (reason,) = reasons(folder)
    assert end in reason


@pytest.mark.parametrize(("number", "silent"), [(0.0, False), (-1.0, True)])
def test_a_norm_that_multiplies_with_one_more_than_it_stores_is_read_so(tmp_path, number, silent):
    folder = saved("Gemma3ForConditionalGeneration", tmp_path / "model").folder

    def fill(tensors):
        for name in tensors:
            if name.endswith("mm_soft_emb_norm.weight"):
                tensors[name] = torch.full_like(tensors[name], number)

    spoil(folder, fill)
    assert [("mm_soft_emb_norm.weight multiplies with zeros" in reason) for reason in reasons(folder)] == [
        True
    ] * silent


@pytest.mark.parametrize("name", ["BlipForConditionalGeneration", "VisionEncoderDecoderModel"])
def test_an_encoder_that_no_layer_of_the_decoder_reads_is_not_used(tmp_path, name):
    folder = saved(name, tmp_path / "model").folder
    (part,) = [part for part in parts_of_model(resolve(str(folder)), read=True) if part.part in ("vision", "encoder")]
    layer = "decoder.layer.{}.crossattention.self.value.weight"

    def with_cross_attention(tensors):
        for number in range(2):
            tensors[layer.format(number)] = torch.randn(32, 32)
        for key in [key for key in tensors if "crossattention" in key and tensors[key].ndim > 1]:
            tensors[key] = torch.randn(tensors[key].shape)

    def silence(tensors):
        for key in [key for key in tensors if "crossattention" in key and key.endswith("value.weight")]:
            tensors[key] = torch.zeros_like(tensors[key])
            tensors[key][0, 0] = 1.0

    spoil(folder, with_cross_attention)
    assert headers(part).reservations == ()
    spoil(folder, silence)
    assert headers(part).reservations == (
        "no layer of the decoder reads it, so that what the part gives out is not used",
    )


ROWS = [row.classes[0] for row in registry_table(PARTS, Parts).whole]
UNREAD = {"EncoderDecoderModel", "SpeechEncoderDecoderModel", "VisionEncoderDecoderModel"}
"""Whose tiny decoders have no layer that reads an encoder."""


@pytest.mark.parametrize("name", first_of({name: (name,) for name in sorted(ROWS, key=lambda name: name != NAME)}))
def test_no_part_of_a_model_as_it_is_at_the_start_of_a_training_is_called_unused(tmp_path, name):
    folder = saved(name, tmp_path / "model").folder
    if name.startswith("VipLlava"):
        edit_json(folder / "config.json", vision_feature_layer=[1, 2])
    stated = [
        reason for part in parts_of_model(resolve(str(folder)), read=True) for reason in headers(part).reservations
    ]
    assert any("is not used" in reason for reason in stated) == (name in UNREAD)
