"""Work in a process of its own, so that no measurement sees the memory, the threads or the imports of another."""

import importlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

ROOT = Path(__file__).parents[1]
PATIENT = {"OMP_WAIT_POLICY": "passive"}
"""Threads that wait for others sleep. If they spin, one core that is busy elsewhere makes every product take ten times
as long, and the limits that extraction is held against look far away."""
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def isolated(task: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
    """Return what a function of some module returns when a fresh interpreter without GPU calls it.

    Arguments and result are pickled. Raise CalledProcessError if it fails; its traceback is on standard error.
    """
    result: Result = _called(task.__module__, task.__qualname__, arguments, named, NO_GPU)
    return result


def isolated_on_gpu(task: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
    """Return the same where the fresh interpreter sees every GPU."""
    result: Result = _called(task.__module__, task.__qualname__, arguments, named, {})
    return result


def _called(module: str, name: str, arguments: object, named: object, changes: dict[str, str]) -> Any:
    command = [sys.executable, "-m", "benchmarks.isolated", module, name]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | PATIENT | changes,
        input=pickle.dumps((arguments, named)),
        stdout=subprocess.PIPE,
        check=True,
    )
    return pickle.loads(done.stdout)


def main() -> None:
    """Call the function that the command line names with the arguments on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent says that it was interrupted
    module, name = sys.argv[1:]
    arguments, named = pickle.load(sys.stdin.buffer)
    pickle.dump(getattr(importlib.import_module(module), name)(*arguments, **named), sys.stdout.buffer)


if __name__ == "__main__":
    main()
