"""Annotation: the result of a check, written to the card of the model and to the record beside it."""

import contextlib
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from hf_lineage import stored
from hf_lineage.checking.check import check_source
from hf_lineage.checking.report import Report
from hf_lineage.claims import card
from hf_lineage.claims.sources import CARD
from hf_lineage.errors import CardError, LineageError, OptionError, printable
from hf_lineage.evidence.verdict import Code, Word
from hf_lineage.files.atomic import make_folder, write_atomically
from hf_lineage.files.paths import link_on_the_way
from hf_lineage.hub import client, commits
from hf_lineage.hub.repo import RepoRef
from hf_lineage.report import json, wording
from hf_lineage.report.command import public
from hf_lineage.report.findings import state_first
from hf_lineage.report.json import RECORD, encode
from hf_lineage.report.markdown import paragraph, table
from hf_lineage.source.locate import locate_model, weights
from hf_lineage.source.options import Options

LONGEST = 500  # characters of a name or a reason


def render(document: Mapping[str, Any], first: Sequence[str] = ()) -> str:
    """Return a JSON report as Markdown of at most ten lines for one claim; sentences that come first are given."""
    claims, rows, reasons = document["claims"], [], []
    for claim in claims:
        score, p_value, inherited = claim["score"], claim["p_value_adjusted"], claim["inherited"]
        base, share = printable(claim["base"], LONGEST), inherited and inherited["share"]
        numbers = zip((score, share, p_value), (".3f", ".0%", ".3g"), strict=True)
        cells = ("–" if value is None else format(value, spec) for value, spec in numbers)
        rows.append((base, Code(claim["code"]).label, *cells))
        if claim["reason"] and not claim["verified"]:
            reason = printable(claim["reason"], LONGEST).removeprefix(f"{base}: ")
            reasons.append(paragraph(f"{base}: {reason}"))
    pinned = {document["model"]: document["commit"]} | {claim["base"]: claim["base_commit"] for claim in claims}
    named = ", ".join(f"{printable(name, LONGEST)} at {commit}" for name, commit in pinned.items() if commit)
    tool = f"{document['tool']['name']} {document['tool']['version']}{named and f' ({paragraph(named)})'}"
    made = f"Checked by {tool}. Every number: [{RECORD}]({RECORD}). {wording.MEANING}"
    commands = dict.fromkeys(f"$ {printable(claim['command'])}" for claim in claims)
    claimed = table(("Base", "Verdict", "Score", "Inherited", "p"), rows)
    console = "\n".join(("```console", *commands, "```"))
    return "\n\n".join(["## Lineage", *map(paragraph, first), claimed, *reasons, made, console])


FILES = (RECORD, CARD)  # in the order in which they are written
TITLE = "Add the results of hf-lineage to the model card"  # by which an open pull request is recognised
DESCRIPTION = (
    "For each declared base, the section between the markers of hf-lineage says whether the weights confirm it, and "
    f"gives the commits and the command that checks it again. `{RECORD}` holds every number for programs."
)
Target = Literal["preview", "write", "pull-request"]


