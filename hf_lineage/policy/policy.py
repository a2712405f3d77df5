"""Policy: which findings are accepted and until when, what is asked of every claim, and what makes a check fail.

A policy changes what a command returns, and never a verdict: every finding stays in every report.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hf_lineage.errors import printable
from hf_lineage.evidence import SEVERITY, Code, ExitCode

ACCEPTED, REFUSED = "accept", "refuse"
"""Answers of a policy to code that a repository brings."""
UNDECLARED = "undeclared-parent"
"""Choice of `fail_on`: a parent shows that the model does not name, or a claim is contradicted."""
EXECUTED, STRICT = "executed", "strict"
"""Requirements for every claim: that it is verified by what both models do when they run; or that the model is the
base's numbers, as its formats store them, and nothing else."""
FAILING = {
    "unrelated": frozenset({ExitCode.UNRELATED, ExitCode.ERROR}),
    UNDECLARED: frozenset({ExitCode.UNRELATED, ExitCode.ERROR}),
    "undecided": frozenset({ExitCode.UNRELATED, ExitCode.ERROR, ExitCode.UNDECIDED}),
    "never": frozenset[ExitCode](),
}
"""Choice of `fail_on` -> the exit codes of a check that fail."""


@dataclass(frozen=True)
class Waiver:
    """One finding that is accepted although it verifies no claim."""

    base: str
    code: Code
    reason: str
    expires: datetime.date
    """The last day (UTC) on which it counts."""
    model: str = ""
    """The model of the Hub that it is about; empty for whichever is checked."""
    part: str = ""
    """The folder or file of the repository that it is about; empty for the repository itself."""

    def covers(self, base: str, code: Code, part: str = "") -> bool:
        """Return whether it is about this finding, on whatever day."""
        return (self.base.casefold(), self.code, self.part) == (base.casefold(), code, part)

    def concerns(self, model: str) -> bool:
        """Return whether it is about this model, which may be named with its revision."""
        return not self.model or self.model.casefold() == model.partition("@")[0].casefold()

    def __str__(self) -> str:
        """Return what it accepts, as the object of a sentence."""
        part = f" ({printable(self.part, 100)})" if self.part else ""
        return f"that {self.base}{part} is {self.code.label}"

    def expired(self, today: datetime.date) -> bool:
        """Return whether it counts no more."""
        return self.expires < today


@dataclass(frozen=True)
class Policy:
    """Findings that are accepted, requirements, and the results that fail."""

    source: str = ""
    """The file that it was read from; empty if there is none."""
    accepted: tuple[Waiver, ...] = ()
    relations: tuple[str, ...] = ()
    """The relations of which each claim has to declare one; empty if any will do."""
    requires: str = ""
    """EXECUTED where every claim has to be verified by running, STRICT where by every number; empty for neither."""
    own_code: str = ACCEPTED
    """Whether models with code of their own pass, which is never run."""
    undeclared_parent: str | None = None
    """Whether a model passes of which a parent shows that it does not name; None if that leaves it undecided."""
    fail_on: str | None = None
    """Result that makes a check fail, one of FAIL_ON; None if the policy does not say."""

    def waiver(self, model: str, base: str, code: Code, part: str, today: datetime.date) -> Waiver | None:
        """Return what accepts a finding, None if nothing does; what has expired does not."""
        return next((one for one in self.covering(model, base, code, part) if not one.expired(today)), None)

    def covering(self, model: str, base: str, code: Code, part: str) -> Iterator[Waiver]:
        """Yield what accepts a finding, or did until a day that is past."""
        return (one for one in self.accepted if one.covers(base, code, part) and one.concerns(model))

    def lacks(self, relation: str | None, declared: bool = True, own_code: Sequence[str] = ()) -> Iterator[str]:
        """Yield what is asked for and a claim is not; a base that nothing declares has no relation to be asked of."""
        if self.own_code == REFUSED:
            yield from (f"the policy refuses code of the repository, but {brought}" for brought in own_code)
        if declared and self.relations and relation not in self.relations:
            instead = printable(relation, 40) if relation else "none"
            yield f"the policy asks for the relation {' or '.join(self.relations)}, but the claim declares {instead}"


def status(code: ExitCode, unmet: bool, fail_on: str, undeclared: bool = False) -> ExitCode:
    """Return what a check returns whose findings give `code`, by what is to fail.

    What is required and is not so (`unmet`) is at least undecided and always fails, unless nothing does. `undeclared`
    says whether a parent shows that the model does not name.
    """
    if fail_on == "never":
        return ExitCode.VERIFIED
    worst = max(code, ExitCode.UNDECIDED if unmet else code, key=SEVERITY.index)
    fails = unmet or worst in FAILING[fail_on] or (undeclared and fail_on == UNDECLARED)
    return worst if fails else ExitCode.VERIFIED
