"""Converted models: which files a repository is read from where other programs than transformers load it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO, NamedTuple, TypeVar

from hf_lineage.checkpoint.foreign.ctranslate2 import Ctranslate2Error
from hf_lineage.checkpoint.foreign.gguf import LFS_POINTER, PREFERRED, gguf_files, offered
from hf_lineage.checkpoint.foreign.gguf import SUFFIX as GGUF
from hf_lineage.checkpoint.foreign.onnx import OnnxError
from hf_lineage.errors import ONE_FILE, CheckpointError, NothingToCompare, OptionError, printable
from hf_lineage.files import Stamp, open_regular
from hf_lineage.hub import RepoRef

ONNX, CTRANSLATE2 = ".onnx", "model.bin"
VOCABULARY = re.compile(r"(?:shared_|source_|target_)?vocabulary\.(?:json|txt)")
"""What CTranslate2 writes beside its model; a model.bin without it may be anything."""
LABEL = re.compile(
    r"[-_.](?P<label>fp32|fp16|bf16|float16|q?u?int8|quantized|q8|q4f16|q4|int4|uint4|bnb4|o[1-4])(?=[-_.]|$)\w*",
    re.IGNORECASE,
)
BITS = {"fp32": 32, "fp16": 16, "float16": 16, "bf16": 15, "q4f16": 3, "q4": 4, "int4": 4, "uint4": 4, "bnb4": 2}
BITS |= {"o1": 31, "o2": 30, "o3": 29, "o4": 14}
"""A label in the name of a file -> the larger, the closer to what was exported; any other label means eight bits."""
STEMS = ("model", "decoder_model_merged", "decoder_model")
"""Of files of several models in one repository, that which is read."""
ENCODER = "encoder_model"
"""What stands beside a decoder where a model has both."""
T = TypeVar("T")


class Converted(NamedTuple):
    """The files of a converted model."""

    form: str
    """A key of CHOICES."""
    files: tuple[str, ...]
    """All parts of a GGUF model; of several ONNX files of one model all, the most precise first; an encoder and its
    decoder."""


def converted(repo: RepoRef) -> Converted | None:
    """Return what a repository is read from where it is not as transformers saves it; None where it is.

    Raise NothingToCompare where there are several models, CheckpointError where a part is missing, OptionError where
    the file is that the user names.
    """
    if repo.file is not None and not nameable(repo.file):
        raise OptionError(
            f"{repo}: {printable(repo.file, 200)} is no file that --file can name; it reads .gguf, .onnx and model.bin"
        )
    by_library: dict[str, Converted] = {}
    for form, choose in CHOICES.items():
        library = form.partition(" ")[0]
        if library not in by_library and (files := choose(repo)):
            by_library[library] = Converted(form, files)
    if len(by_library) > 1:
        shown = ", ".join(printable(model.files[0], 100) for model in by_library.values())
        raise NothingToCompare(f"{repo} holds models for several libraries ({shown}); name one {ONE_FILE}")
    return next(iter(by_library.values()), None)


def nameable(file: str) -> bool:
    """Return whether --file may name such a file, and its path stand for a model.

    >>> nameable("onnx/model_q4.onnx"), nameable("model.bin"), nameable("pytorch_model.bin")
    (True, True, False)
    """
    return file.endswith((GGUF, ONNX)) or file.replace("\\", "/").rpartition("/")[2] == CTRANSLATE2


def parsed(repo: RepoRef, file: str, parse: Callable[[BinaryIO, int], T]) -> tuple[T, Stamp]:
    """Return the header of a file, read once, and the state of the file; raise CheckpointError if it is damaged.

    The file is downloaded whole: what such a header consists of stands between the weights.
    """
    if file not in repo.heads:
        repo.fetch(file)
        try:
            with open_regular(repo.located(file)) as stream:
                _refuse_pointer(stream.read(len(LFS_POINTER)))
                stream.seek(0)
                stamp = Stamp.of(stream)
                repo.heads[file] = parse(stream, stamp.size), stamp
        except (OnnxError, Ctranslate2Error) as error:
            raise CheckpointError(f"{repo}: {printable(file, 200)} {error}") from None
        except OSError as error:
            raise CheckpointError(
                f"{repo}: {printable(file, 200)} cannot be read: {error.strerror or error}; check its permissions"
            ) from None
    known: tuple[T, Stamp] = repo.heads[file]
    return known


def _gguf(repo: RepoRef) -> tuple[str, ...]:
    return gguf_files(repo) if repo.file is None or repo.file.endswith(GGUF) else ()


def _refuse_pointer(start: bytes) -> None:
    if start == LFS_POINTER:
        raise OnnxError("is a pointer of git-lfs, not the weights; run `git lfs pull` in its folder")


def _onnx(repo: RepoRef) -> tuple[str, ...]:
    """The ONNX files of the model, the most precise by its name first."""
    if repo.file is not None:
        return (_named(repo, repo.file, offered(repo, ONNX)),) if repo.file.endswith(ONNX) else ()
    by_stem = _by_stem(repo)
    chosen = next((stem for stem in STEMS if stem in by_stem), next(iter(by_stem), ""))
    if len(by_stem) > 1 and (chosen not in STEMS or ENCODER in by_stem):
        shown = printable(", ".join(sorted(file for files in by_stem.values() for file in files)[:10]), 500)
        raise NothingToCompare(f"{repo} holds several models as ONNX ({shown}); name one {ONE_FILE}")
    return tuple(by_stem.get(chosen, ()))


def _onnx_pair(repo: RepoRef) -> tuple[str, ...]:
    """The files of an encoder and its decoder, the most precise of which there are both."""
    by_stem = _by_stem(repo) if repo.file is None else {}
    decoders = next((by_stem[stem] for stem in STEMS if stem in by_stem), [])
    pairs = ((one, other) for one in by_stem.get(ENCODER, ()) for other in decoders)
    same = (pair for pair in pairs if len({_precision(file)[:2] for file in pair}) == 1)
    return () if "model" in by_stem else next(same, ())


def _by_stem(repo: RepoRef) -> dict[str, list[str]]:
    """The ONNX files of a repository by their names without what says how they are stored, the most precise first."""
    by_stem: dict[str, list[str]] = {}
    if not any(map(PREFERRED.fullmatch, repo.files())):
        for file in sorted(offered(repo, ONNX), key=_precision):
            by_stem.setdefault(LABEL.sub("", file.rpartition("/")[2].removesuffix(ONNX)), []).append(file)
    return by_stem


def _precision(file: str) -> tuple[int, int, str]:
    """A key by which the most precise file comes first."""
    label = LABEL.search(file.rpartition("/")[2].removesuffix(ONNX))
    return -BITS.get(label["label"].lower(), 8) if label else -33, file.count("/"), file


def _ctranslate2(repo: RepoRef) -> tuple[str, ...]:
    if repo.file is not None:
        return (_named(repo, repo.file, repo.files()),) if repo.file.endswith(CTRANSLATE2) else ()
    files = repo.files()
    mine = CTRANSLATE2 in files and any(map(VOCABULARY.fullmatch, files))
    return (CTRANSLATE2,) if mine and not any(map(PREFERRED.fullmatch, files)) else ()


def _named(repo: RepoRef, file: str, files: Sequence[str]) -> str:
    if file not in files:
        shown = ", ".join(files[:10]) or "none"
        raise OptionError(f"{repo} has no file {printable(file, 200)} (it has {shown}); name another")
    return file


CHOICES: Mapping[str, Callable[[RepoRef], tuple[str, ...]]] = {
    "gguf": _gguf,
    "onnx pair": _onnx_pair,
    "onnx": _onnx,
    "ctranslate2": _ctranslate2,
}
"""Forms of converted models, and what chooses the files of each; none of a repository that is not of the form."""
