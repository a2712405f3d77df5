"""Converted models, changed a little: their bytes, or what a field of a graph says."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import onnx
from onnx import helper

from tests import onnx_models
from tests.fuzzing.changes import spliced

KINDS = ("MatMulNBits", "MatMulInteger", "Gemm", "Mul", "If", "DequantizeLinear", "Transpose", "QLinearMatMul", "")
PATHS = (
    "",
    "/",
    "/model/layers.0/mlp/up_proj/MatMul",
    "/a/b" * 300,
    "../..",
    "/model/layers.999999/x/MatMul",
    "::error::",
)
KEYS = ("K", "N", "bits", "block_size", "transB", "alpha", "axis", "perm")
NUMBERS = (-1, 0, 1, 2, 4, 16, 2**31, 2**62, -(2**63))
SIZES = (0, 1, 2, 2**20, 2**40, 2**62)
CHANGES: tuple[Callable[[Random, onnx.NodeProto, onnx.TensorProto], Any], ...] = (
    lambda random, node, tensor: node.input.append(tensor.name),
    lambda random, node, tensor: node.input.pop() if node.input else None,
    lambda random, node, tensor: node.output.append("y"),
    lambda random, node, tensor: setattr(node, "op_type", random.choice(KINDS)),
    lambda random, node, tensor: setattr(node, "name", random.choice(PATHS)),
    lambda random, node, tensor: node.attribute.append(
        helper.make_attribute(random.choice(KEYS), random.choice((*NUMBERS, [1, 0], 0.5)))
    ),
    lambda random, node, tensor: setattr(tensor, "data_type", random.randrange(30)),
    lambda random, node, tensor: setattr(tensor, "data_location", 1),
    lambda random, node, tensor: setattr(tensor, "name", random.choice(PATHS)),
    lambda random, node, tensor: tensor.dims.append(random.choice(SIZES)),
    lambda random, node, tensor: tensor.dims.pop() if tensor.dims else None,
    lambda random, node, tensor: tensor.dims.reverse(),
)


def onnx_files(room: Path, model: Path) -> Callable[[Random], bytes]:
    """ONNX files with bytes changed, or with a node or a tensor that says something else."""
    plain = onnx_models.written(model, room / "plain.onnx")
    files = [plain, onnx_models.dynamic(plain, room / "q8.onnx"), onnx_models.blocks(plain, room / "q4.onnx", size=16)]
    files.append(onnx_models.blocks(plain, room / "qdq.onnx", size=16, qdq=True))
    valid = [file.read_bytes() for file in files]

    def case(random: Random) -> bytes:
        content = random.choice(valid)
        if random.randrange(2):
            return spliced(random, content)
        message = onnx.load_model_from_string(content)
        for _ in range(random.randrange(1, 4)):
            change = random.choice(CHANGES)
            change(random, random.choice(message.graph.node), random.choice(message.graph.initializer))
        return message.SerializeToString()

    return case
