"""Adapters trained by peft on small bases of their own: what `ours:adapters` is made of."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from transformers import BertConfig, BertLMHeadModel, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

from benchmarks.paper.experiment import Bench
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.language import Corpus, Model, Schedule, documentation, loaded, next_token, train
from hf_lineage import Options, compare
from hf_lineage.lora.gradient_alignment import FADED, WHOLE, Trace

VERSION = 1  # raised when the code below comes to mean something else
CONTEXT, BATCH, MEASURED = 64, 8, 32
"""Tokens of a window; windows of a batch; windows of held-out text on which losses are measured."""
BASE_RATE, ADAPTER_RATE = 3e-3, 5e-4
SETTLED = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "is_decoder": True}
"""BERT without dropout; as a decoder it learns from every token, and 300 steps are enough."""


@dataclass(frozen=True)
class Family:
    """The architecture and the shape of some bases."""

    architecture: str
    width: int
    layers: int = 4
    steps: int = 300

    @property
    def name(self) -> str:
        return f"{self.architecture}, width {self.width}"


@dataclass(frozen=True)
class Configuration:
    """How peft sets up an adapter."""

    name: str
    rank: int
    alpha: int = 16
    everything: bool = True  # every matrix of the layers, else queries and values alone
    settings: Mapping[str, bool] = field(default_factory=dict)


TARGETS = {
    "Llama": (["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]),
    "GPT-2": (["c_attn"], ["c_attn", "c_fc", "c_proj"]),
    "BERT": (["query", "value"], ["query", "key", "value", "dense"]),
}
"""By architecture queries and values, and everything."""


@dataclass(frozen=True)
class Workshop:
    """Makes bases and adapters, each when it is first asked for."""

    corpus: Corpus
    cache: Cache

    @classmethod
    def of(cls, bench: Bench) -> Self:
        """Return a workshop on Python's language reference: bases learn it as it is, adapters in capital letters."""
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        return cls(documentation(), bench.cache)

    def base(self, family: Family, number: int) -> Path:
        """Return a model that was trained from fresh weights of its own, on windows in an order of its own."""

        def make(folder: Path) -> None:
            torch.manual_seed(number)
            train(fresh(family), self.corpus, Schedule(family.steps, BASE_RATE, BATCH), number).save_pretrained(folder)

        return self.cache.kept_folder("adapter-bases", [VERSION, family, number], make)

    def adapter(self, family: Family, number: int, configuration: Configuration, steps: int) -> Path:
        """Return an adapter that was trained on a base."""

        from peft import get_peft_model

        def make(folder: Path) -> None:
            torch.manual_seed(1000 + number)
            model = get_peft_model(loaded(self.base(family, number)), _lora(family, configuration))
            schedule = Schedule(steps, ADAPTER_RATE, BATCH, decay=0.0)
            text = replace(self.corpus, training=capitals(self.corpus.training))
            train(model, text, schedule, 1000 + number).save_pretrained(folder)

        depends = [VERSION, family, number, asdict(configuration), steps]
        return self.cache.kept_folder("adapters", depends, make)

    def moved(self, family: Family, number: int, adapter: Path) -> float:
        """Return the share of the base's loss by which an adapter has lowered it, on held-out text in capitals."""

        from peft import PeftModel

        def measure() -> float:
            windows = capitals(self.corpus.windows(MEASURED, CONTEXT))
            model = loaded(self.base(family, number))
            with torch.no_grad():
                before = float(next_token(model, windows))
                after = float(next_token(PeftModel.from_pretrained(model, adapter).eval(), windows))
            return 1 - after / before

        return self.cache.kept("adapter-losses", [VERSION, adapter.name], measure)


def capitals(text: Tensor) -> Tensor:
    """Return a text of bytes with its small letters as capitals."""
    return torch.where((text >= ord("a")) & (text <= ord("z")), text - ord("a") + ord("A"), text)


