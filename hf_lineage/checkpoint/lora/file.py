"""LoRA adapters in one file without a configuration, as diffusers saves them, and trainers beside it.

One file may adapt several models of a pipeline. The names of its tensors say which, their shapes the rank, and a tensor
beside the factors the scale where it is not one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.lora.factors import LARGEST_RANK, Factors, Lora, refuse_many
from hf_lineage.checkpoint.opening import open_file
from hf_lineage.checkpoint.tensor import DTYPES, TensorInfo
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.hub import RepoRef

FACTOR = re.compile(
    r"(?P<module>[^\s]+?)(?:\.lora_linear_layer\.|\.lora\.|_lora\.|\.lora_)(?P<which>A|B|down|up)(?:\.default)?\.weight"
)
"""The names of peft, of diffusers before it used peft, and of kohya's trainer."""
WHICH = {"A": "A", "down": "A", "B": "B", "up": "B"}
PROCESSOR = re.compile(r"\.processor\.(to_\w+|add_\w+_proj)")
"""How diffusers once named the matrices of attention."""
OUTPUT = ".to_out"
"""The name there of what is the first module of a list."""
OTHER_FORMS = re.compile(r"\.(hada_|lokr_|oft_|glora_|diff\b|lora_mid\b|boft)")
"""Products of other forms, which have no two factors."""
MAGNITUDES = ("dora_scale", "lora_magnitude_vector")
ALPHA = ".alpha"
"""The end of the name of a scale, which is divided by the rank."""
MAIN = ""
"""The model of a pipeline that makes the picture."""
COMPONENTS = {
    **{f"{name}.": (MAIN, False) for name in ("unet", "transformer", "prior", "base_model.model")},
    **{f"{name}.": (name, False) for name in ("text_encoder", "text_encoder_2", "text_encoder_3")},
    **{f"lora_{name}_": (MAIN, True) for name in ("unet", "transformer", "prior")},
    **{f"lora_te{number}_": ("text_encoder", True) for number in ("", "1")},
    **{f"lora_te{number}_": (f"text_encoder_{number}", True) for number in (2, 3)},
}
"""Beginning of a name -> the folder of the pipeline, and whether the rest has underscores in place of points."""


@dataclass
class _Model:
    """The tensors of one model of a pipeline."""

    flattened: bool = False
    pairs: dict[str, dict[str, str]] = field(default_factory=dict)
    alphas: dict[str, str] = field(default_factory=dict)
    magnitudes: bool = False
    beside: int = 0


def is_lora_file(checkpoint: Checkpoint) -> bool:
    """Return whether a file holds factors, or products of other forms, by the names of its tensors."""
    return any(FACTOR.fullmatch(name) or OTHER_FORMS.search(name) for name in checkpoint.tensors)


def open_lora_file(repo: RepoRef, file: str) -> Mapping[str, Lora]:
    """Return the adapters in a file by the folder of the pipeline that each is for, headers checked.

    Raise NothingToCompare where there is none that is read, CheckpointError for a damaged one.
    """
    checkpoint = _with_numbers(open_file(repo, file))
    where = f"{repo}: {printable(file, 200)}"
    held = _models(checkpoint, where)
    loras = {folder: _lora(checkpoint, one, where) for folder, one in held.items() if one.pairs}
    refuse_many(repo, [module for lora in loras.values() for module in lora.modules])
    if loras:
        return loras
    if other := next((match[1] for name in checkpoint.tensors if (match := OTHER_FORMS.search(name))), None):
        raise NothingToCompare(
            f"{where} holds products of another form ({other.strip('_')}: LoHa, LoKr, OFT or a whole difference); "
            "hf-lineage tests only pairs of LoRA factors"
        )
    raise NothingToCompare(f"{where} holds no pair of LoRA factors of a matrix")


def _with_numbers(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint in which scales may be integers, as converters write them."""
    scales = (name for name in checkpoint.tensors if name.endswith(ALPHA))
    plain = {
        name: TensorInfo(checkpoint.stored[name].shape, (name,)) for name in scales if _is_number(checkpoint, name)
    }
    return checkpoint.with_tensors({**checkpoint.tensors, **plain})


def _is_number(checkpoint: Checkpoint, name: str) -> bool:
    stored = checkpoint.stored.get(name)
    return stored is not None and stored.numbers == 1 and stored.dtype in DTYPES


def _models(checkpoint: Checkpoint, where: str) -> Mapping[str, _Model]:
    """What a file holds for each model."""
    held: dict[str, _Model] = {}
    for name, info in checkpoint.tensors.items():
        folder, flattened, rest = _component(name)
        mine = held.setdefault(folder, _Model(flattened))
        match = FACTOR.fullmatch(rest)
        if mine.flattened != flattened:
            raise NothingToCompare(f"{where} names the matrices of one model in two ways; publish them separately")
        if match and len(info.shape) == 2 and not info.refusal:
            pair = mine.pairs.setdefault(_module(match["module"]), {})
            if pair.setdefault(WHICH[match["which"]], name) != name:
                raise CheckpointError(f"{where} holds a factor of {printable(name, 200)} twice; save it again")
        elif rest.endswith(ALPHA) and info.numbers == 1 and not info.refusal:
            mine.alphas[_module(rest.removesuffix(ALPHA))] = name
        else:
            mine.beside += 1
            mine.magnitudes |= any(part in rest for part in MAGNITUDES)
    return held


def _component(name: str) -> tuple[str, bool, str]:
    """The folder of the pipeline for which a tensor is, whether its name is flattened, and the rest of the name."""
    for start, (folder, flattened) in COMPONENTS.items():
        if name.startswith(start):
            return folder, flattened, name[len(start) :]
    return MAIN, False, name


def _module(name: str) -> str:
    """The name of a module as it is today."""
    plain = PROCESSOR.sub(r".\1", name)
    return f"{plain}.0" if plain != name and plain.endswith(OUTPUT) else plain


def _lora(checkpoint: Checkpoint, held: _Model, where: str) -> Lora:
    return Lora(
        checkpoint,
        dict(_factors(checkpoint, held, where)),
        "DoRA" if held.magnitudes else "LoRA",
        beside=held.beside,
        flattened=held.flattened,
    )


def _factors(checkpoint: Checkpoint, held: _Model, where: str) -> Iterator[tuple[str, Factors]]:
    """Yield every module with its factors; CheckpointError unless they are two that fit each other."""
    for module, pair in held.pairs.items():
        if pair.keys() != {"A", "B"}:
            name = printable(next(iter(pair.values())), 200)
            raise CheckpointError(f"{where} holds {name} without its other factor; save it again")
        (rank, columns), (rows, inner) = (checkpoint.tensors[pair[which]].shape for which in "AB")
        if rank != inner or 0 in (rank, rows, columns):
            raise CheckpointError(
                f"{where}: {printable(pair['A'], 200)} of shape {(rank, columns)} and its other factor of shape "
                f"{(rows, inner)} do not multiply to a matrix; save it again"
            )
        if rank > LARGEST_RANK:
            raise NothingToCompare(f"{where}: adapters of a rank above {LARGEST_RANK} are not compared")
        alpha = held.alphas.get(module, "")
        yield module, Factors(pair["A"], pair["B"], rows, columns, rank, 1 / rank if alpha else 1.0, alpha=alpha)
