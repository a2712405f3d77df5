"""Tiny mixtures of experts, and edits of them that leave what they compute as it is."""

import functools
import re
from collections import defaultdict
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from tests.models import WEIGHTS, Tensors
from tests.streams import seen_by, turn

WIDTH, HIDDEN, EXPERTS, LAYERS, VOCABULARY = 64, 48, 4, 3, 256
SETTINGS = {
    "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": VOCABULARY, "num_experts_per_tok": 2, "tie_word_embeddings": False,
}  # fmt: skip
MIXTRAL = {"intermediate_size": HIDDEN, "num_local_experts": EXPERTS}
QWEN = {
    "intermediate_size": 96, "moe_intermediate_size": HIDDEN, "shared_expert_intermediate_size": 2 * HIDDEN,
    "num_experts": EXPERTS, "mlp_only_layers": [], "decoder_sparse_step": 1,
}  # fmt: skip
OLMOE = {"intermediate_size": HIDDEN, "num_experts": EXPERTS}
GLM = {"intermediate_size": 96, "moe_intermediate_size": HIDDEN, "n_routed_experts": EXPERTS, "head_dim": 16}
DEEPSEEK = {
    "intermediate_size": 96, "moe_intermediate_size": HIDDEN, "n_routed_experts": EXPERTS, "n_shared_experts": 2,
    "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "kv_lora_rank": 16, "q_lora_rank": None,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16, "num_key_value_heads": 4,
}  # fmt: skip
GPT_OSS = {"intermediate_size": HIDDEN, "num_local_experts": EXPERTS, "head_dim": 16}
GRANITE = {"intermediate_size": HIDDEN, "num_local_experts": EXPERTS}
DENSE = {"intermediate_size": HIDDEN}
KINDS = {
    "Mixtral": MIXTRAL, "Qwen2Moe": QWEN, "Qwen3Moe": QWEN, "Olmoe": OLMOE, "DeepseekV2": DEEPSEEK, "Glm4Moe": GLM,
    "GraniteMoe": GRANITE, "GptOss": GPT_OSS, "Mistral": DENSE, "Bert": DENSE,
}  # fmt: skip
rotated = seen_by(turn(WIDTH))


def made(folder, kind="Mixtral", seed=0, **settings):
    """A model of random weights as Transformers saves it, its gains not all alike."""
    import transformers

    torch.manual_seed(seed)
    config = getattr(transformers, f"{kind}Config")(**SETTINGS | KINDS[kind] | settings)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1 and "norm" in name:
                parameter.uniform_(0.5, 1.5)
    model.save_pretrained(folder)
    return folder


def renamed(folder: Path) -> Path:
    """A model beside another one, its tensors as Transformers has them in memory and its norms as in files of old."""
    import transformers

    target, of_old = folder.with_name(f"{folder.name}-other"), {"weight": "gamma", "bias": "beta"}
    transformers.AutoModelForCausalLM.from_pretrained(folder).save_pretrained(target, save_original_format=False)
    tensors = load_file(target / WEIGHTS).items()
    norm = functools.partial(re.compile(r"(?<=LayerNorm\.)\w+$").sub, lambda end: of_old[end[0]])
    save_file({norm(name): tensor for name, tensor in tensors}, target / WEIGHTS, {"format": "pt"})
    return target


def by_layer(tensors):
    """The names of the tensors of every expert, by layer and by its number."""
    layers = defaultdict(lambda: defaultdict(list))
    for name in tensors:
        if found := re.search(r"\.experts\.(\d+)\.", name):
            layers[name[: found.start()]][int(found[1])].append(name)
    return layers


def reordered(tensors: Tensors) -> Tensors:
    """The experts of every layer in another order, and the rows of the router with them."""
    random, changed = torch.Generator().manual_seed(2), dict(tensors)
    for layer, experts in by_layer(tensors).items():
        order = torch.randperm(len(experts), generator=random)
        for new, old in enumerate(order.tolist()):
            for name in experts[old]:
                changed[name.replace(f".experts.{old}.", f".experts.{new}.")] = tensors[name]
        changed[f"{layer}.gate.weight"] = tensors[f"{layer}.gate.weight"][order]
    return changed


def noised(share):
    """What adds noise to every matrix, a share of its size."""

    def change(tensors):
        random, changed = torch.Generator().manual_seed(3), dict(tensors)
        for name, tensor in tensors.items():
            if tensor.ndim > 1:
                changed[name] = tensor + share * tensor.std() * torch.randn(tensor.shape, generator=random)
        return changed

    return change
