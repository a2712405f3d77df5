"""The evidence behind one claim on the page: pictures with what they mean, and every number folded below them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.evidence import Evidence
from hf_lineage.report.findings import describe_claim
from hf_lineage.report.page.charts import concentration, histogram, inheritance
from hf_lineage.report.page.finding import is_shown_apart, show
from hf_lineage.report.page.heatmap import heat_map
from hf_lineage.report.page.markup import Markup, joined, tag
from hf_lineage.report.page.page import table, whole
from hf_lineage.report.words import numbers

ALIKE, INHERITED, CHANCE, PROFILE = (
    "Which layers are alike",
    "What is inherited",
    "Could it be chance?",
    "A profile of each model",
)
CAPTIONS = {
    ALIKE: "Each row is a layer of the base, each column a layer of the model. A bright cell says that the two layers "
    "hold the same weights up to some training; a dark one, that they are no more alike than layers of independent "
    "models. Outlined are the pairs that the best assignment picks; the score is the mean over them.",
    INHERITED: "How much of what each layer's hidden units write comes from units that have a counterpart in the base, "
    "a unit that reads and writes in the same direction. Units count by what they write: copies that write nothing "
    "count for nothing. Layers that do not come from the base, half of them or less, are pale.",
    CHANCE: "If the two models were independent, permuting the coordinates of one of them would change nothing. The "
    "bars are the scores after such permutations, the marker is the score without any. It is computed on the test "
    "coordinates, those that are permuted, so it can differ a little from the score above.",
    PROFILE: "How strongly each layer's product shares a direction with the identity (trace concentration). Training "
    "gives every model a profile of its own; one made from the other tends to keep it. It is shown for the eye and "
    "decides nothing.",
}
"""What each picture shows, by its title."""
UNREAD = " Layers without a column were not read: the ones that were had made the verdict clear."


@dataclass(frozen=True)
class View:
    """How one claim is shown."""

    number: int
    """Which of all claims it is, counted from 0."""
    explain: bool
    """Whether the tables of all numbers are unfolded."""
    captions: bool
    """Whether what a picture means is said beside it; where there are several claims it is said once for all."""

    @property
    def name(self) -> str:
        """What every identifier of the claim begins with."""
        return f"claim-{self.number}"

    def of(self, content: str) -> str:
        """Return what a part of this claim is called, unlike the same part of any other claim."""
        return f"claim {self.number + 1}, {content}"


def evidence(report: Report, row: Row, view: View) -> Iterator[Markup]:
    """Yield all that was measured for one claim."""
    verdict = row.verdict
    for path, single in verdict.evidence.items():
        several = f": {verdict.by_path[path].words}" if len(verdict.evidence) > 1 else ""
        yield tag("h3", "Evidence along the path ", tag("code", path), several)
        yield _along(single, path, row.layers, view)
    for finding in (one for _, one in describe_claim(report, row) if is_shown_apart(one)):
        yield tag("h3", finding.title)
        yield from show(finding, view.of(""), view.explain)


def _along(single: Evidence, path: str, layers: int | None, view: View) -> Markup:
    name = f"{view.name}-{path}"
    unread = single.analyses > 1 and layers is not None and single.read < layers
    pictures = {
        ALIKE: heat_map(single, f"{name}-heat"),
        INHERITED: inheritance(single, layers, f"{name}-share") if single.inherited else None,
        CHANCE: histogram(single.permutation, f"{name}-null"),
        PROFILE: concentration(single, f"{name}-trace"),
    }
    figures = (
        _figure(title, picture, view, UNREAD if title == INHERITED and unread else "")
        for title, picture in pictures.items()
        if picture is not None
    )
    sentences = tag("div", tag("h4", "In numbers"), *map(_exact, numbers.null_sentences(single)), class_="numbers")
    cells = map(numbers.layer_cells, numbers.layer_rows(single))
    by_layer = table(numbers.LAYER_COLUMNS, cells, view.of(f"{path}, layer by layer"), "narrow")
    return joined(tag("div", *figures, sentences, class_="figures"), _folded(by_layer, view))


def _figure(title: str, picture: Markup, view: View, remark: str) -> Markup:
    caption = f"{CAPTIONS[title] if view.captions else ''}{remark}".strip()
    return tag(
        "figure",
        tag("h4", title),
        picture,
        tag("figcaption", caption) if caption else "",
        class_="map" if title == ALIKE else None,
    )


def _folded(content: Markup, view: View) -> Markup:
    return tag("details", tag("summary", "All numbers, layer by layer"), content, open="" if view.explain else None)


def _exact(sentence: str) -> Markup:
    return tag("p", whole(sentence), class_="exact")
