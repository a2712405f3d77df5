"""A report: every claim about one model, judged, with what the check was, and what it can be turned into."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hf_lineage import policy as policies
from hf_lineage.checking.options import Options
from hf_lineage.checking.results.claim_result import Row, worst
from hf_lineage.checking.results.clock import now
from hf_lineage.claims import Claim
from hf_lineage.errors import printable
from hf_lineage.evidence import SEVERITY, Code, ExitCode
from hf_lineage.files import is_file
from hf_lineage.hub import RepoRef

if TYPE_CHECKING:
    from hf_lineage.checking.results.blended import Blended

FILE = "lineage.yaml"
"""The policy of a model repository, which is its owner's."""
OWN = "own"
"""The name that selects that file as the policy."""
REPORT = "hf_lineage.report"
"""The room that writes reports stands above this one, so its modules are imported by their names, when asked for."""


@dataclass(frozen=True)
class Relative:
    """A model of an index that is nearer to the one that was checked than a base of it is."""

    model: str
    base: str
    along: float
    """The cosine of the differences of both models from that base."""


@dataclass(frozen=True, repr=False)
class Report:
    """Every claim about one model, judged."""

    model: str
    commit: str | None
    rows: tuple[Row, ...]
    conflicts: tuple[str, ...]
    options: Options
    source: RepoRef | None = None
    """The repository of the model; None for a stored signature."""
    notes: tuple[str, ...] = ()
    """Sentences about what is declared: what does not count, and what the stored files contradict."""
    checked_at: datetime.datetime = field(default_factory=now)
    """When the check began; formats state what SOURCE_DATE_EPOCH says instead."""
    called: str = "check"
    """The name of the command that makes the report."""
    declared: tuple[Claim, ...] = ()
    """The bases that the files of the model declare, even where the user names others."""
    licence: str = ""
    """The licence that the card of the model states; empty where it states none, or there is none."""
    relatives: tuple[Relative, ...] = ()
    """Models of an index between the model and a declared base, the nearest first; none where no index was asked."""
    blended: Blended | None = None
    """The model beside several known parents; None where fewer are known, or their weights are not at hand."""
    policy: policies.Policy | None = None
    """The policy of whoever checks, which has been applied to the rows; None without one."""

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.rows[:MOST_SHOWN])) or "nothing is declared"
        more = len(self.rows) - MOST_SHOWN
        return f"<Report on {printable(self.model, 200)}: {shown}{f' and {more} more' if more > 0 else ''}>"

    @property
    def code(self) -> Code:
        """The code of the worst claim; UNDECLARED where there is none, or a parent of a verified model is not named."""
        row = self.worst
        if row is None or (self.undeclared and row.verdict.exit_code is ExitCode.VERIFIED):
            return Code.UNDECLARED
        return row.verdict.code

    @property
    def worst(self) -> Row | None:
        """The first of the worst claims, None without one; an accepted code is worse than one that verifies."""
        rank = SEVERITY.index
        return max(self.rows, key=lambda row: (rank(row.verdict.exit_code), not row.verdict.verified), default=None)

    @property
    def exit_code(self) -> ExitCode:
        """The most severe exit code of all rows, whatever a policy says; undecided if not everything is declared."""
        return self._with_undeclared(worst(self.rows))

    @property
    def unaccepted(self) -> ExitCode:
        """The same without the rows that the policy accepts."""
        code = worst(self.rows, accepted=True)
        return self._with_undeclared(code) if self.counted else code

    @property
    def unmet(self) -> bool:
        """Whether a requirement of the policy is not met."""
        nothing = bool(self.policy and self.policy.relations) and not self.rows
        refused = self.policy is not None and self.policy.undeclared_parent == policies.REFUSED
        return nothing or bool(refused and self.undeclared) or any(row.unmet for row in self.rows)

    @property
    def status(self) -> ExitCode:
        """Exit code of the command: that of the check, or what the policy makes of it."""
        if self.policy is None:
            return self.exit_code
        return policies.status(self.unaccepted, self.unmet, self.policy.fail_on or "undecided", self.counted)

    @property
    def parts(self) -> list[str]:
        """The parts that have rows beside those of the model that they are parts of; none of a model of one part."""
        whole = any(not (row.part or row.model) and row.layers is not None for row in self.rows)
        return list(dict.fromkeys(row.part for row in self.rows if row.part and whole))

    @property
    def undeclared(self) -> tuple[str, ...]:
        """The parents that gave a part of the model and that it does not name."""
        return self.blended.undeclared if self.blended else ()

    @property
    def counted(self) -> bool:
        """Whether there are such parents, and the policy does not accept them."""
        accepts = self.policy is not None and self.policy.undeclared_parent == policies.ACCEPTED
        return bool(self.undeclared) and not accepts

    def _with_undeclared(self, code: ExitCode) -> ExitCode:
        return max(code, ExitCode.UNDECIDED, key=SEVERITY.index) if self.undeclared else code

    def without_policy(self) -> Report:
        """Return the report with a sentence about a policy that lies in the folder, and that nobody asked for."""
        source = self.source
        if source is None or source.remote is not None or not is_file(str(replace(source, subfolder="").path(FILE))):
            return self
        note = (
            f"{FILE} of the model was not read because the publisher of the model wrote it; if you are the publisher, "
            f"add --policy {OWN}"
        )
        return replace(self, notes=(*self.notes, note))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON report as plain values; `hf_lineage/report/formats/schema.json` describes it."""
        document: dict[str, Any] = import_module(f"{REPORT}.formats.json").document(self)
        return document

    def to_json(self) -> str:
        """Return the report as JSON."""
        return self.to_format("json")

    def to_text(self, explain: bool = False) -> str:
        """Return the report as a table of at most 80 columns and sentences; `explain` adds every number."""
        return self.to_format("text", explain)

    def to_markdown(self, explain: bool = False) -> str:
        """Return the report as GitHub-flavoured Markdown; `explain` adds every number."""
        return self.to_format("markdown", explain)

    def to_html(self, explain: bool = True) -> str:
        """Return the report as a page by itself that loads nothing; `explain` adds every number."""
        return self.to_format("html", explain)

    def to_format(self, form: str, explain: bool = False) -> str:
        """Return the report in a format that `--format` knows, such as sarif; OptionError for any other name."""
        text: str = import_module(REPORT).renderer(form)(self, explain)
        return text


MOST_SHOWN = 5
"""Claims in the representation of a report."""
