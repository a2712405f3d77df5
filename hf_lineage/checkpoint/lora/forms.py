"""The table of the forms in which LoRA adapters are published, `registry/loading/adapters.yaml`."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from hf_lineage.architecture.registry import registry_table, setting
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import TensorInfo

Settings = Mapping[str, Any]
forms = functools.partial(registry_table, "loading/adapters.yaml", dict[str, Any])


def form_of(config: Settings) -> tuple[Settings, Settings]:
    """Return the form of an adapter that has a configuration, and its settings by the names that peft gives them."""
    form: Settings = next(one for one in forms()["configured"] if one["key"] in config or not one["key"])
    own = {key: value for key, place in form["settings"].items() if (value := setting(config, place)) is not None}
    return form, {"peft_type": "lora", **own} if form["settings"] else config


def read_pairs(checkpoint: Checkpoint, form: Settings) -> tuple[Checkpoint, dict[str, dict[str, str]]]:
    """Return an adapter with factors in the orientation of peft, and the names of both factors by their module."""
    factor, pairs = re.compile(form["factors"]), defaultdict[str, dict[str, str]](dict)
    for name, info in checkpoint.tensors.items():
        match = factor.fullmatch(name)
        if match and len(info.shape) == 2 and info.numbers and not info.refusal:
            pairs[match["module"]][match["which"].upper()] = name
    turned = [name for pair in pairs.values() for name in pair.values()] if form["turned"] else []
    own = {name: checkpoint.tensors[name].turned() for name in turned}
    return checkpoint.with_tensors({**checkpoint.tensors, **own}), pairs


def instead(tensors: Mapping[str, TensorInfo]) -> Iterator[str]:
    """Yield the contents that a file has in place of pairs of factors, as phrases that follow its name."""
    # Patterns are looked for in so many characters, which bounds their time.
    shown = [f"{name} {info.shape}"[-300:] for name, info in tensors.items()] or [""]
    for names, reason in forms()["instead"].items():
        if match := next(filter(None, map(re.compile(names).search, shown)), None):
            yield reason.format(**match.groupdict())
