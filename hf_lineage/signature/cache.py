"""The cache: signatures that this machine made of models on the Hub, one file for each path, under the Hub's own cache.

A file is used only if it belongs to this user, nobody else can write to it, and its metadata agree with its path. Any
other file is ignored, and the signature is made again. That does not tell who made its numbers: a file that git wrote
belongs to this user, too. So the cache is never in a checkout.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hf_lineage import __version__
from hf_lineage.architecture import schema
from hf_lineage.errors import LineageError, SignatureError
from hf_lineage.files import atomic, paths
from hf_lineage.hub.repo import RepoRef
from hf_lineage.signature.recipe import Recipe, Spec
from hf_lineage.signature.values import Signature, by_path, join_paths

LARGEST = 2**30  # bytes of a file at most; a signature with thousands of probes is not cached
PRIVATE, OWN = 0o700, 0o600  # permissions of its folder, and of its files


def root() -> Path:
    """Return the folder of the cache: HF_LINEAGE_CACHE, which may be in no checkout (OptionError), or in HF_HOME."""
    from huggingface_hub import constants

    return paths.outside_checkouts(paths.CACHE) or Path(constants.HF_HOME) / "lineage"


def find(repo: RepoRef, architecture: str, factorization: schema.Factorization, spec: Spec) -> Signature | None:
    """Return the cached signature of a model on the Hub along the paths asked for; None if there is none."""
    if not _cacheable(repo, spec.recipe):
        return None
    made_from = {"factorization": schema.fingerprint(factorization)}
    names = {"model": _name(repo), "architecture": architecture, "factorization": factorization.name}
    others = {"exchangeable": factorization.exchangeable, "recipe": spec.recipe, "made_from": made_from}
    expected: dict[str, object] = {"commit": repo.commit, **names, **others}
    try:
        signatures = [_read(_file(repo, factorization, spec.recipe, path), path, expected) for path in spec.paths]
    except (OSError, LineageError):
        return None
    alike = len({(signature.width, signature.layers) for signature in signatures}) == 1
    return replace(join_paths(signatures), model=repo.name, made_from={}) if alike else None


def write(repo: RepoRef, factorization: schema.Factorization, whole: Signature) -> None:
    """Cache the signature of a model on the Hub; if it cannot be written, a warning is logged."""
    if not _cacheable(repo, whole.recipe):
        return
    from hf_lineage.signature.store import encode

    signature = replace(whole, model=_name(repo), made_from={"factorization": schema.fingerprint(factorization)})
    try:
        for path, single in by_path(signature).items():
            content, file = encode(single), _file(repo, factorization, signature.recipe, path)
            if len(content) <= LARGEST:
                root().mkdir(PRIVATE, parents=True, exist_ok=True)
                file.parent.mkdir(parents=True, exist_ok=True)
                atomic.write_atomically(file, content, OWN)
    except (OSError, LineageError) as error:
        logging.getLogger(__name__).warning("%s: its signature cannot be cached: %s", repo, error)


def _cacheable(repo: RepoRef, recipe: Recipe) -> bool:
    # None of a folder, here or in a repository, or of a file: the cache knows a model by its commit, and a part by its
    # name as well. No exact one; and that of a pickle must not serve a check that reads none.
    whole = repo.remote is not None and repo.commit is not None and not (repo.subfolder or repo.file)
    return whole and not repo.allow_pickle and recipe.probes is not None


def _name(repo: RepoRef) -> str:
    return "/".join(filter(None, (repo.remote, repo.part)))


def _file(repo: RepoRef, factorization: schema.Factorization, recipe: Recipe, path: str) -> Path:
    label = recipe.label(path, schema.fingerprint(factorization), __version__, *filter(None, (repo.part,)))
    model = f"models--{(repo.remote or '').replace('/', '--')}"
    return root() / "signatures" / model / str(repo.commit) / f"{label}.safetensors"


def _read(file: Path, path: str, expected: Mapping[str, object]) -> Signature:
    """Return the signature in a file; SignatureError if others may have written it or its metadata do not fit."""
    if not paths.of_this_user_alone(file) or file.stat().st_size > LARGEST:
        raise SignatureError(f"{file} is not a file of this user alone")
    from hf_lineage.signature.store import load_signature

    signature = load_signature(file)
    if tuple(signature.paths) != (path,) or any(getattr(signature, name) != value for name, value in expected.items()):
        raise SignatureError(f"{file} does not hold the signature that its path names")
    return signature
