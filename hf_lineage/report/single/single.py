"""Reports that judge no claim: the inspection of one model, and the registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hf_lineage.architecture.registry import Factorization, factorizations, listing, similar
from hf_lineage.checking import Inspection, Pairing
from hf_lineage.errors import RegistryError, printable
from hf_lineage.report.formats import bar, table, wrapped
from hf_lineage.report.words import indented


def inspection_text(inspection: Inspection) -> str:
    """Return what one model shows by itself: a table of paths, then each layer's trace concentration."""
    share = inspection.bytes_read / max(inspection.bytes_stored, 1)
    head = (
        f"{printable(inspection.model, 200)}: {printable(inspection.architecture, 100)}, "
        f"factorization {inspection.factorization}, {inspection.layers} layers, width {inspection.width}, "
        f"{inspection.heads} heads; branches take {share:.0%} of {inspection.bytes_stored / 1e6:.1f} MB"
    )
    rows = [
        (path, "-", "-", "-")
        if isinstance(result, str)
        else (path, f"{result.accuracy:.0%}", f"{result.auc:.2f}", f"{(result.signs < 0).mean():.0%}")
        for path, result in inspection.pairings.items()
    ]
    blocks = [wrapped(head), table(("Path", "Pairing accuracy", "AUC", "Negative traces"), rows, numeric=(1, 2, 3))]
    for path, result in inspection.pairings.items():
        if isinstance(result, str):
            blocks.append(wrapped(f"{path}: {printable(result)}"))
        else:
            blocks.append(f"{path}: trace concentration of the plain product, s = |tr M| / ‖M‖\n{_layers(result)}")
    if inspection.unclaimed:
        blocks.append(wrapped(f"Tensors of unknown purpose, not read: {printable(', '.join(inspection.unclaimed))}"))
    return "\n".join(blocks) + "\n"


def inspection_json(inspection: Inspection) -> str:
    """Return the same as JSON, with the whole matrix of scores."""
    plain: dict[str, Any] = {name: getattr(inspection, name) for name in Inspection.__dataclass_fields__}
    plain["pairings"] = {
        path: {"reason": result}
        if isinstance(result, str)
        else {
            "accuracy": result.accuracy,
            "auc": result.auc,
            "layers": list(result.layers),
            "concentration": result.concentration.tolist(),
            "trace_signs": result.signs.tolist(),
            "scores": result.scores.tolist(),
        }
        for path, result in inspection.pairings.items()
    }
    return indented(plain)


def registry_text(architecture: str | None) -> str:
    """Return the classes of every factorization, or how one class is read; RegistryError if it is not there."""
    if architecture is None:
        lines = [wrapped(f"{chosen.name}: {', '.join(chosen.classes)}") for chosen in factorizations()]
        return "\n".join(lines) + "\n"
    return "\n".join(f"{chosen.name}\n{msgspec.yaml.encode(_known(chosen)).decode()}" for chosen in _find(architecture))


def registry_json(architecture: str | None) -> str:
    """Return the factorizations as JSON, all of them or those of one class."""
    matches = factorizations() if architecture is None else _find(architecture)
    return indented([_known(factorization) for factorization in matches])


INSPECTIONS: dict[str, Callable[[Inspection], str]] = {"text": inspection_text, "json": inspection_json}
REGISTRIES: dict[str, Callable[[str | None], str]] = {"text": registry_text, "json": registry_json}


def _find(architecture: str) -> list[Factorization]:
    matches = list(listing(architecture))
    if not matches:
        meant = similar(architecture)
        instead = f"did you mean {meant}?" if meant else "registry/README.md explains how to add a class"
        raise RegistryError(f"{printable(architecture, 200)} is not in the registry; {instead}")
    return matches


def _known(factorization: Factorization) -> dict[str, Any]:
    """Return a factorization as plain values, without what is left at its default."""
    plain: dict[str, Any] = _pruned(msgspec.to_builtins(factorization))
    return plain


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _pruned(item) for key, item in value.items() if item not in (None, [], {}, ())}
    return [_pruned(item) for item in value] if isinstance(value, list | tuple) else value


def _layers(result: Pairing) -> str:
    top = float(result.concentration.max())
    rows = [
        (str(layer), f"{value:.2f}", {1.0: "+", -1.0: "-"}.get(float(sign), " "), bar(float(value), top))
        for layer, value, sign in zip(result.layers, result.concentration, result.signs, strict=True)
    ]
    return table(("Layer", "Plain s", "Sign", ""), rows, numeric=(0, 1))
