"""Steps: what people and their tools do to a model before they publish it; each takes the folder of its repository."""

import functools
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx
import torch
from safetensors.torch import load_file, save_file

from tests import gguf_models, onnx_models
from tests.checkpoint.formats import test_bitsandbytes as bnb
from tests.checkpoint.formats import test_fp8 as fp8
from tests.checkpoint.formats import test_gptq as gptq
from tests.checkpoint.formats import test_hqq as hqq
from tests.checkpoint.formats import test_torchao as torchao
from tests.models import HEADS, WEIGHTS, Trap, edit_json, shard, spoil

INDEX, GRAPH = "model.safetensors.index.json", "onnx/model.onnx"
Step = Callable[[Path], object]
YI = {"architectures": ["YiForCausalLM"], "model_type": "Yi", "auto_map": {"AutoModel": "yi.Yi"}}
"""What a configuration says of a class of remote code that is a Llama under another name."""


def config(**said: Any) -> Step:
    """A step that writes settings into `config.json`."""
    return lambda folder: edit_json(folder / "config.json", **said)


def moved(name: str, other: str) -> Step:
    """A step that gives a file another name."""
    return lambda folder: (folder / name).rename(folder / other)


def renamed_tensors(rename: Callable[[str], str]) -> Step:
    """A step that gives every tensor another name."""

    def change(tensors: dict) -> None:
        for own in list(tensors):
            tensors[rename(own)] = tensors.pop(own)

    return lambda folder: spoil(folder, change)


def shards_without_index(folder: Path) -> None:
    shard(folder)
    (folder / INDEX).unlink()


def two_files(folder: Path) -> None:
    shutil.copy(folder / WEIGHTS, folder / "first.safetensors")
    (folder / WEIGHTS).rename(folder / "second.safetensors")


