"""Every error the library raises on purpose, each message one printable line that ends in what to do."""

import errno

LONGEST = 2000
ONE_FILE = "by its path, or with --file for the model that is judged"  # a base by its path alone
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # a disk, a share of it or a file is full


def printable(text: object, limit: int = LONGEST) -> str:
    """Return `text` on one line, with control and direction-changing characters escaped, cut at `limit` characters.

    Untrusted names pass here before they reach a terminal, or the log of a CI, where `::` and `##[` are commands.
    """
    line = str(text)
    cut = line if len(line) <= limit else f"{line[: limit - 1]}…"
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)
    escaped = shown.replace("::", r":\x3a").replace("##[", r"#\x23[")
    return escaped if len(escaped) <= limit else f"{escaped[: limit - 1]}…"


def installation(extra: str) -> str:
    """Return the command that installs an extra: from the repository, while anybody may upload under its name."""
    return f"pip install 'hf-lineage[{extra}] @ git+https://github.com/hf-lineage/hf-lineage'"


def remedy(error: Exception, usual: str) -> str:
    """Return what to do where a file could be neither read nor written: `usual`, unless a limit on sizes hinders."""
    limited = isinstance(error, OSError) and error.errno == errno.EFBIG
    return "raise the limit on the size of files (ulimit -f)" if limited else usual


class LineageError(Exception):
    """Base of all errors raised on purpose; `str(error)` is one printable line."""

    code = "internal"  # its name in reports, which never changes; of errors that become verdicts, a code of theirs

    def __init_subclass__(cls, code: str = "") -> None:
        super().__init_subclass__()
        cls.code = code or cls.code

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class RepositoryError(LineageError, code="no-base"):
    """No such model, or a folder that is not a model repository."""


class NoModelError(RepositoryError):
    """A repository in which there is no model at all."""


class BranchMovedError(RepositoryError, code="branch-moved"):
    """Somebody else committed to a branch of the Hub first."""


class NetworkError(LineageError, code="network"):
    """Something on the Hub cannot be fetched; this says nothing about the model."""


class CheckpointError(LineageError, code="damaged"):
    """Files of a model that are there but damaged, hostile or unreadable."""


class RegistryError(LineageError, code="registry"):
    """A registry file that breaks the schema."""


class SignatureError(LineageError, code="signature"):
    """A file that is not a signature, or signatures whose recipes differ."""


class OptionError(LineageError, code="option"):
    """An option out of its range."""


class CardError(LineageError, code="card"):
    """A model card, or the record beside it, that cannot be edited without harm."""


class NothingToCompare(LineageError, code="unsupported"):  # noqa: N818 - not a failure: it becomes a verdict
    """Nothing can be judged: no weights, an unsupported format, a class that is not in the registry."""


class NoWeights(NothingToCompare, code="no-weights"):
    """A model without a file of weights."""


class Ambiguous(NothingToCompare, code="ambiguous"):
    """Several models where one is needed, or files that loaders read in two ways."""


class UnlistedClass(NothingToCompare):
    """The registry lists no class that `config.json` names."""


def format_error(error: BaseException) -> str:
    """Return what went wrong on one printable line, for any exception, to be shown in place of a traceback."""
    if isinstance(error, LineageError):
        return str(error)
    kind, message = type(error).__name__, str(error)
    if isinstance(error, MemoryError):
        why = message or "not enough memory; try HF_LINEAGE_MAX_MEMORY=8GiB"
    elif isinstance(error, ImportError):
        why = f"a package that is needed cannot be imported ({message or kind}); install hf-lineage again"
    elif isinstance(error, OSError) and error.errno in NO_ROOM:
        what = remedy(error, "make room, or write it to another place")
        why = f"what is to be written finds no room ({message}); {what}"
    elif isinstance(error, OSError):
        why = message or kind
    else:
        why = f"an unexpected error ({kind}: {message}); --debug shows where, please report it"
    return printable(why)
