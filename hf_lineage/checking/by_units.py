"""Pairs of models, and their comparison number by number and unit by unit, where products of their paths show nothing.

Numbers need matrices of one floating-point format and shape. Units follow an UNRELATED by paths, unlike widths, and
coordinates that are not exchangeable. The p-value of the paths is corrected for each whenever it may follow.
"""

import functools
from collections.abc import Collection
from dataclasses import dataclass, replace

from hf_lineage.architecture.paths import NAMED, PATHS, resolve_paths
from hf_lineage.architecture.schema import prefixes
from hf_lineage.errors import NothingToCompare
from hf_lineage.evidence import evaluate, measure
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.equal_numbers import Rows, compare_numbers
from hf_lineage.evidence.inherited import HALF
from hf_lineage.evidence.permutation import PermutationNull
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.sample import Sample, fits, indices
from hf_lineage.signature.unit_rows import HEADS, PATH
from hf_lineage.signature.values import FILE, Signature
from hf_lineage.source.headers import Headers
from hf_lineage.source.model import FromWeights, OpenedModel
from hf_lineage.source.options import Options
from hf_lineage.source.rows import rows_beside, weights_of

USUAL = next(iter(RECIPES.values())).name  # Other recipes reproduce what was measured with them, and nothing else


@dataclass(frozen=True)
class ModelPair:
    """Two opened models and the options by which they are compared, and what these make of the two."""

    base: OpenedModel
    candidate: OpenedModel
    options: Options
    declared: bool = False  # Whether the candidate itself declares the base, and so has no reason to hide it

    @classmethod
    def along_common_paths(
        cls, base: OpenedModel, candidate: OpenedModel, options: Options, declared: bool = False
    ) -> "ModelPair":
        """Return two models; where the options name all paths, they are compared along those that both have."""
        common = tuple(path for path in PATHS if path in base.rows and path in candidate.rows)
        paths = resolve_paths(options.paths, common) if common else options.paths
        return cls(base, candidate, replace(options, paths=paths), declared)

    @functools.cached_property
    def incompatible(self) -> str:
        """Why the products of both cannot be compared, in the coordinates of the residual stream; or empty."""
        base, candidate = self.base, self.candidate
        known = prefixes(candidate.factorization) if candidate.factorization else ()
        in_blocks = any("{block}" in prefix for prefix in known)  # so that weights that no loader reads may be layers
        if base.width != candidate.width or (base.layers != candidate.layers and in_blocks):
            own = f"{candidate.name} has {candidate.layers} of width {candidate.width}"
            return f"{base.name} has {base.layers} layers of width {base.width}, {own}"
        if self.options.paths in NAMED:
            paths = (f"{model.name} has {', '.join(model.rows)}" for model in (base, candidate))
            return f"no path is in both models: {', '.join(paths)}"
        return self.unlike_layers

    @functools.cached_property
    def unlike_layers(self) -> str:
        """Why paths cannot be compared: unlike widths of layers, or with `--null` unlike numbers; or empty."""

        def describe(model: OpenedModel, path: str) -> str:
            widths = tuple(model.rows[path].values())
            several = f" of widths {', '.join(map(str, widths))}" if len(set(widths)) > 1 else ""
            return f"{len(widths)} layers{several}"

        reasons = []
        for path in self.options.paths:
            base, candidate = (model.rows.get(path, {}).values() for model in (self.base, self.candidate))
            if base and candidate and sorted(base) != sorted(candidate):
                unlike = len({*base, *candidate}) > 1
                both = f"{self.base.name} has {path} in {describe(self.base, path)}, {self.candidate.name} in "
                both += f"{describe(self.candidate, path)}; leave {'this path' if unlike else '--null'} out"
                reasons += [both] if unlike or self.options.nulls else []
        return "; ".join(reasons)

    @functools.cached_property
    def plan(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The layers in reading order, and how many are read at each analysis: all of unlike widths or at hand."""
        base, candidate, options = self.base, self.candidate, self.options
        everything = tuple(range(max(base.layers, candidate.layers)))
        plain = dict.fromkeys(everything, candidate.width)
        alike = all(model.rows.get(path) == plain for model in (base, candidate) for path in options.paths)
        at_hand = base.origin == candidate.origin == FILE
        if at_hand or options.budget == "full" or options.nulls or options.recipe.probes is None or not alike:
            return everything, (len(everything),)
        layers = len(everything)
        return measure.reading_order(layers, options.seed or 0), measure.analyses(layers, options.min_share)

    @functools.cached_property
    def sampled_models(self) -> tuple[FromWeights, ...]:
        """Both models, if read from weights with equally many units a layer, and not all at once; else none."""
        base, candidate, paths, sizes = self.base, self.candidate, self.options.paths, list[list[int]]()
        if self.incompatible or len(self.plan[1]) == 1:
            return ()
        if not isinstance(base, FromWeights) or not isinstance(candidate, FromWeights):
            return ()
        for headers in (base.headers, candidate.headers):
            if not all(fits(headers.layout, headers.checkpoint, path) for path in paths):
                return ()
            sizes.append([headers.layout.parts(path, at) for path in paths for at in range(headers.layout.layers)])
        return (base, candidate) if sizes[0] == sizes[1] else ()

    def sample(self, layers: Collection[int], all_units: bool = False, look: int = 0) -> tuple[Signature, Signature]:
        """Return signatures of a sample of these layers, of some or all units; each look draws anew."""
        sample = Sample(self.options.seed or 0, all_units, look)
        base, candidate = (model.reading.sample(self.options.paths, layers, sample) for model in self.sampled_models)
        return base, candidate


def is_exchangeable(pair: ModelPair) -> bool:
    """Return whether both architectures treat all residual coordinates alike."""
    models = pair.base, pair.candidate
    return all(model.factorization is None or model.factorization.exchangeable for model in models)


def is_faint(first: Verdict, alpha: float) -> bool:
    """Return whether equal numbers or paths are only just significant, as paths are after some signs were changed."""
    if first.code is not Code.INCONCLUSIVE:
        return False
    return first.equal is not None or any(
        one.decided_by is not None and one.p_value <= alpha and not any(one.not_finite)
        for one in first.evidence.values()
    )


def may_compare_units(pair: ModelPair) -> bool:
    """Return whether two models may be compared unit by unit, by what is known before any weights are read."""
    models, options = (pair.base, pair.candidate), pair.options
    paths = options.paths in NAMED or PATH in options.paths
    usual = options.recipe.name == USUAL and options.recipe.probes is not None and not options.nulls
    return paths and usual and all(model.factorization is not None and PATH in model.rows for model in models)


def judge_units(pair: ModelPair, criteria: Criteria, first: Verdict | None) -> Verdict | None:
    """Return the verdict on what both models show unit by unit; raise NothingToCompare where they cannot be seen so."""
    coordinates = _coordinates(pair, first)
    if first is None or coordinates is None:
        return None
    from hf_lineage.checking.units import compare_by_units
    from hf_lineage.evidence import unit_comparison
    from hf_lineage.signature.units import known_weights

    options, opened = pair.options, list[Headers]()
    for model in (pair.base, pair.candidate):
        if model.reopen is None:
            raise NothingToCompare(f"{model.name}: its weights are not read")
        opened.append(model.reopen())
    test = unit_comparison.OrderSettings(criteria.permutations_at_first(), criteria.seed, criteria.tests)
    base, candidate = opened
    known = (known_weights(pair.base.at_hand, base.layout), known_weights(pair.candidate.at_hand, candidate.layout))
    heads = options.paths in NAMED or HEADS in options.paths
    # Fitting takes most of the time of an UNRELATED, and finds copies in a rotated stream with another embedding. Who
    # declares a base has no reason to hide one, so that only `--budget full` searches for it then.
    analyses, fit = _analyses(first, pair), not pair.declared or options.budget == "full"
    comparison = compare_by_units(base, candidate, analyses, coordinates, test, fit, known, heads)
    return unit_comparison.judge_units(comparison, criteria)


def _coordinates(pair: ModelPair, first: Verdict | None) -> str | None:
    """Return the coordinates that are tried first; None if the paths decide, or a null that the user named refuses."""
    if first is None or first.verified:
        return None
    from hf_lineage.evidence import unit_comparison

    if first.code is Code.INCOMPATIBLE and pair.base.width != pair.candidate.width:
        return unit_comparison.TOKEN
    if any(not isinstance(null, PermutationNull) for one in first.evidence.values() for null in one.nulls):
        return None
    if first.code is Code.INCONCLUSIVE and first.evidence and not is_exchangeable(pair):
        return unit_comparison.RESIDUAL if all(one.decided_by is None for one in first.evidence.values()) else None
    return unit_comparison.TOKEN if first.code is Code.UNRELATED or is_faint(first, pair.options.alpha) else None


def _analyses(first: Verdict, pair: ModelPair) -> tuple[Collection[int], ...]:
    """Return the layers read at each analysis, the last those of the paths, else as many as UNRELATED needs."""
    base, candidate, options = pair.base, pair.candidate, pair.options
    depth = max(base.layers, candidate.layers)
    if options.budget == "full":
        return (range(depth),)
    if base.layers != candidate.layers or depth < measure.FEWEST_LAYERS:
        return (range(depth),) * 2
    order = measure.reading_order(depth, options.seed or 0)
    read = {number for one in first.evidence.values() for number in one.layers[1]}
    layers = [number for number in order if number in read] or order[: measure.enough(depth)]
    common = [number for number in layers if number in base.rows[PATH] and number in candidate.rows[PATH]]
    # Half as many of a declared base: a tool may have rotated the stream, but nobody rotates a part to hide it then.
    few = common[: measure.fewest(depth, HALF) // (2 if pair.declared else 1)]
    return (few, layers) if few else (layers,)


def may_compare_numbers(pair: ModelPair) -> bool:
    """Return whether numbers may be compared one by one, by what is known before any weights are read."""
    models, options = (pair.base, pair.candidate), pair.options
    usual = options.recipe.name == USUAL and not options.nulls and not pair.incompatible
    read = all(model.factorization is not None and model.reopen is not None for model in models)
    return usual and read and pair.base.layers == pair.candidate.layers and is_exchangeable(pair)


def judge_numbers(pair: ModelPair, criteria: Criteria, before: Verdict | None) -> Verdict | None:
    """Return the verdict on what both have in common, bit for bit; None where that shows nothing, or changes none."""
    if before is None or not before.evidence or any(any(one.not_finite) for one in before.evidence.values()):
        return None
    if before.code not in (Code.UNRELATED, Code.EMBEDDING, Code.PART) and not is_faint(before, pair.options.alpha):
        return None
    base, candidate = (weights_of(model, pair.options) for model in (pair.base, pair.candidate))
    if base is None or candidate is None:
        return None
    seed, widths = pair.options.seed or 0, candidate.headers.layout.widths
    compared = {number for one in before.evidence.values() for number in one.layers[1]}
    layers = {number for number in compared if widths[number] == candidate.width}  # the coordinates of one stream
    coordinates = Sample(seed, all_units=True).coordinates_of(candidate.width)
    tested = indices(coordinates)
    rows = [
        Rows(one.layer, one.numbers, *(side.T if one.writes else side[:, tested] for side in (one.base, one.candidate)))
        for one in rows_beside(base, candidate, seed, layers, coordinates)
        if one.digits[0] == one.digits[1]
    ]
    measured = compare_numbers(rows, criteria.permutations_at_first(), criteria.seed, criteria.tests)
    return evaluate.judge_equal(measured, before, criteria) if measured else None
