"""What each verdict means, for somebody who has never heard of the method."""

from __future__ import annotations

from dataclasses import dataclass

from hf_lineage.verdict import Verdict


@dataclass(frozen=True)
class Meaning:
    """One verdict in words anybody understands."""

    tone: str
    """good, bad or open: colour and sign."""
    headline: str
    """Continued by the name of the base."""
    says: str
    says_not: str


NOTHING_SAID = "This is no finding for or against the claim: nothing was measured."

MEANINGS = {
    "RELATED": Meaning(
        "good",
        "Shares weights with",
        "The layers of the two models are alike in a way that is handed down with the weights and that separate "
        "training does not reproduce: one was made from the other, or both from a common ancestor.",
        "It does not say who came first, who owns what, or that anyone did wrong.",
    ),
    "UNRELATED": Meaning(
        "bad",
        "Shows no trace of",
        "Layer by layer the two models are no more alike than models that were trained separately. "
        "If this base was declared, the weights do not bear that out.",
        "It is no proof of bad faith, nor of independence: a student that only imitates the base's answers inherits no "
        "weights, and edits made to hide descent can lower the score.",
    ),
    "INCONCLUSIVE": Meaning(
        "open",
        "Undecided about",
        "The weights were compared, but the numbers allow no verdict; the reason is given below.",
        "It is no finding for or against the claim.",
    ),
    "INCOMPATIBLE": Meaning(
        "open",
        "Cannot be compared with",
        "The two models are built differently, in the width of their layers, and this method compares like with like.",
        "It says nothing about ancestry: a model can be cut from a wider one, which this method does not see.",
    ),
    "UNVERIFIABLE": Meaning(
        "open",
        "Could not be held against",
        "One side has no weights that could be read and compared; the reason is given below.",
        NOTHING_SAID,
    ),
    "UNREADABLE": Meaning(
        "open",
        "Could not read",
        "The base was found, but its files are damaged or malformed; the reason is given below.",
        NOTHING_SAID,
    ),
}


def meaning(verdict: Verdict) -> Meaning:
    """Return what a verdict means."""
    return MEANINGS[verdict.name]
