"""One optimisation loop for every example model: AdamW, warm-up, cosine decay."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel, get_cosine_schedule_with_warmup

CONTEXT = 96
BATCH = 16

Loss = Callable[[PreTrainedModel, Tensor], Tensor]


@dataclass(frozen=True)
class Schedule:
    """How long, how fast, and in which order of the data."""

    steps: int
    peak_lr: float
    data_seed: int = 0
    weight_decay: float = 0.1


def train(model: PreTrainedModel, text: Tensor, schedule: Schedule, loss: Loss | None = None) -> float:
    """Train in place the parameters that ask for a gradient; the mean loss of the last hundred steps."""
    loss = loss or next_byte_loss
    parameters = [parameter for parameter in model.train().parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=schedule.peak_lr, weight_decay=schedule.weight_decay)
    decay = get_cosine_schedule_with_warmup(optimizer, schedule.steps // 20, schedule.steps)
    losses: list[float] = []
    for batch in _batches(text, schedule):
        optimizer.zero_grad()
        value = loss(model, batch)
        torch.autograd.backward(value)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        decay.step()
        losses.append(value.item())
        if len(losses) % 100 == 0:
            print(f"  step {len(losses):5d} of {schedule.steps}: loss {_recent(losses):.3f}", flush=True)
    return _recent(losses)


@torch.no_grad()
def mean_loss(model: PreTrainedModel, text: Tensor) -> float:
    """Loss over consecutive windows of the text, in nats per byte."""
    windows = text[: len(text) // CONTEXT * CONTEXT].view(-1, CONTEXT)
    return float(next_byte_loss(model.eval(), windows))


def next_byte_loss(model: PreTrainedModel, batch: Tensor) -> Tensor:
    loss: Tensor = model(input_ids=batch, labels=batch).loss
    return loss


def distillation_loss(teacher: PreTrainedModel, temperature: float, alpha: float) -> Loss:
    """`alpha` parts divergence from the teacher's softened distribution, the rest next-byte loss."""

    def loss(student: PreTrainedModel, batch: Tensor) -> Tensor:
        with torch.no_grad():
            target = (teacher(input_ids=batch).logits / temperature).log_softmax(-1)
        learned = student(input_ids=batch, labels=batch)
        soft = (learned.logits / temperature).log_softmax(-1)
        divergence = functional.kl_div(soft.flatten(0, 1), target.flatten(0, 1), reduction="batchmean", log_target=True)
        mixed: Tensor = alpha * temperature**2 * divergence + (1 - alpha) * learned.loss
        return mixed

    return loss


def _batches(text: Tensor, schedule: Schedule) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(schedule.data_seed)
    windows = text.unfold(0, CONTEXT, 1)
    for _ in range(schedule.steps):
        yield windows[torch.randint(len(windows), (BATCH,), generator=generator)]


def _recent(losses: list[float]) -> float:
    return sum(losses[-100:]) / len(losses[-100:])
