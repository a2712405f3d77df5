"""Quantized models: copies are RELATED and others are not in any format; whatever is damaged is one of our errors."""

import json
import math
import tracemalloc
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save

from hf_lineage.hub.repo import RepoRef
from tests.checkpoint.formats import test_bitsandbytes as test_bnb
from tests.checkpoint.formats import test_compressed_tensors as test_compressed
from tests.checkpoint.formats import test_grouped, test_hqq, test_scaled, test_torchao
from tests.fuzzing.changes import changed
from tests.fuzzing.readers import only_ours, parted
from tests.models import WEIGHTS, open_checkpoint, raw_safetensors
from tests.properties import cases
from tests.quantizing import BASE, INDEPENDENT, put, refused, repacked, verdict

FORMATS = {
    "GPTQ": (test_grouped.gptq(), test_grouped.settings(), 0.95),
    "AWQ": (test_grouped.awq(), test_grouped.AWQ, 0.95),
    "NF4": (test_bnb.four_bits(), test_bnb.FOUR, 0.95),
    "FP8": (test_scaled.whole, test_scaled.FP8, 0.99),
    "NVFP4 of modelopt": (test_scaled.nvfp4, test_scaled.MODELOPT, 0.9),
    "pack-quantized": (*test_compressed.case("4 bits, groups"), 0.9),
    "HQQ": (test_hqq.hqq(), test_hqq.SETTINGS, 0.95),
    "BitNet": (test_torchao.bitnet(), test_torchao.BITNET, 0.75),
    "AutoRound": (*test_grouped.PACKS["GPTQ's layout"], 0.95),
    "torchao": (test_torchao.rows(torch.int8), test_torchao.TORCHAO, 0.99),
    "quanto": (test_torchao.quanto(torch.int8), {}, 0.99),
    "MLX": (test_hqq.mlx(4), {"bits": 4, "group_size": 32}, 0.95),
}
"""A packing, its settings and the least score; that numbers are decoded as the library does is shown of each."""
MOST_MEMORY = 2**22
"""Bytes that may be held at a time for matrices of a few thousand numbers."""
MATRIX = torch.randn(64, 96, generator=torch.Generator().manual_seed(0)) / 10
BY_SIZE = {8: "F64 I64", 4: "F32 I32 U32", 2: "F16 BF16 I16", 1: "F8_E4M3 F8_E8M0 I8 U8"}
SIZES = {name: size for size, names in BY_SIZE.items() for name in names.split()}
TWO = (MATRIX, 2 * MATRIX)
EXPERTS = dict(zip(("_blocks", "_scales"), test_scaled.blocks_of_four_bits(torch.stack(TWO).mT), strict=True))
IN_BLOCKS = [test_scaled.blocks(16, 32)(matrix) for matrix in TWO]
STACK = {end.removeprefix(".weight"): torch.stack([part[end] for part in IN_BLOCKS]) for end in IN_BLOCKS[0]}
ALIKE = ("NVFP4 of modelopt", "BitNet", "torchao", "HQQ", "AutoRound", "quanto", "MLX")
MODULES = (test_bnb, test_compressed, test_scaled, test_grouped, test_hqq, test_torchao)
DAMAGED = [row for module in MODULES for row in module.DAMAGED]
"""A packing, its settings, the name of a part and what is put there, and what is said of it."""


@pytest.mark.parametrize(("pack", "settings", "name", "part", "message"), DAMAGED)
def test_what_does_not_fit_is_one_clear_line(pack, settings, name, part, message, tmp_path):
    error = refused(tmp_path, pack, settings, part if callable(part) else put(name, part))
    kind = message.partition(": ")[0] if ": org/model" in message else "CheckpointError"
    assert error.startswith(f"{kind}: ")
    assert message in error


@pytest.mark.few(1)
@pytest.mark.parametrize(("pack", "settings", "least"), FORMATS.values(), ids=FORMATS)
def test_a_quantized_copy_is_related_and_an_independent_model_is_not(pack, settings, least, tmp_path):
    outcome = verdict(BASE, repacked(BASE, tmp_path / "child", pack, **settings))
    assert outcome.code == "inherited", outcome.reason
    assert outcome.evidence["mlp"].comparison.score > least
    assert verdict(BASE, repacked(INDEPENDENT, tmp_path / "other", pack, **settings)).code == "unrelated"


def packed(pack, settings, *_):
    return pack(MATRIX), settings