@dataclass(frozen=True)
class Annotation:
    """A judged model, and what has to be written to its files."""

    repo: RepoRef
    branch: str | None
    report: Report
    before: Mapping[str, bytes]

    @property
    def verdicts(self) -> str:
        """One line for each claim, with its verdict."""
        rows = public(self.report).rows
        return "".join(f"{printable(row.claim.base, 500)}: {row.verdict.label}\n" for row in rows)

    def changes(self, before: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the new content of the files that change; a record that says the same of the same weights stays."""
        content, commit, name = before.get(RECORD), self.repo.commit, self.repo.remote
        old, current = _decode_record(content), json.publish_report(self.report)
        if old and content:
            same = old.commit == commit
            if not same and old.commit and commit and name and client.COMMIT.fullmatch(old.commit):
                same = commits.same_files(name, old.commit, commit, FILES)
            record: dict[str, Any] = msgspec.json.decode(content)
            if same and stored.alike(record, json.publish_report(replace(self.report, commit=old.commit))):
                current = record
        text = render(current, tuple(state_first(public(self.report))))
        text = card.with_section(card.read_text(before.get(CARD)), text)
        after = {RECORD: encode(current).encode(), CARD: card.encode_card(text)}
        return {file: content for file, content in after.items() if before.get(file) != content}


def annotate(
    model: str, bases: Sequence[str] = (), options: Options | None = None, target: Target = "preview"
) -> Annotation:
    """Judge a model as `check` does, from all layers, and return what is to be written to its card; or LineageError."""
    options = options or Options()
    if options.budget == "quick":
        raise OptionError("a card is written from all layers, so that it can be made again; leave --budget quick out")
    options = replace(options, budget="full", seed=options.seed or 0)
    source = weights(model, locate_model(model, options))
    repo = replace(source, subfolder="")
    branch = model.partition("@")[2] or None if repo.remote else None
    _refuse(repo, branch, target)
    before = _files(repo)
    old = _decode_record(before.get(RECORD))
    card.with_section(card.read_text(before.get(CARD)), "")  # one that cannot be edited is refused before the check
    report = check_source(model, source, bases, options)
    if not report.rows:
        raise OptionError(f"{model} declares no base, so there is nothing to write; name a base with --base")
    verified = {claim.base for claim in old.claims if claim.verdict == Word.VERIFIED} if old else set()
    for row in report.rows:
        if client.offline() and row.claim.base in verified and row.verdict.code.is_unjudged:
            raise CardError(
                f"{printable(row.claim.base, 200)} was verified before ({RECORD} records it), but cannot be read now "
                "because HF_HUB_OFFLINE forbids requests; unset HF_HUB_OFFLINE to keep the record"
            )
    return Annotation(repo, branch, report, before)


def preview(annotation: Annotation) -> str:
    """Return what would change: a unified diff of the card, escaped, and that the record is another one."""
    changes = annotation.changes(annotation.before)
    if not changes:
        return commits.SAME
    lines, before = list[str](), annotation.before.get(CARD)
    if CARD in changes:
        texts = (text.decode(errors="surrogateescape") for text in (before or b"", changes[CARD]))
        old, new = (text.removesuffix("\n").split("\n") for text in texts)
        names = "/dev/null" if before is None else f"a/{CARD}", f"b/{CARD}"
        diff = difflib.unified_diff(old if before else [], new, *names, lineterm="")
        lines = [printable(line.rstrip("\r")) for line in diff]
    if RECORD in changes:
        which = "another" if RECORD in annotation.before else "a new"
        lines.append(f"{RECORD}: {which} JSON report, with every number")
    lines.append("Nothing was written; --write changes the files, --pull-request proposes the change on the Hub.")
    return "\n".join(lines)


def write(annotation: Annotation) -> str:
    """Write what changes into the folder, all files or none, or commit it on the Hub; return what was done."""
    repo, before, changes = annotation.repo, annotation.before, annotation.changes(annotation.before)
    if not changes:
        return commits.SAME
    if repo.remote is not None and repo.commit is not None:
        about = {"commit_description": DESCRIPTION, "revision": annotation.branch}
        return f"Committed: {printable(commits.commit(repo.remote, changes, repo.commit, TITLE, **about))}"
    if _files(repo) != before:
        raise CardError(f"{repo}: {' or '.join(FILES)} changed while the model was checked; run again")
    _refuse_links(repo)
    record, content = repo.path(RECORD), before.get(RECORD)
    make_folder(record.parent)
    try:
        for file in changes:
            write_atomically(repo.path(file), changes[file])
    except LineageError:
        with contextlib.suppress(OSError, LineageError):
            if content is not None:
                write_atomically(record, content)
            else:
                record.unlink(missing_ok=True)
                record.parent.rmdir()
        raise
    return f"Wrote {' and '.join(changes)}."


def propose(annotation: Annotation) -> str:
    """Open a pull request with the changes, or update the open one, against main; return what was done."""
    repo = annotation.repo
    _refuse(repo, annotation.branch, "pull-request")
    name, checked = repo.remote or "", repo.commit or ""

    def changes(commit: str) -> dict[str, bytes]:
        if commit == checked:
            return annotation.changes(annotation.before)
        folder, _ = client.snapshot(name, commit, FILES)
        return annotation.changes(_files(replace(repo, folder=folder, commit=commit)))

    return commits.propose(name, TITLE, DESCRIPTION, checked, changes)


TARGETS: dict[Target, Callable[[Annotation], str]] = {"preview": preview, "write": write, "pull-request": propose}


def _files(repo: RepoRef) -> dict[str, bytes]:
    repo.fetch(*FILES)
    contents = {file: repo.read_bytes(file) for file in FILES}
    return {file: content for file, content in contents.items() if content is not None}


def _refuse(repo: RepoRef, branch: str | None, target: Target) -> None:
    if target == "pull-request" and repo.remote is None:
        raise OptionError(f"{repo} is a folder, but pull requests are for the Hub; use --write")
    if target == "pull-request" and branch not in (None, "main"):
        raise OptionError(f"{repo}: a pull request is made against the main branch; leave @{branch} out")
    if target == "write" and branch and client.COMMIT.fullmatch(branch):
        raise OptionError(f"{repo} names a commit, which cannot change; name a branch instead, or none")
    if target == "write" and repo.remote is None:
        _refuse_links(repo)


def _refuse_links(repo: RepoRef) -> None:
    """Raise CardError where what would be written lies elsewhere: whoever wrote a checkout chose where links lead."""
    if links := [path for path in ("lineage", *FILES) if repo.path(path).is_symlink()]:
        raise CardError(f"{repo}: {links[0]} is a link, perhaps into a shared cache; annotate the original")
    if link := link_on_the_way(repo.folder):
        where = "name the file or folder that it leads to"
        raise CardError(f"{repo}: {link} is a link, and hf-lineage does not write through links; {where}")


def _decode_record(content: bytes | None) -> stored.StoredReport | None:
    """Return the record of an earlier run; None where there is none of this version, CardError for another file."""
    return None if content is None or stored.is_older(content, RECORD) else stored.decode(content, RECORD)
