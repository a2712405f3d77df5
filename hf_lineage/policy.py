"""Policy: what an organization accepts and asks of its models in `lineage.yaml`; it never changes a verdict."""

import contextlib
import datetime
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from hf_lineage.claims.names import RELATIONS
from hf_lineage.errors import OptionError, printable
from hf_lineage.evidence.criteria import FAIL_ON
from hf_lineage.evidence.verdict import SEVERITY, Code, ExitCode, Word
from hf_lineage.files import safe_yaml
from hf_lineage.hub.repo import hub_name

ACCEPTED, REFUSED = "accept", "refuse"  # answers of a policy to code that a repository brings
UNDECLARED = "undeclared-parent"  # a choice of `fail_on`: also a parent that the model does not name
EXECUTED = "executed"  # requirement for every claim: it is verified by what both models do when they run
STRICT = "strict"  # requirement for every claim: the model is the base's numbers as its formats store them, no more


@dataclass(frozen=True)
class Waiver:
    """One finding that is accepted although it verifies no claim, until a day (UTC) is over."""

    base: str
    code: Code
    reason: str
    expires: datetime.date
    model: str = ""  # the model of the Hub that it is about; empty for whichever is checked
    part: str = ""  # the folder or file of the repository that it is about; empty for the repository itself

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


@dataclass(frozen=True)
class Policy:
    """Findings that are accepted, requirements, and the results that fail."""

    source: str = ""  # the file that it was read from; empty if there is none
    accepted: tuple[Waiver, ...] = ()
    relations: tuple[str, ...] = ()  # the relations of which each claim has to declare one; empty if any will do
    requires: str = ""  # EXECUTED or STRICT where every claim has to be so verified
    own_code: str = ACCEPTED  # whether models with code of their own pass, which is never run
    undeclared_parent: str | None = None  # whether such a model passes; None leaves it undecided
    fail_on: str | None = None  # result that makes a check fail, one of FAIL_ON; None if the policy does not say

    def waiver(self, model: str, base: str, code: Code, part: str, today: datetime.date) -> Waiver | None:
        """Return what accepts a finding, None if nothing does; what has expired does not."""
        return next((one for one in self.covering(model, base, code, part) if one.expires >= today), None)

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
    """Return what a check returns whose findings give `code`: what is required and `unmet` is at least undecided."""
    if fail_on == "never":
        return ExitCode.VERIFIED
    worst = max(code, ExitCode.UNDECIDED if unmet else code, key=SEVERITY.index)
    failing = {ExitCode.UNRELATED, ExitCode.ERROR} | ({ExitCode.UNDECIDED} if fail_on == "undecided" else set())
    fails = unmet or worst in failing or (undeclared and fail_on == UNDECLARED)
    return worst if fails else ExitCode.VERIFIED


LARGEST = safe_yaml.SHORT  # bytes of a file at most
MOST, LONGEST = 100, 500  # findings that are accepted, and characters of one value, at most
ACCEPTABLE: dict[str, Code] = {  # name in a file -> code of a claim that is not verified
    code: code for code in Code if code.word is not Word.VERIFIED and code is not Code.UNDECLARED
}
Reader = Callable[[Any, str], Any]  # takes a value and its place, and returns what it means


def parse(text: str, source: str) -> Policy:
    """Return the policy that a file holds; raise OptionError, with the place and what to do, for anything else."""
    try:
        _refuse_twice(text)
        content = safe_yaml.load(text)
    except yaml.YAMLError as error:
        line = safe_yaml.line(error)
        where = f", line {line}" if line else ""
        raise OptionError(f"{source}{where}: {safe_yaml.problem(error)}; correct it") from None
    fields = {"relation": "relations", "require": "requires"}
    values = _read(content, TOP, source)
    return Policy(source=source, **{fields.get(key, key.replace("-", "_")): value for key, value in values.items()})


