"""What the tests of `watch` share: a small Hub of somebody's models, and a look into the ledger."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.invoking import Outcome, lineage
from tests.models import card, fine_tuned, tiny_llama
from tests.server import Hub, serving

ALWAYS = 10**6
EVERY = ["fern/plain", "fern/child", "fern/liar"]


@contextmanager
def publishing(folder: Path) -> Iterator[Hub]:
    """A Hub on which fern has published, in this order, a model that declares nothing, a descendant and a liar."""
    base = tiny_llama(folder / "base")
    with serving() as running:
        running.publish("acme/base", base)
        running.publish("fern/plain", tiny_llama(folder / "plain", seed=5))
        running.publish("fern/child", card(fine_tuned(base, folder / "child"), "acme/base", "finetune"))
        running.publish("fern/liar", card(tiny_llama(folder / "liar", seed=1), "acme/base"))
        yield running


def watch(ledger: Path, *arguments: object) -> Outcome:
    """Run `watch` in this process, on all that fern has published if nothing else is named."""
    return lineage("watch", *(arguments or ["fern"]), "--ledger", ledger)


def entries(ledger: Path) -> list[Any]:
    """Every line of a ledger."""
    return [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]


def models(ledger: Path) -> list[str]:
    """The model of every line of a ledger."""
    return [entry["model"] for entry in entries(ledger)]
