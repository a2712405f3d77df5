"""Every number held against the base's: honest files, edits of one number, and what it costs.

`python -m benchmarks.strict` writes models of four architectures in every format that a bound is known for, has
`--strict` judge each, changes 1,000 single numbers, and writes `results/strict.json`. `--cost` adds
time and memory on a file of half a gigabyte. It takes some minutes, because every one of so many files is judged.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clock import peak
from benchmarks.isolated import isolated

FILE = Path(__file__).with_name("results") / "strict.json"
SEEDS, EDITS, STEPS = 2, 1000, 4
WIDTH, VOCABULARY = 256, 320
IN_LAYERS = (".layers.", ".h.", ".layer.")
"""In the names of matrices that belong to a layer."""
ARCHITECTURES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "llama": ("LlamaForCausalLM", {"num_key_value_heads": 2, "num_attention_heads": 4, "intermediate_size": 512}),
    "gpt2": ("GPT2LMHeadModel", {"n_head": 4, "n_positions": 256}),
    "mixtral": (
        "MixtralForCausalLM",
        {"num_key_value_heads": 2, "num_attention_heads": 4, "intermediate_size": 256, "num_local_experts": 4}
        | {"rms_norm_eps": 1e-6},
    ),
    "bert": ("BertModel", {"num_attention_heads": 4, "intermediate_size": 512, "max_position_embeddings": 256}),
}
"""By the name of the architecture in llama.cpp, or nearly, the class of transformers and its settings."""
LLAMA_CPP = {"mixtral": "llama"}
Write = Callable[[Path, Path, str, int], Path]
"""Writes the model of a folder into another, given its architecture and a seed; returns what is checked."""


def made(folder: Path, architecture: str, seed: int, dtype: str = "bfloat16") -> Path:
    """Write a model of random weights with heavy tails, as training leaves them."""
    import torch
    import transformers

    name, settings = ARCHITECTURES[architecture]
    torch.manual_seed(seed)
    kind = getattr(transformers, name)
    sizes = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2}
    without = {"add_pooling_layer": False} if architecture == "bert" else {}  # llama.cpp's converter leaves it out
    model = kind(kind.config_class(**sizes, **settings), **without)
    tails = torch.distributions.StudentT(torch.tensor(4.0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.02 * tails.sample(parameter.shape) + (parameter.ndim == 1) * parameter)
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    return folder


def as_gguf(kind: str, matrix: bool = False) -> Write:
    """Return what writes GGUF in a type, by an importance matrix if there is one."""

    def write(source: Path, folder: Path, architecture: str, seed: int) -> Path:
        import gguf

        from tests import gguf_models

        random = np.random.default_rng(seed)
        weights: Any = {"importance": lambda _name, columns: np.exp(random.normal(size=columns))} if matrix else {}
        of_type = gguf.GGMLQuantizationType[kind]
        file = folder / "model.gguf"
        gguf_models.write(source, file, LLAMA_CPP.get(architecture, architecture), kind=of_type, **weights)
        return folder

    return write


def packed(pack: Callable[[Any], Mapping[str, Any]], **settings: Any) -> Write:
    """Return what packs the matrices of all layers; matrices that a class has as (in, out) are stored as (out, in)."""

    def write(source: Path, folder: Path, architecture: str, seed: int) -> Path:
        import torch
        from safetensors.torch import load_file, save_file

        from tests.models import WEIGHTS, edit_json

        del seed
        shutil.copytree(source, folder)
        stored = load_file(source / WEIGHTS)
        for name in [name for name, tensor in stored.items() if tensor.ndim == 2 and _in_layer(name)]:
            matrix = stored.pop(name).float()
            with torch.compiler.set_stance("force_eager"):
                parts = pack(matrix.T.contiguous() if architecture == "gpt2" else matrix)
            stored |= {f"{name.removesuffix('.weight')}{end}": part.contiguous() for end, part in parts.items()}
        save_file(stored, folder / WEIGHTS)
        edit_json(folder / "config.json", quantization_config=settings)
        return folder

    return write


def _in_layer(name: str) -> bool:
    return any(part in f".{name}" for part in IN_LAYERS) and not name.endswith((".gate.weight", "norm.weight"))


def cast(dtype: str) -> Write:
    """Return what stores a model in another number format."""

    def write(source: Path, folder: Path, architecture: str, seed: int) -> Path:
        import torch
        from safetensors.torch import load_file, save_file

        from tests.models import WEIGHTS, edit_json

        del architecture, seed
        shutil.copytree(source, folder)
        stored = {name: tensor.to(getattr(torch, dtype)) for name, tensor in load_file(source / WEIGHTS).items()}
        save_file(stored, folder / WEIGHTS)
        edit_json(folder / "config.json", dtype=dtype)
        return folder

    return write


@functools.cache
def formats() -> Mapping[str, Write]:
    """Return what writes each format, by its name; those of matrices of (out, in) alone come last."""
    writers: dict[str, Any] = {
        name: import_module(f"tests.checkpoint.formats.test_{name}") for name in ("bnb", "compressed", "mlx")
    }
    bnb, compressed, mlx = writers.values()
    plain = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "TQ1_0", "TQ2_0", "F16", "BF16")
    searched = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
    made = {f"GGUF {kind}": as_gguf(kind) for kind in (*plain, *searched)}
    made |= {f"GGUF {kind}, importance matrix": as_gguf(kind, matrix=True) for kind in searched}
    for kind, nested in itertools.product(("nf4", "fp4"), (False, True)):
        name = f"bitsandbytes {kind}{', nested' * nested}"
        made[name] = packed(bnb.four_bits(kind, nested), **bnb.FOUR)
    made["bitsandbytes int8"] = packed(bnb.eight_bits, **bnb.EIGHT)
    made |= {f"cast to {dtype}": cast(dtype) for dtype in ("float32", "float16", "bfloat16")}
    for name, (form, weights) in compressed.CASES.items():
        if "whole" not in weights and form != compressed.NVFP4:
            settings = compressed.settings(form, **weights)
            made[f"compressed-tensors {name}"] = packed(compressed.compressed(form, **weights), **settings)
    for bits in (3, 4, 8):
        write = packed(mlx.packed(bits))
        made[f"MLX {bits} bits"] = functools.partial(_as_mlx, write, bits)
    return made


def _as_mlx(write: Write, bits: int, source: Path, folder: Path, architecture: str, seed: int) -> Path:
    from tests.models import edit_json

    write(source, folder, architecture, seed)
    edit_json(folder / "config.json", quantization_config={"bits": bits, "group_size": 32})
    return folder


ONLY_LINEAR = ("compressed-tensors", "MLX")
"""Beginnings of the names of formats that matrices of (in, out) are not stored in."""


def judged(base: Path, candidate: Path) -> Any:
    """Return how every number of a file compares with the base's."""
    from hf_lineage.checking.strict import judge_strict
    from hf_lineage.evidence.verdict import Code, Verdict
    from hf_lineage.source.locate import locate
    from hf_lineage.source.model import open_model
    from hf_lineage.source.options import Options

    options = Options()
    first, second = (open_model(locate(str(folder), None), options) for folder in (base, candidate))
    return judge_strict(first, second, Verdict(Code.INHERITED)).strict


