"""Whatever is not markup already is text in a page: it leaves neither its element nor its attribute, and is escaped."""

import itertools
import re
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
    every,
    fill,
    group,
    identifier,
    is_shown_apart,
    linear,
    path,
    picture,
    rect,
    round_steps,
    shortened,
    show,
    signed,
    text,
    without_hint,
    word,
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


def test_words_of_a_verdict_are_text():
    assert word("<x>", "good") == '<span class="word good">&lt;x&gt;</span>'
    assert isinstance(word("x", "bad"), Markup)


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError):
        part("{{ missing }}")
    with pytest.raises(UndefinedError):
        part("{{ given.missing }}", given=1)


def test_every_template_is_read_by_the_engine():
    engine = page_module._environment()
    names = engine.list_templates(extensions=["j2"])
    assert len(names) > 5
    for name in names:
        engine.get_template(name)


@pytest.mark.parametrize("name", ["tree.html.j2", "report.html.j2"])
def test_a_page_without_its_values_is_an_error(name):
    with pytest.raises(UndefinedError):
        fill(name)


def test_a_page_sends_nobody_where_it_was_opened_and_runs_nothing():
    source = """{% extends "page.html.j2" %}{% block title %}{{ name }}{% endblock %}
{% block header %}{% endblock %}{% block main %}{{ words }}{% endblock %}"""
    page = page_module._environment().from_string(source).render(name="A <title>", words="text & more")
    assert '<meta name="referrer" content="no-referrer">' in page
    assert "default-src 'none'" in page
    assert "<title>A &lt;title&gt;</title>" in page
    assert re.search(r"<main>\s*text &amp; more\s*</main>", page)


def test_a_table_is_named_and_reached_with_the_keyboard():
    made = part('{{ parts.table(("A", "B"), rows, "two things") }}', rows=[("<x>", "1"), ("", "2")])
    assert 'role="region" aria-label="two things" tabindex="0"' in made
    assert '<th scope="col">A</th>' in made
    assert '<tr><th scope="row">&lt;x&gt;</th><td>1</td></tr>' in made
    assert "<tr><td></td><td>2</td></tr>" in made


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


@pytest.mark.parametrize(
    ("shape", "written"),
    [
        (rect(1 / 3, 0, 2, 1), '<rect x="0.333333" y="0" width="2" height="1"></rect>'),
        (path("M0 0", "line", fill="none"), '<path d="M0 0" fill="none" class="line"></path>'),
        (text("<", 1, 2, anchor="end"), '<text x="1" y="2" text-anchor="end" class="tick">&lt;</text>'),
        (text("a", 1, 2, ""), '<text x="1" y="2">a</text>'),
        (group(rect(0, 0, 1, 1), kind="cells"), f'<g class="cells">{rect(0, 0, 1, 1)}</g>'),
    ],
)
def test_a_shape_is_written_as(shape, written):
    assert shape == written


def test_a_picture_is_told_in_words():
    root = etree.fromstring(picture("chart", (10, 20.5), [], "<what>", "x", "more"))
    assert (root.get("role"), root.get("viewBox"), root.get("class")) == ("img", "0 0 10 20.5", "chart")
    told = {one.get("id"): one.text for one in root}
    assert (told[root.get("aria-labelledby")], told[root.get("aria-describedby")]) == ("<what>", "more")
    plain = etree.fromstring(picture("small", (1, 1), [], "a bar"))
    assert (plain.get("aria-label"), len(plain), plain.get("aria-describedby")) == ("a bar", 0, None)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-0.013, 0.021), (0, 1e-9), (-40, 3e5), (0.97, 0.9701)])
def test_steps_are_even_lie_within_and_are_neither_few_nor_many(low, high):
    steps = round_steps(low, high, 4)
    assert 1 < len(steps) <= 5
    assert all(low <= step <= high for step in steps)
    widths = [after - before for before, after in itertools.pairwise(steps)]
    assert widths == pytest.approx([widths[0]] * len(widths))


def test_a_scale_leads_from_values_to_pixels():
    assert [linear(0, 2, 10, 20)(value) for value in (0, 1, 2)] == [10, 15, 20]
    assert linear(1, 1, 10, 20)(1) == 10


def test_numbers_of_layers_are_left_out_by_halves():
    assert [every(apart) for apart in (0.1, 1, 1.01, 4, 5)] == [1, 1, 2, 4, 8]


def test_words_are_cut_and_minus_signs_are_real():
    assert (shortened("org/models", 9), shortened("org/model", 9)) == ("org/mode…", "org/model")
    assert shortened("a\nb", 9) == "a\\nb"
    assert signed("-1e-05") == "−1e−05"
