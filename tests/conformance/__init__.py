"""The harness that proves a factorization: every branch product against what the real transformers module computes.

A tiny random model of the class is saved and read back like any checkpoint. The module itself then runs with known
vectors put in where a branch reads, and what it gives out where the branch writes has to be the product times them.
Nothing here multiplies two weights: activations are made transparent, attention sees one token, the rest is the
module's own code. Rows of a Hadamard matrix are the known vectors, because a norm leaves them as they are (mean 0,
except for the first, and mean square 1), so the same run with vectors put in before the norm proves the folded gains.

A second run, with nothing put in and nothing made transparent, proves what stands between reader and writer: the
activation, the norm that feeds the branch, and the router.

Beside it stands what each class is asked for beyond the generic request.
"""

import sys
from importlib import import_module

import transformers

from tests.conformance import models
from tests.conformance.active import inactive
from tests.conformance.models import otherwise, required, tiny_model
from tests.conformance.pretence import pretend
from tests.conformance.proving import deviations, faults
from tests.conformance.rules import (
    against_plan,
    gains_left_out,
    norms_left_out,
    output_norms_mistaken,
    wrong_normalization,
)
from tests.conformance.tiny_model import TinyModel, build_tiny_model
from tests.conformance.traffic import layers_left_out
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
