"""The few numbers that decided, large, at the head of a claim on the page."""

from __future__ import annotations

from hf_lineage.pipeline import Report, Row
from hf_lineage.report import numbers, wording
from hf_lineage.report.markup import Markup, tag
from hf_lineage.verdict import Evidence


def tiles(report: Report, row: Row) -> Markup:
    """Return the numbers that decided, each with what it means."""
    path = wording.decisive(row.verdict)
    if path is None:
        return Markup("")
    found = row.verdict.evidence[path]
    score, share, p_value = figures(row)
    tries = len(found.permutation.scores)
    least = f" It is the least that {tries} shuffles can show." if found.permutation.p_value * (tries + 1) < 2 else ""
    null = found.permutation
    low, high = numbers.null_range(null)
    around = (
        f"1 for the same weights. On the {null.coordinates} coordinates that were shuffled independent models of this "
        f"shape score {low:.3f} to {high:.3f}, this pair {null.observed:.3f}."
    )
    shown = (
        ("Score", score, around),
        ("Inherited", share, _share_means(report, found)),
        ("p-value", p_value, f"How often independent models would score as high by chance.{least}"),
        ("Layers", _layers(row, found), f"Compared along the path {path}, each with its best partner."),
    )
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value, class_="number"), tag("dd", said, class_="muted"))
                       for name, value, said in shown), class_="tiles")  # fmt: skip


def _share_means(report: Report, found: Evidence) -> str:
    if found.inherited is None:
        return "Not measured: a stored signature holds no hidden units."
    low, high = (f"{end:.0%}" for end in found.inherited.interval)
    between = "" if low == high else f"Between {low} and {high} "
    return (
        f"{between or f'{low} '}of what the model's hidden units write has a counterpart in the base; more than "
        f"{report.options.min_share:.0%} is asked for."
    )


def _layers(row: Row, found: Evidence) -> str:
    """How many layers were compared, and of how many where more could have been read."""
    read = len(found.comparison.by_layer)
    early = found.analyses > 1 and row.layers is not None and found.read < row.layers
    return f"{read} of {row.layers}" if early else str(read)


def figures(row: Row) -> tuple[str, str, str]:
    """Return score, share and p-value of the path that decided."""
    found = wording.best(row)
    if found is None:
        return "–", "–", "–"
    return wording.score(found), wording.inherited(found).replace("-", "–"), f"{found.p_value:.3g}"
