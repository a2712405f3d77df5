"""LoRA adapters: what peft would add to the weights by `adapter_config.json` is added to each tensor as it is read."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.lora.module_names import ModuleNames
from hf_lineage.checkpoint.opening import open_file
from hf_lineage.checkpoint.stored import StoredRows, StoredTensor
from hf_lineage.checkpoint.tensor import single
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.hub import ADAPTER_CONFIG, RepoRef

if TYPE_CHECKING:
    from hf_lineage.checkpoint.stored import Memory

WEIGHTS = "adapter_model.safetensors"
FREE = frozenset(
    {"auto_mapping", "base_model_name_or_path", "fan_in_fan_out", "inference_mode", "lora_alpha", "lora_dropout"}
    | {"megatron_core", "peft_type", "peft_version", "qalora_group_size", "r", "revision", "target_modules"}
    | {"task_type", "use_dora", "use_rslora", "eva_config"}
)
"""Settings that do not change what is added, or that are read here; any other setting has to be unset."""
PLAIN = {"bias": "none", "init_lora_weights": (True, False, "gaussian", "orthogonal", "eva")}
"""Settings that may be set, each with its allowed values."""
STARTS = ("pissa", "olora")
"""Initialisations that peft computes again from each matrix, and subtracts from it, when it loads an adapter."""
MAGNITUDE = re.compile(r"(?:base_model\.model\.)?(?P<module>.+)\.lora_magnitude_vector(?:\.weight)?")
"""The name of the magnitudes of DoRA, one for each row."""
FACTOR = re.compile(r"(?:base_model\.model\.)?(?P<module>.+)\.lora_(?P<which>[AB])(?P<left>\.default)?\.weight")
"""The name of a factor; `default` is the name that peft gives an adapter and that some trainers leave in."""


@dataclass(frozen=True)
class Delta:
    """The two factors of what is added to one matrix, which is scale x B A."""

    first: str
    """A (r, in), by its name in the adapter."""
    second: str
    """B (out, r)."""
    transposed: bool
    """The matrix is stored as (in, out)."""
    magnitudes: str = ""
    """What the rows of the sum are scaled to; empty where they are not."""
    start: str = ""
    """The initialisation whose product is subtracted from the matrix; empty if there is none."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every tensor of the adapter that is needed."""
        return tuple(filter(None, (self.first, self.second, self.magnitudes)))


