"""What a command imports: judging models on the CPU needs neither torch nor what builds on it."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from tests.models import WIDTH, card, fine_tuned, tiny_llama
from tests.running import environment

HEAVY = ("accelerate", "torch", "transformers")
PROGRAM = f"""
import sys
from hf_lineage.cli import main
from hf_lineage.signature import devices

devices.DRIVERS = sys.argv[1:2]
code = main(sys.argv[2:])
print(*(name for name in {HEAVY} if name in sys.modules), file=sys.stderr)
sys.exit(code)
"""


def imported(*arguments, drivers=""):
    """The exit code of a command without the driver of a GPU, and which of the three it imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, drivers, *map(str, arguments)],
        env=environment(CUDA_VISIBLE_DEVICES=""), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr.splitlines()[-1].split()


@pytest.fixture
def models(tmp_path):
    """A base and a child that declares it."""
    base = tiny_llama(tmp_path / "hub" / "acme" / "base")
    child = fine_tuned(base, tmp_path / "hub" / "fern" / "child")
    card(child, "acme/base", "finetune")
    return base, child


def with_adapter(model):
    """A LoRA adapter beside the weights of a model."""
    random, module = torch.Generator().manual_seed(0), "model.layers.0.mlp.up_proj"
    shapes = {"A": (2, WIDTH), "B": (48, 2)}
    factors = {
        f"base_model.model.{module}.lora_{factor}.weight": 0.01 * torch.randn(*shape, generator=random)
        for factor, shape in shapes.items()
    }
    save_file(factors, model / "adapter_model.safetensors")
    said = {"peft_type": "LORA", "r": 2, "lora_alpha": 2, "target_modules": ["up_proj"]}
    (model / "adapter_config.json").write_text(json.dumps(said))
    return model


def commands(base, child, output):
    """Every command that reads weights."""
    return {
        "check": ["check", child, "--local-hub", child.parents[1]],
        "compare": ["compare", base, child],
        "extract": ["extract", child, "-o", output],
        "inspect": ["inspect", child],
    }


@pytest.mark.parametrize("command", ["check", "compare", "extract", "inspect"])
@pytest.mark.parametrize("prepare", [lambda model: model, with_adapter], ids=["a model", "with a LoRA adapter"])
def test_a_command_that_reads_weights_imports_none_of_the_three(models, tmp_path, command, prepare):
    base, child = models
    prepare(child)
    assert imported(*commands(base, child, tmp_path / "child.sig")[command]) == (0, [])


def test_an_import_would_be_noticed(models, tmp_path):
    """With the driver of a GPU there is one."""
    (tmp_path / "driver").touch()
    code, found = imported("compare", *models, drivers=tmp_path / "driver")
    assert (code, "torch" in found) == (0, True)
