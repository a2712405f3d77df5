"""A report: every claim about one model, judged, and what a policy makes of it.

A policy counts only where whoever runs the check asks for it: the publisher of a model writes its `lineage.yaml`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_lineage.checking.result import NAMED, ClaimResult, worst
from hf_lineage.claims.sources import Claim
from hf_lineage.errors import OptionError, printable
from hf_lineage.evidence.relation import Means
from hf_lineage.evidence.verdict import SEVERITY, Code, ExitCode
from hf_lineage.files.paths import is_file, open_regular
from hf_lineage.hub.repo import RepoRef
from hf_lineage.options import now
from hf_lineage.policy import ACCEPTED, EXECUTED, LARGEST, REFUSED, STRICT, Policy, parse
from hf_lineage.policy import status as status_of_policy
from hf_lineage.signature.values import Signature
from hf_lineage.source.options import Options

if TYPE_CHECKING:
    from hf_lineage.evidence.merge import Blend

FILE = "lineage.yaml"  # The policy of a model repository, which is its owner's
OWN = "own"  # The name that selects that file as the policy
REPORT = "hf_lineage.report"  # This room stands above, so its modules are imported when asked for


@dataclass(frozen=True)
class Combination:
    """A model as a combination of several known parents."""

    parents: tuple[str, ...]  # Their names
    blend: Blend
    is_declared: tuple[bool, ...]  # Whether the model's card, or another of its files, names each of them
    by_model: bool = True  # Whether the model names any base at all; otherwise whoever checks names them

    @property
    def undeclared(self) -> tuple[str, ...]:
        """The parents that gave a part and that nothing of the model names."""
        from hf_lineage.evidence.merge import BlendPlace

        made = zip(self.parents, self.blend.places, self.is_declared, strict=True)
        return tuple(parent for parent, how, declared in made if how is BlendPlace.BLEND and not declared)


@dataclass(frozen=True)
class Relative:
    """A model of an index that is nearer to the one that was checked than a base of it is."""

    model: str
    base: str
    along: float  # The cosine of the differences of both models from that base


@dataclass(frozen=True, repr=False)
class Report:
    """Every claim about one model, judged."""

    model: str
    commit: str | None
    rows: tuple[ClaimResult, ...]
    conflicts: tuple[str, ...]
    options: Options
    source: RepoRef | None = None  # The repository of the model; None for a stored signature
    notes: tuple[str, ...] = ()  # About what is declared: what does not count, and what stored files contradict
    checked_at: datetime.datetime = field(default_factory=now)  # When the check began
    command: str = "check"  # The name of the command that makes the report
    declared: tuple[Claim, ...] = ()  # The bases that the files of the model declare, even where the user names others
    licence: str = ""  # The licence that the card of the model states; empty where it states none, or there is none
    relatives: tuple[Relative, ...] = ()  # Models of an index between it and a base, the nearest first
    blended: Combination | None = None  # The model beside several known parents, if their weights are at hand
    policy: Policy | None = None  # The policy of whoever checks, which has been applied to the rows; None without one

    def __repr__(self) -> str:
        rows, more = ", ".join(map(str, self.rows[:5])) or "nothing is declared", len(self.rows) - 5
        return f"<Report on {printable(self.model, 200)}: {rows}{f' and {more} more' if more > 0 else ''}>"

    @property
    def code(self) -> Code:
        """The code of the worst claim; UNDECLARED where there is none, or a parent of a verified model is not named."""
        row = self.worst
        if row is None or (self.undeclared and row.verdict.exit_code is ExitCode.VERIFIED):
            return Code.UNDECLARED
        return row.verdict.code

    @property
    def worst(self) -> ClaimResult | None:
        """The first of the worst claims, None without one; an accepted code is worse than one that verifies."""
        rank = SEVERITY.index
        return max(self.rows, key=lambda row: (rank(row.verdict.exit_code), not row.verdict.verified), default=None)

    @property
    def exit_code(self) -> ExitCode:
        """The most severe exit code of all rows, whatever a policy says; undecided if not everything is declared."""
        return self._with_undeclared(worst(self.rows))

    @property
    def policy_exit_code(self) -> ExitCode:
        """The same without the rows that the policy accepts."""
        code = worst(self.rows, accepted=True)
        return self._with_undeclared(code) if self.has_undeclared else code

    @property
    def unmet(self) -> bool:
        """Whether a requirement of the policy is not met."""
        policy = self.policy
        nothing = policy and policy.relations and not self.rows
        refused = policy and policy.undeclared_parent == REFUSED and self.undeclared
        return bool(nothing or refused) or any(row.unmet for row in self.rows)

    @property
    def status(self) -> ExitCode:
        """Exit code of the command: that of the check, or what the policy makes of it."""
        if self.policy is None:
            return self.exit_code
        fail_on = self.policy.fail_on or "undecided"
        return status_of_policy(self.policy_exit_code, self.unmet, fail_on, self.has_undeclared)

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
    def has_undeclared(self) -> bool:
        """Whether there are such parents, and the policy does not accept them."""
        accepts = self.policy is not None and self.policy.undeclared_parent == ACCEPTED
        return bool(self.undeclared) and not accepts

    def _with_undeclared(self, code: ExitCode) -> ExitCode:
        return max(code, ExitCode.UNDECIDED, key=SEVERITY.index) if self.undeclared else code

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON report as plain values; `hf_lineage/report/schema.json` describes it."""
        document: dict[str, Any] = import_module(f"{REPORT}.json").document(self)
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


