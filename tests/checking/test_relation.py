"""How a model was made from its base is told from the layers that were read, and no byte more is downloaded for it."""

import re
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hf_lineage import Options, check
from hf_lineage.checking import relation
from hf_lineage.checkpoint import rounding
from hf_lineage.evidence.relation import Means
from hf_lineage.signature import sample as sampling
from tests import experts, models
from tests.blends import dare
from tests.checking.conftest import compared
from tests.checkpoint.formats.test_scaled import blocks
from tests.checkpoint.test_rounding import quantized
from tests.gguf_models import KINDS, write
from tests.models import EXAMPLES, WEIGHTS, fine_tuned, spoil, tiny_gpt2, tiny_llama
from tests.quantizing import BASE, repacked

QUANTIZED = r"quantized \(stored with [\d.]+ bits a weight\)"
TUNED = "as by fine-tuning or a merge"
IN_FULL = rf"9 of 9 matrices changed in full \(by (about )?[68]\.\d% of their size\), {TUNED}"
EIGHT = {"E4M3": torch.float8_e4m3fn, "E5M2": torch.float8_e5m2}


def made(base, model, **options):
    return compared(base, model, seed=1, permutations=199, **options).derivation


def means(derived):
    return [one.value for one in derived.means]


SEEN = {
    "fern/llama-finetune-a": f"9 of 9 matrices changed in full (by 6.5% of their size), {TUNED}",
    "fern/llama-lora-merged": "a change of rank 8 in 12 of 12 matrices, as a merged LoRA adapter leaves it",
    "heron/llama-int8-rounded": "quantized to 8 bits",
    "heron/llama-pruned-50": "pruned (50% of the weights set to zero)",
    "magpie/llama-laundered": "hidden units reordered and rescaled, weights unchanged",
    "magpie/llama-grafted": "weights unchanged",
    "fern/gpt2-finetune-a": f"6 of 6 matrices changed in full (by 10.8% of their size), {TUNED}",
    **dict.fromkeys(("magpie/llama-liar", "heron/llama-distilled", "fern/llama-lora")),
}
"""None of a model in which no layer is inherited, or that is an adapter."""


@pytest.mark.few(2)
@pytest.mark.parametrize("model", SEEN)
def test_what_was_done_to_the_example_models_is_seen(model):
    (row,) = check(model, options=Options(local_hub=EXAMPLES, seed=1, permutations=199)).rows
    assert (row.derivation and row.derivation.words) == SEEN[model]


