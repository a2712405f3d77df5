"""Listed: the blocks that list what is in the repository: commands, options, inputs of the action, classes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from hf_lineage.architecture.registry import factorizations, read_unsupported, registry_root
from hf_lineage.architecture.schema import as_sets
from hf_lineage.checkpoint.formats.table import BY_END, BY_METHOD
from hf_lineage.cli import cli
from hf_lineage.cli.options import EXAMPLES
from tools.tables import table

ROOT = Path(__file__).parents[1]
TASK = re.compile(r"(?<=.)(For[A-Z]\w*|DoubleHeads\w*|(LMHead|WithLMHead)?Model(WithProjection|WithLMHead)?|LM)$")
ONLY_SHARED = "All its options are [options of several commands](#options-of-several-commands)."
PARTLY_READ = {"compressed-tensors", "AutoRound", "GGUF", "HQQ", "quanto", "torchao"}
"""Formats of which only some forms are refused."""
Option = tuple[str, str]
"""How an option is written, and what its help says."""


def commands_block() -> str:
    """The commands about models, each with the first sentence of its help."""
    commands = cli.commands.values()
    rows = [(f"`hf-lineage {usage(command)}`", command.get_short_help_str(200)) for command in commands]
    return table(("Command", "What it does"), rows)


def options_block() -> str:
    """Every command with the options that are its own, and then those that several commands have.

    What the program says below the help of all commands alike, the page says in words of its own.
    """
    users: dict[Option, list[str]] = defaultdict(list)
    commands = dict(every_command(cli))
    for name, command in commands.items():
        for option in options(command):
            users[option].append(name)
    parts = []
    for name, command in commands.items():
        own = [option for option in options(command) if len(users[option]) == 1]
        group = name.removesuffix(str(command.name))
        parts += [f"### {name}", f"    hf-lineage {group}{usage(command)}", _sentences(command.help)]
        parts += [table(("Option", "What it does"), map(_written, own)) if own else ONLY_SHARED]
        below, examples = _below(command)
        parts += [below] if below != _below(cli)[0] else []
        parts += ["Examples:", examples] if examples else []
    shared = [(*_written(option), ", ".join(names)) for option, names in users.items() if len(names) > 1]
    parts += ["### Options of several commands", table(("Option", "What it does", "Commands"), shared)]
    return "\n\n".join(parts)


def every_command(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command that can be run by its whole name: those of a group stand for the group."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from every_command(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def usage(command: click.Command) -> str:
    """Return how a command is written, without its options."""
    return " ".join((str(command.name), *(parameter.make_metavar(_context(command)) for parameter in _named(command))))


def options(command: click.Command) -> list[Option]:
    """Return the options of a command as its help shows them."""
    context = _context(command)
    given = (parameter for parameter in command.get_params(context) if isinstance(parameter, click.Option))
    return [record for option in given if (record := option.get_help_record(context)) is not None]


def _context(command: click.Command) -> click.Context:
    return click.Context(command, info_name=command.name, parent=click.Context(cli, **cli.context_settings))


def _named(command: click.Command) -> list[click.Argument]:
    return [parameter for parameter in command.params if isinstance(parameter, click.Argument)]


def _written(option: Option) -> Option:
    """The cells of an option: a bar between its choices would end the cell, so they are told in words."""
    name, _, choices = option[0].partition(" [")
    if "|" not in choices:
        return f"`{option[0]}`", option[1]
    return f"`{name}`", f"One of {', '.join(f'`{choice}`' for choice in choices.rstrip(']').split('|'))}. {option[1]}"


def _below(command: click.Command) -> tuple[str, str]:
    """What stands below the help of a command: the sentences, and the examples as a block of code."""
    text, _, examples = (command.epilog or "").partition(f"\b\n{EXAMPLES}\n")
    return _sentences(text), "\n".join(f"    {line.strip()}" for line in examples.splitlines())


def _sentences(text: str | None) -> str:
    return " ".join((text or "").split())


def inputs_block() -> str:
    """The inputs of the action."""
    rows = [
        (f"`{name}`", _shortened(given["description"]), f"`{given['default']}`" if given["default"] else "")
        for name, given in _action()["inputs"].items()
    ]
    return table(("Input", "What it is", "If not given"), rows)


def outputs_block() -> str:
    """The outputs of the action."""
    rows = [(f"`{name}`", _shortened(given["description"])) for name, given in _action()["outputs"].items()]
    return table(("Output", "What it is"), rows)


def _shortened(text: str) -> str:
    return text.strip().removesuffix(".")


def _action() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    return loaded


def reference_block() -> str:
    """The paper's score as a program."""
    return f"```python\n{(ROOT / 'docs' / 'reference.py').read_text(encoding='utf-8').strip()}\n```"


def organisation_block() -> str:
    """The workflow that checks every model of an organisation."""
    return f"```yaml\n{(ROOT / 'examples/workflows/organisation.yml').read_text(encoding='utf-8').strip()}\n```"


def classes_block() -> str:
    """The registry as a table: the families of classes, in one row for each factorization."""
    rows = [(item.name, ", ".join(families(item.classes))) for item in factorizations()]
    return table(("Factorization", "Families of classes"), rows)


def coverage_block() -> str:
    """How many of transformers' causal language models the registry covers."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    named = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
    classes = {name for names in named for name in ((names,) if isinstance(names, str) else names)}
    covered = len(classes & {name for factorization in factorizations() for name in factorization.classes})
    return (
        f"The registry covers {covered} of the {len(classes)} classes of causal language models in transformers "
        f"{transformers.__version__} ({covered / len(classes):.1%}), each proved on the real module by "
        "tests/test_conformance.py."
    )


def unsupported_block() -> str:
    """The families that no factorization lists, or of those it lists in part the classes, each reason with its own."""
    listed = {family for item in factorizations() for family in families(item.classes)}
    classes: dict[str, dict[str, None]] = {}
    for name, reason in read_unsupported(registry_root()).items():
        (family,) = families([name])
        classes.setdefault(reason, {})[name if family in listed else family] = None
    return table(("Families or classes", "Why"), [(", ".join(names), reason) for reason, names in classes.items()])


def undecoded_block() -> str:
    """The storage formats that are known and refused."""
    return ", ".join(sorted({*BY_METHOD.values(), *BY_END.values()} - PARTLY_READ)) + "."


def mlp_alone_block() -> str:
    """The factorizations that leave attention out."""
    alone = [item for item in factorizations() if not as_sets(item.branches.attention)]
    rows: Iterable[Sequence[str]] = [
        (f"[{item.name}]({item.name}.yaml)", ", ".join(families(item.classes))) for item in alone
    ]
    return table(("Factorization", "Families of classes"), rows)


def families(classes: Iterable[str]) -> list[str]:
    """Return what stands before the task in the names of some classes: Bert for BertForMaskedLM and BertModel."""
    return sorted({re.sub(TASK, "", name) for name in classes})
