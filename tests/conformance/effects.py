"""Effects: whether a tiny model's branches still write into the stream when one setting or small tensor is changed.

A branch is in effect where the last stream of its stack depends on what its writer holds: it is measured with the
writer set to zero. Every token is run alone, so that positions, windows and masks fall out by themselves.
"""

import contextlib
import copy
import functools
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from transformers import PreTrainedConfig

from hf_lineage.architecture.layers import KERNEL, find_layers
from hf_lineage.architecture.schema import Factorization
from hf_lineage.errors import NothingToCompare
from tests.conformance.models import transformers
from tests.conformance.tiny import build_tiny_model, runner, sample

TOKENS = 6
LEFT = 1 / 20  # part of its effect that a branch has to keep to count as in effect
FAINT = 1e-4  # part of the stream below which a branch has no effect to lose
LOUD = 100.0  # how many times the stream has to grow for what is lost to count as drowned
BLANK = 1e-3  # part of their difference that tokens have to keep for the stream to say anything
LARGEST_MATRIX = 64
CHANGES = ("*0", "*1e-7", "*1e7", "=1e4", "=-1e4")  # a small tensor is multiplied, or every number of it is set
SAME, ALIVE, OFF, DROWNED, VANISHED, FAILS, BUILDS = "same", "alive", "off", "loud", "blank", "fails", "builds"
Said = dict[str, Any]


