"""Whose `lineage.yaml` lies in a checkout: that of this repository, or of somebody who proposes a change to it.

What is checked out decides. Workflows of `issue_comment`, `check_run` and the like run on the default branch and check
out what others propose, and other steps put models of others into the working directory. The event says no more than
which commits are the repository's own; what is unknown is not.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from hf_lineage.checking import FILE
from hf_lineage.errors import LineageError
from hf_lineage.files import is_file, open_regular
from hf_lineage.hub import RepoRef
from hf_lineage.signature import Signature

LARGEST = 2**24
"""Bytes of a policy, and of the file with the event that started the workflow; GitHub's are smaller."""
BRANCH_EVENTS = frozenset({"push", "schedule", "workflow_dispatch", "release"})
"""Events whose GITHUB_SHA is a commit of a branch or of a tag of the repository."""
REQUEST_EVENTS = frozenset({"pull_request", "pull_request_target"})
BRANCHES = ("refs/heads/", "refs/tags/")
MERGE_QUEUE = "refs/heads/gh-readonly-queue/"
"""Branches that GitHub makes of pull requests, those from forks as well, and that are pushed like any other."""
SECONDS = 60
UNKNOWN = (OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError)
"""What reading an event raises that does not tell what it should."""
ALONE = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
"""What keeps git from fetching an object that is missing, and so from running what fetches it."""


def is_own(locate: Callable[[], RepoRef | Signature], environ: Mapping[str, str]) -> bool:
    """Return whether the policy of a model is the one in a commit of this repository that is checked out there."""
    try:
        own = _own_commits(environ)
        source = locate() if own else None
        if not isinstance(source, RepoRef) or source.remote is not None:
            return False
        file = source.folder.resolve() / FILE
        commit, policy = _checked_out(file)
        return commit in own and policy in _blob_ids(file)
    except (*UNKNOWN, LineageError, subprocess.SubprocessError):
        return False  # such as a pull request of a fork that is gone, which has no repository


def _own_commits(environ: Mapping[str, str]) -> frozenset[str]:
    """The commits that the event names of branches and tags of this repository; none if it tells of a fork."""
    with open_regular(Path(environ["GITHUB_EVENT_PATH"])) as stream:
        event = json.loads(stream.read(LARGEST))
    name, ref, commit = (environ[f"GITHUB_{key}"] for key in ("EVENT_NAME", "REF", "SHA"))
    if name in BRANCH_EVENTS and ref.startswith(BRANCHES) and not ref.startswith(MERGE_QUEUE):
        return frozenset({commit})
    if name in REQUEST_EVENTS:
        head, base = event["pull_request"]["head"], event["pull_request"]["base"]
        if {str(side["repo"]["id"]) for side in (head, base)} == {environ["GITHUB_REPOSITORY_ID"]}:
            return frozenset({commit, head["sha"]})
    return frozenset()


def _checked_out(file: Path) -> tuple[str, str]:
    """The commit that is checked out around a file, and the object that this file is in it.

    The folder of git is searched for here: git itself would also take one that a commit holds under another name.
    """
    top, *_ = (folder for folder in file.parents if os.path.lexists(folder / ".git"))
    env = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ} | ALONE
    asked = ["rev-parse", "HEAD", f"HEAD:{file.relative_to(top).as_posix()}"]
    listing = subprocess.run(  # noqa: S603 - what is asked for is no option
        [_git(), f"--git-dir={top / '.git'}", *asked], cwd=top, env=env | {"GIT_CONFIG_GLOBAL": os.devnull},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=True,
    )  # fmt: skip
    commit, blob = listing.stdout.split()
    return commit, blob


def _git() -> str:
    """Return where git is, which is never the working directory: Windows would search that first."""
    folders = (Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep))
    paths = (shutil.which(str(folder / "git")) for folder in folders if folder.is_absolute())
    first, *_ = filter(None, paths)
    return first


def _blob_ids(file: Path) -> set[str]:
    """The names that git would give to what a file holds, with the line ends of this system and with its own."""
    if not is_file(str(file)):
        return set()
    with open_regular(file) as stream:
        content = stream.read(LARGEST)
    return {
        hashlib.new(algorithm, b"blob %d\0" % len(text) + text, usedforsecurity=False).hexdigest()
        for text in (content, content.replace(b"\r\n", b"\n"))
        for algorithm in ("sha1", "sha256")
    }
