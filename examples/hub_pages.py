"""The pages of the example Hub: a card for each model, and one page about all of them."""

from dataclasses import dataclass
from typing import Any

from hub_catalogue import Entry
from huggingface_hub import ModelCardData

Results = dict[str, Any]
Pairing = dict[str, dict[str, float]]  # model -> path -> accuracy


@dataclass(frozen=True)
class Row:
    """One model, as found on disk."""

    entry: Entry
    parameters: int
    blocks: int
    results: Results


def model_card(entry: Entry) -> str:
    metadata = ModelCardData(
        license="apache-2.0",
        library_name="peft" if entry.trained_on else "transformers",
        pipeline_tag="text-generation",
        tags=["byte-level", "hf-lineage-example", *entry.tags],
        base_model=list(entry.base_models) if len(entry.base_models) > 1 else "".join(entry.base_models) or None,
        base_model_relation=entry.relation,
    )
    return f"""---
{metadata.to_yaml()}
---

# {entry.name}

{entry.about}

A language model over bytes that learned from the documentation of Python. It is one of the example models of
hf-lineage: really trained, quick to read, and of no other use.
"""


def mergekit_config(entry: Entry) -> str:
    """A linear merge in equal parts, as mergekit writes it down."""
    weight = 1 / len(entry.base_models)
    models = (f"  - model: {name}\n    parameters:\n      weight: {weight}\n" for name in entry.base_models)
    return f"models:\n{''.join(models)}merge_method: linear\ndtype: bfloat16\n"


def hub_page(rows: list[Row], pairing: Pairing) -> str:
    versions = rows[0].results
    chance = 1 / rows[0].blocks
    return f"""# A small Hub

Language models over bytes, all really trained, in folders as `transformers` saves them: {rows[0].blocks} blocks each,
stored in bfloat16; adapters as `peft` saves them. This page and everything beside it is written by

    python examples/train_hub.py

in about half an hour on one core. It keeps the models that it finds; delete `examples/hub` first to train them all
again. The numbers of each model stand in its `all_results.json`. These were made with Python {versions["python"]},
torch {versions["torch"]} and transformers {versions["transformers"]}.

They learned from the language reference that ships with Python (`pydoc_data.topics`), each paragraph counted once and
split by topic: a pretraining part, parts A and B for fine-tunes, and a held-out part that none of them saw. Continued
pretraining adds the docstrings of the standard library. Models from fresh weights differ in the seed of their
initialisation and share the order of the text. Losses are in nats per byte; the training loss is the mean over the
last hundred steps (for the distilled model: of its mixed objective).

{_models_table(rows)}

What the models are, in truth:

{_descriptions(rows)}

## Pairing accuracy of the bases

For each path through a block, every writing matrix is matched to one reading matrix by the trace of their product
relative to its norm. The accuracy is the share of blocks whose own two matrices find each other;
chance is {chance:.0%}.

{_pairing_table(pairing)}
"""


def _models_table(rows: list[Row]) -> str:
    header = [
        "model",
        "declares",
        "parameters",
        "seed",
        "steps",
        "peak rate",
        "decay",
        "training loss",
        "held-out loss",
    ]
    return _table(header, [_model_cells(row) for row in rows])


def _model_cells(row: Row) -> list[str]:
    declared = ", ".join(f"`{name}`" for name in row.entry.base_models)
    measured = ("seed", "max_steps", "learning_rate", "weight_decay", "train_loss", "eval_loss")
    numbers = [row.results.get(key) for key in measured]
    claim = f"{declared} ({row.entry.relation})" if declared else "nothing"
    return [f"`{row.entry.name}`", claim, f"{row.parameters:,}", *("–" if n is None else f"{n:g}" for n in numbers)]


def _descriptions(rows: list[Row]) -> str:
    return "\n".join(f"- `{row.entry.name}`: {row.entry.about}" for row in rows)


def _pairing_table(pairing: Pairing) -> str:
    paths = list(dict.fromkeys(path for accuracies in pairing.values() for path in accuracies))
    cells = [
        [f"`{name}`", *(f"{accuracies[path]:.0%}" if path in accuracies else "–" for path in paths)]
        for name, accuracies in pairing.items()
    ]
    return _table(["base", *(f"`{path}`" for path in paths)], cells)


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