@dataclass(frozen=True)
class Honest:
    """One file that nobody edited."""

    base: Path
    folder: Path
    architecture: str
    format: str


def honest(folder: Path, seeds: int, chosen: tuple[str, ...] = ()) -> Iterator[Honest]:
    """Write files of every architecture in every format, from bases of bfloat16 and, of the last seed, of float32."""
    for seed, architecture in itertools.product(range(seeds), ARCHITECTURES):
        dtype = "float32" if seed and seed == seeds - 1 else "bfloat16"
        base = made(folder / f"{architecture}-{seed}", architecture, seed, dtype)
        for name, write in formats().items():
            if (chosen and name not in chosen) or (architecture == "gpt2" and name.startswith(ONLY_LINEAR)):
                continue
            target = folder / f"{architecture}-{seed}-{name.replace(' ', '-').replace(',', '')}"
            yield Honest(base, write(base, target, architecture, seed), architecture, name)


@dataclass(frozen=True)
class Edit:
    """One number of a stored tensor that was changed."""

    tensor: str
    place: tuple[int, ...]
    steps: float
    """By how many steps of its grid."""


def edit_one(folder: Path, random: np.random.Generator) -> Edit | None:
    """Change one number of a file by four steps or more, or as far as its grid goes; None if this draw does not."""
    from hf_lineage.checkpoint.codes import Codes
    from hf_lineage.checkpoint.tensor import single
    from hf_lineage.hub.repo import RepoRef
    from hf_lineage.source.headers import headers

    checkpoint = headers(RepoRef("org/model", folder)).checkpoint
    name = str(random.choice([name for name, info in checkpoint.tensors.items() if info.numbers and not info.refusal]))
    info = checkpoint.tensors[name]
    before = checkpoint.read_parts(name)
    place = 0
    if isinstance(info.codes, Codes):
        low, high = info.codes.low(before), info.codes.high(before)
        differing = [np.flatnonzero(_bytes(one) != _bytes(other)) for one, other in zip(low, high, strict=True)]
        place = next(number for number, some in enumerate(differing) if some.size)
        at = int(random.choice(differing[place]))
    else:
        at = int(random.integers(before[0].nbytes))
    part = checkpoint.stored[info.parts[place]]
    after = [part.copy() for part in before]
    changed = _bytes(after[place])
    changed[at] ^= np.uint8(random.integers(1, 256))
    with np.errstate(all="ignore"):
        old, new = single(info.decode(before)), single(info.decode(after))
        moved = np.argwhere(old != new)
        if len(moved) != 1:
            return None
        where = tuple(map(int, moved[0]))
        step, whole = _step(info, before, where)
        steps = abs(float(new[where]) - float(old[where])) / step
    if not np.isfinite(steps) or steps < min(STEPS, whole):
        return None
    with part.file.open("r+b") as stream:
        stream.seek(part.start + at)
        stream.write(bytes([int(changed[at])]))
    return Edit(name, where, steps)