def edited(folder, change, source=BASE):
    """A copy of a model in which those tensors are others for which `change` gives one, by their names."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("README.md"))

    def each(tensors):
        for name, tensor in tensors.items():
            new = change(name, tensor.float())
            tensors[name] = tensor if new is None else new.to(tensor.dtype)

    return spoil(folder, each)


def changed(folder, change, source=BASE):
    """A copy of a model in which every matrix of its layers is changed; it stays in its format."""
    matrices = sorted(name for name, one in load_file(source / WEIGHTS).items() if ".layers." in name and one.ndim == 2)

    def numbered(name, one):
        if name in matrices:
            return torch.tensor(np.ascontiguousarray(change(one.numpy(), matrices.index(name))))
        return None

    return edited(folder, numbered, source)


def low_rank(rank, size=0.1):
    def add(matrix, number):
        rng = np.random.default_rng(number)
        factors = rng.normal(size=(len(matrix), rank)), rng.normal(size=(rank, matrix.shape[1]))
        return matrix + size * matrix.std() * (factors[0] @ factors[1] / np.sqrt(rank)).astype(np.float32)

    return add


COARSE = ("Q8_0", "Q4_0", "MXFP4")
GGUF = {
    "fern/llama-lora-merged": {  # of rank 8, in attention too, which is nearer to the base
        "F16": "a change of rank 8 in 12 of 12 matrices, as a merged LoRA adapter leaves it$",
        "Q8_0": f"a change of rank 8 in 12 of 12 matrices, as a merged LoRA adapter leaves it, then {QUANTIZED}",
        "Q4_0": f"a change of rank at least [1-8] in 12 of 12 matrices .rounding hides .*, then {QUANTIZED}",
        "MXFP4": f"{QUANTIZED}, whether or how 12 of 12 matrices were changed before is unclear",
    },
    "acme/llama-base": {"F16": "weights unchanged", **dict.fromkeys(COARSE, QUANTIZED)},
    "fern/llama-finetune-a": {"F16": f"{IN_FULL}$", **dict.fromkeys(COARSE, f"{IN_FULL}, then {QUANTIZED}")},
    "heron/llama-pruned-50": {
        "F16": r"pruned \(50% of the weights set to zero\)$",
        "Q8_0": rf"pruned \(at least (4\d|50)% of the weights set to zero\), then {QUANTIZED}",
        "Q4_0": rf"pruned \(at least (3\d|4\d|50)% of the weights set to zero\), then {QUANTIZED}",
        "Q5_1": rf"pruned \(at least (4\d|50)% of the weights set to zero\), then {QUANTIZED}",
    },
}


@pytest.mark.few(2)
@pytest.mark.parametrize(("model", "kind"), [(model, kind) for model, each in GGUF.items() for kind in each])
def test_of_a_quantized_file_only_what_was_done_is_said(tmp_path, model, kind):
    file = write(EXAMPLES / model, tmp_path / "child.gguf", kind=getattr(KINDS, kind))
    assert re.fullmatch(GGUF[model][kind], made(BASE, file).words)


def test_an_adapter_on_attention_is_found_and_no_rank_that_rounding_hides(tmp_path):
    def attention(name, one):
        return torch.tensor(low_rank(8)(one.numpy(), 1)) if ".q_proj" in name or ".v_proj" in name else None

    derived = made(BASE, edited(tmp_path / "child", attention))
    assert (means(derived), derived.rank, len(derived.changed_matrices)) == (["low_rank"], 8, 6)
    hidden = made(BASE, changed(tmp_path / "hidden", low_rank(16, 0.0005)))
    assert (means(hidden)[0], hidden.rank) == ("sparse", None)


def test_reordered_units_of_a_class_that_stores_matrices_transposed_are_found(tmp_path):
    base = tiny_gpt2(tmp_path / "base", layers=4, width=64)

    def reorder(name, one):
        if ".mlp.c_" not in name or one.ndim == 1:
            return None
        order = torch.randperm(256, generator=torch.Generator().manual_seed(int(name.split(".")[1])))
        return one[:, order] if "c_fc" in name else one[order]

    assert means(made(base, edited(tmp_path / "child", reorder, base))) == ["reordered", "unchanged"]


def test_dare_is_told_by_equal_numbers_and_a_quantized_file_by_the_bits_it_stores(tmp_path):
    derived = made(BASE, dare(tmp_path / "dare", 0.3))
    told = "70% of the numbers are the base's, unchanged, the others are not, as DARE"
    assert (means(derived), derived.words.startswith(told)) == (["sparse"], True)
    settings = {"quant_method": "fp8", "weight_block_size": [32, 32]}
    derived = made(BASE, repacked(BASE, tmp_path / "child", blocks(32, 32), **settings))
    assert means(derived)[0] == "quantized"
    assert derived.words.startswith("quantized (stored with 8 bits a weight)")


@pytest.mark.parametrize("budget", ["quick", "full"])
@pytest.mark.few(1)
def test_over_the_network_nothing_more_is_downloaded(tmp_path, online, monkeypatch, budget):
    """Of models so large beside a sample that a sample decides."""
    for name, size in (("UNITS", 64), ("RUN", 8), ("COORDINATES", 32)):
        monkeypatch.setattr(sampling, name, size)
    monkeypatch.setattr(models, "HIDDEN", 512)
    monkeypatch.setattr("hf_lineage.checkpoint.remote.GAP", 0)
    online.publish("org/base", base := tiny_llama(tmp_path / "base", layers=16, width=128))
    online.publish("org/child", fine_tuned(base, tmp_path / "child"))
    derived = made("org/base", "org/child", budget=budget)
    assert means(derived) == ["dense", "frozen"]
    assert online.twice() == []
    with_it = online.moved("org/child")
    monkeypatch.setattr("hf_lineage.checking.claims.measure_derivation", lambda *_: None)
    assert made("org/base", "org/child", budget=budget, recompute=True) is None
    assert online.moved("org/child") == 2 * with_it


def times(factor, *parts):
    return lambda name, one: one * factor if any(part in name for part in parts) else None


def rounded(name, one):
    whole = one.abs().amax(dim=-1, keepdim=True) / 127
    return one * 1.2 if one.ndim == 1 else (one / whole).round() * whole if ".layers." in name else one


def trained_layers(name, one):
    return one + 0.01 * torch.randn(one.shape, generator=torch.manual_seed(0)) if ".layers." in name else None


ALL_BUT = "all but the {} are the base's, unchanged"
IN_LAYERS = f"12 of 12 matrices changed in full (by 9.4% of their size), {TUNED}"
TRAINED = {
    "norms": (BASE, times(1.1, "norm"), ALL_BUT),
    "biases": (EXAMPLES / "acme/gpt2-base", lambda name, one: one + 0.1 if "mlp.c_fc.bias" in name else None, ALL_BUT),
    "gate": (None, times(1.1, "gate.weight"), ALL_BUT),
    "layers": (BASE, trained_layers, f"{IN_LAYERS}, the head and embedding are the base's, unchanged"),
    "norms beside a quantization": (BASE, rounded, "quantized to 8 bits, the norms changed as well"),
    "embedding": (BASE, times(1.1, "embed_tokens"), ALL_BUT),
    "head": (BASE, times(1.1, "lm_head"), ALL_BUT),
    "head and norms": (BASE, times(0.9, "lm_head", "model.norm.weight"), ALL_BUT),
    "MLPs": (BASE, times(0.9, "layers.1.mlp"), ALL_BUT),
}


@pytest.mark.parametrize("kinds", TRAINED)
@pytest.mark.few(5)
def test_weights_are_unchanged_only_if_all_tensors_are_and_what_was_trained_is_named(tmp_path, monkeypatch, kinds):
    base, change, words = TRAINED[kinds]
    source = base or experts.made(tmp_path / "base")
    child = edited(tmp_path / "child", change, source)
    derived = made(source, child)
    assert derived.words == words.format(kinds)
    assert (means(derived) == ["frozen"]) is (words == ALL_BUT)
    if words == ALL_BUT and kinds != "MLPs":
        monkeypatch.setattr(relation, "rows_beside", lambda *_args, **_named: ())
        assert made(source, child).words == "weights unchanged"


@pytest.mark.few(1)
@pytest.mark.parametrize("scaled", ["whole", "rows", "columns", "not"])
@pytest.mark.parametrize("form", EIGHT)
@pytest.mark.crossed("scaled", "form")
def test_a_round_trip_through_eight_bits_is_no_fine_tuning(tmp_path, monkeypatch, form, scaled):
    def there_and_back(matrix, _):
        one, top = torch.tensor(matrix), torch.finfo(EIGHT[form]).max
        size = {"whole": one.abs().max(), "rows": one.abs().amax(1, True), "columns": one.abs().amax(0, True)}
        scale = size[scaled] / top if scaled in size else torch.tensor(1.0)
        return ((one / scale).to(EIGHT[form]).float() * scale).numpy()

    child = changed(tmp_path / "child", there_and_back)
    assert made(BASE, child).words == f"quantized to 8 bits ({form})"
    monkeypatch.setattr(rounding, "SHORT", [])
    assert "as by fine-tuning or a merge" in made(BASE, child).words


@pytest.mark.few(1)
@pytest.mark.parametrize("group", [16, 32])
def test_groups_along_the_output_share_a_scale_as_well(tmp_path, monkeypatch, group):
    def round_off(matrix, _):
        turned = np.ascontiguousarray(matrix.T)
        return quantized(turned, 4, group if turned.shape[1] % group == 0 else turned.shape[1]).T

    child = changed(tmp_path / "child", round_off)
    assert made(BASE, child).words == "quantized to 4 bits"
    monkeypatch.setattr(rounding, "BLOCKS", ())
    assert Means.QUANTIZED not in made(BASE, child).means


@pytest.mark.long
def test_signs_are_one_bit_and_no_change(tmp_path, monkeypatch):
    child = changed(tmp_path / "child", lambda one, _: np.sign(one) * np.abs(one).mean(1, keepdims=True))
    derived = made(BASE, child)
    assert (derived.words, derived.size) == ("quantized to 1 bits", 0)
    three = made(BASE, changed(tmp_path / "three", lambda one, _: np.rint(np.clip(one / 0.1, -1, 1)) * np.float32(0.1)))
    assert three.words == "quantized to 2 bits"
    monkeypatch.setattr(rounding.Grid, "rounds", lambda *_: False)
    assert made(BASE, child).size > 0.3


@pytest.mark.few(1)
@pytest.mark.parametrize("bits", [8, 0])
def test_gains_that_were_moved_into_matrices_are_no_training(tmp_path, monkeypatch, bits):
    """SmoothQuant divides what reads a norm's output by what it multiplies the norm with."""
    random = torch.Generator().manual_seed(0)
    factors = {norm: torch.exp2(torch.randn(96, generator=random)) for norm in ("input", "post_attention")}
    readers = {"input": ("q_proj", "k_proj", "v_proj"), "post_attention": ("gate_proj", "up_proj")}

    def smooth(name, one):
        for norm, factor in factors.items():
            if f"{norm}_layernorm" in name:
                return one / factor
            one = one * factor if name.split(".")[-2] in readers[norm] else one
        whole = one.abs().amax(dim=-1, keepdim=True) / 127 if bits else 1
        return (one / whole).round() * whole if bits and ".layers." in name else one

    child, end = edited(tmp_path / "child", smooth), "quantized to 8 bits" if bits else "weights unchanged"
    assert made(BASE, child).words == f"gains of norms moved into matrices, {end}"
    monkeypatch.setattr(relation, "_fold_gains", lambda *_: None)
    assert set(made(BASE, child).means) & {Means.UNCLEAR, Means.DENSE}
