import json
from typing import Any

import gguf
import numpy as np
import pytest

from hf_lineage.checkpoint.vocabulary import NUMBER, TEXT, shared_tokens
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.repo import RepoRef
from tests.gguf_models import finish


def repo(folder, **files):
    folder.mkdir()
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("_", ".")).write_text(text)
    return RepoRef(folder.name, folder)


def bpe(vocabulary, *added):
    return {"model": {"type": "BPE", "vocab": vocabulary}, "added_tokens": list(added)}


def packed(folder, tokens, kind="llama"):
    folder.mkdir()
    writer = gguf.GGUFWriter(str(folder / "model.gguf"), "llama")
    writer.add_tokenizer_model(kind)
    if tokens:
        writer.add_token_list(tokens)
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), np.float32))
    finish(writer)
    return RepoRef(folder.name, folder)


def pairs(shared):
    return list(zip(shared.base.tolist(), shared.candidate.tolist(), strict=True))


def test_tokenizers_that_are_alike_share_all_numbers_and_sentencepiece_is_bytes(tmp_path):
    a, b = (repo(tmp_path / name, tokenizer_json=bpe({"x": 0})) for name in "ab")
    shared = shared_tokens(a, b, (5, 4))
    assert (pairs(shared), shared.by) == ([(0, 0), (1, 1), (2, 2), (3, 3)], NUMBER)
    c, d, e = (repo(tmp_path / name, tokenizer_model=pieces) for name, pieces in (("c", "p"), ("d", "p"), ("e", "q")))
    assert len(shared_tokens(c, d, (5, 5)).base) == 5
    with pytest.raises(NothingToCompare, match="no tokenizer that lists its tokens"):
        shared_tokens(c, e, (5, 5))


NO_TOKENS: list[Any] = [
    bpe({"a": True, "b": -1, "c": "0", "d": 1.5}),
    {"model": []},
    {"model": {"vocab": [[], "x", [3, 0.0]]}, "added_tokens": [1, {"id": 3}, {"content": [], "id": 0}]},
]
OTHERS = [
    {"tokenizer_json": bpe({"a": 3, "b": 1, "ü": 2})},
    {"tokenizer_json": bpe({"a": 3}, {"content": "b", "id": 1}, {"content": "ü", "id": 2})},
    {"tokenizer_json": {"model": {"vocab": [["<s>", 0.0], ["b", -1.0], ["ü", -2.0], ["a", -3.0]]}}},
    {"vocab_json": {"a": 3, "b": 1, "ü": 2}},
    {"vocab_txt": "<s>\nb\nü\na\n"},
    ["<s>", "b", "ü", "a"],
]


@pytest.mark.parametrize("files", OTHERS)
def test_other_tokenizers_share_tokens_of_one_text(tmp_path, files):
    """A GGUF file lists its own tokens, whatever lies beside it."""
    a = repo(tmp_path / "a", tokenizer_json=bpe({"a": 0, "b": 1, "c": 2, "ü": 4}))
    b = repo(tmp_path / "b", **files) if isinstance(files, dict) else packed(tmp_path / "b", files)
    if b.offers("model.gguf"):
        (b.folder / "tokenizer.json").write_text(json.dumps(bpe({"a": 0})))
        assert pairs(shared_tokens(b, packed(tmp_path / "c", ["b", "a"]), (10, 10))) == [(1, 0), (3, 1)]
    shared = shared_tokens(a, b, (10, 10))
    assert (pairs(shared), shared.by) == ([(0, 3), (1, 1), (4, 2)], TEXT)


def test_tokens_without_a_row_are_not_shared_and_those_of_one_row_count_once(tmp_path):
    a = repo(tmp_path / "a", vocab_json={"a": 0, "b": 9, "c": 2})
    b = repo(tmp_path / "b", vocab_json={"a": 1, "b": 2, "d": 0})
    assert pairs(shared_tokens(a, b, (5, 5))) == [(0, 1)]
    c = repo(tmp_path / "c", vocab_json={"a": 7, "b": 7, "c": 7})
    assert len(shared_tokens(a, c, (10, 10)).base) == 1
    d = repo(tmp_path / "d", vocab_txt="[CLS]\nplay\n##ing\n")
    of_bert = packed(tmp_path / "e", ["ing", "\u2581play", "[CLS]"], kind="bert")  # the marks are turned back
    assert pairs(shared_tokens(d, of_bert, (3, 3))) == [(0, 2), (1, 1), (2, 0)]


def test_models_without_a_tokenizer_share_rows_if_they_have_as_many(tmp_path):
    a, b, c = repo(tmp_path / "a"), repo(tmp_path / "b", vocab_json={"a": 0}), packed(tmp_path / "c", [])
    for one, other, without in ((a, b, "a"), (b, c, "c")):
        assert shared_tokens(one, other, (4, 4)).by == NUMBER
        why = f"{without} has no tokenizer, and the vocabularies have different sizes"
        with pytest.raises(NothingToCompare, match=why):
            shared_tokens(one, other, (4, 5))


@pytest.mark.parametrize("content", [*NO_TOKENS, "{", "[]", '{"a": ' * 100_000])
def test_entries_that_are_no_tokens_are_none_and_a_damaged_tokenizer_is_named(tmp_path, content):
    a = repo(tmp_path / "a", vocab_json={"a": 0, "b": 1, "c": 2})
    damaged = isinstance(content, str)
    said = r"b: tokenizer\.json" if damaged else "no tokenizer that lists its tokens"
    with pytest.raises(CheckpointError if damaged else NothingToCompare, match=said):
        shared_tokens(a, repo(tmp_path / "b", tokenizer_json=content), (5, 5))
