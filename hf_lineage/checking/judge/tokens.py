"""Tokens: the coordinates that two models share by the rows of the tokens that both know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hf_lineage.architecture.registry import as_names
from hf_lineage.checking.source import Opened
from hf_lineage.checkpoint import SharedTokens, shared_tokens
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.evidence.units import TOKEN, Frame
from hf_lineage.signature import Array
from hf_lineage.signature.units import Numbers, check_span, drawn_tokens, fit_tokens, prepare_rows, read_token_rows


def by_tokens(base: Opened, candidate: Opened) -> tuple[Frame, tuple[Array, Array]]:
    """Return the frame of the tokens that both know, and what the units of each are multiplied with.

    Raise NothingToCompare where there is none.
    """
    shared, names = _shared(base, candidate)
    widths = base.layout.width, candidate.layout.width
    chosen = drawn_tokens(len(shared.base), widths)
    numbers = shared.base[chosen], shared.candidate[chosen]
    order = 1 if widths[0] >= widths[1] else -1
    wide, narrow = list(zip((base, candidate), names, numbers, strict=True))[::order]
    with _named(narrow[0]):
        narrow_rows = _prepared(*narrow)
        check_span(narrow_rows, min(widths))
    with _named(wide[0]):
        seen, through = fit_tokens(_prepared(*wide), narrow_rows)
    return Frame(TOKEN, len(chosen), shared.by), (seen, through) if order == 1 else (through, seen)


def _shared(base: Opened, candidate: Opened) -> tuple[SharedTokens, tuple[str, str]]:
    """Return the tokens that both know, and the tensor with a row for each in either model."""
    names = _embedding(base), _embedding(candidate)
    rows = base.checkpoint.tensors[names[0]].shape[0], candidate.checkpoint.tensors[names[1]].shape[0]
    try:
        shared = shared_tokens(base.described.repo, candidate.described.repo, rows)
    except CheckpointError as error:  # a tokenizer that is damaged hides no weights
        raise NothingToCompare(str(error)) from None
    if len(shared.base) < min(base.layout.width, candidate.layout.width):
        raise NothingToCompare(
            f"{base.described.repo} and {candidate.described.repo} share {len(shared.base)} tokens, fewer than the "
            "coordinates of their streams"
        )
    return shared, names


def _embedding(model: Opened) -> str:
    """Return the tensor with a row for each token; NothingToCompare if there is none that writes into the stream."""
    tensors, layout = model.checkpoint.tensors, model.layout
    names = (f"{name}.weight" for name in as_names(layout.factorization.embedding))
    name = next((name for name in names if name in tensors), None)
    if name is None or len(tensors[name].shape) != 2 or tensors[name].shape[1] != layout.width:
        raise NothingToCompare(f"{model.described.repo} has no token rows of the same width as its stream")
    return name


def _prepared(model: Opened, name: str, numbers: Numbers) -> Array:
    """Return the rows of some tokens of a model, prepared for the fit."""
    rows = read_token_rows(model.checkpoint, name, numbers)
    prepare_rows(rows)
    return rows


@contextmanager
def _named(model: Opened) -> Iterator[None]:
    """Name the model whose rows cannot be used."""
    try:
        yield
    except NothingToCompare as error:
        raise NothingToCompare(f"{model.described.repo}: {error}") from None
