"""Small GPT-2 models: training from scratch, fine-tuning, LoRA, distillation, edits of released weights."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from benchmarks.paper.parts.laundering import in_another_order, preserved, rearranged
from benchmarks.paper.parts.models import Change

Model = Any  # a causal language model of transformers
Loss = Callable[[Model, Tensor], Tensor]  # of a model on a batch of windows (b, t)
PROJECTIONS = ["c_attn", "c_proj", "c_fc"]
"""Every matrix of GPT-2's blocks; adapters of the attention alone would leave the paper's path as it was."""


HELD_OUT = 10  # one paragraph in so many is kept from training


@dataclass(frozen=True)
class Corpus:
    """Two texts that share no paragraph, as token numbers one after another."""

    name: str
    vocabulary: int
    training: Tensor
    held_out: Tensor

    def batches(self, count: int, size: int, context: int, seed: int) -> Tensor:
        """Return where in the training text the windows of so many batches start (count, size)."""
        random = torch.Generator().manual_seed(seed)
        return torch.randint(len(self.training) - context, (count, size), generator=random)

    def windows(self, count: int, context: int) -> Tensor:
        """Return the first windows of the held-out text (count, context), one behind the other."""
        return self.held_out[: count * context].view(count, context)


def documentation() -> Corpus:
    """Return Python's language reference, one token for each byte; topics quote one another, paragraphs stay once."""
    parts = (part.strip() for name in sorted(topics) for part in topics[name].split("\n\n"))
    paragraphs = [part for part in dict.fromkeys(parts) if part]
    held_out = paragraphs[::HELD_OUT]
    training = [part for number, part in enumerate(paragraphs) if number % HELD_OUT]
    return Corpus("Python's language reference, by bytes", 256, _bytes(training), _bytes(held_out))


def _bytes(paragraphs: list[str]) -> Tensor:
    return torch.tensor(list("\n\n".join(paragraphs).encode()))


@dataclass(frozen=True)
class Shape:
    """The sizes of a GPT-2 and of its initialisation."""

    layers: int = 6
    width: int = 384
    heads: int = 6
    context: int = 256
    vocabulary: int = 256
    initial: float = 0.02  # standard deviation of fresh weights


@dataclass(frozen=True)
class Schedule:
    """AdamW with warm-up over a twentieth of the steps and cosine decay."""

    steps: int
    rate: float
    batch: int
    decay: float = 0.01


def fresh(shape: Shape, seed: int) -> Model:
    """Return an untrained GPT-2."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=shape.vocabulary,
        n_embd=shape.width,
        n_layer=shape.layers,
        n_head=shape.heads,
        n_positions=shape.context,
        initializer_range=shape.initial,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return GPT2LMHeadModel(config)


def next_token(model: Model, batch: Tensor) -> Tensor:
    """Return the mean cross-entropy of the next token, in nats."""
    loss: Tensor = model(input_ids=batch, labels=batch).loss
    return loss


def distillation(teacher: Model, temperature: float = 2.0, share: float = 0.5) -> Loss:
    """Return the loss of Hinton et al. 2015: (1 - α) T² KL(teacher / T ‖ student / T) + α cross-entropy."""

    def loss(student: Model, batch: Tensor) -> Tensor:
        with torch.no_grad():
            goal = (teacher(input_ids=batch).logits / temperature).log_softmax(-1).flatten(0, 1)
        answer = student(input_ids=batch, labels=batch)
        said = (answer.logits / temperature).log_softmax(-1).flatten(0, 1)
        soft = functional.kl_div(said, goal, reduction="batchmean", log_target=True)
        mixed: Tensor = share * answer.loss + (1 - share) * temperature**2 * soft
        return mixed

    return loss


def train(model: Model, corpus: Corpus, schedule: Schedule, seed: int, loss: Loss = next_token) -> Model:
    """Train in place, on windows of the text in an order fixed by the seed, and return the model."""
    from transformers import get_cosine_schedule_with_warmup

    model.train()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=schedule.rate, weight_decay=schedule.decay)
    decay = get_cosine_schedule_with_warmup(optimizer, schedule.steps // 20, schedule.steps)
    context = model.config.max_position_embeddings
    text = corpus.training.unfold(0, context, 1)
    for starts in corpus.batches(schedule.steps, schedule.batch, context, seed):
        optimizer.zero_grad()
        torch.autograd.backward(loss(model, text[starts]))
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        decay.step()
    return model.eval()


def lora_merged(model: Model, corpus: Corpus, schedule: Schedule, seed: int) -> Model:
    """Return a model with adapters of rank 8 and α = 16 on every matrix of its blocks, trained and merged by peft."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    config = LoraConfig(r=8, lora_alpha=16, target_modules=PROJECTIONS, fan_in_fan_out=True, task_type="CAUSAL_LM")
    return train(get_peft_model(model, config), corpus, schedule, seed).merge_and_unload()


@torch.no_grad()
def edited(model: Model, change: Change) -> Model:
    """Return a model with every matrix changed by itself; biases and norms stay."""
    found = copy.deepcopy(model)
    for parameter in found.parameters():
        if parameter.ndim == 2:
            parameter.copy_(change(parameter))
    return found


@torch.no_grad()
def permuted(model: Model, seed: int, windows: Tensor) -> Model:
    """Return a GPT-2 with the hidden units of every MLP in another order.

    Raise FunctionError where a logit on the windows (b, t) moves by more than the paper's 1e-4.
    """
    found, random = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    for block in found.transformer.h:
        into, out = block.mlp.c_fc, block.mlp.c_proj
        order = in_another_order(len(into.bias), random)
        moved = rearranged(into.weight.T, into.bias, out.weight.T, order, torch.ones(len(order)))
        for parameter, value in zip((into.weight.T, into.bias, out.weight.T), moved, strict=True):
            parameter.copy_(value)
    preserved(model(input_ids=windows).logits, found(input_ids=windows).logits)
    return found


@dataclass(frozen=True)
class Likeness:
    """How alike two language models behave."""

    agreement: float  # share of positions at which both would say the same token
    divergence: float  # mean KL(teacher ‖ student) of the next token, in nats
    perplexity: float  # the student's perplexity over the teacher's


@torch.no_grad()
def likeness(teacher: Model, student: Model, windows: Tensor) -> Likeness:
    """Return how alike a student behaves to its teacher on held-out windows (b, t)."""
    ours, theirs = (model(input_ids=windows, labels=windows) for model in (teacher, student))
    goal, said = (answer.logits.log_softmax(-1) for answer in (ours, theirs))
    return Likeness(
        agreement=float((goal.argmax(-1) == said.argmax(-1)).float().mean()),
        divergence=float((goal.exp() * (goal - said)).sum(-1).mean()),
        perplexity=float((theirs.loss - ours.loss).exp()),
    )


def loaded(folder: Path) -> Model:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()


@torch.no_grad()
def loss(model: Model, corpus: Corpus) -> float:
    return float(next_token(model, corpus.windows(32, model.config.max_position_embeddings)))
