"""What the registry says for adapters alone is true of the real transformers modules."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage.architecture.layout import is_transposed
from hf_lineage.architecture.registry import factorizations
from hf_lineage.lora.placement import in_memory
from hf_lineage.signature.factors import unpacked
from tests.conformance.forms import variants
from tests.conformance.models import known_classes, required
from tests.conformance.proving import LAYOUTS
from tests.conformance.tiny import build_tiny_model, runner, sample
from tests.long import LONG

HEAD = re.compile(r"(For\w+|Model|LMHead\w*|WithProjection|Backbone)$")
ROUNDING = 1e-6
"""Of what permuting queries alone changes, in float64."""
ROTARY = [("llama", "LlamaModel"), ("gpt_neox", "GPTNeoXModel"), ("gemma", "GemmaModel")]
LACKING = {"DPR", "MusicgenMelody", "FSMT", "Phi4Multimodal", "VideoMAE"}
"""Beginnings of names of classes that cannot be run in float64, or only with more than text or a picture; and one whose
queries have a bias of another name, which is not permuted here."""


def one_of_each(factorization):
    """A class of each model under the heads that a file lists, the one without a head where it is listed."""
    classes = sorted(factorization.classes, key=lambda name: name.endswith("Model"))
    kinds = {HEAD.sub("", name): name for name in classes if "." not in name}
    return [name for name in kinds.values() if not any(name.startswith(start) for start in LACKING)]


PLACED = [one for one in factorizations() if one.lora.rotary is not True]
FREE = [
    pytest.param(one, name, id=f"{one.name}-{name}", marks=[LONG] if number or one not in LAYOUTS else [])
    for one in PLACED
    for number, name in enumerate(one_of_each(one))
]
"""Of a file a layout one class, and the others as long tests."""


def outputs(model, folder):
    """What a model on the disk gives out, in float64."""
    model = runner(type(model).from_pretrained(folder, dtype=torch.float64).eval())
    inputs = {name: v.double() if v.is_floating_point() else v for name, v in sample(model, 2, 8).items()}
    with torch.no_grad():
        result = model(**inputs)
    return next(value for value in result.to_tuple() if isinstance(value, torch.Tensor))


def reversed_within_heads(found, folder: Path, into: Path, roles) -> Path:
    """A copy in which the dimensions of every head of some roles stand in the opposite order."""
    into.mkdir()
    tensors = load_file(folder / "model.safetensors")
    for layer_set in found.layout.everything:
        for slot in (layer_set.slots[role] for role in roles if role in layer_set.slots):
            is_turned = is_transposed(found.layout.factorization, slot)
            rows = tensors[slot.tensor].T if is_turned else tensors[slot.tensor]
            places = unpacked(np.arange(len(rows))[:, None], layer_set, slot)[..., 0]
            order = np.arange(len(rows))
            order[places.ravel()] = places[..., ::-1].ravel()
            rows = rows[torch.from_numpy(order)]
            tensors[slot.tensor] = (rows.T if is_turned else rows).contiguous()
            if name := layer_set.biases.get(slot.tensor):
                tensors[name] = tensors[name].flatten()[torch.from_numpy(order)].reshape(tensors[name].shape)
    save_file(tensors, into / "model.safetensors", metadata={"format": "pt"})
    (into / "config.json").write_text((folder / "config.json").read_text())
    return into


def is_free(found, folder):
    """Whether the dimensions of queries and keys together may stand in any order."""
    plain, alone, together = (
        outputs(found.model, reversed_within_heads(found, folder, folder.parent / str(len(roles)), roles))
        for roles in ((), ("query",), ("query", "key"))
    )
    moved = float((plain - alone).abs().max())
    assert moved > 0
    return float((plain - together).abs().max()) <= ROUNDING * moved


@pytest.mark.parametrize(("factorization", "name"), FREE)
def test_where_positions_are_not_rotary_queries_and_keys_may_be_permuted_within_a_head(factorization, name, tmp_path):
    if name not in known_classes():
        pytest.skip(f"transformers has no {name}")
    found = build_tiny_model(name, tmp_path / "model", required(factorization, name, variants(name)[0]))
    if factorization.lora.rotary in found.model.config.to_dict():
        pytest.skip("its config.json has the key of those that turn queries and keys")
    assert is_free(found, tmp_path / "model")


@pytest.mark.parametrize(("file", "name"), ROTARY)
def test_where_positions_are_rotary_they_may_not(file, name, tmp_path):
    (factorization,) = (one for one in factorizations() if one.name == file)
    assert factorization.lora.rotary is True
    found = build_tiny_model(name, tmp_path / "model", required(factorization, name, variants(name)[0]))
    assert not is_free(found, tmp_path / "model")


RENAMED = [(one, names[-1]) for one in factorizations() if one.lora.in_memory and (names := one_of_each(one))]


@pytest.mark.parametrize(("factorization", "name"), RENAMED, ids=lambda one: getattr(one, "name", one))
def test_every_matrix_of_a_renamed_class_is_found_by_its_name_in_memory(factorization, name, tmp_path):
    found = build_tiny_model(name, tmp_path, required(factorization, name, variants(name)[0]))
    names = in_memory(found.shapes, factorization.lora)
    stored = {slot.tensor for layer_set in found.layout.everything for slot in layer_set.slots.values()}
    assert {names[name] for name in found.model.state_dict() if name in names} >= stored
