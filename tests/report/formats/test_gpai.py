"""The entries for the Model Documentation Form say what the weights show, and leave the rest to whoever fills it in."""

import hashlib
import json
from dataclasses import replace

from markdown_it import MarkdownIt

from hf_lineage.claims.licence import Licence
from hf_lineage.report import FORMATS
from tests.models import WEIGHTS
from tests.pages import hostile_report as hostile
from tests.pages import measured, report, row

FIELDS = ["Model name", "Model authenticity", "Model dependencies", "License"]
"""As the form spells them."""


def rendered(report):
    return FORMATS["gpai"](report, False)


def field(text, name):
    return text.partition(f"#### {name}\n\n")[2].partition("\n\n####")[0]


def test_it_has_the_fields_that_weights_and_cards_can_speak_to(any_report):
    text = rendered(any_report)
    assert [line[5:] for line in text.splitlines() if line.startswith("#### ")][: len(FIELDS)] == FIELDS


def test_the_files_of_the_weights_are_the_evidence_of_authenticity(every_kind, folder):
    digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    assert field(rendered(every_kind), "Model authenticity").endswith(f"| {WEIGHTS} | {digest} |")
    assert field(rendered(report()), "Model authenticity") == "No weight file was read, so there is no hash."


def test_dependencies_are_what_the_weights_bear_out_and_the_rest_is_told_apart(every_kind):
    text = field(rendered(every_kind), "Model dependencies")
    verified, _, others = text.partition("Declared, and not verified:")
    assert verified.startswith(f"- **org/base**, commit {'0' * 40}: declared by the relation finetune in README.md; ")
    assert "UNRELATED" not in verified
    assert others.count("\n- ") == len(every_kind.rows) - 1


def test_nothing_found_is_no_reason_to_write_not_applicable():
    text = field(rendered(report(row(mlp=measured(score=0.005, p=0.5, share=0.0)))), "Model dependencies")
    assert text.startswith("The weights confirm no dependency. That is not a reason to write N/A:")


def test_licences_are_those_that_the_cards_state():
    base = replace(row("org/base", mlp=measured()), licence=Licence("other", "gemma"))
    text = field(rendered(replace(report(base), licence=Licence("mit"))), "License")
    assert text.splitlines()[2:4] == ["| org/model | mit |", r"| org/base | other \(gemma\) |"]


def test_a_licence_that_no_card_states_is_not_called_none():
    base = replace(row("org/base", mlp=measured()), licence=Licence("none"))
    text = field(rendered(report(base)), "License")
    assert text.splitlines()[2:4] == ["| org/model | none stated |", "| org/base | none |"]


def test_the_day_is_that_of_the_check(every_kind):
    assert "Checked on 2026-11-18 by hf-lineage" in rendered(every_kind)


def test_names_are_no_markup():
    text = rendered(hostile("<img src=x>|`a`\n# heading ![x](http://a.b)"))
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    assert [token.type for token in tokens if token.type in ("html_block", "fence", "code_block")] == []
    assert "<img" not in text
    assert json.dumps(text)
