"""List docstrings that begin with a riddle, and sentences that are too long: `python -m tools.language [PATH]...`.

A PATH is a Python or Markdown file, or a folder of Python files; without one, the package is read.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

RIDDLE = re.compile(r"\s*(What|How|By|Where|Of|Which|Those)\b")
MOST_WORDS = 25
CODE, LINK = re.compile(r"(`+)[^`]+\1"), re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|cf|vs|al|Eq|Fig|Sec|Tab)\.(?=[\s,)])")
END = re.compile(r"(?<=[.:;!?])\s+|(?<=[.!?][)\"'*_])\s+|(?<=[.:;!?]\*\*)\s+")
BLOCK = re.compile(
    r"^<!-- begin (.+?) -->$.*?^<!-- end \1 -->$|^ *(```+|~~~+).*?^ *\2$|<!--.*?-->", re.DOTALL | re.MULTILINE
)
ASIDE = re.compile(r"[|#│├└]|={3}|-{3}|.*\S {2,}\S")
"""Lines that are no prose: tables, headings, rules, trees, columns."""
ITEM = re.compile(r"([-*+]|\d+[.)])\s+")


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of the docstrings of a module, its classes, functions and attributes."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    bodies = (node.body for node in ast.walk(ast.parse(source)) if isinstance(node, kinds))
    for node in (node.value for body in bodies for node in body if isinstance(node, ast.Expr)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph or item of a list, without tables, headings, code and doctests, and its line from 0."""
    text = BLOCK.sub(lambda found: "\n" * found[0].count("\n"), text)
    first, lines, doctest = 0, list[str](), False
    for number, line in enumerate([*map(str.strip, text.split("\n")), ""]):
        doctest = bool(line) and (doctest or line.startswith(">>>"))
        prose = bool(line) and not doctest and not ASIDE.match(line)
        if lines and (not prose or ITEM.match(line)):
            yield first, " ".join(lines)
            lines = []
        if prose:
            first = first if lines else number
            lines.append(ITEM.sub("", line, count=1) if ITEM.match(line) else line)


def sentences(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph, with code as one word; a colon and a semicolon end a sentence too."""
    plain = LINK.sub(r"\1", CODE.sub("CODE", paragraph))
    return END.split(ABBREVIATION.sub(lambda found: found[1].replace(".", ""), plain))


def long_sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences that have too many words, each with the line, from 0, that its paragraph begins on."""
    for line, paragraph in paragraphs(text):
        for sentence in sentences(paragraph):
            words = sum(bool(re.search(r"\w", word)) for word in sentence.split())
            if words > MOST_WORDS:
                yield line, f"{words} words: {sentence}"


def findings(path: Path) -> tuple[list[str], list[str]]:
    """Return the docstrings of a file that begin with a riddle, and its long sentences, as they are printed."""
    text, python = path.read_text(encoding="utf-8"), path.suffix == ".py"
    texts = list(docstrings(text)) if python else [(1, text)]
    riddles = [f"{path}:{line}: {doc.strip().splitlines()[0]}" for line, doc in texts if python and RIDDLE.match(doc)]
    return riddles, [f"{path}:{line + more}: {found}" for line, doc in texts for more, found in long_sentences(doc)]


def main(arguments: list[str] | None = None) -> int:
    """Print each finding and both counts, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.language")
    parser.add_argument("paths", nargs="*", type=Path, default=[Path("hf_lineage")], metavar="PATH")
    parser.add_argument("--most", type=int, metavar="N", help="exit with 1 where there are more than N findings")
    options = parser.parse_args(arguments)
    files = [file for path in options.paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    riddles, long = ([line for part in parts for line in part] for parts in zip(*map(findings, files), strict=True))
    for line in riddles + long:
        print(line)
    print(f"{len(riddles)} docstrings begin with a riddle, {len(long)} sentences have more than {MOST_WORDS} words")
    return int(options.most is not None and len(riddles) + len(long) > options.most)


if __name__ == "__main__":
    sys.exit(main())
