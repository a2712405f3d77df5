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
NOTHING_MEASURED = "This is not a finding for or against the claim: nothing was measured."

KINDS = {
    Kind.RELATED: Shown(
        tone="good",
        headline="Shares weights with",
        says="The layers of the two models are alike in a way that separate training does not produce. Most of what "
        "the model's hidden units write is also in the base. One model was made from the other, or both were "
        "made from a common ancestor.",
        says_not=NO_WRONG,
        rule=Rule(
            "related",
            "none",
            "The model shares weights with the base it declares.",
            "Independent models practically never reach the score of these two, and most of what the model's hidden "
            "units write is inherited.",
        ),
    ),
    Kind.ADAPTER: Shown(
        tone="good",
        headline="Carries the trace of",
        says="An adapter is made of gradients, and gradients pass through the weights of the model that is trained. "
        "The weights of this base left their trace in this adapter: it was trained on this base or a near relative, "
        "or extracted from a difference to it.",
        says_not=f"It does not say which of them, nor on which of several near relatives. {NO_WRONG}",
        rule=Rule(
            "related-adapter",
            "none",
            "The adapter was trained on the base it declares or a near relative, or extracted from a difference to it.",
            "What the adapter adds fits the weights of the base in a way that an adapter of an independent model "
            "practically never does.",
        ),
    ),
    Kind.LISTED: Shown(
        tone="part",
        headline="Holds the same stored data as",
        says="The files with weights of both models have the same SHA-256, and the configurations agree. "
        "A repository that was copied has such files.",
        says_not=f"On the Hub it says what a server lists: the bytes of the files were not read. {NO_WRONG}",
        rule=Rule(
            "related-by-listing",
            "note",
            "The model holds the same stored data as the base it declares, by the Hub's listing.",
            "The Hub lists the same SHA-256 for the files with weights of both, and their configurations agree. The "
            "weights were not read.",
        ),
    ),
    Kind.CALIBRATED: Shown(
        tone="part",
        headline="Has the hidden units of",
        says="Most hidden units of this model are those of the base, compared through the tokens that both models "
        "know. The residual stream was rotated, reordered or changed in width, and the units were moved. "
        "Independent models of one vocabulary have almost no units in common.",
        says_not="This is not an exact test: the threshold was measured on independent models, and models of other "
        f"kinds may have more in common. {NO_WRONG}",
        rule=Rule(
            "related-calibrated",
            "note",
            "The model has the hidden units of the base it declares, by a threshold measured on independent models.",
            "Most of what the model's hidden units write is found in the base, compared through the tokens that both "
            "models know. No exact test confirms it. The message says how much.",
        ),
    ),
    Kind.WEAK: Shown(
        tone="part",
        headline="Carries a weak trace of",
        says="This adapter fits the weights of this base better than an adapter of an independent model probably "
        "would. But the fit is weaker, or in fewer matrices, than a verified claim needs: among many adapters of "
        "other models a few fit as well by chance.",
        says_not=f"It does not say that the adapter was trained on this base. {NO_WRONG}",
        rule=Rule(
            "related-adapter-weakly",
            "warning",
            "The adapter shows only a weak trace of the base it declares.",
            "What the adapter adds fits the weights of the base better than by chance, but not as clearly as a "
            "verified claim needs. The message says by how much.",
        ),
    ),
    Kind.IN_PART: Shown(
        tone="part",
        headline="Shares some weights with",
        says="The two models have weights in common, which separate training does not produce. But only a part of "
        "this model is inherited: some layers were copied, or later training changed most of them.",
        says_not=f"It does not say that this model was made from the base as a whole. {NO_WRONG}",
        rule=Rule(
            "related-in-part",
            "warning",
            "Only a part of the model comes from the base it declares.",
            "The two models are not independent, but only a part of what the model's hidden units write is "
            "inherited. The message says how much, and in which layers.",
        ),
    ),
    Kind.BASIS_ONLY: Shown(
        tone="part",
        headline="Shares an embedding or a start, and no layers, with",
        says="The residual coordinates of the two models mean the same, but the hidden units of this model are not "
        "those of the base. The cause may be a copied embedding, a common initialisation, much training since, a "
        "blend with another model or training on hidden states. The weights do not tell which.",
        says_not=f"It does not say that any layer comes from the base. {NO_WRONG}",
        rule=Rule(
            "related-by-basis",
            "warning",
            "The model shares an embedding or a start with the base it declares, and no layers.",
            "The two models are not independent, but the hidden units of one are not those of the other. A copied "
            "embedding, a common initialisation, much training since, a blend with another model or training on "
            "hidden states of the base can cause that.",
        ),
    ),
    Kind.READ_AS: Shown(
        tone="part",
        headline="Has the weights of",
        says="Read as hf-lineage reads it, the model is alike to the base in a way that separate training does not "
        "produce. A loader may read it otherwise: its class is not supported by name, or it stores tensors that are "
        "not its class's own.",
        says_not=f"It does not say what the model computes once it is loaded. {NO_WRONG}",
        rule=Rule(
            "related-read-as",
            "warning",
            "The model shares weights with the base it declares, but a loader may read it otherwise.",
            "The class of the model is not listed, or it stores tensors that are not its class's own and that the base "
            "does not have. The message names the class, or one of the tensors.",
        ),
    ),
    Kind.UNRELATED: Shown(
        tone="bad",
        headline="Shows no trace of",
        says="Layer by layer the two models are no more alike than models that were trained separately. If this base "
        "was declared, the weights do not confirm it.",
        says_not="It does not prove bad faith, and it does not prove independence. A student that only imitates the "
        "base's answers inherits no weights, and edits that hide descent can lower the score.",
        rule=Rule(
            "unrelated",
            "error",
            "The weights do not confirm the declared base.",
            "By their weights the two models could be independent. Declare the base that the model was"
            " really made from, or none if it was trained from fresh weights.",
        ),
    ),
    Kind.INCONCLUSIVE: Shown(
        tone="open",
        headline="Undecided about",
        says="The weights were compared, but the numbers allow no verdict; the reason is given below.",
        says_not="It is not a finding for or against the claim.",
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
        says="The two models are built differently, and what they have in common could not be measured; the reason "
        "is given below.",
        says_not="It says nothing about ancestry.",
        rule=Rule(
            "incompatible",
            "warning",
            "The declared base is built differently.",
            "Models of different width are compared unit by unit, through the tokens that both know. Where that is "
            "not possible, this is the verdict; the message says why.",
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
    *(Kind.IN_PART, Kind.BASIS_ONLY, Kind.ADAPTER),
    *(Kind.CALIBRATED, Kind.WEAK, Kind.READ_AS, Kind.LISTED),
)
"""The order of the rules in SARIF; new ones come at the end, so that their numbers stay."""
TONES = {"good": 32, "part": 33, "bad": 31, "open": 33}
"""By tone the code of a terminal's colour."""
