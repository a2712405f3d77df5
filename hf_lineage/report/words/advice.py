"""Advice: what a reader may do next, by the kind of a verdict; for people who run no commands. And its limits.

Limits are what a verdict does not say: printed with `--explain`, and on every page, where something was measured.
"""

from __future__ import annotations

from hf_lineage.checking import Report
from hf_lineage.evidence import Kind

UNDECIDED = (
    "Until it is decided, treat the declared base as the publisher's statement: the weights neither confirm nor "
    "contradict it."
)
OWN = (
    "If the model is yours: correct the base that its card declares, or declare none if it was trained from fresh "
    "weights. Then have it checked again."
)
NEXT = {
    Kind.RELATED: (
        "Read the base's card too: the licence, the data and the weaknesses of the base concern this model as well.",
        "Keep this page with the commits or files that it names: it is about these weights, not about later ones.",
    ),
    Kind.ADAPTER: (
        "Load the adapter on the base that it declares: it fits. What is known about the base applies to both.",
        "If you need to know on which of several near relatives it was trained, ask the publisher.",
    ),
    Kind.LISTED: (
        "Have the weights read if much depends on it: a whole check compares them, and this one read none.",
        "Ask the publisher what was changed: by its files the model is a copy of the base.",
    ),
    Kind.CALIBRATED: (
        "Treat the declared base as likely, not as proved.",
        "Ask the publisher what was done to the residual stream: it was rotated, reordered or changed in width, as for "
        "quantization, pruning or a merge.",
    ),
    Kind.WEAK: (
        "Treat the declared base as likely, not as proved: among many adapters of other models a few fit as well.",
        "Ask the publisher for an earlier training checkpoint: the trace fades while the weights move.",
    ),
    Kind.IN_PART: (
        "Do not file this model as one made from the base as a whole. What is known about the base applies to the "
        "layers that come from it.",
        "Ask the publisher where the other layers come from: from other models, which the card should declare, or from "
        "training.",
    ),
    Kind.BASIS_ONLY: (
        "Do not file this model as a fine-tune of the base: its layers are not those of the base.",
        "Ask the publisher what was copied. The card can declare a copied embedding, or an early stage of training, "
        "as such.",
    ),
    Kind.READ_AS: (
        "Treat the weights as those of the base, and what the model does with them as the publisher's statement.",
        "Read the code that the model brings, or ask the publisher for a release that transformers loads by itself.",
    ),
    Kind.UNRELATED: (
        "Do not rely on the declared base for a licence, an evaluation or a name before the publisher has explained "
        "the claim.",
        "Ask the publisher which model this one was made from. Cards are copied and names are mistyped. A model that "
        "only learned from the answers of another one has a teacher but no base.",
        OWN,
    ),
    Kind.INCONCLUSIVE: (
        UNDECIDED,
        "The reason above says why the check could not decide. A check of all layers along all paths takes longer "
        "and may decide.",
    ),
    Kind.INCOMPATIBLE: (
        UNDECIDED,
        "Ask the publisher how a model of this form was made from that base. Fine-tuning changes no widths; pruning, "
        "merging and distillation do, and a card can say so.",
    ),
    Kind.UNVERIFIABLE: (
        "Treat the declared base as the publisher's statement: nothing was measured, so this page gives no reason to "
        "trust or to doubt it.",
        "If the base is private or gated, or the Hub could not be reached: somebody who has access can run the same "
        "check; the command is below.",
        "If weights are missing, or stored in a format that is not read: ask for the release in safetensors, or check "
        "the one that it was converted from.",
        "If the declared base is not a model on the Hub: ask the publisher for its name there. The name may be "
        "misspelt, or the model may have moved.",
    ),
    Kind.UNREADABLE: (
        "Have the check run again: files may have been cut off on their way.",
        "If they stay damaged, tell the publisher of the base. Until then treat the declared base as the publisher's "
        "statement.",
    ),
}
"""By kind; the first sentence is what matters most."""
UNDECLARED = (
    "The model names no base, so there is nothing to compare its weights with. That is usual for a model that was "
    "trained from fresh weights.",
    "If you think that it was made from another one, name that model as the base in a new check.",
    "If the model is yours, and was made from another one: declare that one as base_model in its card.",
)
"""Where nothing is declared."""
LIMITS = (
    "The verdict is on the weights as transformers loads them. Tensors that it leaves out are named, and other "
    "engines may use them. Code of a repository is never run.",
    "A low score does not prove independence. Training against the comparison can hide descent, at a cost in "
    "quality. Very heavy continued pretraining can hide it too.",
    "A low but significant score can come from a shared initialisation (two runs from one seed), which is a shared "
    "ancestor here.",
    "The p-value holds for training that treats all residual coordinates alike, or their signs; fixed sinusoidal "
    "positions and nested (Matryoshka) training do not.",
    "A distilled model trained from fresh weights is not a descendant, even if it behaves alike.",
    "p-values are corrected for the paths and the interim analyses of one claim. Nothing corrects for asking about "
    "several claims or many models: of a hundred independent pairs about one is called RELATED at alpha 0.01.",
    "In the inherited share each hidden unit weighs its size, and at most the median of its layer. Units that never "
    "fire on the real inputs of the model count as well.",
)
"""Of models."""
WHEN_RUN = (
    "The inherited share weighs each hidden unit by what it wrote when both models ran, on a text that this program "
    "brings. What acts on other text, or behind a thousand tokens alone, was not seen."
)
"""In place of the last of these where both models ran."""
OF_ADAPTERS = (
    "An adapter also carries the trace of near relatives of its base, such as a fine-tune. Whoever has the weights of "
    "a base can forge a trace of it without training.",
    "The trace fades where training moves the weights far, and factors that start from the base's own weights (PiSSA, "
    "OLoRA, CorDA, LoRA-GA) can outweigh it: a missing trace does not prove another base.",
)


def describe_limits(report: Report) -> tuple[str, ...]:
    """Return what the verdicts do not say; nothing where nothing was measured."""
    adapters = any(row.verdict.trace for row in report.rows)
    measured = [row.verdict for row in report.rows if row.verdict.evidence or row.verdict.framed]
    ran = all(verdict.executed and not verdict.executed.problem for verdict in measured)
    of_models = (*LIMITS[:-1], WHEN_RUN) if ran else LIMITS
    return (*(of_models if measured else ()), *(OF_ADAPTERS if adapters else ()))
