"""What a verdict does not say: printed with `--explain`, and on every page, where something was measured."""

from __future__ import annotations

from hf_lineage.checking import Report

LIMITS = (
    "The verdict is on the weights as transformers loads them. Tensors that it leaves out are named, and other "
    "engines may use them. Code of a repository is never run.",
    "A low score does not prove independence. Training against the comparison can hide descent, at a cost in "
    "quality. Very heavy continued pretraining can hide it too.",
    "A low but significant score can come from a shared initialisation (two runs from one seed), which is a shared "
    "ancestor here.",
    "The permutation p-value holds for training that treats all residual coordinates alike; fixed sinusoidal positions "
    "and nested (Matryoshka) training do not.",
    "A distilled model trained from fresh weights is not a descendant, even if it behaves alike.",
    "p-values are corrected for the paths and the interim analyses of one claim. Nothing corrects for asking about "
    "several claims or many models: of a hundred independent pairs about one is called RELATED at alpha 0.01.",
    "The inherited share weighs each hidden unit by what it is expected to write, as the weights tell. It also "
    "counts units that would fire on ordinary inputs and never fire on the real inputs of the model.",
)
"""Of models."""
OF_ADAPTERS = (
    "An adapter also carries the trace of near relatives of its base, such as a fine-tune. Whoever has the weights of "
    "a base can forge a trace of it without training.",
    "The trace fades where training moves the weights far, and factors that start from the base's own weights (PiSSA, "
    "OLoRA, CorDA, LoRA-GA) can outweigh it: a missing trace does not prove another base.",
)


def describe_limits(report: Report) -> tuple[str, ...]:
    """Return what the verdicts do not say; nothing where nothing was measured."""
    adapters = any(row.verdict.trace for row in report.rows)
    models = any(row.verdict.evidence or row.verdict.framed for row in report.rows)
    return (*(LIMITS if models else ()), *(OF_ADAPTERS if adapters else ()))
