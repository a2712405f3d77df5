"""The adapters of one repository, each judged by itself against its declared bases."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hf_lineage.checking.adapters.adapters import Adapter, Found, judge_adapter, judge_on, open_adapter
from hf_lineage.checking.options import Options
from hf_lineage.checking.results import VERDICTS, Row, attempt
from hf_lineage.checking.source import Adapters, Place
from hf_lineage.checkpoint.lora import open_lora_file
from hf_lineage.claims import Claim, Claims, read_claims
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.evidence import Kind, Verdict
from hf_lineage.hub import RepoRef
from hf_lineage.signature import Signature


def open_place(place: Place) -> tuple[tuple[str, Found], ...]:
    """Return the adapters at a place, by the part that a row names; LineageError if one is damaged."""
    if not place.file:
        return ((place.part, open_adapter(place.repo)),)
    loras = attempt(lambda: open_lora_file(place.repo, place.file), NothingToCompare)
    if isinstance(loras, Verdict):
        return ((place.part, loras),)
    shown = replace(place.repo, name=f"{place.repo}: {printable(place.file, 200)}")
    return tuple(
        (f"{place.part}: {component}" if component else place.part, Adapter(shown, lora, component))
        for component, lora in loras.items()
    )


def judge_all(adapters: Adapters, declared: Claims, options: Options, named: bool) -> Iterator[Row]:
    """Yield a row for every adapter and claim; an error of the only one is raised, one of several is its verdict.

    `named` says that the claims are the user's.
    """
    by_place = {place: declared.claims if named else _claims(place, declared) for place in adapters.places}
    judged = {claim.base.casefold() for claims in by_place.values() for claim in claims}
    everywhere = [claim for claim in declared.claims if claim.base.casefold() not in judged]
    for place, own in by_place.items():
        claims = [*own, *everywhere]
        alone = len(adapters.places) == 1
        opened = open_place(place) if alone else attempt(functools.partial(open_place, place), *VERDICTS)
        for part, adapter in ((place.part, opened),) if isinstance(opened, Verdict) else opened:
            for claim in claims:
                yield replace(_judged(adapter, claim, options, alone), part=part)
    if adapters.left_out:
        reason = f"other weights of the repository may come from elsewhere: {adapters.left_out}"
        yield from (Row(claim, Verdict(Kind.UNVERIFIABLE, reason)) for claim in declared.claims)


def _judged(adapter: Found, claim: Claim, options: Options, alone: bool) -> Row:
    if alone:
        return judge_adapter(adapter, claim, options)
    row = attempt(lambda: judge_adapter(adapter, claim, options), CheckpointError)
    return Row(claim, row) if isinstance(row, Verdict) else row


def judge_each_on(adapters: Adapters, claim: Claim, base: RepoRef | Signature, options: Options) -> Iterator[Row]:
    """Yield the row of every adapter on a base that was located before; an error of one is raised."""
    for place in adapters.places:
        for part, adapter in open_place(place):
            yield replace(judge_on(adapter, claim, base, options), part=part)
    if adapters.left_out:
        yield Row(
            claim, Verdict(Kind.UNVERIFIABLE, f"other weights of the repository were not read: {adapters.left_out}")
        )


def _claims(place: Place, declared: Claims) -> Sequence[Claim]:
    """What is declared of one adapter: in its own folder, else in the root of the repository."""
    own = read_claims(place.repo).claims if place.repo.subfolder else ()
    for claims in ([claim for claim in own if not claim.problem], declared.claims, own):
        if any(not claim.problem for claim in claims):
            return claims
    return own or declared.claims
