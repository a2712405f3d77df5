"""Tiny models of timm, one for each of its architectures; run as a module it writes `registry/loading/timm.json`.

timm needs torchvision to load pictures, which no model does: a stand-in takes its place while timm is imported, so that
tests need no build of torchvision that fits that of torch.
"""

import functools
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from safetensors.torch import save_file

from hf_lineage.architecture.config_checks import STRUCTURE
from hf_lineage.architecture.registry import factorizations, registry_root
from tests.conformance.forms import HEADS, PICTURE, WIDTH
from tests.conformance.proving import faults
from tests.conformance.tiny import TinyModel, read_back

os.environ["TIMM_FUSED_ATTN"] = "0"  # attention says what it scores


@functools.cache
def library() -> Any:
    stand_in = mock.MagicMock(FrozenBatchNorm2d=type("FrozenBatchNorm2d", (), {}))
    within = ("", ".datasets", ".models", ".models.feature_extraction", ".ops", ".ops.misc", ".transforms", ".utils")
    names = [f"torchvision{name}" for name in (*within, ".transforms.functional")]
    sys.modules |= dict.fromkeys(names, stand_in)
    try:
        import timm
    finally:
        for name in names:
            del sys.modules[name]
    return timm


FAMILIES = ("beit", "convnext", "deit", "eva", "flexivit", "naflexvit", "swin_", "vit_")
"""How the names of the architectures begin that are looked through."""
_BLOCKS = {"embed_dim": WIDTH, "depth": 2, "num_heads": HEADS, "patch_size": 2}
SIZES: dict[str, dict[str, Any]] = {
    "ConvNeXt": {"depths": (1, 2, 1, 1), "dims": (WIDTH,) * 4},
    "NaFlexVit": _BLOCKS,
    "SwinTransformer": {
        **{"img_size": 2 * PICTURE, "patch_size": 4, "window_size": PICTURE // 2},
        **{"embed_dim": WIDTH, "depths": (2,), "num_heads": (HEADS,)},
    },
}  # what makes a model of a class tiny, other than the usual blocks


def pictures(model: Any, batch: int, length: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    pixels = PICTURE * (4 if hasattr(model, "stages") else 2 if hasattr(model, "layers") else 1)
    return {"x": torch.rand(1, 3, pixels, pixels).expand(batch, -1, -1, -1)}


def build_timm(architecture: str, kind: str, folder: Path) -> TinyModel:
    """A tiny model, every parameter random and its rotary angles 0, beside what is read back where it is saved."""
    torch.manual_seed(0)
    sizes = SIZES.get(kind, _BLOCKS | {"img_size": PICTURE})
    model = library().create_model(architecture, num_classes=3, **sizes).eval()
    for parameter in model.parameters():
        parameter.data.normal_(std=0.3)
    for name, module in model.named_modules():
        if hasattr(module, "qkv_bias_separate"):
            module.qkv_bias_separate = True  # the module that reads is called, in place of a function with its weights
        if "rope" in name and isinstance(getattr(module, "pos_embed", None), torch.Tensor):
            sines, cosines = module.pos_embed.chunk(2, dim=-1)
            module.pos_embed = torch.cat([torch.zeros_like(sines), torch.ones_like(cosines)], dim=-1)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "model.safetensors")
    arguments = {key: sizes[key] for key in STRUCTURE if key in sizes}
    config = {"architecture": architecture, "num_classes": 3, "num_features": WIDTH, "model_args": arguments}
    (folder / "config.json").write_text(json.dumps(config))
    (factorization,) = (one for one in factorizations() if f"timm.{kind}" in one.classes)
    return replace(read_back(model, folder, factorization), inputs=pictures)


def measured(architecture: str) -> tuple[str, dict[str, Any]]:
    """The class of an architecture, and how many heads and layers a model of it has."""
    with torch.device("meta"):
        model = library().create_model(architecture)
    kind = type(model).__name__
    if kind == "ConvNeXt":
        return kind, {"depths": [len(stage.blocks) for stage in model.stages]}
    if kind == "SwinTransformer":
        blocks = [stage.blocks for stage in model.layers]
        return kind, {"num_heads": [stage[0].attn.num_heads for stage in blocks], "depths": list(map(len, blocks))}
    return kind, {"num_heads": model.blocks[0].attn.num_heads, "depth": len(model.blocks)}


def main() -> None:
    """Write every architecture that is proved, with the class whose factorization it has."""
    proved: dict[str, dict[str, Any]] = {}
    for architecture in (name for name in library().list_models() if name.startswith(FAMILIES)):
        try:
            kind, found = measured(architecture)
            with tempfile.TemporaryDirectory() as folder:
                wrong = faults(build_timm(architecture, kind, Path(folder)))
        except Exception as error:  # it cannot be made tiny, or is otherwise than the factorization of its class says
            wrong = {type(error).__name__: str(error)}
        print(architecture, str(wrong)[:150] if wrong else "proved", flush=True)
        if not wrong:
            proved.setdefault(kind, {})[architecture] = found
    kinds = []
    for kind, listed in sorted(proved.items()):
        rows = ",\n".join(f'    "{name}": {json.dumps(settings)}' for name, settings in sorted(listed.items()))
        kinds.append(f'  "{kind}": {{\n{rows}\n  }}')
    (registry_root() / "loading/timm.json").write_text("{\n" + ",\n".join(kinds) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
