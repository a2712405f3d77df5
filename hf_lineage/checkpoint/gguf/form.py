"""GGUF as a foreign form: class, configuration and names of the tensors, as transformers would have them."""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from hf_lineage.architecture import registry, schema
from hf_lineage.architecture.layers import named_tensors
from hf_lineage.architecture.schema import Factorization
from hf_lineage.checkpoint.foreign_form import MOST_HEADS, ForeignForm, Heads, Piece, Undo, by_pieces
from hf_lineage.checkpoint.gguf.files import choose_files, read_head, read_tokens
from hf_lineage.checkpoint.gguf.tensors import apply_factors, gguf, open_gguf
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import constant
from hf_lineage.errors import ONE_FILE, CheckpointError, NothingToCompare, printable
from hf_lineage.hub.repo import RepoRef

EMBEDDING = "token_embd.weight"
ARCHITECTURE, TYPE = "general.architecture", "general.type"
LAYER = re.compile(r"(?P<stack>(?:\w+\.)?blk)\.(?P<layer>\d{1,6})\.(?P<rest>.+)")
INSIDE = re.compile(r"(?:.+\.)?(?P<layer>\d{1,6})\.(?P<rest>.+)")
SUFFIX = re.compile(r"(?P<bare>.+?)(?P<suffix>(?:\.(?:weight|bias|scale|input_scale))?)")
HEADS, KEY_VALUE_HEADS = "attention.head_count", "attention.head_count_kv"


class _Architecture(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"name": "class"}):
    name: str  # the class in transformers whose layers are alike
    with_experts: str | None = None  # the class where the metadata count experts
    undo: dict[str, Undo] = {}  # name of a tensor in GGUF -> the change that the converter made to it
    constants: dict[str, schema.Setting] = {}  # settings that `config.json` would have and the metadata do not


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    settings: dict[str, str]
    learned: dict[str, str]
    architectures: dict[str, _Architecture]


_table = functools.partial(registry.registry_table, "gguf/architectures.yaml", _Table)


def config_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration that metadata stand for; raise NothingToCompare where they are of no model we read."""
    if (kind := str(metadata.get(TYPE, "model"))) != "model":
        what = "check the adapter that was converted" if kind == "adapter" else f"name one {ONE_FILE}"
        raise NothingToCompare(f"the GGUF file has the type {printable(kind, 50)}, not a model; {what}")
    architecture, entry = _architecture(metadata)
    values = {key: metadata.get(f"{architecture}.{source}") for key, source in _table().settings.items()}
    config = {key: value for key, value in values.items() if isinstance(value, int | float)}
    config.setdefault("rope_theta", 10000.0)  # as in llama.cpp
    if config.get("num_experts") and entry.with_experts:
        return {"architectures": [entry.with_experts], **config, **entry.constants}
    if predicting := config.get("num_nextn_predict_layers"):
        config["num_hidden_layers"] = config.get("num_hidden_layers", 0) - predicting
    return {"architectures": [entry.name], **config, **entry.constants}


def _architecture(metadata: Mapping[str, Any]) -> tuple[str, _Architecture]:
    name = metadata.get(ARCHITECTURE)
    entry = _table().architectures.get(name) if isinstance(name, str) else None
    if entry is None:
        what = f"has the architecture {printable(str(name), 50)}, which hf-lineage cannot read"
        raise NothingToCompare(f"the GGUF file {what}; check the safetensors release instead")
    return str(name), entry


def name_tensors(metadata: Mapping[str, Any], factorization: Factorization, stored: Iterable[str]) -> Iterator[Piece]:
    """Yield every tensor of a file by the name that it has on the Hub's disk, by the map of the package `gguf`.

    What the factorization does not name keeps its own name. Each expert of a stack is a tensor too, `name[number]`.
    """
    architecture, entry = _architecture(metadata)
    embedding = next((f"{name}.weight" for name in schema.as_names(factorization.embedding)), EMBEDDING)
    translate = functools.cache(_Translation(architecture, factorization).translate)
    for name in stored:
        layer = LAYER.fullmatch(name.partition("[")[0])
        if layer is None:
            bare, _ = SUFFIX.fullmatch(name).groups()  # type: ignore[union-attr]
            yield Piece(embedding if name == EMBEDDING else name, name, undo=entry.undo.get(bare))
            continue
        bare, suffix = SUFFIX.fullmatch(layer["rest"]).groups()  # type: ignore[union-attr]
        expert = name.partition("[")[2].rstrip("]")
        template = translate(f"{layer['stack']}.{{bid}}.{bare}", suffix)
        if ("{expert}" in template) != bool(expert):
            continue
        full = template.replace("{bid}", layer["layer"]).replace("{expert}", expert)
        yield Piece(full, name, undo=entry.undo.get(bare))


class _Translation:
    """Translates the names of an architecture's tensors in GGUF, with `{bid}` for the layer, to those on the Hub."""

    def __init__(self, architecture: str, factorization: Factorization) -> None:
        known = (name for name in named_tensors(factorization) if "{layer}" not in name)
        self._known = {name.replace(".{expert}", ""): name for name in known}
        ignored = (re.escape(name).replace(r"\*", ".*") for name in factorization.ignores)
        self._ignored = re.compile("|".join(ignored) or "$^")
        package = gguf()
        number = next((key for key, name in package.MODEL_ARCH_NAMES.items() if name == architecture), None)
        if number is None:
            raise NothingToCompare(f"the package gguf does not know {architecture}; `pip install --upgrade gguf`")
        own = package.TensorNameMap.arch_block_mappings_cfg.get(number, {})
        mapped = {**package.TensorNameMap.block_mappings_cfg, **own}.items()
        # Where several tensors list one name, the package itself lets the last count.
        stored = {key: one for one, keys in mapped if one in package.MODEL_TENSORS[number] for key in keys}
        self._candidates: dict[str, list[str]] = {}  # the name of a tensor in GGUF -> those that it may have on the Hub
        for key, one in stored.items():
            self._candidates.setdefault(package.TENSOR_NAMES[one], []).append(key)
        stacks = schema.as_stacks(factorization.layers).values()
        patterns = [[pattern.replace("{layer}", "{bid}") for pattern in stack] for stack in stacks]
        self._prefixes = [best for stack in patterns if self._count(best := max(stack, key=self._count))]

    def translate(self, stored: str, suffix: str) -> str:
        """Return the name of a tensor, with its suffix; `{expert}` in it stands for the number of an expert."""
        candidates = [(prefix, each) for each in self._candidates.get(stored, ()) for prefix in self._prefixes]
        relative = [
            (prefix, each.removeprefix(f"{prefix}.")) for prefix, each in candidates if each.startswith(f"{prefix}.")
        ]
        for prefix, rest in relative:
            for name, end in ((rest, suffix), (f"{rest}{suffix.replace('.', '_')}", "")):
                if name in self._known:
                    return f"{prefix}.{self._known[name]}{end}"
        ignored = next((f"{prefix}.{rest}" for prefix, rest in relative if self._ignored.fullmatch(rest)), None)
        prefix = relative[0][0] if relative else next(iter(self._prefixes), "layers.{bid}")
        return f"{ignored or prefix + '.' + stored.partition('{bid}.')[2]}{suffix}"

    def _count(self, prefix: str) -> int:
        candidates = {name for names in self._candidates.values() for name in names}
        return sum(f"{prefix}.{name}" in candidates for name in self._known)


