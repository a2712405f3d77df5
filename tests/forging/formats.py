"""Formats: a folder that transformers loads, stored anew as people publish it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hf_lineage.checkpoint.gguf.form import _table
from tests import gguf_models
from tests.published.steps import STEPS, apart


class Format(NamedTuple):
    """How the folder of a case is stored before it is judged."""

    step: Callable[[Path], object]
    kinds: tuple[str, ...] = ()
    """Of the cases that it can hold; all by default."""
    classes: frozenset[str] | None = None
    """That it can hold; None for all."""


def _as_gguf(kind: str) -> Format:
    names = {entry.name: architecture for architecture, entry in _table().architectures.items()}

    def change(folder: Path) -> None:
        plain = apart(folder)
        (name,) = json.loads((plain / "config.json").read_text())["architectures"]
        gguf_models.write(plain, folder / "model.gguf", names[name], getattr(gguf_models.KINDS, kind))
        shutil.rmtree(plain)

    # A converter knows the names of a class and writes few of its settings, so that other kinds would leave nothing.
    return Format(change, ("scaled", "shut"), frozenset(names))


FORMATS: dict[str, Format] = {
    "plain": Format(lambda _: None),
    "gguf": _as_gguf("F32"),
    "gguf_eight_bits": _as_gguf("Q8_0"),
    **{name: Format(STEPS[name]) for name in ("awq", "bnb_eight_bits", "bnb_four_bits", "fp8", "gptq", "torchao")},
}
"""By the name that `--stored` takes."""
