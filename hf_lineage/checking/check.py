"""The check: what a repository holds, found once, and one function for each command of the Python API.

The readers of a model's files, foreign forms among them, are in `_forms_of` of `checkpoint/foreign`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hf_lineage.checking.claims import Asked, Compared, Judged, Source
from hf_lineage.checking.parts import Contents, find_parts
from hf_lineage.checking.report import Report
from hf_lineage.checking.result import NAMED, VERDICTS, Row, attempt
from hf_lineage.claims.card import stated
from hf_lineage.claims.sources import Claim, Claims, read_claims
from hf_lineage.errors import LineageError, NothingToCompare, OptionError
from hf_lineage.evidence import measure as interim
from hf_lineage.evidence.evaluate import with_strict
from hf_lineage.evidence.executed import Executed
from hf_lineage.evidence.verdict import Verdict
from hf_lineage.hub.repo import RepoRef
from hf_lineage.options import now
from hf_lineage.signature.values import Signature
from hf_lineage.source.config import model_config
from hf_lineage.source.contents import CONFIG, counterpart, only, parts_of
from hf_lineage.source.headers import headers
from hf_lineage.source.locate import Model, locate, located, named, one, several, unambiguous, with_folders
from hf_lineage.source.model import OpenedModel, open_model
from hf_lineage.source.options import Options, takes_options

if TYPE_CHECKING:
    from hf_lineage.checking.adapter_repository import Adapters
    from hf_lineage.checking.inspect import Inspection


def contents_of(source: Source) -> Contents:
    """Return what is in a repository, by its files alone; LineageError if a file that says so is damaged."""
    return Contents(source, _adapters(source), parts_of(source), find_parts(source))


def _adapters(source: Source) -> Adapters | None:
    if isinstance(source, Signature) or source.offers(CONFIG):
        return None
    from hf_lineage.checking.adapter_repository import find_adapters

    return find_adapters(source)


def declared_in(contents: Contents) -> Claims:
    """Return what a model declares: nothing for a stored signature, because claims stand in the files of a repository.

    What the root declares counts or, where it declares nothing, the folder that is meant, or those of what it holds.
    Where nothing is declared nothing is downloaded, but a folder that holds no model is still an error.
    """
    source = contents.source
    if isinstance(source, Signature):
        return Claims((), ())
    claims = read_claims(replace(source, subfolder=""))
    if source.subfolder and not claims.claims:
        claims = read_claims(source)
    elif not claims.claims:
        places = contents.adapters.places if contents.adapters else ()
        folders = [read_claims(place.repo) for place in places if place.repo.subfolder]
        bases = {claim.base.casefold(): claim for each in folders for claim in each.claims}
        conflicts = sum((each.conflicts for each in folders), claims.conflicts)
        claims = replace(claims, claims=tuple(bases.values()), conflicts=conflicts)
    if not claims.claims and contents.is_model:
        with contextlib.suppress(NothingToCompare):
            model_config(source)
    return with_folders(claims, source)


NOT_READ = "there are no two models of which every tensor can be held against the other's"
NOT_RUN = "an adapter is judged by the factors that it stores; to run it, merge it into its base and check the result"


@takes_options
def check(model: Model, bases: Model | Sequence[Model] = (), options: Options | None = None) -> Report:
    """Judge what a model declares about its base, or the base or bases named instead: one row for each claim.

    Raise LineageError if the model itself cannot be found or read; an error of a base becomes the verdict of its row.

    >>> from hf_lineage import Options, check
    >>> report = check("fern/llama-finetune-a", options=Options(local_hub="examples/hub"))
    >>> [(row.claim.base, row.verdict.word) for row in report.rows]
    [('acme/llama-base', 'VERIFIED')]
    >>> report.exit_code
    <ExitCode.VERIFIED: 0>
    >>> check("examples/hub/fern/llama-finetune-a", "examples/hub/otter/llama-independent")
    <Report on examples/hub/fern/llama-finetune-a: examples/hub/otter/llama-independent is UNRELATED>
    """
    options, model, bases = options or Options(), named(model), several(bases)
    return check_source(model, located(model, options), bases, options)


def check_source(
    model: str, source: RepoRef | Signature, bases: Sequence[str], options: Options, commits: Mapping[str, str] = {}
) -> Report:
    """Return what `check` returns, for a model that was located before: the Hub is not asked for it again.

    `commits` has the commits at which declared bases are compared, by their names.
    """
    began, options, contents = now(), ordered(options), contents_of(source)
    declared = _named(bases, options.local_hub) if bases else declared_in(contents)
    claims = _declared(contents) if bases else declared.claims
    pinned = (replace(claim, base=_at(claim.base, commits)) for claim in declared.claims)
    declared = replace(declared, claims=tuple(pinned))
    asked = Asked(declared, options, named=bool(bases))
    judged = contents.check(asked) if declared.claims else Judged()
    rows = judged.rows
    told = contents.repo, (*declared.notes, *judged.notes), began
    rows = _told(rows, options)
    report = Report(model, source.commit, rows, declared.conflicts, options, *told, licence=stated(source))
    return replace(report, blended=judged.blended, declared=claims)


@takes_options
def compare(a: Model, b: Model | Sequence[Model], options: Options | None = None) -> Report:
    """Compare two models, whatever they declare; A is the reference whose weakest layer sets the gate.

    Of several models in place of B each is compared with A by itself; the report is named after A and has their rows,
    and one of them that cannot be read has the reason in its row.

    Raise LineageError if A, or B alone, cannot be found or read.

    >>> from hf_lineage import compare
    >>> hub = "examples/hub"
    >>> (row,) = compare(f"{hub}/acme/llama-base", f"{hub}/otter/llama-independent").rows
    >>> row.verdict.word, row.verdict.evidence["mlp"].p_value > 0.01
    ('UNRELATED', True)
    """
    options = ordered(options or Options())
    a, models = named(a), several(b)
    base = locate(a, options.local_hub)
    if len(models) != 1:
        return _each(a, base, models, options)
    (b,) = models
    return comparing(a, base, options)(b, located(b, options))


def comparing(a: str, base: RepoRef | Signature, options: Options) -> Callable[[str, RepoRef | Signature], Report]:
    """Return what compares other models with A, one after the other, as `compare` does; no layer of A is read twice."""
    claim, began = Claim(a, None, NAMED), now()

    @functools.cache
    def opened(part: str) -> OpenedModel | Verdict:
        return attempt(lambda: open_model(counterpart(base, part), options), NothingToCompare)

    beside = Compared(claim, base, options, opened)

    def compared(b: str, source: RepoRef | Signature) -> Report:
        contents = contents_of(source)
        judged = contents.compare(beside)
        told = contents.repo, judged.notes, began, "compare"
        return Report(b, source.commit, _told(judged.rows, options), (), options, *told, licence=stated(source))

    return compared


def _each(a: str, base: RepoRef | Signature, models: Sequence[str], options: Options) -> Report:
    """Return several models compared with A: the rows of each, which name it."""
    began, compared, rows, notes = now(), comparing(a, base, options), list[Row](), list[str]()
    if not models:
        raise OptionError("name at least one model that is compared with A")

    def judged(name: str) -> Report:
        return compared(name, located(name, options))

    for name in models:
        one = attempt(functools.partial(judged, name), *VERDICTS)
        if isinstance(one, Verdict):
            rows.append(Row(Claim(a, None, NAMED), one, model=name))
            continue
        rows += (replace(row, model=name, model_commit=one.commit) for row in one.rows)
        notes += (f"{name}: {note}" for note in one.notes)
    repo = base if isinstance(base, RepoRef) else None
    return Report(a, base.commit, tuple(rows), (), options, repo, tuple(notes), began, called="compare")


@takes_options
def extract(model: Model, options: Options | None = None) -> Signature:
    """Return the signature of a model along the paths of the options; raise LineageError if it cannot be made.

    >>> from hf_lineage import Options, extract
    >>> signature = extract("examples/hub/acme/llama-base", Options(paths=("mlp", "value_output")))
    >>> {path: part.sketch.shape for path, part in signature.paths.items()}
    {'mlp': (6, 96, 64), 'value_output': (6, 96, 64)}
    """
    options = options or Options()
    return open_model(only(located(named(model), options)), options).signature()


@takes_options
def inspect(model: Model, options: Options | None = None) -> Inspection:
    """Return trace concentration and pairing of one model along every path; raise LineageError if it cannot be read.

    >>> from hf_lineage import inspect
    >>> inspect("examples/hub/acme/gpt2-base").pairings["mlp"].accuracy
    1.0
    """
    from hf_lineage.checking.inspect import inspect_model

    options = options or Options()
    return inspect_model(headers(one(named(model), options), options.choice))


def ordered(options: Options) -> Options:
    """Return options with a seed for the order of the layers: drawn now, unless the user gave one."""
    return options if options.seed is not None else replace(options, seed=interim.drawn_seed())


def _told(rows: Sequence[Row], options: Options) -> tuple[Row, ...]:
    """Return the rows; those of adapters say why nothing was run, or no number was read, where that was asked for."""
    return tuple(replace(row, verdict=_asked(row.verdict, options)) for row in rows)


def _asked(verdict: Verdict, options: Options) -> Verdict:
    if options.run and verdict.is_related and verdict.executed is None:
        verdict = replace(verdict, executed=Executed(seed=options.seed or 0, problem=NOT_RUN))
    if options.strict and verdict.strict is None:
        from hf_lineage.evidence.executed import Strict

        verdict = with_strict(verdict, Strict("", problem=NOT_READ))
    return verdict


def _declared(contents: Contents) -> tuple[Claim, ...]:
    """Return what a model declares that is checked on other bases; nothing where its files cannot be read."""
    declared = attempt(lambda: declared_in(contents).claims, LineageError)
    return () if isinstance(declared, Verdict) else declared


def _at(base: str, commits: Mapping[str, str]) -> str:
    return f"{base.partition('@')[0]}@{commits[base]}" if base in commits else base


def _named(bases: Sequence[str], local_hub: Path | None) -> Claims:
    for base in bases:
        unambiguous(base, local_hub)
    return Claims(tuple(Claim(base, None, NAMED) for base in bases), ())
