"""Inputs: text that a model writes itself, random tokens, or noise in the shapes that its class takes."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch

from hf_lineage.running.executed.loading import CannotRunError, run_once
from hf_lineage.running.executed.request import LENGTH, LONG, NOISE, RANDOM, SEQUENCES, TEXT, WRITTEN

MASKED = 0.15
"""The share of tokens that are masked where a model predicts these."""
WRITES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
"""How the names of classes end that predict the next token, but for those that read another text first."""
PICTURES, PATCHES = 8, 8
"""Pictures, or sounds, of random numbers, and patches on each side of one, after those that a model merges."""
POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_target_positions")
Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Input:
    """One kind of input."""

    kind: str
    given: Inputs
    first: int = 0
    """Tokens at the beginning of each sequence that are not counted: the one that every sequence begins with."""
    predicted: torch.Tensor | None = None
    """(sequences, tokens): where a masked token is predicted; None where the next one is, or nothing."""


class Source:
    """What a model is given, drawn by a seed."""

    def __init__(self, model: Any, seed: int) -> None:
        self._model = model
        self._accepted = inspect.signature(model.forward).parameters
        self._random = torch.Generator().manual_seed(seed % 2**63)
        self._config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config

    def draw(self) -> list[Input]:
        """Return every kind of input that the model takes."""
        if "input_ids" not in self._accepted:
            return [self._noise()]
        if hasattr(self._model, "get_text_features") and "pixel_values" in self._accepted:
            pictures = self._noise()
            words = self._ids(self._tokens(PICTURES, min(WRITTEN * 2, self._longest)))
            return [Input(NOISE, {**words, **pictures.given})]
        if "decoder_input_ids" in self._accepted and getattr(self._model.config, "is_encoder_decoder", False):
            return self._both_sides()
        if not self._writes:
            return [self._masked()]
        length = min(LENGTH, self._longest)
        return [self._written(), Input(RANDOM, self._ids(self._tokens(LONG, length)), first=1)]

    @property
    def passes(self) -> int:
        """About how often the model runs to write text and to be measured."""
        return WRITTEN + 2 if self._writes or "decoder_input_ids" in self._accepted else 1

    @property
    def _writes(self) -> bool:
        """Whether it predicts the next token, each from those before it."""
        return type(self._model).__name__.endswith(WRITES) and self._model.can_generate()

    @property
    def _longest(self) -> int:
        """How many tokens it takes, by the first key of its configuration that says so.

        Positions that are rotated have no end, whatever is stated, so that nobody can keep a run short.
        """
        if any(name.endswith("rotary_emb") for name, _ in self._model.named_modules()):
            return LENGTH
        stated = (getattr(self._config, key, None) for key in POSITIONS)
        return next((value for value in stated if isinstance(value, int) and value > 1), LENGTH)

    def _tokens(self, count: int, length: int) -> torch.Tensor:
        vocabulary = getattr(self._config, "vocab_size", None)
        if not isinstance(vocabulary, int):
            raise CannotRunError("its configuration does not say how many tokens there are")
        return torch.randint(vocabulary, (count, length), generator=self._random)

    def _ids(self, tokens: torch.Tensor) -> Inputs:
        mask = {"attention_mask": torch.ones_like(tokens)} if "attention_mask" in self._accepted else {}
        return {"input_ids": tokens, **mask}

    def _begin(self, count: int) -> torch.Tensor:
        """(count, 1 or 2): the token that texts begin with, if there is one, and one at random."""
        begin = getattr(self._config, "bos_token_id", None)
        drawn = self._tokens(count, 1)
        return torch.cat([torch.full_like(drawn, begin), drawn], dim=1) if isinstance(begin, int) else drawn

    @torch.no_grad()
    def _written(self) -> Input:
        """Text of the model's own, sampled at temperature 1 with its cache of keys and values."""
        tokens, cache = self._begin(SEQUENCES), None
        cached = "past_key_values" in self._accepted
        for _ in range(min(WRITTEN, self._longest - tokens.shape[1])):
            fresh = tokens if cache is None else tokens[:, -1:]
            given = {"input_ids": fresh} | ({"past_key_values": cache, "use_cache": True} if cached else {})
            output = run_once(self._model, given)
            cache = getattr(output, "past_key_values", None) if cached else None
            tokens = torch.cat([tokens, self._sampled(output.logits[:, -1])], dim=1)
        return Input(TEXT, self._ids(tokens), first=1)

    def _sampled(self, logits: torch.Tensor) -> torch.Tensor:
        odds = logits.cpu().float().softmax(dim=-1)
        if not bool(odds.isfinite().all()):
            raise CannotRunError("what it predicts is not finite")
        return torch.multinomial(odds, 1, generator=self._random)

    def _masked(self) -> Input:
        """Random tokens, some of which are masked where the configuration names a token for that."""
        tokens = self._tokens(SEQUENCES, min(WRITTEN * 2, self._longest))
        hidden = torch.rand(tokens.shape, generator=self._random) < MASKED
        mask = getattr(self._config, "mask_token_id", None)
        given = torch.where(hidden, mask, tokens) if isinstance(mask, int) else tokens
        return Input(RANDOM, self._ids(given), first=1, predicted=hidden)

    @torch.no_grad()
    def _both_sides(self) -> list[Input]:
        """Random tokens to read and, to go on from, text of the model's own or random tokens."""
        read = self._ids(self._tokens(SEQUENCES, min(2 * WRITTEN, LENGTH)))
        start = getattr(self._model.config, "decoder_start_token_id", None)
        written = torch.full((SEQUENCES, 1), start if isinstance(start, int) else 0)
        for _ in range(WRITTEN):
            output = run_once(self._model, read | {"decoder_input_ids": written})
            if not hasattr(output, "logits"):
                break
            written = torch.cat([written, self._sampled(output.logits[:, -1])], dim=1)
        random = torch.cat([written[:, :1], self._tokens(SEQUENCES, WRITTEN)], dim=1)
        kinds = ((TEXT, written),) if written.shape[1] > 1 else ()
        return [Input(kind, {**read, "decoder_input_ids": ids}, first=1) for kind, ids in (*kinds, (RANDOM, random))]

    def _noise(self) -> Input:
        """Pictures or sounds of random numbers."""
        config = getattr(self._model.config, "vision_config", self._model.config)
        size, channels = getattr(config, "image_size", None), getattr(config, "num_channels", 3)
        if "pixel_values" in self._accepted and size is not None:
            height, width = (size, size) if isinstance(size, int) else tuple(size)
            return Input(NOISE, {"pixel_values": self._numbers(PICTURES, channels, height, width)})
        if "spatial_shapes" in self._accepted:
            patches = self._numbers(PICTURES, PATCHES**2, channels * config.patch_size**2)
            shapes, mask = torch.full((PICTURES, 2), PATCHES), torch.ones(patches.shape[:2], dtype=torch.long)
            given = {"pixel_values": patches, "spatial_shapes": shapes, "pixel_attention_mask": mask}
            return Input(NOISE, {name: each for name, each in given.items() if name in self._accepted})
        if {"hidden_states", "grid_thw"} <= self._accepted.keys() and hasattr(config, "patch_size"):
            return Input(NOISE, self._patches(config))
        if "input_features" in self._accepted and hasattr(config, "num_mel_bins"):
            frames = 2 * getattr(config, "max_source_positions", LENGTH)
            return Input(NOISE, {"input_features": self._numbers(2, config.num_mel_bins, frames)})
        if "input_values" in self._accepted and hasattr(config, "conv_dim"):
            return Input(NOISE, {"input_values": self._numbers(PICTURES, 4000)})
        raise CannotRunError("what its class takes, besides tokens, square pictures and sounds, is not known here")

    def _patches(self, config: Any) -> Inputs:
        """Pictures of random numbers, cut into patches that stand one after the other."""
        side = PATCHES * getattr(config, "spatial_merge_size", 1)
        depth = getattr(config, "temporal_patch_size", 1) * config.patch_size**2
        channels = getattr(config, "in_channels", getattr(config, "in_chans", 3))
        grid = torch.tensor([[1, side, side]] * PICTURES)
        return {"hidden_states": self._numbers(PICTURES * side * side, channels * depth), "grid_thw": grid}

    def _numbers(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self._random)
