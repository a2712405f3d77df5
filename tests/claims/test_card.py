"""The section of a card: found, replaced or added, and every other byte left where it was."""

import contextlib
import itertools
import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_lineage.claims import card
from hf_lineage.claims.sources import CARD, LARGEST_METADATA, read_claims, split_lines, stated_licence
from hf_lineage.errors import CardError, CheckpointError
from hf_lineage.hub.repo import RepoRef
from tests.properties import ANY_TEXT, cases

BEGIN, END = card.BEGIN.encode(), card.END.encode()
FRONT = b"---\nlicense: mit\nbase_model: acme/base\n---\n"
QUOTED = f"{card.BEGIN}\nnot a section\n{card.END}".encode()
CARDS: dict[str, bytes | None] = {
    "no file": None,
    "empty": b"",
    "one newline": b"\n",
    "blank lines": b"\n \n\t\n",
    "no YAML": b"# Title\n\nText.\n",
    "plain": FRONT + b"# Title\n\nText.\n",
    "YAML alone": FRONT,
    "YAML alone, no final newline": FRONT.rstrip(),
    "comments in YAML": b"---\n# why\nlicense: mit  # free\n\nbase_model: acme/base # parent\ntags:\n  - a\n---\n",
    "empty YAML": b"---\n---\n# Title\n",
    "YAML that ends in dots": b"---\nlicense: mit\n...\n# Title\n",
    "YAML that never ends": b"---\nlicense: mit\n",
    "base as a list": b"---\nbase_model:\n- acme/base\n- acme/other\n---\nText.\n",
    "base in a flow list": b"---\nbase_model: [acme/base, acme/other]\n---\nText.\n",
    "anchors": b"---\nbase_model: &b acme/base\nalso: *b\n---\nText.\n",
    "a marker in a YAML comment": b"---\n# <!-- hf-lineage:begin v1 -->\nbase_model: acme/base\n---\nText.\n",
    "CRLF": FRONT.replace(b"\n", b"\r\n") + b"# Title\r\n\r\nText.\r\n",
    "CR": FRONT.replace(b"\n", b"\r") + b"# Title\r\rText.\r",
    "mixed line endings": FRONT.replace(b"\n", b"\r\n") + b"# Title\nText.\n\rMore.\r\n",
    "BOM": b"\xef\xbb\xbf" + FRONT + b"# Title\n",
    "BOM alone": b"\xef\xbb\xbf",
    "BOM and CRLF": b"\xef\xbb\xbf" + FRONT.replace(b"\n", b"\r\n") + b"# Title",
    "not UTF-8": b"---\nauthor: M\xfcller\nbase_model: acme/base\n---\nM\xfcller\n",
    "no final newline": FRONT + b"# Title\n\nText.",
    "spaces at the end": FRONT + b"Text.\n   ",
    "many newlines at the end": FRONT + b"Text.\n\n\n\n",
    "emoji": "---\nbase_model: acme/base\nemoji: 🐦\n---\n# 🐦 👩‍👩‍👧\n\n🚀 é e\u0301\n".encode(),
    "separators that are no line ends": "---\nlicense: mit\n---\na\u2028b\u2029c\x0bd\x0ce\x85f\x1cg\n".encode(),
    "right to left": "# \u202eltit\u202c\n\nשלום \u200f \u2066x\u2069\n".encode(),
    "a table with pipes in names": b"| a\\|b | `c|d` |\n| --- | --- |\n| 1 | <!-- hf-lineage:begin v1 --> |\n",
    "a table at the end": b"| a | b |\n| --- | --- |\n| 1 | 2 |",
    "setext heading at the end": b"Title\n=====\n\nMore\n---\n",
    "a rule at the end": b"Text\n\n---\n",
    "a list at the end": b"- a\n- b\n  - c",
    "markers in a fence": b"Text\n\n```html\n" + QUOTED + b"\n```\n\nText\n",
    "markers in a tilde fence with backticks inside": b"~~~\n```\n" + QUOTED + b"\n~~~\n",
    "markers in a fence of a list": b"- ```\n  " + QUOTED.replace(b"\n", b"\n  ") + b"\n  ```\n\nText\n",
    "markers in a list": b"- a\n\n  " + QUOTED.replace(b"\n", b"\n  ") + b"\n",
    "markers in a quotation": b"> " + QUOTED.replace(b"\n", b"\n> ") + b"\n",
    "markers in indented code": b"Text\n\n    " + QUOTED.replace(b"\n", b"\n    ") + b"\n",
    "markers in prose": b"The line `" + BEGIN + b"` begins it, and " + END + b" ends it.\n",
    "markers in a comment": b"<!--\nhf-lineage:begin v1\n" + b"<!-- hf-lineage:begin v1 \n-->\n",
    "markers with text after them": BEGIN + b" text\n" + END + b" <!-- x -->\n",
    "markers of another tool": b"<!-- hf-lineage-x:begin v1 -->\n<!-- hf-lineage:beginning -->\n<!-- begin -->\n",
    "a fence that never ends": FRONT + b"# Title\n\nText\n```python\ncode\n\nmore",
    "a fence that never ends, with markers": b"# Title\n```\n" + QUOTED + b"\n",
    "a fence that never ends, at the top": b"```\ncode\n",
    "a fence of a list that never ends": b"- ```\n  code\n",
    "a comment that never ends": FRONT + b"# Title\n\n<!-- to be written\n\nmore\n",
    "a script that never ends": b"Text\n\n<script>\nalert(1)\n\n",
    "an element that never ends": b"<details>\n<summary>x</summary>\nText\n",
    "a comment in prose that never ends": b"Text <!-- x\n",
    "ten thousand lines": FRONT + b"# Title\n\n" + b"A sentence of many words.\n" * 10_000,
    "1 MB in one line": FRONT + b"![x](data:image/png;base64," + b"A" * 2**20 + b")\n",
    "a thousand quotation marks": b"> " * 1000 + b"x\n",
}
SECTIONS: dict[str, tuple[bytes, bytes, bytes]] = {
    "in the middle": (FRONT + b"# Title\n\n", QUOTED, b"\n\n# More\n"),
    "at the top, without version": (b"", b"<!-- hf-lineage:begin -->\nold\n<!-- hf-lineage:end -->", b"\n# Title\n"),
    "indented and padded": (b"Text\n\n", b"  " + BEGIN + b"  \nold\n " + END + b"\t", b"\nText\n"),
    "in CRLF": (b"Text\r\n\r\n", QUOTED.replace(b"\n", b"\r\n"), b"\r\nText\r\n"),
    "in CRLF in a card of LF": (b"Text\n\n", QUOTED.replace(b"\n", b"\r\n"), b"\r\nText\n"),
    "at the very end": (b"\xef\xbb\xbfText\n\n", QUOTED, b""),
    "after a quoted one": (b"```\n" + QUOTED + b"\n```\n", QUOTED, b"\nText\n"),
    "right after a paragraph": (b"Text\n", QUOTED, b"\nText\n"),
    "before a fence that never ends": (b"", QUOTED, b"\n```\n" + QUOTED),
}
"""What stands before a section, the section, and what stands after it."""
LINES = "begin in line 1, end in line"
INSIDE = f"{card.BEGIN}\n{card.BEGIN}\n{card.END}\n{card.END}\n".encode()
BROKEN: dict[str, tuple[bytes, str]] = {
    "a begin alone": (BEGIN + b"\nText\n", "(begin in line 1)"),
    "an end alone": (b"Text\n\n" + END + b"\n", "(end in line 3)"),
    "the wrong way round": (END + b"\n" + BEGIN + b"\n", "(end in line 1, begin in line 2)"),
    "two sections": (QUOTED + b"\n\n" + QUOTED + b"\n", f"({LINES} 3, begin in line 5, end in line 7)"),
    "one in the other": (INSIDE, "(begin in line 1, begin in line 2, end in line 3, end in line 4)"),
    "two ends": (BEGIN + b"\n" + END + b"\n" + END + b"\n", f"({LINES} 2, end in line 3)"),
    "an end in a fence": (b"---\nx: y\n---\n" + BEGIN + b"\n```\n" + END + b"\n", "(begin in line 4)"),
    "a later version": (b"<!-- hf-lineage:begin v2 -->\n<!-- hf-lineage:end -->\n", "a section of version 2"),
    "UTF-16": ("# Title\n".encode("utf-16"), "is not UTF-8 text; save it as UTF-8"),
    "a null": (b"# Title\0\n", "is not UTF-8 text; save it as UTF-8"),
    "5 MiB": (b"x" * (5 * 2**20), "is larger than 4 MiB; shorten it"),
}
BODY = "## Lineage\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n```console\n$ x\n```\n\nText."
WHOLE = re.compile(re.escape(f"{card.BEGIN}\n{BODY}\n{card.END}".encode()).replace(b"\\\n", rb"(?:\r\n|\r|\n)"))
SECTION = re.compile(rb"<!-- hf-lineage:begin.*?<!-- hf-lineage:end -->", re.DOTALL)
PIECES = [
    *("Text.", "", "# Title", "---", "===", "```", "~~~", "````", "> ", "- a", "  b", "    c", "\t", "<!--", "-->"),
    *("<div>", "<script>", "</script>", "| a | b |", "| --- |", "[a]: b", "1. x", "   ", "***", "<!-- x -->"),
    *("x <!-- y", "\u2028", "🐦", card.BEGIN, card.END, f"  {card.BEGIN}", f"> {card.END}", f"`{card.END}`"),
]
BODIES = st.lists(st.text("abc 12.|\u00e9", max_size=12), max_size=5).map("\n".join)
GEMMA = "license: other\nlicense_name: gemma\nlicense_link: https://ai.google.dev/gemma/terms\n"
NO_LICENCES = ("license: null\n", "license: {a: b}\n", "tags: [x]\n", "license: [\n", "- license\n")
LICENCES = {"license: apache-2.0\n": "apache-2.0", GEMMA: "other (gemma, https://ai.google.dev/gemma/terms)"}
LICENCES |= {"license: [mit, cc-by-4.0]\n": "mit, cc-by-4.0", "license_name: ours\n": "(ours)"}
LICENCES |= dict.fromkeys((*NO_LICENCES, f"a: {'x' * LARGEST_METADATA}\nlicense: mit\n"), "")
LICENCES |= {f"license: [{', '.join(['y'] * 1000)}]\n": "y, y, y, y, y, y, y, y, y, y"}


