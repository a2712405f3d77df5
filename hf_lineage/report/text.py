"""A report for people, as text that fits 80 columns."""

import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.containers import Lines
from rich.table import Table
from rich.text import Text

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import Finding
from hf_lineage.errors import printable
from hf_lineage.evidence.verdict import Evidence, Word
from hf_lineage.report import verdicts, wording
from hf_lineage.report.findings import explain_findings, reasons, summarize
from hf_lineage.report.wording import bar_cells, columns

WIDTH = 80
BAR = 20
COMMAND, UNBROKEN = re.compile(r"`[^`]+`"), "\N{NO-BREAK SPACE}"
_COLOURS = {Word.VERIFIED: 32, Word.RELATED: 33, Word.UNRELATED: 31, Word.UNDECIDED: 33}  # of a terminal


def render(report: Report, explain: bool = False) -> str:
    """Return the report as plain text, no line over 80 columns but for a command."""
    at = f" @ {report.commit}" if report.commit else ""
    lines = [f"{printable(report.model, 200)}{printable(at, 60)}"]
    if report.rows:
        names = columns(report, explain)
        numeric = [number for number, name in enumerate(names) if name in wording.FIGURES]
        paths = [number for number, name in enumerate(names) if name == "Path"]
        lines.append(table(names, map(fold_row, wording.rows(report, explain)), numeric, paths))
    paragraphs = list(reasons(report) if explain else summarize(report))
    if explain:
        for title, block in explain_findings(report):
            lines += [f"\n{wrap(title)}", *_blocks(block)]
        paragraphs += [wording.settings(report), wording.MEANING, *verdicts.describe_limits(report)]
    elif report.rows:
        paragraphs[-1] = f"{wording.whole(paragraphs[-1])} Details: --explain"
    return "\n".join(lines + [wrap(paragraph) for paragraph in paragraphs]) + "\n"


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    numeric: Sequence[int] = (),
    whole: Sequence[int] = (),
    width: int = WIDTH,
) -> str:
    """Return a table of at most `width` columns; a long cell is folded, but for the last and `whole` ones."""
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for number, column in enumerate(columns):
        firm = number == len(columns) - 1 or number in whole
        grid.add_column(column, justify="right" if number in numeric else "left", overflow="fold", no_wrap=firm)
    for row in rows:
        grid.add_row(*map(_Cell, row))
    page = io.StringIO()
    Console(file=page, width=width, color_system=None, legacy_windows=False, force_jupyter=False).print(grid)
    return "\n".join(line.rstrip() for line in page.getvalue().rstrip().splitlines())


class _Cell(Text):
    """A cell of which a long name is broken after a mark inside it, and within a word only where there is none."""

    def wrap(self, console: Console, width: int, *, no_wrap: bool | None = None, **how: Any) -> Lines:
        def fold(name: re.Match[str]) -> str:
            lines = [""]
            for piece in re.split(r"(?<=[/_-])", name[0]):
                if lines[-1] and len(lines[-1] + piece) > width:
                    lines.append("")
                lines[-1] += piece
            return "\n".join(lines)

        broken = self.plain if no_wrap else re.sub(r"\S+", fold, self.plain)
        return Text(broken).wrap(console, width, no_wrap=no_wrap, **how)


def fold_row(line: Sequence[str]) -> tuple[str, ...]:
    """Return the cells of a row with the verdict, the last of them, in as many lines as it needs."""
    *cells, verdict = line
    return *cells, "\n".join(textwrap.wrap(verdict, 24))


def wrap(paragraph: str) -> str:
    """Return a paragraph in lines of at most 80 columns; a command in backticks is on one line, to be copied."""
    whole = COMMAND.sub(lambda command: command[0].replace(" ", UNBROKEN), paragraph)
    fits = max(map(len, COMMAND.findall(whole)), default=0) < WIDTH
    lines = textwrap.fill(whole, WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=fits)
    return lines.replace(UNBROKEN, " ")


def colour(text: str) -> str:
    """Return text with every verdict in its colour, for a terminal."""
    pattern = re.compile(rf"\b({'|'.join(_COLOURS)})\b")
    return pattern.sub(lambda match: f"\x1b[{_COLOURS[Word(match[0])]}m{match[0]}\x1b[0m", text)


def bar(value: float, top: float) -> str:
    """Return a bar of up to 20 columns for a value between 0 and `top`."""
    return "█" * round(BAR * min(max(value / top, 0.0), 1.0)) if top > 0 else ""


def _blocks(block: Finding | Evidence) -> Iterator[str]:
    if isinstance(block, Evidence):
        rows = [(*verdicts.layer_cells(line), bar(line[2], 1.0)) for line in verdicts.layer_rows(block)]
        columns = ("Layer", "Pair", "Cosine", "Inherited", "s base", "s model", "")
        yield table(columns, rows, numeric=(0, 1, 2, 3, 4, 5))
        yield "\n".join(map(wrap, verdicts.null_sentences(block))) + "\n"
        return
    yield from (f"{table(one.columns, one.rows, numeric=one.numeric)}\n" for one in block.tables)
    if block.picture:
        bars = [(*bar_cells(one), bar(one.value, 1.0) if one.clear else "") for one in block.picture.bars]
        yield f"{table(('', 'Share', 'From', 'To', ''), bars, numeric=(1, 2, 3))}\n"
    yield from (wrap(f"{detail}.") for detail in block.details)
