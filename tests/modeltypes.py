"""Write the table of transformers' classes and model types anew: `python -m tests.modeltypes`."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from hf_lineage.architecture.registry import factorizations
from tests.conformance.models import known_classes, transformers

TABLE = Path("registry/loading/model_types.json")
KINDS = {"depth": int, "activation": str}


def by_tables(start: str = "") -> dict[str, set[str]]:
    """By class that a table of transformers names the model types for which it does; tables that begin so."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, mapping in vars(modeling_auto).items():
        if name.startswith(start) and name.endswith("_MAPPING_NAMES"):
            for kind, classes in mapping.items():
                for each in (classes,) if isinstance(classes, str) else classes:
                    found[each].add(kind)
    return found


def types_by_class(step: int = 1) -> dict[str, set[str]]:
    """By class that the registry lists, or every so many of them, the model types for which transformers loads it."""
    found = by_tables()
    known = sorted({name for listed in factorizations() for name in listed.classes if name in known_classes()})[::step]
    return {name: found[name] | {getattr(transformers, name).config_class.model_type} for name in known}


def by_default(kind: str) -> dict[str, Any]:
    """How many layers a configuration of a type has by default, and which activation."""
    try:
        config: Any = CONFIG_MAPPING[kind]()
    except (KeyError, ImportError, ValueError, TypeError, AttributeError):
        return {}
    found = {"depth": getattr(config, "num_hidden_layers", None), "activation": getattr(config, "hidden_act", None)}
    return {key: value for key, value in found.items() if value and isinstance(value, KINDS[key])}


def table() -> str:
    """The whole file."""
    by_type: dict[str, list[str]] = defaultdict(list)
    for name, kinds in sorted(types_by_class().items()):
        for kind in kinds:
            by_type[kind].append(name)
    said = {kind: by_default(kind) | {"classes": names} for kind, names in sorted(by_type.items())}
    return "{\n" + ",\n".join(f"{json.dumps(kind)}: {json.dumps(each)}" for kind, each in said.items()) + "\n}\n"


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
