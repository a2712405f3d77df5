"""Tokens that two models share, and the coordinates that they give."""

import pytest

from hf_lineage.checking.units import by_tokens
from hf_lineage.errors import NothingToCompare
from hf_lineage.hub.repo import resolve
from hf_lineage.source.headers import headers
from tests.streams import copied, embedding, rotated, with_tokenizer, written

BASE, CHILD = "acme/llama-base", "fern/llama-finetune-a"
TOKENS = {f"token {number}": number for number in range(256)}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return with_tokenizer(copied(BASE, tmp_path_factory.mktemp("base") / "base"), TOKENS)


def seen(base, folder):
    return by_tokens(headers(resolve(str(base))), headers(resolve(str(folder))))


def test_rows_of_shared_tokens_give_coordinates(base, tmp_path):
    frame, through = seen(base, with_tokenizer(written(CHILD, tmp_path / "model", rotated), TOKENS))
    assert (frame.name, frame.tokens, frame.by) == ("token", 256, "number")
    assert [matrix.shape for matrix in through] == [(96, 96), (96, 96)]


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        (dict.fromkeys(TOKENS, 7), "share 1 tokens, fewer than the coordinates of their streams"),
        ({"token 1": 1}, "share 1 tokens"),
        ({f"other {number}": number for number in range(256)}, "share 0 tokens"),
    ],
)
def test_too_few_shared_tokens_are_a_reason(base, tmp_path, tokens, reason):
    with pytest.raises(NothingToCompare, match=reason):
        seen(base, with_tokenizer(copied(CHILD, tmp_path / "model"), tokens))


def test_a_tokenizer_that_is_damaged_is_a_reason(base, tmp_path):
    model = with_tokenizer(copied(CHILD, tmp_path / "model"), TOKENS)
    (model / "tokenizer.json").write_text("{")
    with pytest.raises(NothingToCompare, match="is not JSON"):
        seen(base, model)


def test_rows_of_another_width_than_the_stream_are_a_reason(base, tmp_path):
    folder = written(CHILD, tmp_path / "model", embedding(lambda rows: rows[:, :8]))
    with pytest.raises(NothingToCompare, match="has no token rows of the same width as its stream"):
        seen(base, folder)
