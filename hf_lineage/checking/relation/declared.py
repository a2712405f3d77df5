"""Relation: whether the relation to its base that a card declares agrees with what the repository stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hf_lineage.checking.source import FromWeights, OpenedModel, adapter_beside
from hf_lineage.checkpoint.foreign import WEIGHT_FILES
from hf_lineage.checkpoint.formats import SETTINGS
from hf_lineage.claims import CARD, MERGE_CONFIG, RELATIONS, Claim, read_claims
from hf_lineage.errors import LineageError, printable
from hf_lineage.evidence import Verdict
from hf_lineage.hub import ADAPTER_CONFIG, RepoRef, hub_name

WHOLE = frozenset({"F64", "F32", "F16", "BF16"})
"""The types of stored numbers that are not quantized."""


def relation_notes(
    claims: Sequence[Claim], repo: RepoRef, model: OpenedModel | Verdict | None = None
) -> tuple[str, ...]:
    """Return a sentence for each declared relation that what is stored contradicts, as far as it shows.

    `model` is the candidate, if it is one and could be opened.
    """
    declared = [claim for claim in claims if claim.relation and CARD in claim.sources]
    return tuple(
        f"{CARD} declares the relation {printable(str(relation), 40)}, but {contradiction}"
        for relation in dict.fromkeys(claim.relation for claim in declared)
        for contradiction in _contradictions(str(relation), declared, repo, model)
    )


def names_in(source: RepoRef) -> tuple[str, ...]:
    """Return the bases that any file of a repository names, whatever counts; none where they cannot be read."""
    try:
        claims = read_claims(replace(source, subfolder=""))
        return tuple(claim.base for claim in (*claims.claims, *claims.besides))
    except LineageError:
        return ()


def is_named(base: str, names: Iterable[str]) -> bool:
    """Return whether a base is one of those that a model names; a folder is named by its last part, and names so.

    Commits do not count, and neither does a base of which nothing else is known.
    """
    known = {_plain(name) for name in names}
    last = {name.rpartition("/")[2] for name in known if hub_name(base) is None or hub_name(name) is None}
    return _plain(base) in known or Path(_plain(base)).name in last


def _plain(name: str) -> str:
    return name.partition("@")[0].casefold()


def parts_notes(claims: Sequence[Claim], parts: Mapping[RepoRef, OpenedModel | Verdict]) -> tuple[str, ...]:
    """Return the sentences that hold for every part of a repository: one that is quantized makes the relation true."""
    by_part = [relation_notes(claims, part, model) for part, model in parts.items()]
    return tuple(note for note in by_part[0] if all(note in notes for notes in by_part))


def _contradictions(
    relation: str, declared: Sequence[Claim], repo: RepoRef, model: OpenedModel | Verdict | None
) -> Iterator[str]:
    if relation not in RELATIONS:
        yield f"the Hub knows only {', '.join(RELATIONS)}"
    elif relation == "adapter":
        if not adapter_beside(repo):
            missing = "adapter_model.safetensors" if repo.offers(ADAPTER_CONFIG) else ADAPTER_CONFIG
            yield f"there is no adapter: {missing} is missing"
    elif adapter_beside(repo) and not _has_weights(repo):
        yield "the repository holds only an adapter"
    elif relation == "merge" and len(declared) == 1 and MERGE_CONFIG not in declared[0].sources:
        yield "names one parent only"
    elif relation == "quantized" and isinstance(model, FromWeights) and _is_whole(model):
        yield "no tensor is quantized and config.json has no `quantization_config`"


def _has_weights(repo: RepoRef) -> bool:
    """Return whether there are weights besides those of an adapter."""
    weights = (name for name in repo.files() if name.endswith(WEIGHT_FILES))
    return any(not name.startswith(("adapter_model.", "adapters.")) for name in weights)


def _is_whole(model: FromWeights) -> bool:
    config, converted = model.opened.described.config, model.opened.described.foreign  # which the Hub calls quantized
    types = {tensor.dtype for tensor in model.opened.checkpoint.stored.values()}
    return not converted and types <= WHOLE and not any(map(config.get, SETTINGS))
