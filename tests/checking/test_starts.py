"""Models that began alike, and blends: what is measured is said, and no cause that was not."""

import shutil

import pytest
from safetensors.torch import load_file

from hf_lineage import Options, compare
from tests import models
from tests.models import EXAMPLES, fine_tuned, spoil, tiny_llama

BASIS = (
    "the coordinates of both models mean the same; the cause may be a copied embedding, a common initialisation, "
    "much training since, a blend with another model or training on hidden states of the base"
)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("noise", "words", "said"),
    [
        (4.0, "VERIFIED inherited", ""),
        (6.0, "RELATED part", "is inherited, in layers 1, 3, 5"),
        (8.0, "RELATED embedding", BASIS),
        (12.0, "RELATED embedding", BASIS),
    ],
)
def test_of_models_that_began_alike_no_cause_is_named_as_the_only_one(tmp_path, monkeypatch, noise, words, said):
    """What training adds to a start is drawn, for the one and the other."""
    monkeypatch.setattr(models, "HIDDEN", 256)
    start = tiny_llama(tmp_path / "start", layers=6, width=96)
    one, other = (fine_tuned(start, tmp_path / str(seed), noise, seed) for seed in (1, 2))
    verdict = compare(str(one), str(other), Options(seed=1, permutations=999)).rows[0].verdict
    assert verdict.label == words
    assert verdict.reason.endswith(said)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("share", "words", "said"), [(0.5, "RELATED part", "is inherited, in layer 2"), (0.4, "RELATED embedding", BASIS)]
)
def test_of_a_blend_with_another_model_it_is_said_that_it_may_be_one(tmp_path, share, words, said):
    base, other = (EXAMPLES / name for name in ("acme/llama-base", "otter/llama-independent"))
    shutil.copytree(base, tmp_path / "blend", ignore=shutil.ignore_patterns("README.md"))
    strange = load_file(other / "model.safetensors")

    def blend(tensors):
        for name, tensor in tensors.items():
            mixed = share * tensor.float() + (1 - share) * strange[name].float()
            tensors[name] = mixed.to(tensor.dtype)

    spoil(tmp_path / "blend", blend)
    verdict = compare(str(base), str(tmp_path / "blend"), Options(seed=1, permutations=999)).rows[0].verdict
    assert verdict.label == words
    assert verdict.reason.endswith(said)
