"""The commands about models: check and compare, which judge, annotate, extract, inspect, and registry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hf_lineage.cli import options as common
from hf_lineage.cli.output import FAILS, POLICY, REPORT, REPORTS, Delivery, Reports, write_reports
from hf_lineage.errors import OptionError, printable
from hf_lineage.report import OF_SEVERAL, renderer

if TYPE_CHECKING:
    from hf_lineage.annotate import Target
    from hf_lineage.checking.report import Report
    from hf_lineage.source.options import Options

AGAIN = {"models", "bases", "local_hub", "allow_pickle", "run", "as_class", "nulls", "file"}
BESIDE = AGAIN | {"verify", "outputs", "recompute"}  # what may stand beside --verify


def verify_report(file: Path, models: Sequence[str], bases: Sequence[str], options: Options) -> tuple[str, int]:
    """Return what differs, a line each, and the exit code: 0 where nothing does, 1 where a word or code does."""
    from hf_lineage import stored
    from hf_lineage.evidence.verdict import ExitCode

    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        if name not in BESIDE and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--verify takes the settings of FILE; leave {option.opts[0]} out")
    if models[1:]:
        raise click.UsageError("--verify is about one model; name it, or none")
    again, found = stored.verify(stored.read_report(file), next(iter(models), None), bases, options)
    lines, grave = [line for line, _ in found], any(wrong for _, wrong in found)
    code = ExitCode.UNRELATED if grave else ExitCode.UNDECIDED if found else ExitCode.VERIFIED
    return "\n".join([*lines, f"Checked {printable(again)}; differences: {len(found) or 'none'}."]) + "\n", int(code)


NEAREST = click.option(
    "--index",
    metavar="INDEX",
    help="Note which models of this index are nearer than the declared base; verdicts do not change. INDEX is a "
    "folder, or org/name on the Hub.",
)

VERIFY = click.option(
    "--verify",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Check the JSON report in FILE, such as lineage/claims.json, again with its settings, and print what differs; "
    "1 where a word or code does. MODEL is that of FILE if it is left out.",
)


@common.command(
    common.EPILOG,
    "hf-lineage check org/model",
    "hf-lineage check org/model@v2 --explain",
    "hf-lineage check ./folder --base org/base --format json",
    "hf-lineage check org/model -o html=page.html -o sarif=lineage.sarif",
    "hf-lineage check org/one org/two ./three",
)
@click.argument("models", type=common.MODEL, nargs=-1, metavar="MODEL...")
@common.with_options(common.BASES, VERIFY, NEAREST, *common.settings(), *REPORT)
@common.with_options(POLICY, FAILS)
def check(
    models: tuple[str, ...],
    bases: tuple[str, ...],
    verify: Path | None,
    index: str | None,
    policy: str | None,
    fail_on: str | None,
    **values: Any,
) -> int:
    """Verify what MODEL declares about its base: one row for each claim. Several models make one table."""
    from hf_lineage.checking.check import check as check_model
    from hf_lineage.checking.report import apply_policy, find_policy
    from hf_lineage.source.locate import locate_model

    delivery, options, search = Delivery(values), common.make_options(**values), None
    if verify is not None:
        text, code = verify_report(verify, models, bases, options)
        common.write(text, delivery.output)
        return code
    if not models:
        raise click.UsageError("Missing argument 'MODEL...'.")
    if index is not None:
        from hf_lineage.index.nearest import search_index

        search = search_index(index)

    def check_one(model: str) -> Report:
        chosen = find_policy(policy, fail_on, lambda: locate_model(model, options))
        report = check_model(model, bases, options)
        return apply_policy(search(report) if search else report, chosen, datetime.now(UTC).date())

    if models[1:]:
        return delivery.check_several(models, check_one)
    return delivery.deliver(check_one(models[0]))


@common.command(
    common.EPILOG,
    "hf-lineage compare org/base org/model --explain",
    "hf-lineage compare ./a ./b --budget full --paths all",
    "hf-lineage compare org/base org/model org/other other/third --format html",
)
@click.argument("a", type=common.MODEL)
@click.argument("models", type=common.MODEL, nargs=-1, required=True, metavar="B [C ...]")
@common.with_options(*common.settings(), *REPORT)
def compare(a: str, models: tuple[str, ...], **values: Any) -> int:
    """Compare the weights of two models, or of several with A, whatever they declare: one row for each."""
    from hf_lineage.checking.check import compare as compare_models

    delivery = Delivery(values)
    forms = (delivery.form, *(form for form, _ in delivery.reports)) if models[1:] else ()
    if single := next((form for form in forms if form not in OF_SEVERAL), ""):
        raise OptionError(f"--format {single} is about one model; compare two models with it")
    return delivery.deliver(compare_models(a, models, common.make_options(**values)))


WITH_WEIGHTS = "MODEL is org/name, org/name@revision, or a folder as ./name."
CODES = "2 usage or input error, 130 interrupted."
FORM = common.format_option("text", "json")


@common.command(
    f"{WITH_WEIGHTS} Exit codes: 0 the signature was written, {CODES}",
    "hf-lineage extract org/model -o model.lineage.safetensors",
    "hf-lineage extract org/model --paths all",
)
@click.argument("model", type=common.MODEL)
@common.with_options(*common.settings(*common.OF_SIGNATURES), common.OUTPUT)
def extract(model: str, output: Path | None, **values: Any) -> int:
    """Write the signature of MODEL, by default into NAME.lineage.safetensors in the working directory."""
    from hf_lineage.checking import check
    from hf_lineage.signature.store import save_signature

    signature = check.extract(model, common.make_options(**values))
    output = output or Path(f"{Path(model.partition('@')[0]).resolve().name}.lineage.safetensors")
    save_signature(signature, output)
    click.echo(printable(output))
    return 0


@common.command(
    f"{WITH_WEIGHTS} Exit codes: 0 the model was read, {CODES}",
    "hf-lineage inspect org/model",
    "hf-lineage inspect ./folder --format json -o model.json",
)
@click.argument("model", type=common.MODEL)
@common.with_options(*common.settings(*common.OF_MODELS), FORM, common.OUTPUT)
def inspect(model: str, form: str, output: Path | None, **values: Any) -> int:
    """Show the trace concentration and pairing accuracy of one MODEL, and which tensors are read."""
    from hf_lineage.checking import check
    from hf_lineage.cli.single import INSPECTIONS

    common.write(INSPECTIONS[form](check.inspect(model, common.make_options(**values))), output)
    return 0


@common.command(
    f"Exit codes: 0 the class is listed, {CODES}", "hf-lineage registry", "hf-lineage registry --format json"
)
@click.argument("architecture", metavar="[CLASS]", required=False)
@common.with_options(FORM, common.OUTPUT)
def registry(architecture: str | None, form: str, output: Path | None) -> int:
    """List the supported classes, or show how one CLASS is read."""
    from hf_lineage.cli.single import REGISTRIES

    common.write(REGISTRIES[form](architecture), output)
    return 0


@common.command(
    "MODEL is org/name, org/name@branch, or a folder as ./name. A base is written as verified only if more than half "
    "is inherited from it; any other verdict is written with its reason. Exit codes: 0 the card was written or is up "
    "to date, whatever the verdicts; 2 usage or input error, nothing was written; 130 interrupted.",
    "hf-lineage annotate org/model",
    "hf-lineage annotate ./folder --write",
    "hf-lineage annotate org/model --pull-request",
    "hf-lineage annotate ./folder --base org/base --write",
)
@click.argument("model", type=common.MODEL)
@click.option("--write", is_flag=True, help="Write into the folder, or commit to the branch on the Hub.")
@click.option("--pull-request", is_flag=True, help="Open a pull request on the Hub, or update your open one.")
@common.with_options(common.BASES, *common.settings(), REPORTS, POLICY)
def annotate(
    model: str,
    write: bool,
    pull_request: bool,
    bases: tuple[str, ...],
    outputs: Reports,
    policy: str | None,
    **values: Any,
) -> int:
    """Write what `check` finds into the card of MODEL; without --write or --pull-request, show what would change."""
    if write and pull_request:
        raise click.UsageError("give --write or --pull-request, not both")
    target: Target = "write" if write else "pull-request" if pull_request else "preview"
    from hf_lineage import annotate as card
    from hf_lineage.checking.report import apply_policy, find_policy
    from hf_lineage.source.locate import locate_model

    for form, _ in outputs:
        renderer(form)
    options = common.make_options(**values)
    chosen = find_policy(policy, None, lambda: locate_model(model, options))
    annotated = card.annotate(model, bases, options, target)
    write_reports(apply_policy(annotated.report, chosen, datetime.now(UTC).date()), outputs)
    done = card.TARGETS[target](annotated)
    click.echo(f"{annotated.verdicts}{done}")
    return 0
