"""What a command imports: on the CPU no torch and nothing that builds on it, so that these need not be installed."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from tests.invoking import environment
from tests.models import WIDTH, card, fine_tuned, tiny_llama

HEAVY = ("accelerate", "torch", "transformers")
PROGRAM = f"""
import sys
from hf_lineage.cli import main
from hf_lineage.signature import devices

devices.DRIVERS = sys.argv[1:2]
code = main(sys.argv[2:])
print(*(name for name in {HEAVY} if sys.modules.get(name)), file=sys.stderr)
sys.exit(code)
"""
ABSENT = f"import sys\nsys.modules.update(dict.fromkeys({HEAVY}))\n{PROGRAM}"
"""The same where none of the three can be imported."""


def imported(*arguments, drivers="", program=PROGRAM):
    """The exit code of a command, by default without the driver of a GPU, and which of the three it imported."""
    done = subprocess.run(
        [sys.executable, "-c", program, drivers, *map(str, arguments)],
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


@pytest.mark.few(1)
@pytest.mark.parametrize(("command", "code"), [("check", 3), ("annotate", 0)])
def test_a_command_that_reads_weights_imports_none_of_the_three(models, command, code):
    _, child = models
    with_adapter(child)
    assert imported(command, child, "--local-hub", child.parents[1]) == (code, [])


@pytest.mark.few(1)
@pytest.mark.parametrize("command", ["check", "compare", "inspect"])
def test_a_computer_with_a_gpu_and_without_the_three_works_on_its_cpu(models, tmp_path, command):
    base, child = models
    (tmp_path / "driver").touch()
    arguments = {"check": ["--local-hub", child.parents[1]], "compare": [base, "--paths", "all"], "inspect": []}
    assert imported(command, child, *arguments[command], drivers=tmp_path / "driver", program=ABSENT) == (0, [])
