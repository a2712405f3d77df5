"""Check every model of the example Hub against what its card declares, and say what the command would return."""

import sys
from pathlib import Path

from hf_lineage import Options, check
from hf_lineage.report import wording
from hf_lineage.report.text import colour, table

HUB = Path(__file__).with_name("hub")
COLUMNS = ("Model", "Declares", "Score", "p", "Verdict", "Exit")


def verdicts() -> str:
    """Return a table with one line for each claim of each model that declares a base."""
    options = Options(local_hub=HUB)
    lines = []
    for folder in sorted(path.parent for path in HUB.glob("*/*/config.json")):
        report = check(f"{folder.parent.name}/{folder.name}", options=options)
        for row in report.rows:
            base, _, _, score, p_value, verdict = next(wording.cells(row))
            lines.append((report.model, base, score, p_value, verdict, str(int(report.exit_code))))
    return table(COLUMNS, lines, numeric=(2, 3, 5))


if __name__ == "__main__":
    shown = verdicts()
    print(colour(shown) if sys.stdout.isatty() else shown)
