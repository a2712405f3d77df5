"""What tools say of two folders in their own words, and what the words mean by each tool's own documentation."""

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from benchmarks.commands import CommandError, environment
from benchmarks.rivals import Rival
from hf_lineage import Options, compare
from hf_lineage.evidence.verdict import Code

RELATED, DISTILLED, INDEPENDENT = "related", "unrelated, distilled", "unrelated"
"""How two models stand to each other in truth: one inherited weights, learned from the other's answers, or neither."""
RIGHT, WRONG, UNDECIDED, OWN_TERMS = "right", "wrong", "undecided", "right by its own definition"

T = TypeVar("T")


@dataclass(frozen=True)
class Said:
    """A verdict."""

    words: str
    """As the tool prints them."""
    related: bool | None
    """None where the tool abstains."""
    figures: str

    def standing(self, truth: str, lineage: frozenset[str]) -> str:
        """Return how the verdict stands to the truth, given what the tool itself counts as lineage."""
        if self.related is None:
            return UNDECIDED
        if self.related == (truth == RELATED):
            return RIGHT
        return OWN_TERMS if self.related == (truth in lineage) else WRONG


@dataclass(frozen=True)
class Tool:
    """A tool that judges the folder of a suspect beside that of a reference."""

    name: str
    judge: Callable[[Path, Path], Said]
    lineage: frozenset[str] = frozenset({RELATED})
    """What it counts as lineage."""


def ours(suspect: Path, reference: Path) -> Said:
    """Return what `hf-lineage compare` says, by default."""
    (row,) = compare(str(reference), str(suspect), Options(seed=0)).rows
    verdict = row.verdict
    figures = [f"score {found.comparison.score:.3f}, p = {found.p_value:.3f}" for found in verdict.evidence.values()]
    related = verdict.is_related or (False if verdict.code is Code.UNRELATED else None)
    return Said(verdict.label, related, "; ".join(figures) or "no score")


def printed(rival: Rival, place: Path, home: Path, suspect: Path, reference: Path) -> str:
    """Return what the comparison of a rival that is installed in `place` prints as JSON.

    Raise CommandError where it ends with an exit code other than 0.
    """
    command = rival.compare(place, suspect, reference, "--json")
    done = subprocess.run(command, capture_output=True, text=True, env=environment(home), check=False)
    if done.returncode:
        raise CommandError(f"{rival.package} ended with exit code {done.returncode}: {done.stderr[-400:].strip()}")
    return done.stdout


MODELDNA: Mapping[str, bool | None] = {
    "EXACT_COPY": True,
    "QUANTIZED_COPY": True,
    "FINE_TUNE": True,
    "SAME_LINEAGE": True,
    "LIKELY_MERGE": True,
    "SAME_FAMILY_UNRESOLVED": None,
    "NO_MATCH": False,
    "INSUFFICIENT": None,
}
"""The classes of modelDNA's README, which calls the one that is unresolved an abstention."""


class _Candidate(msgspec.Struct):
    ruled_out: str | None


class _Class(msgspec.Struct):
    verdict: str
    probability: float | None
    candidates: tuple[_Candidate]


class _Modeldna(msgspec.Struct):
    verdict: _Class


def modeldna(output: str) -> Said:
    """Return what `modeldna compare --json` says; raise CommandError where that cannot be read.

    NO_MATCH without a probability is what it says of folders that it did not compare, and calls an abstention too.
    """
    found = _decoded(output, _Modeldna).verdict
    related = _meaning(found.verdict, MODELDNA)
    if found.probability is None:
        (candidate,) = found.candidates
        return Said(found.verdict, None, f"no probability: {candidate.ruled_out}")
    return Said(found.verdict, related, f"probability {found.probability:.4f}")


MATCHES: Mapping[str, bool | None] = {
    "Confirmed Match": True,
    "High-Confidence Match": True,
    "Weak Match": True,
    "Not Matched": False,
    "Insufficient data": None,
}
"""The decisions of Model Provenance Kit's README, and that of models without a signal in common."""
UNWEIGHED = " (metadata only)"
"""Behind a decision: no weights were compared."""


class _Scores(msgspec.Struct):
    provenance_decision: str
    pipeline_score: float
    identity_score: float | None


class _ProvenanceKit(msgspec.Struct):
    scores: _Scores


def provenancekit(output: str) -> Said:
    """Return what `provenancekit compare --json` says; raise CommandError where that cannot be read."""
    found = _decoded(output, _ProvenanceKit).scores
    words, weights = found.provenance_decision, found.identity_score
    related = _meaning(words.removesuffix(UNWEIGHED), MATCHES)
    figures = f"pipeline score {found.pipeline_score:.4f}, identity score of the weights " + (
        "none" if weights is None else f"{weights:.4f}"
    )
    return Said(words, None if words.endswith(UNWEIGHED) else related, figures)


READERS: Mapping[str, Callable[[str], Said]] = {"modeldna": modeldna, "provenancekit": provenancekit}
"""What reads the output of a rival, by its command."""


def _decoded(output: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(output, type=kind)
    except msgspec.MsgspecError as error:
        raise CommandError(f"no verdict can be read from what was printed: {error}: {output[:200]!r}") from None


def _meaning(words: str, meanings: Mapping[str, bool | None]) -> bool | None:
    if words not in meanings:
        raise CommandError(f"{words!r} is none of the verdicts that are documented: {', '.join(meanings)}")
    return meanings[words]
