"""Coverage: which of transformers' causal language models the registry lists, and why not the others.

The source of the installed transformers is read, never run: importing it takes seconds.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hf_lineage.architecture.registry import factorizations, registry_root, unsupported
from hf_lineage.errors import OptionError

MAPPING = "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"
"""Where transformers says which class a causal language model of a type has."""
_FILE = Path("models", "auto", "modeling_auto.py")


@dataclass(frozen=True)
class Coverage:
    """The classes of causal language models that one release of transformers has, sorted."""

    version: str
    listed: tuple[str, ...]
    """In a factorization, and proved on the real module by the tests."""
    unsupported: Mapping[str, str]
    """Class -> why no factorization can list it."""
    unknown: tuple[str, ...]
    """Classes that are new in this release and not in the registry yet."""

    @property
    def share(self) -> float:
        """The fraction of all classes that is listed."""
        return len(self.listed) / len((*self.listed, *self.unsupported, *self.unknown))


def coverage(root: Path | None = None) -> Coverage:
    """Return how much of the installed transformers the registry covers; raise OptionError if there is none."""
    listed = {name for factorization in factorizations(root) for name in factorization.classes}
    reasons = unsupported(root or registry_root())
    version, source = _installed()
    classes = sorted(set(_classes(source)))
    return Coverage(
        version=version,
        listed=tuple(name for name in classes if name in listed),
        unsupported={name: reasons[name] for name in classes if name in reasons},
        unknown=tuple(name for name in classes if name not in listed and name not in reasons),
    )


def _installed() -> tuple[str, Path]:
    """The version of the installed transformers, and its folder."""
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        raise OptionError("transformers is not installed, so no class can be counted; pip install transformers")
    return importlib.metadata.version("transformers"), Path(spec.origin).parent


def _classes(folder: Path) -> Iterator[str]:
    """Every class that the mapping names; of a type with several classes all of them."""
    try:
        tree = ast.parse((folder / _FILE).read_text(encoding="utf-8"))
        assigned = (node for node in tree.body if isinstance(node, ast.Assign))
        call = next(node.value for node in assigned if list(map(ast.unparse, node.targets)) == [MAPPING])
        entries = ast.literal_eval(call.args[0]) if isinstance(call, ast.Call) else ()
    except (OSError, SyntaxError, StopIteration, ValueError):
        raise OptionError(f"{folder / _FILE} has no {MAPPING} that can be read; try another release") from None
    for _, named in entries:
        yield from (named,) if isinstance(named, str) else named
