"""Whatever is not markup already is text in a page: it leaves neither its element nor its attribute, and is escaped."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from jinja2 import UndefinedError
from lxml import etree, html
from markupsafe import Markup

from hf_lineage.checking.result import Bar, Bars, Finding, Table
from hf_lineage.errors import printable
from hf_lineage.hub.repo import RepoRef
from hf_lineage.report import page as page_module
from hf_lineage.report.page import (
    HINTS,
    LONGEST,
    Commit,
    commit_of_base,
    commit_of_model,
    draw,
    element,
    escaped,
    identifier,
    is_shown_apart,
    round_steps,
    show,
    without_hint,
)
from hf_lineage.signature.values import Origin
from tests.pages import measured, report, row
from tests.properties import ANY_TEXT, cases


def parsed(markup):
    return html.fragment_fromstring(markup)


def printable_whole(text):
    return printable(text, 10 * len(text) + 10)


def part(template, **values):
    """What a template that uses the parts of all pages makes of values."""
    source = f'{{% import "parts.html.j2" as parts %}}{template}'
    return page_module._environment().from_string(source).render(values).strip()


@cases(200)
@given(ANY_TEXT, ANY_TEXT)
def test_any_text_is_the_text_and_the_attribute_that_it_was_given_as(content, title):
    element = parsed(part('<p title="{{ title }}" class="x">{{ content }}{{ "<>" }}</p>', content=content, title=title))
    assert element.text_content() == f"{printable_whole(content)}<>".replace("\r", "\n")
    assert len(element) == 0
    assert dict(element.attrib) == {"title": printable_whole(title), "class": "x"}


@cases(100)
@given(ANY_TEXT)
def test_what_is_escaped_once_is_not_escaped_again(text):
    once = escaped(text)
    assert (escaped(once), type(escaped(once))) == (once, Markup)
    assert part("{{ once }}|", once=once) == f"{once}|".strip()


@cases(100)
@given(ANY_TEXT)
def test_a_name_is_set_apart_and_cut(text):
    element = parsed(identifier(text * 40))
    assert (element.tag, element.get("class")) == ("bdi", "id")
    assert element.text_content() == printable(text * 40, LONGEST)


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError):
        part("{{ missing }}")
    with pytest.raises(UndefinedError):
        part("{{ given.missing }}", given=1)


@pytest.mark.parametrize("hint", HINTS)
def test_what_only_the_command_line_can_do_is_left_out_at_the_end_alone(hint):
    assert without_hint(f"it was read{hint}") == "it was read"
    assert without_hint(f"it was read{hint}, or not") == f"it was read{hint}, or not"


def test_a_bar_has_its_interval_and_nothing_else_where_that_is_too_wide():
    clear, unclear = (draw(Bar("<b>", 0.5, -3.0, 4.0, told)) for told in (True, False))
    assert 'class="share"' in clear
    assert 'class="share"' not in unclear
    assert "M0 7H200" in unclear


def test_any_finding_has_its_tables_its_bars_and_its_sentences():
    tables = (Table("few", ("A", "B"), (("<x>", "1"),)), Table("many", ("A",), (("y",),) * 12))
    picture = Bars((Bar("<b>", 0.5, 0.4, 0.6),), "what <it> shows")
    finding = Finding("Toy", sentences=(f"one thing{HINTS[0]}",), tables=tables, picture=picture)
    page = show(finding, "claim 1, ")
    assert 'aria-label="claim 1, few"' in page
    assert page.count("<details>") == 1
    assert "<dt>&lt;b&gt;</dt>" in page
    assert "what &lt;it&gt; shows</figcaption>" in page
    assert '<p class="exact">One thing.</p>' in page
    assert '<details open="">' in show(finding, explain=True)
    assert is_shown_apart(finding)
    assert not is_shown_apart(Finding("Toy", sentences=("one thing",)))


A, B = "a" * 40, "b" * 40
WEIGHTS, FILE = (Origin(kind) for kind in ("weights", "file"))


def test_a_commit_on_the_hub_has_an_address():
    on_hub = replace(report(commit=A), source=RepoRef("org/model", Path("/cache"), A, remote="org/model"))
    assert commit_of_model(on_hub).address == f"https://huggingface.co/org/model/tree/{A}"
    of_base = commit_of_base(replace(row(commit=B), base_origin=WEIGHTS))
    assert (of_base.name, of_base.address) == (B, f"https://huggingface.co/org/base/tree/{B}")


def test_a_folder_has_no_commit_and_says_why():
    local = replace(report(row(mlp=measured())), source=RepoRef("./x", Path("x")))
    assert commit_of_model(local) == Commit(None, None, "read from a folder")
    assert commit_of_model(replace(local, source=None)) == Commit(None, None, "given as a stored signature")
    assert commit_of_base(replace(row(), base_origin=WEIGHTS)).reason == "read from a folder"
    assert commit_of_base(row()).reason == "nothing of it was read"


def test_the_commit_that_a_stored_signature_names_is_not_linked():
    assert commit_of_model(replace(report(commit=A), source=None)).address is None
    stored = replace(row("base.lineage.safetensors", commit=B), base_origin=FILE)
    assert (commit_of_base(stored).name, commit_of_base(stored).address) == (B, None)


@pytest.mark.parametrize("name", ["javascript:alert(1)", "//evil.example", "a/b\"onclick='x'", "../../x", "<b>"])
def test_hostile_names_and_commits_are_never_addresses(name):
    hostile = replace(row(name, commit=name, mlp=measured()), base_origin=WEIGHTS)
    remote = RepoRef("org/model", Path("/cache"), A, remote="org/model")
    assert commit_of_base(hostile).address is None
    assert commit_of_model(replace(report(commit=name), source=remote)).address is None


@cases(100)
@given(ANY_TEXT, ANY_TEXT)
def test_any_text_is_the_text_and_the_attribute_that_it_was_given_as_svg(content, label):
    whole = [printable(one, 10 * len(one) + 10) for one in (content, label)]
    shown = etree.fromstring(element("text", content, aria_label=label))
    assert ((shown.text or ""), len(shown)) == (whole[0], 0)
    assert dict(shown.attrib) == {"aria-label": whole[1]}


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-0.013, 0.021), (0, 1e-9), (-40, 3e5), (0.97, 0.9701)])
def test_steps_are_even_lie_within_and_are_neither_few_nor_many(low, high):
    steps = round_steps(low, high, 4)
    assert 1 < len(steps) <= 5
    assert all(low <= step <= high for step in steps)
    widths = [after - before for before, after in itertools.pairwise(steps)]
    assert widths == pytest.approx([widths[0]] * len(widths))
