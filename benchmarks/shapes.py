"""Which models are measured: their shapes, named after the sizes they have in public, and how often."""

import math
from dataclasses import dataclass, replace
from typing import Self

Tensors = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Shape:
    """The sizes that decide what a model costs."""

    layers: int
    width: int
    hidden: int
    heads: int
    groups: int  # how many key and value heads there are
    head_size: int
    vocabulary: int = 32000
    architecture: str = "LlamaForCausalLM"
    dtype: str = "bfloat16"
    experts: int = 0  # how many experts a layer has, each of so many hidden units; 0 where it is dense
    published_layers: int = 0  # how many layers the model has in public, where fewer are written; 0 for all of them

    @property
    def embeddings(self) -> Tensors:
        return EMBEDDINGS[self.architecture](self)

    @property
    def layer(self) -> Tensors:
        return LAYERS[self.architecture](self)

    @property
    def mlp_elements(self) -> int:
        """How many numbers the `mlp` path reads in one layer, norms left out: 2 d h."""
        return 2 * self.width * self.hidden * max(self.experts, 1)

    @property
    def bytes(self) -> int:
        layer, rest = (sum(map(math.prod, tensors.values())) for tensors in (self.layer, self.embeddings))
        return ITEM_SIZES[self.dtype] * (layer * self.layers + rest)

    def shrunk(self, by: int) -> Self:
        """Return the same model `by` times narrower."""
        return replace(
            self,
            width=self.width // by,
            hidden=self.hidden // by,
            head_size=max(self.head_size // by, 1),
            vocabulary=self.vocabulary // by,
            experts=self.experts and max(self.experts // by, 2),
        )


@dataclass(frozen=True)
class Model:
    """One checkpoint that is written for a measurement."""

    name: str
    shape: Shape
    child: bool = False  # whether it descends from the model of the same shape and seed that is not one
    seed: int = 0

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.shape.layers}-layers{'-child' if self.child else ''}"

    @property
    def pair(self) -> tuple[Self, Self]:
        return self, replace(self, child=True)

    @property
    def family(self) -> tuple[Self, Self, Self]:
        """It, its child, and an independent model of the same shape."""
        return *self.pair, replace(self, name=f"{self.name}-independent", seed=1)


@dataclass(frozen=True)
class Plan:
    """How large the models are and how often everything is measured."""

    shapes: dict[str, Shape]
    shrink: int
    rounds: int
    slow_rounds: int  # for what takes a minute
    exact_memory: int  # MiB that exact mode may use

    def model(self, name: str, layers: int | None = None) -> Model:
        """Return the model of this name, with fewer layers than it has where that is asked for."""
        shape = self.shapes[name]
        return Model(name, replace(shape, layers=layers) if layers else shape)

    def shorter(self, name: str, layers: int) -> Self:
        """Return the plan with fewer layers in one of its shapes."""
        whole = self.shapes[name]
        fewer = replace(whole, layers=layers, published_layers=whole.published_layers or whole.layers)
        return replace(self, shapes=self.shapes | {name: fewer})


def _attention(shape: Shape) -> Tensors:
    heads, groups = shape.heads * shape.head_size, shape.groups * shape.head_size
    rows = {"q": heads, "k": groups, "v": groups}
    return {
        "input_layernorm.weight": (shape.width,),
        **{f"self_attn.{role}_proj.weight": (size, shape.width) for role, size in rows.items()},
        "self_attn.o_proj.weight": (shape.width, heads),
        "post_attention_layernorm.weight": (shape.width,),
    }


def _llama_layer(shape: Shape) -> Tensors:
    return _attention(shape) | {
        "mlp.gate_proj.weight": (shape.hidden, shape.width),
        "mlp.up_proj.weight": (shape.hidden, shape.width),
        "mlp.down_proj.weight": (shape.width, shape.hidden),
    }


def _experts(shape: Shape, router: str, gate: str, up: str, down: str) -> Tensors:
    """The router and the experts of a layer, by the names that their matrices have."""
    into, out = (shape.hidden, shape.width), (shape.width, shape.hidden)
    sizes = {gate: into, up: into, down: out}
    experts = {name.format(expert): size for expert in range(shape.experts) for name, size in sizes.items()}
    return {router: (shape.experts, shape.width), **experts}


def _mixtral_layer(shape: Shape) -> Tensors:
    names = [f"block_sparse_moe.experts.{{}}.w{number}.weight" for number in (1, 3, 2)]
    return _attention(shape) | _experts(shape, "block_sparse_moe.gate.weight", *names)


def _qwen_moe_layer(shape: Shape) -> Tensors:
    names = [f"mlp.experts.{{}}.{role}_proj.weight" for role in ("gate", "up", "down")]
    norms = {f"self_attn.{role}_norm.weight": (shape.head_size,) for role in "qk"}
    return _attention(shape) | norms | _experts(shape, "mlp.gate.weight", *names)


def _gpt_oss_layer(shape: Shape) -> Tensors:
    attention, experts, width, hidden = _attention(shape), shape.experts, shape.width, shape.hidden
    matrices = {name: size for name, size in attention.items() if len(size) == 2}
    biases = {name.replace("weight", "bias"): size[:1] for name, size in matrices.items()}
    return {
        **attention,
        **biases,
        "self_attn.sinks": (shape.heads,),
        "mlp.router.weight": (experts, width),
        "mlp.router.bias": (experts,),
        "mlp.experts.gate_up_proj": (experts, width, 2 * hidden),
        "mlp.experts.gate_up_proj_bias": (experts, 2 * hidden),
        "mlp.experts.down_proj": (experts, hidden, width),
        "mlp.experts.down_proj_bias": (experts, width),
    }


def _gpt2_layer(shape: Shape) -> Tensors:
    width, hidden = shape.width, shape.hidden
    matrices = {
        "attn.c_attn": (width, 3 * width),
        "attn.c_proj": (width, width),
        "mlp.c_fc": (width, hidden),
        "mlp.c_proj": (hidden, width),
    }
    norms = {f"{norm}.{part}": (width,) for norm in ("ln_1", "ln_2") for part in ("weight", "bias")}
    weights = {f"{name}.weight": size for name, size in matrices.items()}
    return norms | weights | {f"{name}.bias": size[1:] for name, size in matrices.items()}


def _llama_embeddings(shape: Shape) -> Tensors:
    rows = (shape.vocabulary, shape.width)
    return {"model.embed_tokens.weight": rows, "model.norm.weight": (shape.width,), "lm_head.weight": rows}


def _gpt2_embeddings(shape: Shape) -> Tensors:
    norm = {"transformer.ln_f.weight": (shape.width,), "transformer.ln_f.bias": (shape.width,)}
    return {"transformer.wte.weight": (shape.vocabulary, shape.width), **norm}


LAYERS = {
    "LlamaForCausalLM": _llama_layer,
    "MixtralForCausalLM": _mixtral_layer,
    "Qwen3MoeForCausalLM": _qwen_moe_layer,
    "GptOssForCausalLM": _gpt_oss_layer,
    "GPT2LMHeadModel": _gpt2_layer,
}
EMBEDDINGS = dict.fromkeys(LAYERS, _llama_embeddings) | {"GPT2LMHeadModel": _gpt2_embeddings}
ITEM_SIZES = {"bfloat16": 2, "float32": 4}
PREFIXES = dict.fromkeys(LAYERS, "model.layers") | {"GPT2LMHeadModel": "transformer.h"}

SHAPES = {
    "125M": Shape(12, 768, 2048, heads=12, groups=12, head_size=64),
    "1.3B": Shape(24, 2048, 5504, heads=16, groups=16, head_size=128),
    "7B": Shape(32, 4096, 11008, heads=32, groups=32, head_size=128),
    "70B": Shape(2, 8192, 28672, heads=64, groups=8, head_size=128, published_layers=80),
    "Mixtral-8x7B": Shape(1, 4096, 14336, 32, 8, 128, 32000, "MixtralForCausalLM", experts=8, published_layers=32),
    "Qwen3-30B-A3B": Shape(2, 2048, 768, 32, 4, 128, 151936, "Qwen3MoeForCausalLM", experts=128, published_layers=48),
    "gpt-oss-20b": Shape(2, 2880, 2880, 64, 8, 64, 201088, "GptOssForCausalLM", experts=32, published_layers=24),
    "GPT-2": Shape(6, 384, 1536, 6, 6, 64, 50257, "GPT2LMHeadModel", "float32"),
}

FULL = Plan(SHAPES, shrink=1, rounds=5, slow_rounds=2, exact_memory=512)
QUICK = Plan(
    {name: shape.shrunk(8) for name, shape in SHAPES.items()}, shrink=8, rounds=2, slow_rounds=1, exact_memory=256
)
