"""What GitHub's runner says of the event that started a workflow, and commits to check out."""

import json
import subprocess

from tests.cli.test_pre_commit import committed

REPOSITORY, FORK = {"id": 1}, {"id": 2}


def commit(folder, **files):
    """Write files, commit everything in the folder, and return the commit."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8", newline="")
    committed(folder)
    return git(folder, "rev-parse", "HEAD")


def git(folder, *arguments):
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def started(room, name, sha, told=None, ref="refs/heads/main"):
    """The environment of a step whose workflow an event started; the repository has the number 1."""
    file = room / "event.json"
    file.write_text(json.dumps({} if told is None else told))
    return {
        "GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(file), "GITHUB_SHA": sha, "GITHUB_REF": ref,
        "GITHUB_REPOSITORY_ID": "1",
    }  # fmt: skip


def request(head, base=REPOSITORY, sha="0" * 40):
    """What the event of a pull request tells of both sides."""
    return {"pull_request": {"head": {"repo": head, "sha": sha}, "base": {"repo": base}}}