class Tried:
    """A tiny model, and what becomes of it."""

    def __init__(self, listed: Factorization, name: str, wanted: Said, folder: Path) -> None:
        self.build = getattr(transformers, name)
        self.tiny = build_tiny_model(name, folder, wanted, listed)
        self.said: Said = self.build.config_class._dict_from_json_file(folder / "config.json")
        by_number = functools.partial(re.sub, r"\d+", lambda number: number[0].zfill(9))
        self.layers = sorted((prefix[:-1] for prefix in self.tiny.stack), key=by_number)
        self.state = self.tiny.model.state_dict()
        self.shapes = {key: tuple(value.shape) for key, value in self.state.items()}
        roles = ("down", "output")
        sets = self.tiny.layout.everything
        names = dict.fromkeys(each.slots[role].tensor for each in sets for role in roles if role in each.slots)
        self.writers = sorted(set(filter(None, map(self._parameter, names))))
        self.reads: set[str] = set()  # the settings that the code of models reads
        usual = PreTrainedConfig.__getattribute__

        def spy(config: Any, key: str) -> Any:
            code = sys._getframe(1).f_code
            if "modeling_" in code.co_filename and code.co_name != "_init_weights":
                self.reads.add(key)
            return usual(config, key)

        with mock.patch.object(PreTrainedConfig, "__getattribute__", spy):
            self.plain = self._stream(self._made(self.said))
        self.before = self._effects(self._made(self.said), self.plain)
        self.whole = self.build.config_class.from_dict(copy.deepcopy(self.said)).to_dict()

    def _parameter(self, tensor: str) -> str | None:
        """What the module calls the parameter that holds a tensor of the file."""
        owner, first = self.tiny.owner(tensor), torch.from_numpy(self.tiny.read(tensor).ravel()[:6].copy()).float()
        prefix = next(name for name, module in self.tiny.model.named_modules() if module is owner)
        held = (name for name, p in owner.named_parameters(recurse=False) if torch.isin(first, p.data).all())
        return next((f"{prefix}.{name}".removeprefix(".") for name in held), None)

    def _made(self, said: Said) -> Any:
        """The model by a configuration, with the weights that it had; None where it has other ones."""
        config = self.build.config_class.from_dict(copy.deepcopy(said))
        config._attn_implementation = config._experts_implementation = "eager"
        model = self.build(config).eval()
        if {key: tuple(value.shape) for key, value in model.state_dict().items()} != self.shapes:
            return None
        model.load_state_dict(self.state)
        return model

    def _stream(self, model: Any) -> list[torch.Tensor]:
        """The stream (tokens, width) behind every layer that runs."""
        given: dict[str, torch.Tensor] = {}

        def keep(name: str, _module: Any, _args: Any, output: Any) -> None:
            parts = output if isinstance(output, (tuple, list)) else [output]
            if isinstance(parts[0], torch.Tensor):
                given[name] = parts[0]

        base = runner(model)
        inputs = sample(base, TOKENS)
        for name in inputs.keys() & {"input_ids", "decoder_input_ids"}:
            inputs[name] = (inputs[name] + 5 * torch.arange(TOKENS)[:, None]) % 57 + 3
        with torch.no_grad(), contextlib.ExitStack() as hooks:
            for name in self.layers:
                module = model.get_submodule(name)
                hooks.enter_context(module.register_forward_hook(functools.partial(keep, name)))
            base(**inputs)
        streams = [given[name] for name in self.layers if name in given]
        by_token = [each.movedim(1, -1) if each.ndim == KERNEL else each for each in streams]
        return [each.reshape(-1, each.shape[-1]).float() for each in by_token]

    def _effects(self, model: Any, plain: list[torch.Tensor]) -> dict[str, float]:
        """By writer the part of the last stream that depends on it, token by token."""
        effects, parameters = {}, dict(model.named_parameters())
        for name in self.writers:
            parameter = parameters[name]
            held, parameter.data = parameter.data, torch.zeros_like(parameter.data)
            other = self._stream(model)
            parameter.data = held
            ends = [(_apart(plain[at] - other[at]), _apart(plain[at])) for at in self._last(len(plain))]
            effects[name] = max(float(moved.norm() / max(float(apart.norm()), 1e-30)) for moved, apart in ends)
        return effects

    def _last(self, count: int) -> list[int]:
        return list({re.sub(r"\d+$", "", name): at for at, name in enumerate(self.layers[:count])}.values())

    def outcome(self, said: Said) -> str:
        try:
            model = self._made(said)
            return BUILDS if model is None else self._judged(model)
        except Exception:  # whatever the configuration or the module thinks of
            return FAILS

    def _judged(self, model: Any) -> str:
        now = self._stream(model)
        if not now:
            return OFF
        if not all(stream.isfinite().all() for stream in now):
            return FAILS
        if len(now) == len(self.plain) and all(map(_alike, self.plain, now)):
            return SAME
        after = self._effects(model, now)
        if all(after[name] >= LEFT * effect for name, effect in self.before.items() if effect > FAINT):
            return ALIVE
        if all(_difference(now[at]) < BLANK * _difference(self.plain[at]) for at in self._last(len(now))):
            return VANISHED
        loud = max(float(one.norm()) for one in now) > LOUD * max(float(one.norm()) for one in self.plain)
        return DROWNED if loud else OFF

    def unread(self, place: tuple[str, ...], said: Said) -> bool:
        """Whether nothing reads a setting, and nothing else follows from it."""
        others = {new: old for old, new in (self.build.config_class.attribute_map or {}).items()}
        if len(place) > 1 or {place[0], others.get(place[0], place[0])} & self.reads:
            return False
        with contextlib.suppress(Exception):
            now = self.build.config_class.from_dict(copy.deepcopy(said)).to_dict()
            return all(now.get(key) == value for key, value in self.whole.items() if key != place[0])
        return False

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...], dict[str, str]]]:
        """Every small tensor of the layers that the factorization does not read: its name, its shape and outcomes."""
        state = (model := self._made(self.said)).state_dict()
        groups: dict[str, list[tuple[tuple[int, ...], str]]] = defaultdict(list)
        for relative, name, shape in self._small():
            values = torch.from_numpy(np.asarray(self.tiny.read(name)))
            fits = [key for key, held in state.items() if held.shape == values.shape and torch.equal(held, values)]
            last = [key for key in fits if key.rpartition(".")[2] == name.rpartition(".")[2]]
            groups[relative] += [(shape, key) for key in (last or fits)[:1] if state[key].is_floating_point()]
        for relative, members in ((relative, members) for relative, members in groups.items() if members):
            held, outcomes = {key: state[key].clone() for _, key in members}, {}
            for change in CHANGES:
                for key, values in held.items():
                    state[key].copy_(values * float(change[1:]) if change[0] == "*" else float(change[1:]))
                outcomes[change] = self._judged(model)
            for key, values in held.items():
                state[key].copy_(values)
            yield relative, members[0][0], outcomes

    def _small(self) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        """The name in its layer, the whole name and the shape of each."""
        read = {name for each in self.tiny.layout.everything for name in (*each.tensors, *each.biases.values())}
        for layer in find_layers(self.tiny.layout.factorization, self.tiny.shapes):
            for name, shape in layer.shapes.items():
                small = len(shape) < 2 or np.prod(shape) <= LARGEST_MATRIX
                if small and name not in read and name.startswith(layer.prefix):
                    with contextlib.suppress(NothingToCompare):  # numbers with a point, and not a count
                        self.tiny.read(name)
                        yield name.removeprefix(f"{layer.prefix}.").removesuffix(".weight"), name, shape


def _apart(stream: torch.Tensor) -> torch.Tensor:
    return stream - stream.mean(0)  # what tells tokens apart


def _difference(stream: torch.Tensor) -> float:
    return float(_apart(stream).norm() / max(float(stream.norm()), 1e-30))


def _alike(one: torch.Tensor, two: torch.Tensor) -> bool:
    return one.shape == two.shape and torch.allclose(one, two, rtol=1e-4, atol=1e-5 * float(one.abs().max()))