def fresh(family: Family) -> Model:
    """Return an untrained model over bytes."""
    shape = {"hidden_size": family.width, "num_hidden_layers": family.layers, "num_attention_heads": 4}
    text = {"vocab_size": 256, "max_position_embeddings": CONTEXT}
    tokens = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    if family.architecture == "GPT-2":
        return GPT2LMHeadModel(GPT2Config(**shape, **text, **tokens, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
    if family.architecture == "BERT":
        return BertLMHeadModel(BertConfig(**shape, **text, **tokens, **SETTLED, intermediate_size=4 * family.width))
    narrow = {"num_key_value_heads": 2, "intermediate_size": family.width * 5 // 2}
    return LlamaForCausalLM(LlamaConfig(**shape, **text, **tokens, **narrow))


def _lora(family: Family, configuration: Configuration) -> Any:
    from peft import LoraConfig

    return LoraConfig(
        r=configuration.rank,
        lora_alpha=configuration.alpha,
        target_modules=TARGETS[family.architecture][configuration.everything],
        fan_in_fan_out=family.architecture == "GPT-2",
        **configuration.settings,
    )


ALPHA = 0.01
REPLICATES = 2000  # draws of bases for an interval


@dataclass(frozen=True)
class Pair:
    """An adapter beside a base."""

    family: Family
    configuration: Configuration
    steps: int
    own: int  # the base that the adapter was trained on, and that beside which it is tested
    base: int
    verdict: str
    verified: bool
    trace: Trace

    @property
    def true(self) -> bool:
        return self.own == self.base


def tested(
    workshop: Workshop, family: Family, made: tuple[Configuration, int], own: int, base: int, permutations: int
) -> Pair:
    """Return what `hf-lineage compare` says of a base and of an adapter that is `made` on its own in so many steps."""
    configuration, steps = made
    adapter = workshop.adapter(family, own, configuration, steps)
    options = Options(seed=0, permutations=permutations)
    (row,) = compare(str(workshop.base(family, base)), str(adapter), options).rows
    if row.verdict.trace is None:
        raise ValueError(f"{family.name}, {configuration.name}: {row.verdict.reason}")
    return Pair(family, configuration, steps, own, base, row.verdict.word, row.verdict.verified, row.verdict.trace)


@dataclass(frozen=True)
class Rate:
    """How often independent pairs are rejected."""

    share: float
    low: float
    high: float
    pairs: int


def rate(pairs: Sequence[Pair], alpha: float) -> Rate:
    """Return the share of pairs with p <= alpha and its 95 % interval, from whole bases drawn again with repetition.

    A base is in many pairs, by itself and by the adapters that were trained on it, so pairs alone may not be drawn.
    """
    names = sorted({(pair.family.name, number) for pair in pairs for number in (pair.own, pair.base)})
    places = {name: place for place, name in enumerate(names)}
    counts = np.zeros((2, len(names), len(names)))
    for pair in pairs:
        where = places[pair.family.name, pair.own], places[pair.family.name, pair.base]
        counts[0][where] += pair.trace.p_value <= alpha
        counts[1][where] += 1
    random = np.random.default_rng(0)
    drawn = random.multinomial(len(names), np.full(len(names), 1 / len(names)), REPLICATES)
    rejected, everything = (np.einsum("ni,ij,nj->n", drawn, each, drawn) for each in counts)
    shares = (rejected / np.maximum(everything, 1))[everything > 0]
    low, high = np.quantile(shares, (0.025, 0.975))
    return Rate(float(counts[0].sum() / counts[1].sum()), float(low), float(high), int(counts[1].sum()))


def found_alone(pairs: Iterable[Pair], role: str) -> list[bool]:
    """Return for each matrix of a role, over some pairs, whether the trace in it alone has p <= ALPHA."""
    found = []
    for pair in pairs:
        columns = (column for of, column in zip(pair.trace.roles, pair.trace.ratios.T, strict=True) if of == role)
        found += [bool(np.mean(column >= column[0]) <= ALPHA) for column in columns]
    return found


def least(pairs: Iterable[Pair], role: str) -> float:
    """Return the least z of a role over the root of the directions that predict it, as `Trace.power` counts them.

    Those that predict nothing are left out; NaN where none is left.
    """
    found: list[float] = []
    for pair in pairs:
        trace = pair.trace
        if role in trace.by_role:
            rows = np.array(trace.roles) == role
            left = np.clip((FADED - trace.sizes[rows]) / (FADED - WHOLE), 0, 1)
            shown = float((trace.directions[rows] * left**2).sum())
            found += [trace.z_of(role) / shown**0.5] if shown >= 1 else []
    return min(found, default=math.nan)
