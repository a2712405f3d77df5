"""How each kind of example model is made; its positional arguments end with the declared models."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from hub_training import CONTEXT, Schedule, distillation_loss, train
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor, nn
from torch.nn.utils import parametrize
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

WIDTH = 96

# About 1 / sqrt(WIDTH). The default, 0.02, suits widths in the thousands; here it leaves two of the Llama's six MLPs
# unpaired.
INITIALIZER_RANGE = 0.1


@dataclass(frozen=True)
class Made:
    """A model and, if it was trained, what its training came to."""

    model: PreTrainedModel | PeftModel
    results: dict[str, float] = field(default_factory=dict)


def llama() -> PreTrainedModel:
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=WIDTH,
        intermediate_size=256,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=INITIALIZER_RANGE,
        bos_token_id=None,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config)


def gpt2() -> PreTrainedModel:
    config = GPT2Config(
        vocab_size=256,
        n_embd=WIDTH,
        n_inner=4 * WIDTH,
        n_layer=6,
        n_head=4,
        n_positions=CONTEXT,
        initializer_range=INITIALIZER_RANGE,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return GPT2LMHeadModel(config)


def pretrain(
    text: Tensor, schedule: Schedule, architecture: Callable[[], PreTrainedModel], *_: PreTrainedModel, seed: int
) -> Made:
    """Fresh weights of their own seed, whatever the card declares."""
    torch.manual_seed(seed)
    model = architecture()
    loss = train(model, text, schedule)
    return Made(model, {"seed": seed, **_results(schedule, loss)})


def distill(text: Tensor, schedule: Schedule, teacher: PreTrainedModel, *, seed: int) -> Made:
    """Fresh weights of their own seed that learn the teacher's outputs."""
    torch.manual_seed(seed)
    student = llama()
    loss = train(student, text, schedule, distillation_loss(teacher, temperature=2.0, alpha=0.5))
    return Made(student, {"seed": seed, **_results(schedule, loss)})


def transplant(text: Tensor, schedule: Schedule, base: PreTrainedModel, *, layers: tuple[int, ...], seed: int) -> Made:
    """Fresh weights of their own seed, but for the base's embedding and some of its layers, which stay as they are."""
    torch.manual_seed(seed)
    model = llama()
    taken = [model.model.embed_tokens, *(model.model.layers[number] for number in layers)]
    given = [base.model.embed_tokens, *(base.model.layers[number] for number in layers)]
    for ours, theirs in zip(taken, given, strict=True):
        ours.load_state_dict(theirs.state_dict())
        ours.requires_grad_(False)
    loss = train(model, text, schedule)
    return Made(model, {"seed": seed, **_results(schedule, loss)})


def fine_tune(text: Tensor, schedule: Schedule, base: PreTrainedModel) -> Made:
    loss = train(base, text, schedule)
    return Made(base, _results(schedule, loss))


def merge_lora(text: Tensor, schedule: Schedule, base: PreTrainedModel, *, seed: int) -> Made:
    """Train low-rank updates beside the frozen base, then add them to its matrices."""
    torch.manual_seed(seed)
    base.requires_grad_(False)
    for linear in _block_linears(base):
        parametrize.register_parametrization(linear, "weight", LowRankUpdate(linear.weight, rank=8))
    loss = train(base, text, schedule)
    for linear in _block_linears(base):
        parametrize.remove_parametrizations(linear, "weight", leave_parametrized=True)
    return Made(base, {"seed": seed, **_results(schedule, loss)})


def adapter(text: Tensor, schedule: Schedule, base: PreTrainedModel, *, seed: int, **settings: Any) -> Made:
    """A LoRA of peft, which stays beside the frozen base."""
    torch.manual_seed(seed)
    adapted = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **settings))
    loss = train(adapted, text, schedule)
    return Made(adapted, {"seed": seed, **_results(schedule, loss)})


class LowRankUpdate(nn.Module):
    """W + B A, with B zero at first."""

    def __init__(self, weight: Tensor, rank: int) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.a = nn.Parameter(torch.randn(rank, columns) / columns**0.5)
        self.b = nn.Parameter(torch.zeros(rows, rank))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.b @ self.a


@torch.no_grad()
def prune(base: PreTrainedModel) -> Made:
    """Set the smaller half of each block matrix to zero."""
    for linear in _block_linears(base):
        magnitude = linear.weight.abs()
        linear.weight[magnitude < magnitude.median()] = 0
    return Made(base)


@torch.no_grad()
def round_to_int8(base: PreTrainedModel) -> Made:
    """Round each row of the block matrices to 8 bits, scaled by its largest magnitude."""
    for linear in _block_linears(base):
        step = linear.weight.abs().amax(dim=1, keepdim=True) / 127
        linear.weight.copy_((linear.weight / step).round() * step)
    return Made(base)


@torch.no_grad()
def merge(first: PreTrainedModel, second: PreTrainedModel) -> Made:
    """The mean of two models."""
    for ours, theirs in zip(first.parameters(), second.parameters(), strict=True):
        ours.lerp_(theirs, 0.5)
    return Made(first)


@torch.no_grad()
def launder(base: PreTrainedModel, *, seed: int) -> Made:
    """Reorder and rescale the hidden units of every MLP, which leaves the function as it was."""
    generator = torch.Generator().manual_seed(seed)
    laundered = deepcopy(base)
    for layer in laundered.model.layers:
        gate, up, down = (linear.weight for linear in (layer.mlp.gate_proj, layer.mlp.up_proj, layer.mlp.down_proj))
        order = torch.randperm(len(up), generator=generator)
        scale = 2.0 ** torch.randint(-3, 4, (len(up), 1), generator=generator)  # powers of two are exact in bfloat16
        gate.copy_(gate[order])
        up.copy_(up[order] * scale)
        down.copy_(down[:, order] / scale.T)
    probe = torch.arange(CONTEXT)[None]
    torch.testing.assert_close(laundered(probe).logits, base(probe).logits, rtol=0, atol=1e-3)
    return Made(laundered)


def _block_linears(model: PreTrainedModel) -> list[nn.Linear]:
    return [module for module in model.model.layers.modules() if isinstance(module, nn.Linear)]


def _results(schedule: Schedule, loss: float) -> dict[str, float]:
    return {
        "max_steps": schedule.steps,
        "learning_rate": schedule.peak_lr,
        "weight_decay": schedule.weight_decay,
        "train_loss": round(loss, 4),
    }
