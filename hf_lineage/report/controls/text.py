"""A comparison beside controls as text, as Markdown and as JSON."""

from __future__ import annotations

from hf_lineage import __version__
from hf_lineage.checking import Controlled
from hf_lineage.errors import printable
from hf_lineage.report.controls.rows import COLUMNS, MEANING, Role, cells, command, lines, outcome, remarks, role
from hf_lineage.report.formats import folded, json, markdown, table, wrapped
from hf_lineage.report.words import NUMERIC, WHOLE, encode, wording

SCHEMA_VERSION = 1


def text(controlled: Controlled, explain: bool = False) -> str:
    """Return the pair and its controls as one table of at most 80 columns, and the sentences that belong to it."""
    drawn = lines(controlled)
    rows = (folded(line) for one in drawn for line in cells(one))
    explained = [one for one in drawn if one.role is Role.PAIR or one.row.verdict.reason]
    paragraphs = [*map(outcome, explained), *remarks(controlled), MEANING]
    paragraphs += [wording.settings(controlled.pair), wording.MEANING, *wording.LIMITS] if explain else []
    shown = table(COLUMNS, rows, numeric=NUMERIC, whole=WHOLE)
    return "\n".join([wrapped(_title(controlled)), shown, *map(wrapped, paragraphs)]) + "\n"


def render_markdown(controlled: Controlled, explain: bool = False) -> str:
    """Return the same as GitHub-flavoured Markdown, untrusted names escaped."""
    drawn = lines(controlled)
    blocks = [f"### {markdown.escaped(_title(controlled))}"]
    blocks.append(markdown.markdown_table(COLUMNS, (line for one in drawn for line in cells(one))))
    blocks.append("\n".join(f"- {markdown.escaped(outcome(one))}" for one in drawn))
    blocks += [markdown.paragraph(sentence) for sentence in remarks(controlled)]
    blocks += ["\n".join(f"- {limit}" for limit in wording.LIMITS)] if explain else []
    settings = markdown.escaped(f"{MEANING} {wording.settings(controlled.pair)}")
    blocks.append(f"<sub>{settings} {wording.MEANING}</sub>")
    return "\n\n".join(blocks) + "\n"


def render_json(controlled: Controlled, explain: bool = False) -> str:
    """Return the same as JSON, with the whole report on the pair and on every control."""
    del explain  # every number is there anyway
    return encode(
        {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "hf-lineage", "version": __version__},
            "base": controlled.base,
            "model": controlled.pair.model,
            "exit_code": int(controlled.exit_code),
            "pair": json.document(controlled.pair),
            "controls": [
                {
                    "model": one.report.model,
                    "named_as": role(one).name.lower(),
                    "declares": one.declares or None,
                    "report": json.document(one.report),
                }
                for one in controlled.controls
            ],
            "remarks": list(remarks(controlled)),
            "command": command(controlled),
        }
    )


def _title(controlled: Controlled) -> str:
    pair, base = printable(controlled.pair.model, 200), printable(controlled.base, 200)
    number = len(controlled.controls)
    return f"{pair} and {base}, beside {number} control{'s' if number > 1 else ''}"
