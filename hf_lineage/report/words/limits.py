"""What a verdict does not say: printed with `--explain`, and on every page, where something was measured."""

from __future__ import annotations

from hf_lineage.checking import Report

LIMITS = (
    "The verdict is on the weights as transformers loads them. What it leaves out is named, and other engines may use "
    "it; code that a repository brings is never run.",
    "A low score is no proof of independence against every attacker: who trains a model against the comparison, and "
    "pays for it in quality, can hide descent, and so can very heavy continued pretraining.",
    "A low but significant score can come from a shared initialisation (two runs from one seed), which is a shared "
    "ancestor here.",
    "The permutation p-value holds for training that treats all residual coordinates alike; fixed sinusoidal positions "
    "and nested (Matryoshka) training do not.",
    "A distilled model trained from fresh weights is not a descendant, however alike it behaves.",
    "p-values are corrected for the paths and the interim analyses of one claim. Nothing corrects for asking about "
    "several claims or many models: of a hundred independent pairs about one is called RELATED at alpha 0.01.",
    "The share that is inherited counts hidden units by what the weights make one expect them to write. Units that "
    "would fire on ordinary inputs, but never fire on anything the model is given, are counted as well.",
)
"""Of models."""
OF_ADAPTERS = (
    "An adapter carries the trace of a near relative of its base too, such as a fine-tune. Whoever has the weights of "
    "a base can forge a trace of it without training.",
    "The trace fades where training moves the weights far, and factors that start from the base's own weights (PiSSA, "
    "OLoRA, CorDA, LoRA-GA) can outweigh it: a missing trace is no proof of another base.",
)


def describe_limits(report: Report) -> tuple[str, ...]:
    """Return what the verdicts do not say; nothing where nothing was measured."""
    adapters = any(row.verdict.trace for row in report.rows)
    models = any(row.verdict.evidence or row.verdict.framed for row in report.rows)
    return (*(LIMITS if models else ()), *(OF_ADAPTERS if adapters else ()))
