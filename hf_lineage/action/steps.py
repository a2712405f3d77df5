"""The steps of the action: what each does with the environment that the runner gives it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hf_lineage import __version__
from hf_lineage.action import runner
from hf_lineage.action.inputs import Inputs, read_inputs
from hf_lineage.checking.api import Report, check_source
from hf_lineage.checking.naming import is_path, locate, with_weights
from hf_lineage.claims.sources import read_claims
from hf_lineage.errors import LineageError, NothingToCompare, printable
from hf_lineage.evidence.verdict import ExitCode
from hf_lineage.hub.reference import RepoRef, resolve
from hf_lineage.report import intoto, json, markdown, text, wording, write_report
from hf_lineage.signature.values import Signature

if TYPE_CHECKING:
    from hf_lineage.annotate.annotation import Annotation

Environment = Mapping[str, str]
SUFFIXES = {
    "text": "txt",
    "markdown": "md",
    "junit": "junit.xml",
    "cyclonedx": "cdx.json",
    "intoto": "intoto.json",
    "intoto-predicate": "predicate.json",
    "sarif-alerts": "alerts.sarif",
    "checksums": "sha256",
}
"""Format -> what its file ends in, where that is not the name of the format."""
BESIDE = {"sarif": ("sarif-alerts",), "intoto": ("intoto-predicate", "checksums")}
"""Format that is asked for -> what other actions take besides."""
OUTPUTS = {"sarif-path": "sarif-alerts", "predicate-path": "intoto-predicate", "checksums-path": "checksums"}
"""Output -> the format whose file it names."""
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
        except Exception:  # a bug: its traceback must not reach the runner as a command
            traceback.print_exc()
            problem = "hf-lineage failed because of a defect of its own; the log has the traceback. Please report it."
    if problem is not None or code is None:
        return _failed(environ, problem or "")
    level = "error" if code else "notice" if report.exit_code == ExitCode.RELATED else "warning"
    summary = "; ".join(map(wording.outcome, report.rows)) or wording.NOTHING_DECLARED
    _say(runner.command(level, printable(summary), title=f"Lineage of {printable(report.model, 200)}"))
    return code


def run_key(environ: Environment) -> int:
    """Set the key under which the signatures of this check are cached: the commits of all models that are on the Hub.

    Errors are ignored here: the check meets them as well, and reports them.
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
                _set(environ, {"key": key, "restore-keys": before, "path": str(inputs.cache)})
    return 0


COMMANDS: dict[str, Callable[[Environment], int]] = {"check": run_check, "key": run_key}


def _checked(inputs: Inputs, environ: Environment) -> tuple[Report, int]:
    """The report, written to the log, the files, the outputs and the summary, and the exit status that it gives."""
    _use(inputs)
    report, annotated = _judged(inputs)
    _say(text.render(report))
    folder = Path(tempfile.mkdtemp(prefix="hf-lineage-", dir=environ.get("RUNNER_TEMP")))
    files = _write(report, inputs, folder)
    _set(environ, _outcome(report) | {"report-path": str(folder)} | files)
    if summary := environ.get("GITHUB_STEP_SUMMARY"):
        runner.add_summary(Path(summary), markdown.render(report) + "\n")
    if annotated is not None and inputs.card != "never":
        from hf_lineage.annotate import annotation

        _say(annotation.TARGETS[inputs.card](annotated))
    return report, int(report.exit_code) if report.exit_code in inputs.failing else 0


def _judged(inputs: Inputs) -> tuple[Report, Annotation | None]:
    """The report, and what the card is to say of it where that was asked for: weights are read once for both."""
    source = _source(inputs)
    if inputs.card == "never":
        return check_source(inputs.model, source, inputs.bases, inputs.options), None
    from hf_lineage.annotate import annotation

    repo = with_weights(source, inputs.model)
    annotated = annotation.annotate_source(inputs.model, repo, inputs.bases, inputs.options, inputs.card)
    return annotated.report, annotated


def _source(inputs: Inputs) -> RepoRef | Signature:
    """Where the model is: its name is one of the Hub, or the path of a folder, as the workflow says."""
    if inputs.on_hub:
        return resolve(inputs.model, inputs.options.local_hub, folders=False)
    return locate(inputs.model, inputs.options.local_hub)


def _write(report: Report, inputs: Inputs, folder: Path) -> dict[str, str]:
    """Write a file for each format and what belongs to it, and return the outputs that name one."""
    asked = dict.fromkeys(form for wanted in inputs.formats for form in (wanted, *BESIDE.get(wanted, ())))
    written: dict[str, str] = {}
    for form in asked:
        file = folder / f"lineage.{SUFFIXES.get(form, form)}"
        try:
            write_report(report, form, file)
            written[form] = str(file)
        except NothingToCompare as error:
            _say(f"{file.name} was not written: {error}")
    return {output: written.get(form, "") for output, form in OUTPUTS.items()}


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
    """Report why there is no verdict in the outputs, the summary and an annotation, and return the exit status."""
    _set(environ, {"verdict": FAILED})
    if summary := environ.get("GITHUB_STEP_SUMMARY"):
        runner.add_summary(Path(summary), f"### Lineage could not be checked\n\n{markdown.paragraph(problem)}\n")
    _say(runner.command("error", problem, title="Lineage could not be checked"))
    return int(ExitCode.ERROR)


def _on_the_hub(source: RepoRef, inputs: Inputs) -> list[str]:
    """The bases that are on the Hub, as name@commit."""
    pinned = []
    for base in inputs.bases or [claim.base for claim in read_claims(source).claims if not claim.problem]:
        with contextlib.suppress(LineageError):
            repo = resolve(base, inputs.options.local_hub, folders=bool(inputs.bases) and is_path(base))
            pinned += [f"{repo.remote}@{repo.revision}"] if repo.remote else []
    return pinned


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]


def _use(inputs: Inputs) -> None:
    """Set the cache, and the token that the Hub's client reads; without a token that gets an account by OIDC."""
    os.environ["HF_LINEAGE_CACHE"] = str(inputs.cache)
    if inputs.token:
        os.environ["HF_TOKEN"] = inputs.token


def _set(environ: Environment, values: Mapping[str, str]) -> None:
    if file := environ.get("GITHUB_OUTPUT"):
        runner.set_outputs(Path(file), values)


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the log of the step
