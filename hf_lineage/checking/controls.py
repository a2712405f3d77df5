"""Controls: two models beside others whose ancestry is known, all compared with the first in the same way.

A result for two models is easier to trust beside the results for models that are independent of the first, and for
models that are known to be related to it. No verdict depends on the others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hf_lineage.checking.api import Report, comparing, ordered
from hf_lineage.checking.options import Options
from hf_lineage.checking.results import NAMED, VERDICTS, Row
from hf_lineage.checking.source import CONFIG, locate, located, part_of
from hf_lineage.claims import Claim, read_claims
from hf_lineage.errors import LineageError, OptionError, printable
from hf_lineage.evidence import ExitCode, Kind, Verdict
from hf_lineage.hub import RepoRef
from hf_lineage.signature import Signature

MOST = 50
"""Controls of one comparison."""
Source = RepoRef | Signature
Compared = Callable[[str, Source], Report]


@dataclass(frozen=True)
class Control:
    """One model that is compared with A as B is, and what the user says about it."""

    report: Report
    independent: bool
    """Whether it is named as independent of A; otherwise as a relative of A."""
    declares: str = ""
    """The one of A and B that it declares as its base; empty if none."""


@dataclass(frozen=True)
class Controlled:
    """A and B, and the controls beside them."""

    base: str
    pair: Report
    controls: tuple[Control, ...]

    @property
    def exit_code(self) -> ExitCode:
        """That of the pair: the controls change nothing."""
        return self.pair.exit_code


def compare_beside(
    a: str, b: str, independent: Sequence[str], relatives: Sequence[str] = (), options: Options | None = None
) -> Controlled:
    """Compare B with A, and by the same options each control: models named as independent of A, and relatives of A.

    No layer of A is read twice. A control that cannot be read or compared has its reason in its row. Raise OptionError
    for a control that is A or B itself or is named twice, another LineageError if A or B cannot be found or read.

    >>> hub = "examples/hub"
    >>> beside = compare_beside(
    ...     f"{hub}/acme/llama-base", f"{hub}/fern/llama-finetune-a", [f"{hub}/otter/llama-independent"]
    ... )
    >>> [report.rows[0].verdict.name for report in (beside.pair, *(one.report for one in beside.controls))]
    ['RELATED', 'UNRELATED']
    """
    options = ordered(options or Options())
    named = [*((name, True) for name in independent), *((name, False) for name in relatives)]
    if len(named) > MOST:
        raise OptionError(f"{len(named)} controls are named, but at most {MOST} are compared; leave some out")
    base, source = locate(a, options.local_hub), located(b, options)
    known: list[tuple[str, Source]] = [("A itself", base), ("B itself", source)]
    controls: list[_Named] = []
    for name, free in named:
        control = _located(name, options)
        if not isinstance(control, LineageError):
            _refuse_known(name, control, known)
            known.append((f"the control {name} already", control))
        controls.append(_Named(name, free, control))
    compared = comparing(a, base, options)
    pair = compared(b, source)
    judged = tuple(_judged(a, pair, compared, control) for control in controls)
    unrelated = (row for one in judged if one.independent for row in one.report.rows if not row.verdict.is_related)
    quoted = tuple(row.quoted for row in unrelated if row.quoted)
    return Controlled(a, replace(pair, rows=tuple(replace(row, independent=quoted) for row in pair.rows)), judged)


@dataclass(frozen=True)
class _Named:
    name: str
    independent: bool
    source: Source | LineageError
    """Its source, or why it has none."""


def _judged(a: str, pair: Report, compared: Compared, named: _Named) -> Control:
    """A control with its report, or with the reason why there is none."""
    try:
        if isinstance(named.source, LineageError):
            raise named.source
        declares = _declared(named.source, a, pair.model) if named.independent else ""
        return Control(compared(named.name, named.source), named.independent, declares)
    except OptionError:
        raise
    except LineageError as error:
        kind = next((kind for expected, kind in VERDICTS.items() if isinstance(error, expected)), Kind.UNVERIFIABLE)
        row = Row(Claim(a, None, NAMED), Verdict(kind, str(error)))
        return Control(Report(named.name, None, (row,), (), pair.options), named.independent)


def _located(name: str, options: Options) -> Source | LineageError:
    """The source of a control, or why it has none."""
    try:
        return _place(name, options)
    except OptionError:
        raise
    except LineageError as error:
        return error


def _place(name: str, options: Options) -> Source:
    """Where a control is: in the folder of its repository that is asked for of B, if it has it."""
    control, folder = located(name, replace(options, file=None, subfolder="")), options.subfolder
    if isinstance(control, RepoRef) and folder and control.offers(f"{folder}/{CONFIG}"):
        return part_of(control, folder)
    return control


def _refuse_known(name: str, control: Source, known: Sequence[tuple[str, Source]]) -> None:
    """Raise OptionError for a control that is A, B or another control under any of its names."""
    for who, other in known:
        if _identity(control) == _identity(other):
            raise OptionError(f"{printable(name, 200)} is {who}; name each control once, and not A or B")


def _identity(source: Source) -> tuple[str, ...]:
    return (source.model, source.commit or "") if isinstance(source, Signature) else source.identity


def _declared(control: Source, a: str, b: str) -> str:
    """Which of A and B a model declares as its base; empty where it is none of them, or its claims cannot be read."""
    if isinstance(control, RepoRef):
        with contextlib.suppress(LineageError):
            declared = read_claims(replace(control, subfolder=""))
            names = {_plain(claim.base) for claim in (*declared.claims, *declared.besides)}
            return next((name for name in (a, b) if _plain(name) in names), "")
    return ""


def _plain(name: str) -> str:
    return name.partition("@")[0].casefold()
