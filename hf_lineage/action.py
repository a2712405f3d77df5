"""The GitHub Action, `python -m hf_lineage.action check|key`: it checks once and reports to the runner and the log."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shlex
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_lineage import __version__
from hf_lineage.errors import LineageError, NoModelError, OptionError, format_error, printable

if TYPE_CHECKING:
    from hf_lineage.cli.action_inputs import Inputs

Environment = Mapping[str, str]
LARGEST_SUMMARY = 2**20 - 2**10  # bytes: GitHub refuses the summary of a step from 1 MiB on
CUT = "\n\nThe rest is left out because a summary must be smaller than 1 MiB; the reports are complete.\n"
_PROPERTY = {ord(c): f"%{ord(c):02X}" for c in "%\r\n:,"}


def command(name: str, message: str, **properties: str) -> str:
    """Return a workflow command, such as an annotation, on one line, whatever stands in it."""
    fields = ",".join(f"{key}={value.translate(_PROPERTY)}" for key, value in properties.items())
    data = {code: text for code, text in _PROPERTY.items() if chr(code) not in ":,"}
    return f"::{name}{' ' if fields else ''}{fields}::{message.translate(data)}"


@contextlib.contextmanager
def without_commands() -> Iterator[None]:
    """Keep the runner from obeying commands in what is printed: untrusted names may be among it."""
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}", flush=True)  # noqa: T201 - this is how one talks to the runner
    try:
        yield
    finally:
        print(f"::{token}::", flush=True)  # noqa: T201


def set_outputs(environ: Environment, values: Mapping[str, str]) -> None:
    """Append the outputs of the step, each on one line between random marks."""
    for name, value in values.items():
        mark = secrets.token_hex(16)
        _append(environ, "GITHUB_OUTPUT", f"{name}<<{mark}\n{' '.join(value.splitlines())}\n{mark}\n".encode())


def add_summary(environ: Environment, markdown: str) -> None:
    """Append to the summary of the step, cut between two lines where it would be refused."""
    content = markdown.encode("utf-8", errors="backslashreplace")
    if len(content) > LARGEST_SUMMARY:
        beginning = content[: LARGEST_SUMMARY - len(CUT)]
        content = beginning[: beginning.rfind(b"\n") + 1] + CUT.encode()
    _append(environ, "GITHUB_STEP_SUMMARY", content)


def _append(environ: Environment, variable: str, content: bytes) -> None:
    if file := environ.get(variable):
        with Path(file).open("ab") as stream:
            stream.write(content)


SUFFIXES = {"text": "txt", "markdown": "md", "cyclonedx": "cdx.json", "checksums": "sha256"}
SUFFIXES |= {"intoto": "intoto.json", "intoto-predicate": "predicate.json"}
"""Format -> what its file ends in, where that is not the name of the format."""
FAILED = "ERROR"  # the output `verdict` where something could not be read


def run_check(environ: Environment) -> int:
    """Check the model and return the exit status of the step."""
    from hf_lineage.evidence.verdict import Code, ExitCode
    from hf_lineage.policy import status
    from hf_lineage.report.markdown import paragraph

    problem, checked, excused = "", None, False
    with without_commands():
        import click

        from hf_lineage.cli.action_inputs import read_inputs

        try:
            inputs = read_inputs(environ)
            checked = _run_check(inputs, environ)
        except (LineageError, OSError, MemoryError) as error:
            problem = printable(str(error) or "not enough memory")
            excused = isinstance(error, NoModelError) and inputs.fail_on == "never"
        except click.ClickException as error:
            problem = printable(error.format_message())
        except Exception:  # a bug: its traceback must not reach the runner as a command
            traceback.print_exc()
            problem = "hf-lineage failed because of a defect in it; the log has the traceback. Please report it."
    if checked is None:
        level, title, code, outputs = "error", "Lineage could not be checked", ExitCode.ERROR, {"verdict": FAILED}
        if excused:  # it is no error that there is no model
            level, title, code = "warning", "Lineage was not checked", ExitCode.VERIFIED
            outputs = {"verdict": Code.NO_WEIGHTS.word, "code": Code.NO_WEIGHTS.value, "verified": "false"}
        set_outputs(environ, outputs)
        add_summary(environ, f"### {title}\n\n{paragraph(problem)}\n")
        _say(command(level, problem, title=title))
        return int(code)
    fail_on = inputs.fail_on or checked["fail_on"] or "unrelated"
    code = status(ExitCode(checked["unaccepted"]), checked["unmet"], fail_on, checked["undeclared_parent"])
    level = "error" if code else "notice" if checked["exit_code"] == ExitCode.VERIFIED else "warning"
    _say(command(level, checked["message"], title=checked["title"]))
    return int(code)


def run_key(environ: Environment) -> int:
    """Set the key of the cache of signatures: the commits of the models. Errors are left to the check."""
    with without_commands(), contextlib.suppress(Exception):
        from hf_lineage.claims.sources import read_claims
        from hf_lineage.cli.action_inputs import read_inputs
        from hf_lineage.hub.repo import RepoRef, resolve
        from hf_lineage.source.locate import is_path, locate

        inputs = read_inputs(environ)
        _use(inputs)
        source = locate(inputs.model)
        if isinstance(source, RepoRef):
            bases = []
            for base in inputs.bases or [claim.base for claim in read_claims(source).claims if not claim.problem]:
                with contextlib.suppress(LineageError):
                    repo = resolve(base, folders=bool(inputs.bases) and is_path(base))
                    bases += [f"{repo.remote}@{repo.commit}"] if repo.remote else []
            if bases or source.remote:
                before = f"hf-lineage-{__version__}-{_digest(bases)}-"
                key = f"{before}{_digest([source.commit or ''])}"
                set_outputs(environ, {"key": key, "restore-keys": before, "path": str(inputs.cache)})
    return 0


def _run_check(inputs: Inputs, environ: Environment) -> dict[str, Any]:
    import click

    from hf_lineage.cli import cli
    from hf_lineage.files.atomic import write_output
    from hf_lineage.report.json import encode

    _use(inputs)
    folder = Path(tempfile.mkdtemp(prefix="hf-lineage-", dir=environ.get("RUNNER_TEMP")))
    beside = ("intoto-predicate", "checksums") if "intoto" in inputs.formats else ()  # which other actions take
    forms = dict.fromkeys((*inputs.formats, *beside))
    files = {form: folder / f"lineage.{SUFFIXES.get(form, form)}" for form in forms}
    with tempfile.TemporaryDirectory() as room:
        record = Path(room) / "github.json"
        try:
            words = arguments(inputs, [*files.items(), ("github", record)])
            _say(f"$ {printable(shlex.join(('hf-lineage', *words)))}")
            cli.main(words, prog_name="hf-lineage", standalone_mode=False)
            if not record.exists():
                raise OptionError("the input options make no report; leave --help and --verify out")
        except click.Abort:
            raise KeyboardInterrupt from None
        finally:
            if record.exists():  # the card may fail to be written after the reports
                checked: dict[str, Any] = json.loads(record.read_text("utf-8"))
                if "sarif" in files and files["sarif"].exists():  # code scanning shows every result as an alert
                    log = json.loads(files["sarif"].read_text("utf-8"))
                    for run in log["runs"]:
                        run["results"] = [result for result in run["results"] if result["kind"] != "pass"]
                    write_output(files["sarif"], encode(log).encode())
                set_outputs(environ, checked["outputs"] | {"report-path": str(folder)})
                add_summary(environ, checked["summary"] + "\n")
    return checked


def arguments(inputs: Inputs, reports: Iterable[tuple[str, Path]]) -> list[str]:
    """Return the command that does what the workflow asks for, without the name of the program."""
    policy = [f"--policy={inputs.policy}"] if inputs.policy else []
    written = [f"--output={form}={file}" for form, file in reports]
    bases = [f"--base={base}" for base in inputs.bases]
    run = ["--run"] if inputs.run else []
    call = ["check"] if inputs.card == "never" else ["annotate", f"--{inputs.card}"]
    # What stands after -- is never an option, whatever a folder is called.
    return [*call, *bases, *run, *inputs.options, *policy, *written, "--", inputs.model]


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]


def _use(inputs: Inputs) -> None:
    """Set the cache, and the token that the Hub's client reads; without a token that gets an account by OIDC."""
    os.environ["HF_LINEAGE_CACHE"] = str(inputs.cache)
    if inputs.token:
        os.environ["HF_TOKEN"] = inputs.token


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the log of the step


def main(arguments: Sequence[str]) -> int:
    """Run one step of the action and return its exit status; an error is 2, because 1 means UNRELATED."""
    try:
        return {"check": run_check, "key": run_key}[arguments[0]](os.environ)
    except KeyboardInterrupt:
        return 130
    except BaseException as error:  # a panic of a library that is written in Rust is no Exception
        with without_commands():
            traceback.print_exc()
        set_outputs(os.environ, {"verdict": FAILED})
        _say(command("error", printable(format_error(error)), title="Lineage could not be checked"))
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
