"""Stored: the blocks that tell of storage formats, each measured on a model of examples/hub written in it."""

from __future__ import annotations

import importlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from hf_lineage.checkpoint.formats.table import BY_END, BY_METHOD
from tools.tables import table

COLUMNS = ("format", "bits", "score against its original", "an independent model", "written by", "decoded as")
OURS = "the tests"
CT = "compressed-tensors"
READ = {CT, "AutoRound", "GGUF", "HQQ", "quanto", "torchao"}
"""Formats of which only some forms are refused."""


@dataclass(frozen=True)
class Case:
    """A format, and how a model that is stored in it is measured."""

    name: str
    writer: str
    oracle: str
    measure: Callable[[], tuple[float, float, str]]
    """Returns the bits of a weight, the score against the original, and the verdict on an independent model."""

    def row(self) -> tuple[str, ...]:
        """The row of the table."""
        bits, score, other = self.measure()
        return self.name, f"{bits:.1f}", f"{score:.3f}", other, self.writer, self.oracle


def formats_block() -> str:
    """Every format that is decoded: its bits, its score, and what it is held against."""
    return table(COLUMNS, (case.row() for case in cases()))


def undecoded_block() -> str:
    """The formats that are known and refused."""
    return ", ".join(sorted({*BY_METHOD.values(), *BY_END.values()} - READ)) + "."


def cases() -> Iterator[Case]:
    """Every format that is decoded, none of them measured."""
    for name, pack, settings, writer, oracle in _packed():
        yield Case(name, writer, oracle, partial(_of_packed, pack, settings))
    for name, store, writer, oracle in _converted():
        yield Case(name, writer, oracle, partial(_of_converted, name, store))


def _of_packed(pack: Any, settings: dict[str, Any]) -> tuple[float, float, str]:
    from tests.quantizing import BASE, judged, matrices

    packed = [(matrix, parts) for matrix in matrices(BASE).values() if len(parts := pack(matrix)) > 1]
    stored = sum(part.nbytes for _, parts in packed for part in parts.values())
    with tempfile.TemporaryDirectory() as folder:
        score, other = judged(Path(folder), pack, **settings)
    return 8 * stored / sum(matrix.numel() for matrix, _ in packed), score, other


def _of_converted(name: str, store: Callable[[Path, Path], Any]) -> tuple[float, float, str]:
    from hf_lineage import Options, compare
    from hf_lineage.checkpoint.opening import open_checkpoint
    from hf_lineage.hub.reference import RepoRef
    from tests.quantizing import BASE, INDEPENDENT

    verdicts = {}
    for model in (INDEPENDENT, BASE):
        with tempfile.TemporaryDirectory() as folder:
            store(model, Path(folder))
            checkpoint = open_checkpoint(RepoRef(name, Path(folder)))
            (row,) = compare(str(BASE), folder, Options(order_seed=0, budget="full")).rows
            verdicts[model] = row.verdict
    of_layers = (tensor for name, tensor in checkpoint.tensors.items() if re.search(r"\d", name))
    matrices = [tensor for tensor in of_layers if len(tensor.shape) == 2]
    parts = {part for tensor in matrices for part in tensor.parts}
    bits = 8 * sum(checkpoint.stored[part].size for part in parts) / sum(tensor.numbers for tensor in matrices)
    return bits, verdicts[BASE].evidence["mlp"].comparison.score, verdicts[INDEPENDENT].name


def _converted() -> Iterator[tuple[str, Callable[[Path, Path], Any], str, str]]:
    """The name of each form with a file of its own, what stores a model in it, and as in `_packed`."""
    from tests.onnx_models import QUANTIZATIONS

    yield "ONNX, float32", partial(_store_graph, shutil.copy), "PyTorch", "onnx"
    for name, (_, how) in QUANTIZATIONS.items():
        if name not in ("in lists", "outside"):
            writer = OURS if name in ("float16, cast", "cast and scaled") else "ONNX Runtime"
            yield f"ONNX, {name}", partial(_store_graph, how), writer, "ONNX Runtime"


def _store_graph(quantize: Callable[[Path, Path], Any], model: Path, folder: Path) -> None:
    shutil.copy(model / "config.json", folder)
    with tempfile.TemporaryDirectory() as room:
        plain = Path(room) / "model.onnx"
        plain.write_bytes(_graph(model))
        quantize(plain, folder / "model.onnx")


@cache
def _graph(model: Path) -> bytes:
    from tests.onnx_models import exported

    with tempfile.TemporaryDirectory() as room:
        return exported(model, Path(room) / "model.onnx").read_bytes()


def _packed() -> Iterator[tuple[str, Any, dict[str, Any], str, str]]:
    """The name of each format, how a matrix is packed, the settings, who packs it, and whose decoding is the same."""
    names = ("awq", "bitnet", "bnb", "compressed", "fp8", "gptq", "torchao")
    awq, bitnet, bnb, compressed, fp8, gptq, torchao = map(_test, names)
    autoround, hqq, mlx, quanto = map(_test, ("autoround", "hqq", "mlx", "quanto"))
    for name, (pack, settings) in fp8.PACKS.items():
        yield (
            name if "FP8" in name else f"FP8, {name}",
            pack,
            settings,
            OURS,
            CT if "ragged" in name else "transformers",
        )
    for name, variant in gptq.VARIANTS.items():
        yield f"GPTQ, {name}", gptq.gptq(**variant), gptq.settings(**variant), OURS, "gptqmodel (its code)"
    for name, (variant, settings) in awq.VARIANTS.items():
        if name != "upper case":
            yield f"AWQ (gemm), {name}", awq.awq(**variant), settings, OURS, CT
    for name, (pack, settings) in bnb.PACKS.items():
        yield f"bitsandbytes, {name}", pack, settings, "bitsandbytes", "bitsandbytes"
    for name in compressed.CASES:
        yield f"{CT}, {name}", *compressed.case(name), CT, CT
    for name, (pack, settings) in bitnet.PACKS.items():
        if "default" not in name:
            yield f"BitNet, {name}", pack, settings, "transformers", "transformers"
    for name, dtype in torchao.KINDS.items():
        yield f"torchao, {name}", torchao.rows(dtype), torchao.TORCHAO, OURS, "torchao (what it wrote)"
    for name, (pack, settings) in autoround.PACKS.items():
        yield f"AutoRound, {name}", pack, settings, OURS, CT if "AWQ" in name else "auto-round (what it wrote)"
    for name, (pack, settings) in hqq.PACKS.items():
        yield f"HQQ, {name}", pack, settings, OURS, "hqq (what it wrote)"
    for name, pack in quanto.PACKS.items():
        yield f"quanto, {name}", pack, {}, OURS, "optimum-quanto (what it wrote)"
    for bits in mlx.BITS:
        yield f"MLX, {bits} bits", mlx.packed(bits), {"bits": bits, "group_size": 32}, OURS, "mlx (what it wrote)"
    yield "modelopt, NVFP4", fp8.nvfp4, fp8.MODELOPT, OURS, CT


def _test(name: str) -> Any:
    """The test of a format, which holds what writes it; it needs the format's own library."""
    return importlib.import_module(f"tests.checkpoint.formats.test_{name}")
