"""Judgement: two opened models -> a verdict, after as many layers as it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hf_lineage import looks, verdict
from hf_lineage.calibrate import EmpiricalNull, PublishedNull, permutation_null, published_null
from hf_lineage.comparison import compare_paths
from hf_lineage.errors import NothingToCompare, OptionError
from hf_lineage.naming import locate_base
from hf_lineage.options import Options
from hf_lineage.repo import RepoRef, hub_name
from hf_lineage.signature import RECIPES, Signature, same_recipe
from hf_lineage.subject import Subject, open_subject

NOT_EXCHANGEABLE = (
    "the architecture does not treat all residual coordinates alike, so the permutation null does not hold; "
    "name independent models with --null"
)


def judgeable(source: RepoRef | Signature, options: Options, is_base: bool = False) -> Subject | verdict.Unverifiable:
    """Return the opened model, or the verdict that says why there is nothing to judge."""
    try:
        return open_subject(source, options, is_base)
    except NothingToCompare as error:
        return verdict.Unverifiable(str(error))


def judged(
    base: Subject | verdict.Unverifiable, suspect: Subject | verdict.Unverifiable, options: Options
) -> verdict.Verdict:
    """Return the verdict on two models; raise LineageError where one of them cannot be read."""
    if isinstance(base, verdict.Unverifiable):
        return base
    if isinstance(suspect, verdict.Unverifiable):
        return suspect
    if base.width != suspect.width:
        return verdict.Incompatible(
            f"{base.name} has {base.layers} layers of width {base.width}, "
            f"{suspect.name} has {suspect.layers} of width {suspect.width}"
        )
    if unlike := _unlike(base, suspect, options):
        return verdict.Incompatible(unlike)
    try:
        return _read(base, suspect, options)
    except NothingToCompare as error:
        return verdict.Unverifiable(str(error))


def _unlike(base: Subject, suspect: Subject, options: Options) -> str:
    """Which paths cannot be compared: in layers of other widths of one model, and beside `--null` in more of them.

    Where all layers have one width those of the shallower model are all paired, and a relabelling does to their score
    what it does at equal depth. Empirical nulls are of models of one depth.
    """
    rows = {path: (base.rows.get(path), suspect.rows.get(path)) for path in options.paths}
    return "; ".join(
        f"{base.name} has {path} in {_layers(ours)}, {suspect.name} in {_layers(theirs)}; leave {what} out"
        for path, (ours, theirs) in rows.items()
        if ours and theirs and (what := _in_the_way(ours, theirs, options))
    )


def _in_the_way(ours: Mapping[int, int], theirs: Mapping[int, int], options: Options) -> str:
    """What keeps the layers of two models from being compared, empty for nothing."""
    if sorted(ours.values()) == sorted(theirs.values()):
        return ""
    if len({*ours.values(), *theirs.values()}) > 1:
        return "this path"
    return "--null" if options.nulls else ""


def _layers(rows: Mapping[int, int]) -> str:
    widths = tuple(rows.values())
    return f"{len(rows)} layers" + (f" of widths {', '.join(map(str, widths))}" if len(set(widths)) > 1 else "")


def _read(base: Subject, suspect: Subject, options: Options) -> verdict.Verdict:
    """The verdict at the first look that leaves no doubt."""
    order, stops = _plan(base, suspect, options)
    look = _Look(len(stops), _empirical_nulls(base, options), options)
    for read in stops:
        ours, theirs = (_seen(model, order[:read]) for model in (base, suspect))
        same_recipe(ours, theirs)
        objection = "" if ours.exchangeable and theirs.exchangeable else NOT_EXCHANGEABLE
        found = verdict.judge(look.measured(ours, theirs), options.alpha, objection=objection)
        if _clear(found, read, len(order)):
            break
    return found


def _plan(base: Subject, suspect: Subject, options: Options) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The layers in the order in which they are read, and how many of them have been read at each look.

    Layers of several kinds are all read: a few of them would not stand for the rest.
    """
    everything = tuple(range(max(base.layers, suspect.layers)))
    plain = dict.fromkeys(everything, suspect.width)
    alike = all(model.rows.get(path) == plain for model in (base, suspect) for path in options.paths)
    hurried = options.budget == "quick" or (options.budget is None and not (base.local and suspect.local))
    if not hurried or options.nulls or options.recipe.probes is None or not alike:
        return everything, (len(everything),)
    return looks.reading_order(len(everything)), looks.looks(len(everything))


