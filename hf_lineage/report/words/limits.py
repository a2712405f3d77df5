"""Limits of a verdict: printed with `--explain`, and on every page, where something was measured."""

from __future__ import annotations

from hf_lineage.checking import Report

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
    "several claims or many models: of a hundred independent pairs about one looks related at alpha 0.01.",
    "In the inherited share each hidden unit weighs its size, and at most the median of its layer. Units that never "
    "fire on the real inputs of the model count as well.",
)
"""Limits of every check of models."""
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
