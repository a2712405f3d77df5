"""Load variants: a model that can be loaded in several ways is judged in each, and a verdict needs all to agree."""

from __future__ import annotations

from hf_lineage.checking.judge.stages import judge_models
from hf_lineage.checking.options import Options
from hf_lineage.checking.source import OpenedModel
from hf_lineage.evidence import Kind, Verdict


def judged_every_way(
    base: OpenedModel | Verdict, candidate: OpenedModel | Verdict, options: Options, declared: bool = False
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict on two models, and sentences about files that were not read and other ways to load.

    It is UNVERIFIABLE if the ways in which the candidate can be loaded give different verdicts.
    """
    plain = judge_models(base, candidate, options, declared)
    if isinstance(candidate, Verdict):
        return plain, ()
    opened = (model for model in (base, candidate) if isinstance(model, OpenedModel))
    notes = tuple(f"{model.name}: {note}" for model in opened for note in model.notes)
    if not plain.evidence:
        return plain, notes
    for how, other in candidate.variants.items():
        second = _judge_loaded(base, other, options, declared)
        if second.words != plain.words:
            why = f": {second.reason}" if second.reason else ""
            return Verdict(
                Kind.UNVERIFIABLE,
                f"loaded from its weights alone {candidate.name} is {plain.words}, loaded {how}, as transformers does "
                f"where peft is installed, it is {second.words}{why}; remove the adapter or merge it",
            ), notes
    for how, other in candidate.doubts.items():
        second = _judge_loaded(base, other, options, declared)
        if not plain.is_related and second.is_related:
            return Verdict(
                Kind.UNVERIFIABLE,
                f"as its config.json says {candidate.name} is {plain.words}, loaded {how}, it is {second.words}; "
                "remove the files that do not belong to it",
            ), notes
        notes = (*notes, f"{candidate.name}: loaded {how}, it is {second.words}")
    same = (
        f"{candidate.name}: {plain.words} also when loaded {how}, as transformers does where peft is installed"
        for how in candidate.variants
    )
    return plain, (*notes, *same)


def _judge_loaded(base: OpenedModel | Verdict, other: OpenedModel | str, options: Options, declared: bool) -> Verdict:
    """The verdict on a model that is loaded in another way, or that says why it cannot be."""
    if isinstance(other, OpenedModel):
        return judge_models(base, other, options, declared)
    return Verdict(Kind.UNVERIFIABLE, other)
