"""The evidence behind one claim on the page: pictures with what they mean, and every number folded below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from hf_lineage.checking.results import Row
from hf_lineage.evidence import Evidence
from hf_lineage.report.page import concentration, heat_map, histogram, inheritance
from hf_lineage.report.words import numbers

ALIKE, INHERITED, CHANCE, PROFILE = (
    "Which layers are alike",
    "What is inherited",
    "Could it be chance?",
    "A profile of each model",
)
CAPTIONS = {
    ALIKE: "Each row is a layer of the base, each column a layer of the model. A bright cell says that the two "
    "layers hold the same weights up to some training; a dark one, that they are no more alike than layers of "
    "independent models. The best assignment picks the outlined pairs; the score is their mean.",
    INHERITED: "How much of what each layer's hidden units write comes from units with a counterpart in the base: a "
    "unit that reads and writes in the same direction. Units count by what they write, so copies that "
    "write nothing count nothing. Pale layers do not come from the base: half or less is inherited.",
    CHANCE: "If the two models were independent, permuting the coordinates of one of them would change nothing. The "
    "bars are the scores after such permutations, the marker is the score without any. It is computed on the "
    "test coordinates, which are permuted, so it can differ a little from the score above.",
    PROFILE: "How strongly each layer's product shares a direction with the identity (trace concentration). Training "
    "gives every model its own profile, and a model made from another one tends to keep it. The verdict "
    "does not depend on it.",
}
"""What each picture shows, by its title."""
UNREAD = " Layers without a column were not read: the others had made the verdict clear."


@dataclass(frozen=True)
class Figure:
    """A picture with what it shows."""

    title: str
    picture: Markup
    caption: str
    kind: str = ""


@dataclass(frozen=True)
class AlongPath:
    """What was measured along one path."""

    path: str
    words: str
    """Its own verdict, where there are several paths."""
    figures: Sequence[Figure]
    sentences: Sequence[str]
    rows: Sequence[Sequence[str]]
    """Every number, layer by layer."""


def evidence(row: Row, number: int, captions: bool) -> Iterator[AlongPath]:
    """Yield what was measured for a claim along each path; `captions` is whether each picture says what it means.

    Where there are several claims the page says that once for all of them.
    """
    verdict = row.verdict
    for path, single in verdict.evidence.items():
        words = f": {verdict.by_path[path].words}" if len(verdict.evidence) > 1 else ""
        yield AlongPath(
            path,
            words,
            list(_figures(single, f"claim-{number}-{path}", row.layers, captions)),
            list(numbers.null_sentences(single)),
            [numbers.layer_cells(layer) for layer in numbers.layer_rows(single)],
        )


def _figures(single: Evidence, name: str, layers: int | None, captions: bool) -> Iterator[Figure]:
    unread = single.analyses > 1 and layers is not None and single.read < layers
    caption = CAPTIONS if captions else dict.fromkeys(CAPTIONS, "")
    yield Figure(ALIKE, heat_map(single, f"{name}-heat"), caption[ALIKE], "map")
    if single.inherited:
        remark = f"{caption[INHERITED]}{UNREAD if unread else ''}".strip()
        yield Figure(INHERITED, inheritance(single, layers, f"{name}-share"), remark)
    yield Figure(CHANCE, histogram(single.permutation, f"{name}-null"), caption[CHANCE])
    yield Figure(PROFILE, concentration(single, f"{name}-trace"), caption[PROFILE])
