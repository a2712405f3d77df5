"""Steps: what people and their tools do to a model before they publish it, and what happens to it on the way.

Each takes the folder of a repository and, where the tables beside this file give it one, an argument.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import onnx
import torch
from safetensors.torch import load_file, save_file

from tests import gguf_models, onnx_models
from tests.checkpoint.formats import test_bitsandbytes as bnb
from tests.checkpoint.formats import test_compressed_tensors as compressed
from tests.checkpoint.formats import test_grouped as gptq
from tests.checkpoint.formats import test_hqq as hqq
from tests.checkpoint.formats import test_scaled as fp8
from tests.checkpoint.formats import test_torchao as torchao
from tests.experts import made
from tests.models import EXAMPLES, HEADS, WEIGHTS, Trap, edit_json, shard, spoil
from tests.streams import edited

BASE, REPOSITORY = "acme/base", "general.base_model.0.repo_url"
INDEX, GRAPH, LORA = "model.safetensors.index.json", "onnx/model.onnx", "adapter_model.safetensors"
DIFFUSION, UP, DOWN = "diffusion_pytorch_model.safetensors", "mlp.up_proj", "mlp.down_proj"
Step = Callable[..., object]


def named(steps: Iterable[Any]) -> list[tuple[str, Any]]:
    """The names and arguments of steps, each a name alone or a mapping of the name to its argument."""
    return [next(iter(step.items())) if isinstance(step, dict) else (step, None) for step in steps]


def take(folder: Path, steps: Iterable[Any]) -> Path:
    for name, given in named(steps):
        STEPS[name](folder) if given is None else STEPS[name](folder, given)
    return folder


def each(change: Callable[[Path, str, Any], object]) -> Step:
    """A step that changes one thing after the other, each by its name."""
    return lambda folder, given: [change(folder, name, value) for name, value in given.items()]


def config(folder: Path, said: Mapping[str, Any]) -> None:
    edit_json(folder / "config.json", **said)


def write(folder: Path, name: str, content: Any) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


def card(folder: Path, said: Any, encoding: str = "utf-8") -> None:
    text = said if isinstance(said, str) else f"---\n{json.dumps(said)}\n---\n# A model\n"
    (folder / "README.md").write_bytes(text.encode(encoding))


def move(folder: Path, name: str, other: str) -> None:
    (folder / other).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).rename(folder / other) if other else (folder / name).unlink()


def into(folder: Path, name: str) -> None:
    """The model is in a folder of its repository; the card stays."""
    held = [file for file in folder.iterdir() if file.name != "README.md"]
    (folder / name).mkdir()
    for file in held:
        file.rename(folder / name / file.name)


def apart(folder: Path) -> Path:
    """The model of a folder in a folder beside it; the folder itself is gone."""
    return Path(shutil.move(folder, folder.with_name("plain")))


def index(folder: Path, name: str, file: str) -> None:
    weight_map = {own: file.name for file in folder.glob("*.safetensors") for own in load_file(file)}
    edit_json(folder / INDEX, weight_map=weight_map | {name: file} if name else dict.fromkeys(weight_map, file))


def cut(folder: Path, name: str, size: int) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:size] if size < len(content) else content + bytes(3))


def odd(folder: Path, name: str, kind: str) -> None:
    """The file is gone, and something else has its name."""
    (folder / name).unlink()
    {"mkdir": os.mkdir, "mkfifo": os.mkfifo, "link": lambda path: path.symlink_to("gone")}[kind](folder / name)


def sentence_transformer(folder: Path) -> None:
    into(folder, "0_Transformer")
    modules = [{"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}]
    write(folder, "modules.json", modules)


def rename(folder: Path, names: Mapping[str, str]) -> None:
    """Names of tensors, of a model or an adapter, changed by patterns; a tensor without a name is gone."""
    file = folder / (WEIGHTS if (folder / WEIGHTS).exists() else LORA)
    tensors = load_file(file)
    for pattern, name in names.items():
        renamed = {re.sub(pattern, name, own): tensor for own, tensor in tensors.items()}
        tensors = {own: tensor for own, tensor in renamed.items() if own}
    save_file(tensors, file)


def cast(folder: Path, dtype: str) -> None:
    kind = getattr(torch, dtype)
    spoil(folder, lambda stored: stored.update({name: one.to(kind) for name, one in stored.items() if one.ndim > 1}))


def torch_file(folder: Path, name: str = "pytorch_model.bin", old: bool = False, trap: bool = False) -> None:
    """The weights as torch stores them, with a trap beside them that leaves a file behind where it is loaded."""
    more = {"trap": Trap(folder / "sprung")} if trap else {}
    torch.save(load_file(folder / WEIGHTS) | more, folder / name, _use_new_zipfile_serialization=not old)
    (folder / WEIGHTS).unlink()


def torch_shards(folder: Path) -> None:
    shard(folder)
    text = (folder / INDEX).read_text().replace("model-", "pytorch_model-").replace(".safetensors", ".bin")
    (folder / "pytorch_model.bin.index.json").write_text(text)
    (folder / INDEX).unlink()
    for file in list(folder.glob("model-*.safetensors")):
        torch.save(load_file(file), folder / f"pytorch_{file.stem}.bin")
        file.unlink()


def quantized(pack: Any, **settings: Any) -> Step:
    """A step that stores the matrices of the layers as a format of quantization does."""

    def change(tensors: dict) -> None:
        for name in [name for name in tensors if ".layers." in name and tensors[name].ndim == 2]:
            matrix = tensors.pop(name)
            tensors.update({f"{name.removesuffix('.weight')}{end}": part for end, part in pack(matrix).items()})

    def store(folder: Path) -> None:
        spoil(folder, change)
        if settings:
            edit_json(folder / "config.json", quantization_config=settings)

    return store


def rows_of_fp8(matrix: torch.Tensor) -> dict[str, torch.Tensor]:
    scales = matrix.abs().amax(dim=1) / 448
    return {".weight": (matrix / scales[:, None]).to(torch.float8_e4m3fn), ".weight_scale": scales}


def as_bfloat16(matrix: torch.Tensor) -> dict[str, torch.Tensor]:
    parts = bnb.four_bits()(matrix)
    return parts | {".weight": parts[".weight"].reshape(-1).view(torch.bfloat16)[:, None]}


def mlx_bits(folder: Path, bits: int) -> None:
    plain = apart(folder)
    hqq.released(plain, folder, bits=bits)
    shutil.rmtree(plain)


def by_width(narrow: Any, wide: Any) -> Any:
    """One packing for matrices of the usual width, and another for the others."""
    return lambda matrix: (narrow if matrix.shape[1] == 32 else wide)(matrix)


FP8, NVFP4 = (compressed.case(name)[0] for name in ("FP8, naive", "NVFP4"))
PACKS: dict[str, Any] = {
    "awq": gptq.awq(),
    "fp8": fp8.whole,
    "fp8 by row": rows_of_fp8,
    "gptq": gptq.gptq(),
    "mlx": by_width(hqq.mlx(4), hqq.mlx(8, 16)),
    "mlx mxfp4": lambda matrix: {".weight": torch.zeros(len(matrix), 4, dtype=torch.uint32), ".scales": matrix[:, :1]},
    "modelopt awq": lambda matrix: {".weight": matrix.to(torch.uint8), ".weight_scale": matrix[:, :1]},
    "nf4": bnb.four_bits(),
    "nf4 as bfloat16": as_bfloat16,
    "nvfp4": fp8.nvfp4,
    "int8": lambda matrix: {".weight": matrix.to(torch.int8)},
    # Integers in place of a matrix, which only the library of their format can decode, or laid out for a GPU.
    "eetq": lambda matrix: {".weight": matrix.T.contiguous().to(torch.int8), ".weight_scales": matrix[:, 0].half()},
    "aqlm": lambda matrix: {".codes": matrix.int(), ".codebooks": matrix[:1]},
    "exl2": lambda matrix: {".q_weight": matrix.int(), ".q_groups": matrix.int()},
    "quip": lambda matrix: {".Qidxs": matrix.int()},
    "qweight alone": lambda matrix: {".qweight": matrix.int()},
    "compressed fp8": FP8,
    "compressed mixed": by_width(FP8, NVFP4),
}


def as_gguf(folder: Path, kinds: Mapping[str, str], keep: tuple[str, ...] = (), **writer: Any) -> None:
    """Nothing but GGUF files of these types is left, and what is kept."""
    plain = apart(folder)
    for file, kind in kinds.items():
        gguf_models.write(plain, folder / file, kind=getattr(gguf_models.KINDS, kind), **writer)
    for file in keep:
        shutil.copy(plain / file, folder)
    shutil.rmtree(plain)


def gguf_lora(folder: Path, file: str) -> None:
    """What llama.cpp's converter writes of an adapter."""
    writer = gguf.GGUFWriter(str(folder / file), "llama")
    writer.add_type("adapter")
    for name, factor in load_file(folder / LORA).items():
        number, role, which = re.search(r"layers\.(\d+)\..*(\w)_proj.*lora_(.)", name).groups()  # type: ignore[union-attr]
        writer.add_tensor(f"blk.{number}.attn_{role}.weight.lora_{which.lower()}", factor.float().numpy())
    for end in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        end()
    for name in (LORA, "adapter_config.json"):
        (folder / name).unlink()


