"""Public: a report as it may be shown to others, in which no path tells where on this machine its files are."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path, PurePath
from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import NAMED
from hf_lineage.checking.source import is_here
from hf_lineage.evidence import Code

HOME = "~"
NEAR = 2
"""Folders up that a path in a command leads at most: as far as from org/model to other/model."""
HERE, IN_WORDS = ".", "this repository"
"""The model in what is stored in its folder, whose name there says nothing: as a path, and in a sentence."""
TO_FILL_IN = "/path/to"
"""Placeholder in a command for a place that only this machine knows."""
_PARTS = {"Row", "Claim", "Verdict", "Relative", "Blended", "Executed", "Strict"}
"""Names of classes that hold texts, themselves or further in; none is imported for that."""


def public(report: Report) -> Report:
    """Return a report without paths of this machine in any text."""
    private = names(report)
    texts = {name: short for name, short in private.items() if _tells_apart(name)} | _home()

    def rename(text: str) -> str:
        return renamed(text, texts)

    rows, relatives, blended = (_each(each, rename) for each in (report.rows, report.relatives, report.blended))
    conflicts, notes = (tuple(map(rename, several)) for several in (report.conflicts, report.notes))
    model = private.get(report.model, rename(report.model))
    shown = replace(report, model=model, rows=rows, conflicts=conflicts, notes=notes)
    return replace(shown, relatives=relatives, blended=blended)


def publish(report: Report, document: Any) -> Any:
    """Return plain values of a report for a file that is passed on: commands stay, and no other text has a path."""
    exact = record_names(report)
    texts = {name: short for name, short in exact.items() if name.strip("./")} | _home()
    if exact.get(report.model) == HERE and report.model in texts:
        texts[report.model] = IN_WORDS

    def rename(value: Any, key: str = "") -> Any:
        if isinstance(value, Mapping):
            return {rename(name): rename(item, name) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [rename(item, key) for item in value]
        return value if key == "command" or not isinstance(value, str) else exact.get(value) or renamed(value, texts)

    return rename(document)


def record_names(report: Report) -> dict[str, str]:
    """Return the public name of the model, and of every path: its last part."""
    on_hub = report.source is not None and report.source.remote is not None
    public = HERE if is_here(report.model) else ""
    paths = {name: f"./{Path(name).resolve().name}" for name in _typed(report) if name and is_here(name)}
    if on_hub:
        return paths | {report.model: report.model.partition("@")[0]}
    return paths | ({report.model: public} if public else {})


def names(report: Report) -> dict[str, str]:
    """Return what stands for every name that only this machine knows."""
    return {name: short for name in _typed(report) if (short := shortened(name)) != name}


def _typed(report: Report) -> list[str]:
    """Return the names in a report that are not declared: of models, bases and folders."""
    options = report.options
    folders = (options.local_hub, options.registry)
    bases = (row.claim.base for row in report.rows if row.claim.sources == NAMED)
    meant = (name for row in report.rows for name in (row.claim.folder, row.model))
    typed = [report.model, *bases, *meant, *options.nulls]
    return typed + [str(folder) for folder in folders if folder is not None]


def shortened(name: str) -> str:
    """Return a name as it may be shown: of a path that leads out of the working directory the last part alone.

    >>> shortened("org/name"), shortened("./folder"), shortened("/home/me/folder"), shortened("../folder")
    ('org/name', './folder', './folder', './folder')
    """
    path = PurePath(name)
    if not (path.is_absolute() or ".." in path.parts or name.startswith(HOME)):
        return name
    only_dots = not name.strip("./\\")
    return f"./{(Path(name).resolve() if only_dots else path).name}"


def written(name: str, start: Path | None) -> str:
    """Return a name as a command has it that is run in the folder `start`, or anywhere: a path is `reachable`."""
    return reachable(name, start) if is_here(name) else name


def reachable(path: str, start: Path | None) -> str:
    """Return a path as it is written in the folder `start`; its last part alone where the way leads far, or over /.

    >>> reachable("/home/me/base", Path("/home/me/model")), reachable("/data/base", Path("/home/me/model"))
    ('../base', '/path/to/base')
    """
    if start is not None:
        relative = os.path.relpath(path, start)
        up, depth = PurePath(relative).parts.count(".."), len(start.absolute().parts) - 1
        if up <= NEAR and (up < depth or not depth):
            return relative if relative.startswith(".") else f"./{relative}"
    return f"{TO_FILL_IN}/{Path(path).absolute().name or Path(path).resolve().name}"


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return text in which no private name stands, wherever it is a word of its own or begins a longer path."""
    private = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w./-])({private})(?![\w-]|\.\w)", lambda match: names[match[0]], text) if names else text


def _tells_apart(name: str) -> bool:
    """Return whether a name in a text can only be this one: `model` or `.` may be a word of the sentence."""
    return len([part for part in PurePath(name).parts if part.strip("./\\~")]) > 1 or PurePath(name).is_absolute()


def _home() -> dict[str, str]:
    """Return the home directory, unless it is that of no user."""
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
    if type(value).__name__ in _PARTS:
        changed = {field.name: _each(getattr(value, field.name), rename) for field in fields(value) if field.init}
        return replace(value, **changed)
    return value
