"""MLX: what mlx itself quantized is decoded as mlx decodes it, and what does not fit is refused."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as torch_file

from hf_lineage import Options, compare
from hf_lineage.checkpoint.formats.hqq import MLX_BITS
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.repo import RepoRef
from tests import models
from tests.models import WEIGHTS, edit_json, fine_tuned, open_checkpoint, spoil, tiny_llama
from tests.quantizing import of_library

TENSORS = torch_file("tests/data/mlx.safetensors")
"""By bits and group: a matrix of three rows as mlx 0.32.4 quantized it, and as it decoded it."""
CASES = sorted({name.rpartition(".")[0] for name in TENSORS})
NAME = "model.layers.1.mlp.up_proj"


def quantized(values, bits, group):
    """A matrix by the published formula: a scale and a bias for each group, integers packed from the lowest bit on."""
    grouped = values.astype(np.float32).reshape(len(values), -1, group)
    low = grouped.min(axis=2, keepdims=True)
    scales = np.maximum((grouped.max(axis=2, keepdims=True) - low) / (2**bits - 1), 1e-7)
    codes = np.rint((grouped - low) / scales).clip(0, 2**bits - 1).astype(np.uint8).reshape(len(values), -1, 1)
    stream = np.unpackbits(codes, axis=2, bitorder="little")[..., :bits].reshape(len(values), -1)
    return np.packbits(stream, axis=1, bitorder="little").view(np.uint32), scales[..., 0], low[..., 0]


def packed(bits, group=32):
    """A packing of a matrix, for the table of formats."""

    def pack(matrix):
        words, scales, biases = map(torch.from_numpy, quantized(matrix.numpy(), bits, group))
        return {".weight": words, ".scales": scales.half(), ".biases": biases.half()}

    return pack


def released(source, folder, bits=4, group=32, key="quantization", **changes):
    """A copy of a model in this format."""
    shutil.copytree(source, folder)
    stored = {}
    for name, tensor in load_file(source / WEIGHTS).items():
        if tensor.ndim == 1 or tensor.shape[1] % group:
            stored[name] = tensor
            continue
        start = name.removesuffix(".weight")
        parts = quantized(tensor, bits, group)
        stored |= {f"{start}.{end}": part for end, part in zip(("weight", "scales", "biases"), parts, strict=True)}
    save_file(stored, folder / WEIGHTS)
    edit_json(folder / "config.json", **{key: {"bits": bits, "group_size": group} | changes})
    return folder


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setattr(models, "HIDDEN", 128)
    return tiny_llama(tmp_path / "base", width=128)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("key", ["quantization", "quantization_config"])
def test_every_width_and_group_is_decoded_as_mlx_decodes_it(case, key, tmp_path):
    bits, group = map(int, case.split("."))
    found = of_library(TENSORS, case, tmp_path, {key: {"bits": bits, "group_size": group}})
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-7)


def test_the_vectors_are_of_every_width():
    assert {int(case.split(".")[0]) for case in CASES} == set(MLX_BITS)


@pytest.mark.few(1)
@pytest.mark.parametrize(("bits", "group"), [(8, 64), (6, 32), (4, 64), (3, 32)])
def test_a_descendant_is_related_and_an_independent_model_is_not(bits, group, base, tmp_path):
    child = released(fine_tuned(base, tmp_path / "tuned"), tmp_path / "child", bits, group)
    other = released(tiny_llama(tmp_path / "plain", seed=3, width=128), tmp_path / "other", bits, group)
    (related,), (unrelated,) = (compare(str(base), str(each), Options(seed=0)).rows for each in (child, other))
    assert (related.verdict.code, related.notes) == ("inherited", ())
    assert unrelated.verdict.code == "unrelated"


def test_one_matrix_may_have_settings_of_its_own(base, tmp_path):
    folder = released(base, tmp_path / "child", 4, 32, **{NAME: {"bits": 8, "group_size": 64}})
    tensors = load_file(base / WEIGHTS)
    parts = dict(zip(("weight", "scales", "biases"), quantized(tensors[f"{NAME}.weight"], 8, 64), strict=True))
    spoil(
        folder, lambda stored: stored.update({f"{NAME}.{end}": torch.from_numpy(part) for end, part in parts.items()})
    )
    repo = RepoRef("org/model", folder)
    found = open_checkpoint(repo, repo.config()).read(f"{NAME}.weight")
    np.testing.assert_allclose(found, tensors[f"{NAME}.weight"], atol=2e-2)


def settings(**changes):
    return lambda folder: edit_json(folder / "config.json", quantization={"bits": 4, "group_size": 32} | changes)


def part(end, change):
    def changed(folder):
        tensors = load_file(folder / WEIGHTS)
        tensors[f"{NAME}.{end}"] = change(tensors.pop(f"{NAME}.{end}"))
        save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, folder / WEIGHTS)

    return changed


DAMAGED = {
    "other groups": (settings(group_size=64), "which do not make 4 groups of 64 integers of 4 bits; have"),
    "other bits": (settings(bits=8), "which do not make 4 groups of 32 integers of 8 bits; have"),
    "bits that are none": (settings(bits=7), "which do not make 4 groups of 32 integers of 7 bits; have"),
    "no number of bits": (settings(bits="4"), "`bits` of quantization_config must be a positive integer, not '4'"),
    "no scales": (part("scales", lambda scales: None), f"{NAME}.scales is missing, and"),
    "few scales": (part("scales", lambda scales: scales[:1]), f"{NAME}.scales has shape (1, 4), but the rest of"),
    "few biases": (part("biases", lambda biases: biases[:1]), f"{NAME}.biases has shape (1, 4), but the rest of its"),
    "other integers": (part("weight", lambda packed: packed.view(np.int32)), f"{NAME}.weight is stored as I32"),
    "scales that are no numbers": (part("scales", lambda scales: scales * np.nan), "holds scales that are not finite"),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGED.values(), ids=DAMAGED)
def test_what_does_not_fit_is_refused(damage, said, base, tmp_path):
    folder = released(base, tmp_path / "child")
    damage(folder)
    repo = RepoRef("org/model", folder)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(repo, repo.config()).read(f"{NAME}.weight")
    assert said in str(caught.value)


def test_another_mode_is_named(base, tmp_path):
    repo = RepoRef("org/model", released(base, tmp_path / "child", mode="mxfp4"))
    with pytest.raises(NothingToCompare, match="the weights are stored by MLX with the mode mxfp4, which is not"):
        open_checkpoint(repo, repo.config())
