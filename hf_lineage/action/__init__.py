"""The GitHub Action: checks once, and reports the outcome to the runner, the log and the next steps.

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
    """Run one step of the action and return its exit status; an error is 2, because 1 means UNRELATED."""
    try:
        # Only here: a package that cannot be imported is an error like any other.
        from hf_lineage.action import steps

        return steps.COMMANDS[arguments[0]](os.environ)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as error:  # a panic of a library that is written in Rust is no Exception
        with runner.without_commands():
            traceback.print_exc()
        if file := os.environ.get("GITHUB_OUTPUT"):
            runner.set_outputs(Path(file), {"verdict": "ERROR"})
        annotation = runner.command("error", printable(told(error)), title="Lineage could not be checked")
        print(annotation, flush=True)  # noqa: T201 - the log of the step
        return ERROR
