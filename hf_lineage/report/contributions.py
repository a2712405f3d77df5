"""Contributions of bases in words: unit by unit, part by part, to adapters, and to merges beside what is declared."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hf_lineage.checking.report import Combination, Report
from hf_lineage.checking.result import Bar, Bars, ClaimResult, Finding, Table
from hf_lineage.errors import printable
from hf_lineage.evidence import merge
from hf_lineage.evidence import unit_comparison as frames
from hf_lineage.evidence.evaluate import name_layers, spans
from hf_lineage.evidence.merge import Blend, BlendPlace, Parent, Share
from hf_lineage.evidence.unit_comparison import UnitComparison, through
from hf_lineage.evidence.unit_order import PLACES
from hf_lineage.lora.gradient_alignment import Trace, least_effect
from hf_lineage.lora.placement import ROWS
from hf_lineage.report import wording
from hf_lineage.report.verdicts import sentences

STATISTICS = {PLACES: "units in the same places are alike", "ranks": "the ranks of matched units agree"}


def describe_units(comparison: UnitComparison, row: ClaimResult, _report: Report) -> Finding:
    """Return how the two models were seen unit by unit, and what the order of units shows."""
    frame, order, read, depth = comparison.coordinates, comparison.order, comparison.layers[1], comparison.depth
    through_few = {
        frames.TOKEN: f"through {frame.tokens:,} tokens",
        frames.RESIDUAL: "in the residual stream",
        frames.PROCRUSTES: "in coordinates that fit best",
    }
    tested = "" if comparison.p_value is None else f", order p = {comparison.p_value:.3g}"
    summary = f"units seen {through_few[frame.name]}: {wording.print_share(comparison)} inherited{tested}"
    some = f", in {len(read)} of {depth} layers ({name_layers(read)})" if len(read) < depth else ""
    unit_by_unit = f"unit by unit, seen {through(comparison)}: {wording.share(comparison)} inherited{some}"
    if order is None:
        in_order = "the order of units is not tested: no two units match"
    else:
        by = "; ".join(f"{STATISTICS[name]}, z {z:.1f}" for name, z in order.z.items())
        tests = f", corrected for {comparison.tests} tests of the claim (Bonferroni)" if comparison.tests > 1 else ""
        drawn = f"{order.draws:,} permutations among units of a layer that read and write as much"
        in_order = f"order of units: {by}; p = {comparison.p_value:.3g} from {drawn}{tests}"
    values = _unit_values(comparison)
    return Finding("Hidden units", wording.about(row), (summary,), (unit_by_unit, in_order), values=values)


def _unit_values(comparison: UnitComparison) -> dict[str, Any]:
    frame, order, inherited = comparison.coordinates, comparison.order, comparison.inherited
    shares = zip(comparison.layers[1], comparison.partners, inherited.by_layer, strict=True)
    low, high = inherited.interval
    return {
        **{"frame": frame.name, "tokens": frame.tokens or None, "tokens_by": frame.by or None},
        "p_value": None if order is None else order.p_value,
        **{"p_value_adjusted": comparison.p_value, "tests": comparison.tests},
        "z": {} if order is None else {name: z for name, z in order.z.items() if math.isfinite(z)},
        "permutations": 0 if order is None else order.draws,
        "inherited": {"share": inherited.share, "low": low, "high": high, "at_least": comparison.least},
        "layers_read": len(comparison.layers[1]),
        "layers": [
            {"layer": layer, "paired_with": partner, "inherited": float(share)} for layer, partner, share in shares
        ],
        "calibration": {"source": frames.CALIBRATION, "pairs": frames.PAIRS, "largest": frames.LARGEST},
    }


def describe_parts(_parts: Sequence[str], report: Report) -> Finding:
    """Return the rows of all parts beside each other; of a model with a tower the language model is no part."""
    lines, bars, values = list[tuple[str, ...]](), list[Bar](), list[dict[str, object]]()
    for row in report.rows:
        part, base, verdict = printable(row.part, 100), printable(row.claim.base, 200), row.verdict
        measured, name = wording.measured_share(row), part or "the model itself"
        share = measured.share if measured else None
        lines.append((name, base, verdict.label, "" if share is None else f"{share:.0%}"))
        if measured:
            bars.append(Bar(f"{name}: {base}", measured.share, *measured.interval, pale=not verdict.is_related))
        outcome = {"verdict": verdict.word, "code": verdict.code, "verified": verdict.verified}
        values.append({"part": part, "base": base, **outcome, "inherited": share})
    return Finding(
        "The parts side by side",
        details=("Nothing about one part follows from another: each is compared with its own counterpart.",),
        tables=(Table("part by part", ("Part", "Base", "Verdict", "Inherited"), tuple(lines), numeric=(3,)),),
        picture=Bars(tuple(bars), "How much of what each part writes is inherited.") if bars else None,
        values=values,
    )


def describe_adapter(trace: Trace, row: ClaimResult, report: Report) -> Finding:
    """Return what the adapter shows of its base, by projection, and by layer with a dash where it has none."""
    by_place: dict[tuple[int, str], list[float]] = {}
    for role, layer, z in zip(trace.roles, trace.layers, trace.z_of_blocks, strict=True):
        by_place.setdefault((layer, role), []).append(float(z))
    projections, layers = [], []
    for role in trace.by_role:
        count = str(sum(of == role for _, of in by_place))
        projections.append((role, ROWS[role], count, f"{trace.z_of(role):.1f}", f"{trace.p_of(role):.3g}"))
    for layer in sorted(set(trace.layers)):
        each = (by_place.get((layer, role)) for role in trace.by_role)  # of experts the mean
        layers.append((str(layer), *("-" if zs is None else f"{np.mean(zs):.1f}" for zs in each)))
    columns = ("Layer", *(f"z of {role}" for role in trace.by_role))
    tables = (
        Table("by projection", ("Projection", "Rows permuted", "Layers", "z", "p"), tuple(projections), (2, 3, 4)),
        Table("projections by layer", columns, tuple(layers), tuple(range(len(columns)))),
    )
    by_role = ", ".join(f"{role} z {trace.z_of(role):.1f} (p {trace.p_of(role):.3g})" for role in trace.by_role)
    several = ", the largest of all statistics and their sum under the same ones" if len(trace.by_role) > 1 else ""
    count = f"{trace.permutations} permutations and as many flips{several}"
    texts, tested = [f"trace by projection: {by_role}; p = {trace.p_value:.3g} from {count}"], sorted(set(trace.layers))
    if row.layers is not None and trace.analyses > 1:
        texts.append(
            f"tested in {len(tested)} of {row.layers} layers ({name_layers(tested)}), drawn in a random order, at one "
            f"of {trace.analyses} interim analyses; p is corrected for them (Bonferroni); --budget full reads all "
            "layers"
        )
    texts.append(f"what the adapter adds is {float(np.mean(trace.sizes)):.2g} times as large as the weights")
    values, meaning = _adapter_values(trace, report.options.alpha), sentences("trace")["meaning"]
    return Finding("Adapter", wording.about(row), tuple(texts), (meaning,), tables, values=values)


def _adapter_values(trace: Trace, alpha: float) -> dict[str, Any]:
    projections = []
    for role in trace.by_role:
        layers = []
        for row, layer in enumerate(trace.layers):
            if trace.roles[row] == role:
                size = float(trace.sizes[row]) if np.isfinite(trace.sizes[row]) else None
                z, directions = float(trace.z_of_blocks[row]), float(trace.directions[row])
                layers.append({"layer": layer, "z": z, "directions": directions, "size": size})
        tests = {"permuted": ROWS[role], "z": trace.z_of(role), "p_value": trace.p_of(role)}
        projections.append({"projection": role, **tests, "layers": layers})
    values = {"p_value": trace.p_value, "p_permutations": trace.p_values[0], "p_signs": trace.p_values[1]}
    values |= {"power": trace.power(alpha), "effect": trace.effect, "least_effect": least_effect(trace, alpha)}
    values |= {name: getattr(trace, name) for name in ("permutations", "seed", "analyses")}
    return values | {"projections": projections}


NO_PROBABILITY = sentences("merge")["score"]


def describe_parent(parent: Parent, row: ClaimResult, _report: Report) -> Finding:
    """Return what one parent gave, a sentence for each path."""
    texts, values = list[str](), dict[str, Any]()
    if parent.reason:
        texts.append(f"its merge contribution is not known: {printable(parent.reason, 500)}")
    for path, share in parent.shares.items():
        declared = ""
        if parent.is_base:
            declared = f"; the recipe ({parent.method}) takes differences from it"
        elif path in parent.declared:
            declared = f"; {figure(parent.declared[path])} by its recipe ({parent.method})"
        elif parent.method:
            declared = f"; the recipe ({parent.method}) gives no weight"
        texts.append(
            f"gave {describe_share(parent.is_base, share)} of the merge along {path}{declared}{_by_layer(share)}"
        )
        layers = {str(layer): {"share": one, "error": error} for layer, (one, error) in share.layers.items()}
        recipe = {"declared": parent.declared.get(path), "remainder": parent.remainders[path]}
        values[path] = {**_share_values(share), **recipe, "layers": layers}
    every = {"method": parent.method or None, "is_base": parent.is_base, "reason": parent.reason, "shares": values}
    first = next(iter(texts), "")
    brief = f"it {first}" if first.startswith("gave") else first
    return Finding("Merge contribution", printable(row.claim.base, 200), tuple(texts), values=every, brief=brief)


def describe_merge(rows: Sequence[ClaimResult], _report: Report) -> Finding:
    """Return the shares of all parents side by side, and what none of them explains, where that is much."""
    lines, bars, left = list[tuple[str, ...]](), list[Bar](), dict[str, float]()
    for base, parent in ((printable(row.claim.base, 200), row.parent) for row in rows if row.parent):
        if not parent.shares:
            lines.append((base, "–", printable(parent.reason, 500), ""))
        for path, share in parent.shares.items():
            recipe = figure(parent.declared[path]) if path in parent.declared else "base" if parent.is_base else "–"
            lines.append((base, path, describe_share(parent.is_base, share).rstrip(","), recipe))
            bars.append(Bar(f"{base}, {path}", share.value, share.low, share.high, share.clear))
        left |= parent.remainders
    far = [f"{much:.2f} times (along {path})" for path, much in left.items() if much > merge.MOST_LEFT]
    rest = (
        f"The parents do not explain all of the merge. What remains is {', '.join(far)} the distance between the "
        "parents. The cause may be a method that drops or trims differences, training after the merge, or a parent "
        "that is not declared"
    )
    return Finding(
        "Merge contributions",
        sentences=(NO_PROBABILITY, rest) if far else (NO_PROBABILITY,),
        tables=(Table("merge contributions", ("Parent", "Path", "Share", "Recipe"), tuple(lines)),),
        picture=Bars(tuple(bars), sentences("merge")["caption"]),
    )


def describe_share(is_base: bool, share: Share) -> str:
    """Return in words what one parent gave along one path."""
    between = f"{figure(share.low)} to {figure(share.high)}"
    if is_base:
        return f"as the base {figure(share.value)} ({between})"
    if not share.clear:
        return f"a contribution between {between}, which cannot be separated from those of the other parents,"
    return f"{figure(share.value)} ({between})" if share.detected else f"no detectable contribution ({between})"


def figure(value: float) -> str:
    """Return a share as it is printed.

    >>> figure(0.4999), figure(-0.001)
    ('0.50', '0.00')
    """
    text = f"{value:.2f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _by_layer(share: Share) -> str:
    """Return the shares of the layers, one by one where they are far apart and form at most 8 groups."""
    layers = {number: value for number, (value, _) in sorted(share.layers.items())}
    if not layers or max(layers.values()) - min(layers.values()) <= 0.1:
        return ""
    groups: dict[str, list[int]] = {}
    for number, value in layers.items():
        groups.setdefault(figure(value), []).append(number)
    if len(groups) > 8:
        return f"; by layer {figure(min(layers.values()))} to {figure(max(layers.values()))}"
    return "; by layer " + ", ".join(f"{value} in {spans(numbers)}" for value, numbers in groups.items())


def describe_shares(blended: Combination, report: Report) -> Finding | None:
    """Return what the known parents of a model make up of it; None where no share shows."""
    if not any(isinstance(share, Share) for share in blended.blend.shares.parents):
        return None
    undeclared = bool(blended.undeclared)
    sentences = () if any(row.parent for row in report.rows) and not undeclared else describe_blend(blended)
    title = "Undeclared parent" if undeclared else "Blend"
    return Finding(title, sentences=sentences, values=blend_values(blended), first=undeclared)


def describe_blend(blended: Combination) -> tuple[str, ...]:
    """Return in sentences what the parents make up of a model, and what shows of each."""
    blend, undeclared = blended.blend, blended.undeclared
    parents = [*zip(map(_name, blended.parents), blend.places, blended.is_declared, strict=True)]
    every = [*zip(map(_name, blended.parents), blend.shares.parents, strict=True)]
    shares = sorted(((name, one) for name, one in every if isinstance(one, Share)), key=lambda one: -one[1].value)
    parts = [
        f"{share.value:.0%} (± {max(0.1, 50 * (share.high - share.low)):.1f}) of {name}"
        for name, share in [one for one in shares if one[1].detected] or shares
    ]
    explained = min(0.999, int(1000 * blend.explained) / 1000)  # all of it is never printed as explained
    total = f"{_list_words(parts)} {'explain' if parts[1:] else 'explains'} {explained:.1%} of the model"
    if not undeclared:
        showing = any(how in (BlendPlace.BLEND, BlendPlace.PIECES) for how in blend.places)
        texts = [f"{total}; {describe_rest(blend)}" if showing else total]
    else:
        by_card = [name for name, _, is_named in parents if is_named]
        names = f"names {_list_words(by_card)} alone" if by_card else "names none of them"
        verb = "shows as an undeclared parent" if len(undeclared) == 1 else "show as undeclared parents"
        who = "the model" if blended.by_model else "the check"
        texts = [f"{_list_words([*map(_name, undeclared)])} {verb}: {total}; {describe_rest(blend)}; {who} {names}"]
    # What the matrices show of the parents that are not named, or of all but the first where all are.
    others = [one for one in parents if not one[2]] or parents[1:]
    for how, words in sentences("blend").items():
        some = [one for one in others if one[1].value == how and not (one[2] and one[1] is BlendPlace.BLEND)]
        if some:
            texts.append(words.format(_list_words([name for name, _, _ in some])))
    texts += (f"what {name} gave cannot be told: {share}" for name, share in every if isinstance(share, str))
    return tuple(texts)


def _name(parent: str) -> str:
    return printable(parent, 200)


def describe_rest(blend: Blend) -> str:
    """Return in words what is left of a model that its parents do not explain."""
    before = "that" if BlendPlace.PIECES in blend.places and BlendPlace.BLEND not in blend.places else "the blend"
    if blend.remainder is None:
        return f"what was trained after {before} does not show beside its quantization"
    if blend.pure:
        return f"nothing was trained after {before}"
    return f"what is left is {blend.remainder:.2g} times what rounding leaves, as after further training"


def _list_words(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def blend_values(blended: Combination) -> dict[str, Any]:
    """Return what the parents make up of a model, for machines."""
    blend, parents = blended.blend, []
    every = zip(blended.parents, blend.shares.parents, blend.places, blended.is_declared, strict=True)
    for name, share, how, is_named in every:
        reason = share if isinstance(share, str) else ""
        parents.append({"model": name, **_share_values(share), "shows": how.value, "named": is_named, "reason": reason})
    values = {"parents": parents, "explained": blend.explained, "remainder": blend.remainder}
    trained_after = None if blend.pure is None else not blend.pure
    return values | {"trained_after": trained_after, "undeclared": list(blended.undeclared)}


def _share_values(share: Share | str) -> dict[str, Any]:
    if isinstance(share, str):
        return {"share": None, "low": None, "high": None, "detected": False}
    return {"share": share.value, "low": share.low, "high": share.high, "detected": share.detected}
