"""Whatever is not markup already is text in a page: it leaves neither its element nor its attribute, and is escaped."""

import pytest
from hypothesis import given
from jinja2 import UndefinedError
from lxml import etree, html
from markupsafe import Markup

from hf_lineage.errors import printable
from hf_lineage.report import page as page_module
from hf_lineage.report.charts import interval_bar
from hf_lineage.report.family import picture
from hf_lineage.report.page import HINTS, LONGEST, escaped, identifier, without_hint
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


@cases(100)
@given(ANY_TEXT)
def test_any_text_is_the_text_and_the_attribute_that_it_was_given_as_in_a_picture(text):
    whole = printable(text, 10 * len(text) + 10)
    assert [one.text or "" for one in etree.fromstring(picture([], text, f"{text}.")) if one.get("id")] == [
        whole,
        f"{whole}.",
    ]
    assert etree.fromstring(interval_bar(text, None, (0.0, 0.0))).get("aria-label") == whole
