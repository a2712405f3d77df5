"""Write the tables of the tensors that the classes of transformers load anew: `python -m tests.tensors [NAME ...]`."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from hf_lineage.architecture.registry import factorizations
from hf_lineage.architecture.schema import Factorization
from tests.conformance.models import transformers
from tests.tensors.derive import beside, entries, layers, named_beside
from tests.tensors.explore import explored

FOLDER = Path("registry/tensors")


def plainly(factorization: Factorization, name: str) -> tuple[str, str, set[tuple[str, ...]]]:
    """Return all that tells a class from others, by its variants alone, and every name beside its layers."""
    looks = [family[0].found for family in explored(factorization, name, deep=False)]
    found = [layers(factorization, one) for one in looks]
    prefixes = sorted(set().union(*(prefixes for _, prefixes in found)))
    outside = [beside(factorization, one, set(prefixes)) for one in looks]
    always = [names for names in outside[0] if all(names in other for other in outside)]
    inside = [sorted((*place, sorted(groups)) for place, groups in of_look.items()) for of_look, _ in found]
    kind = getattr(transformers, name).config_class.__name__
    others = set().union(*(named_beside(factorization, one) for one in looks))
    return json.dumps([kind, inside]), json.dumps({"prefixes": prefixes, "beside": always}), others


def table(factorization: Factorization) -> dict[str, Any] | None:
    """What is stored of a factorization; None if transformers has none of its classes."""
    by_kind: dict[str, list[str]] = defaultdict(list)
    outside: dict[str, str] = {}
    others: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for name in (name for name in factorization.classes if hasattr(transformers, name)):
        kind, outside[name], beside_layers = plainly(factorization, name)
        by_kind[kind].append(name)
        others[getattr(transformers, name).config_class.__name__] |= beside_layers
    stored, known = list[str](), list[list[tuple[str, ...]]]()
    classes: dict[tuple[str, int, int], list[str]] = defaultdict(list)
    for names in by_kind.values():
        found = entries(factorization, names[0], explored(factorization, names[0]))
        text = json.dumps({stack: merged(of_stack) for stack, of_stack in found.items()})
        groups = others[getattr(transformers, names[0]).config_class.__name__]
        of_kind = sorted(one for one in groups if not any(set(one) < set(other) for other in groups))
        stored += [] if text in stored else [text]
        known += [] if of_kind in known else [of_kind]
        for name in names:
            classes[outside[name], stored.index(text), known.index(of_kind)].append(name)
    rows = [
        {"classes": sorted(names), **json.loads(text), "layers": at, "others": number}
        for (text, at, number), names in classes.items()
    ]
    said = {"classes": sorted(rows, key=lambda row: row["classes"]), "layers": [json.loads(text) for text in stored]}
    return said | {"others": known} if stored else None


def merged(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries with the same condition that nothing else may stand for, together."""
    joined: dict[str, dict[str, Any]] = {}
    for one in entries:
        key = json.dumps(one if "or" in one else {key: value for key, value in one.items() if key != "names"})
        names = joined.setdefault(key, {**one, "names": []})["names"]
        joined[key]["names"] = sorted(names + one["names"])
    return list(joined.values())


def lines(value: Any, depth: int = 0) -> str:
    """JSON with an entry on a line of its own."""
    if depth > 1 or not isinstance(value, dict | list) or not value:
        return json.dumps(value)
    if isinstance(value, list):
        return "[\n" + ",\n".join(lines(each, depth + 1) for each in value) + "\n]"
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {lines(each, depth + 1)}" for key, each in value.items()) + "\n}"


def main() -> None:
    """Write the file of every factorization, or of those that are named, and say of what no condition was found."""
    FOLDER.mkdir(exist_ok=True)
    for factorization in factorizations():
        if factorization.name in (sys.argv[1:] or [factorization.name]) and (said := table(factorization)):
            (FOLDER / f"{factorization.name}.json").write_text(lines(said) + "\n", encoding="utf-8")
            every = [entry for stacks in said["layers"] for of_stack in stacks.values() for entry in of_stack]
            unclear = [one["names"] or one["or"] for one in every if "maybe" in json.dumps(one.get("when", ""))]
            doubtful = [name for names in unclear for name in names]
            counts = len(said["classes"]), len(said["layers"]), len(doubtful)
            print(factorization.name, *counts, doubtful[:3], flush=True)


if __name__ == "__main__":
    main()
