"""Nearer: which models of an index a model is nearer to than to the base it declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hf_lineage.checking import Report
from hf_lineage.checking.judge import whole_base
from hf_lineage.checking.results import NAMED, Relative, Row
from hf_lineage.checking.source import counterpart, located, open_model
from hf_lineage.errors import LineageError, OptionError, printable
from hf_lineage.evidence import Code, Criteria
from hf_lineage.evidence.derivation import SIBLINGS, aligned, along, distances, products
from hf_lineage.evidence.paths import compare_paths
from hf_lineage.hub import RepoRef
from hf_lineage.index import storage
from hf_lineage.index.search.identify import identify
from hf_lineage.index.search.parents import PART, with_parents
from hf_lineage.index.storage import Catalogue, Entry
from hf_lineage.index.tree import FAMILY, SELF, plain
from hf_lineage.signature import Signature, Vector


def relatives(
    signature: Signature, base: Signature, path: str, catalogue: Catalogue, criteria: Criteria
) -> list[tuple[Entry, Vector]]:
    """Return the models of an index to which a model is related, each with the inner products that `between` takes.

    The models that share most of the model's difference from the base are first.
    """
    model, near_models = signature.paths[path], []
    for relative in identify(signature, path, catalogue, criteria).related:
        if plain(relative.entry.model) in (plain(signature.model), plain(base.model)):
            continue
        others = [part.paths[path] for part in (base, catalogue.signature(relative.entry))]
        layers = len(model.trace)
        sketches = [aligned(other, compare_paths(other, model).pairs, layers) for other in (model, *others)]
        near_models.append((relative.entry, products(sketches)))
    return sorted(near_models, key=lambda one: -float(along(one[1], 1)[0, 2]))


def nearer(near_models: Sequence[tuple[Entry, Vector]], base: str = "") -> list[Relative]:
    """Return the relatives that lie between a model and its base, or come from the model; the nearest first."""
    cosines = ((entry, between(gram)) for entry, gram in near_models)
    return [Relative(entry.model, base, cosine) for entry, cosine in cosines if cosine is not None]


def between(gram: Vector) -> float | None:
    """Return the cosine of the differences of a model and of a relative from the base, where the relative is nearer.

    `gram` are the inner products of the model, its base and the relative. None for a sibling, and for a copy of the
    base, from which nothing differs.
    """
    apart = distances(gram)
    cosine = float(along(gram, 1)[0, 2])
    copies = apart[0, 1] < SELF or apart[1, 2] < SELF
    return cosine if not copies and cosine >= SIBLINGS and apart[0, 2] < apart[0, 1] else None


def searched(index: str | None) -> Callable[[Report], Report]:
    """Return what notes in a report the models of an index, a folder or one on the Hub, as `noted` does.

    Raise OptionError for a folder that is not there. What else cannot be read becomes a note: no verdict is lost to it.
    """
    try:
        catalogue = storage.opened(index)
    except OptionError:
        raise
    except LineageError as error:
        note = f"no index was searched: {error}"
        return lambda report: replace(report, notes=(*report.notes, note))
    return lambda report: noted(report, catalogue)


def noted(report: Report, catalogue: Catalogue) -> Report:
    """Return a report with a sentence for every model of an index that is nearer than a base, or gave more of it.

    Verdicts stay, and so does the exit code unless a model of the index shows as a parent that is not declared. What
    cannot be read is told in one more sentence. Both models are read as a whole.
    """
    near: dict[Relative, str] = {}
    entries: list[Entry] = []
    more: dict[str, None] = {}
    for row in report.rows:
        try:
            near_models = _relatives(report, row, catalogue)
            near |= {one: _note(one, _base(row)) for one in nearer(near_models, row.claim.base)}
            entries += [entry for entry, gram in near_models if float(along(gram, 1)[0, 2]) >= PART]
            more |= dict.fromkeys(_gave_more(report, row, catalogue))
        except LineageError as error:
            more[f"the index was not searched for {printable(row.claim.base, 200)}: {error}"] = None
    report = with_parents(report, entries)
    known = {*map(plain, report.undeclared)}
    shown = (note for one, note in near.items() if plain(one.model) not in known)
    notes = (*report.notes, *shown, *more, *catalogue.notes)
    return replace(report, notes=notes, relatives=tuple(near))


def _relatives(report: Report, row: Row, catalogue: Catalogue) -> list[tuple[Entry, Vector]]:
    verdict, options = row.verdict, report.options
    path = next(iter(verdict.evidence), None)
    if verdict.code not in FAMILY or path is None or verdict.by_units or row.part:
        return []
    base = _signature(counterpart(whole_base(row.claim, options.local_hub), ""), report)
    model = _signature(report.source or located(report.model, options), report)
    if base.width != model.width:
        return []
    return relatives(model, base, path, catalogue, Criteria(alpha=options.alpha))


def _gave_more(report: Report, row: Row, catalogue: Catalogue) -> Iterator[str]:
    """Yield a sentence for every model of an index that gave more than a base which gave a part alone."""
    path, evidence = next(iter(row.verdict.evidence.items()), ("", None))
    if row.verdict.code is not Code.PART or not (evidence and evidence.inherited) or row.verdict.by_units or row.part:
        return
    own, model = evidence.inherited, _signature(report.source or located(report.model, report.options), report)
    for one in identify(model, path, catalogue, Criteria(alpha=report.options.alpha)).related:
        gave = one.verdict.evidence[path].inherited
        if gave and gave.interval[0] > own.interval[1] and plain(one.entry.model) != plain(report.model):
            yield (
                f"{printable(one.entry.model, 200)}, which is in the index, is nearer than {_base(row)}: "
                f"{gave.share:.0%} of what the model's units write has a counterpart there, and {own.share:.0%} in the "
                "base"
            )


def _base(row: Row) -> str:
    """Return a base with the word for it: one that the user names is not declared."""
    return f"the {'' if row.claim.sources == NAMED else 'declared '}base {printable(row.claim.base, 200)}"


def _note(one: Relative, base: str) -> str:
    named = printable(one.base, 200)
    return (
        f"{printable(one.model, 200)}, which is in the index, is a nearer relative than {base}: it "
        f"shares {one.along**2:.0%} of the model's difference from {named} (cosine {one.along:.2f}; shared training "
        f"data alone can cause up to {SIBLINGS}). The model may come from {named} through it, or the reverse: weights "
        "do not tell which came first"
    )


def _signature(source: RepoRef | Signature, report: Report) -> Signature:
    return open_model(source, report.options).signature()
