"""LoRA adapters: with a configuration, as peft saves them, or in one file without, as diffusers and trainers do.

The tensors say what was adapted. `target_modules`, `layers_to_transform` and the patterns of ranks and scales only say
how peft chose it, so a pattern from an untrusted repository is never run. A file without a configuration may adapt
several models of a pipeline: names of tensors tell the model, shapes the rank, a tensor beside the factors the scale.
"""

import functools
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.registry import registry_table, setting
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.open_files import open_file
from hf_lineage.checkpoint.tensor import DTYPES, TensorInfo, single
from hf_lineage.checkpoint.weight_files import NO_WEIGHTS, WEIGHT_FILES
from hf_lineage.errors import Ambiguous, CheckpointError, NothingToCompare, printable
from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef

Settings = Mapping[str, Any]
forms = functools.partial(registry_table, "loading/adapters.yaml", dict[str, Any])
LARGEST_RANK = 2048  # more is no low rank any more, and would take minutes to decompose
MOST_MODULES = 100_000  # several times those of the largest models of experts
LARGEST_SCALE = 1e9  # no adapter multiplies what it adds by so much
WHICH = {"A": "A", "a": "A", "down": "A", "B": "B", "b": "B", "up": "B"}
PROCESSOR = re.compile(r"\.processor\.(to_\w+|add_\w+_proj)")  # names that diffusers once gave matrices of attention
ALPHA = ".alpha"  # the end of the name of a scale, which is divided by the rank
MAIN = ""  # the model of a pipeline that makes the picture


def form_of(config: Settings) -> tuple[Settings, Settings]:
    """Return the form of an adapter that has a configuration, and its settings by the names that peft gives them."""
    form: Settings = next(one for one in forms()["configured"] if one["key"] in config or not one["key"])
    own = {key: value for key, place in form["settings"].items() if (value := setting(config, place)) is not None}
    return form, {"peft_type": "lora", **own} if form["settings"] else config


def instead(tensors: Mapping[str, TensorInfo]) -> Iterator[str]:
    """Yield the contents that a file has in place of pairs of factors, as phrases that follow its name."""
    # Patterns are looked for in so many characters, which bounds their time.
    texts = [f"{name} {info.shape}"[-300:] for name, info in tensors.items()] or [""]
    for names, reason in forms()["instead"].items():
        if match := next(filter(None, map(re.compile(names).search, texts)), None):
            yield reason.format(**match.groupdict())


@dataclass(frozen=True)
class Factors:
    """The change scale x B A that is added to one matrix, as the names of its factors and their shapes."""

    first: str  # A (rank, columns)
    second: str  # B (rows, rank)
    rows: int
    columns: int
    rank: int  # the rank of the change; that of one expert where there are several
    scale: float  # the largest scale that the configuration may give: the patterns that peft would match are not run
    experts: int = 1  # the number of experts in a stack; the factors have a share for each
    alpha: str = ""  # the tensor with which the scale is multiplied; empty if there is none


