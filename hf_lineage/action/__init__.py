"""The GitHub Action: checks once, and tells the runner, the reader of the log and the next steps what came out.

`action.yml` calls `python -m hf_lineage.action`; inputs come, and outputs go, as the runner hands them over.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from pathlib import Path

from hf_lineage.action import runner
from hf_lineage.errors import printable, told

ERROR, INTERRUPTED = 2, 130


def main(arguments: Sequence[str]) -> int:
    """Run one step of the action and return its exit status, which is 1 for no error: 1 means UNRELATED."""
    try:
        # Only here: a package that cannot be imported is an error like any other.
        from hf_lineage.action import steps

        return steps.COMMANDS[arguments[0]](os.environ)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as error:  # a panic of a library that is written in Rust is no Exception
        with runner.unheard():
            traceback.print_exc()
        if file := os.environ.get("GITHUB_OUTPUT"):
            runner.set_outputs(Path(file), {"verdict": "ERROR"})
        said = runner.command("error", printable(told(error)), title="Lineage could not be checked")
        print(said, flush=True)  # noqa: T201 - the log of the step
        return ERROR
