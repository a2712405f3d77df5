"""What strangers call things, and what must be nowhere in anything that is printed or written."""

import re

RIGHT_TO_LEFT = "\u202e"
NAMES = (
    "<script>alert(1)</script>",
    "a`touch /tmp/owned`|b",
    "::error::owned",
    "##[error]owned",
    f"org/{RIGHT_TO_LEFT}ledom",
    "org/" + "m" * 300,
    "[a link](https://evil.example) @everyone {0} ${{ secrets.TOKEN }} %0A::warning::x",
    "]]><evil/>&amp;",
)
CARD = "---\nbase_model:\n{bases}\nbase_model_relation: '::error::<b>|`x`'\nlicense: mit\n---\n# <script>\n"


def card(names: tuple[str, ...] = (*NAMES, "two\nlines\r::error::owned")) -> str:
    """A model card that declares all of them, escaped as YAML allows."""
    quoted = ("".join(f"\\U{ord(c):08x}" if not (c.isalnum() or c in "/ ") else c for c in name) for name in names)
    return CARD.format(bases="\n".join(f'- "{name}"' for name in quoted))


MARKUP = (r"<script", r"<evil", r"<b>")
LINES = (RIGHT_TO_LEFT, r"[\x00-\x08\x0b-\x1f\x7f]", r"(?m)^\s*::(?:error|warning)::", r"##\[", "m{201}")


def traces(text: str, patterns: tuple[str, ...] = MARKUP + LINES) -> list[str]:
    """Everything in a text that is more than text: markup, line breaks or commands that were in a name."""
    return [found[0] for pattern in patterns for found in re.finditer(pattern, text)]
