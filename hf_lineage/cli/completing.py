"""The command that sets up completion in a shell, and what is offered where a model is named."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from hf_lineage.cli.shared import with_examples

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
