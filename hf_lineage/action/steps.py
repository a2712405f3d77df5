"""The steps of the action: what each does with the environment that the runner gives it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hf_lineage import __version__
from hf_lineage.action import runner
from hf_lineage.action.inputs import Inputs, read_inputs
from hf_lineage.claims import read_claims
from hf_lineage.errors import LineageError, NothingToCompare, printable
from hf_lineage.naming import is_path, locate, with_weights
from hf_lineage.pipeline import Report, check_source
from hf_lineage.repo import RepoRef, resolve
from hf_lineage.report import intoto, json, markdown, sarif, text, wording
from hf_lineage.report.encoding import encode
from hf_lineage.signature import Signature
from hf_lineage.verdict import ExitCode

if TYPE_CHECKING:
    from hf_lineage.annotation import Annotation

Environment = Mapping[str, str]
SUFFIXES = {"text": "txt", "markdown": "md", "junit": "junit.xml", "cyclonedx": "cdx.json", "intoto": "intoto.json"}
"""Format -> what its file ends in, where that is not the name of the format."""
UNDECLARED, FAILED = "UNDECLARED", "ERROR"
"""The output `verdict` where there is none: nothing is declared, or something could not be read."""


def run_check(environ: Environment) -> int:
    """Check the model and return the exit status of the step."""
    problem = code = None
    with runner.unheard():
        try:
            inputs = read_inputs(environ)
            report, code = _checked(inputs, environ)
        except (LineageError, OSError, MemoryError) as error:
            problem = printable(str(error) or "not enough memory")
        except Exception:  # a bug: whatever it says, it says where the runner takes nothing for a command
            traceback.print_exc()
            problem = "hf-lineage failed in a way that it should not; the log says where. Please report it."
    if problem is not None or code is None:
        return _failed(environ, problem or "")
    level = "error" if code else "notice" if report.exit_code == ExitCode.RELATED else "warning"
    said = "; ".join(map(wording.outcome, report.rows)) or wording.NOTHING_DECLARED
    _say(runner.command(level, printable(said), title=f"Lineage of {printable(report.model, 200)}"))
    return code


def run_key(environ: Environment) -> int:
    """Say under which key the signatures of this check are cached: the commits of everything that is on the Hub.

    Whatever goes wrong here goes wrong in the check as well, which tells it better.
    """
    with runner.unheard(), contextlib.suppress(Exception):
        inputs = read_inputs(environ)
        _use(inputs)
        source = _source(inputs)
        if isinstance(source, RepoRef):
            bases = _on_the_hub(source, inputs)
            if bases or source.remote:
                before = f"hf-lineage-{__version__}-{_digest(bases)}-"
                key = f"{before}{_digest([source.revision or ''])}"
                _set(environ, {"key": key, "restore-keys": before, "path": str(inputs.kept)})
    return 0


COMMANDS: dict[str, Callable[[Environment], int]] = {"check": run_check, "key": run_key}


def _checked(inputs: Inputs, environ: Environment) -> tuple[Report, int]:
    """The report, once everybody but the reader of annotations was told, and the exit status that it gives."""
    _use(inputs)
    report, annotated = _judged(inputs)
    _say(text.render(report))
    folder = Path(tempfile.mkdtemp(prefix="hf-lineage-", dir=environ.get("RUNNER_TEMP")))
    files = _write(report, inputs, folder)
    _set(environ, _outcome(report) | {"report-path": str(folder)} | files)
    if summary := environ.get("GITHUB_STEP_SUMMARY"):
        runner.add_summary(Path(summary), markdown.render(report) + "\n")
    if annotated is not None and inputs.card != "never":
        from hf_lineage import annotation

        _say(annotation.TARGETS[inputs.card](annotated))
    return report, int(report.exit_code) if report.exit_code in inputs.failing else 0


def _judged(inputs: Inputs) -> tuple[Report, Annotation | None]:
    """The report, and what the card is to say of it where that was asked for: weights are read once for both."""
    source = _source(inputs)
    if inputs.card == "never":
        return check_source(inputs.model, source, inputs.bases, inputs.options), None
    from hf_lineage import annotation

    repo = with_weights(source, inputs.model)
    found = annotation.annotate_source(inputs.model, repo, inputs.bases, inputs.options, inputs.card)
    return found.report, found


def _source(inputs: Inputs) -> RepoRef | Signature:
    """Where the model is: its name is one of the Hub, or the path of a folder, as the workflow says."""
    if inputs.on_hub:
        return resolve(inputs.model, inputs.options.local_hub, folders=False)
    return locate(inputs.model, inputs.options.local_hub)


def _write(report: Report, inputs: Inputs, folder: Path) -> dict[str, str]:
    """Write a file for each format, and return the outputs that name one."""
    written: dict[str, str] = {}
    contents: dict[str, Callable[[], str]] = {
        f"lineage.{SUFFIXES.get(name, name)}": partial(render, report, True) for name, render in inputs.formats.items()
    }
    if "sarif" in inputs.formats:
        contents["lineage.alerts.sarif"] = lambda: sarif.alerts(report)
    if "intoto" in inputs.formats:  # what actions/attest wants apart
        contents |= {
            "lineage.predicate.json": lambda: encode(intoto.predicate(report)),
            "lineage.sha256": lambda: intoto.checksums(report),
        }
    for name, content in contents.items():
        try:
            (folder / name).write_bytes(content().encode())
            written[name] = str(folder / name)
        except NothingToCompare as error:
            _say(f"{name} was not written: {error}")
    named = {
        "sarif-path": "lineage.alerts.sarif",
        "predicate-path": "lineage.predicate.json",
        "checksums-path": "lineage.sha256",
    }
    return {output: written.get(file, "") for output, file in named.items()}


def _outcome(report: Report) -> dict[str, str]:
    """The claim that decides: the first of the worst."""
    row = wording.worst(report)
    best = None if row is None else wording.best(row)
    return {
        "verdict": UNDECLARED if row is None else row.verdict.name,
        "verified": "true" if row is not None and row.verdict.verified else "false",
        "kind": "" if row is None else json.kind(row.verdict) or "",
        "inherited": "" if best is None or best.inherited is None else f"{best.inherited.share:.2f}",
        "score": "" if best is None else f"{best.comparison.score:.4g}",
        "p-value": "" if best is None else f"{best.p_value:.4g}",
        "predicate-type": intoto.PREDICATE_TYPE,
    }


def _failed(environ: Environment, problem: str) -> int:
    """Nothing came out: say why, everywhere."""
    _set(environ, {"verdict": FAILED})
    if summary := environ.get("GITHUB_STEP_SUMMARY"):
        runner.add_summary(Path(summary), f"### Lineage could not be checked\n\n{markdown.escaped(problem)}\n")
    _say(runner.command("error", problem, title="Lineage could not be checked"))
    return int(ExitCode.ERROR)


def _on_the_hub(source: RepoRef, inputs: Inputs) -> list[str]:
    """Each base that is on the Hub, with its commit."""
    found = []
    for base in inputs.bases or [claim.base for claim in read_claims(source).claims if not claim.problem]:
        with contextlib.suppress(LineageError):
            repo = resolve(base, inputs.options.local_hub, folders=bool(inputs.bases) and is_path(base))
            found += [f"{repo.remote}@{repo.revision}"] if repo.remote else []
    return found


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]


def _use(inputs: Inputs) -> None:
    """The token is for the Hub's client alone, which looks for it here; without one an account is asked for by OIDC."""
    os.environ["HF_LINEAGE_CACHE"] = str(inputs.kept)
    if inputs.token:
        os.environ["HF_TOKEN"] = inputs.token


def _set(environ: Environment, values: Mapping[str, str]) -> None:
    if file := environ.get("GITHUB_OUTPUT"):
        runner.set_outputs(Path(file), values)


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the log of the step
