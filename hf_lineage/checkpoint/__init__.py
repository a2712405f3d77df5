"""Checkpoint: the names, shapes and values of a model's tensors, read one at a time from a disk or from the Hub."""

from hf_lineage.checkpoint.adapter import adapted, adapter_base, adapter_beside
from hf_lineage.checkpoint.ctranslate2 import header_of as ctranslate2_header
from hf_lineage.checkpoint.exported import by_pieces
from hf_lineage.checkpoint.files import files_beside, other_format, unusual_layout, weight_files
from hf_lineage.checkpoint.gguf import renamed
from hf_lineage.checkpoint.gguf_undo import Heads
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.onnx import graph_of as onnx_graph
from hf_lineage.checkpoint.opening import open_checkpoint
from hf_lineage.checkpoint.remote import RemoteCheckpoint
from hf_lineage.checkpoint.tensor import TensorInfo

__all__ = [
    "Checkpoint",
    "Heads",
    "RemoteCheckpoint",
    "TensorInfo",
    "adapted",
    "adapter_base",
    "adapter_beside",
    "by_pieces",
    "ctranslate2_header",
    "files_beside",
    "onnx_graph",
    "open_checkpoint",
    "other_format",
    "renamed",
    "unusual_layout",
    "weight_files",
]
