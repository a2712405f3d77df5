"""The section of a card: a table of the claims, what measures them again, and nothing that a name could add."""

import json

import pytest
from markdown_it import MarkdownIt

from hf_lineage import annotate
from hf_lineage.claims import card
from hf_lineage.report.wording import MEANING
from tests import goldens
from tests.hostile import NAMES

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GOLDEN = json.loads(goldens.read(goldens.REPORT)) | {"commit": COMMIT}


def recorded(**changes):
    """The committed report, with its one claim changed."""
    (claim,) = GOLDEN["claims"]
    return GOLDEN | {"claims": [claim | changes]}


def rows(text):
    return [line for line in text.splitlines() if line.startswith("|")]


def test_the_section_of_the_committed_record():
    lines = annotate.render(recorded(score=0.99459, p_value_adjusted=0.0051)).splitlines()
    assert lines == [
        "## Lineage",
        "",
        "| Base | Verdict | Score | Inherited | p |",
        "| --- | --- | --- | --- | --- |",
        "| acme/llama-base | VERIFIED inherited | 0.995 | 100% | 0.0051 |",
        "",
        f"Checked by hf-lineage {GOLDEN['tool']['version']} (fern/llama-finetune-a at {COMMIT}). "
        f"Every number: [lineage/claims.json](lineage/claims.json). {MEANING}",
        "",
        "```console",
        f"$ {GOLDEN['claims'][0]['command']}",
        "```",
    ]


def test_what_was_not_measured_is_a_dash():
    nothing = {"score": None, "p_value_adjusted": None, "inherited": None, "paths": ()}
    text = annotate.render(recorded(verdict="UNDECIDED", code="no-weights", verified=False, **nothing), ("a parent",))
    assert text.startswith("## Lineage\n\na parent\n\n| Base |")
    assert "| acme/llama-base | UNDECIDED no-weights | – | – | – |" in rows(text)


def test_a_reason_is_a_sentence_under_the_table_and_names_the_base_once():
    assert "\n\nacme/llama-base: no weights\n\n" in annotate.render(recorded(reason="no weights", verified=False))
    assert "\n\nacme/llama-base: no weights\n\n" in annotate.render(
        recorded(reason="acme/llama-base: no weights", verified=False)
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_adds_no_block_to_the_card_and_ends_no_section(name):
    text = annotate.render(recorded(base=name, reason=name, verified=False, command=f"hf-lineage check '{name}'"))
    blocks, plain = (
        [token.type for token in MarkdownIt("commonmark").enable("table").parse(each) if token.level == 0]
        for each in (text, annotate.render(recorded(reason="because", verified=False)))
    )
    assert blocks == plain
    whole = card.with_section("# Title\n", text)
    assert card.with_section(whole, "") == card.with_section("# Title\n", "")


@pytest.mark.parametrize("base", ["- x", "1. x", "# x", "    x", "---"])
def test_a_base_that_would_begin_a_block_begins_a_sentence(base):
    text = annotate.render(recorded(base=base, reason="it is not a Hub name", verified=False))
    assert f"<p>{base.strip()}: it is not a Hub name</p>" in MarkdownIt().render(text)
