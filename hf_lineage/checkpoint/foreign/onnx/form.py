"""ONNX as two foreign forms: one graph, or those of an encoder and its decoder; and which files of several are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hf_lineage.architecture.registry import Factorization
from hf_lineage.checkpoint.foreign.form import PREFERRED, Files, ForeignForm, list_files, require_file
from hf_lineage.checkpoint.foreign.onnx.names import name_tensors
from hf_lineage.checkpoint.foreign.onnx.tensors import list_read, list_read_of_pair, open_onnx, open_pair, read_graph
from hf_lineage.checkpoint.foreign.pieces import by_pieces
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.errors import ONE_FILE, NothingToCompare, printable
from hf_lineage.hub import RepoRef

SUFFIX = ".onnx"
LABEL = re.compile(
    r"[-_.](?P<label>fp32|fp16|bf16|float16|q?u?int8|quantized|q8|q4f16|q4|int4|uint4|bnb4|o[1-4])(?=[-_.]|$)\w*",
    re.IGNORECASE,
)
BITS = {"fp32": 32, "fp16": 16, "float16": 16, "bf16": 15, "q4f16": 3, "q4": 4, "int4": 4, "uint4": 4, "bnb4": 2}
BITS |= {"o1": 31, "o2": 30, "o3": 29, "o4": 14}
"""A label in the name of a file -> the larger, the closer to what was exported; any other label means eight bits."""
STEMS = ("model", "decoder_model_merged", "decoder_model")
"""Of files of several models in one repository, that which is read."""
ENCODER = "encoder_model"
"""What stands beside a decoder where a model has both."""
HEAD_COUNTS = ("num_attention_heads", "n_head", "n_heads")
"""What the classes of transformers call the number of heads."""
GRAPH = "{} is a graph; its weights were read by the names in it, and what else it computes was not checked"
DOUBT = "the names in the ONNX graph are not those of the class, or they do not tell enough"


def _choose(repo: RepoRef) -> tuple[str, ...]:
    """The ONNX files of the model, the most precise by its name first."""
    if repo.file is not None:
        named = repo.file.endswith(SUFFIX)
        return (require_file(repo, repo.file, list_files(repo, SUFFIX)),) if named else ()
    by_stem = _by_stem(repo)
    chosen = next((stem for stem in STEMS if stem in by_stem), next(iter(by_stem), ""))
    if len(by_stem) > 1 and (chosen not in STEMS or ENCODER in by_stem):
        listed = printable(", ".join(sorted(file for files in by_stem.values() for file in files)[:10]), 500)
        raise NothingToCompare(f"{repo} holds several models as ONNX ({listed}); name one {ONE_FILE}")
    return tuple(by_stem.get(chosen, ()))


def _choose_pair(repo: RepoRef) -> tuple[str, ...]:
    """The files of an encoder and its decoder, the most precise of which there are both."""
    by_stem = _by_stem(repo) if repo.file is None else {}
    decoders = next((by_stem[stem] for stem in STEMS if stem in by_stem), [])
    pairs = ((one, other) for one in by_stem.get(ENCODER, ()) for other in decoders)
    same = (pair for pair in pairs if len({_precision(file)[:2] for file in pair}) == 1)
    return () if "model" in by_stem else next(same, ())


def _by_stem(repo: RepoRef) -> dict[str, list[str]]:
    """The ONNX files of a repository by their names without what says how they are stored, the most precise first."""
    by_stem: dict[str, list[str]] = {}
    if not any(map(PREFERRED.fullmatch, repo.files())):
        for file in sorted(list_files(repo, SUFFIX), key=_precision):
            by_stem.setdefault(LABEL.sub("", file.rpartition("/")[2].removesuffix(SUFFIX)), []).append(file)
    return by_stem


def _precision(file: str) -> tuple[int, int, str]:
    """A key by which the most precise file comes first."""
    label = LABEL.search(file.rpartition("/")[2].removesuffix(SUFFIX))
    return -BITS.get(label["label"].lower(), 8) if label else -33, file.count("/"), file


def _config(repo: RepoRef, files: Files) -> dict[str, Any]:
    """That of `config.json`; where there is none, what the graph says."""
    if repo.has("config.json"):
        return repo.config()
    heads = read_graph(repo, files).weights.heads
    return {} if heads is None else dict.fromkeys(HEAD_COUNTS, heads)


def _rename(
    repo: RepoRef, files: Files, factorization: Factorization, config: Mapping[str, Any], checkpoint: Checkpoint
) -> Checkpoint:
    del repo, files
    return by_pieces(checkpoint, name_tensors(factorization, checkpoint.shapes, config))


ONNX_PAIR: ForeignForm = ForeignForm(
    "onnx",
    _choose_pair,
    open=open_pair,
    rename=_rename,
    read=list_read_of_pair,
    how="with its decoder, the most precise by their names",
    remark=GRAPH,
    doubt=DOUBT,
)
"""Its configuration is that of `config.json`: a graph does not say that it has a counterpart."""
ONNX: ForeignForm = ForeignForm(
    "onnx",
    _choose,
    _config,
    open_onnx,
    rename=_rename,
    read=list_read,
    how="the most precise ONNX file by its name that can be read",
    remark=GRAPH,
    doubt=DOUBT,
)
