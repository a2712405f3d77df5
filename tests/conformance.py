"""The harness that proves the registry: every branch product against what the real transformers module computes.

A tiny random model of the class is saved and read back like any checkpoint. The module itself then runs with known
vectors put in where a branch reads, and what it gives out where the branch writes has to be the product times them.
Nothing here multiplies two weights: activations are made transparent, attention looks at one token, the rest is the
module's own code. Rows of a Hadamard matrix are the known vectors, because a norm leaves them as they are (mean 0,
except for the first, and mean square 1), so the same run with vectors put in before the norm proves the folded gains.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import torch
import transformers
from scipy.linalg import hadamard
from torch.overrides import TorchFunctionMode
from transformers.activations import ACT2CLS

from hf_lineage.branches import terms
from hf_lineage.checkpoint import open_checkpoint
from hf_lineage.layout import LayerSet, Layout, bind
from hf_lineage.registry import Factorization, as_names, lookup
from hf_lineage.repo import resolve
from hf_lineage.signature import RECIPES, Recipe

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

WIDTH, HEADS = 32, 4
PICTURE, SOUND = 24, 144
"""How many pixels wide a picture is and, halved, how many samples long a sound: 144 patches or frames of two."""
PLAIN = RECIPES["paper"]
FOLDED = replace(PLAIN, gains=True)
ACTIVATIONS = tuple(
    {each[0] if isinstance(each, tuple) else each for each in ACT2CLS.values() if not inspect.isfunction(each)}
    | {torch.nn.GELU, torch.nn.SiLU, torch.nn.ReLU}
)
WRITERS = {"mlp": "down", "mlp_gate": "down", "value_output": "output"}
POSITIONS = re.compile(r"(rel_embeddings|embed_positions)\.")
"""Tables of positions that attention multiplies with queries and keys."""
ROTARY = {"cos": torch.ones_like, "sin": torch.zeros_like}
"""Rotary embeddings rotate nothing by these angles."""

_SPELLINGS: dict[int, str] = {
    WIDTH: "hidden_size d_model n_embd dim embedding_size input_embedding_size output_embedding_size "
    "word_embed_proj_dim num_conv_pos_embeddings embed_dim out_hidden_size projection_dim",
    1: "num_feat_extract_layers temporal_patch_size squeeze_factor",
    2: "num_hidden_layers depth n_layer n_layers num_layers decoder_layers encoder_layers num_experts_per_tok moe_topk "
    "moe_k num_key_value_heads moe_num_shared_experts n_shared_experts patch_size "
    "num_conv_pos_embedding_groups num_frames tubelet_size frequency_stride time_stride",
    HEADS: "num_attention_heads n_head n_heads num_heads attention_heads decoder_attention_heads "
    "encoder_attention_heads num_experts num_local_experts n_routed_experts moe_num_experts",
    24: "head_dim moe_intermediate_size shared_expert_intermediate_size shared_intermediate_size image_size "
    "num_mel_bins max_length",
    40: "intermediate_size ffn_dim n_inner ffn_hidden_size decoder_ffn_dim encoder_ffn_dim hidden_dim",
    64: "vocab_size",
    SOUND: "max_source_positions",
    512: "max_position_embeddings n_positions max_seq_len max_target_positions n_ctx",
}
TINY: dict[str, Any] = {key: value for value, keys in _SPELLINGS.items() for key in keys.split()} | {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "attention_bias": True,
    "mlp_bias": True,
    "deepstack_visual_indexes": [0],
    "conv_dim": (WIDTH,),
    "conv_kernel": (2,),
    "conv_stride": (2,),
    "sliding_window": 512,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    **dict.fromkeys(("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon"), 1e-12),
}
"""What every configuration is asked for, as far as it has the attribute."""

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "CohereForCausalLM": [{}, {"use_qk_norm": True}],
    "Cohere2Moe": [{"first_k_dense_replace": 1, "num_shared_experts": 2}],
    "CTRL": [{"dff": 40}],
    "Data2VecAudio": [{"conv_pos_kernel_size": 3, "num_conv_pos_embeddings": 1}],
    "Deberta": [
        {},
        {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
        {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "share_att_key": True},
    ],
    "Dinov2": [{}, {"use_swiglu_ffn": True}],
    "Dots1": [{"first_k_dense_replace": 1, "n_shared_experts": 2}],
    "Exaone4": [{"sliding_window_pattern": 2}],
    "Falcon": [
        {"new_decoder_architecture": True, "num_kv_heads": 2},
        {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
        {"multi_query": True, "parallel_attn": True},
        {"multi_query": False, "parallel_attn": False, "alibi": True, "bias": True},
    ],
    "GPTBigCode": [{"multi_query": True}, {"multi_query": False}],
    "GPTJ": [{"rotary_dim": 4}],
    "GPTNeoX": [{"use_parallel_residual": True}, {"use_parallel_residual": False}],
    "GPTNeo": [{"attention_types": [[["global", "local"], 1]]}],
    "Flint": [{"mlp_only_layers": [0]}],
    "Glm4Moe": [{"use_qk_norm": True}],
    "Helium": [{"head_dim": 8}],
    "ModernBert": [{"local_attention": 1024}],
    "Musicgen": [{"num_codebooks": 1}],
    "PhiForCausalLM": [{}, {"qk_layernorm": True}],
    "Qwen2Moe": [{}, {"mlp_only_layers": [0]}],
    "Qwen3Moe": [{}, {"mlp_only_layers": [1]}],
    "RoCBert": [{"pronunciation_vocab_size": 64, "shape_vocab_size": 64}],
    "StableLm": [
        {"use_parallel_residual": False},
        {"use_parallel_residual": True},
        {"use_parallel_residual": False, "qk_layernorm": True, "use_qkv_bias": True},
    ],
    "ViTMAE": [{"mask_ratio": 0.0}],
    "Vivit": [{"tubelet_size": [2, 2, 2]}],
}
"""For a class that the generic request does not fit, or that has several forms: one request for each."""


def variants(name: str) -> list[dict[str, Any]]:
    """The requests for a class; those under a shorter name stand for the whole family."""
    return next((wanted for key, wanted in VARIANTS.items() if name.startswith(key)), [{}])


def tiny_config(name: str, wanted: dict[str, Any]) -> Any:
    """The configuration of a tiny model of a class; `wanted` outranks the generic request."""
    config_class = getattr(transformers, name).config_class
    config = config_class(**_asked(config_class) | wanted)
    config.architectures = [name]
    config._attn_implementation = config._experts_implementation = "eager"
    return config


def _asked(config_class: Any) -> dict[str, Any]:
    """The generic request, as far as a configuration has the attributes, and that for each configuration in it."""
    defaults = config_class()
    fixed = {key for key in TINY if isinstance(getattr(config_class, key, None), property)}
    asked = {key: value for key, value in TINY.items() if hasattr(defaults, key) and key not in fixed}
    if "mrope_section" in (rotary := getattr(defaults, "rope_parameters", None) or {}):
        size = (asked.get("head_dim") or WIDTH // HEADS) * rotary.get("partial_rotary_factor", 1)
        asked["rope_parameters"] = {**rotary, "mrope_section": _sections(int(size) // 2)}
    inner = {key: type(getattr(defaults, key)) for key in config_class.sub_configs if getattr(defaults, key, None)}
    return asked | {key: _asked(each) | {"model_type": each.model_type} for key, each in inner.items()}


def _sections(angles: int) -> list[int]:
    """Rotary angles divided between time, height and width."""
    return [angles - 2 * (angles // 3), angles // 3, angles // 3]


def sample(model: Any, batch: int, length: int = 1) -> dict[str, torch.Tensor]:
    """What a model takes: so many tokens or, of pictures and sounds, what makes enough of them for every test."""
    config, accepted = model.config, inspect.signature(model.forward).parameters
    torch.manual_seed(1)
    if "input_ids" in accepted:
        tokens = torch.arange(3, 3 + length).fmod(60).expand(batch, length)
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    frames = [config.num_frames] if hasattr(config, "num_frames") else []
    shapes = {
        "pixel_values": (*frames, getattr(config, "num_channels", 3), PICTURE, PICTURE),
        "input_values": (PICTURE, PICTURE) if hasattr(config, "num_mel_bins") else (2 * SOUND,),
        "input_features": (getattr(config, "num_mel_bins", 0), 2 * SOUND),
    }
    name = next(name for name in shapes if name in accepted)
    return {name: torch.randn(1, *shapes[name]).expand(batch, *shapes[name])}


def runner(model: Any) -> Any:
    """The part of a model to run: its base, unless that asks for more than what a file's owner would put in."""
    base = model.base_model
    accepted = inspect.signature(base.forward).parameters
    return base if accepted.keys() & {"input_ids", "pixel_values", "input_values", "input_features"} else model


