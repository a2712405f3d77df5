"""A report without `--explain` is a table and at most three lines a claim, here for models of known history."""

import pytest

from hf_lineage import Options, check
from tests.goldens import HUB

INHERITED, MERGED, ADAPTER = "VERIFIED inherited", "VERIFIED merge", "VERIFIED adapter"
MODELS = {
    "fern/llama-finetune-a": (INHERITED, 45),
    "fern/llama-finetune-b": (INHERITED, 45),
    "fern/gpt2-finetune-a": (INHERITED, 45),
    "moss/llama-continued": (INHERITED, 45),
    "heron/llama-pruned-50": (INHERITED, 45),
    "heron/llama-int8-rounded": (INHERITED, 45),
    "magpie/llama-laundered": (INHERITED, 60),
    "fern/llama-lora-merged": (INHERITED, 60),
    "fern/llama-lora": (ADAPTER, 60),
    "fern/llama-dora": (ADAPTER, 66),
    "heron/llama-qlora": (ADAPTER, 60),
    "fern/llama-merge-a-b": (MERGED, 80),
    "magpie/llama-grafted": ("RELATED part", 60),
    "magpie/llama-liar": ("UNRELATED", 60),
    "magpie/llama-lora-liar": ("UNRELATED", 80),
    "heron/llama-distilled": ("UNRELATED", 60),
    "otter/llama-independent": ("UNDECIDED undeclared", 30),
}
LINES = 3


def below(report):
    """The lines below the table, each with its continuation."""
    *_, text = report.to_text().rpartition("─\n")
    lines = text.splitlines()[len(report.rows) :] if report.rows else text.splitlines()[1:]
    return "\n".join(lines).replace("\n  ", " ").splitlines()


@pytest.mark.parametrize("model", MODELS)
def test_a_report_is_short_and_says_word_and_code(model):
    label, words = MODELS[model]
    report = check(model, options=Options(local_hub=HUB, order_seed=0))
    assert {row.verdict.label for row in report.rows} or {report.code.label} == {label}
    lines = below(report)
    assert len(lines) <= LINES, lines
    assert sum(len(line.split()) for line in lines) <= words, lines
    told = [line for line in lines if line]
    assert len(told) == len(dict.fromkeys(told)), "no sentence twice"


def test_the_lines_of_a_fine_tune():
    assert below(check("fern/llama-finetune-a", options=Options(local_hub=HUB, order_seed=0))) == [
        "All 6 layers come from it. How it was made: 9 of 9 matrices changed in full (by 6.5% of their size), as by "
        "fine-tuning or a merge. Unrelated models of this size score at most 0.017.",
        "Next: Nothing to do. Details: --explain",
    ]


def test_the_lines_of_a_graft():
    assert below(check("magpie/llama-grafted", options=Options(local_hub=HUB, order_seed=0))) == [
        "How it was made: in the layers that are inherited, weights unchanged. Unrelated models of this size score at "
        "most 0.017.",
        "33% of what its units write is inherited, in layers 1, 4.",
        "Next: Ask the publisher where the rest comes from. Details: --explain",
    ]


def test_no_base_that_the_user_names_is_called_declared():
    for base in ("acme/llama-base", "otter/llama-independent", "acme/gpt2-base"):
        report = check("magpie/llama-grafted", base, options=Options(local_hub=HUB, order_seed=0))
        for text in (report.to_text(), report.to_text(explain=True), report.to_markdown()):
            assert "declared base" not in text.casefold()
            assert "the model itself declares" not in text
