"""Inputs: a text of the verifier, in windows at the first positions of a model and behind other text.

Neither the model nor its configuration chooses what is read. Prose and code of the text were written for this program;
the other languages have article 1 of the Universal Declaration of Human Rights, which is free for all to use.
"""

from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from hf_lineage.running.load import CannotRunError
from hf_lineage.running.process import LONG, SHORT

TEXT = Path(__file__).with_name("text.txt")
WINDOWS, WIDTH = 32, 16
"""Windows of the text, and tokens in each."""
KEPT, LAST = "logits_to_keep", 2 * WIDTH
"""The argument with the number of last tokens whose next one is predicted, and that number behind other text."""
SPARE = 2
"""Positions that a model may keep for padding."""
POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_target_positions")
Ids = list[int]


@dataclass(frozen=True)
class Input:
    """One kind of input."""

    kind: str
    given: dict[str, Any]
    counted: int
    """Tokens at the end of each sequence that count."""


def draw(model: Any, tokenizer: Path, seed: int) -> list[Input]:
    """Return the windows that a seed draws, each by itself, and all of them behind as much other text."""
    config = model.config.get_text_config()
    before, ids, after = _encode(tokenizer, getattr(config, "vocab_size", 0))
    pieces = torch.tensor(ids[: len(ids) // WIDTH * WIDTH], dtype=torch.long).view(-1, WIDTH)
    if len(pieces) < 2 * WINDOWS:
        raise CannotRunError(f"its tokenizer makes only {len(ids)} tokens of the text that is read")
    room = _longest(model, config) - SPARE - len(before) - len(after)
    if room < SPARE:
        raise CannotRunError("it reads too few tokens at once")
    order = torch.randperm(len(pieces), generator=torch.Generator().manual_seed(seed % 2**63))
    windows, others = pieces[order[:WINDOWS]], pieces[order[WINDOWS : 2 * WINDOWS]]
    batches = [(SHORT, windows[:, :room], 0)]
    if count := min(WINDOWS, room // (2 * WIDTH)):
        batches.append((LONG, torch.cat([others[:count], windows[:count]]).view(1, -1), count * WIDTH))
    inputs = []
    for kind, rows, skipped in batches:
        given = _given(model, _between(before, rows, after), kind)
        counted = given["input_ids"].shape[1] - max(1, len(before) + skipped)
        inputs.append(Input(kind, given, min(counted, given.get(KEPT, counted))))
    return inputs


def _encode(file: Path, size: int) -> tuple[Ids, Ids, Ids]:
    """Return the tokens of the text, and those that the tokenizer writes before and after every text."""
    text = TEXT.read_text("utf-8")
    if not file.exists():
        return [], [number % size for number in text.encode("ascii", "ignore")], []
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids, whole = tokenizer.encode(text, add_special_tokens=False).ids, tokenizer.encode(text)
    added = list(zip(whole.ids, whole.special_tokens_mask, strict=True))
    before, after = (
        [number for number, special in itertools.takewhile(lambda pair: pair[1], each)]
        for each in (added, reversed(added))
    )
    if len(before) + len(after) > WIDTH or max(whole.ids, default=0) >= size:
        raise CannotRunError(f"its tokenizer is not one for its {size} tokens")
    return before, ids, after[::-1]


def _between(before: Ids, rows: torch.Tensor, after: Ids) -> torch.Tensor:
    """Return rows of tokens between those that stand around every text."""
    first, last = (torch.tensor([each], dtype=torch.long).expand(len(rows), -1) for each in (before, after))
    return torch.cat([first, rows, last], dim=1)


def _given(model: Any, ids: torch.Tensor, kind: str) -> dict[str, Any]:
    """Return the arguments with which a model reads these tokens; an encoder-decoder model writes them as well."""
    accepted = inspect.signature(model.forward).parameters
    given: dict[str, Any] = {"input_ids": ids}
    if "use_cache" in accepted:
        given["use_cache"] = False  # keys and values of tokens that nothing follows
    if "attention_mask" in accepted:
        given["attention_mask"] = torch.ones_like(ids)
    if "decoder_input_ids" in accepted and model.config.is_encoder_decoder:
        start = torch.full_like(ids[:, :1], getattr(model.config, "decoder_start_token_id", None) or 0)
        given["decoder_input_ids"] = torch.cat([start, ids[:, :-1]], dim=1)
    elif KEPT in accepted and kind == LONG:
        given[KEPT] = LAST  # rows of all tokens may take more memory than all else
    return given


def _longest(model: Any, config: Any) -> int:
    """Return the number of tokens that a model takes, by the first key of its configuration that states it.

    Positions that are rotated have no end, whatever is stated, so that nobody can keep a run short.
    """
    most = 4 * WINDOWS * WIDTH
    if any(name.endswith("rotary_emb") for name, _ in model.named_modules()):
        return most
    stated = (getattr(config, key, None) for key in POSITIONS)
    return next((value for value in stated if isinstance(value, int) and value > 1), most)
