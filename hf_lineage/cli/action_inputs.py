"""The inputs of the action, one environment variable each; and whose policy file counts.

A `lineage.yaml` may be that of somebody who proposes a change: the commit that is checked out decides, by the event.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hf_lineage import __version__
from hf_lineage.checking.report import FILE, OWN
from hf_lineage.errors import LineageError, OptionError, printable
from hf_lineage.evidence.criteria import FAIL_ON
from hf_lineage.files.paths import is_file, open_regular
from hf_lineage.hub.repo import RepoRef, hub_name
from hf_lineage.report import NAMES, renderer
from hf_lineage.signature.values import Signature
from hf_lineage.source.locate import locate, model_name

LARGEST = 2**24  # bytes of a policy, and of the file with the event that started the workflow; GitHub's are smaller
UNKNOWN = (OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError)  # of reading an odd event


def is_own(locate: Callable[[], RepoRef | Signature], environ: Mapping[str, str]) -> bool:
    """Return whether the policy of a model is the one in a commit of this repository that is checked out there."""
    try:
        own = _own_commits(environ)
        source = locate() if own else None
        if not isinstance(source, RepoRef) or source.remote is not None:
            return False
        file = source.folder.resolve() / FILE
        commit, policy = _checked_out(file)
        if commit not in own or not is_file(str(file)):
            return False
        with open_regular(file) as stream:
            content = stream.read(LARGEST)
    except (*UNKNOWN, LineageError, subprocess.SubprocessError):
        return False  # such as a pull request of a fork that is gone, which has no repository
    # The names that git would give to the content, with the line ends of this system and with its own.
    return policy in {
        hashlib.new(algorithm, b"blob %d\0" % len(text) + text, usedforsecurity=False).hexdigest()
        for text in (content, content.replace(b"\r\n", b"\n"))
        for algorithm in ("sha1", "sha256")
    }


def _own_commits(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the commits that the event names of branches and tags of this repository; none if it tells of a fork."""
    with open_regular(Path(environ["GITHUB_EVENT_PATH"])) as stream:
        event = json.loads(stream.read(LARGEST))
    name, ref, commit = (environ[f"GITHUB_{key}"] for key in ("EVENT_NAME", "REF", "SHA"))
    if name in ("push", "schedule", "workflow_dispatch", "release"):
        # The merge queue pushes branches that GitHub makes of pull requests, those from forks as well.
        branch = ref.startswith(("refs/heads/", "refs/tags/")) and not ref.startswith("refs/heads/gh-readonly-queue/")
        return frozenset({commit} if branch else ())
    if name in ("pull_request", "pull_request_target"):
        head, base = event["pull_request"]["head"], event["pull_request"]["base"]
        if {str(side["repo"]["id"]) for side in (head, base)} == {environ["GITHUB_REPOSITORY_ID"]}:
            return frozenset({commit, head["sha"]})
    return frozenset()