def _seen(model: Subject, read: tuple[int, ...]) -> Signature:
    """A model as far as it is read; all of a signature that was given instead, for a layer may have been moved.

    What our own cache holds is no more than its weights would have shown: a report does not depend on what is kept.
    """
    return model.signature() if model.origin.given else model.signature([n for n in read if n < model.layers])


def _clear(found: verdict.Verdict, read: int, layers: int) -> bool:
    """Whether the layers that are left could change nothing."""
    if isinstance(found, verdict.Related):
        return any(
            isinstance(single, verdict.Related) and found.evidence[path].comparison.score >= looks.CLEAR
            for path, single in found.by_path.items()
        )
    if found.reason == NOT_EXCHANGEABLE:
        return True
    doubtful = any(each.permutation.p_value <= looks.DOUBTFUL for each in found.evidence.values())
    return isinstance(found, verdict.Unrelated) and read >= looks.enough(layers) and not doubtful


@dataclass(frozen=True)
class _Look:
    """What is measured at each of several looks."""

    looks: int
    empirical: Mapping[str, EmpiricalNull]
    options: Options

    def measured(self, ours: Signature, theirs: Signature) -> dict[str, verdict.Evidence]:
        """Return everything that is measured between two signatures, by path."""
        # As many times more relabellings as there are looks, so that the correction costs no resolution.
        tried = self.looks * (self.options.permutations + 1) - 1
        pairs = {path: (ours.paths[path], theirs.paths[path]) for path in self.options.paths}
        nulls = {path: permutation_null(a, b, tried, self.options.seed) for path, (a, b) in pairs.items()}
        adjusted = verdict.holm({path: null.p_value for path, null in nulls.items()})
        return {
            path: verdict.Evidence(
                comparison=compare_paths(a, b),
                permutation=nulls[path],
                empirical=self.empirical.get(path),
                p_value=min(1.0, self.looks * adjusted[path]),
                layers=(ours.numbers(path), theirs.numbers(path)),
                looks=self.looks,
            )
            for path, (a, b) in pairs.items()
        }


def _empirical_nulls(base: Subject, options: Options) -> dict[str, EmpiricalNull]:
    """The base's scores against every `--null`, by path; OptionError for one that cannot serve."""
    scores: dict[str, dict[str, float]] = {path: {} for path in options.paths}
    sources = []
    for name in options.nulls:
        published = published_null(name)
        if published is None:
            found = _null_scores(base, name, options)
            sources.append(name)
        else:
            found = _published_scores(base, name, published, options)
            sources.append(published.source)
        for path, by_model in found.items():
            scores[path] |= by_model
    return {path: EmpiricalNull(found, "; ".join(sources)) for path, found in scores.items() if found}


def _null_scores(base: Subject, name: str, options: Options) -> dict[str, dict[str, float]]:
    other = judgeable(locate_base(name, options.local_hub), options)
    outcome = judged(base, other, replace(options, nulls=(), budget="full"))
    unlike = _unlike(base, other, options) if isinstance(other, Subject) else ""
    if unlike or not outcome.evidence:
        raise OptionError(f"--null {name} cannot serve: {unlike or outcome.reason}")
    if isinstance(outcome, verdict.Related):
        raise OptionError(f"--null {name} is itself related to {base.name}; a null model must be independent of it")
    return {path: {name: found.comparison.score} for path, found in outcome.evidence.items()}


def _published_scores(
    base: Subject, name: str, published: PublishedNull, options: Options
) -> dict[str, dict[str, float]]:
    plain = options.recipe == replace(RECIPES[published.recipe], probes=options.recipe.probes)
    if not plain or published.path not in options.paths:
        raise OptionError(
            f"--null {name} was measured with --recipe {published.recipe} --paths {published.path}; use both"
        )
    if base.name.partition("@")[0] != published.reference and hub_name(base.name) is not None:
        raise OptionError(f"--null {name} holds scores of {published.reference}, not of {base.name}")
    return {published.path: published.scores}
