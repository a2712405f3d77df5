"""AutoRound: the layouts of GPTQ and AWQ, of which `packing_format` of config.json says which, matrix by matrix.

Source: auto_round/export/export_to_autoround/export.py and the layers that it packs with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hf_lineage.checkpoint.formats import awq, gptq
from hf_lineage.checkpoint.formats.modules import Module, Quantized, Settings
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import NothingToCompare, printable

LESS_ONE, IN_FULL = {"checkpoint_format": "gptq"}, {"checkpoint_format": "gptq_v2"}
GEMM = {"version": "gemm", "zero_point": True}
PACKINGS: Mapping[str, Mapping[str, Any]] = {
    "auto_round:auto_gptq": LESS_ONE,
    "auto_round:gptq": LESS_ONE,
    "auto_round": IN_FULL,
    "auto_round:exllamav2": IN_FULL,
    "auto_round:gptqmodel": IN_FULL,
    "auto_round:auto_awq": GEMM,
    "auto_round:awq": GEMM,
}
"""The layout of a matrix by `packing_format`, in the words of GPTQ (how zero points are stored) and AWQ."""
USUAL = "auto_round:auto_gptq"


def matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise NothingToCompare for a layout that is not decoded."""
    packing = stated.get("packing_format") or stated.get("backend") or USUAL
    layout = PACKINGS.get(packing) if isinstance(packing, str) else None
    if layout is None:
        raise NothingToCompare(
            f"the weights are stored by AutoRound in the layout {printable(str(packing), 50)}, which is not decoded; "
            "check the release in F16, BF16 or F32 instead"
        )
    own = stated.get("extra_config")
    own = own.get(module.start) if isinstance(own, Mapping) else None
    settings = {**stated, **(own if isinstance(own, Mapping) else {}), **layout}
    return awq.matrix(module, settings) if layout is GEMM else gptq.matrix(module, settings)


METHODS = frozenset({"auto-round", "intel/auto-round"})
AUTO_ROUND = Quantized("AutoRound", METHODS, (".qweight",), gptq.ENDS, matrix, linear=True)