@pytest.fixture
def repo(tmp_path):
    return RepoRef("org/model", tmp_path)


def annotated(content, body=BODY):
    return card.encode_card(card.with_section(card.read_text(content), body))


def added(old, new):
    """Whether new bytes are the old ones with one section in between, and line ends around that."""
    return any(
        old == new[: match.start() - before] + new[match.end() + after :]
        for match in WHOLE.finditer(new)
        for before in range(min(match.start(), 4) + 1)
        for after in range(5)
        if not (new[match.start() - before : match.start()] + new[match.end() : match.end() + after]).strip()
    )


@pytest.mark.parametrize("name", CARDS)
def test_a_section_is_added_where_markdown_shows_it_and_nothing_else_changes(name, repo):
    """Every other byte stays, the claims are read as before, and another body changes the section alone."""

    def claims(content):
        if content is not None:
            repo.path(CARD).write_bytes(content)
        try:
            return read_claims(RepoRef(repo.name, repo.folder))
        except CheckpointError as error:
            return str(error)

    old, once = CARDS[name], annotated(CARDS[name])
    assert added(old or b"", once)
    assert annotated(once) == annotated(annotated(once, "Something else.\n\n- a\n- b"), BODY) == once
    assert claims(old) == claims(once)
    lines = split_lines(card.read_text(once))[1]
    section = card._section(lines)
    assert section
    types = [token.type for token in card._tokens(lines) if section[0] <= token.map[0] < section[1]]
    assert types == ["html_block", "heading_open", "paragraph_open", "fence", "paragraph_open", "html_block"]
    (stored,) = [part for part in SECTION.findall(once) if b"$ x" in part]
    endings = {b"\n": rb"(?<!\r)\n", b"\r\n": rb"\r\n", b"\r": rb"\r(?!\n)"}
    most = max(endings, key=lambda ending: len(re.findall(endings[ending], old or b"")))
    assert set(re.findall(rb"\r\n|\r|\n", stored)) == {most}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_is_replaced_and_every_other_byte_stays(name):
    before, section, after = SECTIONS[name]
    new = annotated(before + section + after)
    assert (new.startswith(before + BEGIN), new.endswith(END + after)) == (True, True)
    assert WHOLE.fullmatch(new[len(before) : len(new) - len(after)])
    assert annotated(new) == new


