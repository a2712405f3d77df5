"""Checkpoint: the names, shapes and values of a model's tensors, read one at a time; one module for each source."""

from hf_lineage.checkpoint.local import Checkpoint, TensorInfo, open_checkpoint

__all__ = ["Checkpoint", "TensorInfo", "open_checkpoint"]