def find_policy(policy: str | None, fail_on: str | None, locate: Callable[[], RepoRef | Signature]) -> Policy | None:
    """Return the policy that a user names, or that of the folder itself; OptionError for one of the Hub, or none."""
    chosen = None
    if policy == OWN:
        source = locate()
        if isinstance(source, Signature) or source.remote is not None:
            why = "on the Hub the publisher of the model wrote the file, so name a file of yours"
            raise OptionError(f"--policy {OWN} is for a folder of your own; {why}")
        content = replace(source, subfolder="").read_bytes(FILE, LARGEST)
        chosen = None if content is None else _parse_policy(content, FILE)
    elif policy is not None:
        chosen = read_policy(Path(policy))
    return chosen if fail_on is None else replace(chosen or Policy(), fail_on=fail_on)


def read_policy(file: Path) -> Policy:
    """Return the policy in a file; raise OptionError if there is none."""
    if not is_file(str(file)):
        instead = f"name one, or `{OWN}` for {FILE} of the folder"
        raise OptionError(f"--policy {printable(file, 200)} is not a file; {instead}")
    try:
        with open_regular(file) as stream:
            return _parse_policy(stream.read(LARGEST + 1), str(file))
    except OSError as error:
        raise OptionError(f"{file} cannot be read: {error.strerror or error}; check its permissions") from None


def _parse_policy(content: bytes, source: str) -> Policy:
    if len(content) > LARGEST:
        raise OptionError(f"{source} is larger than {LARGEST >> 10} KiB; shorten it")
    try:
        return parse(content.decode("utf-8-sig"), source)
    except UnicodeDecodeError:
        raise OptionError(f"{source} is not UTF-8 text; save it as UTF-8") from None


def apply_policy(report: Report, policy: Policy | None, today: datetime.date) -> Report:
    """Return a report under a policy: verdicts stay, and rows say what accepts them or what they lack."""
    source, notes, rows = report.source, [*report.notes], list[ClaimResult]()
    if policy is None:
        if source and source.remote is None and is_file(str(replace(source, subfolder="").path(FILE))):
            why = "because the publisher of the model wrote it; if you are the publisher, add --policy"
            notes.append(f"{FILE} of the model was not read {why} {OWN}")
        return replace(report, notes=tuple(notes))
    on_hub = source.remote if source else None
    # Of a model on the Hub what is accepted has to name it: the next one would only have to declare the same base.
    unnamed = [waiver for waiver in policy.accepted if on_hub and not waiver.model]
    why = "but does not say of which model on the Hub; add model: org/name"
    notes += (f"{policy.source} accepts {waiver}, {why}" for waiver in unnamed)
    counting = replace(policy, accepted=tuple(one for one in policy.accepted if one not in unnamed))
    model = on_hub or report.model
    notes += _idle(model, report.rows, counting, today)
    for row in report.rows:
        finding = model, row.claim.base, row.verdict.code, row.part
        is_bad = row.verdict.exit_code is not ExitCode.VERIFIED
        if is_bad and (waiver := counting.waiver(*finding, today)):
            rows.append(replace(row, waiver=waiver))
        else:
            expired = next(counting.covering(*finding), None) if is_bad else row.expired
            rows.append(replace(row, expired=expired, unmet=tuple(_unmet(row, counting))))
    if policy.relations and not rows:
        wanted = " or ".join(policy.relations)
        notes.append(f"{policy.source} asks for the relation {wanted}, but the model declares no base")
    return replace(report, rows=tuple(rows), notes=tuple(notes), policy=policy)


def _unmet(row: ClaimResult, policy: Policy) -> Iterator[str]:
    """Yield the requirements of a policy that a claim does not meet, by its declarations and by its weights."""
    relation, declared = row.claim.relation, row.claim.sources != NAMED
    yield from policy.lacks(relation, declared, row.own_code)
    if policy.requires == STRICT and not row.verdict.is_strict:
        compared = row.verdict.strict is not None
        why = "its numbers do not show that" if compared else "the numbers were not compared (--strict)"
        yield f"the policy asks for models that are the base's numbers and nothing else, but {why}"
    if policy.requires == EXECUTED and not row.verdict.is_executed:
        ran = row.verdict.executed
        why = "it was not run (--run)" if ran is None else ran.problem or "running did not verify it"
        yield f"the policy asks for claims that are verified by running, but {why}"
    against = {Means.DENSE, Means.LOW_RANK, Means.PRUNED} if relation == "quantized" else set()
    if declared and relation in policy.relations and row.derivation and against & {*row.derivation.means}:
        yield f"the policy asks for the relation {relation}, but the weights show {row.derivation.words}"


def _idle(model: str, rows: Sequence[ClaimResult], policy: Policy, today: datetime.date) -> Iterator[str]:
    """Yield a sentence for everything accepted that does not count: it has expired, or there is no such finding."""
    for waiver in policy.accepted:
        if not waiver.concerns(model):
            continue
        matched = any(waiver.covers(row.claim.base, row.verdict.code, row.part) for row in rows)
        if waiver.expires < today:
            now = "this check found the same again" if matched else "this check did not find it"
            yield f"{policy.source} accepts {waiver} until {waiver.expires}, and that day has passed; {now}"
        elif not matched:
            yield f"{policy.source} accepts {waiver}, but this check did not find it; remove the entry if it is settled"
