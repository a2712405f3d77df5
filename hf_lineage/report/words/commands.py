"""Commands: what makes a report again, as words of a shell that are typed in the working directory.

Paths are relative. If one leads far away, or over the root of the machine, only its last part is told. It stands
behind `/path/to`, for the reader to fill in.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from hf_lineage.checking import Options, Report
from hf_lineage.checking.results import NAMED, Row
from hf_lineage.checking.source import named
from hf_lineage.errors import printable
from hf_lineage.hub import RepoRef
from hf_lineage.report.words import numbers
from hf_lineage.report.words import publishable as public

_BY_VALUE = ("subfolder", "budget")
_SET = ("alpha", "permutations", "seed", "min_share", "recompute")
Write = Callable[[str], str]


def against(model: RepoRef, options: Options, base: str) -> str:
    """Return the command that checks a model against a base, both as they are named."""
    words = ["--base", base, *_options(replace(options, subfolder=""), str)]
    return printable(f"hf-lineage check {model.typed} {shlex.join(words)}")


def of_claim(report: Report, row: Row, write: Write | None = None) -> str:
    """Return the command that measures one row of a report again, with the same draws and in the same local hub."""
    write = write or _here(report)
    model, commit = (row.model, row.model_commit) if row.model else (report.model, report.commit)
    words = ["hf-lineage", "check", _pinned(write(model), commit)]
    if not row.claim.problem:
        words += ["--base", _pinned(write(row.claim.base), row.base_commit)]
    return printable(shlex.join([*words, *_options(report.options, write), *_surroundings(report, write)]))


def of_report(report: Report, *further: str, write: Write | None = None) -> str:
    """Return the command that makes the whole report again, at the commits that it was made of."""
    write = write or _here(report)
    name, *rest = report.called
    model = _pinned(write(report.model), report.commit)
    models = dict.fromkeys(_pinned(write(row.model), row.model_commit) for row in report.rows if row.model) or [model]
    typed = [row for row in report.rows if row.claim.sources == NAMED]
    bases = dict.fromkeys(_pinned(write(row.claim.base), row.base_commit) for row in typed)
    words = [*bases, *models] if name == "compare" else [model, *(word for base in bases for word in ("--base", base))]
    words += [word if word.startswith("--") else write(word) for word in rest]
    options = (*_options(report.options, write), *_surroundings(report, write))
    return printable(shlex.join(["hf-lineage", name, *words, *options, *further]))


def beside(report: Report) -> Write:
    """Return how names are written in the folder of the model; one on the Hub is beside nothing of this machine."""
    folder = report.source.folder if report.source and report.source.remote is None else None
    model = public.record_names(report).get(report.model, report.model)
    return lambda name: model if name == report.model else public.written(name, folder)


def _here(report: Report) -> Write:
    """Return how names are written in the working directory; the model by the name that the user gives its folder."""
    on_hub = report.source is not None and report.source.remote is not None
    given = {} if on_hub or not report.as_name else {report.model: report.as_name}
    return lambda name: given.get(name) or public.written(name, Path())


def _options(options: Options, write: Write) -> list[str]:
    """Return the options that a verdict depends on, where they are not the usual ones."""
    recipe, usual, words = options.recipe, Options(), list[str]()
    if recipe.option != usual.recipe.option:
        words += set_words("recipe", recipe.option)
    if options.paths != usual.paths:
        words += ["--paths", ",".join(options.paths)]
    if recipe.probes != usual.recipe.probes:
        words += set_words("probes", "exact" if recipe.probes is None else recipe.probes)
    for name in _BY_VALUE:
        if (value := getattr(options, name)) != getattr(usual, name):
            words += [f"--{name}", str(value)]
    for name in _SET:
        if (value := getattr(options, name)) != getattr(usual, name):
            words += set_words(name, value)
    words += ["--run"] if options.run else []
    words += ["--strict"] if options.strict else []
    words += ["--as", options.as_class] if options.as_class else []
    words += ["--registry", _folder(options.registry, write)] if options.registry else []
    for kind in options.accept:
        words += ["--accept", kind]
    words += ["--file", options.file] if options.file else []
    words += ["--allow-pickle"] if options.allow_pickle else []
    for null in options.nulls:
        words += ["--null", write(null)]
    return words


def _surroundings(report: Report, write: Write) -> Iterator[str]:
    """Yield the seed that was drawn, and the place of models."""
    options = report.options
    if options.order_seed is not None and any(map(_drawn, report.rows)):
        yield from set_words("order_seed", options.order_seed)
    if options.local_hub is not None:
        yield from ("--local-hub", _folder(options.local_hub, write))


def _drawn(row: Row) -> bool:
    """Return whether another draw of layers or of units would give other figures."""
    trace = row.verdict.trace
    few = row.verdict.framed is not None or (trace is not None and trace.analyses > 1)
    return few or any(map(numbers.drawn, row.verdict.evidence.values()))


def set_words(name: str, value: object) -> tuple[str, str]:
    """Return the words of the command line that give a setting a value."""
    written = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
    return "--set", f"{name.replace('_', '-')}={written}"


def _folder(folder: Path, write: Write) -> str:
    """Return a folder or a file, which is none of the Hub whatever it is called."""
    return write(named(folder))


def _pinned(model: str, commit: str | None) -> str:
    return model if commit is None else f"{model.partition('@')[0]}@{commit}"