def tiny_model(name: str, wanted: dict[str, Any]) -> Any:
    """A tiny model with every parameter random, norms and biases too."""
    build = getattr(transformers, name)
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in build(tiny_config(name, wanted)).parameters())
    assert size < 1_000_000, f"{name} has {size} parameters; shrink it in VARIANTS"
    torch.manual_seed(0)
    model = build(tiny_config(name, wanted)).eval()
    for key, parameter in model.named_parameters():
        if POSITIONS.search(key):
            parameter.data[:] = parameter.data[0].clone()  # every token stands at one place, relative or absolute
            continue
        parameter.data.normal_(std=0.3)
        if key.endswith("sinks"):
            parameter.data.fill_(-1e4)  # attention to the only token is 1, not shared with a sink
    return model


@dataclass(frozen=True)
class Specimen:
    """One tiny model in memory and the same model read back from disk."""

    model: Any
    layout: Layout
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], torch.Tensor]
    owners: dict[str, torch.nn.Module] = field(default_factory=dict)

    def owner(self, tensor: str) -> torch.nn.Module:
        """The module that holds a tensor of the file, found by its values: in memory it may be named otherwise."""
        if tensor not in self.owners:
            self.owners[tensor] = self._holder(self.read(tensor).flatten())
        return self.owners[tensor]

    def readers(self, path: str) -> list[tuple[int, LayerSet, list[torch.nn.Module]]]:
        """Every matrix set of a path with its layer and its readers' modules; what a file packs may be apart there."""
        each = iter(self.sets(path))
        found = []
        for number in range(self.layout.layers):
            for term in terms(self.layout, path, number, PLAIN, self.read):
                rows = [term.out[:, 0], term.inn[0]] if path == "query_key" else [term.inn[0]]
                found.append((*next(each), [self._holder(row) for row in rows]))
        return found

    @functools.cached_property
    def stack(self) -> tuple[str, ...]:
        """Prefixes of the layers in memory that the factorization speaks of."""
        readers = {module for path in self.layout.paths for _, _, modules in self.readers(path) for module in modules}
        names = [name for name, module in self.model.named_modules() if module in readers]
        return tuple({match[0] for name in names if (match := re.match(r"(?:.*?\.|)\d+\.", name))})

    def _holder(self, values: torch.Tensor) -> torch.nn.Module:
        parts = values[:8]
        return next(m for m in self.model.modules() if any(torch.isin(parts, p).all() for p in m.parameters(False)))

    def scale(self, each: LayerSet) -> torch.nn.Parameter | None:
        """The plain gain, no norm's, that a set's output is multiplied with."""
        if each.output_norm is None or "norm" in type(owner := self.owner(each.output_norm)).__name__.lower():
            return None
        values = self.read(each.output_norm)
        return next(p for p in owner.parameters(recurse=False) if same(p, values))

    def sets(self, path: str) -> Iterator[tuple[int, LayerSet]]:
        """Every matrix set of a path with its layer."""
        for layer, found in enumerate(self.layout.mlp if path.startswith("mlp") else self.layout.attention):
            yield from ((layer, each) for each in found)


