"""Commands: what makes a report again, as words of a shell; no path in them tells where on this machine files are."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from hf_lineage.checking.api import Report
from hf_lineage.checking.options import Options
from hf_lineage.checking.rows import NAMED, Row
from hf_lineage.errors import printable
from hf_lineage.report import numbers, public

_BY_VALUE = ("subfolder", "budget", "alpha", "permutations", "seed", "min_share", "evidence")
_FLAGS = ("recompute", "published", "allow_pickle")


def command(model: str, commit: str | None, row: Row, options: Options, names: Mapping[str, str]) -> str:
    """Return the command that measures one row again, at the same commits."""
    words = ["hf-lineage", "check", _pinned(model, commit)]
    if not row.claim.problem:
        words += ["--base", _pinned(names.get(row.claim.base, row.claim.base), row.base_commit)]
    return printable(shlex.join([*words, *_options(options, names)]))


def of_claim(report: Report, row: Row) -> str:
    """Return the command that measures one row of a report again, with the same draws and in the same local hub."""
    names = public.names(report)
    model = names.get(report.model, report.model)
    besides = shlex.join(_surroundings(report, names))
    return " ".join(filter(None, (command(model, report.commit, row, report.options, names), printable(besides))))


def of_report(report: Report, *further: str) -> str:
    """Return the command that makes the whole report again, at the commits that it was made of."""
    names = public.names(report)
    name, *rest = report.called
    model = _pinned(names.get(report.model, report.model), report.commit)
    named = [row for row in report.rows if row.claim.sources == NAMED]
    bases = dict.fromkeys(_pinned(names.get(row.claim.base, row.claim.base), row.base_commit) for row in named)
    words = [*bases, model] if name == "compare" else [model, *(word for base in bases for word in ("--base", base))]
    words += [names.get(word, word) for word in rest]
    options = (*_options(report.options, names), *_surroundings(report, names))
    return printable(shlex.join(["hf-lineage", name, *words, *options, *further]))


def _options(options: Options, names: Mapping[str, str]) -> list[str]:
    """The options that a verdict depends on, where they are not the usual ones."""
    recipe, usual, words = options.recipe, Options(), list[str]()
    if recipe.option != usual.recipe.option:
        words += ["--recipe", recipe.option]
    if options.paths != usual.paths:
        words += ["--paths", ",".join(options.paths)]
    if recipe.probes != usual.recipe.probes:
        words += ["--exact"] if recipe.probes is None else ["--probes", str(recipe.probes)]
    for name in _BY_VALUE:
        if (value := getattr(options, name)) != getattr(usual, name):
            words += [_option(name), str(value)]
    words += ["--as", options.as_class] if options.as_class else []
    words += ["--registry", _shown(options.registry, names)] if options.registry else []
    for kind in options.accept:
        words += ["--accept", kind]
    words += ["--file", options.file] if options.file else []
    words += [_option(name) for name in _FLAGS if getattr(options, name)]
    for repository in options.signatures:
        words += ["--signatures", repository]
    for null in options.nulls:
        words += ["--null", names.get(null, null)]
    return words


def _surroundings(report: Report, names: Mapping[str, str]) -> Iterator[str]:
    """The draw that was made, and where models and trust were found."""
    options = report.options
    if options.order_seed is not None and any(map(_drawn, report.rows)):
        yield from ("--order-seed", str(options.order_seed))
    for name, folder in (("--local-hub", options.local_hub), ("--trust", options.trust)):
        if folder is not None:
            yield from (name, _shown(folder, names))


def _drawn(row: Row) -> bool:
    """Whether another draw of layers or of units would give other figures."""
    trace = row.verdict.trace
    few = row.verdict.framed is not None or (trace is not None and trace.analyses > 1)
    return few or any(map(numbers.drawn, row.verdict.evidence.values()))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _shown(folder: object, names: Mapping[str, str]) -> str:
    return names.get(str(folder), str(folder))


def _pinned(model: str, commit: str | None) -> str:
    return model if commit is None else f"{model.partition('@')[0]}@{commit}"
