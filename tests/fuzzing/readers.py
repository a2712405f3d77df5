"""Every reader with a valid file to begin from: what it is called, how the file is changed, and what reads it."""

import functools
import io
import itertools
import json
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper
from safetensors.numpy import load_file, save

from hf_lineage import stored
from hf_lineage.architecture.likeness import find_likes, fitting_class
from hf_lineage.checking import report
from hf_lineage.checking.check import extract
from hf_lineage.claims.sources import CARD, MERGE_CONFIG, read_claims, stated_licence
from hf_lineage.errors import LineageError
from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef
from hf_lineage.index.shard import Entry, Shard
from hf_lineage.index.shard import write as write_shard
from hf_lineage.lora.adapter import open_lora_file
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.store import encode, load_signature
from hf_lineage.source.contents import LORA_FILE
from hf_lineage.source.headers import headers
from hf_lineage.source.options import Options
from tests import goldens, onnx_models
from tests.fuzzing.changes import json_file, safetensors_file, spliced, yaml_file
from tests.gguf_models import write
from tests.models import WEIGHTS, open_checkpoint, shard, tiny_llama

INDEX, PICKLED = "model.safetensors.index.json", "pytorch_model.bin"


@dataclass(frozen=True)
class Reader:
    case: Callable[[Random], bytes]  # what the file may hold
    read: Callable[[bytes], Any]  # reads it; may raise LineageError and nothing else
    turns: int = 20  # how often its turn comes in a long run, beside the others


def only_ours(read: Callable[[bytes], Any], content: bytes) -> str:
    """Read a case and return what came out, `value` or the name of our error; anything else is raised."""
    try:
        read(content)
    except LineageError as error:
        said = str(error)
        assert (said.isprintable(), len(said) <= 2000) == (True, True), said
        return type(error).__name__
    return "value"


