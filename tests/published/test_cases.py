"""Every row of cases.yaml, of adapters, cards, GGUF files and merges of public reports, has its own answer."""

import json
import re
import shutil
from functools import partial
from pathlib import Path

import gguf
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from tests import gguf_models
from tests.experts import made
from tests.invoking import lineage
from tests.long import first_with
from tests.models import EXAMPLES, edit_json
from tests.streams import edited

CASES = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text(encoding="utf-8"))
KEYS = {"name", "link", "of", "steps", "card", "files", "settings", "arguments", "code", "says", "silent"}
LORA = "adapter_model.safetensors"


def steps(case):
    """What is done to the folder of a case, and which files are written into it."""
    return {case.get("of", ""), *(name for step in case.get("steps", ()) for name in step), *case.get("files", ())}


def rename(folder, names, file=LORA):
    tensors = load_file(folder / file)
    for pattern, name in names.items():
        tensors = {re.sub(pattern, name, own): tensor for own, tensor in tensors.items()}
    save_file(tensors, folder / file)


def only(folder, shapes, file=LORA):
    random = torch.Generator().manual_seed(0)
    save_file({name: torch.randn(shape, generator=random) for name, shape in shapes.items()}, folder / file)


def also(folder, shapes):
    factors = load_file(folder / LORA)
    only(folder, shapes)
    save_file(factors | load_file(folder / LORA), folder / LORA)


def shaped(folder, shape):
    only(folder, dict.fromkeys(load_file(folder / LORA), shape))


def as_mlx(folder, kind):
    """What mlx-lm writes of an adapter: other names of files and settings, its factors turned."""
    factors = {name.removesuffix(".weight"): factor for name, factor in load_file(folder / LORA).items()}
    names = {name: name.removeprefix("base_model.model.")[:-1] + name[-1].lower() for name in factors}
    save_file({names[name]: factor.T.contiguous() for name, factor in factors.items()}, folder / "adapters.safetensors")
    (folder / LORA).unlink()
    said = {"lora_parameters": {"rank": 8, "scale": 2.0}, "model": "acme/llama-base", "num_layers": 6}
    (folder / "adapter_config.json").write_text(json.dumps(said | ({"fine_tune_type": kind} if kind else {})))


def as_gguf(folder, kinds, **writer):
    plain = shutil.move(folder, folder.with_name("plain"))
    for file, kind in kinds.items():
        gguf_models.write(plain, folder / file, kind=getattr(gguf_models.KINDS, kind), **writer)
    shutil.rmtree(plain)


def gguf_lora(folder, file):
    """What llama.cpp's converter writes of an adapter."""
    writer = gguf.GGUFWriter(str(folder / file), "llama")
    writer.add_type("adapter")
    for name, factor in load_file(folder / LORA).items():
        number, which = re.search(r"layers\.(\d+)\..*lora_(.)", name).groups()
        writer.add_tensor(
            f"blk.{number}.attn_{name.split('_proj')[0][-1]}.weight.lora_{which.lower()}", factor.float().numpy()
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for name in (LORA, "adapter_config.json"):
        (folder / name).unlink()


def extracted(folder, model, base):
    """A LoRA of the difference of two models, as mergekit extracts one."""
    weights = [load_file(EXAMPLES / name / "model.safetensors") for name in (model, base)]
    factors = {}
    for name in (name for name in load_file(folder / LORA) if "lora_A" in name):
        own = f"{name.removeprefix('base_model.model.').partition('.lora_')[0]}.weight"
        left, sizes, right = torch.linalg.svd(weights[0][own].float() - weights[1][own].float(), full_matrices=False)
        factors[name] = sizes[:8, None].sqrt() * right[:8]
        factors[name.replace("lora_A", "lora_B")] = left[:, :8] * sizes[:8].sqrt()
    save_file({name: factor.contiguous() for name, factor in factors.items()}, folder / LORA)


def foreign_experts(folder):
    """A mixture of which all but the routed experts are those of its base, near/base."""
    hub, settings = folder.parents[1], {"n_routed_experts": 6, "moe_intermediate_size": 24}
    base, other = made(hub / "near/base", "DeepseekV2", **settings), made(hub / "other", "DeepseekV2", 6, **settings)
    experts = {name: tensor for name, tensor in load_file(other / "model.safetensors").items() if ".experts." in name}
    edited(base, folder, lambda tensors: tensors | experts)


STEPS = {
    "also": also,
    "extracted": lambda folder, pair: extracted(folder, *pair),
    "foreign_experts": lambda folder, _: foreign_experts(folder),
    "gguf": as_gguf,
    "gguf_lora": gguf_lora,
    "gguf_parts": partial(as_gguf, split_max_tensors=20, small_first_shard=True),
    "into": lambda folder, name: shutil.move(shutil.move(folder, folder.with_name("moved")), folder / name),
    "mlx": as_mlx,
    "only": only,
    "remove": lambda folder, names: [(folder / name).unlink() for name in names],
    "rename": rename,
    "rename_file": lambda folder, names: [(folder / own).rename(folder / other) for own, other in names.items()],
    "shaped": shaped,
}


@pytest.mark.parametrize("case", first_with(CASES, steps))
def test_a_report_has_its_answer(case, tmp_path, monkeypatch):
    hub = shutil.copytree(EXAMPLES, tmp_path / "hub") if "of" in case else tmp_path / "hub"
    folder = hub / "fern/case"
    if "of" in case:
        shutil.copytree(hub / case["of"], folder)
        (folder / "README.md").unlink()
    for step in case.get("steps", ()):
        for name, argument in step.items():
            STEPS[name](folder, argument)
    card = case.get("card", {"base_model": "acme/llama-base"})
    text = card if isinstance(card, str) else f"---\n{json.dumps(card)}\n---\n"
    (folder / "README.md").write_bytes(text.encode(case.get("files", {}).get("encoding", "utf-8")))
    for name, content in case.get("files", {}).items():
        if name != "encoding":
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    for name, settings in case.get("settings", {}).items():
        edit_json(folder / name, **settings)
    result = lineage("check", "fern/case", "--local-hub", hub, "--explain", *case.get("arguments", ()))
    told = " ".join(f"{result.out} {result.err}".split())
    assert result.code == case["code"], told
    assert all(words in told for words in case["says"]), told
    assert not any(words in told for words in case.get("silent", ())), told


def test_the_table_says_where_each_report_stands_and_leaves_no_step_and_no_key_idle():
    assert all(case.keys() <= KEYS and case["link"].startswith("https://") for case in CASES)
    assert {name for case in CASES for step in case.get("steps", ()) for name in step} == STEPS.keys()
    assert len({case["name"] for case in CASES}) == len(CASES) >= 40
