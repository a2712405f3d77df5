"""The pipeline: what the commands do, as a few short functions of the model names."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hf_lineage import interim, verdict
from hf_lineage.claims import Claim, Claims, read_claims
from hf_lineage.errors import CheckpointError, NothingToCompare, RepositoryError
from hf_lineage.evaluate import judge_merge
from hf_lineage.judgement import judgeable
from hf_lineage.naming import locate, locate_base, locate_weights
from hf_lineage.opened import known_class, model_config, open_header, open_model
from hf_lineage.options import Options
from hf_lineage.origin import Origin
from hf_lineage.repo import RepoRef, resolve
from hf_lineage.signature import Signature
from hf_lineage.subject import Subject, Traffic, open_subject
from hf_lineage.variants import judged_every_way

if TYPE_CHECKING:
    from hf_lineage.inspection import Inspection
    from hf_lineage.sharing import Shared
    from hf_lineage.suggestion import Suggestion

NAMED = ("--base",)
"""The source of a claim that the user makes, not the model."""
MERGE = "merge"
"""The relation of a model to several parents."""


@dataclass(frozen=True)
class Row:
    """One claim and what became of it."""

    claim: Claim
    verdict: verdict.Verdict
    base_revision: str | None = None
    """The commit of the base; None for a folder, and where the base was not to be had."""
    layers: int | None = None
    """How many the model has, of which the verdict may have needed a few; None if it was not opened."""
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    """By model what came over the network so far, of those that are on the Hub."""
    base_origin: Origin | None = None
    model_origin: Origin | None = None
    """Where the numbers came from; None of what was not opened."""
    notes: tuple[str, ...] = ()
    """Sentences about what lies beside the weights of both and was not read, and how else the model may be loaded."""


@dataclass(frozen=True)
class Report:
    """Every claim about one model, judged."""

    model: str
    revision: str | None
    rows: tuple[Row, ...]
    conflicts: tuple[str, ...]
    options: Options
    source: RepoRef | None = None
    """Where the files of the model are; None for a stored signature."""

    @property
    def exit_code(self) -> verdict.ExitCode:
        """The worst of the rows; undecided where nothing is declared."""
        codes = [row.verdict.exit_code for row in self.rows] or [verdict.ExitCode.UNDECIDED]
        return max(codes, key=verdict.SEVERITY.index)


def check(model: str, bases: Sequence[str] = (), options: Options | None = None) -> Report:
    """Judge what a model declares about its base, or the bases named instead: one row for each claim.

    Raise LineageError if the model itself cannot be found or read; what is wrong with a base stands in its row.

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
    """Do what `check` does for a model that was located already: nothing is asked of the Hub about it again."""
    options = _ordered(options)
    declared = _named(bases) if bases else _declared(source)
    rows: tuple[Row, ...] = ()
    if declared.claims:
        suspect = judgeable(source, options)
        rows = _as_merge([_judge_claim(suspect, claim, options) for claim in declared.claims], options)
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
    base, suspect = (judgeable(source, options, is_base=source is sources[0]) for source in sources)
    row = _row(Claim(a, None, NAMED), base, suspect, options)
    return Report(b, sources[1].revision, (row,), (), options, _repository(sources[1]))


def extract(model: str, options: Options | None = None) -> Signature:
    """Return the signature of a model along the paths asked for; raise LineageError if there is none to be had.

    >>> from hf_lineage import Options, extract
    >>> signature = extract("examples/hub/acme/llama-base", Options(paths=("mlp", "value_output")))
    >>> {path: found.sketch.shape for path, found in signature.paths.items()}
    {'mlp': (6, 96, 64), 'value_output': (6, 96, 64)}
    """
    options = options or Options()
    return open_subject(locate(model, options.local_hub), options).signature()


def share(model: str, options: Options | None = None, to: str | None = None) -> tuple[Signature, Shared]:
    """Propose the signature of a model to its repository on the Hub, or to a repository of signatures.

    Raise LineageError if there is none to be had, or where it cannot be written.
    """
    from hf_lineage import sharing

    options = options or Options()
    repo = locate_weights(model, options.local_hub)
    sharing.refuse(repo, options, to)
    signature = open_subject(repo, options).signature()
    return signature, sharing.propose(repo, known_class(repo)[1], signature, to)


