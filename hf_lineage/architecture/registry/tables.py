"""Tables: the files of the registry that stand beside the factorizations, each checked against a type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hf_lineage.errors import RegistryError


def read_table(root: Path, file: str, kind: Any) -> Any:
    """Return what a YAML or JSON file of a registry's folder holds, as a value of this type.

    Raise RegistryError if it is missing or holds anything else.
    """
    parse = json.loads if file.endswith(".json") else yaml.safe_load
    try:
        return msgspec.convert(parse((root / file).read_text(encoding="utf-8")), kind)
    except (OSError, ValueError, yaml.YAMLError, msgspec.ValidationError, AttributeError, TypeError) as error:
        raise RegistryError(f"{file}: {error}; registry/README.md documents the schema") from None
