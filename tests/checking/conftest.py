"""What most tests of this room do: compare two models of which a report has one row."""

from dataclasses import replace

from hf_lineage import Options, compare

BASE, OTHER, TUNED = "acme/llama-base", "otter/llama-independent", "fern/llama-finetune-a"


def compared(base, model, options=None, **changes):
    """The only row of a model that is compared with a base; `changes` are options."""
    (row,) = compare(str(base), str(model), replace(options or Options(), **changes)).rows
    return row