def _checked_out(file: Path) -> tuple[str, str]:
    """Return the commit that is checked out around a file, and the object that this file is in it.

    The folder of git, which a commit may hold under another name, and git itself are searched for here: not in the
    working directory, which Windows would search first.
    """
    top, *_ = (folder for folder in file.parents if os.path.lexists(folder / ".git"))
    folders = (Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep))
    git, *_ = filter(None, (shutil.which(str(folder / "git")) for folder in folders if folder.is_absolute()))
    # Nothing is fetched that is missing, for that would run what the checkout names.
    alone = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    env = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ} | alone
    arguments = ["rev-parse", "HEAD", f"HEAD:{file.relative_to(top).as_posix()}"]
    listing = subprocess.run(  # noqa: S603 - what is asked for is no option
        [git, f"--git-dir={top / '.git'}", *arguments], cwd=top, env=env | {"GIT_CONFIG_GLOBAL": os.devnull},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    commit, blob = listing.stdout.split()
    return commit, blob


PREFIX = "LINEAGE_"
TAKEN = ("--base", "--format", "--output", "-o", "--policy", "--fail-on", "--run", "--quiet", "-q")


@dataclass(frozen=True)
class Inputs:
    """Inputs of the workflow."""

    model: str  # name on the Hub with its revision, or a folder of the checkout as a path
    bases: tuple[str, ...]
    formats: tuple[str, ...]
    fail_on: str  # result that fails the step; empty if the policy says it, or nobody does
    policy: str  # value of --policy for the command; empty for none
    card: str  # what is done with the card: never, write or pull-request
    run: bool
    token: str
    cache: Path  # the folder in which signatures of models on the Hub are cached from one run to the next
    options: tuple[str, ...]  # further options of the command, as they are typed


def read_inputs(environ: Mapping[str, str]) -> Inputs:
    """Return the inputs; raise OptionError for one that is wrong, or for a format that lacks a package."""
    inputs = {key.removeprefix(PREFIX): value.strip() for key, value in environ.items() if key.startswith(PREFIX)}
    version = inputs.get("VERSION") or __version__
    if version.removeprefix("v") != __version__:
        raise OptionError(
            f"this is hf-lineage {__version__}, not {version}: the action installs its own version only; for another "
            "version change the ref in `uses`"
        )
    model, (policy, folder) = _model(inputs), (inputs.get(key, "") for key in ("POLICY", "LOCAL_PATH"))
    formats = tuple(_one_of(word, "formats", NAMES) for word in _words(inputs.get("FORMATS", "")))
    for name in formats:
        renderer(name)
    # The policy is the one that the workflow names, else that of the folder where it is the repository's own.
    if folder and policy in ("", OWN):
        policy = OWN if is_own(lambda: locate(model_name(Path(folder))), environ) else ""
    return Inputs(
        model=model,
        bases=tuple(_words(inputs.get("BASE", ""))),
        formats=formats,
        fail_on=_one_of(inputs["FAIL_ON"], "fail-on", FAIL_ON) if inputs.get("FAIL_ON") else "",
        policy="" if policy == "none" else policy,
        card=_one_of(inputs.get("ANNOTATE") or "never", "annotate", ("never", "write", "pull-request")),
        run=_one_of(inputs.get("RUN") or "no", "run", ("yes", "no")) == "yes",
        token=inputs.get("TOKEN", ""),
        cache=Path(environ.get("RUNNER_TEMP") or tempfile.gettempdir()) / "hf-lineage-signatures",
        options=_options(inputs),
    )


def _options(inputs: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words of the input `options`; OptionError for one that the action sets itself."""
    try:
        words = tuple(shlex.split(inputs.get("OPTIONS", "")))
    except ValueError as error:
        raise OptionError(f"the input options cannot be split into words: {error}") from None
    if stray := next((word for word in words if word.partition("=")[0] in TAKEN), ""):
        raise OptionError(f"{printable(stray, 100)} is an input of its own; leave it out of the input options")
    return words


def _model(inputs: Mapping[str, str]) -> str:
    name, revision, folder = (inputs.get(key, "") for key in ("MODEL", "REVISION", "LOCAL_PATH"))
    if bool(name) == bool(folder):
        raise OptionError("give either the input model or the input local-path")
    if revision and not name:
        raise OptionError("the input revision is for the input model; a folder has no revisions")
    model = f"{name}@{revision}" if revision else name
    if name and hub_name(model) is None:
        text = printable(model, 200)
        raise OptionError(f"the input model must be a Hub name such as org/model, not {text}; see local-path")
    return model_name(Path(folder)) if folder else model


def _one_of(word: str, name: str, allowed: Sequence[str]) -> str:
    if word not in allowed:
        raise OptionError(f"the input {name} must be one of {', '.join(allowed)}, not {printable(word, 100)}")
    return word


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"[^\s,]+", text)))