def graph(folder: Path, change: Callable[[Path, Path], object] | None = None) -> None:
    """An ONNX graph in place of the weights, in the folder where optimum puts it, and changed there."""
    onnx_models.written(folder, folder / GRAPH)
    (folder / WEIGHTS).unlink()
    if change:
        change(folder / GRAPH, folder / GRAPH)


def graph_beside(folder: Path, name: str, change: Callable[[Path, Path], object]) -> None:
    change(folder / GRAPH, folder / f"onnx/{name}.onnx")


def fuse(model: onnx.ModelProto) -> None:
    model.graph.node[0].op_type, model.graph.node[0].domain = "QMoE", "com.microsoft"


def blocks(folder: Path, prefix: str, into: Mapping[str, str], file: str = DIFFUSION, **said: Any) -> None:
    """The layers of a Llama as blocks of another library: other names, some of several matrices; and other settings."""

    def change(tensors: dict) -> None:
        layers = 1 + max(int(name.split(".")[2]) for name in tensors if name.startswith("model.layers."))
        renamed = {}
        for layer in range(layers):
            for ours, theirs in into.items():
                parts = [tensors[f"model.layers.{layer}.{name}.weight"] for name in theirs.split("+")]
                renamed[f"{prefix.format(layer)}.{ours}.weight"] = torch.cat(parts)
                if parts[0].ndim == 1:
                    renamed[f"{prefix.format(layer)}.{ours}.bias"] = torch.zeros_like(parts[0])
        tensors.clear()
        tensors.update(renamed)

    spoil(folder, change)
    (folder / WEIGHTS).rename(folder / file)
    write(folder, "config.json", said)