def test_at_the_end_means_after_all_else_unless_that_is_left_open():
    assert annotated(b"").startswith(b"<!-- hf")
    for text in (b"Text", b"Text\n", b"Text\n\n", b"Text\n```\ncode"):
        assert annotated(text).startswith(b"Text\n\n<!-- hf")
    assert annotated(b"Text\n```\ncode").endswith(b":end -->\n\n```\ncode")


@pytest.mark.parametrize("name", BROKEN)
def test_a_card_that_cannot_be_edited_is_an_error_that_says_where(name):
    content, message = BROKEN[name]
    with pytest.raises(CardError) as error:
        annotated(content)
    assert str(error.value).startswith("README.md ")
    assert message in str(error.value)


@pytest.mark.parametrize("seed", range(4))
def test_random_cards_keep_their_bytes_or_are_refused(seed):
    chance, accepted = random.Random(seed), 0
    for _ in range(100):
        pieces = PIECES if chance.random() < 0.3 else PIECES[:-5]
        lines = (chance.choice(pieces) + chance.choice(["\n", "\n", "\r\n", "\r"]) for _ in range(chance.randrange(25)))
        old = "".join(lines).encode() + chance.choice([b"", b"end"])
        with contextlib.suppress(CardError):
            new = annotated(old)
            accepted += 1
            assert annotated(new) == new
            assert card._section(split_lines(card.read_text(old))[1]) or added(old, new)
    assert accepted > 50


