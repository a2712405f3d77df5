"""Steps: the formats in which people store the weights of a model before they publish it."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from tests import gguf_models
from tests.checkpoint.formats import test_awq as awq
from tests.checkpoint.formats import test_bitsandbytes as bnb
from tests.checkpoint.formats import test_fp8 as fp8
from tests.checkpoint.formats import test_gptq as gptq
from tests.checkpoint.formats import test_mlx as mlx
from tests.checkpoint.formats import test_torchao as torchao
from tests.models import WEIGHTS, spoil
from tests.quantizing import repacked

Step = Callable[[Path], object]


def apart(folder: Path) -> Path:
    """The model of a folder in a folder beside it; the folder itself is gone."""
    return Path(shutil.move(folder, folder.with_name("plain")))


def packed(pack: Any, **settings: Any) -> Step:
    """A step that stores the matrices of the layers as a format of quantization does."""

    def change(folder: Path) -> None:
        plain = apart(folder)
        repacked(plain, folder, pack, **settings)
        shutil.rmtree(plain)

    return change


def eight_bit_mlx(folder: Path) -> None:
    plain = apart(folder)
    mlx.released(plain, folder, bits=8)
    shutil.rmtree(plain)


def cast(dtype: torch.dtype) -> Step:
    """A step that stores every matrix as numbers of another type."""

    def change(tensors: dict) -> None:
        for name in list(tensors):
            tensors[name] = tensors[name].to(dtype) if tensors[name].ndim > 1 else tensors[name]

    return lambda folder: spoil(folder, change)


def as_gguf(*kinds: str, config: bool = False, said: Mapping[str, str] | None = None) -> Step:
    """A step that leaves nothing but GGUF files of these types, and perhaps a `config.json`, with such metadata."""

    def change(folder: Path) -> None:
        plain = apart(folder)
        for kind in kinds:
            gguf_models.write(plain, folder / f"model-{kind}.gguf", kind=getattr(gguf_models.KINDS, kind), said=said)
        if config:
            shutil.copy(plain / "config.json", folder)
        shutil.rmtree(plain)

    return change


def codes(matrix: torch.Tensor) -> torch.Tensor:
    """Integers in place of a matrix, which only the library of their format can decode."""
    return matrix.to(torch.int32)


def only(name: str) -> Step:
    """A step that leaves a file of another framework in place of the weights."""
    return lambda folder: (folder / WEIGHTS).rename(folder / name)


STEPS: dict[str, Step] = {
    "awq": packed(awq.awq(), **awq.AWQ),
    "bnb_four_bits": packed(bnb.four_bits(), **bnb.FOUR),
    "bnb_eight_bits": packed(bnb.eight_bits, **bnb.EIGHT),
    "bfloat16": cast(torch.bfloat16),
    "float8": cast(torch.float8_e4m3fn),
    "float16": cast(torch.float16),
    "flax": only("flax_model.msgpack"),
    "fp8": packed(fp8.whole, **fp8.FP8),
    "fp8_blocks": packed(fp8.blocks(16, 32), **fp8.FP8, weight_block_size=[16, 32]),
    "gguf": as_gguf("F16", config=True),
    "gguf_alone": as_gguf("F32"),
    "gguf_eight_bits": as_gguf("Q8_0"),
    "gguf_of_its_own_word": as_gguf("F16", said={"general.base_model.0.repo_url": "https://huggingface.co/acme/base"}),
    "gguf_source": as_gguf("F16", said={"general.source.huggingface.repository": "acme/base"}),
    "gguf_several": as_gguf("Q4_0", "Q8_0"),
    "gptq": packed(gptq.gptq(), **gptq.settings()),
    "mlx": eight_bit_mlx,
    "tensorflow": only("tf_model.h5"),
    "torchao": packed(torchao.rows(torch.int8), **torchao.TORCHAO),
    "aqlm": packed(lambda matrix: {".codes": codes(matrix), ".codebooks": matrix[:1]}, quant_method="aqlm"),
    "exl2": packed(lambda matrix: {".q_weight": codes(matrix), ".q_groups": codes(matrix)}),
    "quip": packed(lambda matrix: {".Qidxs": codes(matrix)}),
}
"""The name in repositories.yaml -> the step."""
