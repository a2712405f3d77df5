"""Unit by unit: which coordinates show most, and what they show."""

import pytest
import torch
from safetensors.torch import load_file

from hf_lineage.checking.units import by_tokens, compare_by_units
from hf_lineage.errors import NothingToCompare
from hf_lineage.evidence.unit_comparison import RESIDUAL, TOKEN, OrderSettings
from hf_lineage.hub.repo import resolve
from hf_lineage.signature import coordinates as procrustes
from hf_lineage.source.headers import headers
from tests import streams
from tests.checking.conftest import BASE, OTHER, TUNED
from tests.models import WEIGHTS, spoil
from tests.streams import HUB, copied, rotated, shuffled, with_tokenizer, written

FORGOTTEN = streams.embedding(torch.zeros_like)
DEEP, FEW = {"num_hidden_layers": 12}, (0, 3, 6, 9)


def both(*folders):
    return [headers(resolve(str(folder))) for folder in folders]


def seen(folder, at_first=TOKEN):
    return analysed(HUB / BASE, folder, range(6), at_first=at_first, fit=True)


def test_neither_the_order_of_units_nor_their_tokens_are_needed_to_find_them(tmp_path):
    framed = seen(written("moss/llama-continued", tmp_path / "model", rotated, shuffled, FORGOTTEN))
    assert (framed.inherited.share > 0.9, framed.p_value > 0.01) == (True, True)
    framed = seen(written("magpie/llama-grafted", tmp_path / "grafted", rotated, FORGOTTEN))
    assert [round(float(share)) for share in framed.inherited.by_layer] == [0, 1, 0, 0, 1, 0]
    assert seen(HUB / TUNED, RESIDUAL).coordinates.name == RESIDUAL


@pytest.fixture(scope="module")
def deep_base(tmp_path_factory):
    return written(BASE, tmp_path_factory.mktemp("deep") / "base", streams.deeper("heron/llama-distilled"), **DEEP)


def analysed(base, folder, *analyses, at_first=TOKEN, fit=False):
    return compare_by_units(*both(base, folder), analyses, at_first, OrderSettings(199, 0), fit)


def test_where_a_few_layers_show_something_be_it_one_copied_layer_all_are_read(tmp_path, deep_base):
    rotated_copy = written(TUNED, tmp_path / "model", streams.deeper("heron/llama-distilled"), rotated, **DEEP)
    framed = analysed(deep_base, rotated_copy, FEW, range(12))
    assert framed.layers == (tuple(range(12)),) * 2
    assert framed.inherited.share > 0.99

    def copied(tensors):
        return tensors | {name: one for name, one in load_file(HUB / BASE / WEIGHTS).items() if ".layers.3." in name}

    changes = (streams.layers_of(OTHER), streams.deeper(OTHER), copied)
    folder = written(BASE, tmp_path / "copied", *changes, **DEEP)
    framed = analysed(deep_base, folder, FEW, range(12))
    assert len(framed.layers[1]) == 12
    assert framed.inherited.by_layer[3] > 0.9


def test_a_wide_stream_is_screened_and_a_rotated_copy_is_found_after_it(tmp_path, deep_base, monkeypatch):
    monkeypatch.setattr(procrustes, "DIRECTIONS", 64)
    monkeypatch.setattr(procrustes, "SCREENED_DIRECTIONS", 48)
    changes = (streams.deeper("heron/llama-distilled"), rotated, shuffled, FORGOTTEN)
    framed = analysed(deep_base, written(TUNED, tmp_path / "model", *changes, **DEEP), FEW, range(12), fit=True)
    assert (framed.coordinates.name, framed.inherited.share > 0.9) == ("procrustes", True)
    monkeypatch.setattr(procrustes, "between", None)
    folder = written(OTHER, tmp_path / "other", streams.deeper(OTHER), FORGOTTEN, **DEEP)
    with pytest.raises(NothingToCompare, match="the rows of its tokens are zero or not finite"):
        analysed(deep_base, folder, FEW, range(12), fit=True)


@pytest.mark.parametrize(
    ("name", "least"), [(TUNED, 0.98), ("moss/llama-continued", 0.5), (OTHER, None), ("heron/llama-distilled", None)]
)
def test_trained_units_are_found_in_half_of_the_directions_and_no_others(tmp_path, monkeypatch, name, least):
    monkeypatch.setattr(procrustes, "DIRECTIONS", 48)
    folder = written(name, tmp_path / "model", FORGOTTEN)
    if least:
        assert seen(folder).inherited.share > least
    else:
        with pytest.raises(NothingToCompare, match="the rows of its tokens are zero or not finite"):
            seen(folder)


EMBEDDING = "model.embed_tokens.weight"
TOKENS = {f"token {number}": number for number in range(256)}
UNSEEN = {
    "tokens of one row": (lambda folder: with_tokenizer(folder, dict.fromkeys(TOKENS, 7)), "share 1 tokens, fewer"),
    "a damaged tokenizer": (lambda folder: (folder / "tokenizer.json").write_text("{"), "is not JSON"),
    "rows of another width": (
        lambda folder: spoil(folder, lambda tensors: tensors.update({EMBEDDING: tensors[EMBEDDING][:, :8]})),
        "has no token rows of the same width as its stream",
    ),
}


@pytest.mark.parametrize(("change", "reason"), UNSEEN.values(), ids=UNSEEN)
def test_tokens_that_give_no_coordinates_are_a_reason(tmp_path, change, reason):
    base, model = (with_tokenizer(copied(BASE, tmp_path / name), TOKENS) for name in ("base", "model"))
    change(model)
    with pytest.raises(NothingToCompare, match=reason):
        by_tokens(*both(base, model))
