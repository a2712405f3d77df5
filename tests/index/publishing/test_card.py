"""The card of an index: its figures are ours, the rest is whoever's wrote it."""

import pytest
from huggingface_hub import DatasetCard

from hf_lineage.index.publishing import card


@pytest.fixture
def rows(catalogue):
    return catalogue.read().table()


def test_it_says_how_many_models_there_are_and_by_which_recipe(rows):
    text = card.written("", "org/index", rows)
    assert "Keys and signatures of 7 models" in text
    assert "| mlp | `mlp-robust-64-" in text
    assert "$ hf-lineage identify org/model --index org/index" in text
    assert "tags" in DatasetCard(text).data.to_dict()


def test_only_our_block_is_written_anew(rows):
    text = card.written("", "org/index", rows.slice(0, 1)).replace("---\n\n", "license: mit\n---\n\nOurs.\n", 1)
    after = card.written(text, "org/index", rows)
    assert "license: mit\n---\n\nOurs.\n" in after
    assert "of 7 models" in after
    assert card.written(after, "org/index", rows) == after


def test_a_card_without_our_block_is_left_as_it_is(rows):
    assert card.written("# Mine", "org/index", rows) == "# Mine"