@cases(150)
@given(st.one_of(st.binary(max_size=60), ANY_TEXT.map(lambda text: text.encode("utf-8", errors="surrogatepass"))))
def test_bytes_become_text_and_the_same_bytes_again_or_are_refused(content):
    try:
        text = card.read_text(content)
    except CardError:
        assert b"\0" in content or content[:2] in (b"\xff\xfe", b"\xfe\xff")
    else:
        assert card.encode_card(text) == content


@cases(150)
@given(ANY_TEXT.filter(lambda text: "hf-lineage" not in text), BODIES, BODIES)
def test_another_body_changes_what_stands_between_the_markers_and_nothing_else(text, body, other):
    text = text.replace("\0", "").encode("utf-8", errors="ignore").decode()
    once, again = (card.with_section(text, each) for each in (body, other))
    assert card.with_section(once, body) == once
    assert card.with_section(once, other) == again
    outside = [(new[: new.index(card.BEGIN)], new[new.index(card.END) :]) for new in (once, again)]
    assert outside[0] == outside[1]
    before, after = outside[0][0], outside[0][1].removeprefix(card.END)
    assert any(text == before[: len(before) - gap] + after[end:] for gap in range(3) for end in range(5))


def told(repo, metadata, before="---\n", after="---\n# A model\n"):
    repo.path(CARD).write_text(f"{before}{metadata}{after}", encoding="utf-8")
    return stated_licence(RepoRef(repo.name, repo.folder))


@pytest.mark.parametrize(("metadata", "shown"), LICENCES.items(), ids=itertools.count())
def test_what_a_card_states_at_its_beginning_is_that_of_the_model_in_each_folder(repo, metadata, shown):
    assert told(repo, metadata) == stated_licence(RepoRef("org/model", repo.folder, subfolder="unet")) == shown


def test_without_a_repository_or_a_card_that_can_be_read_nothing_is_stated(repo):
    assert stated_licence(repo) == stated_licence(object()) == ""
    for part in ("before", "after"):
        assert told(repo, "license: mit\n", **{part: ""}) == ""
    hostile = '\x1b[31m\u202e::error::<script>\n"' + "x" * 1000
    licence = told(repo, f"license: {json.dumps(hostile)}\n")
    assert (len(licence) <= 200, licence.isprintable(), "::" in licence) == (True, True, False)
    repo.path(CARD).unlink()
    repo.path(CARD).mkdir()
    assert stated_licence(RepoRef(repo.name, repo.folder)) == ""
