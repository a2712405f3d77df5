"""Storage formats: the table of those that are decoded, and of those that are known and refused by name."""

from collections.abc import Callable, Mapping
from typing import Any

from hf_lineage.architecture.registry import registry_table
from hf_lineage.checkpoint.formats import modules
from hf_lineage.checkpoint.formats.bitsandbytes import EIGHT_BITS, FOUR_BITS
from hf_lineage.checkpoint.formats.compressed_tensors import COMPRESSED
from hf_lineage.checkpoint.formats.grouped import AUTO_ROUND, AWQ, GPTQ, HQQ, MLX
from hf_lineage.checkpoint.formats.scaled import BITNET, FP8, GPT_OSS, QUANTO, TORCHAO
from hf_lineage.checkpoint.tensor import StoredTensor, TensorInfo
from hf_lineage.errors import Ambiguous, CheckpointError, NothingToCompare, printable
from hf_lineage.hub.repo import RepoRef

TABLE = registry_table("loading/quantized.yaml", dict[str, dict[str, Any]])
BY_METHOD = TABLE["methods"]  # value of `quant_method` in config.json -> the name of the format
BY_END = TABLE["ends"]  # end of a name that only one format has -> its name; some repositories name it nowhere else
FUSED = ("weight_input", "weight_output", "q_attn", "k_cache")
"""Places of a transform that is in the stored numbers already, or that rotates queries and keys alike."""
FORMATS = (FP8, GPTQ, AWQ, AUTO_ROUND, FOUR_BITS, EIGHT_BITS, COMPRESSED, GPT_OSS, BITNET, TORCHAO, HQQ, QUANTO, MLX)


def with_file_beside(repo: RepoRef, config: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return `config.json`, or with what the only file beside it says of the quantization and a sentence on that."""
    stated_here = any(map(config.get, modules.SETTINGS))
    files = [name for name in TABLE["side_files"] if not stated_here and repo.offers(name)]
    if len(files) > 1:
        raise Ambiguous(f"{repo}: {' and '.join(files)} say how the weights are quantized; keep one of them")
    if not files:
        return config, ""
    repo.fetch(*files)
    known, stated = TABLE["side_files"][files[0]], repo.read_json(files[0]) or {}
    own, names = stated.get(known["at"]) if "at" in known else stated, known.get("renamed", {})
    keys = {names.get(key, key): value for key, value in (own if isinstance(own, dict) else {}).items()}
    keys["quant_method"] = keys.get("quant_method") or known.get("method")
    note = f"{files[0]} says how the weights are quantized, and config.json does not; transformers reads that alone"
    return {**config, "quantization_config": keys}, note


def tensors_of(
    stored: Mapping[str, StoredTensor], config: Mapping[str, Any], fetch: Callable[[list[str]], None] = lambda _: None
) -> dict[str, TensorInfo]:
    """Return the tensors of a model, once `fetch` has got those that describe others; raise where no format fits."""
    storage = next((entry for entry in FORMATS if entry.recognises(stored, config)), None)
    if storage:
        fetch(storage.first_read(stored))
    packed = [] if storage else [name for name, tensor in stored.items() if tensor.dtype not in modules.FLOATS]
    ends = (name for end, name in BY_END.items() if any(tensor.endswith(end) for tensor in packed))
    other = (BY_METHOD.get(modules.method(config)) or next(ends, None)) if packed else None
    if packed and not other and config.get("quantization_config"):
        types = {tensor.dtype for tensor in stored.values()} - modules.FLOATS - modules.CAST
        forms = printable(", ".join(sorted(types)) or "F8", 200)
        why, scheme = ", and config.json does not say how", printable(modules.method(config), 50)
        if scheme not in ("", "mlx"):  # MLX has no name in a configuration
            why = f"; config.json names `{scheme}`, but hf-lineage does not decode this form of it"
        raise NothingToCompare(f"the weights are quantized ({forms}){why}; {modules.INSTEAD}")
    if key := _rotation(config):
        what = f"stored rotated (`{key}` in config.json, as by QuaRot or SpinQuant), which is not read"
        raise CheckpointError(f"the weights are {what}; check the original of the same model")
    if other:
        raise modules.not_decoded(f"as {other}, which is not decoded")
    return storage.tensors(stored, config) if storage else modules.plain_tensors(stored)


def _rotation(config: Mapping[str, Any]) -> str | None:
    """Return the key of the quantization that says that stored numbers are not what the model computes with."""
    stated = modules.settings(config)
    written = stated.get("transform_config") if modules.method(config) == "compressed-tensors" else None
    groups = written.get("config_groups") if isinstance(written, dict) else None
    for group in groups.values() if isinstance(groups, dict) else ():
        places = group.get("apply") if isinstance(group, dict) else None
        for place in places if isinstance(places, list) else [None]:
            if not isinstance(place, dict) or place.get("location") not in FUSED:
                return "transform_config"
    return next((key for key in ("rotation", "rotation_config") if stated.get(key)), None)
