"""Files of torch.save as a foreign form: transformers' rules say which of them are the model, and nothing runs them."""

from __future__ import annotations

from hf_lineage.checkpoint.foreign.form import ForeignForm
from hf_lineage.checkpoint.foreign.pickles.torch_file import torch_header

PICKLE: ForeignForm = ForeignForm(
    "torch.save",
    header=torch_header,
    remark="{} is a pickle; its tensors were read and nothing was run (--allow-pickle)",
)