def readers(room: Path) -> dict[str, Reader]:
    model = tiny_llama(room / "model")
    header, data = parted((model / WEIGHTS).read_bytes())
    config = json.loads((model / "config.json").read_text())
    pieces = shard(tiny_llama(room / "shards"))
    index = json.loads((pieces / INDEX).read_text())
    card = {"base_model": ["org/base", "org/other"], "base_model_relation": "merge", "license": "mit", "tags": ["a"]}
    lora = {"base_model_name_or_path": "org/base", "r": 8, "target_modules": ["q_proj"]}
    merge = {
        "base_model": "org/base",
        "models": [{"model": "org/base", "parameters": {"weight": 0.5}}, {"model": {"path": "org/other+org/lora"}}],
        "slices": [{"sources": [{"model": "org/base", "layer_range": [0, 2]}]}],
    }

    def put(folder: Path, file: str, read: Callable[[RepoRef], Any]) -> Callable[[bytes], Any]:
        def reading(content: bytes) -> Any:
            (folder / file).write_bytes(content)
            return read(RepoRef("org/model", folder, allow_pickle=file == PICKLED))

        return reading

    def file(read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
        return put(room, "file", lambda repo: read(repo.folder / "file"))

    folders = [room / name for name in ("config", "card", "lora", "merge", "pickle", "gguf", "pictures", "onnx")]
    plain, cards, adapters, merges, pickles, ggufs, pictures, graphs = folders
    shapes = {"lora_down.weight": (2, 4), "lora_up.weight": (6, 2), "alpha": ()}
    modules = ("lora_unet_mid_block_0_to_v", "lora_te_layers_0_q_proj")  # under the names of kohya's trainer
    parts = itertools.product(modules, shapes.items())
    factors, numbers = parted(save({f"{name}.{part}": np.ones(shape, np.float32) for name, (part, shape) in parts}))
    for folder in folders:
        folder.mkdir()
    (graphs / "config.json").write_text(json.dumps(config))
    (plain / WEIGHTS).write_bytes((model / WEIGHTS).read_bytes())
    weights = partial(safetensors_file, header=header, data=data)
    return {
        "header": Reader(weights, put(model, WEIGHTS, headers)),
        "header, unlisted": Reader(weights, put(model, WEIGHTS, _alike), turns=1),
        "torch file": Reader(lambda random: spliced(random, _saved()), put(pickles, PICKLED, _tensors)),
        "old torch file": Reader(lambda random: spliced(random, _saved(old=True)), put(pickles, PICKLED, _tensors)),
        "gguf": Reader(_converted(model, room), put(ggufs, "model.gguf", headers)),
        "index": Reader(partial(json_file, valid=index), put(pieces, INDEX, _tensors)),
        "config": Reader(partial(json_file, valid=config), put(plain, "config.json", headers)),
        "config, unlisted": Reader(partial(json_file, valid=config), put(plain, "config.json", _alike), turns=1),
        "card": Reader(
            lambda random: b"---\n" + yaml_file(random, card) + b"\n---\n",
            put(cards, CARD, lambda repo: (stated_licence(repo), read_claims(repo))),
        ),
        "adapter of diffusers": Reader(
            partial(safetensors_file, header=factors, data=numbers), put(pictures, LORA_FILE, _factors)
        ),
        "adapter": Reader(partial(json_file, valid=lora), put(adapters, ADAPTER_CONFIG, read_claims)),
        "mergekit": Reader(partial(yaml_file, valid=merge), put(merges, MERGE_CONFIG, read_claims)),
        "signature": Reader(_signature(room), file(load_signature)),
        "policy": Reader(partial(yaml_file, valid=_POLICY), file(report.read_policy)),
        "claims": Reader(partial(json_file, valid=_RECORD), partial(stored.decode, name="claims")),
        "keys of an index": Reader(
            key_files(room), file(lambda keys: [len(some) for some in Shard.open(keys).pieces()])
        ),
        "models of an index": line_files(room),
        "ONNX": Reader(onnx_files(room, model), put(graphs, "model.onnx", _read), turns=4),
    }


def _alike(repo: RepoRef) -> Any:
    shapes, config = open_checkpoint(repo).shapes, repo.config()
    return find_likes(shapes, config), fitting_class(shapes, config)


def _tensors(repo: RepoRef) -> Any:
    found = open_checkpoint(repo)
    return [found.read(name) for name in found.tensors]


def _factors(repo: RepoRef) -> Any:
    loras = open_lora_file(repo, LORA_FILE).values()
    return [(lora.read(module), lora.scale(module)) for lora in loras for module in lora.modules]


@functools.cache
def _saved(old: bool = False) -> bytes:
    stream = io.BytesIO()
    numbers = torch.arange(12.0).reshape(3, 4)
    tensors = {"a": numbers, "b": torch.nn.Parameter(numbers[1:]), "c": numbers.bfloat16(), "step": 3}
    torch.save(OrderedDict(tensors), stream, _use_new_zipfile_serialization=not old)
    return stream.getvalue()


def _converted(model: Path, room: Path) -> Callable[[Random], bytes]:
    """A GGUF file whose header is changed: some bytes in their places, or pieces of it."""
    content = write(model, room / "valid.gguf").read_bytes()
    header = content.index(b"blk.1.ffn_up.weight") + 100

    def case(random: Random) -> bytes:
        if random.randrange(2):
            return spliced(random, content[:header]) + content[header:]
        changed = bytearray(content)
        for _ in range(random.randrange(1, 4)):
            changed[random.randrange(header)] = random.randrange(256)
        return bytes(changed)

    return case


def _read(repo: RepoRef) -> Any:
    """Every tensor of a converted model, by its name on the Hub's disk."""
    found = headers(repo).checkpoint
    return [found.read(name) for name in found.tensors]


def parted(content: bytes) -> tuple[dict[str, Any], bytes]:
    stop = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:stop]), content[stop:]


def _signature(room: Path) -> Callable[[Random], bytes]:
    """Stored signatures: what one says of itself changed, its header, or its numbers."""
    found = extract(str(room / "model"), Options(recipe=RECIPES["paper"], paths=("mlp", "query_key")))
    content = encode(found)
    (room / "valid").write_bytes(content)
    header, data = parted(content)
    arrays, said = load_file(room / "valid"), json.loads(header["__metadata__"]["signature"])

    def case(random: Random) -> bytes:
        how = random.randrange(3)
        if how == 0:
            return safetensors_file(random, header, data)
        if how == 1:
            return save(arrays, metadata={"signature": json_file(random, said).decode("utf-8", errors="replace")})
        name = random.choice(sorted(arrays))
        array = arrays[name].copy()
        if array.size:
            array.flat[random.randrange(array.size)] = random.choice(_values(array.dtype))
        shapes = (array, array, array, array[:1], array.astype(bool), array[None], array[..., :0], array.ravel())
        with np.errstate(invalid="ignore"):
            changed = np.ascontiguousarray(random.choice(shapes))
        return save(arrays | {name: changed}, metadata={"signature": json.dumps(said)})

    return case


def _values(dtype: np.dtype[Any]) -> tuple[float, ...]:
    """Numbers that a stored array of this type should not hold, or hardly."""
    if dtype.kind == "f":
        return (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e-40, 3e38)
    limits = np.iinfo(dtype)
    return (int(limits.min), int(limits.max), 0, 1, 7)


KINDS = ("MatMulNBits", "MatMulInteger", "Gemm", "Mul", "If", "DequantizeLinear", "Transpose", "QLinearMatMul", "")
NAMES = ("", "/", "/model/layers.0/mlp/up_proj/MatMul", "/a/b" * 300, "../..", "/model/layers.999999/x/MatMul",
         "::error::")  # fmt: skip
