"""The inputs of the action, as action.yml hands them over: one environment variable each."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from hf_lineage import __version__
from hf_lineage.action.own_policy import is_own
from hf_lineage.checking import OWN
from hf_lineage.checking.source import locate, named
from hf_lineage.errors import OptionError, printable
from hf_lineage.evidence import FAIL_ON
from hf_lineage.hub import hub_name
from hf_lineage.report import FORMATS, Format, renderer

PREFIX = "LINEAGE_"
NO_POLICY = "none"
"""The input policy that has no policy count."""
Card = Literal["never", "write", "pull-request"]
Word = TypeVar("Word", bound=str)
CARDS: tuple[Card, ...] = ("never", "write", "pull-request")


@dataclass(frozen=True)
class Inputs:
    """What the workflow asks for."""

    model: str
    on_hub: bool
    """Whether the model is one of the Hub, whatever folder of the checkout bears its name."""
    bases: tuple[str, ...]
    formats: Mapping[str, Format]
    fail_on: str
    """What fails the step; empty if the policy says it, or nobody does."""
    policy: str
    """What the command takes as --policy; empty for none."""
    card: Card
    token: str
    cache: Path
    """The folder in which signatures of models on the Hub are cached from one run to the next."""
    local_hub: Path | None
    file: str | None
    options: tuple[str, ...]
    """The options of the command that are passed on as they are."""


def read_inputs(environ: Mapping[str, str]) -> Inputs:
    """Return the inputs; raise OptionError for one that is wrong."""
    given = {key.removeprefix(PREFIX): value.strip() for key, value in environ.items() if key.startswith(PREFIX)}
    version = given.get("VERSION") or __version__
    if version.removeprefix("v") != __version__:
        raise OptionError(
            f"this is hf-lineage {__version__}, not {version}: the action installs its own version only; for another "
            "version change the ref in `uses`"
        )
    return Inputs(
        model=_model(given),
        on_hub=bool(given.get("MODEL")),
        bases=tuple(_words(given.get("BASE", ""))),
        formats={name: renderer(_one_of(name, "formats", list(FORMATS))) for name in _words(given.get("FORMATS", ""))},
        fail_on=_one_of(given["FAIL_ON"], "fail-on", FAIL_ON) if given.get("FAIL_ON") else "",
        policy=_policy(given, environ),
        card=_one_of(given.get("ANNOTATE") or "never", "annotate", CARDS),
        token=given.get("TOKEN", ""),
        cache=Path(environ.get("RUNNER_TEMP") or tempfile.gettempdir()) / "hf-lineage-signatures",
        local_hub=_local_hub(given),
        file=given.get("FILE") or None,
        options=tuple(_passed(given)),
    )


def _passed(given: Mapping[str, str]) -> Iterator[str]:
    for name, words in PASSED.items():
        yield from (f"--{name.lower().replace('_', '-')}={word}" for word in words(given.get(name, "")))


def _local_hub(given: Mapping[str, str]) -> Path | None:
    return Path(given["LOCAL_HUB"]) if given.get("LOCAL_HUB") else None


def _model(given: Mapping[str, str]) -> str:
    name, revision, folder = (given.get(key, "") for key in ("MODEL", "REVISION", "LOCAL_PATH"))
    if bool(name) == bool(folder):
        raise OptionError("give either the input model or the input local-path")
    if revision and not name:
        raise OptionError("the input revision is for the input model; a folder has no revisions")
    model = f"{name}@{revision}" if revision else name
    if name and hub_name(model) is None:
        shown = printable(model, 200)
        raise OptionError(f"the input model must be a Hub name such as org/model, not {shown}; see local-path")
    return named(Path(folder)) if folder else model


def _policy(given: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """The policy: the one that the workflow names, else that of the folder where it is the repository's own."""
    asked, folder = given.get("POLICY", ""), given.get("LOCAL_PATH", "")
    if folder and asked in ("", OWN):
        return OWN if is_own(lambda: locate(named(Path(folder)), _local_hub(given)), environ) else ""
    return "" if asked == NO_POLICY else asked


def _one_of(asked: str, name: str, allowed: Sequence[Word]) -> Word:
    chosen = next((word for word in allowed if word == asked), None)
    if chosen is None:
        raise OptionError(f"the input {name} must be one of {', '.join(allowed)}, not {printable(asked, 100)}")
    return chosen


def _words(text: str) -> list[str]:
    """What is separated by commas, spaces or line ends, each once."""
    return list(dict.fromkeys(re.findall(r"[^\s,]+", text)))


def _one(text: str) -> list[str]:
    return [text] if text else []


PASSED: Mapping[str, Callable[[str], list[str]]] = {
    "BASE": _words,
    "ACCEPT": _words,
    "SET": str.split,
    **dict.fromkeys(("BUDGET", "LOCAL_HUB", "SUBFOLDER", "FILE", "AS", "REGISTRY"), _one),
}
"""Input that is an option of the command, under the same name -> the values in it."""
