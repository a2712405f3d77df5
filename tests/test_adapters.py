"""LoRA adapters on the command line: hostile ones, forged ones, and every way in which a verdict on one is shown."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.adapters import change, grafted, pair, written
from tests.invoking import lineage
from tests.models import tiny_llama

HUB = Path("examples/hub")
UP = "model.layers.0.mlp.up_proj"
FACTORS = pair(UP, 48, 32)


def filled(number):
    return {name: tensor * 0 + number for name, tensor in FACTORS.items()}


@pytest.mark.parametrize(
    ("factors", "settings", "code", "words"),
    [
        (FACTORS, {"r": 0}, 2, "gives the rank 0, which must be a positive integer"),
        (filled(torch.nan), {}, 2, "the factors of model.layers.0.mlp.up_proj are not finite"),
        (pair(UP, 48, 32, rank=100), {"r": 100}, 3, "UNDECIDED"),
        (pair("model.layers.0.\x1b[31m.up_proj", 48, 32), {}, 3, r"the adapter is for model.layers.0.\x1b[31m.up_proj"),
        (pair("model.layers.0.mlp.experts", 48, 32, rank=8), {"target_parameters": ["x"]}, 3, "UNDECIDED"),
        *((filled(number), {}, 3, "UNDECIDED") for number in (3e38, 1e-40)),
        (pair(UP, 64, 40), {}, 1, "by shape: model.layers.0.mlp.up_proj is 64 x 40, not 48 x 32"),
    ],
)
def test_a_strange_adapter_gets_a_verdict_with_its_reason_and_a_damaged_one_a_line(
    tmp_path, factors, settings, code, words
):
    base = tiny_llama(tmp_path / "base")
    ended = lineage("compare", base, written(tmp_path / "x", factors, **settings), "--explain")
    assert (ended.code, words in (ended.error if code == 2 else ended.sentences)) == (code, True)
    assert (ended.err == "", "\x1b" in ended.out) == (code != 2, False)


def test_factors_of_a_square_matrix_that_are_swapped_lose_the_trace(tmp_path):
    hub = HUB / "acme/llama-base"
    copy = shutil.copytree(HUB / "fern/llama-lora", tmp_path / "x")

    def swap(factors):
        for name in [name for name in factors if "lora_A" in name]:
            other = name.replace("lora_A", "lora_B")
            factors[name], factors[other] = factors[other].T, factors[name].T

    assert lineage("compare", hub, copy).code == 0
    assert lineage("compare", hub, change(copy, swap)).code != 0


def test_the_owner_of_the_weights_can_forge_a_trace_and_security_says_so(tmp_path):
    """B made of the base's own W_down, on directions of the input that do nothing: nothing was trained."""
    weights = load_file(HUB / "otter/llama-independent/model.safetensors")
    random, factors = torch.Generator().manual_seed(0), {}
    for layer in range(6):
        down = weights[f"model.layers.{layer}.mlp.down_proj.weight"].float()
        module = f"model.layers.{layer}.mlp.up_proj"
        factors |= pair(module, *down.shape[::-1])
        factors[f"base_model.model.{module}.lora_A.weight"] *= 1e-6
        factors[f"base_model.model.{module}.lora_B.weight"] = down.T @ torch.randn(len(down), 2, generator=random)
    ended = lineage("compare", HUB / "otter/llama-independent", written(tmp_path / "x", factors))
    assert (ended.code, ended.rows[0][-2:]) == (0, ["VERIFIED", "adapter"])
    assert "forge a trace" in Path("SECURITY.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def weak(tmp_path_factory):
    """A LoRA of another base, one layer of which fits the base that it declares."""
    folder = shutil.copytree(HUB / "magpie/llama-lora-liar", tmp_path_factory.mktemp("weak") / "lora")
    return change(folder, grafted(HUB / "acme/llama-base/model.safetensors", [2]))


@pytest.mark.long
def test_a_weak_trace_is_undecided_unless_accepted_and_is_never_called_verified(weak):
    checked = ("check", weak, "--local-hub", HUB, "--format", "json")
    for options, code in (((), 3), (("--accept", "part"), 3), (("--accept", "weak"), 0)):
        ended = lineage(*checked, *options)
        (claim,) = json.loads(ended.out)["claims"]
        assert (ended.code, claim["exit_code"]) == (code, code)
        assert (claim["verdict"], claim["code"], claim["verified"]) == ("RELATED", "weak", False)
        assert claim["adapter"]["p_value"] <= 0.001
        assert claim["adapter"]["effect"] < claim["adapter"]["least_effect"]


def test_the_section_of_a_card_and_its_command_say_that_a_trace_is_weak(weak, tmp_path):
    folder = shutil.copytree(weak, tmp_path / "x")
    assert lineage("annotate", folder, "--local-hub", HUB, "--write", "--accept", "weak").code == 0
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert ("RELATED weak" in card, "VERIFIED adapter" in card) == (True, False)
    (claim,) = json.loads((folder / "lineage" / "claims.json").read_text(encoding="utf-8"))["claims"]
    assert (claim["code"], claim["verified"]) == ("weak", False)
    assert claim["command"].endswith("--accept weak")


PERMUTED = '"permuted": "dimensions of value heads"'


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("fern/llama-dora", {"text": ["trace by projection", "value z"], "json": ['"projection": "value"', PERMUTED]}),
        ("magpie/llama-lora-liar", {"html": ["residual coordinates", "Layer"], "sarif": ["trace of this base"]}),
    ],
)
def test_every_report_shows_the_projections(model, told, tmp_path):
    asked = [f"--output={form}={tmp_path / form}" for form in told]
    assert lineage("check", model, "--local-hub", HUB, *asked).code == (1 if "liar" in model else 0)
    texts = {form: (tmp_path / form).read_text("utf-8") for form in told}
    assert [word for form, words in told.items() for word in words if word not in texts[form]] == []
