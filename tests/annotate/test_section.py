"""The section of a card: a table of the claims, what measures them again, and nothing that a name could add."""

import msgspec
import pytest
from markdown_it import MarkdownIt

from hf_lineage.annotate import section
from hf_lineage.claims import card
from hf_lineage.report.findings.merge import RecordedParent, RecordedShare
from hf_lineage.report.record import record
from tests import goldens
from tests.hostile import NAMES

GOLDEN = record.decode(goldens.read("claims-v4.json"))


def recorded(**changes):
    """The committed record, with its one claim changed."""
    (claim,) = GOLDEN.claims
    return msgspec.structs.replace(GOLDEN, claims=(msgspec.structs.replace(claim, **changes),))


def rows(text):
    return [line for line in text.splitlines() if line.startswith("|")]


def test_the_section_of_the_committed_record():
    lines = section.render(recorded(score=0.99459, p_value_adjusted=0.0051)).splitlines()
    assert lines[0] == "## Lineage"
    assert lines[2] == "| Base | Relation (as declared) | Verdict | Score | Inherited | p-value | Commit of the base |"
    assert lines[4] == "| acme/llama-base | finetune | VERIFIED inherited | 0.995 | 100% | 0.0051 | – |"
    assert f"| Commit of the model | {goldens.COMMIT} |" in lines
    assert f"| Date | {goldens.DAY} |" in lines
    assert "| Recipe | robust, 64 probes, paths: mlp, query\\_key; 199 permutations \\(seed 0\\), alpha 0.01 |" in lines
    assert f"$ {GOLDEN.claims[0].command}" in lines
    assert "VERIFIED if more than 50% is inherited" in lines[-1]


def test_what_was_not_measured_is_a_dash():
    text = section.render(
        recorded(
            verdict="UNDECIDED",
            code="no-weights",
            verified=False,
            score=None,
            p_value_adjusted=None,
            inherited=None,
            paths=(),
        )
    )
    assert "| acme/llama-base | finetune | UNDECIDED no-weights | – | – | – | – |" in rows(text)
    assert "paths: –;" in text


def test_the_shares_of_a_merge_are_a_table_and_say_what_they_change():
    shares = {"mlp": RecordedShare(0.6, 0.58, 0.62, detected=True, declared=0.5)}
    text = section.render(recorded(parent=RecordedParent("linear", False, "", shares)))
    assert "| acme/llama-base | mlp | 0.60 \\(0.58 to 0.62\\) | 0.50 |" in rows(text)
    assert "they do not change the verdict" in text
    text = section.render(recorded(parent=RecordedParent(None, False, "it is UNRELATED", {})))
    assert "| acme/llama-base | – | not measured: it is UNRELATED | – |" in rows(text)
    assert "Parent of the merge" not in section.render(recorded())


def test_a_reason_is_a_sentence_under_the_table_and_names_the_base_once():
    assert "\n\nacme/llama-base: no weights\n\n" in section.render(recorded(reason="no weights"))
    assert "\n\nacme/llama-base: no weights\n\n" in section.render(recorded(reason="acme/llama-base: no weights"))


def test_a_record_without_claims_is_still_a_section():
    text = section.render(msgspec.structs.replace(GOLDEN, claims=(), commit=None))
    assert "| Date | – |" in text
    assert "| Commit of the model | – |" in text


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_adds_no_block_to_the_card_and_ends_no_section(name):
    """As the record has it: on one line."""
    shown = record.printable(name, 500)
    text = section.render(recorded(base=shown, relation=shown, reason=shown, command=f"hf-lineage check '{shown}'"))
    blocks, plain = (
        [token.type for token in MarkdownIt("commonmark").enable("table").parse(each) if token.level == 0]
        for each in (text, section.render(recorded(reason="because")))
    )
    assert blocks == plain
    whole = card.with_section("# Title\n", text)
    assert card.with_section(whole, "") == card.with_section("# Title\n", "")


@pytest.mark.parametrize("base", ["- x", "1. x", "# x", "    x", "---"])
def test_a_base_that_would_begin_a_block_begins_a_sentence(base):
    text = section.render(recorded(base=base, reason="it is not a Hub name"))
    assert f"<p>{base.strip()}: it is not a Hub name</p>" in MarkdownIt().render(text)
