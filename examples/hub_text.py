"""What the example models read: the documentation that ships with Python, one token per byte."""

import ast
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import torch
from torch import Tensor

PILES = 10  # the topics are dealt into this many piles of about equal size; three are kept from pretraining


@dataclass(frozen=True)
class Corpus:
    """Texts as vectors of byte values; the first four share no paragraph."""

    pretraining: Tensor
    part_a: Tensor
    part_b: Tensor
    held_out: Tensor
    docstrings: Tensor


def load_corpus() -> Corpus:
    """The language reference, split by topic, and the docstrings of the standard library."""
    by_size = sorted(_without_repeats(topics).values(), key=len, reverse=True)
    *pretraining, part_b, part_a, held_out = ("".join(by_size[pile::PILES]) for pile in range(PILES))
    return Corpus(
        pretraining=_as_bytes("".join(pretraining)),
        part_a=_as_bytes(part_a),
        part_b=_as_bytes(part_b),
        held_out=_as_bytes(held_out),
        docstrings=_as_bytes(_standard_library_docstrings()),
    )


def _as_bytes(text: str) -> Tensor:
    return torch.tensor(list(text.encode()))


def _without_repeats(texts: dict[str, str]) -> dict[str, str]:
    """Topics quote one another, so each paragraph stays only in the first topic that has it."""
    seen: set[str] = set()
    unique = {}
    for name in sorted(texts):
        paragraphs = [text for text in dict.fromkeys(texts[name].split("\n\n")) if text not in seen]
        seen.update(paragraphs)
        unique[name] = "\n\n".join([*paragraphs, ""])
    return unique


def _standard_library_docstrings() -> str:
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    nodes = (node for source in sources for node in ast.walk(ast.parse(source.read_bytes())))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in nodes if isinstance(node, documented))
    return "\n\n".join(dict.fromkeys(text for text in found if text))