@dataclass(frozen=True)
class Lora:
    """A LoRA adapter whose headers are read, and not its factors."""

    checkpoint: Checkpoint
    modules: Mapping[str, Factors]  # by the names that peft gives the adapted modules, without `base_model.model`
    kind: str  # LoRA, rsLoRA or DoRA, with the initialisation where it is not the usual one
    others: int  # tensors that belong to no pair of factors: magnitudes, biases, and modules that were saved whole
    order_matters: str = ""  # the initialisation, if it depends on the order of the base's rows; else empty
    calibrated: bool = True  # whether the power of the test was measured for adapters that started so
    stacked: bool = False  # whether tensors by themselves are adapted (`target_parameters`), as of stacked experts
    flattened: bool = False  # whether names of modules have underscores in place of points, as other trainers write
    config: Settings = field(default_factory=dict)  # by the names of peft; empty for a file without a configuration

    def read(self, module: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return B (rows, rank) and A (rank, columns) of a module; raise as `Checkpoint.read` does."""
        factors = self.modules[module]
        return single(self.checkpoint.read(factors.second)), single(self.checkpoint.read(factors.first))

    def prefetch(self, modules: Iterable[str]) -> None:
        """Start to read all that some modules need; without scales among the factors each is read when it is needed."""
        factors = [self.modules[module] for module in modules]
        if any(one.alpha for one in factors):
            self.checkpoint.prefetch(*(name for one in factors for name in (one.first, one.second, one.alpha) if name))

    def scale(self, module: str) -> float:
        """Return the factor of the product of a module; raise as `read` does."""
        factors = self.modules[module]
        if not factors.alpha:
            return factors.scale
        alpha = float(np.ravel(single(self.checkpoint.read(factors.alpha)))[0])
        if not abs(alpha) < LARGEST_SCALE:
            raise CheckpointError(f"{printable(factors.alpha, 200)} is {alpha:g}, which is not a scale; save it again")
        return abs(alpha) * factors.scale


def open_lora(repo: RepoRef) -> Lora:
    """Return the adapter of a repository, its headers checked; NothingToCompare where it is no LoRA."""
    form, config = form_of(repo.read_json(ADAPTER_CONFIG) or {})
    _refuse(repo, config, form["file"])
    checkpoint, pairs = open_file(repo, form["file"]), defaultdict[str, dict[str, str]](dict)
    factor, turned = re.compile(form["factors"]), {}
    for name, info in checkpoint.tensors.items():
        match = factor.fullmatch(name)
        if match and len(info.shape) == 2 and info.numbers and not info.refusal:
            pairs[match["module"]][match["which"].upper()] = name
            turned[name] = info.transpose() if form["turned"] else info
    checkpoint = checkpoint.with_tensors({**checkpoint.tensors, **turned})
    refuse_many(repo, pairs)
    where = f"{repo}: {form['file']}"
    if not pairs:
        usual = "holds no pair of LoRA factors of a matrix (lora_A and lora_B)"
        raise NothingToCompare(f"{where} {next(instead(checkpoint.tensors), usual)}")
    ranks, stacked = _ranks(repo, config), bool(config.get("target_parameters"))
    alpha, rooted = _alpha(repo, config), bool(config.get("use_rslora"))
    plain = {module: fit_factors(where, checkpoint, pair, ranks, stacked) for module, pair in pairs.items()}
    whole = bool(form["settings"])  # they hold the scale itself
    sizes = {module: 1 if whole else math.sqrt(one.rank) if rooted else one.rank for module, one in plain.items()}
    modules = {module: replace(one, scale=alpha / sizes[module]) for module, one in plain.items()}
    start = config.get("init_lora_weights", True)
    family, is_dora = _family(start), config.get("use_dora") or config["peft_type"] == "dora"
    begins, kind = forms()["starts"][family], "DoRA" if is_dora else "rsLoRA" if rooted else "LoRA"
    if family not in ("True", "true"):
        kind = f"{kind} from {'random factors' if family == 'False' else family}"
    kind, others = kind + (f" ({form['name']})" if whole else ""), len(checkpoint.tensors) - 2 * len(modules)
    order, calibrated = str(start) if begins == "order" else "", begins != "matrices"
    return Lora(checkpoint, modules, kind, others, order, calibrated, stacked, config=config)


def refuse_many(repo: RepoRef, modules: Collection[str]) -> None:
    """Raise NothingToCompare for more adapted matrices than any model has."""
    if len(modules) > MOST_MODULES:
        raise NothingToCompare(f"{repo}: adapters of more than {MOST_MODULES} matrices are not compared")


def _refuse(repo: RepoRef, config: Mapping[str, Any], file: str) -> None:
    """Raise NothingToCompare for an adapter that is no plain LoRA, and for weights that some loaders would not read."""
    kind, start = config.get("peft_type"), config.get("init_lora_weights", True)
    if kind not in ("LORA", "lora", "dora"):
        other = f"{repo} holds an adapter of the kind {printable(str(kind), 50)}"
        raise NothingToCompare(f"{other}; hf-lineage tests only LoRA adapters for a trace of their base")
    unlike = next((key for key in forms()["unlike"] if config.get(key)), None)
    if unlike is not None:
        sets = f"{repo}: {ADAPTER_CONFIG} sets `{unlike}`"
        raise NothingToCompare(f"{sets}, so the factors are not those of a plain LoRA")
    if _family(start) not in forms()["starts"]:
        start = printable(str(start), 50)
        sets = f"{repo}: {ADAPTER_CONFIG} sets `init_lora_weights` to {start}"
        raise NothingToCompare(f"{sets}, whose effect on the test is not known")
    others = [name for name in repo.files() if name.endswith(WEIGHT_FILES) and not NO_WEIGHTS.fullmatch(name)]
    if others and not repo.offers("config.json"):
        holds = f"{repo} holds {printable(others[0], 200)} beside an adapter and no config.json"
        raise NothingToCompare(f"{holds}: some loaders read the one, some the other; publish them separately")
    if not repo.offers(file):
        lacks = f"{repo} has no {file}, and no other adapter file is read"
        raise NothingToCompare(f"{lacks}; save it with peft's `save_pretrained`")


def _family(start: Any) -> str:
    # Its name in lower case without parameters, such as pissa of pissa_niter_16.
    return str(start).lower().partition("_niter")[0] if isinstance(start, str) else str(start)


def _ranks(repo: RepoRef, config: Mapping[str, Any]) -> frozenset[int]:
    """Return every rank that the configuration gives any matrix; CheckpointError for what is no rank."""
    pattern = config.get("rank_pattern") or {}
    if not isinstance(pattern, dict):
        mapping = "is not a mapping from names to ranks; save it again"
        raise CheckpointError(f"{repo}: `rank_pattern` of {ADAPTER_CONFIG} {mapping}")
    ranks = [config.get("r", 8), *pattern.values()]
    if wrong := [printable(repr(rank), 50) for rank in ranks if type(rank) is not int or rank < 1]:
        reason = f"gives the rank {wrong[0]}, which must be a positive integer; save it again"
        raise CheckpointError(f"{repo}: {ADAPTER_CONFIG} {reason}")
    if max(ranks) > LARGEST_RANK:
        raise NothingToCompare(f"{repo}: adapters of a rank above {LARGEST_RANK} are not compared")
    return frozenset(ranks)


def _alpha(repo: RepoRef, config: Mapping[str, Any]) -> float:
    """Return the configuration's largest scale of any matrix, times the rank; CheckpointError where it is no number."""
    pattern = config.get("alpha_pattern") or {}
    values = [config.get("lora_alpha", 8), *(pattern.values() if isinstance(pattern, dict) else [pattern])]
    for value in values:
        if type(value) not in (int, float) or not abs(value) < LARGEST_SCALE:
            scale = printable(repr(value), 50)
            raise CheckpointError(f"{repo}: {ADAPTER_CONFIG} gives the scale {scale}, not a number")
    return max(abs(float(value)) for value in values)


def fit_factors(
    where: str, checkpoint: Checkpoint, pair: Mapping[str, str], ranks: Collection[int] = (), stacked: bool = False
) -> Factors:
    """Return the factors of a module; CheckpointError unless shapes and ranks fit (of a stack: the sum of ranks)."""
    if pair.keys() != {"A", "B"}:
        name = printable(next(iter(pair.values())), 200)
        raise CheckpointError(f"{where} holds {name} without its other factor; save the adapter again")
    (rank, columns), (rows, inner) = (checkpoint.tensors[pair[which]].shape for which in "AB")
    each = max((one for one in ranks or [rank] if one == rank or (stacked and rank % one == 0)), default=0)
    if rank != inner or 0 in (each, rows, columns):
        numbers = ", ".join(map(str, sorted(ranks)[:5]))
        known = f" of a rank that {ADAPTER_CONFIG} gives ({numbers})" if ranks else ""
        both = f"{printable(pair['A'], 200)} of shape {(rank, columns)} and its other factor of shape {(rows, inner)}"
        raise CheckpointError(f"{where}: {both} do not multiply to a matrix{known}; save the adapter again")
    if each > LARGEST_RANK:
        raise NothingToCompare(f"{where}: adapters of a rank above {LARGEST_RANK} are not compared")
    return Factors(pair["A"], pair["B"], rows, columns, each, scale=1.0, experts=rank // each)


@dataclass
class _Model:
    flattened: bool = False
    pairs: dict[str, dict[str, str]] = field(default_factory=dict)
    alphas: dict[str, str] = field(default_factory=dict)
    magnitudes: bool = False
    others: int = 0


def is_lora_file(checkpoint: Checkpoint) -> bool:
    """Return whether a file holds factors, or products of other forms, by the names of its tensors."""
    tensors = checkpoint.tensors
    return bool(tensors) and (any(map(_factor, tensors)) or any(True for _ in instead(tensors)))


def open_lora_file(repo: RepoRef, file: str) -> Mapping[str, Lora]:
    """Return the adapters in a file by the folder of the pipeline each is for; NothingToCompare where none is read."""
    checkpoint, where = open_file(repo, file), f"{repo}: {printable(file, 200)}"
    plain = {}  # scales may be integers, as converters write them
    for name in filter(checkpoint.stored.__contains__, checkpoint.tensors):
        stored = checkpoint.stored[name]
        if name.endswith(ALPHA) and stored.numbers == 1 and stored.dtype in DTYPES:
            plain[name] = TensorInfo(stored.shape, (name,))
    checkpoint = checkpoint.with_tensors({**checkpoint.tensors, **plain})
    models = _models(checkpoint, where)
    loras = {}
    for folder, one in models.items():
        modules = {module: fit_factors(where, checkpoint, pair) for module, pair in one.pairs.items()}
        for module in one.alphas.keys() & modules:
            modules[module] = replace(modules[module], scale=1 / modules[module].rank, alpha=one.alphas[module])
        if modules:
            kind = "DoRA" if one.magnitudes else "LoRA"
            loras[folder] = Lora(checkpoint, modules, kind, others=one.others, flattened=one.flattened)
    refuse_many(repo, [module for lora in loras.values() for module in lora.modules])
    if loras:
        return loras
    raise NothingToCompare(f"{where} {next(instead(checkpoint.tensors), 'holds no pair of LoRA factors of a matrix')}")


def _factor(name: str) -> re.Match[str] | None:
    return next(filter(None, (re.fullmatch(pattern, name) for pattern in forms()["alone"])), None)


def _models(checkpoint: Checkpoint, where: str) -> Mapping[str, _Model]:
    """Return the tensors of a file by the folder of the model that they are for."""
    models: dict[str, _Model] = {}
    for name, info in checkpoint.tensors.items():
        folder, flattened, rest = _component(name)
        mine = models.setdefault(folder, _Model(flattened))
        match = _factor(rest)
        if mine.flattened != flattened:
            raise Ambiguous(f"{where} names the matrices of one model in two ways; publish them separately")
        if match and len(info.shape) == 2 and not info.refusal:
            pair = mine.pairs.setdefault(_module(match["module"]), {})
            if pair.setdefault(WHICH[match["which"]], name) != name:
                raise CheckpointError(f"{where} holds a factor of {printable(name, 200)} twice; save it again")
        elif rest.endswith(ALPHA) and info.numbers == 1 and not info.refusal:
            mine.alphas[_module(rest.removesuffix(ALPHA))] = name
        else:
            mine.others += 1
            mine.magnitudes |= any(part in rest for part in forms()["magnitudes"])
    return models


def _component(name: str) -> tuple[str, bool, str]:
    """Return the folder of the pipeline that a tensor is for, whether its name is flattened, and the rest of it."""
    for flattened, starts in enumerate((forms()["components"], forms()["flattened"])):
        for start, folder in starts.items():
            if name.startswith(start):
                return folder, bool(flattened), name[len(start) :]
    return MAIN, False, name


def _module(name: str) -> str:
    plain = PROCESSOR.sub(r".\1", name)  # as diffusers names it today, where the output is the first of a list
    return f"{plain}.0" if plain != name and plain.endswith(".to_out") else plain
