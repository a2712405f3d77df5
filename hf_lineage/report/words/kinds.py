"""Kinds: how every verdict is shown and what it means, for somebody who has never heard of the method."""

from __future__ import annotations

from dataclasses import dataclass

from hf_lineage.evidence import Kind


@dataclass(frozen=True)
class Rule:
    """What a verdict is to a viewer of SARIF: its identifier, how grave, and in words."""

    identifier: str
    level: str
    title: str
    meaning: str


@dataclass(frozen=True)
class Shown:
    """How one verdict is shown."""

    tone: str
    """good, part, bad or open: colour and sign."""
    headline: str
    """Continued by the name of the base."""
    says: str
    says_not: str
    rule: Rule


NO_WRONG = "It does not say who came first, who owns what, or that anyone did wrong."
NOTHING_MEASURED = "This is no finding for or against the claim: nothing was measured."

KINDS = {
    Kind.RELATED: Shown(
        tone="good",
        headline="Shares weights with",
        says="The layers of the two models are alike in a way that is handed down with the weights and that separate"
        " training does not reproduce, and most of what the model's hidden units write is there in the base "
        "already: one was made from the other, or both from a common ancestor.",
        says_not=NO_WRONG,
        rule=Rule(
            "related",
            "none",
            "The model shares weights with the base it declares.",
            "The score of the two models is one that independent models practically never reach, and most of what "
            "the hidden units of the model write is inherited.",
        ),
    ),
    Kind.ADAPTER: Shown(
        tone="good",
        headline="Carries the trace of",
        says="What this adapter adds to the weights is made of gradients, and gradients pass through the weights of the"
        " model that is trained. Those of this base left their trace in it: the adapter was trained on this base, or on"
        " a near relative of it such as a fine-tune.",
        says_not=f"It does not say which of several near relatives it was. {NO_WRONG}",
        rule=Rule(
            "related-adapter",
            "none",
            "The adapter was trained on the base it declares, or on a near relative of it.",
            "What the adapter adds fits the weights of the base in a way that an adapter of an independent model "
            "practically never does.",
        ),
    ),
    Kind.CALIBRATED: Shown(
        tone="part",
        headline="Has the hidden units of",
        says="Seen through the tokens that both know, the hidden units of this model are those of the base, though its"
        " residual stream was rotated, reordered or changed in width, and its units were moved as well. Independent"
        " models of one vocabulary were measured to have next to none in common.",
        says_not="It is no exact test: the threshold was measured on independent models, and other kinds of models may"
        f" have more in common than those. {NO_WRONG}",
        rule=Rule(
            "related-calibrated",
            "note",
            "The model has the hidden units of the base it declares, by a threshold from independent models.",
            "No exact test shows it, but most of what the hidden units of the model write is found in the base, seen "
            "through the tokens that both know. The message says how much.",
        ),
    ),
    Kind.WEAK: Shown(
        tone="part",
        headline="Carries a weak trace of",
        says="What this adapter adds to the weights fits those of this base better than an adapter of an independent "
        "model is likely to, as if it was trained on this base or on a near relative of it. It does so by less, or in "
        "fewer of its matrices, than is asked for: among many adapters of other models a few fit as well by chance.",
        says_not=f"It does not say that the adapter was trained on this base. {NO_WRONG}",
        rule=Rule(
            "related-adapter-weakly",
            "warning",
            "The adapter shows only a weak trace of the base it declares.",
            "What the adapter adds fits the weights of the base better than chance, but not as clearly as a verified "
            "claim asks for. The message says by how much.",
        ),
    ),
    Kind.IN_PART: Shown(
        tone="part",
        headline="Shares some weights with",
        says="The two models have weights in common that separate training does not reproduce, but no more than a "
        "part of this model comes from them: some layers were taken over, or most of them were trained away "
        "since.",
        says_not=f"It does not say that this model was made from the base as a whole. {NO_WRONG}",
        rule=Rule(
            "related-in-part",
            "warning",
            "Only a part of the model comes from the base it declares.",
            "The two models are not independent, but no more than a part of what the hidden units of the model "
            "write is inherited. The message says how much, and in which layers.",
        ),
    ),
    Kind.BASIS_ONLY: Shown(
        tone="part",
        headline="Shares an embedding or a start, and no layers, with",
        says="The two models give their coordinates the same meaning, as a copied embedding, one initialisation, much "
        "training since, a blend with another model, or training on hidden states leaves it; which of these it was, "
        "the weights do not tell. The hidden units of this model are not those of the base.",
        says_not=f"It does not say that any layer comes from the base. {NO_WRONG}",
        rule=Rule(
            "related-by-basis",
            "warning",
            "The model shares an embedding or a start with the base it declares, and no layers.",
            "The two models are not independent, but the hidden units of the one are not those of the other. A "
            "copied embedding, one initialisation, much training since, a blend with another model, or training on "
            "hidden states of the base can do that.",
        ),
    ),
    Kind.INDIRECT: Shown(
        tone="part",
        headline="Shares weights with what is declared as the base of",
        says="Nothing of the declared base could be compared, so the base that it declares itself was: with that one "
        "the model shares weights, in a way that separate training does not reproduce.",
        says_not="It does not say that the declared base is right: that it comes from the base that was compared is "
        f"a claim of its card, and nothing has checked it. {NO_WRONG}",
        rule=Rule(
            "related-indirectly",
            "warning",
            "The model shares weights with what is declared as the base of the base it declares.",
            "Nothing of the declared base could be compared, and the base that its card names was compared in its "
            "place. Declare a base whose weights can be read, or check the release in F16, BF16 or F32.",
        ),
    ),
    Kind.UNRELATED: Shown(
        tone="bad",
        headline="Shows no trace of",
        says="Layer by layer the two models are no more alike than models that were trained separately. If this base"
        " was declared, the weights do not bear that out.",
        says_not="It is no proof of bad faith, nor of independence: a student that only imitates the base's answers "
        "inherits no weights, and edits made to hide descent can lower the score.",
        rule=Rule(
            "unrelated",
            "error",
            "The weights do not bear out the declared base.",
            "Nothing in the weights tells the two models from independent ones. Declare the base that the model was"
            " really made from, or none if it was trained from fresh weights.",
        ),
    ),
    Kind.INCONCLUSIVE: Shown(
        tone="open",
        headline="Undecided about",
        says="The weights were compared, but the numbers allow no verdict; the reason is given below.",
        says_not="It is no finding for or against the claim.",
        rule=Rule(
            "inconclusive",
            "warning",
            "The weights do not decide whether the declared base is right.",
            "The two models were measured, but the numbers do not decide. The message says why.",
        ),
    ),
    Kind.INCOMPATIBLE: Shown(
        tone="open",
        headline="Cannot be compared with",
        says="The two models are built differently, and what they would have in common could not be told; the reason is"
        " given below.",
        says_not="It says nothing about ancestry.",
        rule=Rule(
            "incompatible",
            "warning",
            "The declared base is built differently.",
            "Models of different width are compared through the tokens that both know, unit by unit. Where that cannot"
            " be done, they are of this kind; the message says why.",
        ),
    ),
    Kind.UNVERIFIABLE: Shown(
        tone="open",
        headline="Could not be checked against",
        says="One side has no weights that could be read and compared; the reason is given below.",
        says_not=NOTHING_MEASURED,
        rule=Rule(
            "unverifiable",
            "note",
            "The declared base could not be checked.",
            "There is nothing to compare: no weights, a format that is not read, or a base that cannot be downloaded.",
        ),
    ),
    Kind.UNREADABLE: Shown(
        tone="open",
        headline="Could not read",
        says="The base was found, but its files are damaged or malformed; the reason is given below.",
        says_not=NOTHING_MEASURED,
        rule=Rule(
            "unreadable",
            "error",
            "The files of the declared base are damaged.",
            "The base is there, but its files contradict themselves or end too early.",
        ),
    ),
}
"""By verdict."""
NUMBERED = (
    *(Kind.RELATED, Kind.UNRELATED, Kind.INCONCLUSIVE, Kind.INCOMPATIBLE, Kind.UNVERIFIABLE, Kind.UNREADABLE),
    *(Kind.IN_PART, Kind.BASIS_ONLY, Kind.ADAPTER, Kind.INDIRECT),
    *(Kind.CALIBRATED, Kind.WEAK),
)
"""The order of the rules in SARIF; new ones come at the end, so that their numbers stay."""
TONES = {"good": 32, "part": 33, "bad": 31, "open": 33}
"""By tone the code of a terminal's colour."""