def _read(content: Any, keys: Mapping[str, Reader], where: str) -> dict[str, Any]:
    """Return the values of a mapping, as they are read; OptionError for a key that nothing reads."""
    if not isinstance(content, dict):
        raise OptionError(f"{where} must hold keys and values; its keys are {', '.join(keys)}; correct it")
    if unknown := [key for key in content if key not in keys]:
        raise OptionError(f"{where}: unknown key {printable(unknown[0], 60)}; the keys are {', '.join(keys)}")
    return {key: keys[key](value, f"{where}: {key}") for key, value in content.items()}


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
        raise OptionError(f"{where} must be a text of 1 to {LONGEST} characters; write one")
    return printable(" ".join(value.split()))


def _day(value: Any, where: str) -> datetime.date:
    with contextlib.suppress(ValueError):
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
            return datetime.date.fromisoformat(value)
    raise OptionError(f"{where} must be a day such as 2027-03-31, not {printable(value, 60)}")


def _model(value: Any, where: str) -> str:
    name = _text(value, where)
    if hub_name(name) != name:
        raise OptionError(f"{where} must be a name of the Hub such as org/model, not {name}")
    return name


def _choose(words: Iterable[str]) -> Callable[[Any, str], str]:
    several = tuple(words)

    def read(value: Any, where: str) -> str:
        if value not in several:
            raise OptionError(f"{where} must be one of {', '.join(several)}, not {printable(value, 60)}")
        return str(value)

    return read


def _code(value: Any, where: str) -> Code:
    return ACCEPTABLE[_choose(ACCEPTABLE)(value.lower() if isinstance(value, str) else value, where)]


NEEDED: dict[str, Reader] = {"base": _text, "code": _code, "reason": _text, "expires": _day}


def _read_waivers(value: Any, where: str) -> tuple[Waiver, ...]:
    if not isinstance(value, list) or len(value) > MOST:
        raise OptionError(f"{where} must be a list of at most {MOST} findings; write each as an entry with a dash")
    waivers = []
    for number, entry in enumerate(value, start=1):
        at = f"{where}, entry {number}"
        fields = _read(entry, NEEDED | {"model": _model, "part": _text}, at)
        if missing := [key for key in NEEDED if key not in fields]:
            raise OptionError(f"{at} has no {missing[0]}; each names {', '.join(NEEDED)}")
        waivers.append(Waiver(**fields))
    return tuple(waivers)


def _relations(value: Any, where: str) -> tuple[str, ...]:
    words = value if isinstance(value, list) and value else [value]
    return tuple(_choose(RELATIONS)(word, where) for word in words)


TOP: dict[str, Reader] = {  # key of a file -> what reads its value
    "accepted": _read_waivers,
    "relation": _relations,
    "require": _choose((EXECUTED, STRICT)),
    "own-code": _choose((ACCEPTED, REFUSED)),
    "undeclared-parent": _choose((ACCEPTED, REFUSED)),
    "fail-on": _choose(FAIL_ON),
}


def _refuse_twice(text: str) -> None:
    """Raise YAMLError for a key that a mapping has twice, and for anchors, aliases and tags."""
    # The keys so far of each collection that is open, and whether its next value is a key: never in a list.
    collections: list[tuple[set[str], Iterator[bool]]] = []
    for event in safe_yaml.events(text):
        problem, value = "", getattr(event, "value", None)
        if getattr(event, "anchor", None) or getattr(event, "tag", None):
            problem = "anchors, aliases and tags are not allowed here"
        elif isinstance(event, yaml.CollectionEndEvent):
            collections.pop()
        elif isinstance(event, yaml.NodeEvent):
            if collections:
                keys, is_key = collections[-1]
                if next(is_key) and value is not None:
                    problem = f"the key {printable(value, 60)} is here twice" if value in keys else ""
                    keys.add(value)
            if isinstance(event, yaml.CollectionStartEvent):
                collections.append((set(), itertools.cycle((isinstance(event, yaml.MappingStartEvent), False))))
        if problem:
            mark: Any = event.start_mark
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
