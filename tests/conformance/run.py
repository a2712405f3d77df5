"""Run: the real model with known vectors put in where a branch reads, and what it gives out where the branch writes."""

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import torch
from scipy.linalg import hadamard
from torch.overrides import TorchFunctionMode
from transformers.activations import ACT2CLS

from hf_lineage.architecture.layers import LayerSet
from tests.conformance.forms import WIDTH
from tests.conformance.tiny import PLAIN, TinyModel, fixed, is_norm, of_pictures

FOLDED = replace(PLAIN, gains=True)
ACTIVATIONS = tuple(
    {each[0] if isinstance(each, tuple) else each for each in ACT2CLS.values() if not inspect.isfunction(each)}
    | {torch.nn.GELU, torch.nn.SiLU, torch.nn.ReLU}
)
ACTING = re.compile("gelu|grn|responsenorm", re.IGNORECASE)  # by other names, and what follows one
WRITERS = {"mlp": "down", "mlp_gate": "down", "value_output": "output"}
ROTARY = {"cos": torch.ones_like, "sin": torch.zeros_like}  # rotary embeddings rotate nothing by these angles
GATES = ("sigmoid", "softplus")  # what a gate on attention goes through


class Run(TorchFunctionMode):
    """One pass of the real model with known vectors put in; what the writers of a path give out is kept."""

    def __init__(self, tiny: TinyModel, path: str, folded: bool) -> None:
        super().__init__()
        self.tiny, self.path, self.folded = tiny, path, folded
        self.outputs: dict[Any, torch.Tensor] = {}
        self.scales: list[torch.nn.Parameter] = []
        self.views: list[tuple[torch.Tensor, torch.nn.Parameter]] = []  # gains in the shape of pictures
        self.scores: dict[int, torch.Tensor] = {}
        self.activated, self.factors, self.best = (list[torch.Tensor]() for _ in range(3))
        # What gates a bias by position, by what stands there, is no part of a product of queries and keys.
        gates = path == "value_output" and any("gate" in each.slots for _, each in tiny.sets(path))
        self.gated, self.layer = path == "query_key" or gates, None
        rows = torch.from_numpy(hadamard(WIDTH)).float()
        self.known = rows[1:] if folded and tiny.layout.factorization.normalization == "layer_norm" else rows
        self.tokens = torch.cat([self.known, -self.known] * (2 if path == "query_key" else 1))
        self.hooks = list(self._hooks())

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """An activation lets everything through, a gate only the factor that is asked for; scores are kept."""
        name = getattr(function, "__name__", "")
        if name in ("softmax", "logsumexp") and self.layer is not None:
            self.scores[self.layer], self.layer = args[0], None
        if self.path == "query_key" and name in ROTARY:
            return ROTARY[name](args[0])
        if self.gated and name in GATES:
            return torch.ones_like(args[0])
        if name in ("sort", "argsort"):
            # Tokens stay in their order before every expert.
            named = dict(zip(("dim", "descending"), args[1:], strict=False)) | (kwargs or {})
            return function(args[0], **named | {"stable": True})
        if self.path.startswith("mlp") and isinstance(args[0] if args else None, torch.Tensor):
            instead = self._inside_mlp(name, function, args, kwargs or {})
            if instead is not None:
                return instead
        if name in ("mul", "__mul__", "__rmul__") and all(isinstance(each, torch.Tensor) for each in args):
            if self.path == "query_key" and all(each.is_complex() for each in args):
                return args[0].clone()  # angles as complex numbers
            for this, other in (args, args[::-1]):
                if any(this is factor for factor in self.factors):
                    return self._activate(function(*args))
                if this.shape == other.shape and any(this is seen for seen in self.activated):
                    return (this if self.path == "mlp_gate" else other).clone()
                if (scale := self._scale(this)) is not None:
                    self._keep(False, scale, args, result := function(*args))
                    return result
        if name == "reshape" and (scale := self._scale(args[0])) is not None:
            self.views.append((function(*args, **(kwargs or {})), scale))
            return self.views[-1][0]
        return function(*args, **(kwargs or {}))

    def _inside_mlp(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        """What stands between reader and writer lets everything through; None for any other function."""
        if name in ("silu", "gelu", "relu"):
            return self._activate(args[0])
        if name == "square" and any(args[0] is seen for seen in self.activated):
            return args[0]
        if name in ("clamp", "tanh") and args[0].is_floating_point():
            return args[0]  # a cap on hidden units
        if name == "argmax":
            self.best.append(function(*args, **kwargs))
            return self.best[-1]
        if name == "one_hot" and any(args[0] is best for best in self.best):
            return torch.ones_like(function(*args, **kwargs))  # the best expert is every one of them
        if name in ("softmax", "erf"):
            # No token prefers an expert, so that all list them in one order; and x (1 + erf x) / 2 is x.
            return torch.ones_like(args[0])
        if name == "sigmoid":
            self.factors.append(torch.ones_like(args[0]))
            return self.factors[-1]
        return None

    def _scale(self, factor: Any) -> torch.nn.Parameter | None:
        """The gain that a factor is, in whatever shape."""
        known = (*((scale, scale) for scale in self.scales), *self.views)
        return next((scale for shape, scale in known if factor is shape), None)

    def _activate(self, before: torch.Tensor) -> torch.Tensor:
        self.activated.append(before.clone())
        return self.activated[-1]

    def _hooks(self) -> Iterator[Any]:
        for prefix in self.tiny.stack:
            yield self.tiny.model.get_submodule(prefix[:-1]).register_forward_pre_hook(self._afresh)
        exits: dict[Any, Callable[..., Any]] = {}

        def only_gain(module: Any, args: Any, output: Any) -> Any:
            return _unscaled(module, args[0], output) if self.folded else args[0]

        for layer, each, readers in self.tiny.readers(self.path):
            norm = self.tiny.owner(each.norm) if self.folded and each.norm else None
            for entry in [norm] if norm else readers:
                yield entry.register_forward_pre_hook(self._put_in, with_kwargs=True)
            exits |= dict.fromkeys(self._inside(each), only_gain)
            if self.path == "query_key":
                yield readers[0].register_forward_pre_hook(lambda *_, layer=layer: setattr(self, "layer", layer))
                yield from self._without_inner_norms(readers[0], each)
                continue
            yield readers[0].register_forward_pre_hook(self._route, with_kwargs=True)
            exit = self.exit(each)
            if isinstance(exit, torch.nn.Parameter):
                self.scales.append(exit)
            else:
                exits[exit] = functools.partial(self._keep, self.folded and bool(each.output_norm))
        for module, hook in exits.items():
            yield module.register_forward_hook(hook)
        for module in self.tiny.model.modules() if self.path.startswith("mlp") else ():
            leaf = not any(True for _ in module.children())  # diffusers calls one a GELU that multiplies before it
            if isinstance(module, ACTIVATIONS) or (leaf and ACTING.search(type(module).__name__)):
                yield module.register_forward_hook(lambda module, args, output: self._activate(args[0]))

    def exit(self, each: LayerSet) -> torch.nn.Module | torch.nn.Parameter:
        """Where a set's product comes out: behind a module, or behind the multiplication with a gain."""
        if not (self.folded and each.output_norm):
            return self.tiny.owner(each.slots[WRITERS[self.path]].tensor)
        scale = self.tiny.scale(each)
        return self.tiny.owner(each.output_norm) if scale is None else scale

    def _put_in(self, module: Any, args: Any, kwargs: Any) -> Any:
        """The known vectors in the shape of what was read: each all along its own sequence, or all in a single one."""
        instead = args[0] if args else next(iter(kwargs.values()))
        count = instead.numel() // WIDTH
        if by_expert(module) > 1:
            known = self.tokens.repeat(by_expert(module), 1)
        elif self.path == "query_key":
            known = torch.nn.functional.pad(self.tokens, (0, 0, 0, count - len(self.tokens)))
        else:
            known = self.tokens.repeat_interleave(count // len(self.tokens), dim=0)
        if of_pictures(module):
            known = known.reshape(instead.movedim(1, -1).shape).movedim(-1, 1)
        else:
            known = known.to(instead.dtype).reshape(instead.shape)
        return ((known, *args[1:]), kwargs) if args else (args, {**kwargs, next(iter(kwargs)): known})

    def _route(self, module: Any, args: Any, kwargs: Any) -> Any:
        """A module of stacked experts is asked for the plain sum of all of them."""
        if "gammas" in kwargs:
            return args, kwargs | {"gammas": torch.ones_like(kwargs["gammas"])}
        experts = stacked(module)
        if experts == by_expert(module):
            return None
        everyone = torch.arange(experts).expand(args[0].shape[0], experts)
        return (args[0], everyone, torch.ones_like(everyone, dtype=args[0].dtype)), {}

    def _afresh(self, layer: Any, args: Any) -> None:
        """Layers may share their weights: what the one before gave out is forgotten."""
        for module in layer.modules():
            self.outputs.pop(module, None)

    def _without_inner_norms(self, query: torch.nn.Module, each: LayerSet) -> Iterator[Any]:
        """Norms between a projection and the scores are no part of the product."""
        names = {module: name for name, module in self.tiny.model.named_modules()}
        for name, module in self.tiny.model.get_submodule(names[query].rpartition(".")[0]).named_modules():
            if name and is_norm(module) and module not in self._inside(each):
                yield module.register_forward_hook(lambda module, args, output: args[0])

    def _inside(self, each: LayerSet) -> set[torch.nn.Module]:
        latent = [slot.latent[1] for slot in each.slots.values() if slot.latent]
        return {self.tiny.owner(name) for name in (*latent, each.inner_norm) if name}

    def _keep(self, normed: bool, module: Any, args: Any, output: Any) -> None:
        output = output[0] if isinstance(output, tuple) else output
        output = _unscaled(module, args[0], output) if normed else output
        if of_pictures(module) or any(module is scale for _, scale in self.views):
            output = output[:, :, output.shape[2] // 2, output.shape[3] // 2]  # where every tap sees the known vector
        output = output.reshape(by_expert(module), len(self.tokens), -1, WIDTH)[:, :, 0].sum(0)
        if self.path == "value_output":
            self.outputs.setdefault(module, output)  # a second call is for other tokens, not for another expert
        else:
            self.outputs[module] = self.outputs.get(module, 0) + output

    def go(self) -> Self:
        shape = (1, len(self.tokens)) if self.path == "query_key" else (len(self.tokens), 1)
        placed = {"position_ids": torch.zeros(shape, dtype=torch.long)} if self.path == "query_key" else {}
        with torch.no_grad(), self:
            self.tiny.run(*shape, placed)  # positions are for embeddings by a table of angles
            if self.path == "query_key":
                scores, self.tokens = dict(self.scores), torch.zeros_like(self.tokens)
                self.tiny.run(*shape, placed)
                # What the scores have without any input, such as a bias by position, is no part of the product.
                self.scores = {layer: scores[layer] - empty for layer, empty in self.scores.items()}
        for hook in self.hooks:
            hook.remove()
        return self


def stacked(module: Any) -> int:
    """How many experts a module holds in one tensor."""
    parameters = module.parameters(recurse=False) if isinstance(module, torch.nn.Module) else ()
    return next((parameter.shape[0] for parameter in parameters if parameter.ndim == 3), 1)


def by_expert(module: Any) -> int:
    """How many experts a module holds that is given the vectors of each expert one after the other; 1 for any other."""
    routed = stacked(module) > 1 and len(inspect.signature(module.forward).parameters) >= 3
    return 1 if routed else stacked(module)


def _unscaled(norm: torch.nn.Module, into: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """What a norm gives out but for the division by the root mean square: what is left of it is its gain."""
    return output if fixed(norm) else output * into.pow(2).mean(dim=-1, keepdim=True).sqrt()
