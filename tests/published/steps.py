"""Steps: what people and their tools do to a model before they publish it; each takes the folder of its repository."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.models import WEIGHTS, edit_json, shard, spoil
from tests.published import storage

INDEX = "model.safetensors.index.json"
Step = Callable[[Path], object]


def origin(folder: Path) -> None:
    edit_json(folder / "config.json", _name_or_path="acme/base")


def local_origin(folder: Path) -> None:
    edit_json(folder / "config.json", _name_or_path="/home/me/base")


def other_origin(folder: Path) -> None:
    edit_json(folder / "config.json", _name_or_path="fern/before")


def shards_without_index(folder: Path) -> None:
    shard(folder)
    (folder / INDEX).unlink()


def variant(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "model.fp16.safetensors")


def another_name(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "our-model.safetensors")


def two_files(folder: Path) -> None:
    shutil.copy(folder / WEIGHTS, folder / "first.safetensors")
    (folder / WEIGHTS).rename(folder / "second.safetensors")


def pickle(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")


def only_pickle(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    pickle(folder)


def wrapped(prefix: str) -> Step:
    """A step that puts a prefix before the name of every tensor."""

    def change(tensors: dict) -> None:
        for name in list(tensors):
            tensors[prefix + name] = tensors.pop(name)

    return lambda folder: spoil(folder, change)


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


def diffusers_variant(folder: Path) -> None:
    (folder / "diffusion_pytorch_model.safetensors").rename(folder / "diffusion_pytorch_model.fp16.safetensors")


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


def unknown_timm(folder: Path) -> None:
    as_timm(folder)
    edit_json(folder / "config.json", architecture="resnet50.a1_in1k")


def inside(prefix: str, settings: str, name: str, tower: str) -> Step:
    """A step that makes a language model the one inside another of remote code, with a tower for pictures."""

    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        auto = {"AutoModel": "modeling.Theirs"}
        outer = {settings: config} if settings else config
        whole = outer | {"architectures": [name], "auto_map": auto, "model_type": "theirs"}
        (folder / "config.json").write_text(json.dumps(whole))

        def rename(tensors: dict) -> None:
            for own in list(tensors):
                tensors[prefix + own] = tensors.pop(own)
            tensors[f"{tower}.layers.0.weight"] = torch.ones(8, 8)

        spoil(folder, rename)

    return change


def also_bare(folder: Path) -> None:
    """The same model under a name without an organisation, as the first ones of the Hub have."""
    shutil.copytree(folder, folder.parents[1] / "base")


def renamed(folder: Path) -> None:
    edit_json(folder / "config.json", architectures=["YiForCausalLM"], model_type="Yi", auto_map={"AutoModel": "yi.Yi"})


def nameless(folder: Path) -> None:
    edit_json(folder / "config.json", architectures=None)


def makers_names(folder: Path) -> None:
    """The names that Mistral gives to the tensors of a Llama."""
    names = {"self_attn.q_proj": "attention.wq", "mlp.up_proj": "feed_forward.w3", "mlp.down_proj": "feed_forward.w2"}

    def change(tensors: dict) -> None:
        for name in list(tensors):
            own = name.removeprefix("model.")
            for ours, theirs in names.items():
                own = own.replace(ours, theirs)
            tensors[own] = tensors.pop(name)

    spoil(folder, change)
    (folder / WEIGHTS).rename(folder / "consolidated.safetensors")


def makers_parameters(folder: Path) -> None:
    (folder / "config.json").rename(folder / "params.json")


def other_tensors(folder: Path) -> None:
    save_file({"string_to_param.*": torch.ones(2, 32)}, folder / "embedding.safetensors")
    (folder / WEIGHTS).unlink()


STEPS: dict[str, Step] = {
    **storage.STEPS,
    "also_bare": also_bare,
    "another_name": another_name,
    "as_pixart": as_pixart,
    "as_timm": as_timm,
    "as_unet": as_unet,
    "checkpoints": checkpoints,
    "compiled": wrapped("_orig_mod."),
    "diffusers_variant": diffusers_variant,
    "folder": into("model"),
    "internvl": inside("language_model.", "llm_config", "InternVLChatModel", "vision_model.encoder"),
    "llava": inside("", "", "LlavaLlamaForCausalLM", "model.vision_tower.encoder"),
    "local_origin": local_origin,
    "makers_names": makers_names,
    "makers_parameters": makers_parameters,
    "minicpm_v": inside("llm.", "", "MiniCPMV", "vpm.encoder"),
    "nameless": nameless,
    "only_pickle": only_pickle,
    "origin": origin,
    "other_decoder": other_decoder,
    "other_origin": other_origin,
    "other_tensors": other_tensors,
    "parallel": wrapped("module."),
    "peft": wrapped("base_model.model."),
    "pickle": pickle,
    "pipeline": pipeline,
    "renamed": renamed,
    "sentence_transformer": sentence_transformer,
    "shards": shard,
    "shards_without_index": shards_without_index,
    "two_files": two_files,
    "unknown_timm": unknown_timm,
    "variant": variant,
}
"""The name in repositories.yaml -> the step."""
