"""Reading adapters in files without a configuration, under the names of diffusers, of its past, and of kohya."""

import pytest
import torch
from safetensors.torch import save_file

from hf_lineage.checkpoint.open_files import open_file
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.repo import RepoRef
from hf_lineage.lora.adapter import is_lora_file, open_lora_file

FILE = "style.safetensors"
TO_V = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_v"
FLAT = TO_V.replace(".", "_")


def saved(folder, **tensors):
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / FILE)
    return RepoRef("org/adapter", folder)


def opened(folder, **tensors):
    return open_lora_file(saved(folder, **tensors), FILE)


def factors(first, second, rank=2, rows=6, columns=4):
    return {first: torch.ones(rank, columns), second: torch.ones(rows, rank)}


NEW = "unet.x.lora_A.weight", "unet.x.lora_B.weight"
OLD = factors("lora_unet_x.lora_down.weight", "lora_unet_x.lora_up.weight")


NAMES = [
    (f"unet.{TO_V}.lora_A.weight", f"unet.{TO_V}.lora_B.weight", TO_V),
    (f"transformer.{TO_V}.lora_A.default.weight", f"transformer.{TO_V}.lora_B.default.weight", TO_V),
    (f"base_model.model.{TO_V}.lora_A.weight", f"base_model.model.{TO_V}.lora_B.weight", TO_V),
    (f"unet.{TO_V}.lora.down.weight", f"unet.{TO_V}.lora.up.weight", TO_V),
    (f"{TO_V}.lora_linear_layer.down.weight", f"{TO_V}.lora_linear_layer.up.weight", TO_V),
    ("b.attn1.processor.to_q_lora.down.weight", "b.attn1.processor.to_q_lora.up.weight", "b.attn1.to_q"),
    ("b.attn1.processor.to_out_lora.down.weight", "b.attn1.processor.to_out_lora.up.weight", "b.attn1.to_out.0"),
    (f"lora_unet_{FLAT}.lora_down.weight", f"lora_unet_{FLAT}.lora_up.weight", FLAT),
    (f"lora_transformer_{FLAT}.lora_A.weight", f"lora_transformer_{FLAT}.lora_B.weight", FLAT),
]


@pytest.mark.parametrize(("first", "second", "module"), NAMES)
def test_factors_are_found_under_every_name(tmp_path, first, second, module):
    (lora,) = opened(tmp_path, **factors(first, second)).values()
    assert list(lora.modules) == [module]
    assert (lora.modules[module].first, lora.modules[module].second) == (first, second)
    assert (lora.modules[module].rank, lora.flattened, lora.others) == (2, module == FLAT, 0)
    assert lora.scale(module) == 1.0


FOLDERS = {
    "text_encoder.": "text_encoder",
    "text_encoder_2.": "text_encoder_2",
    "lora_te_": "text_encoder",
    "lora_te1_": "text_encoder",
    "lora_te2_": "text_encoder_2",
}


def test_every_model_of_a_pipeline_has_factors_and_scales_of_its_own(tmp_path):
    for start, folder in FOLDERS.items():
        mine = factors(f"{start}x.lora_down.weight", f"{start}x.lora_up.weight")
        loras = opened(tmp_path, **mine, **factors(*NEW))
        assert {name: list(lora.modules) for name, lora in loras.items()} == {folder: ["x"], "": ["x"]}
    for alpha in (torch.tensor(1.0), torch.tensor([1], dtype=torch.int64), torch.tensor(-1.0).half()):
        lora = opened(tmp_path, **OLD, **{"lora_unet_x.alpha": alpha})[""]
        assert (lora.scale("x"), lora.others) == (0.5, 0)
    for number in (torch.nan, torch.inf, 1e30):
        lora = opened(tmp_path, **OLD, **{"lora_unet_x.alpha": torch.tensor(number)})[""]
        with pytest.raises(CheckpointError, match=r"lora_unet_x.alpha is .*, which is not a scale"):
            lora.scale("x")


def test_magnitudes_and_convolutions_are_left_alone_and_a_model_is_no_adapter(tmp_path):
    more = {"lora_unet_x.dora_scale": torch.ones(6), "lora_unet_c.lora_down.weight": torch.ones(2, 4, 3, 3)}
    lora = opened(tmp_path, **OLD, **more, **{"lora_unet_c.lora_up.weight": torch.ones(6, 2, 1, 1)})[""]
    assert (lora.kind, lora.others, list(lora.modules)) == ("DoRA", 3, ["x"])
    assert not is_lora_file(open_file(saved(tmp_path, **{"unet.x.weight": torch.ones(2, 2)}), FILE))
    assert is_lora_file(open_file(saved(tmp_path, **{"lora_unet_x.hada_w1_a": torch.ones(2, 2)}), FILE))


REFUSED = {
    "alone": ({NEW[0]: torch.ones(2, 4)}, CheckpointError, "without its other factor"),
    "mismatched": ({NEW[0]: torch.ones(2, 4), NEW[1]: torch.ones(6, 3)}, CheckpointError, "do not"),
    "no rank": (factors(*NEW, rank=0), CheckpointError, "do not multiply"),
    "rank": (factors(*NEW, rank=2049), NothingToCompare, "a rank above 2048"),
    "twice": (
        factors(*NEW) | {"unet.x.lora.down.weight": torch.ones(2, 4)}, CheckpointError,
        "holds a factor of unet.x.lora.*weight twice",
    ),
    "two ways": (factors(*NEW) | OLD, NothingToCompare, "names the matrices of one model in two ways"),
    "LoHa": ({"lora_unet_x.hada_w1_a": torch.ones(2, 2)}, NothingToCompare, r"products of another form \(hada"),
    "LoKr": ({"lora_unet_x.lokr_w1": torch.ones(2, 2)}, NothingToCompare, r"products of another form \(lokr"),
    "none": ({"weight": torch.ones(2, 2)}, NothingToCompare, "holds no pair of LoRA factors"),
}  # fmt: skip


@pytest.mark.parametrize(("tensors", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_pair_of_factors_has_a_reason(tmp_path, tensors, error, message):
    with pytest.raises(error, match=message):
        opened(tmp_path, **tensors)


def test_a_file_of_very_many_names_is_refused_in_a_moment(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_lineage.lora.adapter.MOST_MODULES", 10)
    many = {}
    for number in range(11):
        many |= factors(f"unet.{number}.lora_A.weight", f"unet.{number}.lora_B.weight")
    with pytest.raises(NothingToCompare, match="more than 10 matrices"):
        opened(tmp_path, **many)
