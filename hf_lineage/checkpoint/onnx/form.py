"""ONNX as a foreign form: one graph, or those of an encoder and its decoder; no graph is run."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from hf_lineage.architecture.layers import Shape, named_tensors
from hf_lineage.architecture.registry import setting
from hf_lineage.architecture.schema import Factorization, as_sets, as_stacks, prefixes
from hf_lineage.checkpoint import foreign_form
from hf_lineage.checkpoint.foreign_form import ForeignForm, Piece, by_pieces, list_files, named_errors
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.onnx.header import OnnxGraph, OnnxTensor, parse
from hf_lineage.checkpoint.onnx.values import locate_constant
from hf_lineage.checkpoint.onnx.weights import Weights, collect_weights
from hf_lineage.checkpoint.remote import open_ranged
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import ONE_FILE, Ambiguous, CheckpointError, NothingToCompare, printable
from hf_lineage.files.paths import open_regular
from hf_lineage.files.safetensors import Stamp
from hf_lineage.hub.repo import RepoRef

BESIDE = re.compile(r"(?!\.)[\w.+-]{1,200}(/(?!\.)[\w.+-]{1,200}){0,3}")  # beside the model or below it
KEY_VALUE_HEADS = ("num_key_value_heads", "num_kv_heads")
JOINED = "qkv_proj"  # the name that ONNX Runtime's exporter gives queries, keys and values in one matrix
SHORTENED = {"attn.": "self_attn."}  # a name that this exporter shortens -> the name in transformers
SUFFIX = ".onnx"
LABEL = re.compile(
    r"[-_.](?P<label>fp32|fp16|bf16|float16|q?u?int8|quantized|q8|q4f16|q4|int4|uint4|bnb4|o[1-4])(?=[-_.]|$)\w*",
    re.IGNORECASE,
)
BITS = {"fp32": 32, "fp16": 16, "float16": 16, "bf16": 15, "q4f16": 3, "q4": 4, "int4": 4, "uint4": 4, "bnb4": 2}
BITS |= {"o1": 31, "o2": 30, "o3": 29, "o4": 14}
"""A label in the name of a file -> the larger, the closer to what was exported; any other label means eight bits."""
STEMS = ("model", "decoder_model_merged", "decoder_model")  # read where there are several models; the first counts
ENCODER = "encoder_model"  # the name of the file beside a decoder, where a model has an encoder too
MOST_PRECISE = "the most precise ONNX file by its name that can be read"
REMARK = "{} is a graph; its weights were read by the names in it, and what else it computes was not checked"


class Graph(NamedTuple):
    """The ONNX file that is read: of several files of one model, the most precise one that can be read."""

    file: str
    graph: OnnxGraph
    weights: Weights
    stamp: Stamp


def read_graph(repo: RepoRef, files: Sequence[str]) -> Graph:
    """Return the first of these files that can be read; NothingToCompare if none, CheckpointError if one is damaged."""
    key = f"weights of {' or '.join(files)}"
    if known := repo.heads.get(key):
        return Graph(*known)
    reasons = []
    for file in files:
        with named_errors(repo, file), foreign_form.opened_file(repo, file) as (stream, stamp):
            graph = parse(stream, stamp.size)
        try:
            weights = collect_weights(graph)
        except NothingToCompare as error:
            why = str(error)
        except CheckpointError as error:
            raise CheckpointError(f"{repo}: {printable(file, 200)}: {error}") from None
        else:
            if weights.matrices and not weights.nameless:
                return Graph(*repo.heads.setdefault(key, Graph(file, graph, weights, stamp)))
            what = "no product with a stored matrix"
            if weights.nameless:
                what = f"{weights.nameless} matrices whose place in the model is unknown"
            why = f"the ONNX graph has {what}; check the safetensors release"
        reasons.append(f"{repo}: {printable(file, 200)}: {why}")
    raise NothingToCompare(reasons[0])


def _open(repo: RepoRef, graphs: Mapping[str, Graph]) -> Checkpoint:
    tensors: dict[str, TensorInfo] = {}
    constants: dict[str, tuple[str, OnnxTensor]] = {}
    for before, (file, graph, weights, _) in graphs.items():
        others = weights.others.items()
        plain = {name: info for name, info in others if len(info.shape) < 2 or not re.search(r"\.\d+\.", name)}
        for name, info in (plain | weights.matrices).items():
            parts = {part: f"{file}: {part}" for part in info.parts}
            tensors[before + name] = replace(info, parts=tuple(parts.values()))
            for part, own in parts.items():
                constants[own] = _place(repo, file, graph.tensors[part]), graph.tensors[part]
    outside = {place for place, tensor in constants.values() if tensor.file}
    opened = open_ranged(repo, sorted(outside))
    places = {}
    for name, path in opened.paths(repo, outside).items():
        with named_errors(repo, name), open_regular(path) as stream:
            places[name] = path, Stamp.take(stream)
    places |= {file: (repo.locate(file), stamp) for file, _, _, stamp in graphs.values()}
    stored = {}
    for own, (file, tensor) in constants.items():
        path, stamp = places[file]
        end = tensor.span.start + tensor.span.length
        if end > stamp.size:
            where = f"{printable(tensor.name, 200)} ends at byte {end} of {stamp.size}"
            raise CheckpointError(f"{repo}: {printable(tensor.file, 200)} is truncated: {where}; download it again")
        stored[own] = locate_constant(tensor, path, stamp)
    return opened.checkpoint(stored, tensors)


def _place(repo: RepoRef, file: str, tensor: OnnxTensor) -> str:
    """Return the file that holds the numbers of a tensor of another one, which is never outside the repository."""
    if not tensor.file:
        return file
    if not BESIDE.fullmatch(tensor.file):
        what = f"its numbers are in {printable(tensor.file, 200)}, which is not a file beside it; do not trust it"
        raise CheckpointError(f"{repo}: {printable(file, 200)} says that {what}")
    path = str(PurePosixPath(file).parent / tensor.file)
    if not repo.offers(path):
        raise CheckpointError(f"{repo}: {printable(path, 200)} is missing; download it too")
    return path


def name_tensors(
    factorization: Factorization, shapes: Mapping[str, Shape], config: Mapping[str, Any]
) -> Iterator[Piece]:
    """Yield the tensors of a graph by their names on the Hub's disk; each matrix is (out, in) there."""
    numbered = [re.sub(r"\\\{(layer|stage)\\\}", r"\\d{1,6}", re.escape(each)) for each in prefixes(factorization)]
    layers = re.compile("|".join(rf"(?:{pattern}\.)" for pattern in numbered))
    wrapping = _wrapping(shapes, layers)
    known = {name for name in named_tensors(factorization) if "{" not in name}
    turned = foreign_form.name_in_out(factorization)
    (*_, attention) = (None, *as_sets(factorization.branches.attention))
    matrices = (attention.query, attention.key, attention.value) if attention else ()
    roles = [matrix for matrix in matrices if matrix] if all(matrices) else []
    for stored in shapes:
        name = stored.removeprefix(wrapping)
        match = layers.match(name)
        before, rest = (name[: match.end()], name[match.end() :]) if match else ("", name)
        bare, dot, kind = rest.rpartition(".")
        bare = next((bare.replace(a, b) for a, b in SHORTENED.items() if bare.replace(a, b) in known), bare)
        if match and roles and bare.endswith(JOINED) and bare not in known:
            heads = _heads(factorization, config)
            for role, rows in zip(roles, foreign_form.split_rows(shapes[stored][0], *heads), strict=True):
                yield Piece(f"{before}{role}.{kind}", stored, rows)
        else:
            yield Piece(f"{before}{bare}{dot}{kind}", stored, turned=bare in turned and len(shapes[stored]) == 2)