def _bytes(part: Any) -> Any:
    return part.reshape(-1).view(np.uint8)


def _step(info: Any, parts: Any, where: tuple[int, ...]) -> tuple[float, float]:
    """The largest step of the grid of a number, as a size, and how many steps there are."""
    from hf_lineage.checkpoint.codes import Codes
    from hf_lineage.checkpoint.tensor import single

    if not isinstance(info.codes, Codes):
        value = info.decode(parts)[where]
        return float(abs(np.spacing(value))), np.inf
    low, high = (single(info.decode(fill(parts)))[where] for fill in (info.codes.low, info.codes.high))
    return float(np.diff(info.codes.levels).max() * abs(high - low)), len(info.codes.levels) - 1.001


def edited(files: list[Honest], edits: int, seed: int = 0) -> Iterator[tuple[Honest, Edit, Any]]:
    """Change one number after the other, each in a file of its own, and judge it."""
    random = np.random.default_rng(seed)
    for number in range(edits):
        one = files[number % len(files)]
        copy = one.folder.with_name(f"{one.folder.name}-edited")
        edit = None
        while edit is None:
            shutil.copytree(one.folder, copy)
            edit = edit_one(copy, random)
            if edit is not None:
                yield one, edit, judged(one.base, copy)
            shutil.rmtree(copy)


