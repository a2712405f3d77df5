"""A report without `--explain` is a table and at most three lines a claim, here for models of known history."""

import json
from functools import cache

import pytest

from hf_lineage import Options, check
from tests.goldens import HUB

TUNED = ("fern/llama-finetune-a", "fern/llama-finetune-b", "fern/gpt2-finetune-a", "moss/llama-continued")
MODELS = {
    **dict.fromkeys((*TUNED, "heron/llama-pruned-50", "heron/llama-int8-rounded"), ("VERIFIED inherited", 45)),
    **dict.fromkeys(("magpie/llama-laundered", "fern/llama-lora-merged"), ("VERIFIED inherited", 60)),
    **dict.fromkeys(("fern/llama-lora", "heron/llama-qlora"), ("VERIFIED adapter", 60)),
    "fern/llama-dora": ("VERIFIED adapter", 66),
    "fern/llama-merge-a-b": ("VERIFIED merge", 80),
    "magpie/llama-grafted": ("RELATED part", 60),
    **dict.fromkeys(("magpie/llama-liar", "heron/llama-distilled"), ("UNRELATED", 60)),
    "magpie/llama-lora-liar": ("UNRELATED", 80),
    "otter/llama-independent": ("UNDECIDED undeclared", 30),
}  # models of known history -> word and code, and words below the table at most


@cache
def report(model, *bases, **options):
    return check(model, bases, Options(local_hub=HUB, seed=0, **options))


def below(report):
    *_, text = report.to_text().rpartition("─\n")
    lines = text.splitlines()[len(report.rows) :] if report.rows else text.splitlines()[1:]
    return "\n".join(lines).replace("\n  ", " ").splitlines()


@pytest.mark.parametrize("model", MODELS)
def test_a_report_is_short_and_says_word_and_code(model):
    label, words = MODELS[model]
    found = report(model)
    assert {row.verdict.label for row in found.rows} or {found.code.label} == {label}
    lines = below(found)
    assert len(lines) <= 3, lines
    assert sum(len(line.split()) for line in lines) <= words, lines
    assert len(lines) == len(dict.fromkeys(lines)), "no sentence twice"


def test_the_lines_of_a_graft_and_of_a_rotated_stream_that_was_searched_for_too():
    assert below(report("magpie/llama-grafted")) == [
        "How it was made: in the layers that are inherited, weights unchanged. Unrelated models of this size score at "
        "most 0.017.",
        "33% of what its units write is inherited, in layers 1, 4.",
        "Next: Ask the publisher where the rest comes from. Details: --explain",
    ]
    said = "A copy of acme/llama-base in a rotated stream with another embedding was searched for, and not found."
    assert below(report("magpie/llama-liar", budget="full"))[1] == said


def test_every_format_shows_the_weaker_path_which_decides():
    found = report("moss/llama-continued")
    assert found.rows[0].verdict.evidence["value_output"].comparison.score > 0.7
    assert "acme/llama-base  0.631        90%  0.003  VERIFIED inherited" in found.to_text()
    assert below(found)[0] == (
        "All 6 layers come from it. How it was made: 12 of 12 matrices changed in full (by 53.5% of their size), as by "
        "fine-tuning or a merge. Unrelated models of this size score at most 0.018."
    )
    document, action = (json.loads(found.to_format(form)) for form in ("json", "github"))
    claim, sarif = document["claims"][0], json.loads(found.to_format("sarif"))["runs"][0]["results"][0]["properties"]
    assert {round(number, 3) for number in (claim["score"], sarif["score"])} == {0.631}
    assert {round(share, 2) for share in (claim["inherited"]["share"], sarif["inherited"])} == {0.9}
    assert action["outputs"]["score"] == "0.6307"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("heron/llama-pruned-50", "pruned (50% of the weights set to zero)"),
        ("magpie/llama-laundered", "hidden units reordered and rescaled, weights unchanged"),
    ],
)
def test_strict_says_what_the_report_knows_of_the_numbers_that_differ(model, said):
    text = " ".join(report(model, strict=True).to_text(explain=True).split())
    assert f"do in more than 1 % of their numbers, {said}" in text


def test_no_base_that_the_user_names_is_called_declared():
    found = report("magpie/llama-grafted", "acme/llama-base", "otter/llama-independent", "acme/gpt2-base")
    assert [row.verdict.word for row in found.rows] == ["RELATED", "UNRELATED", "UNRELATED"]
    text = "".join((found.to_text(), found.to_text(explain=True), found.to_markdown())).casefold()
    assert [words for words in ("declared base", "the model itself declares") if words in text] == []
