"""Where a base holds the matrices of an adapter, by the registry's layout, and which can be tested."""

from dataclasses import replace

import msgspec

from hf_lineage.hub.repo import RepoRef
from hf_lineage.lora import placement
from hf_lineage.lora.placement import list_pairs
from hf_lineage.source.config import read_config
from hf_lineage.source.headers import read_headers
from tests import pictures
from tests.adapters import everything, lora_of, opened_base
from tests.models import HIDDEN, WIDTH, edit_json, tiny_llama

NAMES = {
    ("model.", None): True,
    ("", None): True,
    ("language_model.model.", None): False,
    ("model.model.", None): False,
    ("", "CAUSAL_LM"): False,
}


def test_modules_are_found_with_a_prefix_or_not_and_fixed_coordinates_not_permuted(tmp_path):
    llama = opened_base(tiny_llama(tmp_path / "base"))
    for number, ((prefix, task), found) in enumerate(NAMES.items()):
        name = f"{prefix}layers.0.mlp.up_proj"
        lora = lora_of(tmp_path / str(number), (name, HIDDEN, WIDTH), task_type=task)
        places = placement.find_places(llama, lora)
        assert [place.slot.role for place in places.everything] == (["up"] if found else [])
        assert (places.absent, places.idle) == ((), () if found else (name,))
    lora = lora_of(tmp_path / "lora", *everything())
    changed = msgspec.structs.replace(llama.layout.factorization, exchangeable=False)
    fixed = replace(llama, layout=replace(llama.layout, factorization=changed))
    roles = {place.role for place in placement.testable(placement.find_places(fixed, lora), fixed)}
    assert roles == {"up", "gate", "value"}
    assert [*list_pairs(llama)] == [], "its registry file names no pair"


HEADS = [
    (4, {(32, 8), (64, 16)}),
    ([2, 4], {(32, 8), (64, 16)}),
    ([2, 3], {(32, 16), (64, 32)}),
    (1, {(32, 32), (64, 64)}),
    *((counts, set()) for counts in (None, 0, -2, "2", True, 2.0, [], [2, None], [2] * 65, 3, 64, {"a": 2})),
]


def test_rows_are_grouped_by_what_divides_a_head_and_not_without_a_number(tmp_path):
    pictures.pipeline(tmp_path, 0)
    for counts, expected in HEADS:
        edit_json(tmp_path / "unet/config.json", attention_head_dim=counts)
        unet = read_headers(read_config(RepoRef("acme/unet", tmp_path / "unet")))
        sizes = {(layer_set.width, layer_set.heads["value"].size) for _, layer_set in list_pairs(unet)}
        assert sizes == expected, counts