def specimen(name: str, folder: Path, wanted: dict[str, Any], factorization: Factorization | None = None) -> Specimen:
    """Save a tiny model, read it back and bind it, by the registry's own choice unless a factorization is given."""
    model = tiny_model(name, wanted)
    model.save_pretrained(folder)
    repo = resolve(str(folder))
    checkpoint = open_checkpoint(repo)
    chosen = factorization or lookup(repo.config())[1]
    layout = bind(chosen, checkpoint.shapes, repo.config())
    return Specimen(model, layout, checkpoint.shapes, checkpoint.read)


class Run(TorchFunctionMode):
    """One pass of the real model with known vectors put in; what the writers of a path give out is kept."""

    def __init__(self, found: Specimen, path: str, folded: bool) -> None:
        super().__init__()
        self.found, self.path, self.folded = found, path, folded
        self.outputs: dict[Any, torch.Tensor] = {}
        self.scales: list[torch.nn.Parameter] = []
        self.scores: dict[int, torch.Tensor] = {}
        self.activated: list[torch.Tensor] = []
        self.layer: int | None = None
        rows = torch.from_numpy(hadamard(WIDTH)).float()
        self.known = rows[1:] if folded and found.layout.factorization.normalization == "layer_norm" else rows
        self.tokens = torch.cat([self.known, -self.known] * (2 if path == "query_key" else 1))
        self.hooks = list(self._hooks())

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """An activation lets everything through, a gate only the factor that is asked for; scores are kept."""
        name = getattr(function, "__name__", "")
        if name == "softmax" and self.layer is not None:
            self.scores[self.layer], self.layer = args[0], None
        if self.path == "query_key" and name in ROTARY:
            return ROTARY[name](args[0])
        if self.path.startswith("mlp") and name in ("silu", "gelu", "relu"):
            return self._activate(args[0])
        if name in ("mul", "__mul__", "__rmul__") and len(args) == 2:
            for this, other in (args, args[::-1]):
                if any(this is seen for seen in self.activated):
                    return this if self.path == "mlp_gate" else other
                if any(this is scale for scale in self.scales):
                    self._keep(False, this, args, result := function(*args))
                    return result
        return function(*args, **(kwargs or {}))

    def _activate(self, before: torch.Tensor) -> torch.Tensor:
        self.activated.append(before.clone())
        return self.activated[-1]

    def _hooks(self) -> Iterator[Any]:
        for layer, each, readers in self.found.readers(self.path):
            norm = self.found.owner(each.norm) if self.folded and each.norm else None
            for entry in [norm] if norm else readers:
                yield entry.register_forward_pre_hook(self._put_in, with_kwargs=True)
            if self.path == "query_key":
                yield readers[0].register_forward_pre_hook(functools.partial(self._enter, layer))
                yield from self._without_inner_norms(readers[0])
                continue
            yield readers[0].register_forward_pre_hook(self._route, with_kwargs=True)
            exit = self.exit(each)
            if isinstance(exit, torch.nn.Parameter):
                self.scales.append(exit)
            else:
                yield exit.register_forward_hook(functools.partial(self._keep, self.folded and bool(each.output_norm)))
        for module in self.found.model.modules() if self.path.startswith("mlp") else ():
            if isinstance(module, ACTIVATIONS) or "gelu" in type(module).__name__.lower():
                yield module.register_forward_hook(lambda module, args, output: self._activate(args[0]))

    def exit(self, each: LayerSet) -> torch.nn.Module | torch.nn.Parameter:
        """Where a set's product comes out: behind a module, or behind the multiplication with a gain."""
        if not (self.folded and each.output_norm):
            return self.found.owner(each.slots[WRITERS[self.path]].tensor)
        scale = self.found.scale(each)
        return self.found.owner(each.output_norm) if scale is None else scale

    def _put_in(self, module: Any, args: Any, kwargs: Any) -> Any:
        if not args:
            name = next(iter(kwargs))
            return args, {**kwargs, name: self._placed(kwargs[name])}
        return (self._placed(args[0]), *args[1:]), kwargs

    def _placed(self, instead: torch.Tensor) -> torch.Tensor:
        """The known vectors in the shape of what was read: each all along its own sequence, or all in a single one."""
        count = instead.numel() // WIDTH
        if self.path == "query_key":
            known = torch.nn.functional.pad(self.tokens, (0, 0, 0, count - len(self.tokens)))
        else:
            known = self.tokens.repeat_interleave(count // len(self.tokens), dim=0)
        return known.to(instead.dtype).reshape(instead.shape)

    def _route(self, module: Any, args: Any, kwargs: Any) -> Any:
        """A module of stacked experts is asked for the plain sum of all of them."""
        experts = next((p.shape[0] for p in module.parameters(recurse=False) if p.ndim == 3), None)
        if experts is None:
            return None
        everyone = torch.arange(experts).expand(args[0].shape[0], experts)
        return (args[0], everyone, torch.ones_like(everyone, dtype=args[0].dtype)), {}

    def _enter(self, layer: int, module: Any, args: Any) -> None:
        self.layer = layer

    def _without_inner_norms(self, query: torch.nn.Module) -> Iterator[Any]:
        """Norms between a projection and the scores are no part of the product."""
        names = {module: name for name, module in self.found.model.named_modules()}
        for name, module in self.found.model.get_submodule(names[query].rpartition(".")[0]).named_modules():
            if name and "norm" in type(module).__name__.lower():
                yield module.register_forward_hook(lambda module, args, output: args[0])

    def _keep(self, normed: bool, module: Any, args: Any, output: Any) -> None:
        output = output[0] if isinstance(output, tuple) else output
        # A norm on the output divides by the root mean square; undone, what is left of it is its gain.
        scale = args[0].pow(2).mean(dim=-1, keepdim=True).sqrt() if normed else 1.0
        self.outputs[module] = (output * scale).reshape(len(self.tokens), -1, WIDTH)[:, 0]

    def go(self) -> Run:
        """Run the model once."""
        shape = (1, len(self.tokens)) if self.path == "query_key" else (len(self.tokens), 1)
        base = runner(self.found.model)
        asked = sample(base, *shape)
        if self.path == "query_key" and "position_ids" in inspect.signature(base.forward).parameters:
            asked["position_ids"] = torch.zeros(shape, dtype=torch.long)  # for embeddings by a table of angles
        with torch.no_grad(), self:
            base(**asked)
            if self.path == "query_key":
                scores, self.tokens = dict(self.scores), torch.zeros_like(self.tokens)
                base(**asked)
                # What the scores have without any input, such as a bias by position, is no part of the product.
                self.scores = {layer: scores[layer] - empty for layer, empty in self.scores.items()}
        for hook in self.hooks:
            hook.remove()
        return self


def differences(found: Specimen, path: str, recipe: Recipe) -> Iterator[float]:
    """For every writer of a path the relative distance between the branch product and what the module gives out."""
    run = Run(found, path, recipe.gains).go()
    products: dict[Any, torch.Tensor] = {}
    for layer in range(found.layout.layers):
        sets = [each for at, each in found.sets(path) if at == layer]
        for each, term in zip(sets, terms(found.layout, path, layer, recipe, found.read), strict=True):
            key = layer if path == "query_key" else run.exit(each)
            products[key] = products.get(key, torch.zeros(())) + term.out @ term.inn
    count = len(run.known)
    for key, product in products.items():
        if path == "query_key":
            scores = run.scores[key].flatten(0, -3).sum(0)[2 * count : 4 * count, : 2 * count]
            rows, against = (scores[:count] - scores[count:]) / 2, run.known @ product @ run.known.mT
            seen = (rows[:, :count] - rows[:, count:]) / 2
            seen, expected = seen / seen.norm(), against / against.norm()  # the softmax has a scale of its own
        else:
            given = run.outputs[key]
            seen, expected = (given[:count] - given[count:]) / 2, run.known @ product.mT
        yield float((seen - expected).norm() / expected.norm())


def norms_left_out(found: Specimen) -> list[str]:
    """Norms with a gain that no branch claims although only branches read them.

    If so, doubling what the norm gives is undone by halving it again where the branches read it.
    """
    claimed = {found.owner(name) for _, each in both(found) for name in (each.norm, each.output_norm) if name}
    readers = {module for path in found.layout.paths for _, _, modules in found.readers(path) for module in modules}
    seen: dict[Any, tuple[torch.Tensor, torch.Tensor]] = {}
    hooks = [m.register_forward_hook(functools.partial(_remember, seen)) for m in found.model.modules()]
    before = _hidden(found.model)
    for hook in hooks:
        hook.remove()
    left = []
    for name, norm in found.model.named_modules():
        if norm in claimed or not is_norm(found, name) or norm not in seen or not list(norm.parameters()):
            continue
        reading = [m for m in readers if m in seen and same(seen[m][0], seen[norm][1])]
        doubled = [norm.register_forward_hook(lambda module, args, output: output * 2)]
        doubled += [m.register_forward_pre_hook(lambda module, args: (args[0] / 2, *args[1:])) for m in reading]
        if reading and same(_hidden(found.model), before):
            left.append(name)
        for hook in doubled:
            hook.remove()
    return left


def output_norms_mistaken(found: Specimen) -> list[str]:
    """Branches whose output is normalised though the registry says it is not, or the other way round.

    A norm on the output, and nothing else, undoes a factor on what the branch writes.
    """
    before = _hidden(found.model)
    wrong = []
    for path, role in (("mlp", "down"), ("value_output", "output")):
        sets = [each for _, each in found.sets(path)]
        writers = {found.owner(each.slots[role].tensor) for each in sets}
        tripled = [m.register_forward_hook(lambda module, args, output: output * 3) for m in writers]
        if same(_hidden(found.model), before) != all(each.output_norm and found.scale(each) is None for each in sets):
            wrong.append(path)
        for hook in tripled:
            hook.remove()
    return wrong


def gains_left_out(found: Specimen) -> list[str]:
    """Vectors of the residual width in a layer that are no bias, belong to no norm and are claimed by no branch."""
    claimed = {name for _, each in both(found) for name in (each.norm, each.output_norm) if name}
    prefixes = (re.escape(p).replace(r"\{layer\}", r"\d+") for p in as_names(found.layout.factorization.layers))
    layer = re.compile("|".join(prefixes))
    return [
        name
        for name, shape in sorted(found.shapes.items())
        if shape == (WIDTH,) and layer.match(name) and name not in claimed and not name.endswith("bias")
        if "norm" not in type(found.owner(name)).__name__.lower()
    ]


def both(found: Specimen) -> Iterator[tuple[int, LayerSet]]:
    """Every matrix set of the model."""
    yield from found.sets("mlp")
    yield from found.sets("value_output")


def is_norm(found: Specimen, name: str) -> bool:
    """Whether this is a norm of the residual width inside a layer that the factorization speaks of."""
    module = found.model.get_submodule(name)
    sizes = {tuple(parameter.shape) for parameter in module.parameters()}
    return name.startswith(found.stack) and "norm" in type(module).__name__.lower() and sizes <= {(WIDTH,)}


def wrong_normalization(found: Specimen) -> list[str]:
    """Norms that subtract the mean although the registry says rms_norm, or the other way round."""
    tokens = torch.from_numpy(hadamard(WIDTH)[1:]).float()
    subtracts = found.layout.factorization.normalization == "layer_norm"
    inner = {readers[0] for _, _, readers in found.readers("query_key")}
    names = {name.rpartition(".")[0] for name, module in found.model.named_modules() if module in inner}
    return [
        name
        for name, module in found.model.named_modules()
        if is_norm(found, name) and name.rpartition(".")[0] not in names
        if same(module(tokens), module(tokens + 1)) != subtracts
    ]


def against_plan(found: Specimen) -> list[str]:
    """Matrices that transformers' own tensor-parallel plan splits the other way: readers by rows, or writers not."""
    plan = getattr(found.model.config, "base_model_tp_plan", None) or {}
    names = {module: re.sub(r"\d+", "*", name) for name, module in found.model.base_model.named_modules()}
    wrong = []
    for _, each in both(found):
        for role, slot in each.slots.items():
            said = plan.get(names.get(found.owner(slot.tensor), ""), "")
            if ("col" if role in WRITERS.values() else "row") in said:
                wrong.append(slot.tensor)
    return wrong


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are equal up to rounding."""
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-4)


def _remember(seen: dict, module: Any, args: Any, output: Any) -> None:
    if args and isinstance(args[0], torch.Tensor) and isinstance(output, torch.Tensor):
        seen[module] = (args[0], output)


def _hidden(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return runner(model)(**sample(runner(model), 1, 6))[0]
