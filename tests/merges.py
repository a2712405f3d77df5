"""Merges that mergekit itself makes of the example models, with its configuration and its card."""

from pathlib import Path
from typing import Any

from tests.blends import BASE, FAR, A, B
from tests.models import EXAMPLES

HUB = EXAMPLES.resolve()
SIBLING = "fern/llama-lora-merged"
"""A descendant of the same base that is in no merge; it learned from the same text as A."""
LAYERS = 6


def part(name: str, **parameters: Any) -> dict[str, Any]:
    """One model of a configuration, with its parameters."""
    return {"model": str(HUB / name), "parameters": parameters}


def slices(*layers: tuple[str, int, int]) -> list[dict[str, Any]]:
    """Slices of one model each, by its first layer and the one after its last."""
    return [{"sources": [{"model": str(HUB / name), "layer_range": [first, end]}]} for name, first, end in layers]


def both(*names: str) -> list[dict[str, Any]]:
    """One slice of all layers of several models."""
    return [{"sources": [{"model": str(HUB / name), "layer_range": [0, LAYERS]} for name in names]}]


def onto_base(method: str, a: float, b: float, **parameters: Any) -> dict[str, Any]:
    """The changes of two models, weighed, added to the base."""
    models = [part(A, weight=a, **parameters), part(B, weight=b, **parameters)]
    return {"merge_method": method, "base_model": str(HUB / BASE), "models": models}


CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "linear": {"merge_method": "linear", "models": [part(A, weight=0.7), part(B, weight=0.3)]},
    "three": {"merge_method": "linear", "models": [part(A, weight=5), part(B, weight=3), part(FAR, weight=2)]},
    "slerp": {"merge_method": "slerp", "base_model": str(HUB / A), "slices": both(A, FAR), "parameters": {"t": 0.4}},
    "task": onto_base("task_arithmetic", 0.8, 0.5),
    "ties": onto_base("ties", 0.6, 0.4, density=0.5),
    "dare": onto_base("dare_ties", 0.6, 0.4, density=0.4),
    "dare_linear": onto_base("dare_linear", 0.6, 0.4, density=0.3),
    "through": {"merge_method": "passthrough", "slices": slices((A, 0, 4), (B, 2, 6))},
}


def merged(name: str, folder: Path, seed: int = 0, **changes: Any) -> Path:
    """Let mergekit write one of the merges, and name its parents as they are named on the Hub."""
    from mergekit.config import MergeConfiguration
    from mergekit.merge import run_merge
    from mergekit.options import MergeOptions

    configuration = MergeConfiguration.model_validate({**CONFIGURATIONS[name], "dtype": "float32", **changes})
    run_merge(configuration, str(folder), MergeOptions(copy_tokenizer=False, quiet=True, random_seed=seed))
    for file in (folder / "mergekit_config.yml", folder / "README.md"):
        file.write_text(file.read_text(encoding="utf-8").replace(f"{HUB}/", ""), encoding="utf-8")
    return folder
