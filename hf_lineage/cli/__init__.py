"""The command line: parse, call, render, exit code; nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import click

from hf_lineage import __version__
from hf_lineage.cli import annotating, judging, models
from hf_lineage.cli.shared import EPILOG, ERROR, INTERRUPTED
from hf_lineage.errors import LineageError, printable


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, prog_name="hf-lineage")
def cli() -> None:
    """Tell from weights alone whether a model really comes from the base it declares."""


for command in (judging.check, judging.compare, annotating.annotate, models.extract, models.inspect, models.registry):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error is one line on standard error."""
    try:
        code = cli.main(arguments, prog_name="hf-lineage", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return ERROR
    except click.ClickException as error:
        return _failed(f"{error.format_message()} (--help shows what there is)")
    except (click.Abort, KeyboardInterrupt):
        click.echo("hf-lineage: interrupted", err=True)
        return INTERRUPTED
    except SystemExit:
        # click leaves like this, with 1, where nobody reads standard output any more; here 1 means UNRELATED.
        return ERROR
    except UnicodeEncodeError as error:
        return _failed(f"a name or the report cannot be written as {error.encoding}; try PYTHONIOENCODING=utf-8")
    except LineageError as error:
        return _failed(error)
    except (OSError, MemoryError) as error:
        return _failed(str(error) or "not enough memory; try --max-memory")
    return int(code or 0)


def _failed(why: object) -> int:
    click.echo(f"hf-lineage: {printable(why)}", err=True)
    return ERROR
