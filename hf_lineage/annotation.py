"""Annotation: what a check found, written into the card of the model and into the record beside it."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from hf_lineage import card, hub, publishing
from hf_lineage.atomic import write_atomically
from hf_lineage.claims import CARD
from hf_lineage.errors import CardError, LineageError, OptionError, printable
from hf_lineage.files import is_folder
from hf_lineage.naming import is_path, locate_weights
from hf_lineage.options import Options
from hf_lineage.pipeline import Report, check_source
from hf_lineage.publishing import SAME
from hf_lineage.repo import RepoRef, hub_name
from hf_lineage.report import difference, record, same, section

FILES = (record.FILE, CARD)
"""In the order in which they are written."""
TITLE = "Add what hf-lineage found to the model card"
"""Of the commit and of the pull request, by which an open one is found again."""
DESCRIPTION = (
    "The section between the markers of hf-lineage says for each declared base whether the weights bear it out, with "
    f"the commits and the command to check it again; `{record.FILE}` says the same to programs."
)
Target = Literal["preview", "write", "pull-request"]


@dataclass(frozen=True)
class Repair:
    """What the card's YAML is to say: the base, and the relation unless that is None."""

    base: str
    relation: str | None = None


@dataclass(frozen=True)
class Annotation:
    """A judged model, and what its files are to say."""

    repo: RepoRef
    branch: str | None
    report: Report
    names: Mapping[str, str]
    """What stands in public for names that only this machine knows."""
    repair: Repair | None
    today: datetime.date
    before: Mapping[str, bytes]

    @property
    def verdicts(self) -> str:
        """A line for each claim."""
        claims = record.build(self.report, self.repo.revision, self.today, self.names).claims
        return "".join(f"{claim.base}: {claim.words}\n" for claim in claims)

    def changes(self, before: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the files that must change where these are there now; none if they say what they should."""
        found = self._record(record.decode(before.get(record.FILE)))
        text = card.read(before.get(CARD))
        if self.repair:
            text = card.with_base(text, self.repair.base, self.repair.relation)
        text = card.with_section(text, section.render(found))
        after = dict(zip(FILES, (record.encode(found), card.written(text)), strict=True))
        return {file: content for file, content in after.items() if before.get(file) != content}

    def _record(self, old: record.Record | None) -> record.Record:
        """What was measured today, or the old record if it says the same about the same weights.

        The commit may differ, for writing the card makes one, and so may figures that rest on a draw.
        """
        if old and old.claims and old.claims[0].date <= self.today:
            again = record.build(self.report, old.commit, old.claims[0].date, self.names)
            if same.says_the_same(old, again, self.report) and self._same_weights(old.commit):
                return old
        return record.build(self.report, self.repo.revision, self.today, self.names)

    def _same_weights(self, commit: str | None) -> bool:
        now = self.repo.revision
        if commit == now or commit is None or now is None or self.repo.remote is None:
            return commit == now
        return bool(hub.COMMIT.fullmatch(commit)) and publishing.same_files(self.repo.remote, commit, now, FILES)


def annotate(
    model: str,
    bases: Sequence[str] = (),
    options: Options | None = None,
    target: Target = "preview",
    repair: Repair | None = None,
) -> Annotation:
    """Judge a model as `check` does and return what its card is to say; nothing is written yet.

    Raise LineageError where there is nothing to judge, or where the card cannot be edited, which is known before
    weights are read.
    """
    options = options or Options()
    return annotate_source(model, locate_weights(model, options.local_hub), bases, options, target, repair)


def annotate_source(
    model: str, repo: RepoRef, bases: Sequence[str], options: Options, target: Target, repair: Repair | None = None
) -> Annotation:
    """Do what `annotate` does for a model that was located already."""
    branch = model.partition("@")[2] or None if repo.remote else None
    _refuse(repo, branch, target)
    before = _files(repo)
    record.decode(before.get(record.FILE))
    text = card.with_section(card.read(before.get(CARD)), "")
    names = _names(model, repo, (*bases, *options.nulls), options.local_hub)
    if repair:
        _refuse_repair(repair, names.get(model, model), names)
        card.with_base(text, repair.base, repair.relation)
    report = check_source(model, repo, bases, options)
    if not report.rows:
        raise OptionError(f"{model} declares no base, so there is nothing to write; name one with --base")
    if repair:
        report, repair = _supported(report, repair)
    return Annotation(repo, branch, report, names, repair, datetime.datetime.now(datetime.UTC).date(), before)


def preview(annotation: Annotation) -> str:
    """Return what would change, as a diff."""
    before, changes = annotation.before, annotation.changes(annotation.before)
    if not changes:
        return SAME
    shown = "".join(
        difference.render(file, before.get(file), changes[file]) for file in reversed(FILES) if file in changes
    )
    return f"{shown}Nothing was written; --write changes the files, --pull-request proposes the change on the Hub."


def write(annotation: Annotation) -> str:
    """Write what changes into the folder, or commit it to the branch on the Hub; return what was done."""
    repo, changes = annotation.repo, annotation.changes(annotation.before)
    if not changes:
        return SAME
    if repo.remote is None or repo.revision is None:
        _write_folder(repo, annotation.before, changes)
        return f"Wrote {' and '.join(changes)}."
    url = publishing.commit(
        repo.remote, changes, repo.revision, TITLE, commit_description=DESCRIPTION, revision=annotation.branch
    )
    return f"Committed: {printable(url)}"


def propose(annotation: Annotation) -> str:
    """Open a pull request with what changes, or bring the one that is open up to date; return what was done.

    Raise OptionError for a folder, and for a branch that is not the main one.
    """
    repo = annotation.repo
    _refuse(repo, annotation.branch, "pull-request")
    name, checked = repo.remote or "", repo.revision or ""

    def changes(commit: str) -> dict[str, bytes]:
        if commit == checked:
            return annotation.changes(annotation.before)
        folder, _ = hub.snapshot(name, commit, FILES)
        return annotation.changes(_files(replace(repo, folder=folder, revision=commit)))

    return publishing.propose(name, TITLE, DESCRIPTION, checked, changes)


TARGETS: dict[Target, Callable[[Annotation], str]] = {"preview": preview, "write": write, "pull-request": propose}


def _files(repo: RepoRef) -> dict[str, bytes]:
    """The card and the record, as far as they are there."""
    repo.fetch(*FILES)
    found = {file: repo.read_bytes(file) for file in FILES}
    return {file: content for file, content in found.items() if content is not None}


def _refuse(repo: RepoRef, branch: str | None, target: Target) -> None:
    """What could not be written in the end is not begun."""
    if target == "pull-request" and repo.remote is None:
        raise OptionError(f"{repo} is a folder, and pull requests are for the Hub; use --write")
    if target == "pull-request" and branch not in (None, "main"):
        raise OptionError(f"{repo}: a pull request is made against the main branch; leave @{branch} out")
    if target == "write" and branch and hub.COMMIT.fullmatch(branch):
        raise OptionError(f"{repo} names a commit, which stays as it is; name a branch instead, or none")
    links = [path for path in ("lineage", *FILES) if repo.remote is None and repo.path(path).is_symlink()]
    if target == "write" and links:
        raise CardError(f"{repo}: {links[0]} is a link, perhaps into a cache that others share; annotate the original")


def _refuse_repair(repair: Repair, model: str, names: Mapping[str, str]) -> None:
    name = hub_name(repair.base)
    if repair.base in names or name is None:
        raise OptionError(
            f"{printable(repair.base, 200)} is no name on the Hub, so no card can declare it; give its name"
        )
    if name == model:
        raise OptionError(f"{name} cannot be its own base; name another with --base")


def _supported(report: Report, repair: Repair) -> tuple[Report, Repair]:
    """The one row with the relation that the user gives it, and the name to be declared; only for what is verified."""
    (row,) = report.rows
    if not row.verdict.verified:
        raise CardError(
            f"{row.claim.base} is {row.verdict.words}, and only a verified base is declared; leave --repair-base out"
        )
    claim = replace(row.claim, relation=repair.relation or row.claim.relation)
    name = hub_name(repair.base) or repair.base
    return replace(report, rows=(replace(row, claim=claim),)), replace(repair, base=name)


def _names(model: str, repo: RepoRef, others: Sequence[str], local_hub: Path | None) -> dict[str, str]:
    """What stands in public for folders and files of this machine, and for a branch: commits are named beside it."""
    in_hub = local_hub and hub_name(model) and is_folder(str(local_hub / model))
    on_disk = [name for name in others if is_path(name)] + ([] if in_hub else [model])
    names = {name: f"./{Path(name).resolve().name}" for name in on_disk}
    return names | ({model: repo.remote} if repo.remote else {})


def _write_folder(repo: RepoRef, before: Mapping[str, bytes], changes: Mapping[str, bytes]) -> None:
    """All files or none: the record first, and what it was again if the card cannot be written."""
    if _files(repo) != before:
        raise CardError(f"{repo}: {' or '.join(FILES)} changed while the model was checked; run again")
    repo.path(record.FILE).parent.mkdir(exist_ok=True)
    try:
        for file in changes:
            write_atomically(repo.path(file), changes[file])
    except LineageError:
        with contextlib.suppress(OSError, LineageError):
            _restore(repo.path(record.FILE), before.get(record.FILE))
        raise


def _restore(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink(missing_ok=True)
        file.parent.rmdir()
    else:
        write_atomically(file, content)
