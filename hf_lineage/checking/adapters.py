"""Adapters: those of a repository that holds no model are tested against the weights of each base that is declared."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hf_lineage.checking.claims import RepositoryResult, Request, Source
from hf_lineage.checking.declared import relation_notes
from hf_lineage.checking.result import VERDICTS, ClaimResult, error_as_verdict
from hf_lineage.claims.sources import Claim, read_claims, stated_licence
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.evidence import measure
from hf_lineage.evidence.evaluate import mark_unlisted_class
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import RepoRef
from hf_lineage.lora import adjacent_matrices as adjacent
from hf_lineage.lora import placement
from hf_lineage.lora.adapter import MAIN, Lora, open_lora, open_lora_file
from hf_lineage.lora.gradient_alignment import clear, judge_trace, measure_trace
from hf_lineage.signature.values import WEIGHTS, Signature
from hf_lineage.source.config import read_config
from hf_lineage.source.contents import CONFIG, Adapters, Place, counterpart, part_of
from hf_lineage.source.headers import Headers, read_headers
from hf_lineage.source.model import FromWeights
from hf_lineage.source.options import Options

FEW = 4  # Layers that are read first, drawn at random; of models with no more than twice as many all are read at once


@dataclass(frozen=True)
class Adapter:
    """An adapter whose headers are read."""

    repo: RepoRef
    lora: Lora
    component: str = MAIN  # The folder of the pipeline whose model the adapter is for

    @property
    def description(self) -> str:
        """The kind, the rank and the number of matrices, as a sentence."""
        ranks = sorted({factors.rank for factors in self.lora.modules.values()})
        rank = str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}"
        # What precedes the name of its matrix in the name of a module, flattened or not, is left out.
        before = re.compile(r"^(.*[._]\d+_(?=\D)|.*\.(?=[^.]*[^.\d][^.]*(\.\d+)*$))")
        kinds = Counter(before.sub("", module[-200:]) for module in self.lora.modules)
        names = ", ".join(printable(name, 40) for name, _ in kinds.most_common(3))
        names += f" and {len(kinds) - 3} more" if len(kinds) > 3 else ""
        others = f", and {self.lora.others} other tensors, which are not tested" if self.lora.others else ""
        kind = f"a {self.lora.kind} adapter of rank {rank} on {len(self.lora.modules)} matrices ({names})"
        return f"{self.repo}: {kind}{others}"


def open_place(place: Place) -> tuple[tuple[str, Adapter | Verdict], ...]:
    """Return the adapters at a place, or why one is not compared, by the part that a row names; else LineageError."""
    repo = place.repo
    try:
        loras = open_lora_file(repo, place.file) if place.file else {MAIN: open_lora(repo)}
    except NothingToCompare as error:
        return ((place.part, error_as_verdict(error)),)
    repo = replace(repo, name=f"{repo}: {printable(place.file, 200)}") if place.file else repo
    return tuple(
        (f"{place.part}: {component}" if component else place.part, Adapter(repo, lora, component))
        for component, lora in loras.items()
    )


def judge_adapters(adapters: Adapters, request: Request) -> RepositoryResult:
    """Return whether the adapters of a repository come from the bases; an error is raised where it concerns all."""
    first, rows = adapters.places[0], list[ClaimResult]()
    alone = len(adapters.places) == 1 or request.open_base is not None
    claimed = request.claims
    by_place = {place: claimed if request.by_user else _claims(place, claimed) for place in adapters.places}
    bases = {claim.base.casefold() for claims in by_place.values() for claim in claims}
    everywhere = [claim for claim in claimed if claim.base.casefold() not in bases]
    for place, own in by_place.items():
        try:
            loras = open_place(place)
        except VERDICTS as error:
            if alone:
                raise
            loras = ((place.part, error_as_verdict(error)),)
        for part, adapter in loras:
            for claim in (*own, *everywhere):
                subject = Verdict(Code.NO_BASE, f"{claim.problem}{claim.remedy}") if claim.problem else adapter
                if isinstance(subject, Verdict):
                    rows.append(ClaimResult(claim, subject, part=part))
                    continue
                try:
                    row = judge_on(subject, claim, request.base_of(claim), request.options)
                except CheckpointError as error:
                    if alone:
                        raise
                    row = ClaimResult(claim, error_as_verdict(error))
                rows.append(replace(row, part=part))
    if adapters.left_out:
        what = "may come from elsewhere" if request.open_base is None else "were not read"
        left = Verdict(Code.UNSUPPORTED, f"other weights of the repository {what}: {adapters.left_out}")
        rows += (ClaimResult(claim, left) for claim in request.claims)
    notes = () if first.file else relation_notes(request.claims, first.repo)
    return RepositoryResult(tuple(rows), (*notes, *adapters.notes))


def _claims(place: Place, declared: Sequence[Claim]) -> Sequence[Claim]:
    """Return what is declared of one adapter: in its own folder, else in the root of the repository."""
    own = read_claims(place.repo).claims if place.repo.subfolder else ()
    for claims in ([claim for claim in own if not claim.problem], declared, own):
        if any(not claim.problem for claim in claims):
            return claims
    return own or declared


def judge_on(adapter: Adapter, claim: Claim, source: Source | Verdict, options: Options) -> ClaimResult:
    """Return the row of an adapter and a base that was located before, or could not be."""
    if isinstance(source, Signature):
        why = "an adapter is tested against the weights of its base, but a signature does not hold them; name the model"
        source = Verdict(Code.UNSUPPORTED, why)
    if isinstance(source, Verdict):
        return ClaimResult(claim, source, notes=(adapter.description,))
    try:
        repo = options.allow(_component_of(source, adapter.component))
        base = read_headers(read_config(repo, options.choice))
    except VERDICTS as error:
        return ClaimResult(claim, error_as_verdict(error), source.commit, notes=(adapter.description,))
    places = placement.find_places(base, adapter.lora)
    testable = placement.testable(places, base)
    outcome = _verdict_of(adapter, base, places, testable, options)
    repo, done = base.model_config.repo, FromWeights.from_opened(base, Options(), cached=False).downloads()
    untested = _describe_untested(adapter, base, places, testable)
    traffic, origins = {repo.name: done} if done else {}, (WEIGHTS, WEIGHTS)
    notes = (adapter.description, *untested, *(f"{repo.name}: {note}" for note in base.notes))
    outcome, folder = mark_unlisted_class(outcome, (base.model_config.read_as,)), None if repo.remote else repo
    row = ClaimResult(claim, outcome, source.commit, base.layout.layers, traffic, *origins, notes)
    return replace(row, base_folder=folder, licence=stated_licence(source))


def _component_of(base: RepoRef, component: str) -> RepoRef:
    """Return the model of a pipeline that an adapter is for, or the only model; NothingToCompare if there is none."""
    whole = base.subfolder or base.has(CONFIG)
    # The model that makes the picture is in one of a few folders.
    wanted = () if whole else (component,) if component else ("unet", "transformer", "prior")
    folder = next((name for name in wanted if base.offers(f"{name}/{CONFIG}")), None)
    if folder is not None:
        return part_of(base, folder)
    if component and component != base.subfolder:
        raise NothingToCompare(f"{base} has no folder {component}, and this part of the adapter is for it")
    return base if whole else counterpart(base, "")


def _verdict_of(
    adapter: Adapter, base: Headers, places: placement.Places, testable: Sequence[placement.Place], options: Options
) -> Verdict:
    """Return the verdict after a few layers if it is clear, else after all of them."""
    if obstacle := _obstacle(adapter, places, base):
        return Verdict(*obstacle)
    if not testable:
        why = "the adapter changes no matrix whose trace can be tested; such matrices make hidden units or values, or "
        return Verdict(Code.UNSUPPORTED, f"{why}write into the stream")
    products = adjacent.products(adapter.lora, testable)
    layers = sorted({place.layer for place in testable if products[place.module, place.expert].rows.shape[1]})
    if not layers:
        return Verdict(Code.INCONCLUSIVE, "the adapter adds zero to every matrix, as before any training")
    few = len(layers) > 2 * FEW and options.budget != "full"
    order = [layers[at] for at in measure.reading_order(len(layers), options.seed or 0)] if few else layers
    stops = (FEW, len(layers)) if few else (len(layers),)
    criteria = options.criteria(analyses=len(stops))
    calibrated = adapter.lora.calibrated and base.layout.factorization.lora.calibrated
    try:
        for read in stops:
            chosen = [place for place in testable if place.layer in order[:read]]
            blocks = list(adjacent.blocks(base, products, chosen))
            measured = replace(measure_trace(blocks, criteria), calibrated=calibrated)
            outcome = judge_trace(measured, criteria, adapter.lora.order_matters)
            if clear(outcome):
                break
    except VERDICTS as error:  # of the base
        outcome = error_as_verdict(error)
    return outcome


def _obstacle(adapter: Adapter, places: placement.Places, base: Headers) -> tuple[Code, str] | None:
    """Return why an adapter cannot be put on this base; None if it can."""
    name = base.model_config.repo.name
    if places.unfit:
        unfit = printable(places.unfit[0], 200)
        return Code.UNRELATED, f"by shape: {unfit}, so that the adapter was not trained on {name}"
    if places.ambiguous:
        flat = f"{printable(places.ambiguous[0], 200)}, with underscores in place of points"
        return Code.AMBIGUOUS, f"the adapter names {flat}, and several matrices of {name} may be meant"
    if places.everything:
        known = {re.sub(r"\d+", "#", place.module) for place in places.everything}
        beyond = next((module for module in places.absent if re.sub(r"\d+", "#", module) in known), None)
        if beyond is None:
            return None
        return Code.INCOMPATIBLE, f"the adapter is for {printable(beyond, 200)}, a layer that {name} does not have"
    if places.idle:
        module = f"{printable(places.idle[0], 200)}, because the adapter's configuration does not name that module"
        none = f"this adapter changes 0 of the modules of {name}: peft passes over the factors of {module}"
        return Code.UNSUPPORTED, f"{none}, or no module of this class has the name"
    what = printable((*places.absent, *adapter.lora.modules)[0], 200)
    if not any(re.search(r"[._]\d+[._]", module) for module in adapter.lora.modules):
        outside = f"only matrices outside the layers ({what}), where no trace is tested"
        return Code.UNSUPPORTED, f"the adapter changes {outside}"
    other = "the adapter is for another class, or transformers renames the modules of this class"
    none = f"no matrix in the layers of {name} has such a name"
    return Code.UNSUPPORTED, f"the adapter is for {what}, but {none}: {other}"


def _describe_untested(
    adapter: Adapter, base: Headers, places: placement.Places, testable: Sequence[placement.Place]
) -> Iterator[str]:
    """Yield sentences about factors in the file that change nothing, and about adapted matrices that are not tested."""
    if places.idle:
        of_all = f"{len(places.idle)} of {len(adapter.lora.modules)} modules"
        such = printable(places.idle[0], 200)
        yield f"{adapter.repo}: peft passes over the factors of {of_all}, such as {such}; they were not tested"
    tested = {(place.module, place.role) for place in testable}
    roles = {place.role for place in places.everything if (place.module, place.role) not in tested}
    attention = " and ".join(role for role in ("query", "key") if role in roles)
    if attention and placement.is_rotary(base):
        why = "rotary positions fix the order of dimensions in a head"
        yield f"{adapter.repo}: {attention} matrices are not tested: {why}"
