"""Commands that make a report again, with relative paths, and reports without paths of this machine."""

import contextlib
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path, PurePath
from typing import Any

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import NAMED, ClaimResult
from hf_lineage.errors import printable
from hf_lineage.evidence.verdict import Code
from hf_lineage.hub.repo import RepoRef
from hf_lineage.options import SETTINGS
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.source.locate import is_here, model_name
from hf_lineage.source.options import Options

HOME = "~"
HERE = "."  # the model in what is stored in its folder, whose name there says nothing
Write = Callable[[str], str]


def public(report: Report) -> Report:
    """Return a report without paths of this machine in any text."""
    private = {name: short for name in _typed_names(report) if (short := shorten_path(name)) != name}
    texts = _home()
    for name, short in private.items():
        # Only a name of several folders can be no word of a sentence, as `model` or `.` may be.
        if PurePath(name).is_absolute() or len([part for part in PurePath(name).parts if part.strip("./\\~")]) > 1:
            texts[name] = short

    def rename(text: str) -> str:
        return hide_names(text, texts)

    model = private.get(report.model, rename(report.model))
    with_texts = ("rows", "relatives", "blended", "conflicts", "notes")
    return replace(report, model=model, **{name: _each(getattr(report, name), rename) for name in with_texts})


def publish(report: Report, document: Any) -> Any:
    """Return plain values of a report for a file that is passed on: commands stay, and no other text has a path."""
    exact = record_names(report)
    texts = {name: short for name, short in exact.items() if name.strip("./")} | _home()
    if exact.get(report.model) == HERE and report.model in texts:
        texts[report.model] = "this repository"

    def rename(value: Any, key: str = "") -> Any:
        if isinstance(value, Mapping):
            return {rename(name): rename(item, name) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [rename(item, key) for item in value]
        return value if key == "command" or not isinstance(value, str) else exact.get(value) or hide_names(value, texts)

    return rename(document)


def record_names(report: Report) -> dict[str, str]:
    """Return the public name of the model, and of every path: its last part."""
    paths = {name: f"./{Path(name).resolve().name}" for name in _typed_names(report) if name and is_here(name)}
    if report.source is not None and report.source.remote is not None:
        return paths | {report.model: report.model.partition("@")[0]}
    return paths | ({report.model: HERE} if is_here(report.model) else {})


def _typed_names(report: Report) -> list[str]:
    """Return the names in a report that are not declared: of models, bases and folders."""
    folders = (report.options.local_hub, report.options.registry)
    bases = (row.claim.base for row in report.rows if row.claim.sources == NAMED)
    meant = (name for row in report.rows for name in (row.claim.folder, row.model))
    typed = [report.model, *bases, *meant, *report.options.nulls]
    return typed + [str(folder) for folder in folders if folder is not None]


def shorten_path(name: str) -> str:
    """Return a name as it may be shown: of a path that leads out of the working directory the last part alone.

    >>> shorten_path("org/name"), shorten_path("./folder"), shorten_path("/home/me/folder"), shorten_path("../folder")
    ('org/name', './folder', './folder', './folder')
    """
    path = PurePath(name)
    if not (path.is_absolute() or ".." in path.parts or name.startswith(HOME)):
        return name
    only_dots = not name.strip("./\\")
    return f"./{(Path(name).resolve() if only_dots else path).name}"


def spell_name(name: str, start: Path | None = Path()) -> str:
    """Return a name as a command has it that is run in the folder `start`, by default the working one, or anywhere.

    Of a path the last part is left alone where the way leads over /, or further than from org/model to other/model.

    >>> spell_name("/home/me/base", Path("/home/me/model")), spell_name("/data/base", Path("/home/me/model"))
    ('../base', '/path/to/base')
    """
    if not is_here(name):
        return name
    if start is not None:
        relative = os.path.relpath(name, start)
        up, depth = PurePath(relative).parts.count(".."), len(start.absolute().parts) - 1
        if up <= 2 and (up < depth or not depth):
            return relative if relative.startswith(".") else f"./{relative}"
    return f"/path/to/{Path(name).absolute().name or Path(name).resolve().name}"


def hide_names(text: str, names: Mapping[str, str]) -> str:
    """Return text in which no private name stands, wherever it is a word of its own or begins a longer path."""
    private = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w./-])({private})(?![\w-]|\.\w)", lambda match: names[match[0]], text) if names else text


