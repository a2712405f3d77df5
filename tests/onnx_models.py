"""ONNX files as people publish them: exported by PyTorch, quantized by ONNX Runtime, or rewritten by hand."""

import contextlib
import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import transformers
from onnx import helper, numpy_helper
from safetensors.numpy import load_file

from tests.models import HEADS, WEIGHTS

IDS, MASK = "input_ids", "attention_mask"
Change = Callable[[onnx.ModelProto], Any]


class _Wrapped(torch.nn.Module):
    """A model that gives out one tensor; what it is called inside stands before every name."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        extra = {"use_cache": False} if "ForCausalLM" in type(self.inner).__name__ else {}
        return self.inner(input_ids=input_ids, attention_mask=attention_mask, return_dict=False, **extra)[0]


def exported(folder: Path, file: Path, dynamo: bool = False) -> Path:
    """Export the model of a folder by one of PyTorch's two exporters."""
    file.parent.mkdir(parents=True, exist_ok=True)
    architecture = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    model = getattr(transformers, architecture).from_pretrained(folder, attn_implementation="eager")
    module = _Wrapped(model.eval().to(torch.float32))
    ids = torch.randint(0, 20, (1, 7))
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (ids, torch.ones_like(ids)), str(file), dynamo=dynamo, input_names=[IDS, MASK], opset_version=18,
            external_data=False, verbose=False,
        )  # fmt: skip
    return file


def written(folder: Path, file: Path, within: str = "", before: str = "") -> Path:
    """The model of a folder as a graph by hand: each matrix and gain is used once, and all leads to the output.

    Of its tensors only those `within` a prefix are, under names with `before` in its place.
    """
    nodes, held, results = list[onnx.NodeProto](), list[onnx.TensorProto](), list[str]()
    stored = load_file(folder / WEIGHTS)
    named = {before + name.removeprefix(within): stored[name] for name in sorted(stored) if name.startswith(within)}
    for number, (name, tensor) in enumerate(named.items()):
        module, result = f"/{name.removesuffix('.weight').replace('.', '/')}", f"result {number}"
        module = re.sub(r"/layers/(\d)/", r"/layers.\1/", module)
        if tensor.ndim == 2:
            held.append(numpy_helper.from_array(np.ascontiguousarray(tensor.T, np.float32), f"onnx::MatMul_{number}"))
            nodes.append(helper.make_node("MatMul", ["x", held[-1].name], [result], name=f"{module}/MatMul"))
            if "q_proj" in name:
                nodes.append(helper.make_node("Reshape", [result, "heads"], [f"heads {number}"]))
                result = f"heads {number}"
        else:
            held.append(numpy_helper.from_array(tensor.astype(np.float32), name))
            nodes.append(helper.make_node("Mul", ["x", name], [result], name=f"{module}/Mul"))
        results.append(result)
    held.append(numpy_helper.from_array(np.array([0, 0, HEADS, -1]), "heads"))
    nodes.append(helper.make_node("Concat", results, ["y"], axis=0))
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", "columns"])
    out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    versions = [helper.make_opsetid("", 21)]
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [given], [out], held), opset_imports=versions), file)
    return file


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Nothing is logged, and the root logger stays as it was: ONNX Runtime's quantizers set it up for themselves."""
    handlers, level = logging.root.handlers[:], logging.root.level
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)


