"""The tower of the base in a part that nothing uses is never verified, whichever way it is cut off."""

import json
import shutil

import pytest
import torch

from hf_lineage import Options, check
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


def test_what_a_class_says_where_its_configuration_is_silent(hub):
    config = json.loads((hub / "fern/child/config.json").read_text())
    del config["vision_feature_layer"]
    (hub / "fern/child/config.json").write_text(json.dumps(config))
    assert vision(hub).layers == 3
