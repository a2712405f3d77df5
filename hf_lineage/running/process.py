"""Process: a child process that runs a model, as its parent sees it, and the plain values that it is given."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import IO, Any, cast

from huggingface_hub.utils.tqdm import are_progress_bars_disabled
from tqdm import tqdm

from hf_lineage.errors import NothingToCompare, OptionError, installation, printable

SHORT, LONG = "short", "long"  # kinds of input: windows of a text, each by itself, and the same behind other text
TOKENIZER = "tokenizer.json"  # says what the tokens of a model are; without it, it reads bytes
COMMAND = "import sys; sys.path[:] = {path!r}; from hf_lineage.running.worker import main; main()"
"""It finds what this process finds, and obeys nothing of the working directory beside that."""
ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "OMP_NUM_THREADS")  # passed on; no token
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "TRANSFORMERS_VERBOSITY": "error", "USER": "nobody"}
LONGEST_ANSWER = 2**24  # bytes of an answer: the names of tensors at most
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Writer:
    """One stored matrix that writes into the residual stream, and the parts that its columns belong to."""

    key: str  # path, number of the layer and of the set in it; its parts are held under this name
    tensor: str  # the name of the matrix on disk
    part: int  # number of inputs in one part: 1 in an MLP, the size of a head in attention
    parts: int  # number of parts, over all experts that are stacked in the tensor
    experts: int = 1  # number of experts that are stacked in the tensor
    expert: int = 0  # the number of its expert, where each is stored by itself


@dataclass(frozen=True)
class Load:
    """The model that a process loads, and the bounds on memory and disk within which it does."""

    folder: str  # the folder that holds the judged files and no others
    architecture: str  # the class that `config.json` names, which is tried last
    files: Sequence[str]  # the files with weights
    writers: Sequence[Writer]
    limit: int  # bytes of memory that the process may take
    dtype: str = "float32"  # the dtype in which the model is held and run
    memory: Mapping[str, int] = field(default_factory=lambda: {"cpu": 0})  # bytes a device may hold
    offload: bool = False  # whether `memory` is not enough, so that some layers are read from disk in each run
    disk: int = 0  # bytes that such layers may take in the folder of the process
    prefix: str = ""  # beginning of the names of its tensors, where it is a part of the model in the files


def refuse_without_extra() -> None:
    """Raise OptionError, with the command that installs it, where a model cannot be run here."""
    from importlib.util import find_spec

    missing = [name for name in ("torch", "transformers", "accelerate") if find_spec(name) is None]
    if missing:
        raise OptionError(f"--run loads models with transformers; {installation('run')} (no {missing[0]} here)")


class Process:
    """A process that has loaded one model; used as a context, it ends with it."""

    def __init__(self, load: Load, seconds: float) -> None:
        self._load, self._seconds = load, seconds
        self.dtype = load.dtype

    def __enter__(self) -> "Process":
        self._place = tempfile.TemporaryDirectory(prefix="hf-lineage-run-")
        folder = self._place.name
        known = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        home = dict.fromkeys(("HOME", "HF_HOME", "XDG_CACHE_HOME"), folder)
        command, pipe = [sys.executable, "-I", "-c", COMMAND.format(path=sys.path), folder], subprocess.PIPE
        self._process = subprocess.Popen(  # noqa: S603 - this Python, and what it finds already
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=known | OFFLINE | home
        )
        try:
            self.values = self.ask("load", **asdict(self._load))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._place.cleanup()

    def ask(self, action: str, doing: str = "", **given: Any) -> Values:
        """Return values, and show on a terminal what is done for them; raise NothingToCompare where there are none."""
        late = threading.Event()

        def stop() -> None:
            late.set()
            self._process.kill()

        clock = threading.Timer(self._seconds, stop)
        hidden = not doing or are_progress_bars_disabled() or None
        with contextlib.ExitStack() as stack:
            stack.callback(clock.cancel)
            stack.enter_context(contextlib.closing(tqdm(total=1, desc=doing, leave=False, disable=hidden)))
            clock.start()
            stream = cast(IO[bytes], self._process.stdin)
            with contextlib.suppress(BrokenPipeError):
                stream.write(json.dumps({"action": action, "given": given}).encode() + b"\n")
                stream.flush()
            line = cast(IO[bytes], self._process.stdout).readline(LONGEST_ANSWER)
        if not line.endswith(b"\n"):
            why = "what the process that ran it answered is too long"
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(timeout=5)
                how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                why = f"the process that ran it ended ({how}), perhaps for want of memory"
            raise NothingToCompare(f"it took more than {self._seconds:.0f} s" if late.is_set() else why)
        answer = json.loads(line)
        if "problem" in answer:
            raise NothingToCompare(printable(str(answer["problem"]), 500))
        return cast(Values, answer["values"])
