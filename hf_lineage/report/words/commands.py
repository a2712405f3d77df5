"""Commands: what makes a report again, as words of a shell that are typed in the working directory.

Paths are relative. If one leads far away, or over the root of the machine, only its last part is told. It stands
behind `/path/to`, for the reader to fill in.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hf_lineage.checking import SETTINGS, Options, Report
from hf_lineage.checking.results import NAMED, Row
from hf_lineage.checking.source import named
from hf_lineage.errors import printable
from hf_lineage.hub import RepoRef
from hf_lineage.report.words import publishable as public
from hf_lineage.signature import RECIPES

_OF_PYTHON = ("recipe", "permutations", "min_share")
"""Options on which figures depend and that the command line does not have."""
Write = Callable[[str], str]


def against(model: RepoRef, options: Options, base: str) -> str:
    """Return the command that checks a model against a base, both as they are named."""
    words = ["--base", base, *_options(replace(options, subfolder=""), str)]
    return printable(f"hf-lineage check {model.typed} {shlex.join(words)}")


def of_claim(report: Report, row: Row, write: Write | None = None) -> str:
    """Return the command that measures one row of a report again, with the same draws and in the same local hub."""
    write = write or _here
    model, commit = (row.model, row.model_commit) if row.model else (report.model, report.commit)
    words = ["hf-lineage", "check", _model(write(model), commit, report.options)]
    if not row.claim.problem:
        words += ["--base", _pinned(write(row.claim.base), row.base_commit)]
    return _typed([*words, *_options(report.options, write)], report.options)


def of_report(report: Report, *further: str, write: Write | None = None) -> str:
    """Return the command that makes the whole report again, at the commits that it was made of."""
    write = write or _here
    model = _model(write(report.model), report.commit, report.options)
    models = dict.fromkeys(_pinned(write(row.model), row.model_commit) for row in report.rows if row.model) or [model]
    typed = [row for row in report.rows if row.claim.sources == NAMED]
    bases = dict.fromkeys(_pinned(write(row.claim.base), row.base_commit) for row in typed)
    compared = report.called == "compare"
    words = [*bases, *models] if compared else [model, *(word for base in bases for word in ("--base", base))]
    options = _options(report.options, write)
    return _typed(["hf-lineage", report.called, *words, *options, *further], report.options)


def beside(report: Report) -> Write:
    """Return how names are written in the folder of the model; one on the Hub is beside nothing of this machine."""
    folder = report.source.folder if report.source and report.source.remote is None else None
    model = public.record_names(report).get(report.model, report.model)
    return lambda name: model if name == report.model else public.written(name, folder)


def _here(name: str) -> str:
    """Return how a name is written in the working directory."""
    return public.written(name, Path())


def _options(options: Options, write: Write) -> list[str]:
    """Return the options that are not the usual ones, in the order of the table."""
    usual, words = Options(), list[str]()
    for name, setting in SETTINGS.items():
        value = getattr(options, name)
        if setting.help and value != getattr(usual, name):
            words += _words(setting.flag or f"--{name.replace('_', '-')}", value, write)
    return words + (["--as", _folder(options.registry, write)] if options.registry else [])


def _words(flag: str, value: Any, write: Write) -> list[str]:
    """Return the words of one option."""
    match value:
        case True:
            return [flag]
        case Path():
            return [flag, _folder(value, write)]
        case tuple() if flag == "--paths":
            return [flag, ",".join(value)]
        case tuple():
            return [word for one in value for word in (flag, write(one))]
    return [flag, str(value)]


def _typed(words: Sequence[str], options: Options) -> str:
    """Return the words as they are typed, with a comment on options that the command line does not have."""
    usual = Options()
    names = [name for name in _OF_PYTHON if getattr(options, name) != getattr(usual, name)]
    recipe = options.recipe
    values = {"recipe": recipe.option if RECIPES.get(recipe.option) == recipe else recipe}
    given = ", ".join(f"{name}={values.get(name, getattr(options, name))!r}" for name in names)
    return printable(shlex.join(words) + (f"  # with Options({given}) in Python" if given else ""))


def _model(model: str, commit: str | None, options: Options) -> str:
    """Return a model at its commit, with the folder of its repository that was asked for."""
    name, at, revision = model.partition("@")
    inside = options.subfolder.rstrip("/")
    named = name if not inside or name.endswith(f"/{inside}") else f"{name}/{inside}"
    return _pinned(f"{named}{at}{revision}", commit)


def _folder(folder: Path, write: Write) -> str:
    """Return a folder or a file, which is none of the Hub whatever it is called."""
    return write(named(folder))


def _pinned(model: str, commit: str | None) -> str:
    return model if commit is None else f"{model.partition('@')[0]}@{commit}"
