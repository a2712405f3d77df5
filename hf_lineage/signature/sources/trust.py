"""Trust: where the numbers of a model come from, and which published signatures and factorizations a user trusts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml

from hf_lineage.errors import OptionError
from hf_lineage.files import configuration, expanded, open_regular, plain_yaml


@dataclass(frozen=True)
class Origin:
    """The source of the numbers of a model; for a published signature also its files and why they are trusted.

    If a base is a folder, its record names its weight files.
    """

    kind: Literal["weights", "cache", "published", "file"]
    """The weights, the cached signature of them, a signature on the Hub, or a file that the user named."""
    repository: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """File of that repository, or of the folder -> its sha256."""
    trusted: str = ""
    """Why the published signature is trusted."""

    @property
    def given(self) -> bool:
        """Whether a signature was given in place of the weights, so that all of its layers are there at no cost."""
        return self.kind in ("published", "file")


WEIGHTS, CACHE, FILE = Origin("weights"), Origin("cache"), Origin("file")
LARGEST = 2**20
"""Bytes of a trust file."""
Commit = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}$")]
Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file that is trusted, no matter who published it: the signature of the model at this commit."""

    model: str
    commit: Commit
    sha256: Digest


class Trust(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A trust file: signature repositories to search, pinned signatures, and factorizations of the user's own."""

    signatures: tuple[str, ...] = ()
    pinned: tuple[Pin, ...] = ()
    registry: str | None = None
    """A folder of factorizations, as --registry names one; a relative path is one beside the trust file."""

    def commits(self, models: Collection[str | None], sha256: str) -> frozenset[str]:
        """Return the commits of a model, under any of its names, whose signature may have this digest."""
        return frozenset(pin.commit for pin in self.pinned if pin.model in models and pin.sha256 == sha256)


def usual_file() -> Path:
    """Return where the trust file is unless the user names another: in the folder of configurations."""
    return configuration() / "trust.yaml"


def load(file: Path | None = None) -> Trust:
    """Return a trust file, by default the usual one, which may be missing; OptionError for an invalid one."""
    chosen = file or usual_file()
    try:
        with open_regular(chosen) as stream:
            content = stream.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise OptionError(f"{chosen} is not a trust file: it is larger than {LARGEST >> 20} MiB")
        # Everything in it is text: 1111 is a digest too, and no tag asks for anything.
        trust = msgspec.convert(plain_yaml.load(content.decode()) or {}, Trust)
        registry = trust.registry and str(chosen.absolute().parent / expanded(trust.registry, f"registry in {chosen}"))
        return msgspec.structs.replace(trust, registry=registry)
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeError) as error:
        why = plain_yaml.problem(error)
        raise OptionError(f"{chosen} is not a trust file: {why}; docs/signatures.md shows an example") from None
    except FileNotFoundError:
        if file is None:
            return Trust()
        raise OptionError(f"{file}: there is no such trust file; create it, or leave the option out") from None
    except OSError as error:
        raise OptionError(f"{chosen} cannot be read: {error.strerror or error}; check its permissions") from None
