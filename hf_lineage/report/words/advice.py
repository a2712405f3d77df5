"""Advice: what a reader may do next, by the kind of a verdict; for people who run no commands."""

from __future__ import annotations

from hf_lineage.evidence import Kind

UNDECIDED = (
    "Until it is decided, treat the declared base as the publisher's word: the weights speak neither for nor "
    "against it."
)
OWN = (
    "If the model is yours: correct the base that its card declares, or declare none if it was trained from fresh "
    "weights, and have it checked again."
)
NEXT = {
    Kind.RELATED: (
        "Read the base's card beside this one: what is known of the base, its licence, its data and its weaknesses, "
        "concerns this model too.",
        "File this page with the commits, or the files, that it was made of: it is about these weights and no later "
        "ones.",
    ),
    Kind.ADAPTER: (
        "Load the adapter on the base that it declares: it fits. What is known of the base concerns both together.",
        "Where it matters which of several near relatives it was trained on, ask the publisher.",
    ),
    Kind.CALIBRATED: (
        "Treat the declared base as likely, and not as proved.",
        "Ask the publisher what was done to the residual stream: it was rotated, reordered or changed in width, as for "
        "quantization, pruning or a merge.",
    ),
    Kind.WEAK: (
        "Treat the declared base as likely, and not as proved: among many adapters of other models a few fit as well.",
        "Ask the publisher for an earlier checkpoint of the training: the trace fades while the weights move.",
    ),
    Kind.IN_PART: (
        "Do not file this model as one made from the base as a whole. What is known of the base concerns the layers "
        "that come from it.",
        "Ask the publisher where the other layers come from: from other models, which the card should declare, or from "
        "training.",
    ),
    Kind.BASIS_ONLY: (
        "Do not file this model as a fine-tune of the base: its layers are others.",
        "Ask the publisher what was taken over. A copied embedding, or an early stage of training, can be declared as "
        "what it is.",
    ),
    Kind.INDIRECT: (
        "Treat the last step as the publisher's word: nothing of the declared base itself could be compared.",
        "Ask the base's publisher for its weights in a format that is read, such as safetensors in BF16.",
    ),
    Kind.UNRELATED: (
        "Do not rely on the declared base, neither for its licence nor for its evaluations or its name, before the "
        "publisher has explained it.",
        "Ask the publisher which model this one was made from. Cards are copied, and names mistyped; a model that only "
        "learned from another one's answers has a teacher and no base.",
        OWN,
    ),
    Kind.INCONCLUSIVE: (
        UNDECIDED,
        "The reason above says what stood in the way. A check of all layers along all paths takes longer and may "
        "decide.",
    ),
    Kind.INCOMPATIBLE: (
        UNDECIDED,
        "Ask the publisher how a model of this form was made from that base. Fine-tuning changes no widths; pruning, "
        "merging and distillation do, and a card can say so.",
    ),
    Kind.UNVERIFIABLE: (
        "Treat the declared base as the publisher's word: nothing was measured, so nothing follows from this page, "
        "neither trust nor doubt.",
        "If the base is private or gated, or the Hub could not be reached: somebody who has access can run the same "
        "check; the command is below.",
        "If weights are missing, or stored in a format that is not read: ask for the release in safetensors, or check "
        "the one that it was converted from.",
        "If what is declared is no model on the Hub: ask the publisher for its name there. It may be misspelt, have "
        "moved, or be a folder of their own.",
    ),
    Kind.UNREADABLE: (
        "Have the check run again: files may have been cut off on their way.",
        "If they stay damaged, tell the publisher of the base. Until then treat the declared base as the publisher's "
        "word.",
    ),
}
"""By kind; the first sentence is what matters most."""
UNDECLARED = (
    "The model names no base, so there is nothing to hold its weights against. That is usual for a model that was "
    "trained from fresh weights.",
    "If you think that it was made from another one, have it checked against that one by name: a base need not be "
    "declared.",
    "If the model is yours, and was made from another one: declare that one as base_model in its card.",
)
"""Where nothing is declared."""
