"""Variants: a model that loaders read in more than one way is judged in each; only what all of them say is said."""

from __future__ import annotations

from hf_lineage import verdict
from hf_lineage.judgement import judged
from hf_lineage.options import Options
from hf_lineage.subject import Subject


def judged_every_way(
    base: Subject | verdict.Unverifiable, candidate: Subject | verdict.Unverifiable, options: Options
) -> tuple[verdict.Verdict, tuple[str, ...]]:
    """Return the verdict on two models, and sentences about what was not read and how else the candidate loads.

    It is UNVERIFIABLE where the ways in which the candidate loads lead to unlike verdicts.
    """
    plain = judged(base, candidate, options)
    if isinstance(candidate, verdict.Unverifiable):
        return plain, ()
    both = (each for each in (base, candidate) if isinstance(each, Subject))
    notes = tuple(f"{each.name}: {note}" for each in both for note in each.notes)
    if not plain.evidence:
        return plain, notes
    for how, other in candidate.variants.items():
        second = judged(base, other, options) if isinstance(other, Subject) else verdict.Unverifiable(other)
        if second.words != plain.words:
            why = f": {second.reason}" if second.reason else ""
            return verdict.Unverifiable(
                f"loaded from its weights alone {candidate.name} is {plain.words}, loaded {how}, as transformers does "
                f"where peft is installed, it is {second.words}{why}; take the adapter out or merge it"
            ), notes
    same = (
        f"{candidate.name}: {plain.words} also when loaded {how}, as transformers does where peft is installed"
        for how in candidate.variants
    )
    return plain, (*notes, *same)