def _wrapping(names: Collection[str], layers: re.Pattern[str]) -> str:
    """Return the shortest common prefix of all names behind which a layer is recognised; empty where none helps."""
    prefix = ""
    for _ in range(8):  # wrappers
        if any(layers.match(name, len(prefix)) for name in names):
            return prefix
        prefix += next(iter(names), "")[len(prefix) :].partition(".")[0] + "."
        if not all(name.startswith(prefix) for name in names):
            break
    return ""


def _heads(factorization: Factorization, config: Mapping[str, Any]) -> tuple[int, int]:
    keys = next(iter(as_stacks(factorization.heads).values()))
    heads = next((count for key in keys if (count := setting(config, key)) is not None), None)
    groups = next((count for key in KEY_VALUE_HEADS if (count := setting(config, key)) is not None), heads)
    if type(heads) is not int or type(groups) is not int:
        text = printable(f"{heads} and {groups}", 50)
        raise NothingToCompare(f"config.json counts the heads of attention as {text}, so they cannot be separated")
    return heads, groups


def _choose(repo: RepoRef) -> tuple[tuple[str, ...], bool]:
    """Return the ONNX files of the model, the most precise by its name first; or an encoder, its decoder and True."""
    if repo.file is not None:
        is_named = repo.file.endswith(SUFFIX)
        return (foreign_form.require_file(repo, repo.file, list_files(repo, SUFFIX)),) if is_named else (), False
    by_stem: dict[str, list[str]] = {}  # the name without the label of its precision -> files, the most precise first
    if not any(map(foreign_form.PREFERRED.fullmatch, repo.files())):
        for file in sorted(list_files(repo, SUFFIX), key=_precision):
            by_stem.setdefault(LABEL.sub("", file.rpartition("/")[2].removesuffix(SUFFIX)), []).append(file)
    chosen = next((stem for stem in STEMS if stem in by_stem), next(iter(by_stem), ""))
    pairs = ((one, other) for one in by_stem.get(ENCODER, ()) for other in by_stem[chosen] if chosen in STEMS[1:])
    if same := next((pair for pair in pairs if len({_precision(file)[:2] for file in pair}) == 1), None):
        return same, True
    if len(by_stem) > 1 and (chosen not in STEMS or ENCODER in by_stem):
        listed = printable(", ".join(sorted(file for files in by_stem.values() for file in files)[:10]), 500)
        raise Ambiguous(f"{repo} holds several models as ONNX ({listed}); name one {ONE_FILE}")
    return tuple(by_stem.get(chosen, ())), False


