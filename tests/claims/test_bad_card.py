"""What a model can say wrongly about its base, and what the command line makes of it."""

import os

import pytest

from tests.invoking import check
from tests.models import WEIGHTS, card, spoil, tiny_llama


def test_a_broken_card_does_not_matter_where_the_base_is_named(hub):
    (hub / "fern/child/README.md").write_text("---\nbase_model: [\n---\n")
    assert check(hub, "--base", "acme/base").code == 0


NO_NAME = {
    "mapping": ({"nom": "acme/base"}, "a mapping without a name"),
    "two lines": ("acme/base\n# RELATED", r"acme/base\n#"),
    "escape sequence": ("\x1b[2Jacme/base", r"\x1b[2Jacme/base"),
    "half a pair": ("acme/\ud800", r"acme/\ud800"),
}
"""What a card declares, and how that is shown."""


@pytest.mark.parametrize(("base_model", "shown"), NO_NAME.values(), ids=NO_NAME)
def test_a_base_that_cannot_be_followed_is_unverifiable(hub, base_model, shown):
    card(hub / "fern/child", base_model)
    result = check(hub)
    assert (result.code, result.err) == (3, "")
    assert "UNDECIDED" in result.out
    assert all(line.isprintable() for line in result.out.splitlines())
    assert f"base_model must be a model name such as org/model, not {shown}" in result.sentences


def test_several_claims_are_judged_one_by_one_and_the_worst_counts(hub):
    tiny_llama(hub / "acme/other", seed=1)
    spoil(tiny_llama(hub / "acme/wide", width=64), lambda tensors: tensors.pop("model.embed_tokens.weight"))
    card(hub / "fern/child", ["acme/base", "acme/other", "acme/wide", 7])
    result = check(hub)
    assert [(row[0], row[-1]) for row in result.rows] == [
        ("acme/base", "inherited"),
        ("acme/other", "UNRELATED"),
        ("acme/wide", "incompatible"),
        ("7", "no-base"),
    ]
    assert result.code == 1
    os.truncate(hub / "acme/wide" / WEIGHTS, 100)
    assert check(hub).code == 2
