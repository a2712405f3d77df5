"""The check: what a repository holds is found once, each thing in it is judged, and the results become a report.

A comparison goes the same way with one base, whatever is declared.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hf_lineage.checking.claims import RepositoryResult, Request, judge_components, judge_folders, judge_model
from hf_lineage.checking.declared import declared_in
from hf_lineage.checking.report import Report
from hf_lineage.checking.result import NAMED, VERDICTS, ClaimResult, catch_as_verdict, error_as_verdict
from hf_lineage.claims.sources import Claim, Claims, stated_licence
from hf_lineage.errors import LineageError, NothingToCompare, OptionError
from hf_lineage.evidence import measure
from hf_lineage.evidence.evaluate import with_strict
from hf_lineage.evidence.executed import RunOutcome, Strict
from hf_lineage.evidence.verdict import Verdict
from hf_lineage.hub.repo import RepoRef
from hf_lineage.options import now
from hf_lineage.signature.values import Signature
from hf_lineage.source.contents import Adapters, Content, Folders, WholeModel, contents_of, counterpart, only
from hf_lineage.source.headers import headers
from hf_lineage.source.locate import Model, locate, locate_model, model_name, one, several, unambiguous
from hf_lineage.source.model import OpenedModel, open_model
from hf_lineage.source.options import Options

if TYPE_CHECKING:
    from hf_lineage.checking.inspect import Inspection

NOT_READ = "there are no two models of which every tensor can be held against the other's"
NOT_RUN = "an adapter is judged by the factors that it stores; to run it, merge it into its base and check the result"


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
    options, model, bases = options or Options(), model_name(model), several(bases)
    return check_source(model, locate_model(model, options), bases, options)


def check_source(
    model: str, source: RepoRef | Signature, bases: Sequence[str], options: Options, commits: Mapping[str, str] = {}
) -> Report:
    """Return what `check` returns for a located model; `commits` are those at which bases are compared, by name."""
    began, options = now(), with_seed(options)
    contents = contents_of(source)
    declared, own = _claims(source, contents, bases, options)
    claims = [
        replace(claim, base=f"{claim.base.partition('@')[0]}@{commits[claim.base]}") if claim.base in commits else claim
        for claim in declared.claims
    ]
    request, result = Request(claims, options, by_user=bool(bases)), RepositoryResult(notes=declared.notes)
    for content in contents if claims else ():
        result += judge_content(content, request)
    return replace(_report(model, source, result, options, began), conflicts=declared.conflicts, declared=own)


def judge_content(content: Content, request: Request) -> RepositoryResult:
    """Return whether one thing in a repository comes from the bases that are claimed."""
    match content:
        case WholeModel(part) if part.part:
            return judge_components((part,), request, by_name=True)
        case (Signature() as source) | WholeModel(source):
            return judge_model(source, request)
        case Adapters():
            from hf_lineage.checking.adapters import judge_adapters

            return judge_adapters(content, request)
        case Folders():
            return judge_folders(content, request)
        case tuple():
            return judge_components(content, request)


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
    options = with_seed(options or Options())
    a, models = model_name(a), several(b)
    base = locate(a, options.local_hub)
    if len(models) != 1:
        return _each(a, base, models, options)
    (b,) = models
    return comparing(a, base, options)(b, locate_model(b, options))


def comparing(a: str, base: RepoRef | Signature, options: Options) -> Callable[[str, RepoRef | Signature], Report]:
    """Return what compares other models with A, one after the other, as `compare` does; no layer of A is read twice."""
    claim, began = Claim(a, None, NAMED), now()

    @functools.cache
    def open_base(part: str) -> OpenedModel | Verdict:
        return catch_as_verdict(lambda: open_model(counterpart(base, part), options), NothingToCompare)

    request = Request([claim], options, open_base=open_base, bases={claim: base})

    def compare_with(b: str, source: RepoRef | Signature) -> Report:
        result = RepositoryResult()
        for content in contents_of(source):
            result += judge_content(content, request)
        return _report(b, source, result, options, began, "compare")

    return compare_with


def _each(a: str, base: RepoRef | Signature, models: Sequence[str], options: Options) -> Report:
    began, compared, rows, notes = now(), comparing(a, base, options), list[ClaimResult](), list[str]()
    if not models:
        raise OptionError("name at least one model that is compared with A")
    for name in models:
        try:
            one = compared(name, locate_model(name, options))
        except VERDICTS as error:
            rows.append(ClaimResult(Claim(a, None, NAMED), error_as_verdict(error), model=name))
        else:
            rows += (replace(row, model=name, model_commit=one.commit) for row in one.rows)
            notes += (f"{name}: {note}" for note in one.notes)
    repo = base if isinstance(base, RepoRef) else None
    return Report(a, base.commit, tuple(rows), (), options, repo, tuple(notes), began, command="compare")


def extract(model: Model, options: Options | None = None) -> Signature:
    """Return the signature of a model along the paths of the options; raise LineageError if it cannot be made.

    >>> from hf_lineage import Options, extract
    >>> signature = extract("examples/hub/acme/llama-base", Options(paths=("mlp", "value_output")))
    >>> {path: part.sketch.shape for path, part in signature.paths.items()}
    {'mlp': (6, 96, 64), 'value_output': (6, 96, 64)}
    """
    options = options or Options()
    return open_model(only(locate_model(model_name(model), options)), options).signature()


def inspect(model: Model, options: Options | None = None) -> Inspection:
    """Return trace concentration and pairing of one model along every path; raise LineageError if it cannot be read.

    >>> from hf_lineage import inspect
    >>> inspect("examples/hub/acme/gpt2-base").pairings["mlp"].accuracy
    1.0
    """
    from hf_lineage.checking.inspect import inspect_model

    options = options or Options()
    return inspect_model(headers(one(model_name(model), options), options.choice))


def with_seed(options: Options) -> Options:
    """Return options with a seed for the order of the layers: drawn now, unless the user gave one."""
    return options if options.seed is not None else replace(options, seed=measure.drawn_seed())


def _claims(
    source: RepoRef | Signature, contents: Sequence[Content], bases: Sequence[str], options: Options
) -> tuple[Claims, tuple[Claim, ...]]:
    """Return the claims that are checked, and those of the model, of which it has none where they cannot be read."""
    if not bases:
        declared = declared_in(source, contents)
        return declared, declared.claims
    for base in bases:
        unambiguous(base, options.local_hub)
    own = catch_as_verdict(lambda: declared_in(source, contents).claims, LineageError)
    return Claims(tuple(Claim(base, None, NAMED) for base in bases), ()), () if isinstance(own, Verdict) else own


def _report(
    model: str, source: RepoRef | Signature, result: RepositoryResult, options: Options, began: datetime.datetime,
    command: str = "check",
) -> Report:  # fmt: skip
    """Return the report on a model; rows say where nothing was run, or no number was read, though that was asked."""
    rows = list[ClaimResult]()
    for row in result.rows:
        verdict = row.verdict
        if options.run and verdict.is_related and verdict.executed is None:
            verdict = replace(verdict, executed=RunOutcome(seed=options.seed or 0, problem=NOT_RUN))
        if options.strict and verdict.strict is None:
            verdict = with_strict(verdict, Strict("", problem=NOT_READ))
        rows.append(replace(row, verdict=verdict))
    rest = tuple(rows), (), options, source if isinstance(source, RepoRef) else None, result.notes, began, command
    return Report(model, source.commit, *rest, licence=stated_licence(source), blended=result.blended)
