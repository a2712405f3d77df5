"""Every error the library raises on purpose, each message one printable line that ends in what to do.

LineageError
├── RepositoryError    no such model, or not a model repository
├── NetworkError       the Hub cannot be reached or answers what it must not: nothing is known of the model
├── CheckpointError    files of a model that are there but damaged, hostile or unreadable
├── RegistryError      a registry file that says something it must not
├── SignatureError     not a signature, or two signatures that must not be compared
├── OptionError        an option out of its range
├── CardError          a model card that cannot be edited without harm
└── NothingToCompare   nothing wrong, yet nothing to judge: becomes an UNVERIFIABLE verdict
"""

LONGEST = 2000


def printable(text: object, limit: int = LONGEST) -> str:
    """Return `text` on one line, with control and direction-changing characters escaped, cut at `limit` characters.

    File names, cards and headers are written by strangers; only through here does it reach a terminal or a CI log.
    """
    line = str(text)
    cut = line if len(line) <= limit else f"{line[: limit - 1]}…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)


class LineageError(Exception):
    """Base of all errors raised on purpose; `str(error)` is one printable line."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class RepositoryError(LineageError):
    """No such model, or a folder that is not a model repository."""


class NetworkError(LineageError):
    """What is on the Hub cannot be fetched, which says nothing about the model."""


class CheckpointError(LineageError):
    """Files of a model that are there but damaged, hostile or unreadable."""


class RegistryError(LineageError):
    """A registry file that breaks the schema."""


class SignatureError(LineageError):
    """A file that is not a signature, or signatures whose recipes differ."""


class OptionError(LineageError):
    """An option out of its range."""


class CardError(LineageError):
    """A model card, or the record beside it, that cannot be edited without harm."""


class NothingToCompare(LineageError):  # noqa: N818 - not a failure: it becomes an UNVERIFIABLE verdict
    """There is nothing to judge: no weights, an unsupported format, a class that is not in the registry."""