MODELS = {
    "FP8 blocks": packed(*test_scaled.PACKS["blocks"]),
    "MXFP8": packed(*test_scaled.PACKS["MXFP8"]),
    "GPTQ": packed(test_grouped.gptq(order=True), test_grouped.settings(order=True)),
    "GPTQ, 3 bits": packed(test_grouped.gptq(bits=3), test_grouped.settings(bits=3) | {"dynamic": {}}),
    "AWQ": packed(*FORMATS["AWQ"]),
    "NF4": packed(test_bnb.four_bits(nested=True), test_bnb.FOUR),
    "int8": packed(test_bnb.eight_bits, test_bnb.EIGHT),
    "pack-quantized": packed(*test_compressed.case("4 bits, groups, zero points")),
    "float-quantized": packed(*test_compressed.case("FP8, rows")),
    "NVFP4": packed(*test_compressed.case("NVFP4")),
    "gpt-oss": (EXPERTS, {"quant_method": "mxfp4"}),
    "FP8 in a stack": (STACK, test_scaled.PACKS["blocks"][1]),
    "HQQ, 3 bits": packed(test_hqq.hqq(3), test_hqq.SETTINGS),
    "AutoRound as AWQ": packed(*test_grouped.PACKS["AWQ's layout"]),
} | {name: packed(*FORMATS[name]) for name in ALIKE}


def written(header, data, random):
    """A few changes to the tensors of a model: to their names, number formats, shapes and bytes."""
    entries = {key: entry for key, entry in header.items() if key != "__metadata__"}
    tensors = {key: (one["dtype"], one["shape"], data[slice(*one["data_offsets"])]) for key, one in entries.items()}
    for _ in range(random.randrange(3)):
        key = random.choice(sorted(tensors))
        dtype, shape, content = tensors.pop(key)
        how = random.randrange(6)
        if how == 0 and tensors:
            continue
        if how == 1:
            key = random.choice((key.replace(".0.", ".1."), key + "x", key.replace("weight", "qweight"), key[:-1]))
        elif how == 2:
            dtype = random.choice([other for other, size in SIZES.items() if size == SIZES[dtype]])
        elif how == 3:
            shape = random.choice((shape[::-1], [math.prod(shape)], [1, *shape], [*shape, 1]))
        elif how == 4:
            shape = [random.choice((0, 1, 2, 3, 8, 32, 64, 96, 97)) for _ in range(random.choice((0, 1, 2, 2)))]
            content = np.random.default_rng(0).bytes(math.prod(shape) * SIZES[dtype])
        else:
            content = random.choice((random.randbytes(len(content)), b"\xff" * len(content), bytes(len(content))))
        tensors[key] = (dtype, shape, content)
    made, begin, ordered = {}, 0, sorted(tensors.items(), key=lambda item: -SIZES[item[1][0]])
    for key, (dtype, shape, content) in ordered:
        made[key] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, begin := begin + len(content)]}
    return made, b"".join(content for _, (_, _, content) in ordered)


class Case:
    """A quantized model in a folder, changed a little by what a generator says, and read."""

    def __init__(self, folder, name):
        parts, self.settings = MODELS[name]
        start = f"model.layers.0.mlp.{'experts.down' if {'', '_blocks'} & parts.keys() else 'up'}_proj"
        tensors = {f"{start}{end}": part.contiguous() for end, part in parts.items()}
        self.header, self.data = parted(save({**tensors, "model.norm.weight": torch.ones(96)}))
        self.folder = folder

    def change(self, random):
        stated = changed(random, self.settings) if random.randrange(3) == 0 else self.settings
        (self.folder / "config.json").write_text(json.dumps({"quantization_config": stated}))
        raw_safetensors(self.folder / WEIGHTS, *written(self.header, self.data, random))

    def read(self, _=b""):
        config = json.loads((self.folder / "config.json").read_text())
        checkpoint = open_checkpoint(RepoRef("org/model", self.folder), config)
        for tensor, info in checkpoint.tensors.items():
            if not info.refusal:
                assert checkpoint.read(tensor).shape == info.shape


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.few(8)
def test_one_of_our_errors_comes_out_or_a_tensor_of_its_shape(name, tmp_path):
    case, outcomes = Case(tmp_path, name), set()

    @cases(80)
    @given(st.randoms(use_true_random=True))
    def run(random: Random):
        case.change(random)
        outcomes.add(only_ours(case.read, b""))

    run()
    assert outcomes == {"value", "CheckpointError", "NothingToCompare"}


@pytest.mark.parametrize("name", MODELS)
def test_little_memory_is_taken(name, tmp_path):
    case = Case(tmp_path, name)
    for seed in range(10):
        case.change(Random(seed))
        tracemalloc.start()
        only_ours(case.read, b"")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < MOST_MEMORY