def run(seeds: int = SEEDS, edits: int = EDITS, chosen: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what became of honest files and of edits, by format."""
    rows: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        files = list(honest(Path(folder), seeds, chosen))
        for one in files:
            row = rows.setdefault(one.format, Counter())
            row["honest"] += 1
            row["refused"] += not judged(one.base, one.folder).holds
        for one, edit, outcome in edited(files, edits):
            row = rows[one.format]
            row["edits"] += 1
            row["found"] += not outcome.holds and outcome.beyond[0].name == edit.tensor
            row["placed"] += bool(outcome.beyond) and outcome.beyond[0].place == edit.place
    total = sum(rows.values(), Counter())
    names = ("honest", "refused", "edits", "found", "placed")
    return {
        "architectures": list(ARCHITECTURES),
        "steps": STEPS,
        "total": {name: total[name] for name in names},
        "formats": {name: {key: row[key] for key in names} for name, row in rows.items()},
    }


COSTLY = {"hidden_size": 2048, "intermediate_size": 5504, "num_hidden_layers": 6, "vocab_size": 32000}
"""A model of 430 million numbers, of which the embedding and the head are the largest tensors."""


def cost(sizes: Mapping[str, int]) -> dict[str, float]:
    """Return what a strict check of a GGUF file takes, beside a plain one and beside reading both files once.

    Memory is that of the whole process beside the largest tensor in float32. `load` is that of the machine before, in
    processes that want a core.
    """
    import torch
    import transformers

    tasks, load = import_module("benchmarks.strict"), os.getloadavg()[0]
    settings = {"num_attention_heads": 16, "num_key_value_heads": 8, "rms_norm_eps": 1e-6, "tie_word_embeddings": False}
    with tempfile.TemporaryDirectory() as folder:
        base, candidate = Path(folder) / "base", Path(folder) / "gguf"
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **settings))
        model.to(torch.bfloat16).save_pretrained(base)
        largest = 4 * max(parameter.numel() for parameter in model.parameters())
        del model
        as_gguf("Q8_0")(base, candidate, "llama", 0)
        read = min(isolated(tasks.reading, [*base.glob("*.safetensors"), *candidate.iterdir()]) for _ in range(3))
        (plain, plainly), (strict, strictly) = (isolated(tasks.checking, base, candidate, one) for one in (False, True))
    return {
        "time_beside_plain": round(strict / plain, 1),
        "time_beside_reading": round(strict / read, 1),
        "memory_plain": round(plainly / largest, 1),
        "memory_strict": round(strictly / largest, 1),
        "load": round(load, 1),
    }


def reading(files: list[Path]) -> float:
    """Return the seconds that it takes to read files once, when the system has them in memory."""
    began = time.perf_counter()
    for file in files:
        with file.open("rb", buffering=0) as stream:
            while stream.read(2**22):
                pass
    return time.perf_counter() - began


def checking(base: Path, candidate: Path, strict: bool) -> tuple[float, int]:
    """Return the seconds that a comparison takes, and the most memory of this process in bytes."""
    from hf_lineage import Options, compare

    began = time.perf_counter()
    report = compare(str(base), str(candidate), Options(strict=strict, seed=0))
    seconds = time.perf_counter() - began
    if report.exit_code:
        raise RuntimeError(f"the comparison returned {report.exit_code}")
    return seconds, peak()


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 1 if an honest file was refused or an edit was not found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.strict", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="models of each architecture")
    parser.add_argument("--edits", type=int, default=EDITS, help="numbers to change")
    parser.add_argument("-o", "--output", type=Path, default=FILE, help="where the results are written")
    parser.add_argument("--cost", action="store_true", help="measure time and memory, and nothing else")
    given = parser.parse_args(arguments)
    if given.cost:
        result = json.loads(given.output.read_text("utf-8")) | {"cost": cost(COSTLY)}
        given.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(result["cost"])
        return 0
    result = run(given.seeds, given.edits)
    given.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    total = result["total"]
    for name, row in [*result["formats"].items(), ("all", total)]:
        print(f"{name:45}", *(f"{key} {row[key]:4}" for key in total))
    return int(total["refused"] > 0 or total["found"] < total["edits"])


if __name__ == "__main__":
    sys.exit(main())
