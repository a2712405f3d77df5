"""Adapters: those of a repository that holds no model are tested against the weights of each base that is declared."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hf_lineage.checking.claims import Base, CheckRequest, CompareRequest, RepositoryResult, base_once
from hf_lineage.checking.declared import relation_notes
from hf_lineage.checking.result import VERDICTS, Row, attempt
from hf_lineage.claims.card import stated
from hf_lineage.claims.sources import Claim, read_claims
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.evidence import measure as interim
from hf_lineage.evidence.evaluate import mark_unlisted_class
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import RepoRef
from hf_lineage.lora import adjacent_matrices as partners
from hf_lineage.lora import placement
from hf_lineage.lora.adapter import Lora, open_lora
from hf_lineage.lora.gradient_alignment import clear, judge_trace, measure_trace
from hf_lineage.lora.single_file import MAIN, open_lora_file
from hf_lineage.signature.values import WEIGHTS, Signature
from hf_lineage.source.config import described
from hf_lineage.source.contents import CONFIG, Adapters, Place, counterpart, part_of
from hf_lineage.source.headers import Opened, opened
from hf_lineage.source.model import FromWeights
from hf_lineage.source.options import Options

FEW = 4
"""Layers that are read first, drawn at random; of models with no more than twice as many all are read at once."""
LAST = re.compile(r"^(.*[._]\d+_(?=\D)|.*\.(?=[^.]*[^.\d][^.]*(\.\d+)*$))")
"""Part of the name of a module before the name of its matrix, whether it was flattened or not."""

LONGEST = 200
"""Characters at the end of a name in which that of its matrix is looked for."""

PICTURE = ("unet", "transformer", "prior")
"""Folders in which a pipeline may have the model that makes the picture."""
SHOWN = 3
"""Names of adapted matrices in a sentence."""


@dataclass(frozen=True)
class Adapter:
    """An adapter whose headers are read."""

    repo: RepoRef
    lora: Lora
    component: str = MAIN
    """The folder of the pipeline whose model the adapter is for."""

    @property
    def described(self) -> str:
        """The kind, the rank and the number of matrices, as a sentence."""
        ranks = sorted({factors.rank for factors in self.lora.modules.values()})
        rank = str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}"
        kinds = Counter(LAST.sub("", module[-LONGEST:]) for module in self.lora.modules)
        named = ", ".join(printable(name, 40) for name, _ in kinds.most_common(SHOWN))
        named += f" and {len(kinds) - SHOWN} more" if len(kinds) > SHOWN else ""
        beside = f", and {self.lora.beside} other tensors, which are not tested" if self.lora.beside else ""
        return (
            f"{self.repo}: a {self.lora.kind} adapter of rank {rank} on {len(self.lora.modules)} matrices ({named})"
            f"{beside}"
        )


Found = Adapter | Verdict
"""An adapter, or the verdict that says why it is not compared."""


def open_place(place: Place) -> tuple[tuple[str, Found], ...]:
    """Return the adapters at a place, by the part that a row names; LineageError if one is damaged."""
    repo = place.repo
    loras = attempt(
        lambda: open_lora_file(repo, place.file) if place.file else {MAIN: open_lora(repo)}, NothingToCompare
    )
    if isinstance(loras, Verdict):
        return ((place.part, loras),)
    repo = replace(repo, name=f"{repo}: {printable(place.file, 200)}") if place.file else repo
    return tuple(
        (f"{place.part}: {component}" if component else place.part, Adapter(repo, lora, component))
        for component, lora in loras.items()
    )


def check_adapters(adapters: Adapters, request: CheckRequest) -> RepositoryResult:
    """Return whether the adapters of a repository come from the bases that are claimed."""
    first = adapters.places[0]
    notes = () if first.file else relation_notes(request.claims, first.repo)
    return RepositoryResult(tuple(_check_each(adapters, request)), (*notes, *adapters.notes))


def _check_each(adapters: Adapters, request: CheckRequest) -> Iterator[Row]:
    """Yield a row for every adapter and claim; an error of the only one is raised, one of several is its verdict."""
    by_place = {
        place: request.claims if request.by_user else _claims(place, request.claims) for place in adapters.places
    }
    judged = {claim.base.casefold() for claims in by_place.values() for claim in claims}
    everywhere = [claim for claim in request.claims if claim.base.casefold() not in judged]
    find_base = functools.cache(functools.partial(base_once, local_hub=request.options.local_hub))
    alone = len(adapters.places) == 1
    for place, own in by_place.items():
        opened = attempt(functools.partial(open_place, place), *(() if alone else VERDICTS))
        for part, adapter in ((place.part, opened),) if isinstance(opened, Verdict) else opened:
            for claim in (*own, *everywhere):
                judge = functools.partial(judge_adapter, adapter, claim, request.options, find_base(claim))
                row = attempt(judge, *(() if alone else (CheckpointError,)))
                yield replace(Row(claim, row) if isinstance(row, Verdict) else row, part=part)
    if adapters.left_out:
        reason = f"other weights of the repository may come from elsewhere: {adapters.left_out}"
        yield from (Row(claim, Verdict(Code.UNSUPPORTED, reason)) for claim in request.claims)


def _claims(place: Place, declared: Sequence[Claim]) -> Sequence[Claim]:
    """Return what is declared of one adapter: in its own folder, else in the root of the repository."""
    own = read_claims(place.repo).claims if place.repo.subfolder else ()
    for claims in ([claim for claim in own if not claim.problem], declared, own):
        if any(not claim.problem for claim in claims):
            return claims
    return own or declared


def compare_adapters(adapters: Adapters, request: CompareRequest) -> RepositoryResult:
    """Return whether the adapters of a repository come from one base; an error of one is raised."""
    claim, rows = request.claim, list[Row]()
    for place in adapters.places:
        for part, adapter in open_place(place):
            rows.append(replace(judge_on(adapter, claim, request.base, request.options), part=part))
    if adapters.left_out:
        reason = f"other weights of the repository were not read: {adapters.left_out}"
        rows.append(Row(claim, Verdict(Code.UNSUPPORTED, reason)))
    return RepositoryResult(tuple(rows), adapters.notes)


def judge_adapter(adapter: Found, claim: Claim, options: Options, base: Base) -> Row:
    """Return the row of one claim: an error of the base is its verdict, one of the adapter is raised."""
    if claim.problem:
        return Row(claim, Verdict(Code.NO_BASE, f"{claim.problem}{claim.remedy}"))
    if isinstance(adapter, Verdict):
        return Row(claim, adapter)
    source = base()
    if isinstance(source, Verdict):
        return Row(claim, source, notes=(adapter.described,))
    return judge_on(adapter, claim, source, options)


def judge_on(adapter: Found, claim: Claim, source: RepoRef | Signature, options: Options) -> Row:
    """Return the row of an adapter and a base that was located before."""
    if isinstance(adapter, Verdict):
        return Row(claim, adapter)
    if isinstance(source, Signature):
        why = "an adapter is tested against the weights of its base, but a signature does not hold them; name the model"
        return Row(claim, Verdict(Code.UNSUPPORTED, why), notes=(adapter.described,))
    base = attempt(lambda: _open_base(source, adapter.component, options), *VERDICTS)
    if isinstance(base, Verdict):
        return Row(claim, base, source.commit, notes=(adapter.described,))
    places = placement.find_places(base, adapter.lora)
    outcome = mark_unlisted_class(_judged(adapter, base, places, options), (base.described.read_as,))
    repo, done = base.described.repo, FromWeights.from_opened(base, Options(), cached=False).downloads()
    return Row(
        claim,
        outcome,
        base_commit=source.commit,
        layers=base.layout.layers,
        traffic={repo.name: done} if done else {},
        base_origin=WEIGHTS,
        model_origin=WEIGHTS,
        base_folder=repo if repo.remote is None else None,
        licence=stated(source),
        notes=(
            adapter.described,
            *_idle(adapter, places),
            *_untested(adapter, base, places),
            *(f"{repo.name}: {note}" for note in base.notes),
        ),
    )


def _open_base(source: RepoRef, component: str, options: Options) -> Opened:
    """Return the model of a base that an adapter is for; LineageError if there is none, or it cannot be read."""
    return opened(described(options.allowed(_component_of(source, component)), options.choice))


def _component_of(base: RepoRef, component: str) -> RepoRef:
    """Return the model of a pipeline that an adapter is for, or the only model; NothingToCompare if there is none."""
    whole = base.subfolder or base.has(CONFIG)
    wanted = () if whole else (component,) if component else PICTURE
    folder = next((name for name in wanted if base.offers(f"{name}/{CONFIG}")), None)
    if folder is not None:
        return part_of(base, folder)
    if component and component != base.subfolder:
        raise NothingToCompare(f"{base} has no folder {component}, and this part of the adapter is for it")
    return base if whole else counterpart(base, "")


def _judged(adapter: Adapter, base: Opened, places: placement.Places, options: Options) -> Verdict:
    if obstacle := _obstacle(adapter, places, base):
        return obstacle
    testable = placement.testable(places, base)
    if not testable:
        return Verdict(
            Code.UNSUPPORTED,
            "the adapter changes no matrix whose trace can be tested; such matrices make hidden units or values, or "
            "write into the stream",
        )
    products = partners.products(adapter.lora, testable)
    if not any(product.rows.shape[1] for product in products.values()):
        return Verdict(Code.INCONCLUSIVE, "the adapter adds zero to every matrix, as before any training")
    return attempt(lambda: _tested(adapter, base, testable, products, options), *VERDICTS)


def _obstacle(adapter: Adapter, places: placement.Places, base: Opened) -> Verdict | None:
    """Return the verdict on an adapter that cannot be put on this base; None if it can."""
    name = base.described.repo.name
    if places.unfit:
        first = printable(places.unfit[0], 200)
        return Verdict(Code.UNRELATED, f"by shape: {first}, so that the adapter was not trained on {name}")
    if places.ambiguous:
        return Verdict(
            Code.AMBIGUOUS,
            f"the adapter names {printable(places.ambiguous[0], 200)}, with underscores in place of points, and "
            f"several matrices of {name} may be meant",
        )
    if places.idle and not places.everything:
        return Verdict(
            Code.UNSUPPORTED,
            f"this adapter changes 0 of the modules of {name}: peft passes over the factors of "
            f"{printable(places.idle[0], 200)}, because the adapter's configuration does not name that module, or "
            "no module of this class has the name",
        )
    if not places.everything:
        what = printable((*places.absent, *adapter.lora.modules)[0], 200)
        if not any(re.search(r"[._]\d+[._]", module) for module in adapter.lora.modules):
            why = f"the adapter changes only matrices outside the layers ({what}), where no trace is tested"
            return Verdict(Code.UNSUPPORTED, why)
        return Verdict(
            Code.UNSUPPORTED,
            f"the adapter is for {what}, but no matrix in the layers of {name} has such a name: the adapter is for "
            "another class, or transformers renames the modules of this class",
        )
    known = {re.sub(r"\d+", "#", place.module) for place in places.everything}
    beyond = next((module for module in places.absent if re.sub(r"\d+", "#", module) in known), None)
    if beyond is not None:
        why = f"the adapter is for {printable(beyond, 200)}, a layer that {name} does not have"
        return Verdict(Code.INCOMPATIBLE, why)
    return None


def _tested(
    adapter: Adapter, base: Opened, testable: Sequence[placement.Place], products: partners.Products, options: Options
) -> Verdict:
    """Return the verdict after a few layers if it is clear, else after all of them."""
    layers = sorted({place.layer for place in testable if products[place.module, place.expert].rows.shape[1]})
    few = len(layers) > 2 * FEW and options.budget != "full"
    order = [layers[at] for at in interim.reading_order(len(layers), options.seed or 0)] if few else layers
    stops = (FEW, len(layers)) if few else (len(layers),)
    criteria = options.criteria(analyses=len(stops))
    calibrated = adapter.lora.calibrated and base.layout.factorization.lora.calibrated
    for read in stops:
        chosen = [place for place in testable if place.layer in order[:read]]
        blocks = list(partners.blocks(base, products, chosen))
        measured = replace(measure_trace(blocks, criteria), calibrated=calibrated)
        outcome = judge_trace(measured, criteria, adapter.lora.order_matters)
        if clear(outcome):
            break
    return outcome


def _idle(adapter: Adapter, places: placement.Places) -> tuple[str, ...]:
    """Return a sentence about factors in the file that change nothing."""
    if not places.idle:
        return ()
    of_all = f"{len(places.idle)} of {len(adapter.lora.modules)} modules"
    return (
        f"{adapter.repo}: peft passes over the factors of {of_all}, such as {printable(places.idle[0], 200)}; they "
        "change nothing and were not tested",
    )


def _untested(adapter: Adapter, base: Opened, places: placement.Places) -> tuple[str, ...]:
    """Return sentences about adapted matrices that are not tested."""
    tested = {(place.module, place.role) for place in placement.testable(places, base)}
    roles = {place.role for place in places.everything if (place.module, place.role) not in tested}
    attention = [role for role in ("query", "key") if role in roles]
    if not attention or not placement.is_rotary(base):
        return ()
    return (
        f"{adapter.repo}: {' and '.join(attention)} matrices are not tested: rotary positions fix the order of "
        "dimensions in a head",
    )
