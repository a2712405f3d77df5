"""What each verdict and kind of RELATED means, for somebody who has never heard of the method."""

from __future__ import annotations

from dataclasses import dataclass

from hf_lineage.verdict import Verdict


@dataclass(frozen=True)
class Meaning:
    """One verdict in words anybody understands."""

    tone: str
    """good, part, bad or open: colour and sign."""
    headline: str
    """Continued by the name of the base."""
    says: str
    says_not: str


NOTHING_SAID = "This is no finding for or against the claim: nothing was measured."
NO_WRONG = "It does not say who came first, who owns what, or that anyone did wrong."

MEANINGS = {
    "RELATED": Meaning(
        "good",
        "Shares weights with",
        "The layers of the two models are alike in a way that is handed down with the weights and that separate "
        "training does not reproduce, and most of what the model's hidden units write is there in the base already: "
        "one was made from the other, or both from a common ancestor.",
        NO_WRONG,
    ),
    "RELATED in part": Meaning(
        "part",
        "Shares some weights with",
        "The two models have weights in common that separate training does not reproduce, but no more than a part of "
        "this model comes from them: some layers were taken over, or most of them were trained away since.",
        f"It does not say that this model was made from the base as a whole. {NO_WRONG}",
    ),
    "RELATED by the basis only": Meaning(
        "part",
        "Shares an embedding or a start, and no layers, with",
        "The two models give their coordinates the same meaning, as after a copied embedding or a shared first stage "
        "of training, but the hidden units of this model are not those of the base: its layers were trained anew.",
        f"It does not say that any layer comes from the base. {NO_WRONG}",
    ),
    "RELATED, share not measured": Meaning(
        "part",
        "Shares weights with",
        "The layers of the two models are alike in a way that separate training does not reproduce. How much of this "
        "model comes from the base is not known: a stored signature was made by a version that kept no hidden units.",
        f"It does not say how much was inherited. {NO_WRONG}",
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
"""By the words that reports print."""


def meaning(verdict: Verdict) -> Meaning:
    """Return what a verdict means."""
    return MEANINGS[verdict.words]