class Adapted(Checkpoint):
    """A checkpoint with an adapter added to what it reads."""

    def __init__(self, plain: Checkpoint, adapter: Checkpoint, scale: float, deltas: Mapping[str, Delta]) -> None:
        super().__init__(plain.stored, plain.tensors)
        self._plain, self._adapter, self._scale, self._deltas = plain, adapter, scale, deltas

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of the matrices to which something is added."""
        return tuple(self._deltas)

    def release(self) -> None:
        """Cancel the downloads that are still running."""
        self._plain.release()
        self._adapter.release()

    def prefetch(self, *names: str) -> None:
        """Start to read these tensors, and the factors that are added to them, in the background."""
        self._plain.prefetch(*names)
        added = [self._deltas[name] for name in names if name in self._deltas]
        self._adapter.prefetch(*(name for delta in added for name in delta.names))

    def prefetch_pieces(self, pieces: Iterable[StoredTensor], gap: int | None = None) -> None:
        """Start to read rows of stored matrices, to which nothing is added, in the background."""
        self._plain.prefetch_pieces(pieces, gap)

    def read_pieces(self, name: str, pieces: Iterable[StoredTensor]) -> NDArray[Any]:
        """Return rows of a stored matrix to which nothing is added; raise as `Checkpoint.read` does."""
        return self._plain.read_pieces(name, pieces)

    def wait(self, *names: str) -> None:
        """Return when these tensors are on this disk."""
        self._plain.wait(*names)

    def rows(self, name: str) -> StoredRows | None:
        """Return a matrix to which nothing is added; None for any other tensor."""
        return None if name in self._deltas else self._plain.rows(name)

    def read(self, name: str, memory: Memory | None = None) -> NDArray[Any]:
        """Return one tensor plus what the adapter adds to it; raise as `Checkpoint.read` does."""
        tensor, delta = self._plain.read(name, memory), self._deltas.get(name)
        if delta is None:
            return tensor
        second, first = (single(self._adapter.read(name)) for name in (delta.second, delta.first))
        matrix = single(tensor).T if delta.transposed else single(tensor)
        with np.errstate(all="ignore"):  # weights that are not finite are found where they are compared
            start = _start(delta.start, matrix, len(first), self._scale)
            total = matrix - start + np.float32(self._scale) * (second @ first)
            if delta.magnitudes:
                sizes = np.linalg.norm(total, axis=1)
                total = (single(self._adapter.read(delta.magnitudes)).ravel() / sizes)[:, None] * total
            return total.T if delta.transposed else total


def _start(kind: str, matrix: NDArray[np.float32], rank: int, scale: float) -> NDArray[np.float32] | np.float32:
    """What an initialisation subtracts from a matrix: its largest directions, or its first ones as QR finds them."""
    if not kind:
        return np.float32(0)
    if not np.isfinite(matrix).all():
        return np.float32(np.nan)
    wide = matrix.astype(np.float64)
    if kind == "olora":
        orthogonal, triangular = np.linalg.qr(wide)
        return single(scale * orthogonal[:, :rank] @ triangular[:rank])
    _, vectors = np.linalg.eigh(wide @ wide.T if len(wide) <= wide.shape[1] else wide.T @ wide)
    largest = vectors[:, ::-1][:, :rank]
    return single(largest @ (largest.T @ wide) if len(wide) <= wide.shape[1] else (wide @ largest) @ largest.T)


def adapter_base(repo: RepoRef) -> Any:
    """Return the name of the model on which the adapter was trained, as its configuration says; untrusted input."""
    return (repo.read_json(ADAPTER_CONFIG) or {}).get("base_model_name_or_path")


def adapted(repo: RepoRef, plain: Checkpoint, matrices: Mapping[str, bool], starts: Collection[str] = ()) -> Checkpoint:
    """Return these weights with the adapter of a repository added.

    `matrices` are the names of those that will be read, each with whether it is stored as (in, out); `starts` are the
    initialisations that may be computed again.
    Raise NothingToCompare for an adapter of an unsupported kind, CheckpointError for a damaged one.
    """
    config = repo.read_json(ADAPTER_CONFIG) or {}
    rank, scale = _refuse_unknown(config, starts)
    if not repo.offers(WEIGHTS):
        raise NothingToCompare(f"{ADAPTER_CONFIG} has no {WEIGHTS} beside it, so loading fails")
    adapter = open_file(repo, WEIGHTS)
    deltas, names = {}, ModuleNames(plain.tensors)
    for module, pair in _pairs(adapter, bool(config.get("use_dora"))).items():
        target = names.tensor(module)
        if target is None:
            raise NothingToCompare(
                f"the adapter is for {printable(module, 200)}, which is not stored as one matrix in the weights"
            )
        if not _targeted(module, config.get("target_modules")):
            raise NothingToCompare(
                f"the adapter holds {printable(module, 200)}, which its `target_modules` do not name"
            )
        if target in matrices:
            delta = _delta(pair, adapter, plain.tensors[target].shape, rank, matrices[target])
            start = config.get("init_lora_weights", True)
            deltas[target] = replace(delta, start=start if start in STARTS else "")
    return Adapted(plain, adapter, scale, deltas)


def _pairs(adapter: Checkpoint, scaled: bool) -> Mapping[str, Mapping[str, str]]:
    """By module the factors and, where rows are scaled, the magnitudes; NothingToCompare for anything else."""
    pairs: dict[str, dict[str, str]] = {}
    for name, info in adapter.tensors.items():
        match = FACTOR.fullmatch(name)
        magnitudes = MAGNITUDE.fullmatch(name) if scaled and match is None else None
        if magnitudes and not info.refusal:
            pairs.setdefault(magnitudes["module"], {})["m"] = name
            continue
        if match is None or match["left"] or info.refusal or len(info.shape) != 2:
            raise NothingToCompare(f"the adapter holds {printable(name, 200)}, which is not a factor of a plain LoRA")
        pairs.setdefault(match["module"], {})[match["which"]] = name
    lacking = next((module for module, pair in pairs.items() if scaled and "m" not in pair), None)
    if lacking is not None:
        raise CheckpointError(f"the adapter holds {printable(lacking, 200)} without its magnitudes")
    return pairs


def _refuse_unknown(config: Mapping[str, Any], starts: Collection[str]) -> tuple[int, float]:
    """The rank and the scale of a plain LoRA; NothingToCompare for any other adapter."""
    if config.get("peft_type") != "LORA":
        raise NothingToCompare(f"the adapter is of the kind {printable(str(config.get('peft_type')), 50)}")
    unsupported = next(
        (key for key, value in config.items() if key not in FREE and not _unset(key, value, starts)), None
    )
    if unsupported is not None:
        raise NothingToCompare(f"{ADAPTER_CONFIG} sets `{printable(unsupported, 50)}`, which is more than a plain LoRA")
    rank, alpha = config.get("r", 8), config.get("lora_alpha", 8)
    numbers = all(isinstance(number, int | float) and not isinstance(number, bool) for number in (rank, alpha))
    if not numbers or not 1 <= rank <= 2**20 or rank != int(rank) or not math.isfinite(alpha):
        raise NothingToCompare(f"{ADAPTER_CONFIG} has no rank and scale (`r`, `lora_alpha`)")
    return int(rank), alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _unset(key: str, value: Any, starts: Collection[str]) -> bool:
    allowed = (*PLAIN[key], *starts) if key == "init_lora_weights" else PLAIN.get(key)
    return not value or (value in allowed if isinstance(allowed, tuple) else bool(value == allowed))


def _targeted(module: str, targets: Any) -> bool:
    """Whether peft would apply the adapter to a module; patterns other than `all-linear` are not supported."""
    if isinstance(targets, list):
        return any(isinstance(target, str) and f".{module}".endswith(f".{target}") for target in targets)
    return bool(targets == "all-linear")


def _delta(pair: Mapping[str, str], adapter: Checkpoint, shape: tuple[int, ...], rank: int, transposed: bool) -> Delta:
    if not pair.keys() >= {"A", "B"}:
        raise CheckpointError(f"the adapter holds {printable(next(iter(pair.values())), 200)} without its other factor")
    first, second = (adapter.tensors[pair[which]].shape for which in "AB")
    out, inn = shape[::-1] if transposed and len(shape) == 2 else shape if len(shape) == 2 else (0, 0)
    if (first, second) != ((rank, inn), (out, rank)):
        raise NothingToCompare(
            f"the adapter's {printable(pair['A'], 200)} does not fit its matrix, or the rank of {ADAPTER_CONFIG}"
        )
    magnitudes = pair.get("m", "")
    if magnitudes and adapter.tensors[magnitudes].numbers != out:
        raise NothingToCompare(f"the adapter's {printable(magnitudes, 200)} does not fit its matrix")
    return Delta(pair["A"], pair["B"], transposed, magnitudes)


def finite(*factors: NDArray[np.float32]) -> bool:
    """Return whether all numbers of some factors are finite."""
    return all(math.isfinite(float(np.sum(factor, dtype=np.float64))) for factor in factors)
