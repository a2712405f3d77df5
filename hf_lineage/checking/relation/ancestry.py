"""Ancestry: the licences along the descent of a model, of each base that its weights bear out and of those behind it.

What a base declares is a claim of its card: whoever wrote it chose the names. So at most a few bases behind it are
followed, none twice, and each is told with what its weights say, if they were compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from hf_lineage.checking.options import Options
from hf_lineage.checking.relation.declared import is_named, names_in
from hf_lineage.checking.results import Row
from hf_lineage.claims import Ancestor, Claim, licence_files, read_claims, stated
from hf_lineage.errors import LineageError
from hf_lineage.hub import RepoRef, resolve, spelled

MOST = 8
"""Bases behind those of a model that are followed."""
MANY = f"no more than {MOST} bases behind those of the model are followed"
AWAY = "it is on the Hub, of which nothing is fetched for a base on this machine; --set ancestors=yes fetches it"
Compared = Callable[[Claim], Sequence[Row]]
"""Compares the model with one more base."""


def with_ancestors(model: RepoRef, rows: Sequence[Row], options: Options, compared: Compared) -> tuple[Row, ...]:
    """Return the rows of a model, those of related bases with the bases behind each.

    A base behind several stands with the first. The weights of those behind are compared if the options ask for it.
    """
    names, own, seen = names_in(model), licence_files(model), {model.identity[0]}

    def ancestors(row: Row) -> Iterator[Ancestor]:
        repo = row.opened.repo if row.opened else row.base_folder
        declared_by = model.name if is_named(row.claim.base, names) else ""
        yield _read(Ancestor(row.claim.base, declared_by, row.licence, verdict=row.verdict.words), repo, own)
        if repo is not None:
            seen.add(repo.identity[0])
            yield from _behind(repo, own, options, seen, compared)

    return tuple(replace(row, ancestors=tuple(ancestors(row))) if row.verdict.is_related else row for row in rows)


def with_undeclared(model: RepoRef, row: Row, parents: Mapping[str, RepoRef]) -> Row:
    """Return a row with parents that show and that no file of the model declares, by their names."""
    own = licence_files(model)
    undeclared = (_read(Ancestor(name, licence=stated(repo)), repo, own) for name, repo in parents.items())
    return replace(row, ancestors=(*row.ancestors, *undeclared))


def _read(ancestor: Ancestor, repo: RepoRef | None, own: frozenset[str]) -> Ancestor:
    """A base with the files for its licence, of which the model has `own`."""
    asked = ancestor.licence.asks if ancestor.licence else frozenset()
    return replace(ancestor, missing=tuple(sorted((asked | (licence_files(repo) if repo else asked)) - own)))


def _behind(
    base: RepoRef, own: frozenset[str], options: Options, seen: set[str], compared: Compared
) -> Iterator[Ancestor]:
    """The bases behind one, those that are near first; `seen` are all models that were told before."""
    queue, told = [base], 0
    for child in queue:
        for claim in _declared(child):
            ancestor = Ancestor(claim.base, child.name)
            further = _located(claim, child, options)
            if isinstance(further, RepoRef) and further.identity[0] in seen:
                continue
            told += 1
            if told > MOST:
                yield replace(ancestor, problem=MANY)
                return
            if isinstance(further, str):
                yield replace(ancestor, problem=further)
                continue
            seen.add(further.identity[0])
            rows = compared(claim) if options.ancestors else ()
            verdicts = ", ".join(dict.fromkeys(row.verdict.words for row in rows))
            yield _read(replace(ancestor, licence=stated(further), verdict=verdicts), further, own)
            if not rows or any(row.verdict.is_related for row in rows):
                queue.append(further)


def _declared(repo: RepoRef) -> tuple[Claim, ...]:
    try:
        return read_claims(replace(repo, subfolder="")).claims
    except LineageError:
        return ()


def _located(claim: Claim, child: RepoRef, options: Options) -> RepoRef | str:
    """The repository of a base that another one declares; or why there is none."""
    if claim.problem:
        return claim.problem
    hub = options.local_hub
    if child.remote is None and not options.ancestors and not (hub and spelled(hub, claim.base)):
        return AWAY
    try:
        return resolve(claim.base, hub, folders=False)
    except LineageError as error:
        return str(error)
