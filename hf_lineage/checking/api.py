"""The Python API: one function for each command, from model names to a result."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hf_lineage.checking.failures import VERDICTS, attempt
from hf_lineage.checking.model import Downloads, OpenedModel, open_model
from hf_lineage.checking.naming import locate, locate_base, locate_weights
from hf_lineage.checking.opened import described, headers, model_config, open_header
from hf_lineage.checking.options import Options
from hf_lineage.checking.readings import judged_every_way
from hf_lineage.claims.sources import Claim, Claims, read_claims
from hf_lineage.errors import NothingToCompare
from hf_lineage.evidence import interim, verdict
from hf_lineage.evidence.evaluate import judge_merge
from hf_lineage.hub.reference import RepoRef, resolve
from hf_lineage.signature.origin import Origin
from hf_lineage.signature.values import Signature

if TYPE_CHECKING:
    from hf_lineage.architecture.drafting.suggestion import Suggestion
    from hf_lineage.checking.inspection import Inspection
    from hf_lineage.signature.sources.publishing import Published

NAMED = ("--base",)
"""The sources of a claim that the user makes with --base, and the model does not."""
MERGE = "merge"
"""The relation that a merge of several parents declares."""


@dataclass(frozen=True)
class Row:
    """One claim and its verdict."""

    claim: Claim
    verdict: verdict.Verdict
    base_revision: str | None = None
    """The commit of the base; None for a folder, and if the base could not be read."""
    layers: int | None = None
    """How many layers the model has, of which the verdict may have needed only some; None if it was not opened."""
    traffic: Mapping[str, Downloads] = field(default_factory=dict)
    """What was downloaded so far, by model; only models on the Hub are in it."""
    base_origin: Origin | None = None
    model_origin: Origin | None = None
    """The source of each model's signature; None for a model that was not opened."""
    notes: tuple[str, ...] = ()
    """Sentences about files beside the weights that were not read, and about other ways to load the model."""


@dataclass(frozen=True)
class Report:
    """Every claim about one model, judged."""

    model: str
    revision: str | None
    rows: tuple[Row, ...]
    conflicts: tuple[str, ...]
    options: Options
    source: RepoRef | None = None
    """The repository of the model; None for a stored signature."""

    @property
    def exit_code(self) -> verdict.ExitCode:
        """The most severe exit code of all rows; undecided if nothing is declared."""
        codes = [row.verdict.exit_code for row in self.rows] or [verdict.ExitCode.UNDECIDED]
        return max(codes, key=verdict.SEVERITY.index)


def check(model: str, bases: Sequence[str] = (), options: Options | None = None) -> Report:
    """Judge what a model declares about its base, or the bases named instead: one row for each claim.

    Raise LineageError if the model itself cannot be found or read; an error of a base becomes the verdict of its row.

    >>> from pathlib import Path
    >>> from hf_lineage import Options, check
    >>> report = check("fern/llama-finetune-a", options=Options(local_hub=Path("examples/hub")))
    >>> [(row.claim.base, row.verdict.name) for row in report.rows]
    [('acme/llama-base', 'RELATED')]
    >>> report.exit_code
    <ExitCode.RELATED: 0>
    """
    options = options or Options()
    return check_source(model, locate(model, options.local_hub), bases, options)


def check_source(model: str, source: RepoRef | Signature, bases: Sequence[str], options: Options) -> Report:
    """Return what `check` returns, for a model that was located before: the Hub is not asked for it again."""
    options = _ordered(options)
    declared = _named(bases) if bases else _declared(source)
    rows: tuple[Row, ...] = ()
    if declared.claims:
        candidate = _opened(source, options)
        rows = _as_merge([_judge_claim(candidate, claim, options) for claim in declared.claims], options.min_share)
    return Report(model, source.revision, rows, declared.conflicts, options, _repository(source))


def compare(a: str, b: str, options: Options | None = None) -> Report:
    """Compare two models, whatever they declare; A is the reference whose weakest layer sets the gate.

    Raise LineageError if either cannot be found or read.

    >>> from hf_lineage import compare
    >>> hub = "examples/hub"
    >>> (row,) = compare(f"{hub}/acme/llama-base", f"{hub}/otter/llama-independent").rows
    >>> row.verdict.name, row.verdict.evidence["mlp"].p_value > 0.01
    ('UNRELATED', True)
    """
    options = _ordered(options or Options())
    sources = [locate(name, options.local_hub) for name in (a, b)]
    base, candidate = (_opened(source, options, is_base=source is sources[0]) for source in sources)
    row = _row(Claim(a, None, NAMED), base, candidate, options)
    return Report(b, sources[1].revision, (row,), (), options, _repository(sources[1]))


def extract(model: str, options: Options | None = None) -> Signature:
    """Return the signature of a model along the paths of the options; raise LineageError if it cannot be made.

    >>> from hf_lineage import Options, extract
    >>> signature = extract("examples/hub/acme/llama-base", Options(paths=("mlp", "value_output")))
    >>> {path: part.sketch.shape for path, part in signature.paths.items()}
    {'mlp': (6, 96, 64), 'value_output': (6, 96, 64)}
    """
    options = options or Options()
    return open_model(locate(model, options.local_hub), options).signature()


