"""Forgeries: folders that store the weights of a base and do not use them, and copies that store more than they use.

`ROWS` are made of two independent tiny models of a class; `inserted` edits a trained Llama in place, as `tests.attacks`
does. Real modules tell that the part in question does nothing: their outputs are the same with noise in its place.
"""

import copy
import itertools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hf_lineage.architecture import config_checks
from hf_lineage.architecture.class_tensors import ClassTensors
from hf_lineage.source import headers as headers_module
from tests.attacks import carried
from tests.conformance.forms import GEMMA4, GEMMA4_MOE, variants

Tensors = dict[str, Tensor]
LOUD = 30.0  # how many times as much as in the base its units write, to outweigh all that is at work
PAGES = Path(__file__).parents[1] / "docs"


class Forgery(NamedTuple):
    """What a folder holds."""

    theirs: Tensors  # the weights of the base, which do nothing
    own: Tensors  # everything else
    settings: Mapping[str, Any] = MappingProxyType({})  # what `config.json` says besides

    @property
    def tensors(self) -> Tensors:
        return {**self.own, **self.theirs}

    def noise(self) -> Tensors:
        """All of it, with noise as large as the weights of the base in their place."""
        generator = torch.Generator().manual_seed(9)
        random = {name: torch.randn(each.shape, generator=generator) * each.std() for name, each in self.theirs.items()}
        return {**self.own, **random}


Make = Callable[[Tensors, Tensors], Forgery]  # of the weights of the base and of an independent model


class Row(NamedTuple):
    """A forgery in a tiny model of a class."""

    of: str
    wanted: dict[str, Any]
    make: Make

    def made(self, a: Tensors, b: Tensors) -> Forgery:
        """The forgery, with the gains of the base in front of everything, so that its units keep their directions."""
        return self.make(a, b | {name: a[name] for name in b if "norm" in name and b[name].ndim == 1})


def in_place(part: str, loud: str = "", settings: dict[str, Any] | None = None, **set_to: Any) -> Make:
    """The tensors of the base that match a pattern in place of one's own, those that match `loud` written louder.

    Every tensor with one of the given ends, a double underscore for a dot, is what is given, or becomes what that
    makes of it.
    """

    def make(a: Tensors, b: Tensors) -> Forgery:
        theirs = {name: a[name] for name in b if re.search(part, name)}
        theirs = {name: each * (LOUD if loud and re.search(loud, name) else 1) for name, each in theirs.items()}
        own = dict(b)
        for end, value in set_to.items():
            for name in [name for name in b if name.endswith(end.replace("__", "."))]:
                own[name] = value(b[name]) if callable(value) else torch.full_like(b[name], value)
        return Forgery(theirs, own, settings or {})

    return make


def shared_experts(new: str, taken: str, *roles: str) -> Make:
    """Tensors beside the experts that the class does not build, of each role taken from what matches a pattern."""

    def make(a: Tensors, b: Tensors) -> Forgery:
        theirs = {}
        for role, name in itertools.product(roles, sorted(a, reverse=True)):
            if match := re.fullmatch(rf"(.*layers\.\d+\.){taken.format(role)}", name):
                matrix = a[name] if a[name].ndim < 3 else a[name][0]
                theirs[match[1] + new.format(role)] = matrix * LOUD if role in ("down", "output") else matrix
        return Forgery(theirs, b)

    return make


def two_ways(router: Tensor) -> Tensor:
    """A router by which nearly all of a token goes to the first expert or the second, though others are chosen too."""
    logits = torch.zeros_like(router)
    logits[:2] = 1e4 * router[0] * torch.tensor([[1.0], [-1.0]])
    return logits


