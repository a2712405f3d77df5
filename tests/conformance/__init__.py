"""What proves the registry: the harness of the package, and what each class is asked for beside the generic request."""

import sys
from importlib import import_module

import transformers

from hf_lineage.running.model import models
from hf_lineage.running.model.models import otherwise, required, tiny_model
from hf_lineage.running.model.tiny_model import TinyModel, build_tiny_model
from hf_lineage.running.proof.active import inactive
from hf_lineage.running.proof.proving import deviations, faults
from hf_lineage.running.proof.rules import (
    against_plan,
    gains_left_out,
    norms_left_out,
    output_norms_mistaken,
    wrong_normalization,
)
from hf_lineage.running.traffic import layers_left_out
from tests.conformance.pretence import pretend
from tests.conformance.variants import variants

INNER = {
    "Idefics2VisionTransformer": "idefics2",
    "Qwen2VisionTransformerPretrainedModel": "qwen2_vl",
    "Qwen2_5OmniAudioEncoder": "qwen2_5_omni",
    "Qwen2_5OmniVisionEncoder": "qwen2_5_omni",
    "Qwen3OmniMoeVisionEncoder": "qwen3_omni_moe",
}
"""Parts of models that transformers does not offer by themselves, each with the folder of its module."""

for inner, inside in INNER.items():
    made = getattr(import_module(f"transformers.models.{inside}.modeling_{inside}"), inner)
    for module in (
        transformers,
        vars(models)["transformers"],
        sys.modules["transformers"],
    ):  # it is imported twice
        setattr(module, inner, made)
CLASSES = frozenset(dir(transformers)) | INNER.keys()
"""The names of all classes; to ask the module for one imports its code, and to ask for all takes ten seconds."""

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

__all__ = [
    "CLASSES",
    "TinyModel",
    "against_plan",
    "build_tiny_model",
    "deviations",
    "faults",
    "gains_left_out",
    "inactive",
    "layers_left_out",
    "norms_left_out",
    "otherwise",
    "output_norms_mistaken",
    "pretend",
    "required",
    "tiny_model",
    "variants",
    "wrong_normalization",
]