def _precision(file: str) -> tuple[int, int, str]:
    label = LABEL.search(file.rpartition("/")[2].removesuffix(SUFFIX))
    return -BITS.get(label["label"].lower(), 8) if label else -33, file.count("/"), file


def onnx_form(repo: RepoRef) -> ForeignForm | None:
    """Return the form of one graph, or of an encoder and its decoder; None where a repository has no such files."""
    files, is_pair = _choose(repo)
    if not files:
        return None

    def graphs() -> dict[str, Graph]:  # by the beginning of the names that its tensors have in the whole model
        if not is_pair:
            return {"": read_graph(repo, files)}
        encoder, decoder = (read_graph(repo, [file]) for file in files)
        return {"encoder.": encoder, "": decoder}

    def config() -> dict[str, Any]:
        if is_pair or repo.has("config.json"):  # a graph does not name its counterpart
            return repo.config()
        heads = read_graph(repo, files).weights.heads
        return {} if heads is None else dict.fromkeys(("num_attention_heads", "n_head", "n_heads"), heads)

    def list_read() -> list[str]:
        names: list[str] = []
        for file, graph, *_ in graphs().values():
            names += (file, *sorted({_place(repo, file, tensor) for tensor in graph.tensors.values() if tensor.file}))
        return names

    chosen = "with its decoder, the most precise by their names" if is_pair else MOST_PRECISE
    return ForeignForm(
        *(repo, files, SUFFIX, chosen, config),
        open=lambda: _open(repo, graphs()),
        rename=lambda known, settings, plain: by_pieces(plain, name_tensors(known, plain.shapes, settings)),
        list_read=list_read,
        remark=REMARK,
        doubt="the names in the ONNX graph are not those of the class, or they do not tell enough",
    )