def times(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda tensor: tensor * factor


def first_two(tensor: Tensor) -> Tensor:
    """A table by which every token goes to the first two experts, or a correction by which no other is ever chosen."""
    if tensor.ndim > 1:
        return torch.tensor([0, 1]).expand_as(tensor).to(tensor.dtype).clone()
    return torch.where(torch.arange(len(tensor)) < 2, 0.0, -1e4).to(tensor.dtype)


SHARED = shared_experts("mlp.shared_expert.{}_proj.weight", r"mlp\.experts\.0\.{}_proj\.weight", "gate", "up", "down")
STACKS = shared_experts("shared_mlp.{}_linear.weight", r"block_sparse_moe\.{}_linear\.weight", "input", "output")
MOE, V4 = GEMMA4 | GEMMA4_MOE, variants("DeepseekV4ForCausalLM")[0]
V4_BY_TABLE, V4_BY_SCORE = (V4 | {"mlp_layer_types": [kind] * 2} for kind in ("hash_moe", "moe"))
IDLE, V4_IDLE = r"experts\.[23]\.", r"ffn\.experts\.[23]\."
GEMMA_EXPERTS, DENSE = (r"\.experts\.", r"experts\.down_proj"), r"mlp\.(gate|up|down)_proj\.weight"
PLAIN = {"attention_bias": False, "mlp_bias": False}
CASES: dict[str, tuple[str, dict[str, Any] | None, Make]] = {
    "a shared expert beside the experts of Qwen3-MoE": ("Qwen3MoeForCausalLM", {}, SHARED),
    "a shared expert beside the experts of OLMoE": ("OlmoeForCausalLM", {}, SHARED),
    "a shared MLP beside the experts of Granite-MoE": ("GraniteMoeForCausalLM", {}, STACKS),
    "experts of Gemma 4 that a switch turns off":
        ("Gemma4ForCausalLM", MOE, in_place(*GEMMA_EXPERTS, {"enable_moe_block": False})),
    "experts of Gemma 4 of which a token takes none":
        ("Gemma4ForCausalLM", MOE, in_place(*GEMMA_EXPERTS, {"top_k_experts": 0})),
    "experts of Gemma 4 that are scaled with 0":
        ("Gemma4ForCausalLM", MOE, in_place(*GEMMA_EXPERTS, router__per_expert_scale=0.0)),
    "experts of Gemma 4 that are scaled with next to nothing": (
        "Gemma4ForCausalLM", MOE | {"rms_norm_eps": 1e-6}, in_place(*GEMMA_EXPERTS, router__per_expert_scale=1e-12),
    ),
    "no experts in Granite-MoE hybrid": (
        "GraniteMoeHybridForCausalLM", None,
        in_place(r"block_sparse_moe\.(in|out)put", r"output_linear", {"num_local_experts": 0}),
    ),
    "experts of DeepSeek-V4 to which no token is sent":
        ("DeepseekV4ForCausalLM", V4_BY_TABLE, in_place(V4_IDLE, r"w2\.", gate__tid2eid=first_two)),
    "experts of DeepSeek-V4 that a correction outbids":
        ("DeepseekV4ForCausalLM", V4_BY_SCORE, in_place(V4_IDLE, r"w2\.", gate__bias=first_two)),
    "experts of Kolibri that a correction outbids":
        ("Kolibri1ForCausalLM", {}, in_place(IDLE, "down_proj", router__expert_bias=first_two)),
    "experts of LongCat-Flash that are chosen and mixed in with nothing":
        ("LongcatFlashForCausalLM", None, in_place(IDLE, "down_proj", classifier__weight=two_ways)),
    "an activation of Apertus that is always 0": (
        "ApertusForCausalLM", {},
        in_place(r"mlp\.(up|down)_proj", act_fn__alpha_p=-1e4, act_fn__alpha_n=-1e4, act_fn__beta=0.0),
    ),
    "an embedding of Granite that drowns the layers":
        ("GraniteForCausalLM", PLAIN, in_place(DENSE, settings={"embedding_multiplier": 1e7})),
    "an embedding of Llama that drowns the layers":
        ("LlamaForCausalLM", PLAIN, in_place(DENSE, embed_tokens__weight=times(1e6), o_proj__weight=times(1e6))),
    "a mixer of Falcon-H1 that drowns the layers":
        ("FalconH1ForCausalLM", None, in_place(r"feed_forward\..*weight", conv1d__weight=times(1e3))),
    "attention by experts of JetMoe that drowns the layers":
        ("JetMoeForCausalLM", {}, in_place(r"mlp\..*put_linear", input_layernorm__weight=times(1e6))),
    "a cell of xLSTM that drowns the layers":
        ("xLSTMForCausalLM", None, in_place(r"ffn\.", multihead_norm__weight=times(1e7))),
    "a projection of WavLM that drowns the layers": (
        "WavLMForAudioFrameClassification", {"do_stable_layer_norm": True},
        in_place(r"feed_forward\..*weight", feature_projection__layer_norm__weight=times(1e7)),
    ),
    "units of Gemma 3n none of which is among the largest": (
        "Gemma3nForCausalLM", None, in_place(DENSE, settings={"activation_sparsity_pattern": [1 - 1e-12] * 2}),
    ),
}  # fmt: skip
ROWS = {
    name: Row(of, variants(of)[0] if wanted is None else wanted, make) for name, (of, wanted, make) in CASES.items()
}  # forgeries by what they are, each found from outside; of a class without settings its own request is built


def turn_off(monkeypatch: Any) -> None:
    """Turn off, in this process, each rule by which a switch is known: what is left is what weights and a run show."""
    monkeypatch.setattr(headers_module, "match_class_tensors", lambda *_: ClassTensors())
    monkeypatch.setattr(headers_module, "settings_reservations", lambda *_: ())
    monkeypatch.setattr(headers_module, "scalar_reservations", lambda *_: ())
    monkeypatch.setattr(config_checks, "_refuse_dead", lambda *_: None)


SEEN_BY_RUNNING = {"a cell of xLSTM that drowns the layers"}
"""Of the rows those that only running shows: the cell is no plain product, so that the class has one path."""


def text() -> Tensor:
    """Tokens of the models of `examples/hub`, which read bytes: of pages of the documentation."""
    content = b"".join(page.read_bytes() for page in sorted(PAGES.glob("*.md")))
    return torch.tensor(list(content[: 16 * 256])).view(16, 256)[:, :96]


@torch.no_grad()
def spoken(model: Any) -> Tensor:
    return model.eval()(text()).logits


def shut(gate: Tensor, seen: Tensor, crude: bool) -> Tensor:
    """Rows of gates (u, d) that no row of `seen` (n, d) opens: -v, or the rows moved along v just far enough, enlarged.

    v has a product above 0 with every row: by least squares, and then as a perceptron learns.
    """
    v = torch.linalg.lstsq(seen, torch.ones(len(seen), 1)).solution[:, 0]
    for _ in range(5000):
        missed = seen[seen @ v <= 0]
        v += 0.1 * missed.mean(dim=0) if len(missed) else 0.0
    v = v / (seen @ v).min()
    assert ((seen @ v) > 0).all(), "no direction is positive on all of the text"
    far = (seen @ gate.T).amax(dim=0).clamp(min=0) + 0.02
    return 1e3 * (-v.expand_as(gate) if crude else gate - far[:, None] * v)


@torch.no_grad()
def inserted(model: Any, other: Any, count: int = 1, loud: float = 100.0, crude: bool = True) -> None:
    """Insert layers of another Llama that do nothing: attention that writes 0, and MLPs whose gates no text opens."""
    own, eps = len(model.model.layers), model.config.rms_norm_eps
    stream = model.eval()(text(), output_hidden_states=True).hidden_states[own // 2].flatten(0, 1)
    seen = stream * torch.rsqrt(stream.pow(2).mean(-1, keepdim=True) + eps)
    for layer in copy.deepcopy(other.model.layers[:count]):
        layer.self_attn.o_proj.weight.data.zero_()
        norm = layer.post_attention_layernorm.weight.data
        layer.mlp.gate_proj.weight.data = shut(layer.mlp.gate_proj.weight.data, seen * norm, crude)
        layer.mlp.down_proj.weight.data.mul_(loud)
        model.model.layers.insert(own // 2, layer)
    for number, layer in enumerate(model.model.layers):
        layer.self_attn.layer_idx = number
    model.config.num_hidden_layers = len(model.model.layers)
    model.config.layer_types = None


def added_units(model: Any, other: Any, count: int, gate: float = 1.0) -> None:
    carried(gate, count=count)(model, other)


@torch.no_grad()
def added_heads(model: Any, other: Any, count: int) -> None:
    """Add heads of another Llama to every layer, or copies of them, group by group."""
    groups = model.config.num_key_value_heads
    served = model.config.num_attention_heads // groups
    for layer, source in zip(model.model.layers, other.model.layers, strict=True):
        for name, heads in (("q_proj", count), ("k_proj", count // served), ("v_proj", count // served)):
            linear, theirs = (getattr(one.self_attn, name) for one in (layer, source))
            rows = theirs.weight.data.repeat(count, 1)[: heads * model.config.head_dim]
            linear.weight.data = torch.cat([linear.weight.data, rows])
        columns = source.self_attn.o_proj.weight.data.repeat(1, count)[:, : count * model.config.head_dim]
        output = layer.self_attn.o_proj
        output.weight.data = torch.cat([output.weight.data, columns], dim=1)
    model.config.num_attention_heads += count
    model.config.num_key_value_heads += count // served


@torch.no_grad()
def added_experts(model: Any, other: Any, count: int) -> None:
    """Add experts of another Mixtral to every layer, or copies of them, which the router chooses for no text."""
    for layer, source in zip(model.model.layers, other.model.layers, strict=True):
        seen: list[Tensor] = []
        hook = layer.mlp.gate.register_forward_pre_hook(lambda _, inputs, seen=seen: seen.append(inputs[0]))
        spoken(model)
        hook.remove()
        router, experts = layer.mlp.gate, layer.mlp.experts
        nowhere = shut(router.weight.data[:1].repeat(count, 1), torch.cat(seen).flatten(0, -2), crude=True)
        router.weight.data = torch.cat([router.weight.data, nowhere])
        for name in ("gate_up_proj", "down_proj"):
            own, theirs = (getattr(one, name).data for one in (experts, source.mlp.experts))
            getattr(experts, name).data = torch.cat([own, theirs.repeat(count, 1, 1)[:count]])
        router.num_experts = experts.num_experts = len(router.weight)
    model.config.num_local_experts += count


def drowned(factor: float) -> Callable[[Any, Any], None]:
    """The MLPs of another Llama behind a stream that is too large for them to count."""

    def attack(model: Any, other: Any) -> None:
        for layer, source in zip(model.model.layers, other.model.layers, strict=True):
            layer.mlp.load_state_dict(source.mlp.state_dict())
            layer.self_attn.o_proj.weight.data.mul_(factor)
        model.model.embed_tokens.weight.data.mul_(factor)

    return attack
