"""The commands that set up completion in a shell and examine what the others depend on: completion and doctor.

Beside them what is offered where a model is named.
"""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from hf_lineage.cli.kinds import Result, format_option, take
from hf_lineage.cli.shared import ERROR, OUTPUT, with_examples, with_options

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_HF_LINEAGE_COMPLETE"
"""The environment variable by which the script of a shell asks the program what it may offer; click names it."""
EPILOG = with_examples(
    'For bash add to ~/.bashrc: eval "$(hf-lineage completion bash)". For zsh add the same to ~/.zshrc, after '
    "compinit, with zsh in place of bash. For fish write the script to ~/.config/fish/completions/hf-lineage.fish. "
    "Exit codes: 0 the script was printed, 2 usage error.",
    *(f"hf-lineage completion {shell}" for shell in SHELLS),
)


class ModelName(click.ParamType):  # type: ignore[type-arg]  # no generic before click 8.3
    """A model as the user names it: any text, and files and folders are offered."""

    name = "text"

    def shell_complete(self, _: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        """Leave it to the shell to offer paths."""
        return [CompletionItem(incomplete, type="file")]


MODEL = ModelName()


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the script that completes commands, options and their values in SHELL: bash, zsh or fish."""
    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"click has no completion for {shell}; update click")
    click.echo(script(context.find_root().command, {}, "hf-lineage", VARIABLE).source(), nl=False)
    return 0


DOCTOR = with_examples(
    "It makes one request to the Hub, and a second one if there is a token; it never shows the token. Exit codes: 0 "
    "checks can run, 2 something prevents them, or usage error, 130 interrupted.",
    "hf-lineage doctor",
    "hf-lineage doctor --format json",
)


@click.command(epilog=DOCTOR)
@with_options(format_option("text", "json"), OUTPUT)
def doctor(**settings: Any) -> int:
    """Show versions, extras, caches, the account and whether the Hub can be reached, each with what to do about it."""
    from hf_lineage.checking.single import State, diagnosis
    from hf_lineage.report.single import DIAGNOSES

    result, findings = take(Result, settings), tuple(diagnosis())
    result.write(DIAGNOSES, findings)
    return ERROR if any(finding.state is State.WRONG for finding in findings) else 0
