"""Family: the models of a ledger and the bases they declare as a family tree, kept on a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hf_lineage.checking import Options
from hf_lineage.files import write_output
from hf_lineage.index.building import Progress, gather
from hf_lineage.index.tree import criteria, grow
from hf_lineage.report.tree import FORMATS
from hf_lineage.watch.ledger import Entry
from hf_lineage.watch.rendering import Run

MOST = 100
"""Models of a ledger in one tree, those that changed last: a signature takes megabytes, and all pairs are compared."""


def keep(run: Run, names: Sequence[str], page: Path, options: Options, progress: Progress = iter) -> list[str]:
    """Write the tree of what is watched under these names, and return what is missing in it, each with the reason.

    A page that is there stays as it is after a run without a new entry. Raise OSError if it cannot be written.
    """
    if not run.entries and page.exists():
        return []
    watched = [entry for entry in run.latest if entry.watched in names]
    shown = sorted(watched, key=lambda entry: (entry.changed, entry.model), reverse=True)[:MOST]
    gathered = gather(list(_models(shown)), options, progress, on_hub=True)
    members = [replace(member, name=member.name.partition("@")[0]) for member in gathered.members]
    tree = grow(members, options.paths[0], criteria(options.paths[0]))
    write_output(page, FORMATS["html"](tree).encode())
    left = len(watched) - len(shown)
    return [*([f"{left} of the models, which changed before the {MOST} others"] if left else []), *gathered.problems]


def _models(entries: Sequence[Entry]) -> Iterator[str]:
    """The names of models and of the bases that they declare, each at one commit."""
    named = {entry.model.casefold(): f"{entry.model}@{entry.commit}" for entry in entries if not entry.error}
    for entry in entries:
        for claim in entry.claims:
            if claim.base_commit and not entry.error:
                base = claim.base.partition("@")[0]
                named.setdefault(base.casefold(), f"{base}@{claim.base_commit}")
    yield from named.values()
