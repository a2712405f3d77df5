"""What is printed of one model by itself, and of the registry.

The proof of a factorization as text and JSON.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.architecture.registry.lookups import factorizations
from hf_lineage.checking.inspection import Inspection, Pairing
from hf_lineage.errors import RegistryError
from hf_lineage.report.single.single import inspection_json, inspection_text, registry_json, registry_text
from tests import hostile

PAIRED = Pairing(
    scores=np.array([[0.9, 0.1, 0.0], [0.1, 0.6, 0.2], [0.0, 0.2, 0.3]]),
    signs=np.array([1.0, -1.0, 0.0]),
    alike=np.ones((3, 3), dtype=bool),
    layers=(0, 1, 4),
)
INSPECTION = Inspection(
    model="org/model",
    commit="a" * 40,
    architecture="LlamaForCausalLM",
    factorization="llama",
    layers=5,
    width=32,
    heads=4,
    pairings={"mlp": PAIRED, "query_key": "keys are shared by all heads"},
    bytes_read=750_000,
    bytes_stored=3_000_000,
    unclaimed=(),
)


def test_the_first_sentence_says_what_was_read_of_which_model():
    head = " ".join(inspection_text(INSPECTION).partition("Path")[0].split())
    assert head == (
        "org/model: LlamaForCausalLM, factorization llama, 5 layers, width 32, 4 heads; branches take 25% of 3.0 MB"
    )


def test_a_path_has_its_pairing_or_the_reason_why_it_has_none():
    rows = [line.split() for line in inspection_text(INSPECTION).splitlines()]
    assert ["mlp", "100%", "1.00", "33%"] in rows
    assert ["query_key", "-", "-", "-"] in rows
    assert "query_key: keys are shared by all heads" in inspection_text(INSPECTION).splitlines()


def test_a_long_reason_takes_no_room_from_the_table():
    reason = "no two layers have matrices of equal shapes, so there is nothing to pair, and more of the same"
    text = inspection_text(replace(INSPECTION, pairings={"mlp": PAIRED, "query_key": reason}))
    rows = [line.split() for line in text.splitlines()]
    assert ["mlp", "100%", "1.00", "33%"] in rows
    assert f"query_key: {reason}" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_every_layer_is_named_by_its_number_in_the_model_with_its_sign():
    lines = inspection_text(INSPECTION).splitlines()
    assert "mlp: trace concentration of the plain product, s = |tr M| / ‖M‖" in lines
    rows = [line.split() for line in lines if line.split()[:1] in (["0"], ["1"], ["4"])]
    assert [row[:2] for row in rows] == [["0", "0.90"], ["1", "0.60"], ["4", "0.30"]]
    assert (rows[0][2], rows[1][2]) == ("+", "-")
    assert rows[2][2] not in ("+", "-")
    assert [len(row[-1]) for row in rows] == sorted((len(row[-1]) for row in rows), reverse=True)


def test_an_empty_model_divides_nothing_by_zero():
    assert "branches take 0% of 0.0 MB" in inspection_text(replace(INSPECTION, bytes_read=0, bytes_stored=0))


def test_tensors_of_unknown_purpose_are_named_where_there_are_any():
    assert "unknown purpose" not in inspection_text(INSPECTION)
    text = inspection_text(replace(INSPECTION, unclaimed=("a.weight", "b.weight")))
    assert "Tensors of unknown purpose, not read: a.weight, b.weight" in text


@pytest.mark.parametrize("name", hostile.NAMES)
def test_names_that_strangers_chose_are_text(name):
    hostile_one = replace(INSPECTION, model=name, architecture=name, unclaimed=(name,), pairings={"mlp": name})
    assert hostile.traces(inspection_text(hostile_one), hostile.LINES[:-1]) == []


def test_json_has_the_whole_matrix_and_the_reasons():
    found = json.loads(inspection_json(INSPECTION))
    assert found["pairings"]["query_key"] == {"reason": "keys are shared by all heads"}
    mlp = found["pairings"]["mlp"]
    assert mlp["scores"] == PAIRED.scores.tolist()
    assert (mlp["accuracy"], mlp["layers"], mlp["trace_signs"]) == (1.0, [0, 1, 4], [1.0, -1.0, 0.0])
    assert found.keys() == set(Inspection.__dataclass_fields__)


class TestRegistry:
    def test_every_file_and_every_class_is_there_whole(self):
        text = registry_text(None)
        assert max(map(len, text.splitlines())) <= 80
        words = text.replace("\n  ", " ").splitlines()
        assert [tuple(line.replace(":", "").replace(",", "").split()) for line in words] == [
            (chosen.name, *chosen.classes) for chosen in factorizations()
        ]

    def test_a_class_is_shown_as_its_file_has_it_and_without_defaults(self):
        text = registry_text("LlamaForCausalLM")
        assert text.startswith("llama\n")
        assert "down: mlp.down_proj" in text
        assert not {"null", "[]", "{}"} & set(text.split())

    def test_json_of_one_class_is_part_of_that_of_all(self):
        everything, one = (json.loads(registry_json(name)) for name in (None, "LlamaForCausalLM"))
        assert len(everything) == len(factorizations())
        assert one
        assert all(chosen in everything for chosen in one)

    @pytest.mark.parametrize("show", [registry_text, registry_json])
    def test_a_class_that_is_not_there_says_how_to_add_it(self, show):
        with pytest.raises(
            RegistryError, match=r"^NoSuchModel is not in the registry; registry/README\.md explains how"
        ):
            show("NoSuchModel")
