"""Tiny models that are saved, opened as a check opens them, and loaded in this process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hf_lineage import Options
from hf_lineage.hub.repo import resolve
from hf_lineage.running.hooks import Running, divergences, draw, held_inputs
from hf_lineage.running.load import load
from hf_lineage.running.process import Load
from hf_lineage.source.model import open_model
from hf_lineage.source.run import list_writers
from tests.conformance.models import tiny_model

MIXED = "MixtralForCausalLM"
# One class of each kind.
ARCHITECTURES = ("LlamaForCausalLM", "GPT2LMHeadModel", "BertForMaskedLM", "T5ForConditionalGeneration", MIXED)
ROOM = 2**44


def opened(folder):
    return open_model(resolve(str(folder)), Options()).reopen()


def asked(folder, name):
    return Load(str(folder), name, ("model.safetensors",), tuple(list_writers(opened(folder).layout)), ROOM)


def saved(folder: Path, name: str, edit: Callable[[Any], None] | None = None) -> Path:
    """A tiny model in a folder, after an edit of it."""
    model = tiny_model(name, {})
    if edit:
        edit(model)
    model.save_pretrained(folder)
    return folder


def loaded(folder, name):
    return load(asked(folder, name), folder)


def inputs(model, tokenizer=Path("/nowhere"), seed=3):
    return draw(model.model, tokenizer, seed)


def lost(model, parts):
    """Its medians on the first input, and what that loses if some parts are held at theirs."""
    each = inputs(model)[0]
    run = Running(model, each.counted_tokens)
    before = run.go(each.arguments)
    return run.medians, divergences(before, run.go(each.arguments, held_inputs(model, parts)), each.counted_tokens)
