"""The harness that proves the registry: every branch product against what the real transformers module computes.

A tiny random model of the class is saved and read back like any checkpoint. The module itself then runs with known
vectors put in where a branch reads, and what it gives out where the branch writes has to be the product times them.
Nothing here multiplies two weights: activations are made transparent, attention looks at one token, the rest is the
module's own code. Rows of a Hadamard matrix are the known vectors, because a norm leaves them as they are (mean 0,
except for the first, and mean square 1), so the same run with vectors put in before the norm proves the folded gains.

A second run, with nothing put in and nothing made transparent, proves what stands between reader and writer: the
activation, the norm that feeds the branch, and the router.
"""

import os

os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

from tests.conformance.active import inactive
from tests.conformance.models import otherwise, required, tiny_model
from tests.conformance.pretence import pretend
from tests.conformance.proof import deviations, faults
from tests.conformance.rules import (
    against_plan,
    gains_left_out,
    norms_left_out,
    output_norms_mistaken,
    wrong_normalization,
)
from tests.conformance.specimen import Specimen, specimen
from tests.conformance.stream import layers_left_out
from tests.conformance.variants import variants

__all__ = [
    "Specimen",
    "against_plan",
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
    "specimen",
    "tiny_model",
    "variants",
    "wrong_normalization",
]
