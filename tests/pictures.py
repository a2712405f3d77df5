"""Tiny pipelines of diffusers, and LoRA adapters that were trained on the model that makes their pictures."""

import json
import re
from pathlib import Path

import torch
from safetensors.torch import save_file

TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "ff.net.0.proj", "ff.net.2"]
FILE = "pytorch_lora_weights.safetensors"
TEXT = 24
UNET = {
    "sample_size": 8, "block_out_channels": (32, 64), "norm_num_groups": 8, "layers_per_block": 1,
    "cross_attention_dim": TEXT, "attention_head_dim": [2, 4],
    "down_block_types": ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
}  # fmt: skip
PIXART = {
    "sample_size": 8, "num_layers": 4, "num_attention_heads": 4, "attention_head_dim": 8, "caption_channels": TEXT,
    "in_channels": 4, "cross_attention_dim": 32, "num_embeds_ada_norm": 1000,
}  # fmt: skip


def pipeline(folder: Path, seed: int):
    from diffusers import UNet2DConditionModel

    torch.manual_seed(seed)
    model = UNet2DConditionModel(**UNET)
    model.save_pretrained(folder / "unet")
    index = {"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"]}
    (folder / "model_index.json").write_text(json.dumps(index), encoding="utf-8")
    return model


def pixart(folder: Path, seed: int):
    from diffusers import PixArtTransformer2DModel

    torch.manual_seed(seed)
    model = PixArtTransformer2DModel(**PIXART)
    model.save_pretrained(folder)
    return model


def taught(model, steps: int = 10, **inputs):
    """Train what can be trained to make noise of other noise."""
    random = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    noisy, text = torch.randn(4, 4, 8, 8, generator=random), torch.randn(4, 5, TEXT, generator=random)
    wanted = torch.randn(4, 4, 8, 8, generator=random)
    for _ in range(steps):
        made = model(noisy, encoder_hidden_states=text, timestep=torch.tensor([3, 200, 400, 800]), **inputs).sample
        optimizer.zero_grad()
        ((made[:, :4] - wanted) ** 2).mean().backward()
        optimizer.step()
    return model


def unet_factors(model) -> dict[str, torch.Tensor]:
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    model.requires_grad_(False)
    model.add_adapter(LoraConfig(r=4, lora_alpha=4, init_lora_weights="gaussian", target_modules=TARGETS))
    return get_peft_model_state_dict(taught(model))


def pixart_adapter(model, folder: Path) -> Path:
    """A LoRA that peft trains and saves, because diffusers has none for this class."""
    from peft import LoraConfig, get_peft_model

    adapted = get_peft_model(model, LoraConfig(r=4, lora_alpha=4, target_modules=TARGETS))
    taught(adapted, added_cond_kwargs={"resolution": None, "aspect_ratio": None}).save_pretrained(folder)
    (folder / "README.md").unlink()
    return folder


def by_diffusers(folder: Path, factors) -> Path:
    from diffusers import StableDiffusionPipeline

    StableDiffusionPipeline.save_lora_weights(folder, unet_lora_layers=factors)
    return folder


def by_kohya(folder: Path, factors, file: str = "style.safetensors") -> Path:
    """The file of another trainer, as the converter of diffusers writes it."""
    from diffusers.utils import convert_state_dict_to_kohya

    folder.mkdir(exist_ok=True)
    named = convert_state_dict_to_kohya({f"unet.{name}": tensor for name, tensor in factors.items()})
    save_file({name: tensor.contiguous() for name, tensor in named.items()}, folder / file)
    return folder


def by_old_diffusers(folder: Path, factors) -> Path:
    """The names that diffusers gave the factors of attention before it used peft."""
    folder.mkdir()
    named = {}
    for name, tensor in factors.items():
        name = name.replace("lora_A", "lora.down").replace("lora_B", "lora.up")
        for role in ("to_q", "to_k", "to_v", "to_out"):
            name = re.sub(rf"\.{role}(\.0)?\.lora\.", f".processor.{role}_lora.", name)
        named[f"unet.{name}"] = tensor
    save_file(named, folder / FILE)
    return folder
