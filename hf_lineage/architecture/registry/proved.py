"""Proved: which factorizations of the user's own were proved on this machine, for which classes.

That is kept with the user's configuration and never in the folder of factorizations, which may come from a repository
whose author could write there what he likes.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from hf_lineage import __version__
from hf_lineage.architecture.registry.schema import Factorization
from hf_lineage.errors import OptionError
from hf_lineage.files import configuration, of_this_user_alone, write_atomically

PRIVATE, READABLE = 0o700, 0o600


def record(factorization: Factorization, architecture: str, release: str) -> Path:
    """Note that a factorization was proved for a class, on the module of this release of transformers."""
    file = _file(factorization, architecture)
    content = {"factorization": factorization.name, "class": architecture, "transformers": release}
    try:
        file.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
        write_atomically(file, msgspec.json.encode(content), READABLE)
    except OSError as error:
        why = error.strerror or error
        raise OptionError(f"{file} cannot be written: {why}; name another folder in XDG_CONFIG_HOME") from None
    return file


def is_proved(factorization: Factorization, architecture: str) -> bool:
    """Return whether exactly this factorization was proved for a class, by this release and on this machine."""
    return of_this_user_alone(_file(factorization, architecture))


def _file(factorization: Factorization, architecture: str) -> Path:
    """Where the note is, by a digest of all that the proof depends on."""
    parts = (__version__, architecture, factorization.name, msgspec.json.encode(factorization).decode())
    return configuration() / "proved" / f"{hashlib.sha256(repr(parts).encode()).hexdigest()}.json"
