"""Check every model of the example Hub against what its card declares."""

import sys
from pathlib import Path

from hf_lineage import Options, check
from hf_lineage.report.formats.text import colour, folded, table
from hf_lineage.report.words import wording

HUB = Path(__file__).with_name("hub")
COLUMNS = ("Model", "Declares", "Score", "Inherits", "p", "Verdict")


def verdicts() -> str:
    """Return a table with one line for each claim of each model that declares a base."""
    options = Options(local_hub=HUB)
    lines = []
    for folder in sorted(path.parent for path in HUB.glob("*/*/README.md")):
        report = check(f"{folder.parent.name}/{folder.name}", options=options)
        for row in report.rows:
            base, _, _, *figures = next(wording.cells(row))
            # Without the organisation, or the table would not fit 80 columns.
            lines.append(folded((report.model, base.rpartition("/")[2], *figures), longest=len("UNRELATED")))
    return table(COLUMNS, lines, numeric=(2, 3, 4))


if __name__ == "__main__":
    shown = verdicts()
    print(colour(shown) if sys.stdout.isatty() else shown)