def inspect(model: str, options: Options | None = None) -> Inspection:
    """Return what one model shows by itself along every path it has; raise LineageError if it cannot be read.

    >>> from hf_lineage import inspect
    >>> inspect("examples/hub/acme/gpt2-base").pairings["mlp"].accuracy
    1.0
    """
    from hf_lineage.inspection import inspect_model

    repo = locate_weights(model, (options or Options()).local_hub)
    return inspect_model(repo, *open_model(repo))


def suggest(model: str, options: Options | None = None) -> Suggestion:
    """Return what the registry could make of a model that it does not list; LineageError if it cannot be read."""
    from hf_lineage.suggestion import survey

    repo = locate_weights(model, (options or Options()).local_hub)
    return survey(repo.name, *open_header(repo))


def _ordered(options: Options) -> Options:
    """The options of one report, with a seed that nobody knew beforehand for what is drawn anew each time."""
    return options if options.order_seed is not None else replace(options, order_seed=interim.drawn_seed())


def _repository(source: RepoRef | Signature) -> RepoRef | None:
    return None if isinstance(source, Signature) else source


def _named(bases: Sequence[str]) -> Claims:
    return Claims(tuple(Claim(base, None, NAMED) for base in bases), ())


def _declared(source: RepoRef | Signature) -> Claims:
    """A stored signature declares nothing: claims stand in the files of a repository.

    Nothing declared is nothing to download, yet a folder that holds no model at all is an error.
    """
    if isinstance(source, Signature):
        return Claims((), ())
    found = read_claims(source)
    if not found.claims:
        with contextlib.suppress(NothingToCompare):
            model_config(source)
    return found


def _judge_claim(suspect: Subject | verdict.Unverifiable, claim: Claim, options: Options) -> Row:
    """What is wrong with the base becomes a verdict; what is wrong with the suspect is raised."""
    if claim.problem:
        return Row(claim, verdict.Unverifiable(claim.problem))
    if isinstance(suspect, verdict.Unverifiable):
        return Row(claim, suspect)
    revision = None
    try:
        source = _base(claim, options)
        revision = source.revision
        base = judgeable(source, options, is_base=True)
    except RepositoryError as error:
        return Row(claim, verdict.Unverifiable(str(error)), revision)
    except CheckpointError as error:
        return Row(claim, verdict.Unreadable(str(error)), revision)
    if isinstance(base, Subject) and base.identity == suspect.identity is not None and claim.sources != NAMED:
        return Row(claim, verdict.Unverifiable("the model declares itself as its base"), revision)
    return _row(claim, base, suspect, options, revision)


def _as_merge(rows: Sequence[Row], options: Options) -> tuple[Row, ...]:
    """All rows, those of a declared merge judged as its parents together."""
    outcomes = iter(judge_merge([row.verdict for row in rows if row.claim.relation == MERGE], options.min_share))
    return tuple(replace(row, verdict=next(outcomes)) if row.claim.relation == MERGE else row for row in rows)


def _row(
    claim: Claim,
    base: Subject | verdict.Unverifiable,
    suspect: Subject | verdict.Unverifiable,
    options: Options,
    revision: str | None = None,
) -> Row:
    """A claim, judged; `revision` is that of a base that could not be opened."""
    outcome, notes = judged_every_way(base, suspect, options)
    ours, theirs = (model if isinstance(model, Subject) else None for model in (base, suspect))
    return Row(
        claim,
        outcome,
        base_revision=ours.revision if ours else revision,
        layers=theirs.layers if theirs else None,
        traffic={model.name: moved for model in (ours, theirs) if model and (moved := model.traffic())},
        base_origin=ours.origin if ours else None,
        model_origin=theirs.origin if theirs else None,
        notes=notes,
    )


def _base(claim: Claim, options: Options) -> RepoRef | Signature:
    """Where a base is: what a repository declares is a name on the Hub, and no folder of this machine."""
    if claim.sources == NAMED:
        return locate_base(claim.base, options.local_hub)
    return resolve(claim.base, options.local_hub, folders=False)