def _home() -> dict[str, str]:
    with contextlib.suppress(RuntimeError):
        home = Path.home()
        return {str(home): HOME} if len(home.parts) > 1 else {}
    return {}


def _each(value: Any, rename: Callable[[str], str]) -> Any:
    """Return a value with every text in it renamed, down to the parts of a row; what was measured stays."""
    if isinstance(value, str) and not isinstance(value, Code):
        return rename(value)
    if isinstance(value, tuple):
        return tuple(_each(one, rename) for one in value)
    # Classes that hold texts, themselves or further in; none is imported for that.
    if type(value).__name__ in {"ClaimResult", "Claim", "Verdict", "Relative", "Blended", "Executed", "Strict"}:
        changed = {field.name: _each(getattr(value, field.name), rename) for field in fields(value) if field.init}
        return replace(value, **changed)
    return value


def spelling_in_folder(report: Report) -> Write:
    """Return how names are written in the folder of the model; one on the Hub is beside nothing of this machine."""
    folder = report.source.folder if report.source and report.source.remote is None else None
    model = record_names(report).get(report.model, report.model)
    return lambda name: model if name == report.model else spell_name(name, folder)


def against(model: RepoRef, options: Options, base: str) -> str:
    """Return the command that checks a model against a base, both as they are named."""
    words = ["--base", base, *_options(replace(options, subfolder=""), str)]
    return printable(f"hf-lineage check {model.typed_name} {shlex.join(words)}")


def of_claim(report: Report, row: ClaimResult, write: Write = spell_name) -> str:
    """Return the command that measures one row of a report again, with the same draws and in the same local hub."""
    model, commit = (row.model, row.model_commit) if row.model else (report.model, report.commit)
    words = ["hf-lineage", "check", _model(write(model), commit, report.options)]
    if not row.claim.problem:
        words += ["--base", _pin(write(row.claim.base), row.base_commit)]
    return _type_words([*words, *_options(report.options, write)], report.options)


def of_report(report: Report, *further: str, write: Write = spell_name) -> str:
    """Return the command that makes the whole report again, at the commits that it was made of."""
    model = _model(write(report.model), report.commit, report.options)
    models = dict.fromkeys(_pin(write(row.model), row.model_commit) for row in report.rows if row.model) or [model]
    typed = [row for row in report.rows if row.claim.sources == NAMED]
    bases = dict.fromkeys(_pin(write(row.claim.base), row.base_commit) for row in typed)
    compared = report.command == "compare"
    words = [*bases, *models] if compared else [model, *(word for base in bases for word in ("--base", base))]
    options = _options(report.options, write)
    return _type_words(["hf-lineage", report.command, *words, *options, *further], report.options)


def _options(options: Options, write: Write) -> list[str]:
    usual, words = Options(), list[str]()
    for name, setting in SETTINGS.items():
        value, flag = getattr(options, name), setting.flag or f"--{name.replace('_', '-')}"
        if not setting.help or value == getattr(usual, name):
            continue
        match value:
            case True:
                words.append(flag)
            case Path():
                words += [flag, write(model_name(value))]
            case tuple() if name == "paths":
                words += [flag, ",".join(value)]
            case tuple():
                words += [word for one in value for word in (flag, write(one))]
            case _:
                words += [flag, str(value)]
    return words + (["--as", write(model_name(options.registry))] if options.registry else [])


def _type_words(words: Sequence[str], options: Options) -> str:
    """Return the words as they are typed, with a comment on options that the command line does not have."""
    usual, recipe = Options(), options.recipe
    names = (name for name in ("recipe", "permutations", "min_share") if getattr(options, name) != getattr(usual, name))
    values = {"recipe": recipe.option if RECIPES.get(recipe.option) == recipe else recipe}
    settings = ", ".join(f"{name}={values.get(name, getattr(options, name))!r}" for name in names)
    return printable(shlex.join(words) + (f"  # with Options({settings}) in Python" if settings else ""))


def _model(model: str, commit: str | None, options: Options) -> str:
    name, at, revision = model.partition("@")
    inside = options.subfolder.rstrip("/")
    full = name if not inside or name.endswith(f"/{inside}") else f"{name}/{inside}"
    return _pin(f"{full}{at}{revision}", commit)


def _pin(model: str, commit: str | None) -> str:
    return model if commit is None else f"{model.partition('@')[0]}@{commit}"
