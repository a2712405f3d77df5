"""Vocabulary: the tokens that two models share, by the tokenizer files of their repositories."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.weight_files import foreign_model
from hf_lineage.errors import NothingToCompare
from hf_lineage.hub.repo import RepoRef

NUMBER, TEXT = "number", "text"  # tokens are the same by number in equal files, or by text
PIECES = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")  # compared by their digests alone

Tokens = Mapping[str, int]


@dataclass(frozen=True)
class SharedTokens:
    """The tokens that two models share, each with its row in both embeddings."""

    base: NDArray[np.int64]  # (K,): the rows in the base's embedding, ascending
    candidate: NDArray[np.int64]  # (K,): the rows of the same tokens in the candidate's embedding
    by: str  # the criterion, NUMBER or TEXT


def shared_tokens(base: RepoRef, candidate: RepoRef, rows: tuple[int, int]) -> SharedTokens:
    """Return the tokens that two models share, given the rows of their embeddings; raise where files do not tell."""
    repos = base, candidate
    listed = [model.tokens() if model else None for model in map(foreign_model, repos)]
    both = zip(repos, listed, strict=True)
    files = [{file for file in (*READERS, *PIECES) if own is None and repo.offers(file)} for repo, own in both]
    equal = any(base.sha256(file) == candidate.sha256(file) for file in sorted(files[0] & files[1]))
    silent = [repo for repo, own, tokens in zip(repos, files, listed, strict=True) if not own and not tokens]
    if equal or (silent and rows[0] == rows[1]):
        numbers = np.arange(min(rows))
        return SharedTokens(numbers, numbers, NUMBER)
    if silent:
        raise NothingToCompare(f"{silent[0]} has no tokenizer, and the vocabularies have different sizes")
    first, second = (tokens or _read(repo) for repo, tokens in zip(repos, listed, strict=True))
    # Of several tokens with one row only one counts, and a token without a row does not.
    pairs = [(number, second[text]) for text, number in first.items() if text in second]
    inside = [pair for pair in pairs if all(number < count for number, count in zip(pair, rows, strict=True))]
    unique = {other: mine for mine, other in dict(inside).items()}
    shared = np.array(sorted((mine, other) for other, mine in unique.items()), dtype=np.int64).reshape(-1, 2)
    return SharedTokens(shared[:, 0], shared[:, 1], TEXT)


def _read(repo: RepoRef) -> Tokens:
    for file, read in READERS.items():
        if repo.offers(file):
            repo.fetch(file)
            listed = ((text, at) for text, at in read(repo, file) if isinstance(text, str) and type(at) is int)
            if tokens := {text: at for text, at in listed if at >= 0}:
                return tokens
    raise NothingToCompare(f"{repo} has no tokenizer that lists its tokens in {', '.join(READERS)}")


def _of_tokenizer(repo: RepoRef, file: str) -> Iterator[tuple[Any, Any]]:
    content = repo.read_json(file) or {}
    model, added = content.get("model"), content.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        yield from vocabulary.items()
    elif isinstance(vocabulary, list):
        yield from ((piece[0], number) for number, piece in enumerate(vocabulary) if isinstance(piece, list) and piece)
    for token in added if isinstance(added, list) else []:
        if isinstance(token, dict):
            yield token.get("content"), token.get("id")


READERS: Mapping[str, Callable[[RepoRef, str], Iterator[tuple[Any, Any]]]] = {
    "tokenizer.json": _of_tokenizer,
    "vocab.json": lambda repo, file: iter((repo.read_json(file) or {}).items()),
    "vocab.txt": lambda repo, file: (
        (line.removesuffix("\r"), at) for at, line in enumerate((repo.read_text(file) or "").split("\n")) if line
    ),
}
