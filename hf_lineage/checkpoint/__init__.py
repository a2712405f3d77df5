"""Checkpoint: the names, shapes and values of a model's tensors, read one at a time; one module for each source."""

from hf_lineage.checkpoint.local import FLOATS, Checkpoint, TensorInfo
from hf_lineage.checkpoint.opening import open_checkpoint, other_format
from hf_lineage.checkpoint.remote import RemoteCheckpoint

__all__ = ["FLOATS", "Checkpoint", "RemoteCheckpoint", "TensorInfo", "open_checkpoint", "other_format"]
