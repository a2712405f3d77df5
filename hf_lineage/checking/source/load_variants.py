"""Load variants: other ways in which transformers may load a model, such as with an adapter beside its weights."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from hf_lineage.architecture import is_transposed
from hf_lineage.architecture.registry import LISTED, Choice
from hf_lineage.checking.source.describing import described
from hf_lineage.checking.source.opening import Opened, opened
from hf_lineage.checking.source.submodels import adapter_beside
from hf_lineage.errors import CheckpointError, LineageError, NothingToCompare, printable
from hf_lineage.hub import RepoRef, resolve

Variants = dict[str, Opened | str]
"""Other ways to load a repository, in words that follow "loaded"; a text says why one cannot be judged."""


def with_adapter(plain: Opened, choice: Choice = LISTED) -> Variants:
    """Return the ways in which a model loads with peft if an adapter lies beside its weights; none without an adapter.

    From a folder the adapter is put on these weights; from the Hub it may also be put on the model that it names.
    """
    repo = plain.described.repo
    if not adapter_beside(repo):
        return {}
    on_top = _or_why(lambda: with_adapter_of(repo, plain), NothingToCompare, CheckpointError)
    variants: Variants = {"with the adapter on top of the weights": on_top}
    if repo.remote is None:
        return variants
    from hf_lineage.checkpoint.lora import adapter_base

    named = adapter_base(repo)
    how = f"with the adapter on top of {printable(str(named), 200)} from the Hub"
    other = _or_why(
        lambda: with_adapter_of(repo, opened(described(resolve(str(named), folders=False), choice))), LineageError
    )
    return {**variants, how: other}


def _or_why(opening: Callable[[], Opened], *expected: type[LineageError]) -> Opened | str:
    try:
        return opening()
    except expected as error:
        return str(error)


def with_adapter_of(repo: RepoRef, plain: Opened, starts: Collection[str] = ()) -> Opened:
    """Return a model with the adapter of a repository added; raise NothingToCompare or CheckpointError if it cannot.

    `starts` are the initialisations that may be computed again from every matrix that is read, which takes long.
    """
    from hf_lineage.checkpoint.lora import adapted

    layout = plain.layout
    slots = [slot for matrices in layout.everything for slot in matrices.slots.values()]
    orientation = {name: is_transposed(layout.factorization, slot) for slot in slots for name in slot.tensors}
    return replace(plain, checkpoint=adapted(repo, plain.checkpoint, orientation, starts))