def gguf_form(repo: RepoRef) -> ForeignForm | None:
    """Return the form of a model in GGUF, configured by its metadata alone; None where there are no such files."""
    if not (files := choose_files(repo)):
        return None

    def metadata() -> Mapping[str, Any]:
        return read_head(repo, files[0]).metadata

    def tokens() -> dict[str, int]:  # llama.cpp marks the first piece of a word, WordPiece all others
        texts: Iterable[str] = read_tokens(repo, files[0])
        if metadata().get("tokenizer.ggml.model") == "bert":
            marked = (text if text.startswith("[") and text.endswith("]") else f"##{text}" for text in texts)
            texts = (text.removeprefix("##\u2581") for text in marked)
        return {text: number for number, text in enumerate(texts)}

    return ForeignForm(
        *(repo, files, ".gguf", "the most precise GGUF file by its name (--file all judges each)"),
        config=lambda: config_of(metadata()),
        open=lambda: open_gguf(repo, files),
        rename=lambda factorization, _, plain: _rename(metadata(), factorization, apply_factors(plain)),
        list_read=lambda: list(files),
        aliases=_aliases,
        tokens=tokens,
    )


def _rename(metadata: Mapping[str, Any], factorization: Factorization, plain: Checkpoint) -> Checkpoint:
    def heads(name: str) -> Heads:
        number = re.search(r"\d+", name)
        layer = int(number[0]) if number else 0
        query = _count(metadata, HEADS, layer)
        return Heads(query or 1, _count(metadata, KEY_VALUE_HEADS, layer) or query or 1)

    renamed = by_pieces(plain, name_tensors(metadata, factorization, plain.tensors), heads)
    layers, learned = metadata.get(f"{metadata[ARCHITECTURE]}.block_count"), {}
    for name, key in _table().learned.items():
        values = metadata.get(key, ())
        if key in metadata and (not isinstance(values, tuple) or len(values) != layers):
            raise NothingToCompare(f"the GGUF file has no list `{key}` of one number for each layer; do not trust it")
        for number, value in enumerate(values):
            prefix = schema.prefixes(factorization)[0].replace("{layer}", str(number))
            learned[f"{prefix}.{name}"] = constant(float(value))
    return renamed.with_tensors({**renamed.tensors, **learned}) if learned else renamed


def _aliases(name: str) -> Iterator[str]:
    bare, suffix = SUFFIX.fullmatch(name).groups()  # type: ignore[union-attr]
    layer = INSIDE.fullmatch(bare)
    package = gguf()
    stored = f"blk.{{bid}}.{layer['rest']}" if layer else bare
    names = package.TensorNameMap.block_mappings_cfg if layer else package.TensorNameMap.mappings_cfg
    known = bare.replace(f".{layer['layer']}.", ".{bid}.", 1) if layer else bare
    for kind, others in names.items():
        for alias in others if package.TENSOR_NAMES[kind] == stored or known in others else ():
            full = alias.replace("{bid}", layer["layer"]) if layer else alias
            yield from (f"{full}{suffix}", f"{full}{suffix.replace('.', '_')}")


def _count(metadata: Mapping[str, Any], key: str, layer: int) -> int:
    count = metadata.get(f"{metadata[ARCHITECTURE]}.{key}", 0)
    value = count[layer] if isinstance(count, tuple) and layer < len(count) else count
    if not isinstance(value, int) or not 0 <= value <= MOST_HEADS:
        raise CheckpointError(f"the GGUF file says {key}: {str(count)[:50]}, not a number of heads; do not trust it")
    return value
