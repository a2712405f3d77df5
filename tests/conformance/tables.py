"""Tables: what a module adds to the stream that nobody has drawn at random, such as sinusoids for positions.

All independent models begin with such a table or have it for good, and it tells residual coordinates apart.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import torch

from hf_lineage.architecture.registry import lookup
from hf_lineage.errors import NothingToCompare
from tests.conformance.models import put, tiny_config, transformers
from tests.conformance.tiny import TinyModel, runner
from tests.settings import known_words, settings

SLIGHT = 1e-4  # how much a table is changed: what only decides how tokens are cut does not decide otherwise then


def begun(name: str, wanted: dict[str, Any]) -> list[Any]:
    """Return two tiny models of a class as its own code begins them, each with a seed of its own."""
    models = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        models.append(getattr(transformers, name)(tiny_config(name, wanted)).eval())
    return models


def claims_exchangeable(model: Any) -> bool:
    """Whether the registry says of a model, by its settings, that nothing tells residual coordinates apart."""
    with contextlib.suppress(NothingToCompare):
        return bool(lookup(model.config.to_dict())[1].exchangeable)
    return False


def under_switches(name: str, wanted: dict[str, Any], model: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield two models with one setting switched, by that: what is on or off, absent, or one of several words."""
    words = known_words(type(model))
    for keys, value in settings(json.loads(model.config.to_json_string(use_diff=False)), ()):
        named = [word for word in words if word != value] if isinstance(value, str) and value in words else []
        for other in [not value] if isinstance(value, bool) else [True] if value is None else named:
            with contextlib.suppress(Exception):  # whatever a configuration or a module thinks of it
                yield f"{'.'.join(keys)}: {other}", begun(name, put(wanted, keys, other))


def adds_fixed_table(tiny: TinyModel, model: Any, other: Any = None) -> bool:
    """Whether the stream before the first layer depends on what stands where in the rows of such a table.

    That is one that nothing trains or, beside another model, one that is the same with another seed.
    """
    beside = {} if other is None else _tables(other)
    fixed = [table for key, table in _tables(model).items() if not table.requires_grad or _same(table, beside.get(key))]
    before = _entering(tiny, model) if fixed else []
    for table in fixed:
        if any(stream.shape[-1] == table.shape[-1] for stream in before):
            table.data = table.data + SLIGHT * torch.randn_like(table)
    after = _entering(tiny, model) if fixed else []
    return any(not torch.allclose(one, two) for one, two in zip(before, after, strict=True))


def _same(table: torch.Tensor, other: torch.Tensor | None) -> bool:
    """Whether two tables are equal, and not one number throughout a row, as zeros are."""
    return other is not None and torch.equal(table, other) and not torch.equal(table, table.flip(-1))


def _tables(model: torch.nn.Module) -> dict[tuple[str, str], torch.Tensor]:
    """Every parameter, buffer and plain tensor of a model that has rows, by its module and its name."""
    found: dict[tuple[str, str], torch.Tensor] = {}
    for name, module in model.named_modules():
        held = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False), *vars(module).items())
        found |= {(name, key): each for key, each in held if isinstance(each, torch.Tensor) and each.ndim > 1}
    return {place: table for place, table in found.items() if table.is_floating_point()}


def _entering(tiny: TinyModel, model: Any) -> list[torch.Tensor]:
    """The stream (batch, tokens, width) that the first layer of each stack is given when the model runs."""
    given: list[torch.Tensor] = []

    def keep(_module: Any, args: Any, kwargs: Any) -> None:
        given.extend(one for one in (*args[:1], kwargs.get("hidden_states")) if isinstance(one, torch.Tensor))

    stacks: dict[str, str] = {}
    for name in sorted(tiny.stack, key=lambda each: (len(each), each)):
        stacks.setdefault(re.sub(r"\d+\.$", "", name), name[:-1])
    modules = dict(model.named_modules())
    base = runner(model)
    torch.manual_seed(0)
    with torch.no_grad(), contextlib.ExitStack() as hooks:
        for module in (modules[name] for name in stacks.values() if name in modules):
            hooks.enter_context(module.register_forward_pre_hook(keep, with_kwargs=True))
        base(**tiny.inputs(base, 1, 6))
    return given
