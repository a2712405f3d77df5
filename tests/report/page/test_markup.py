"""Whatever is not markup already is text in a page: it leaves neither its element nor its attribute."""

import pytest
from hypothesis import given
from lxml import html

from hf_lineage.errors import printable
from hf_lineage.report.page.markup import LONGEST, Markup, escaped, identifier, joined, tag
from tests.properties import ANY_TEXT, cases


def parsed(markup):
    return html.fragment_fromstring(markup)


@cases(200)
@given(ANY_TEXT, ANY_TEXT)
def test_any_text_is_the_text_and_the_attribute_that_it_was_given_as(content, title):
    element = parsed(tag("p", content, "<>", title=title, class_="x"))
    assert element.text_content() == "".join(map(printable_whole, (content, "<>")))
    assert len(element) == 0
    assert dict(element.attrib) == {"title": printable_whole(title), "class": "x"}


def printable_whole(text):
    return printable(text, 10 * len(text) + 10)


@cases(100)
@given(ANY_TEXT)
def test_what_is_escaped_once_is_not_escaped_again(text):
    once = escaped(text)
    assert escaped(once) is once
    assert joined(once, once) == once + once
    assert isinstance(joined(once), Markup)


@cases(100)
@given(ANY_TEXT)
def test_a_name_is_set_apart_and_cut(text):
    element = parsed(identifier(text * 40))
    assert (element.tag, element.get("class")) == ("bdi", "id")
    assert element.text_content() == printable(text * 40, LONGEST)


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (tag("p"), "<p></p>"),
        (tag("link", rel="icon"), '<link rel="icon">'),
        (tag("meta", charset="utf-8"), '<meta charset="utf-8">'),
        (tag("p", title=None, aria_label="a b"), '<p aria-label="a b"></p>'),
        (tag("rect", x=1 / 3, width=2), '<rect x="0.333333" width="2"></rect>'),
        (tag("ul", tag("li", "a"), tag("li", "&")), "<ul><li>a</li><li>&amp;</li></ul>"),
        (joined(), ""),
        (escaped(None), "None"),
    ],
)
def test_an_element_is_written_as(markup, text):
    assert markup == text
