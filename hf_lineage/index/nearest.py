"""Nearest: models of an index that make up a model as a blend, or are nearer to it than its base."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hf_lineage.checking.claims import whole_base
from hf_lineage.checking.declared import is_named, names_in, plain_name
from hf_lineage.checking.merge import find_blend
from hf_lineage.checking.report import Combination, Relative, Report
from hf_lineage.checking.result import NAMED
from hf_lineage.errors import LineageError, NetworkError, OptionError, RepositoryError, printable
from hf_lineage.evidence.comparison import compare_paths
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.verdict import Code, Evidence
from hf_lineage.hub.repo import RepoRef
from hf_lineage.index import store
from hf_lineage.index.differences import SIBLINGS, align_sketches, along, distances, products
from hf_lineage.index.identify import Identification, identify, locate_entry
from hf_lineage.index.relatives import FAMILY, SELF
from hf_lineage.index.shard import Entry
from hf_lineage.index.store import Catalogue
from hf_lineage.signature.recipe import Vector
from hf_lineage.signature.values import Signature
from hf_lineage.source.contents import counterpart
from hf_lineage.source.locate import locate_model
from hf_lineage.source.model import FromWeights, OpenedModel, open_model
from hf_lineage.source.options import Options
from hf_lineage.source.rows import weights_of

MOST = 4  # models of an index whose weights are read for one model
# The least cosine of the differences of a model and of a relative from the base whose weights are read: of several
PART = 0.3  # parents of a blend each shares so much


def _with_parents(report: Report, entries: Sequence[Entry]) -> Report:
    """Return a report with the parents among these models of an index, the nearest first; errors become notes."""
    rows = [row for row in report.rows if row.verdict.verified and not row.part]
    bases = [one for row in rows if (one := weights_of(row.base_model, report.options))]
    others, notes = _open_models(list(dict.fromkeys(entries))[:MOST], report.options)
    report = replace(report, notes=(*report.notes, *notes))
    if not others or not bases or len(bases) < len(rows):
        return report
    try:
        source = report.source or locate_model(report.model, report.options)
        model = open_model(source, replace(report.options, recompute=True))
        own = model if isinstance(model, FromWeights) else None
        choice = find_blend(own, bases, list(others.values()), rows, report.options) if own else None
    except LineageError as error:
        return replace(report, notes=(*report.notes, f"no blend with a model of the index was looked for: {error}"))
    if choice is None:
        return report
    declared = tuple(row.claim.base for row in rows)
    named = names_in(source) if isinstance(source, RepoRef) else ()
    names = tuple((*declared, *others)[number] for number in choice[0])
    # Whoever asks for a base names it where the model names none.
    asked = () if named else declared
    known = tuple(name in asked or is_named(name, named) for name in names)
    blended = Combination(names, choice[1], known, by_model=bool(named))
    return replace(report, blended=blended)


def weigh_relatives(result: Identification, model: OpenedModel, options: Options) -> Identification:
    """Return what an index knows of a model, with the relatives that make it up, where all weights can be read."""
    near = [one.entry for one in result.related if one is not result.ancestor and one.along >= PART][:MOST]
    if result.ancestor is None or not near:
        return result
    try:
        own = weights_of(model, options)
        opened, _ = _open_models([result.ancestor.entry, *near], options) if own else ({}, [])
        base = opened.pop(result.ancestor.entry.model, None)
        choice = find_blend(own, [base], list(opened.values()), (), options) if own and base and opened else None
    except LineageError:
        return result  # what its signature tells is told
    if choice is None:
        return result
    names = tuple((result.ancestor.entry.model, *opened)[number] for number in choice[0])
    return replace(result, blended=Combination(names, choice[1], (True,) * len(names)))


def _open_models(entries: Sequence[Entry], options: Options) -> tuple[dict[str, FromWeights], list[str]]:
    """Return models of the index whose weights can be read, by name, and a sentence for every other."""
    others, notes = dict[str, FromWeights](), []
    for entry in entries:
        name = printable(entry.model, 200)
        try:
            other = open_model(locate_entry(entry, options.local_hub), replace(options, recompute=True))
        except RepositoryError:
            continue  # a folder of somebody, or a model that is gone
        except LineageError as error:
            notes.append(f"whether the model is a blend with {name} was not looked for: {error}")
            if isinstance(error, NetworkError):  # the client has waited long for one of them
                break
        else:
            if isinstance(other, FromWeights):
                others[entry.model] = other
    return others, notes


def relatives(
    signature: Signature, base: Signature, path: str, catalogue: Catalogue, criteria: Criteria
) -> list[tuple[Entry, Vector]]:
    """Return related models of an index with the products that `between` takes, those nearest to the model first."""
    model, near_models = signature.paths[path], []
    for relative in identify(signature, path, catalogue, criteria).related:
        if plain_name(relative.entry.model) in (plain_name(signature.model), plain_name(base.model)):
            continue
        others = [part.paths[path] for part in (base, catalogue.signature(relative.entry))]
        layers = len(model.trace)
        sketches = [align_sketches(other, compare_paths(other, model).pairs, layers) for other in (model, *others)]
        near_models.append((relative.entry, products(sketches)))
    return sorted(near_models, key=lambda one: -float(along(one[1], 1)[0, 2]))


def nearer(near_models: Sequence[tuple[Entry, Vector]], base: str = "") -> list[Relative]:
    """Return the relatives that lie between a model and its base, or come from the model; the nearest first."""
    return [Relative(entry.model, base, cosine) for entry, gram in near_models if (cosine := between(gram)) is not None]


def between(gram: Vector) -> float | None:
    """Return the cosine of two differences from the base, where the relative is nearer; `gram` is of all three."""
    apart = distances(gram)
    cosine = float(along(gram, 1)[0, 2])
    copies = apart[0, 1] < SELF or apart[1, 2] < SELF
    return cosine if not copies and cosine >= SIBLINGS and apart[0, 2] < apart[0, 1] else None


def search_index(index: str | None) -> Callable[[Report], Report]:
    """Return what notes in a report the models of an index, as `note_nearer` does; OptionError for a missing folder."""
    try:
        catalogue = store.open_catalogue(index)
        return lambda report: note_nearer(report, catalogue)
    except OptionError:
        raise
    except LineageError as error:
        note = f"no index was searched: {error}"
        return lambda report: replace(report, notes=(*report.notes, note))


def note_nearer(report: Report, catalogue: Catalogue) -> Report:
    """Return a report with a sentence for every model of an index that is nearer than a base, or gave more of it.

    Verdicts stay, and so does the exit code unless a parent shows that is not declared. Errors become sentences.
    """
    near: dict[Relative, str] = {}
    entries: list[Entry] = []
    more: dict[str, None] = {}
    for row in report.rows:
        base = f"the {'' if row.claim.sources == NAMED else 'declared '}base {printable(row.claim.base, 200)}"
        path = next(iter(row.verdict.evidence), None)
        if path is None or row.verdict.by_units or row.part:
            continue
        try:
            if row.verdict.code in FAMILY:
                criteria, options = Criteria(alpha=report.options.alpha), report.options
                parent = open_model(counterpart(whole_base(row.claim, options.local_hub), ""), options).signature()
                model = open_model(report.source or locate_model(report.model, options), options).signature()
                alike = parent.width == model.width
                near_models = relatives(model, parent, path, catalogue, criteria) if alike else []
                for one in nearer(near_models, row.claim.base):
                    named = printable(one.base, 200)
                    near[one] = (
                        f"{printable(one.model, 200)}, which is in the index, is a nearer relative than {base}: it "
                        f"shares {one.along**2:.0%} of the model's difference from {named} (cosine {one.along:.2f}; "
                        f"shared training data alone can cause up to {SIBLINGS}). The model may come from {named} "
                        "through it, or the reverse: weights do not tell which came first"
                    )
                entries += [entry for entry, gram in near_models if float(along(gram, 1)[0, 2]) >= PART]
            elif row.verdict.code is Code.PART:
                more |= dict.fromkeys(_gave_more(report, row.verdict.evidence[path], path, base, catalogue))
        except LineageError as error:
            more[f"the index was not searched for {printable(row.claim.base, 200)}: {error}"] = None
    report = _with_parents(report, entries)
    known = {*map(plain_name, report.undeclared)}
    sentences = (note for one, note in near.items() if plain_name(one.model) not in known)
    notes = (*report.notes, *sentences, *more, *catalogue.notes)
    return replace(report, notes=notes, relatives=tuple(near))


def _gave_more(report: Report, evidence: Evidence, path: str, base: str, catalogue: Catalogue) -> Iterator[str]:
    """Yield a sentence for every model of an index that gave more than a base which gave a part alone."""
    own, source = evidence.inherited, report.source or locate_model(report.model, report.options)
    model = open_model(source, report.options).signature()
    for one in identify(model, path, catalogue, Criteria(alpha=report.options.alpha)).related:
        gave = one.verdict.evidence[path].inherited
        if (
            own
            and gave
            and gave.interval[0] > own.interval[1]
            and plain_name(one.entry.model) != plain_name(report.model)
        ):
            yield (
                f"{printable(one.entry.model, 200)}, which is in the index, is nearer than {base}: {gave.share:.0%} of "
                f"what the model's units write has a counterpart there, and {own.share:.0%} in the base"
            )
