"""Diagnosis: everything that a check depends on besides its models, each with what to do if it is missing."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from hf_lineage import __version__
from hf_lineage.errors import LineageError, RepositoryError, installation
from hf_lineage.files import places
from hf_lineage.hub import client
from hf_lineage.signature.sources import cache

EXTRAS = {
    "gguf": ("GGUF files", ("gguf",)),
    "index": ("`identify`, `index` and `tree --index`", ("pyarrow",)),
    "gpu": ("GPUs; without it hf-lineage uses the processor, with the same verdicts", ("torch", "accelerate")),
    "run": ("`--run`", ("torch", "transformers", "accelerate")),
    "cyclonedx": ("`--format cyclonedx`", ("cyclonedx",)),
    "ray": ("`index build --engine ray`", ("ray",)),
}
"""What each extra is for, and the packages that show that it is installed."""
PACKAGES = ("huggingface_hub", "numpy", "scipy", "safetensors")
PATIENCE = 10
"""Seconds that the Hub may take to answer."""


class State(StrEnum):
    """Whether something is there: what is wrong prevents checks, what is absent does not."""

    THERE, ABSENT, WRONG = "ok", "absent", "wrong"


@dataclass(frozen=True)
class Finding:
    """One thing that a check depends on, in a sentence that ends in what to do about it."""

    about: str
    state: State
    sentence: str


def diagnosis() -> Iterator[Finding]:
    """Find versions, extras, caches, the way to the Hub and the account, in this order."""
    versions = ", ".join(f"{package} {_version(package)}" for package in PACKAGES)
    yield Finding("versions", State.THERE, f"hf-lineage {__version__}, Python {platform.python_version()}, {versions}")
    yield from map(_extra, EXTRAS)
    yield from _caches()
    yield from _hub()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


def _extra(name: str) -> Finding:
    purpose, packages = EXTRAS[name]
    if all(map(find_spec, packages)):
        return Finding(name, State.THERE, f"installed, for {purpose}")
    return Finding(name, State.ABSENT, f"not installed; for {purpose} run {installation(name)}")


def _caches() -> Iterator[Finding]:
    from huggingface_hub import constants

    yield _folder("models", Path(constants.HF_HUB_CACHE), "HF_HUB_CACHE")
    try:
        yield _folder("signatures", cache.root(), places.CACHE)
    except LineageError as error:
        yield Finding("signatures", State.WRONG, str(error))


def _folder(about: str, folder: Path, variable: str) -> Finding:
    """Whether files can be put into a folder, which need not be there yet."""
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        free = shutil.disk_usage(existing).free / 1e9
        return Finding(about, State.THERE, f"kept in {folder}, with {free:,.1f} GB free")
    return Finding(about, State.WRONG, f"{existing} is not a writable folder; correct it, or set {variable}")


def _hub() -> Iterator[Finding]:
    from hf_lineage.hub import route

    if client.offline():
        yield Finding("Hub", State.ABSENT, "HF_HUB_OFFLINE forbids requests; unset it to read more than the cache")
        return
    try:
        client.asked_once("a list of models", "/api/models?limit=1", PATIENCE, lambda models: models[:1])
        yield Finding("Hub", State.THERE, f"reached{route() or ' directly'}")
        yield _account()
    except RepositoryError:
        yield Finding("Hub", State.WRONG, f"the server that answers{route()} is not a Hub; check HF_ENDPOINT")
    except LineageError as error:
        yield Finding("Hub", State.WRONG, str(error))


def _account() -> Finding:
    from huggingface_hub import get_token

    if get_token() is None:
        remedy = "to read private or gated models, run `hf auth login` or set HF_TOKEN"
        return Finding("account", State.ABSENT, f"no token; {remedy}")
    try:
        name = client.asked_once("your account", "/api/whoami-v2", PATIENCE, lambda answer: client.text(answer["name"]))
    except RepositoryError:
        remedy = "run `hf auth login`, or correct or unset HF_TOKEN"
        return Finding("account", State.WRONG, f"the Hub does not know the token; {remedy}")
    return Finding("account", State.THERE, f"the token belongs to {name}")
