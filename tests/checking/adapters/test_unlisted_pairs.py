"""Pairs of matrices that only adapters are tested on, and how the rows of the first are grouped.

That the rows of a group may stand in any order is proved on the real modules in tests/test_conformance_libraries.py.
"""

import pytest

from hf_lineage.checking.adapters.unlisted_pairs import outside
from hf_lineage.checking.source.describing import described
from hf_lineage.checking.source.opening import opened
from hf_lineage.hub.reference import RepoRef
from tests import pictures
from tests.models import edit_json, tiny_llama


@pytest.fixture(scope="module")
def unet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    pictures.pipeline(folder, 0)
    return folder / "unet"


def sizes(unet, counts):
    edit_json(unet / "config.json", attention_head_dim=counts)
    pairs = [layer_set for _, layer_set in outside(opened(described(RepoRef("acme/unet", unet))))]
    return {(layer_set.width, layer_set.heads["value"].size) for layer_set in pairs}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (4, {(32, 8), (64, 16)}),
        ([2, 4], {(32, 8), (64, 16)}),
        ([2, 3], {(32, 16), (64, 32)}),
        (1, {(32, 32), (64, 64)}),
    ],
)
def test_rows_are_grouped_by_what_divides_a_head_whichever_number_counts(unet, counts, expected):
    assert sizes(unet, counts) == expected


@pytest.mark.parametrize("counts", [None, 0, -2, "2", True, 2.0, [], [2, None], [2] * 65, 3, 64, {"a": 2}])
def test_without_a_number_of_heads_nothing_is_paired(unet, counts):
    assert sizes(unet, counts) == set()


def test_a_model_whose_registry_file_names_no_pair_has_none(tmp_path):
    assert list(outside(opened(described(RepoRef("acme/base", tiny_llama(tmp_path / "base")))))) == []