ATTENTION = {f"to_{role}": f"self_attn.{role}_proj" for role in "qkv"} | {"to_out.0": "self_attn.o_proj"}
LIBRARIES: dict[str, Step] = {
    "as_unet": partial(
        blocks, prefix="down_blocks.{}.attentions.0.transformer_blocks.0", _diffusers_version="0.30",
        into={"norm3": "post_attention_layernorm", "ff.net.2": DOWN, "ff.net.0.proj": f"{UP}+mlp.gate_proj"},
        _class_name="UNet2DConditionModel",
    ),
    "as_pixart": partial(
        blocks, prefix="transformer_blocks.{}", num_layers=2, num_attention_heads=2, _diffusers_version="0.30",
        into={f"attn1.{part}": name for part, name in ATTENTION.items()} | {"ff.net.0.proj": UP, "ff.net.2": DOWN},
        _class_name="PixArtTransformer2DModel",
    ),
    "as_timm": partial(
        blocks, prefix="blocks.{}", file=WEIGHTS, architecture="vit_tiny_patch16_224.augreg",
        model_args={"depth": 2, "num_heads": 2},
        into={
            **{"norm1": "input_layernorm", "attn.qkv": "self_attn.q_proj+self_attn.k_proj+self_attn.v_proj"},
            **{"attn.proj": "self_attn.o_proj", "norm2": "post_attention_layernorm"},
            **{"mlp.fc1": UP, "mlp.fc2": DOWN},
        },
    ),
}  # fmt: skip
"""Blocks of a U-Net and of a transformer on patches of diffusers, and of a vision transformer of timm."""


def pipeline(folder: Path) -> None:
    """A pipeline of diffusers: a text encoder, a network whose blocks are those of the model too, and a decoder."""
    unet = shutil.copytree(folder, folder.with_name("unet"))
    LIBRARIES["as_unet"](unet)
    into(folder, "text_encoder")
    shutil.move(unet, folder / "unet")
    write(folder, "vae/config.json", {"_class_name": "AutoencoderKL", "_diffusers_version": "0.30"})
    write(folder, f"vae/{DIFFUSION}", "what no factorization reads")
    parts = {"text_encoder": ["transformers", "X"], "unet": ["diffusers", "UNet2DConditionModel"]}
    write(folder, "model_index.json", parts | {"_class_name": "Pipeline", "vae": ["diffusers", "AutoencoderKL"]})


