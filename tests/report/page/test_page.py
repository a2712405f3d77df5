"""What all pages are made of: a head that allows nothing, and parts that every reader can reach."""

import re

from hf_lineage.report.page.page import document, linked, table, whole


def test_a_page_sends_nobody_where_it_was_opened_and_runs_nothing():
    page = document("A <title>", "text & more")
    assert '<meta name="referrer" content="no-referrer">' in page
    assert "default-src &#x27;none&#x27;" in page
    assert "<title>A &lt;title&gt;</title>" in page
    assert page.endswith("<body>text &amp; more</body></html>\n")


def test_a_table_is_named_and_reached_with_the_keyboard():
    made = table(("A", "B"), [("<x>", "1")], "two things")
    assert 'role="region" aria-label="two things" tabindex="0"' in made
    assert '<th scope="col">A</th>' in made
    assert re.search(r'<tr><th scope="row">&lt;x&gt;</th><td>1</td></tr>', made)


def test_what_has_no_address_is_no_link():
    assert linked("<x>", "https://a.example/?a&b") == (
        '<a href="https://a.example/?a&amp;b" rel="noreferrer">&lt;x&gt;</a>'
    )  # fmt: skip
    assert linked("x", None) == "<span>x</span>"


def test_a_name_at_the_beginning_keeps_its_letters():
    assert whole("a note") == "A note."
    assert whole("fern/model: a note") == "fern/model: a note."
    assert whole("cut off …") == "Cut off …"
    assert whole("") == "."