def dynamic(source: Path, file: Path, kind: str = "QInt8", by_channel: bool = False) -> Path:
    """Quantize to eight bits, activations while it runs: MatMulInteger."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with quietly():
        quantize_dynamic(source, file, weight_type=QuantType[kind], per_channel=by_channel)
    return file


def blocks(source: Path, file: Path, bits: int = 4, symmetric: bool = True, size: int = 32, qdq: bool = False) -> Path:
    """Quantize to some bits in blocks: MatMulNBits, or DequantizeLinear with blocks."""
    from onnxruntime.quantization import QuantFormat

    settings = {"bits": bits, "block_size": size, "is_symmetric": symmetric}
    with quietly():
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        form = QuantFormat.QDQ if qdq else QuantFormat.QOperator
        quantizer = MatMulNBitsQuantizer(onnx.load(source), quant_format=form, **settings)
        quantizer.process()
    quantizer.model.save_model_to_file(str(file))
    return file


def changed(source: Path, file: Path, change: Change, **save: Any) -> Path:
    model = onnx.load(source)
    change(model)
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, file, **save)
    return file


def outside(source: Path, file: Path) -> Path:
    where = {"save_as_external_data": True, "location": f"{file.name}_data", "size_threshold": 0}
    return changed(source, file, lambda model: None, **where)


def as_scaled(model: onnx.ModelProto) -> None:
    """Matrices stored in eight bits, cast and multiplied with a scale for each column."""
    for tensor in _matrices(model):
        name, numbers = tensor.name, numpy_helper.to_array(tensor)
        scale = np.abs(numbers).max(0, keepdims=True).astype(np.float32) / 127
        tensor.CopyFrom(numpy_helper.from_array(np.rint(numbers / scale).astype(np.int8), f"{name}_q"))
        model.graph.initializer.append(numpy_helper.from_array(scale, f"{name}_scale"))
        model.graph.node.insert(0, helper.make_node("Mul", [f"{name}_f", f"{name}_scale"], [name]))
        model.graph.node.insert(0, helper.make_node("Cast", [f"{name}_q"], [f"{name}_f"], to=onnx.TensorProto.FLOAT))


def bare(model: onnx.ModelProto) -> None:
    """Operations and matrices without any name, as exporters before PyTorch 1.13 left them: biases alone tell."""
    renamed = {tensor.name: f"onnx::MatMul_{number}" for number, tensor in enumerate(_matrices(model))}
    for node in model.graph.node:
        node.name = f"{node.op_type}_{id(node) % 9999}"
        del node.metadata_props[:]
        for place, name in enumerate(node.input):
            node.input[place] = renamed.get(name, name)
    for tensor in model.graph.initializer:
        tensor.name = renamed.get(tensor.name, tensor.name)


def _matrices(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    used = {node.input[1] for node in model.graph.node if node.op_type in ("MatMul", "Gemm") and len(node.input) > 1}
    return [tensor for tensor in model.graph.initializer if tensor.name in used and len(tensor.dims) == 2]


def beside(source: Path, decoy: Path, file: Path) -> Path:
    """The matrices of another model stored in the file, with the names that its own would have in PyTorch."""

    def change(model: onnx.ModelProto) -> None:
        own = {node.input[1]: node.name for node in model.graph.node if node.op_type == "MatMul"}
        for tensor, twin in zip(_matrices(model), _matrices(onnx.load(decoy)), strict=True):
            module = ".".join(own[tensor.name].strip("/").split("/")[:-1])
            model.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(twin), f"{module}.weight"))

    return changed(source, file, change)


def in_a_dead_branch(source: Path, decoy: Path, file: Path) -> Path:
    """The operations of another model before its own in the file, with the same names, leading nowhere."""

    def change(model: onnx.ModelProto) -> None:
        for node in reversed(onnx.load(decoy).graph.node):
            if node.op_type == "MatMul" and node.input[1].startswith("onnx::"):
                node.input[0], node.input[1], node.output[0] = IDS, f"d{node.input[1]}", f"d{node.output[0]}"
                model.graph.node.insert(0, node)
        for tensor in _matrices(onnx.load(decoy)):
            tensor.name = f"d{tensor.name}"
            model.graph.initializer.append(tensor)

    return changed(source, file, change)


def bert(folder: Path, seed: int = 0, layers: int = 2) -> Path:
    torch.manual_seed(seed)
    sizes = {"vocab_size": 50, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}
    config = transformers.BertConfig(**sizes, num_hidden_layers=layers, max_position_embeddings=16)
    model = transformers.BertModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1 and name.endswith("bias"):
                parameter.normal_(0, 0.1)
    model.save_pretrained(folder)
    return folder


QUANTIZATIONS: dict[str, tuple[int, Callable[[Path, Path], Path]]] = {
    "8 bits": (8, dynamic),
    "8 bits without a sign, by channel": (8, partial(dynamic, kind="QUInt8", by_channel=True)),
    "4 bits": (4, blocks),
    "4 bits, zero points": (4, partial(blocks, symmetric=False)),
    "8 bits in blocks": (8, partial(blocks, bits=8, size=16)),
    "4 bits, static": (4, partial(blocks, qdq=True)),
    "4 bits, static, zero points": (4, partial(blocks, qdq=True, symmetric=False)),
    "cast and scaled": (8, partial(changed, change=as_scaled)),
    "outside": (8, outside),
}
"""What is done to the matrices of a file, with how many bits at least are left."""