KEYS = ("K", "N", "bits", "block_size", "transB", "alpha", "axis", "perm")
NUMBERS = (-1, 0, 1, 2, 4, 16, 2**31, 2**62, -(2**63))
SIZES = (0, 1, 2, 2**20, 2**40, 2**62)
CHANGES: tuple[Callable[[Random, onnx.NodeProto, onnx.TensorProto], Any], ...] = (
    lambda random, node, tensor: node.input.append(tensor.name),
    lambda random, node, tensor: node.input.pop() if node.input else None,
    lambda random, node, tensor: node.output.append("y"),
    lambda random, node, tensor: setattr(node, "op_type", random.choice(KINDS)),
    lambda random, node, tensor: setattr(node, "name", random.choice(NAMES)),
    lambda random, node, tensor: node.attribute.append(
        helper.make_attribute(random.choice(KEYS), random.choice((*NUMBERS, [1, 0], 0.5)))
    ),
    lambda random, node, tensor: setattr(tensor, "data_type", random.randrange(30)),
    lambda random, node, tensor: setattr(tensor, "data_location", 1),
    lambda random, node, tensor: setattr(tensor, "name", random.choice(NAMES)),
    lambda random, node, tensor: tensor.dims.append(random.choice(SIZES)),
    lambda random, node, tensor: tensor.dims.pop() if tensor.dims else None,
    lambda random, node, tensor: tensor.dims.reverse(),
)


def onnx_files(room: Path, model: Path) -> Callable[[Random], bytes]:
    """ONNX files with bytes changed, or with a node or a tensor that says something else."""
    plain = onnx_models.written(model, room / "plain.onnx")
    files = [plain, onnx_models.dynamic(plain, room / "q8.onnx"), onnx_models.blocks(plain, room / "q4.onnx", size=16)]
    files.append(onnx_models.blocks(plain, room / "qdq.onnx", size=16, qdq=True))
    valid = [file.read_bytes() for file in files]

    def case(random: Random) -> bytes:
        content = random.choice(valid)
        if random.randrange(2):
            return spliced(random, content)
        message = onnx.load_model_from_string(content)
        for _ in range(random.randrange(1, 4)):
            change = random.choice(CHANGES)
            change(random, random.choice(message.graph.node), random.choice(message.graph.initializer))
        return message.SerializeToString()

    return case


ENTRIES = [Entry(f"org/{row}", "c" * 40, "mlp", 64, 2, "mlp-robust-64") for row in range(40)]


def key_files(room: Path) -> Callable[[Random], bytes]:
    """Keys of some models, with another header or metadata, or other bytes."""
    content = write_shard(room, "valid", ENTRIES, np.zeros((len(ENTRIES), 256), np.uint8)).read_bytes()
    header, data = parted(content)
    inner = json.loads(header["__metadata__"]["index"])

    def case(random: Random) -> bytes:
        how = random.randrange(3)
        if how == 0:
            return spliced(random, content)
        if how == 1:
            return safetensors_file(random, header, data)
        changed = header | {"__metadata__": {"index": json_file(random, inner).decode(errors="replace")}}
        text = json.dumps(changed).encode()
        return len(text).to_bytes(8, "little") + text + data

    return case


def line_files(room: Path) -> Reader:
    """Lines of some models, of which one is another, or with other bytes, read as those of a shard."""
    shard = Shard.open(room / "valid.safetensors")
    lines = shard.models.read_bytes().splitlines()

    def case(random: Random) -> bytes:
        some = list(lines)
        at = random.randrange(len(some))
        some[at] = json_file(random, json.loads(some[at])).replace(b"\n", b" ")
        content = b"\n".join(some) + b"\n"
        return content if random.randrange(2) else spliced(random, content)

    def read(content: bytes) -> Any:
        shard.models.write_bytes(content)
        return shard.entries()

    return Reader(case, read)


_ACCEPTED = {"base": "a/b", "code": "part", "reason": "known", "expires": "2027-01-01", "model": "c/d", "part": "unet"}
_POLICY = {"fail-on": "undecided", "relation": ["finetune", "merge"], "accepted": [_ACCEPTED]}
_RECORD = json.loads(goldens.read(goldens.REPORT))
_RECORD = {key: _RECORD[key] for key in ("schema_version", *stored.StoredReport.__struct_fields__)}
_RECORD["claims"] = [{key: claim[key] for key in stored.StoredClaim.__struct_fields__} for claim in _RECORD["claims"]]


def temporary() -> "tempfile.TemporaryDirectory[str]":
    """A folder for the readers to work in, in memory where there is such a place."""
    shared = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="fuzz-", dir=shared if shared.is_dir() else None)
