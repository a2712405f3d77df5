"""Whatever is not markup already is text in a page: it leaves neither its element nor its attribute, and is escaped."""

import re

import pytest
from hypothesis import given
from jinja2 import UndefinedError
from lxml import html
from markupsafe import Markup

from hf_lineage.errors import printable
from hf_lineage.report.page import templates
from hf_lineage.report.page.templates import LONGEST, escaped, fill, identifier, word
from tests.properties import ANY_TEXT, cases


def parsed(markup):
    return html.fragment_fromstring(markup)


def printable_whole(text):
    return printable(text, 10 * len(text) + 10)


def part(template, **values):
    """What a template that uses the parts of all pages makes of values."""
    source = f'{{% import "page/parts.html.j2" as parts %}}{template}'
    return templates._environment().from_string(source).render(values).strip()


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
    engine = templates._environment()
    names = engine.list_templates(extensions=["j2"])
    assert len(names) > 5
    for name in names:
        engine.get_template(name)


@pytest.mark.parametrize("name", ["tree/tree.html.j2", "html/report.html.j2"])
def test_a_page_without_its_values_is_an_error(name):
    with pytest.raises(UndefinedError):
        fill(name)


def test_a_page_sends_nobody_where_it_was_opened_and_runs_nothing():
    source = """{% extends "page/page.html.j2" %}{% block title %}{{ name }}{% endblock %}
{% block header %}{% endblock %}{% block main %}{{ words }}{% endblock %}"""
    page = templates._environment().from_string(source).render(name="A <title>", words="text & more")
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
