"""Steps: what people and their tools do to a model before they publish it; each takes the folder of its repository."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import onnx
import torch
from safetensors.torch import save_file

from tests import ctranslate2_models, onnx_models
from tests.models import WEIGHTS, edit_json, shard, spoil

INDEX, GRAPH = "model.safetensors.index.json", "onnx/model.onnx"
Step = Callable[[Path], object]


def origin(folder: Path) -> None:
    edit_json(folder / "config.json", _name_or_path="acme/base")


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
    into("text_encoder")(folder)
    (folder / "unet").mkdir()
    edit_json(folder / "unet/config.json", _class_name="UNet2DConditionModel")
    parts = {"text_encoder": ["transformers", "X"], "unet": ["diffusers", "UNet2DConditionModel"]}
    edit_json(folder / "model_index.json", _class_name="Pipeline", **parts)


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


def ctranslate2(quantization: str | None = None) -> Step:
    """A step that writes the model by CTranslate2, whose configuration takes the place of its own."""

    def store(folder: Path) -> None:
        ctranslate2_models.written(folder, folder, quantization)
        (folder / WEIGHTS).unlink()

    return store


STEPS: dict[str, Step] = {
    "another_name": another_name,
    "checkpoints": checkpoints,
    "ctranslate2": ctranslate2(),
    "ctranslate2_int8": ctranslate2("int8"),
    "compiled": wrapped("_orig_mod."),
    "folder": into("model"),
    "fused_graph": fused_graph,
    "graph": graph,
    "graph_in_4_bits": as_graph("model_q4", partial(onnx_models.blocks, size=16)),
    "graph_in_8_bits": as_graph("model_quantized", onnx_models.dynamic),
    "graph_in_8_bits_too": as_graph("model_quantized", onnx_models.dynamic, alone=False),
    "graph_without_configuration": graph_without_configuration,
    "makers_names": makers_names,
    "makers_parameters": makers_parameters,
    "nameless": nameless,
    "nameless_graph": nameless_graph,
    "only_pickle": only_pickle,
    "origin": origin,
    "other_origin": other_origin,
    "other_tensors": other_tensors,
    "outside": outside,
    "parallel": wrapped("module."),
    "peft": wrapped("base_model.model."),
    "pickle": pickle,
    "pipeline": pipeline,
    "renamed": renamed,
    "sentence_transformer": sentence_transformer,
    "several_graphs": several_graphs,
    "shards": shard,
    "shards_without_index": shards_without_index,
    "two_files": two_files,
    "variant": variant,
}
"""The name in repositories.yaml -> the step."""
