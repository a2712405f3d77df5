from markdown_it import MarkdownIt

from hf_lineage.watch.contradicted import issues
from tests.watch.test_ledger import claim, entry

LIE = claim(verdict="UNRELATED", score=0.0123, p_value_adjusted=0.4567)
LONGEST_BODY = 65536
LONGEST_TITLE = 256


def test_only_what_is_contradicted_is_an_issue_whatever_else_is_claimed():
    seen = [
        entry("fern/good", claims=(claim(),)),
        entry("fern/none"),
        entry("fern/gone", error="gone"),
        entry("fern/liar", claims=(claim(), LIE)),
        entry("fern/broken", claims=(claim(verdict="UNREADABLE"), LIE)),
    ]
    assert list(issues(seen)) == [f"fern--liar--{'a' * 40}.md", f"fern--broken--{'a' * 40}.md"]


def test_an_issue_says_which_model_at_which_commit_and_how_to_check_it():
    (text,) = issues([entry("fern/liar", claims=(claim(base="acme/true"), LIE))]).values()
    title, empty, body = text.split("\n", 2)
    assert (title, empty) == ("Lineage contradicted: fern/liar @ aaaaaaaaaaaa", "")
    assert f"| acme/base | {'b' * 40} | README.md | 0.012 | – | 0.457 |" in body
    assert "acme/true" not in body
    assert "    hf-lineage check fern/child\n" in body
    assert "UNRELATED says only that the two models could be independent" in body


def test_the_title_is_the_same_whenever_the_same_commit_is_contradicted():
    first, second = (issues([entry(claims=claims)]) for claims in ((LIE,), (LIE, LIE)))
    assert [text.splitlines()[0] for text in first.values()] == [text.splitlines()[0] for text in second.values()]
    assert list(first) == list(second)


def test_it_is_never_longer_than_github_takes():
    longest = f"{'x' * 96}/{'y' * 96}"
    lie = claim(verdict="UNRELATED", base="<" * 2000, command="<" * 5000, sources=("README.md",) * 3)
    (text,) = issues([entry(longest, claims=(lie,) * 100)]).values()
    assert len(text) < LONGEST_BODY
    assert len(text.splitlines()[0]) <= LONGEST_TITLE
    assert "The ledger has 90 more." in text
    (name,) = issues([entry(longest, claims=(LIE,))])
    assert len(name) <= 255


def test_untrusted_names_are_text_and_nothing_else():
    odd = "x`|</td><script>alert(1)</script>\n# Title\n@team [a](http://evil) \u202e::error::"
    (text,) = issues(
        [entry(claims=(claim(verdict="UNRELATED", base=odd, command=f"hf-lineage check {odd}"),))]
    ).values()
    assert all(line.isprintable() for line in text.splitlines())
    tokens = [
        token
        for each in MarkdownIt("commonmark").enable("table").parse(text)
        for token in (each, *(each.children or ()))
    ]
    kinds = {token.type for token in tokens}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "heading_open", "fence", "code_inline"}
    (code,) = (token for token in tokens if token.type == "code_block")
    assert code.content.count("\n") == 1