def publish(model: str, options: Options | None = None, to: str | None = None) -> tuple[Signature, Published]:
    """Propose the signature of a model to its repository on the Hub, or to a repository of signatures.

    Raise LineageError if the signature cannot be made or written.
    """
    from hf_lineage.signature.sources import publishing

    options = options or Options()
    repo = locate_weights(model, options.local_hub)
    publishing.refuse(repo, options.recipe, to)
    signature = open_model(repo, options).signature()
    return signature, publishing.propose(repo, described(repo).factorization, signature, to)


def inspect(model: str, options: Options | None = None) -> Inspection:
    """Return trace concentration and pairing of one model along every path; raise LineageError if it cannot be read.

    >>> from hf_lineage import inspect
    >>> inspect("examples/hub/acme/gpt2-base").pairings["mlp"].accuracy
    1.0
    """
    from hf_lineage.checking.inspection import inspect_model

    repo = locate_weights(model, (options or Options()).local_hub)
    return inspect_model(headers(repo))


def suggest(model: str, options: Options | None = None) -> Suggestion:
    """Return a draft of a factorization for a model that the registry does not list; LineageError if unreadable."""
    from hf_lineage.architecture.drafting.suggestion import survey

    repo = locate_weights(model, (options or Options()).local_hub)
    return survey(repo.name, *open_header(repo))


def _ordered(options: Options) -> Options:
    """The options with a seed for the order of the layers: drawn now, unless the user gave one."""
    return options if options.order_seed is not None else replace(options, order_seed=interim.drawn_seed())


def _repository(source: RepoRef | Signature) -> RepoRef | None:
    return None if isinstance(source, Signature) else source


def _named(bases: Sequence[str]) -> Claims:
    return Claims(tuple(Claim(base, None, NAMED) for base in bases), ())


def _declared(source: RepoRef | Signature) -> Claims:
    """What a model declares: nothing for a stored signature, because claims stand in the files of a repository.

    Where nothing is declared nothing is downloaded, but a folder that holds no model is still an error.
    """
    if isinstance(source, Signature):
        return Claims((), ())
    claims = read_claims(source)
    if not claims.claims:
        with contextlib.suppress(NothingToCompare):
            model_config(source)
    return claims


def _opened(source: RepoRef | Signature, options: Options, is_base: bool = False) -> OpenedModel | verdict.Verdict:
    """An opened model, or the verdict that says why there is nothing to compare."""
    return attempt(lambda: open_model(source, options, is_base), NothingToCompare)


def _judge_claim(candidate: OpenedModel | verdict.Verdict, claim: Claim, options: Options) -> Row:
    """The row of one claim: an error of the base becomes its verdict, an error of the candidate is raised."""
    if claim.problem:
        return Row(claim, verdict.Unverifiable(claim.problem))
    if isinstance(candidate, verdict.Verdict):
        return Row(claim, candidate)
    source = attempt(lambda: _base(claim, options.local_hub), *VERDICTS)
    if isinstance(source, verdict.Verdict):
        return Row(claim, source)
    base = attempt(lambda: open_model(source, options, is_base=True), *VERDICTS)
    if isinstance(base, OpenedModel) and base.identity == candidate.identity is not None and claim.sources != NAMED:
        return Row(claim, verdict.Unverifiable("the model declares itself as its base"), source.revision)
    return _row(claim, base, candidate, options, source.revision)


def _as_merge(rows: Sequence[Row], min_share: float) -> tuple[Row, ...]:
    """All rows, in which the parents that a merge declares are judged together."""
    outcomes = iter(judge_merge([row.verdict for row in rows if row.claim.relation == MERGE], min_share))
    return tuple(replace(row, verdict=next(outcomes)) if row.claim.relation == MERGE else row for row in rows)


def _row(
    claim: Claim,
    base: OpenedModel | verdict.Verdict,
    candidate: OpenedModel | verdict.Verdict,
    options: Options,
    revision: str | None = None,
) -> Row:
    """The row of a claim on two models; `revision` is the commit of a base that could not be opened."""
    outcome, notes = judged_every_way(base, candidate, options)
    opened_base, opened_candidate = both = [
        model if isinstance(model, OpenedModel) else None for model in (base, candidate)
    ]
    return Row(
        claim,
        outcome,
        base_revision=opened_base.revision if opened_base else revision,
        layers=opened_candidate.layers if opened_candidate else None,
        traffic={model.name: done for model in both if model and (done := model.downloads())},
        base_origin=opened_base.origin if opened_base else None,
        model_origin=opened_candidate.origin if opened_candidate else None,
        notes=notes,
    )


def _base(claim: Claim, local_hub: Path | None) -> RepoRef | Signature:
    """The source of a base: what a repository declares is a name on the Hub, never a folder of this machine."""
    if claim.sources == NAMED:
        return locate_base(claim.base, local_hub)
    return resolve(claim.base, local_hub, folders=False)
