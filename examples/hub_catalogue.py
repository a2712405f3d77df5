"""Which models the example Hub has: what each one is, what its card declares, and how it is made."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import hub_recipes as recipe
import torch
from hub_text import Corpus
from hub_training import Schedule
from torch import Tensor

LLAMA = "acme/llama-base"
GPT2 = "acme/gpt2-base"
TUNED_A = "fern/llama-finetune-a"
TUNED_B = "fern/llama-finetune-b"

PRETRAINING = Schedule(steps=1500, peak_lr=3e-3)
# At the Llama's schedule a component common to all of GPT-2's MLPs hides each block's own: two of six stay unpaired.
GPT2_PRETRAINING = Schedule(steps=2000, peak_lr=3e-3, weight_decay=0.6)
FINE_TUNING = Schedule(steps=200, peak_lr=5e-4, data_seed=1)
LORA = Schedule(steps=200, peak_lr=3e-3, data_seed=2)
ADAPTER = Schedule(steps=200, peak_lr=1e-3, data_seed=4)
CONTINUED = Schedule(steps=1500, peak_lr=6e-3, data_seed=3)


@dataclass(frozen=True)
class Entry:
    """One model or adapter; `make` is called with the models that its card declares, or with what it was trained on."""

    name: str
    about: str
    make: Callable[..., recipe.Made]
    base_models: tuple[str, ...] = ()
    relation: str | None = None
    tags: tuple[str, ...] = ()
    trained_on: str | None = None
    """What an adapter was really trained on; None for a model."""

    @property
    def parents(self) -> tuple[str, ...]:
        """The models that `make` is called with."""
        return self.base_models if self.trained_on is None else (self.trained_on,)


def catalogue(corpus: Corpus) -> list[Entry]:
    """Every model, after those that it declares."""
    everything = torch.cat([corpus.docstrings, corpus.pretraining])
    return [
        *_bases(corpus.pretraining),
        *_trained(corpus, everything),
        *_edited(),
        *_in_part(corpus.pretraining),
        *_unrelated(corpus.pretraining),
        *_adapters(corpus),
    ]


def _bases(text: Tensor) -> list[Entry]:
    return [
        Entry(
            LLAMA,
            "A Llama, trained from fresh weights.",
            partial(recipe.pretrain, text, PRETRAINING, recipe.llama, seed=1),
        ),
        Entry(
            GPT2,
            "A GPT-2, trained from fresh weights.",
            partial(recipe.pretrain, text, GPT2_PRETRAINING, recipe.gpt2, seed=2),
        ),
    ]


def _trained(corpus: Corpus, everything: Tensor) -> list[Entry]:
    tune_a = partial(recipe.fine_tune, corpus.part_a, FINE_TUNING)
    tune_b = partial(recipe.fine_tune, corpus.part_b, FINE_TUNING)
    return [
        Entry(TUNED_A, "A full fine-tune on part A of the text.", tune_a, (LLAMA,), "finetune"),
        Entry(TUNED_B, "A full fine-tune on part B of the text.", tune_b, (LLAMA,), "finetune"),
        Entry("fern/gpt2-finetune-a", "A full fine-tune on part A of the text.", tune_a, (GPT2,), "finetune"),
        Entry(
            "fern/llama-lora-merged",
            "Rank-8 LoRA on every block matrix, trained on part A of the text and added to the weights.",
            partial(recipe.merge_lora, corpus.part_a, LORA, seed=6),
            (LLAMA,),
            "finetune",
            ("lora",),
        ),
        Entry(
            "moss/llama-continued",
            "Heavy continued pretraining: as many steps as the base had, at twice its learning rate, "
            "on the standard library's docstrings and the base's text.",
            partial(recipe.fine_tune, everything, CONTINUED),
            (LLAMA,),
            "finetune",
        ),
    ]


def _edited() -> list[Entry]:
    return [
        Entry(
            "heron/llama-pruned-50",
            "The smaller half of each block matrix set to zero, without further training.",
            recipe.prune,
            (LLAMA,),
            "finetune",
            ("pruning",),
        ),
        Entry(
            "heron/llama-int8-rounded",
            "Block matrices rounded to 8 bits (each row scaled by its largest magnitude) and stored as bfloat16 again.",
            recipe.round_to_int8,
            (LLAMA,),
            "quantized",
        ),
        Entry(
            "fern/llama-merge-a-b",
            "The mean of two fine-tunes of one base.",
            recipe.merge,
            (TUNED_A, TUNED_B),
            "merge",
            ("mergekit", "merge"),
        ),
        Entry(
            "magpie/llama-laundered",
            f"The weights of `{LLAMA}` with the hidden units of every MLP reordered and rescaled: "
            "none of those matrices looks the same, every output is.",
            partial(recipe.launder, seed=7),
            (LLAMA,),
            "finetune",
        ),
    ]


def _in_part(text: Tensor) -> list[Entry]:
    return [
        Entry(
            "magpie/llama-grafted",
            f"The embedding and the second and fifth of the six blocks of `{LLAMA}`; the other blocks are trained from "
            "fresh weights.",
            partial(recipe.transplant, text, PRETRAINING, layers=(1, 4), seed=9),
            (LLAMA,),
            "finetune",
        ),
    ]


def _unrelated(text: Tensor) -> list[Entry]:
    return [
        Entry(
            "heron/llama-distilled",
            f"A student trained from fresh weights on the outputs of `{LLAMA}`, which its card declares "
            "as the cards of many distilled models do. It inherited no weights.",
            partial(recipe.distill, text, PRETRAINING, seed=5),
            (LLAMA,),
            "finetune",
            ("distillation",),
        ),
        Entry(
            "otter/llama-independent",
            f"Architecture, text and order of the text as for `{LLAMA}`, weights of its own seed. It declares no base.",
            partial(recipe.pretrain, text, PRETRAINING, recipe.llama, seed=3),
        ),
        Entry(
            "magpie/llama-liar",
            f"Trained from fresh weights of its own seed, as `{LLAMA}` was; its card declares that model "
            "all the same, so that a check has a false claim to find.",
            partial(recipe.pretrain, text, PRETRAINING, recipe.llama, seed=4),
            (LLAMA,),
            "finetune",
        ),
    ]


def _adapters(corpus: Corpus) -> list[Entry]:
    """Adapters as peft saves them, without a model; each card declares the Llama."""

    def entry(name: str, about: str, trained_on: str, text: Tensor, seed: int, **settings: object) -> Entry:
        make = partial(recipe.adapter, text, ADAPTER, seed=seed, **settings)
        return Entry(name, about, make, (LLAMA,), "adapter", ("lora",), trained_on)

    return [
        entry(
            "fern/llama-lora",
            "A LoRA of rank 8 on the query and value projections, trained on part A of the text.",
            *(LLAMA, corpus.part_a, 11),
            r=8,
            lora_alpha=16,
            target_modules=["q_proj", "v_proj"],
        ),
        entry(
            "fern/llama-dora",
            "A DoRA of rank 4 on all linear matrices, trained on part B of the text.",
            *(LLAMA, corpus.part_b, 12),
            r=4,
            lora_alpha=8,
            target_modules="all-linear",
            use_dora=True,
        ),
        entry(
            "heron/llama-qlora",
            "A LoRA of rank 4 on all linear matrices, trained on part A of the text beside `heron/llama-int8-rounded`, "
            f"as one would train beside a quantized base; its card declares `{LLAMA}`.",
            *("heron/llama-int8-rounded", corpus.part_a, 13),
            r=4,
            lora_alpha=8,
            target_modules="all-linear",
        ),
        entry(
            "magpie/llama-lora-liar",
            "A LoRA of rank 8 on all linear matrices, trained on part A of the text beside `otter/llama-independent`; "
            f"its card declares `{LLAMA}`, which it never saw, so that a check has a false claim to find.",
            *("otter/llama-independent", corpus.part_a, 14),
            r=8,
            lora_alpha=16,
            target_modules="all-linear",
        ),
    ]
