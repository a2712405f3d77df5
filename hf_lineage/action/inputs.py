"""The inputs of the action, as action.yml hands them over: one environment variable each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from hf_lineage import __version__
from hf_lineage.errors import OptionError, printable
from hf_lineage.options import ACCEPTABLE, Options
from hf_lineage.repo import hub_name
from hf_lineage.report import FORMATS as KNOWN
from hf_lineage.report import Render, renderer
from hf_lineage.verdict import ExitCode

PREFIX = "LINEAGE_"
FAILING = {
    "unrelated": frozenset({ExitCode.UNRELATED, ExitCode.ERROR}),
    "undecided": frozenset({ExitCode.UNRELATED, ExitCode.ERROR, ExitCode.UNDECIDED}),
    "never": frozenset[ExitCode](),
}
"""The input fail-on -> exit codes of a check that fail the step."""
Card = Literal["never", "write", "pull-request"]
Budget = Literal["quick", "full"]
BUDGETS: tuple[Budget, ...] = ("quick", "full")
Word = TypeVar("Word", bound=str)
CARDS: tuple[Card, ...] = ("never", "write", "pull-request")


@dataclass(frozen=True)
class Inputs:
    """What the workflow asks for."""

    model: str
    on_hub: bool
    """Whether the model is one of the Hub, whatever folder of the checkout bears its name."""
    bases: tuple[str, ...]
    formats: Mapping[str, Render]
    failing: frozenset[ExitCode]
    card: Card
    token: str
    kept: Path
    """Where the signatures of models on the Hub are kept from one run to the next."""
    options: Options


def read_inputs(environ: Mapping[str, str]) -> Inputs:
    """Return the inputs; raise OptionError for one that is wrong."""
    said = {key.removeprefix(PREFIX): value.strip() for key, value in environ.items() if key.startswith(PREFIX)}
    version = said.get("VERSION") or __version__
    if version.removeprefix("v") != __version__:
        raise OptionError(
            f"this is hf-lineage {__version__}, not {version}: the action installs itself; name another ref in `uses`"
        )
    return Inputs(
        model=_model(said),
        on_hub=bool(said.get("MODEL")),
        bases=tuple(_words(said.get("BASE", ""))),
        formats={name: renderer(_one_of(name, "formats", list(KNOWN))) for name in _words(said.get("FORMATS", ""))},
        failing=FAILING[_one_of(said.get("FAIL_ON") or "unrelated", "fail-on", list(FAILING))],
        card=_one_of(said.get("ANNOTATE") or "never", "annotate", CARDS),
        token=said.get("TOKEN", ""),
        kept=Path(environ.get("RUNNER_TEMP", ".")) / "hf-lineage-signatures",
        options=Options(
            local_hub=Path(said["LOCAL_HUB"]) if said.get("LOCAL_HUB") else None,
            accept=tuple(_one_of(word, "accept", ACCEPTABLE) for word in _words(said.get("ACCEPT", ""))),
            budget=_one_of(said["BUDGET"], "budget", BUDGETS) if said.get("BUDGET") else None,
        ),
    )


def _model(said: Mapping[str, str]) -> str:
    name, revision, folder = (said.get(key, "") for key in ("MODEL", "REVISION", "LOCAL_PATH"))
    if bool(name) == bool(folder):
        raise OptionError("give one of the inputs model and local-path")
    if revision and not name:
        raise OptionError("the input revision belongs to model; a folder has none")
    model = f"{name}@{revision}" if revision else name
    if name and hub_name(model) is None:
        shown = printable(model, 200)
        raise OptionError(f"the input model must be a Hub name such as org/model, not {shown}; see local-path")
    return folder or model


def _one_of(asked: str, name: str, known: Sequence[Word]) -> Word:
    found = next((word for word in known if word == asked), None)
    if found is None:
        raise OptionError(f"the input {name} must be one of {', '.join(known)}, not {printable(asked, 100)}")
    return found


def _words(text: str) -> list[str]:
    """What is separated by commas, spaces or line ends, each once."""
    return list(dict.fromkeys(re.findall(r"[^\s,]+", text)))
