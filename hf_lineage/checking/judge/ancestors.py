"""Ancestors: if nothing of a base can be compared, the base that it declares itself is compared, one step at a time.

What a base declares is a claim of its card and nothing more: whoever wrote the card chose the name. So the claim that
is judged stays open, whatever comes out of the comparison: it is never verified, and never contradicted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hf_lineage.checking.options import Options
from hf_lineage.checking.results import Step, attempt
from hf_lineage.checking.source import OpenedModel, counterpart, open_model
from hf_lineage.claims import Claim, read_claims
from hf_lineage.errors import CheckpointError, NothingToCompare, RepositoryError, UnlistedClass
from hf_lineage.evidence import Kind, Verdict
from hf_lineage.hub import RepoRef, resolve
from hf_lineage.signature import Signature

MOST = 5
"""Bases in a row that are passed over, until one can be compared."""


@dataclass(frozen=True)
class Reached:
    """What a claim is judged on: a model, or the verdict that says why there is none."""

    base: OpenedModel | Verdict
    steps: tuple[Step, ...] = ()
    """From the base that is declared to the one that is compared; none where they are the same."""
    notes: tuple[str, ...] = ()
    """Why no other base was compared instead of one that could not be."""


def reach(
    source: RepoRef | Signature,
    candidate: OpenedModel,
    options: Options,
    part: str = "",
    passed: tuple[RepoRef, ...] = (),
) -> Reached:
    """Return a base or, if nothing of it can be compared, the first base behind it that can be compared.

    `part` is the folder in which the candidate is, `passed` are the bases that led here.
    """
    try:
        opened = attempt(lambda: open_model(source, options, is_base=True), RepositoryError, CheckpointError)
    except UnlistedClass as error:
        return Reached(Verdict(Kind.UNVERIFIABLE, str(error)))
    except NothingToCompare as error:
        unread = Verdict(Kind.UNVERIFIABLE, str(error))
    else:
        return Reached(opened)
    if isinstance(source, Signature) or options.published:
        return Reached(unread)
    try:
        claim = _declared(source)
        if claim is None:
            return Reached(unread)
        further = _further(claim, candidate, options, part, (*passed, source))
    except (NothingToCompare, RepositoryError, CheckpointError) as error:
        return Reached(unread, notes=(f"{source}: its own base was not compared in its place: {error}",))
    reached = reach(further, candidate, options, part, (*passed, source))
    if isinstance(reached.base, Verdict):
        note = f"{source}: its own base was not compared in its place: {reached.base.reason}"
        return Reached(unread, notes=(note, *reached.notes))
    reason = unread.reason.removeprefix(f"{source}: ")
    return replace(reached, steps=(Step(source.name, source.commit, reason, claim.base, claim.sources), *reached.steps))


def _declared(source: RepoRef) -> Claim | None:
    """The base that a repository declares; None if it declares none, NothingToCompare if it is not one."""
    claims = read_claims(replace(source, subfolder="")).claims
    if len(claims) > 1:
        raise NothingToCompare(f"it declares {len(claims)} bases")
    if claims and claims[0].problem:
        raise NothingToCompare(f"it declares {claims[0].base}: {claims[0].problem}")
    return claims[0] if claims else None


def _further(
    claim: Claim, candidate: OpenedModel, options: Options, part: str, passed: tuple[RepoRef, ...]
) -> RepoRef | Signature:
    """The base that a base declares; raise NothingToCompare where to follow it would lead nowhere."""
    if len(passed) > MOST:
        raise NothingToCompare(f"{MOST} bases before it could not be compared either")
    further = resolve(claim.base, options.local_hub, folders=False)
    if any(further.identity[0] == one.identity[0] for one in passed):
        raise NothingToCompare(f"it declares {claim.base}, which leads back to it")
    if candidate.identity is not None and further.identity[0] == candidate.identity[0]:
        raise NothingToCompare(f"it declares {claim.base}, the model that is checked")
    return counterpart(further, part)


def through(outcome: Verdict, steps: tuple[Step, ...]) -> Verdict:
    """Return the verdict on a claim, given that on the base at the end of some steps.

    A related base is related indirectly, which verifies nothing: nobody has checked the steps. An unrelated one leaves
    open which of the declarations is wrong.
    """
    if not steps:
        return outcome
    declared, compared, chain = steps[0].base, steps[-1].declares, "; ".join(map(str, steps))
    by_path = {path: _indirect(single) for path, single in outcome.by_path.items()}
    if outcome.is_related:
        reason = (
            f"hf-lineage compared {compared} instead of {declared}: {chain}. The card claims that; nobody has checked "
            "it"
        )
    elif outcome.kind is Kind.UNRELATED:
        reason = (
            f"UNRELATED to {compared}, which was compared in place of {declared}: {chain}. Either this claim or that "
            "of the model is wrong; the weights do not say which"
        )
    else:
        reason = "; ".join(filter(None, (outcome.reason, chain)))
    return replace(_indirect(outcome), reason=reason, by_path=by_path)


def _indirect(outcome: Verdict) -> Verdict:
    if outcome.is_related:
        return replace(outcome, kind=Kind.INDIRECT, accepted=False)
    if outcome.kind is Kind.UNRELATED:
        return Verdict(Kind.INCONCLUSIVE, outcome.reason, outcome.evidence, outcome.by_path)
    return outcome
