"""Load variants: other ways in which transformers may load a model, such as with an adapter beside its weights."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from hf_lineage.architecture import is_transposed
from hf_lineage.architecture.registry import LISTED, Choice
from hf_lineage.checking.source.opening import Opened, bound, described, opened
from hf_lineage.checking.source.submodels import adapter_beside
from hf_lineage.errors import CheckpointError, LineageError, NothingToCompare, printable
from hf_lineage.hub import RepoRef, resolve


@dataclass(frozen=True)
class Variant:
    """Another way in which transformers may load a repository, with peft installed."""

    how: str
    """In words that follow "loaded"."""
    opened: Opened | str
    """A text says why it cannot be judged."""


def with_adapter(plain: Opened, choice: Choice = LISTED) -> tuple[Variant, ...]:
    """Return the ways in which a model loads with peft if an adapter lies beside its weights; none without an adapter.

    From a folder the adapter is put on these weights; from the Hub it may also be put on the model that it names.
    """
    repo = plain.described.repo
    if not adapter_beside(repo):
        return ()
    on_top = Variant("with the adapter on top of the weights", _adapted(repo, plain))
    if repo.remote is None:
        return (on_top,)
    from hf_lineage.checkpoint.lora import adapter_base

    named = adapter_base(repo)
    how = f"with the adapter on top of {printable(str(named), 200)} from the Hub"
    return on_top, Variant(how, _elsewhere(repo, named, choice))


def without_transforms(plain: Opened) -> tuple[Variant, ...]:
    """Return how a model loads where `transform_config` is ignored; none where config.json has none.

    Engines such as vLLM run the transforms that it names; transformers reads the numbers as they are stored.
    """
    model = plain.described
    stated = {key: model.config.get(key) for key in ("quantization_config", "compression_config")}
    named = {key: value for key, value in stated.items() if isinstance(value, dict) and value.get("transform_config")}
    if not named:
        return ()
    rest = {
        key: {name: one for name, one in value.items() if name != "transform_config"} for key, value in named.items()
    }
    try:
        opened_so: Opened | str = bound(replace(model, config={**model.config, **rest}))
    except LineageError as error:
        opened_so = str(error)
    return (Variant("without `transform_config`, which transformers ignores", opened_so),)


def _elsewhere(repo: RepoRef, named: Any, choice: Choice) -> Opened | str:
    try:
        return _adapted(repo, opened(described(resolve(str(named), folders=False), choice)))
    except LineageError as error:
        return str(error)


def _adapted(repo: RepoRef, plain: Opened) -> Opened | str:
    try:
        return with_adapter_of(repo, plain)
    except (NothingToCompare, CheckpointError) as error:
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
