"""What a verdict does not say: printed with `--explain`, and on every page."""

from __future__ import annotations

LIMITS = (
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