def pickle(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")


def only_pickle(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    pickle(folder)


def torch_file(name: str, old: bool = False) -> Step:
    """A step that stores the weights as torch does, in a file of this name."""

    def save(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        (folder / WEIGHTS).unlink()
        torch.save(tensors, folder / name, _use_new_zipfile_serialization=not old)

    return save


def torch_shards(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(tensors)
    weight_map: dict[str, str] = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"pytorch_model-{number:05}-of-00002.bin"
        torch.save({name: tensors[name] for name in part}, folder / file)
        weight_map |= dict.fromkeys(part, file)
    edit_json(folder / "pytorch_model.bin.index.json", weight_map=weight_map)


def trap(folder: Path) -> None:
    """Weights as a pickle that leaves a file behind where it is loaded."""
    torch.save(load_file(folder / WEIGHTS) | {"trap": Trap(folder / "sprung")}, folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()


def packed(folder: Path) -> None:
    """A model whose weights are not decoded."""
    spoil(folder, lambda tensors: tensors.update({"a.q_invperm": torch.ones(4, dtype=torch.int32)}))
    edit_json(folder / "config.json", quantization_config={"quant_method": "exl2"})


def apart(folder: Path) -> Path:
    """The model of a folder in a folder beside it; the folder itself is gone."""
    return Path(shutil.move(folder, folder.with_name("plain")))


def quantized(pack: Any, **settings: Any) -> Step:
    """A step that stores the matrices of the layers as a format of quantization does."""

    def change(tensors: dict) -> None:
        for name in [name for name in tensors if ".layers." in name and tensors[name].ndim == 2]:
            matrix = tensors.pop(name)
            tensors.update({f"{name.removesuffix('.weight')}{end}": part for end, part in pack(matrix).items()})

    def store(folder: Path) -> None:
        spoil(folder, change)
        edit_json(folder / "config.json", quantization_config=settings)

    return store


def eight_bit_mlx(folder: Path) -> None:
    plain = apart(folder)
    hqq.released(plain, folder, bits=8)
    shutil.rmtree(plain)


def cast(dtype: torch.dtype) -> Step:
    """A step that stores every matrix as numbers of another type."""

    def change(tensors: dict) -> None:
        for name in list(tensors):
            tensors[name] = tensors[name].to(dtype) if tensors[name].ndim > 1 else tensors[name]

    return lambda folder: spoil(folder, change)


def as_gguf(*kinds: str, config: bool = False, said: Mapping[str, str] | None = None) -> Step:
    """A step that leaves nothing but GGUF files of these types, and perhaps a `config.json`, with such metadata."""

    def change(folder: Path) -> None:
        plain = apart(folder)
        for kind in kinds:
            gguf_models.write(plain, folder / f"model-{kind}.gguf", kind=getattr(gguf_models.KINDS, kind), said=said)
        if config:
            shutil.copy(plain / "config.json", folder)
        shutil.rmtree(plain)

    return change


def codes(matrix: torch.Tensor) -> torch.Tensor:
    """Integers in place of a matrix, which only the library of their format can decode."""
    return matrix.to(torch.int32)


def eetq(matrix: torch.Tensor) -> dict[str, torch.Tensor]:
    """Integers laid out for a GPU, which nothing but the library undoes."""
    return {".weight": matrix.T.contiguous().to(torch.int8), ".weight_scales": torch.ones(len(matrix)).half()}


def into(name: str) -> Step:
    """A step that moves the model into a folder of its repository; the card stays."""

    def move(folder: Path) -> None:
        held = [file for file in folder.iterdir() if file.name != "README.md"]
        (folder / name).mkdir()
        for file in held:
            file.rename(folder / name / file.name)

    return move


def sentence_transformer(folder: Path) -> None:
    into("0_Transformer")(folder)
    modules = [{"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}]
    (folder / "modules.json").write_text(json.dumps(modules))


def checkpoints(folder: Path) -> None:
    into("checkpoint-10")(folder)
    shutil.copytree(folder / "checkpoint-10", folder / "checkpoint-9")


def pipeline(folder: Path) -> None:
    """A pipeline of diffusers: a text encoder, a network whose blocks are those of the model too, and a decoder."""
    unet = shutil.copytree(folder, folder.with_name("unet"))
    as_unet(unet)
    into("text_encoder")(folder)
    shutil.move(unet, folder / "unet")
    (folder / "vae").mkdir()
    edit_json(folder / "vae/config.json", _class_name="AutoencoderKL", _diffusers_version="0.30")
    (folder / "vae/diffusion_pytorch_model.safetensors").write_bytes(b"what no factorization reads")
    parts = {"text_encoder": ["transformers", "X"], "unet": ["diffusers", "UNet2DConditionModel"]}
    parts["vae"] = ["diffusers", "AutoencoderKL"]
    edit_json(folder / "model_index.json", _class_name="Pipeline", **parts)


def other_decoder(folder: Path) -> None:
    (folder / "vae/diffusion_pytorch_model.safetensors").write_bytes(b"something else")


def _blocks(folder: Path, prefix: str, into: dict[str, str]) -> None:
    """Give the matrices of every layer other names, several of them in one where one name takes several."""

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


def as_unet(folder: Path) -> None:
    """The layers of a Llama as the blocks of a U-Net of diffusers."""
    names = {
        "norm3": "post_attention_layernorm",
        "ff.net.0.proj": "mlp.up_proj+mlp.gate_proj",
        "ff.net.2": "mlp.down_proj",
    }
    _blocks(folder, "down_blocks.{}.attentions.0.transformer_blocks.0", names)
    (folder / "config.json").unlink()
    edit_json(folder / "config.json", _class_name="UNet2DConditionModel", _diffusers_version="0.30")
    (folder / WEIGHTS).rename(folder / "diffusion_pytorch_model.safetensors")


def as_pixart(folder: Path) -> None:
    """The layers of a Llama as the blocks of a transformer of diffusers on patches."""
    attention = {f"attn1.to_{role}": f"self_attn.{role}_proj" for role in "qkv"} | {
        "attn1.to_out.0": "self_attn.o_proj"
    }
    _blocks(folder, "transformer_blocks.{}", attention | {"ff.net.0.proj": "mlp.up_proj", "ff.net.2": "mlp.down_proj"})
    (folder / "config.json").unlink()
    sizes = {"num_layers": 2, "num_attention_heads": 2}
    edit_json(folder / "config.json", _class_name="PixArtTransformer2DModel", _diffusers_version="0.30", **sizes)
    (folder / WEIGHTS).rename(folder / "diffusion_pytorch_model.safetensors")


def as_timm(folder: Path) -> None:
    """The layers of a Llama as the blocks of a vision transformer of timm."""
    names = {
        "norm1": "input_layernorm",
        "attn.qkv": "self_attn.q_proj+self_attn.k_proj+self_attn.v_proj",
        "attn.proj": "self_attn.o_proj",
        "norm2": "post_attention_layernorm",
        "mlp.fc1": "mlp.up_proj",
        "mlp.fc2": "mlp.down_proj",
    }
    _blocks(folder, "blocks.{}", names)
    (folder / "config.json").unlink()
    edit_json(
        folder / "config.json", architecture="vit_tiny_patch16_224.augreg", model_args={"depth": 2, "num_heads": 2}
    )


def inside(prefix: str, settings: str, name: str, tower: str) -> Step:
    """A step that makes a language model the one inside another of remote code, with a tower for pictures."""

    def change(folder: Path) -> None:
        own = json.loads((folder / "config.json").read_text()) | {"hidden_act": "silu"}
        outer = {settings: own} if settings else own
        whole = outer | {"architectures": [name], "auto_map": {"AutoModel": "modeling.Theirs"}, "model_type": "theirs"}
        (folder / "config.json").write_text(json.dumps(whole))
        renamed_tensors(lambda own: prefix + own)(folder)
        spoil(folder, lambda tensors: tensors.update({f"{tower}.layers.0.weight": torch.ones(8, 8)}))

    return change


def also_bare(folder: Path) -> None:
    """The same model under a name without an organisation, as the first ones of the Hub have."""
    shutil.copytree(folder, folder.parents[1] / "base")


def yi(folder: Path) -> None:
    """A class of the code of a repository, which calls the norms otherwise."""
    config(**YI, hidden_act="silu")(folder)
    names = ("input_layernorm", "ln1"), ("post_attention_layernorm", "ln2")
    renamed_tensors(lambda own: functools.reduce(lambda name, pair: name.replace(*pair), names, own))(folder)


def nemotron_embed(folder: Path) -> None:
    """A model without a head, in which every token sees every other one."""
    name = "LlamaBidirectionalModel"
    auto = {"AutoModel": f"llama_bidirectional_model.{name}"}
    config(architectures=[name], auto_map=auto, hidden_act="silu", model_type="llama_bidirec", pooling="avg")(folder)
    bare(folder)


bare = renamed_tensors(lambda own: own.removeprefix("model."))


def nv_embed(folder: Path) -> None:
    """A model without a head inside another, beside what attends to latents."""
    bare(folder)
    inside("embedding_model.", "text_config", "NVEmbedModel", "latent_attention_model.cross_attend_blocks")(folder)


def rotated(matrix: torch.Tensor) -> torch.Tensor:
    """The rows of each head in another order, so that neighbours are rotated in place of halves."""
    rows, columns = matrix.shape
    return matrix.view(HEADS, 2, rows // HEADS // 2, columns).transpose(1, 2).reshape(rows, columns)


MAKERS_NAMES = {
    **{f"self_attn.{role}_proj": f"attention.w{role}" for role in "qkvo"},
    **{"mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3"},
    **{"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm", "embed_tokens": "tok_embeddings"},
}


def makers_tensors(tensors: dict) -> None:
    """The names that Mistral and Meta give to the tensors of a Llama, and their order of rows."""
    for name in list(tensors):
        tensor, own = tensors.pop(name), name.removeprefix("model.")
        for ours, theirs in MAKERS_NAMES.items():
            own = own.replace(ours, theirs)
        tensors[own] = rotated(tensor) if own.endswith(("wq.weight", "wk.weight")) else tensor


def makers_names(folder: Path) -> None:
    spoil(folder, makers_tensors)
    (folder / WEIGHTS).rename(folder / "consolidated.safetensors")


def other_tensors(folder: Path) -> None:
    other_tensors_beside(folder)
    (folder / WEIGHTS).unlink()


def other_tensors_beside(folder: Path) -> None:
    save_file({"string_to_param.*": torch.ones(2, 32)}, folder / "embedding.safetensors")


def graph(folder: Path) -> None:
    """An ONNX graph in place of the weights, in the folder where optimum puts it."""
    onnx_models.written(folder, folder / GRAPH)
    (folder / WEIGHTS).unlink()


def graph_without_configuration(folder: Path) -> None:
    graph(folder)
    (folder / "config.json").unlink()


def as_graph(name: str, change: Callable[[Path, Path], object], alone: bool = True) -> Step:
    """A step that writes another file of the graph, by itself or beside it."""

    def store(folder: Path) -> None:
        if not (folder / GRAPH).exists():
            graph(folder)
        change(folder / GRAPH, folder / f"onnx/{name}.onnx")
        if alone:
            (folder / GRAPH).unlink()

    return store


def outside(folder: Path) -> None:
    graph(folder)
    onnx_models.outside(folder / GRAPH, folder / GRAPH)


def nameless_graph(folder: Path) -> None:
    graph(folder)
    onnx_models.changed(folder / GRAPH, folder / GRAPH, onnx_models.bare)


def fused_graph(folder: Path) -> None:
    def fuse(model: onnx.ModelProto) -> None:
        model.graph.node[0].op_type, model.graph.node[0].domain = "QMoE", "com.microsoft"

    graph(folder)
    onnx_models.changed(folder / GRAPH, folder / GRAPH, fuse)


def several_graphs(folder: Path) -> None:
    graph(folder)
    for name in ("vision_encoder", "text_encoder"):
        shutil.copy(folder / GRAPH, folder / f"onnx/{name}.onnx")
    (folder / GRAPH).unlink()


def unknown_timm(folder: Path) -> None:
    as_timm(folder)
    config(architecture="resnet50.a1_in1k")(folder)


STEPS: dict[str, Step] = {
    "autoround": quantized(gptq.gptq(group=16, index=False), quant_method="auto-round", bits=4, group_size=16),
    "eetq": quantized(eetq, quant_method="eetq", weights="int8"),
    "hqq": quantized(hqq.hqq(), quant_method="hqq"),
    "quanto": quantized(torchao.quanto(torch.int8)),
    "awq": quantized(gptq.awq(), **gptq.AWQ),
    "bnb_four_bits": quantized(bnb.four_bits(), **bnb.FOUR),
    "bnb_eight_bits": quantized(bnb.eight_bits, **bnb.EIGHT),
    "bfloat16": cast(torch.bfloat16),
    "float8": cast(torch.float8_e4m3fn),
    "float16": cast(torch.float16),
    "flax": moved(WEIGHTS, "flax_model.msgpack"),
    "fp8": quantized(fp8.whole, **fp8.FP8),
    "fp8_blocks": quantized(fp8.blocks(16, 32), **fp8.FP8, weight_block_size=[16, 32]),
    "gguf": as_gguf("F16", config=True),
    "gguf_alone": as_gguf("F32"),
    "gguf_eight_bits": as_gguf("Q8_0"),
    "gguf_of_its_own_word": as_gguf("F16", said={"general.base_model.0.repo_url": "https://huggingface.co/acme/base"}),
    "gguf_source": as_gguf("F16", said={"general.source.huggingface.repository": "acme/base"}),
    "gguf_several": as_gguf("Q4_0", "Q8_0"),
    "gptq": quantized(gptq.gptq(), **gptq.settings()),
    "mlx": eight_bit_mlx,
    "tensorflow": moved(WEIGHTS, "tf_model.h5"),
    "torchao": quantized(torchao.rows(torch.int8), **torchao.TORCHAO),
    "aqlm": quantized(lambda matrix: {".codes": codes(matrix), ".codebooks": matrix[:1]}, quant_method="aqlm"),
    "exl2": quantized(lambda matrix: {".q_weight": codes(matrix), ".q_groups": codes(matrix)}),
    "quip": quantized(lambda matrix: {".Qidxs": codes(matrix)}),
    "another_name": moved(WEIGHTS, "our-model.safetensors"),
    "compiled": renamed_tensors("_orig_mod.{}".format),
    "diffusers_variant": moved("diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.fp16.safetensors"),
    "folder": into("model"),
    "graph_in_4_bits": as_graph("model_q4", functools.partial(onnx_models.blocks, size=16)),
    "graph_in_8_bits": as_graph("model_quantized", onnx_models.dynamic),
    "graph_in_8_bits_too": as_graph("model_quantized", onnx_models.dynamic, alone=False),
    "hcx_vision": inside("model.language_model.", "text_config", "HCXVisionV2ForCausalLM", "model.vision_model"),
    "internvl": inside("language_model.", "llm_config", "InternVLChatModel", "vision_model.encoder"),
    "llava": inside("", "", "LlavaLlamaForCausalLM", "model.vision_tower.encoder"),
    "minicpm_v": inside("llm.", "", "MiniCPMV", "vpm.encoder"),
    "local_origin": config(_name_or_path="/home/me/base"),
    "nameless": config(architectures=None),
    "old_torch_file": torch_file("pytorch_model.bin", old=True),
    "origin": config(_name_or_path="acme/base"),
    "other_origin": config(_name_or_path="fern/before"),
    "parallel": renamed_tensors("module.{}".format),
    "peft": renamed_tensors("base_model.model.{}".format),
    "renamed": config(**YI),
    "shards": shard,
    "torch_file": torch_file("pytorch_model.bin"),
    "torch_file_of_another_name": torch_file("model.pt"),
    "typeless": config(architectures=None, model_type=None),
    "variant": moved(WEIGHTS, "model.fp16.safetensors"),
    **{
        step.__name__: step
        for step in (
            also_bare, as_pixart, as_timm, as_unet, checkpoints, fused_graph, graph,
            graph_without_configuration, makers_names, nemotron_embed, nv_embed,
            nameless_graph, only_pickle, other_decoder, other_tensors, other_tensors_beside,
            packed, outside, pickle, pipeline, sentence_transformer, several_graphs, shards_without_index,
            torch_shards, trap, two_files, unknown_timm, yi
        )
    },
}  # fmt: skip
"""The name in repositories.yaml -> the step."""
