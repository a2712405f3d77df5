"""The listed class that reads everything of a model, though others of its tensors may differ."""

import torch

from hf_lineage.architecture.layout import bind
from hf_lineage.architecture.likeness.fitting import fitting_class, unread
from hf_lineage.architecture.registry.lookups import factorizations, lookup
from hf_lineage.hub.reference import resolve
from tests.models import open_checkpoint, spoil, tiny_llama


def opened(folder):
    repo = resolve(str(folder))
    return open_checkpoint(repo).shapes, repo.config()


def test_unread_are_matrices_and_gains_of_the_layers_alone(tmp_path):
    shapes, config = opened(tiny_llama(tmp_path / "model"))
    olmo = next(found for found in factorizations() if found.name == "olmo")
    assert unread(bind(lookup(config)[1], shapes, config), shapes) == ()
    assert unread(bind(olmo, shapes, config), shapes) == (
        "model.layers.*.input_layernorm",
        "model.layers.*.post_attention_layernorm",
    )


def test_a_class_fits_that_reads_all_matrices_though_a_small_tensor_is_its_own(tmp_path):
    folder = tiny_llama(tmp_path / "model", architectures=["TheirForCausalLM"])
    spoil(folder, lambda tensors: tensors.update({"model.layers.0.mlp.scale": torch.ones(3)}))
    assert fitting_class(*opened(folder)) == "LlamaForCausalLM"


def test_no_class_fits_where_a_matrix_is_missing_unread_or_a_setting_forbids_it(tmp_path):
    shapes, config = opened(tiny_llama(tmp_path / "model", architectures=["TheirForCausalLM"]))
    assert fitting_class({name: shape for name, shape in shapes.items() if "down_proj" not in name}, config) is None
    assert fitting_class(shapes | {"model.layers.0.own.weight": (32, 32)}, config) is None
    assert fitting_class({}, config) is None
