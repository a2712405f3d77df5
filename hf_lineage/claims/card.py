"""A model card as text: one marked section replaced in place.

Only CommonMark's rules (markdown-it-py) tell a marker from one in a list, a code block or an unfinished comment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hf_lineage.claims.sources import LINE, front_matter, split_lines
from hf_lineage.errors import CardError

if TYPE_CHECKING:
    from markdown_it.token import Token


LARGEST = 4 * 2**20  # Bytes of a card that is edited; the parser takes a second a megabyte, half a minute for a list
BEGIN = (
    "<!-- hf-lineage:begin v1: written by `hf-lineage annotate`; the next run overwrites changes in this section -->"
)
END = "<!-- hf-lineage:end -->"

_MARKER = re.compile(
    r"<!--[ \t]*hf-lineage:(?P<side>begin|end)(?:[ \t]+v(?P<version>\d{1,9}))?(?![\w-])(?:(?!-->)[^\r\n])*-->"
)


def read_text(content: bytes | None) -> str:
    """Return bytes as text that becomes the same bytes again; CardError if too large, or not text in UTF-8."""
    content = content or b""
    if len(content) > LARGEST:
        raise CardError(f"README.md is larger than {LARGEST >> 20} MiB; shorten it")
    if b"\0" in content or content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CardError("README.md is not UTF-8 text; save it as UTF-8")
    return content.decode("utf-8", errors="surrogateescape")


def encode_card(text: str) -> bytes:
    """Return the bytes of a card."""
    return text.encode("utf-8", errors="surrogateescape")


def with_section(text: str, body: str) -> str:
    """Return a card whose marked section holds `body`, in place or at the end; CardError for markers of no section."""
    mark, lines = split_lines(text)
    counted = Counter(filter(None, map(_ending, lines)))
    if section_range := _section(lines):
        start, stop = section_range
        newline, gap, end = _ending(lines[start]), "", _ending(lines[stop - 1])
    else:
        # At the end, or before a block that never ends: the last line at which a new block can be added.
        new = [*lines, _gap(lines, "\n"), "A new paragraph."]
        start = stop = min(_tokens(LINE.findall("".join(new)))[-1].map[0], len(lines))  # type: ignore[index]  # has one
        newline = max(("\n", "\r\n", "\r"), key=lambda ending: counted[ending])
        gap, end = _gap(lines[:start], newline), newline if start == len(lines) else newline * 2
    section = newline.join((BEGIN, *re.split(r"\r\n|\r|\n", body.strip("\r\n")), END))
    return "".join((mark, *lines[:start], gap, section, end, *lines[stop:]))


def _section(lines: Sequence[str]) -> tuple[int, int] | None:
    """Return the range of lines of the marked section, with both markers; None if there is no marker."""
    blocks = _tokens(lines) if any(_MARKER.search(line) for line in lines) else []
    html = ((token.map[0], token.content.strip()) for token in blocks if token.map and token.type == "html_block")
    markers = [(number, match) for number, content in html if (match := _MARKER.fullmatch(content))]
    if not markers:
        return None
    if [match["side"] for _, match in markers] != ["begin", "end"]:
        where = ", ".join(f"{match['side']} in line {number + 1}" for number, match in markers[:10])
        wrong = f"README.md has markers of hf-lineage that do not form one section ({where})"
        raise CardError(f"{wrong}; remove them and run again")
    if (version := int(markers[0][1]["version"] or 1)) != 1:
        later = f"a section of version {version}, written by a later hf-lineage"
        raise CardError(f"README.md has {later}; update hf-lineage")
    return markers[0][0], markers[1][0] + 1


def _tokens(lines: Sequence[str]) -> list[Token]:
    """Return the outermost blocks of a card; its YAML is not Markdown and is replaced by blank lines."""
    from markdown_it import MarkdownIt

    _, end = front_matter(lines)
    text = "".join("\n" if end and number <= end else line for number, line in enumerate(lines))
    parser = MarkdownIt("commonmark").disable("inline")
    return [token for token in parser.parse(text) if token.level == 0 and token.map]


def _ending(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _gap(lines: Sequence[str], newline: str) -> str:
    """Return the line endings after which the next line follows a blank line, or begins the card."""
    if not lines or (_ending(lines[-1]) and not lines[-1].strip()):
        return ""
    if newline == "\n" and _ending(lines[-1]) == "\r":
        return "\r"  # "\r" and "\n" together would be one line ending
    return newline if _ending(lines[-1]) else newline * 2