# Models of remote code with a language model inside: its prefix, the key of its settings, the class, and a tower.
INSIDE = {
    "hcx_vision": ("model.language_model.", "text_config", "HCXVisionV2ForCausalLM", "model.vision_model"),
    "internvl": ("language_model.", "llm_config", "InternVLChatModel", "vision_model.encoder"),
    "llava": ("", "", "LlavaLlamaForCausalLM", "model.vision_tower.encoder"),
    "minicpm_v": ("llm.", "", "MiniCPMV", "vpm.encoder"),
    "nv_embed": ("embedding_model.", "text_config", "NVEmbedModel", "latent_attention_model.cross_attend_blocks"),
}


def inside(folder: Path, where: str) -> None:
    """A language model is the one inside another of remote code, with a tower for pictures."""
    prefix, settings, name, tower = INSIDE[where]
    own = json.loads((folder / "config.json").read_text()) | {"hidden_act": "silu"}
    said = {"architectures": [name], "auto_map": {"AutoModel": "modeling.Theirs"}, "model_type": "theirs"}
    write(folder, "config.json", ({settings: own} if settings else own) | said)
    rename(folder, {"^": prefix})
    spoil(folder, lambda tensors: tensors.update({f"{tower}.layers.0.weight": torch.ones(8, 8)}))


MAKERS_NAMES = {
    **{f"self_attn.{role}_proj": f"attention.w{role}" for role in "qkvo"},
    **{"mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3"},
    **{"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm", "embed_tokens": "tok_embeddings"},
}


def makers_names(folder: Path) -> None:
    """The names that Mistral and Meta give to the tensors of a Llama, and their order of rows."""

    def change(tensors: dict) -> None:
        for name in list(tensors):
            tensor, own = tensors.pop(name), name.removeprefix("model.")
            for ours, theirs in MAKERS_NAMES.items():
                own = own.replace(ours, theirs)
            if own.endswith(("wq.weight", "wk.weight")):  # neighbours are rotated in place of halves
                tensor = tensor.unflatten(0, (HEADS, 2, -1)).transpose(1, 2).reshape(tensor.shape)
            tensors[own] = tensor

    spoil(folder, change)
    (folder / WEIGHTS).rename(folder / "consolidated.safetensors")


def only(folder: Path, shapes: Mapping[str, Any], beside: Mapping[str, torch.Tensor] = {}) -> None:
    random = torch.Generator().manual_seed(0)
    drawn = {name: torch.randn(shape, generator=random) for name, shape in shapes.items()}
    save_file({**beside, **drawn}, folder / LORA)


def mlx_lora(folder: Path, kind: str = "") -> None:
    """What mlx-lm writes of an adapter: other names of files and settings, its factors turned."""
    factors = {name.removesuffix(".weight"): factor for name, factor in load_file(folder / LORA).items()}
    names = {name: name.removeprefix("base_model.model.")[:-1] + name[-1].lower() for name in factors}
    save_file({names[name]: factor.T.contiguous() for name, factor in factors.items()}, folder / "adapters.safetensors")
    (folder / LORA).unlink()
    said = {"lora_parameters": {"rank": 8, "scale": 2.0}, "model": "acme/llama-base", "num_layers": 6}
    write(folder, "adapter_config.json", said | ({"fine_tune_type": kind} if kind else {}))


def extracted(folder: Path, pair: tuple[str, str]) -> None:
    """A LoRA of the difference of two models, as mergekit extracts one."""
    weights = [load_file(EXAMPLES / name / WEIGHTS) for name in pair]
    factors = {}
    for name in (name for name in load_file(folder / LORA) if "lora_A" in name):
        own = f"{name.removeprefix('base_model.model.').partition('.lora_')[0]}.weight"
        left, sizes, right = torch.linalg.svd(weights[0][own].float() - weights[1][own].float(), full_matrices=False)
        factors[name] = sizes[:8, None].sqrt() * right[:8]
        factors[name.replace("lora_A", "lora_B")] = left[:, :8] * sizes[:8].sqrt()
    save_file({name: factor.contiguous() for name, factor in factors.items()}, folder / LORA)


