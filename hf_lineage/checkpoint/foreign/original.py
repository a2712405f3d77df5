"""Original checkpoints: `params.json` and consolidated weights, read as the files of transformers."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from hf_lineage.architecture.registry import Factorization, Setting, registry_table, setting
from hf_lineage.checkpoint.foreign.form import Files, ForeignForm
from hf_lineage.checkpoint.foreign.pieces import MOST_HEADS, Heads, Piece, by_pieces
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.hub import RepoRef

FILE = "makers/consolidated.yaml"
PARAMS = "params.json"
WEIGHTS = re.compile(r"consolidated[\w.-]*\.(safetensors|pth|pt)")
PART = re.compile(r"consolidated\.(?P<number>\d\d)\.pth?")
"""Parts of all matrices, one for each GPU."""
KIND, PLAIN = "model_type", "transformer"
"""The key that says what kind of model it is, and the only kind that is read."""


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"name": "class"}):
    name: str
    with_experts: str
    settings: dict[str, str]
    constants: dict[str, Setting]
    ignores: tuple[str, ...]
    names: dict[str, str]
    rotated: tuple[str, ...]


_table = functools.partial(registry_table, FILE, _Table)


def config_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration that `params.json` stands for, as `config.json` would say it.

    Raise NothingToCompare where it describes more than the layers of a language model.
    """
    table = _table()
    known = {key.partition(".")[0] for key in table.settings.values()} | {*table.ignores}
    known |= {KIND} if params.get(KIND) == PLAIN else set()
    other = next((key for key, value in params.items() if value and key not in known), None)
    if other is not None:
        raise NothingToCompare(
            f"params.json says `{printable(other, 50)}`, but a language model has fewer layers; check the release "
            "that has a config.json"
        )
    values = {key: setting(params, source) for key, source in table.settings.items()}
    config = {key: value for key, value in values.items() if isinstance(value, int | float)}
    return {"architectures": [table.with_experts if params.get("moe") else table.name], **config, **table.constants}


def name_tensors(stored: Iterable[str]) -> Iterator[Piece]:
    """Yield every tensor by the name that it has on the Hub's disk; one that is not known keeps its own."""
    for name in stored:
        bare, dot, suffix = name.rpartition(".")
        pattern, layer, expert = _pattern(bare if suffix in ("weight", "bias") else "")
        if pattern is None:
            yield Piece(name, name)
            continue
        full = _table().names[pattern].replace("{layer}", layer).replace("{expert}", expert)
        yield Piece(f"{full}{dot}{suffix}", name, undo="rotated" if pattern in _table().rotated else None)


def _pattern(bare: str) -> tuple[str | None, str, str]:
    """The known name that a tensor has, and the numbers of its layer and of its expert in it."""
    layer = re.match(r"layers\.(\d{1,6})\.", bare)
    expert = re.search(r"\.experts\.(\d{1,6})\.", bare)
    numbers = [match[1] if match else "" for match in (layer, expert)]
    pattern = bare.replace(f"layers.{numbers[0]}.", "layers.{layer}.", 1) if layer else bare
    pattern = pattern.replace(f".experts.{numbers[1]}.", ".experts.{expert}.", 1) if expert else pattern
    return pattern if pattern in _table().names else None, numbers[0], numbers[1]


def _choose(repo: RepoRef) -> tuple[str, ...]:
    """The weights of a repository without a `config.json`."""
    files = tuple(name for name in repo.files() if WEIGHTS.fullmatch(name))
    return files if files and not repo.has("config.json") and repo.offers(PARAMS) else ()


def _config(repo: RepoRef, files: Files) -> dict[str, Any]:
    parts = sorted(name for name in files if PART.fullmatch(name))
    if len(parts) > 1:
        raise NothingToCompare(
            f"{repo}: every matrix is cut into {len(parts)} parts ({parts[0]} and others), one for each GPU, and "
            "hf-lineage cannot join them; check the release that has a config.json"
        )
    return config_of(_params(repo))


def _rename(
    repo: RepoRef, files: Files, factorization: Factorization, config: Mapping[str, Any], checkpoint: Checkpoint
) -> Checkpoint:
    del files, factorization, config
    query = _count(_params(repo), "n_heads", 1)
    heads = Heads(query, _count(_params(repo), "n_kv_heads", query))
    return by_pieces(checkpoint, name_tensors(checkpoint.tensors), lambda _: heads)


def _params(repo: RepoRef) -> Mapping[str, Any]:
    repo.fetch(PARAMS)
    return repo.read_json(PARAMS) or {}


def _count(params: Mapping[str, Any], key: str, default: int) -> int:
    count = params.get(key) or default
    if type(count) is not int or not 1 <= count <= MOST_HEADS:
        raise CheckpointError(f"{PARAMS} says `{key}`: {str(count)[:50]}, not a number of heads; do not trust it")
    return count


ORIGINAL: ForeignForm = ForeignForm(
    "original",
    _choose,
    _config,
    rename=_rename,
    remark=f"{PARAMS} and the original tensor names were read as those of transformers",
)
