"""Verdicts: texts of every code, the numbers behind one, and its limits, also from the YAML files of this folder."""

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import ClaimResult
from hf_lineage.evidence.verdict import Code, Evidence, Verdict
from hf_lineage.files import safe_yaml
from hf_lineage.report.wording import whole

FOLDER = Path(__file__).parent


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sentences in place of those of a code where the reason matches a pattern, whose groups stand in the advice."""

    pattern: str
    next: tuple[str, ...]
    headline: str = ""
    title: str = ""
    meaning: str = ""


class Texts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Texts of one code."""

    tone: str
    level: str
    headline: str  # continued by the name of the base
    title: str
    meaning: str
    next: tuple[str, ...]  # advice, the most important sentence first
    cases: tuple[Case, ...] = ()


@functools.cache
def texts() -> Mapping[Code, Texts]:
    """Return the texts of every code; a code without texts is an error of the package."""
    content = msgspec.convert(safe_yaml.load((FOLDER / "verdicts.yaml").read_text("utf-8")), dict[str, Texts])
    return {code: content[code] for code in Code}


@functools.cache
def sentences(group: str) -> Mapping[str, str]:
    """Return the sentences of a group of `sentences.yaml`, by their names."""
    content = safe_yaml.load((FOLDER / "sentences.yaml").read_text("utf-8"))
    return msgspec.convert(content, dict[str, dict[str, str]])[group]


def texts_of(verdict: Verdict) -> Texts:
    """Return the texts of the code of a verdict, with the sentences of the first case that its reason matches."""
    text = texts()[verdict.code]
    for case in text.cases:
        if match := re.search(case.pattern, verdict.reason):
            own = {name: getattr(case, name) or getattr(text, name) for name in ("headline", "title", "meaning")}
            return msgspec.structs.replace(text, next=tuple(one.format(*match.groups()) for one in case.next), **own)
    return text


def advise(report: Report, row: ClaimResult) -> tuple[str, ...]:
    """Return what to do about a claim, the most important sentence first; of one that fails all the same, on what."""
    advice, unmet, verified = texts_of(row.verdict).next, tuple(map(whole, row.unmet)), row.verdict.verified
    if unmet:
        return ("Do what the policy asks, or change the policy.", *unmet, *advice[1:]) if verified else advice + unmet
    if verified and report.has_undeclared:
        return ("Declare the other parent in the card, or ask the publisher about it.", *advice[1:])
    return advice


def describe_limits(report: Report) -> tuple[str, ...]:
    """Return what the verdicts do not say; nothing where nothing was measured."""
    measured = [row.verdict for row in report.rows if row.verdict.evidence or row.verdict.unit_comparison]
    ran = all(verdict.executed and not verdict.executed.problem for verdict in measured)
    of_models = (*sentences("limits").values(), sentences("weights")["run" if ran else "stored"])
    of_adapters = sentences("adapters").values() if any(row.verdict.trace for row in report.rows) else ()
    return (*(of_models if measured else ()), *of_adapters)


LAYER_COLUMNS = ("Layer", "Paired with", "Cosine", "Inherited", "s of the base", "s of the model")


def null_sentences(evidence: Evidence) -> Iterator[str]:
    """Yield a sentence for the score of one path, and one for each null that it was tested against."""
    error, first = evidence.comparison.standard_error, evidence.first
    of = "sample" if evidence.sampled else "sketch"
    yield f"score {evidence.comparison.score:.4f}" + (f", standard error of the {of} {error:.1g}" if error else "")
    corrections = [f"correction over the paths ({first.correction})"] if first.p_over_paths != first.p_value else []
    tests = [f"{evidence.analyses} interim analyses"] if evidence.analyses > 1 else []
    tests += ["a test of the hidden units that may follow"] if evidence.further else []
    corrections += [f"Bonferroni's correction over {' and '.join(tests)}"] if tests else []
    after = f", {evidence.p_value:.3g} after {' and '.join(corrections)}"
    for null in evidence.nulls:
        if null is evidence.decided_by:
            decides = after if evidence.p_value != null.p_value else ""
        else:
            decides = f"; {null.objection or 'another null decides'}"
        yield f"{null.name} null: {null.describe()}, p = {null.p_value:.3g}{decides}"


def layer_rows(evidence: Evidence) -> Iterator[tuple[int, int, float, float | None, float, float]]:
    """Yield for each pair of layers: both numbers, their cosine, the partner's inherited share, both concentrations."""
    comparison = evidence.comparison
    (of_base, of_candidate), (base, candidate) = comparison.concentration, evidence.layers
    for row, partner, cosine in zip(*comparison.pairs, comparison.by_layer, strict=True):
        inherited = None if evidence.inherited is None else float(evidence.inherited.by_layer[partner])
        yield base[row], candidate[partner], float(cosine), inherited, float(of_base[row]), float(of_candidate[partner])


def layer_cells(line: tuple[int, int, float, float | None, float, float]) -> tuple[str, ...]:
    """Return the cells of one row of `layer_rows` as they are printed."""
    layer, partner, cosine, inherited, of_base, of_candidate = line
    share = "-" if inherited is None else f"{inherited:.0%}"
    return str(layer), str(partner), f"{cosine:.3f}", share, f"{of_base:.2f}", f"{of_candidate:.2f}"