def foreign_experts(folder: Path) -> None:
    """A mixture of which all but the routed experts are those of its base, near/base."""
    hub, settings = folder.parents[1], {"n_routed_experts": 6, "moe_intermediate_size": 24}
    base, other = made(hub / "near/base", "DeepseekV2", **settings), made(hub / "other", "DeepseekV2", 6, **settings)
    experts = {name: tensor for name, tensor in load_file(other / WEIGHTS).items() if ".experts." in name}
    edited(base, folder, lambda tensors: tensors | experts)


STEPS: dict[str, Step] = {
    "add": each(lambda folder, name, shape: spoil(folder, lambda stored: stored.update({name: torch.ones(shape)}))),
    "bytes": each(lambda folder, name, content: (folder / name).write_bytes(bytes.fromhex(content))),
    # The files are those of the base, to which the given steps are done.
    "copy": lambda folder, given: shutil.copytree(take(folder.parents[1] / BASE, given), folder, dirs_exist_ok=True),
    "copied": each(
        lambda folder, name, other: (shutil.copytree if (folder / name).is_dir() else shutil.copy)(
            folder / name, folder / other
        )
    ),
    "cut": each(cut),
    "embedding": lambda folder: save_file({"string_to_param.*": torch.ones(2, 32)}, folder / "embedding.safetensors"),
    "index": each(index),
    "move": each(move),
    "odd": each(odd),
    "pack": lambda folder, name: quantized(PACKS[name])(folder),
    "poke": each(lambda folder, name, value: spoil(folder, lambda stored: stored[name].view(-1)[:1].fill_(value))),
    "repeat": each(lambda folder, name, given: (folder / name).write_text(given[0] * given[1])),
    "settings": each(lambda folder, name, said: edit_json(folder / name, **said)),
    "write": each(write),
    "also": lambda folder, shapes: only(folder, shapes, load_file(folder / LORA)),
    "shaped": lambda folder, shape: only(folder, dict.fromkeys(load_file(folder / LORA), shape)),
    "autoround": quantized(gptq.gptq(group=16, index=False), quant_method="auto-round", bits=4, group_size=16),
    "eetq": quantized(PACKS["eetq"], quant_method="eetq", weights="int8"),
    "hqq": quantized(hqq.hqq(), quant_method="hqq"),
    "quanto": quantized(torchao.quanto(torch.int8)),
    "awq": quantized(PACKS["awq"], **gptq.AWQ),
    "bnb_four_bits": quantized(bnb.four_bits(), **bnb.FOUR),
    "bnb_eight_bits": quantized(bnb.eight_bits, **bnb.EIGHT),
    "fp8": quantized(fp8.whole, **fp8.FP8),
    "fp8_blocks": quantized(fp8.blocks(16, 32), **fp8.FP8, weight_block_size=[16, 32]),
    "gptq": quantized(gptq.gptq(), **gptq.settings()),
    "torchao": quantized(torchao.rows(torch.int8), **torchao.TORCHAO),
    **LIBRARIES,
    "gguf": as_gguf,
    "gguf_beside_config": partial(as_gguf, keep=("config.json",)),
    "gguf_of_its_own_word": partial(as_gguf, said={REPOSITORY: "https://huggingface.co/acme/base"}),
    "gguf_parts": partial(as_gguf, split_max_tensors=20, small_first_shard=True),
    "gguf_source": partial(as_gguf, said={"general.source.huggingface.repository": "acme/base"}),
    "fused_graph": partial(graph, change=partial(onnx_models.changed, change=fuse)),
    "nameless_graph": partial(graph, change=partial(onnx_models.changed, change=onnx_models.bare)),
    "outside": partial(graph, change=onnx_models.outside),
    "graph_in_4_bits": partial(graph_beside, name="model_q4", change=partial(onnx_models.blocks, size=16)),
    "graph_in_8_bits": partial(graph_beside, name="model_quantized", change=onnx_models.dynamic),
    **{name: partial(inside, where=name) for name in INSIDE},
    "old_torch_file": partial(torch_file, old=True),
    "trap": partial(torch_file, trap=True),
    **{
        step.__name__: step
        for step in (
            cast, config, extracted, foreign_experts, gguf_lora, graph, into, makers_names, mlx_bits, mlx_lora, only,
            pipeline, rename, sentence_transformer, shard, torch_file, torch_shards,
        )
    },
}  # fmt: skip
"""The name in the tables -> the step."""
