"""Reports that judge no claim: the inspection of one model, the registry, and what checks depend on.

The registry is shown as it is, by how many of the classes of transformers it covers, and by the proof of a
factorization.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from hf_lineage.architecture.drafting import Coverage
from hf_lineage.architecture.registry import Factorization, factorizations, listing, similar
from hf_lineage.checking.single import Finding, Inspection, Pairing
from hf_lineage.errors import RegistryError, printable
from hf_lineage.report.formats import WIDTH, bar, table, wrapped
from hf_lineage.report.words import encode, indented

if TYPE_CHECKING:
    from hf_lineage.running.proof import Proof


def inspection_text(inspection: Inspection) -> str:
    """Return what one model shows by itself: a table of paths, then each layer's trace concentration."""
    share = inspection.bytes_read / max(inspection.bytes_stored, 1)
    head = (
        f"{printable(inspection.model, 200)}: {printable(inspection.architecture, 100)}, "
        f"factorization {inspection.factorization}, {inspection.layers} layers, "
        f"width {inspection.width}, {inspection.heads} heads; branches take {share:.0%} of "
        f"{inspection.bytes_stored / 1e6:.1f} MB"
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
            blocks.append(f"{path}: trace concentration s = |tr M| / ‖M‖\n{_layers(result)}")
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


def diagnosis_text(findings: Sequence[Finding]) -> str:
    """Return a line for each finding, or more where it is long."""
    states, names = (max(map(len, column)) + 2 for column in zip(*((f.state, f.about) for f in findings), strict=True))
    indent = " " * (states + names)
    lines = (f"{f.state:{states}}{f.about:{names}}{printable(f.sentence)}" for f in findings)
    return (
        "\n".join(textwrap.fill(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False) for line in lines) + "\n"
    )


def diagnosis_json(findings: Sequence[Finding]) -> str:
    """Return the findings as JSON."""
    return encode([asdict(finding) for finding in findings])


INSPECTIONS: dict[str, Callable[[Inspection], str]] = {"text": inspection_text, "json": inspection_json}
REGISTRIES: dict[str, Callable[[str | None], str]] = {"text": registry_text, "json": registry_json}
DIAGNOSES: dict[str, Callable[[Sequence[Finding]], str]] = {"text": diagnosis_text, "json": diagnosis_json}


def _find(architecture: str) -> list[Factorization]:
    matches = list(listing(architecture))
    if not matches:
        meant = similar(architecture)
        instead = f"did you mean {meant}?" if meant else "registry/README.md explains how to add a class"
        raise RegistryError(f"{printable(architecture, 200)} is not in the registry; {instead}")
    return matches


def _known(factorization: Factorization) -> dict[str, Any]:
    """A factorization as plain values, without what is left at its default."""
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
    return table(("Layer", "s", "Sign", ""), rows, numeric=(0, 1))


def coverage_text(coverage: Coverage) -> str:
    """Return the numbers, then the classes that are not covered and why, then those not reviewed yet."""
    return "\n".join(_covered(coverage)) + "\n"


def coverage_json(coverage: Coverage) -> str:
    """Return the same as JSON."""
    return indented(asdict(coverage) | {"share": coverage.share})


COVERAGES: dict[str, Callable[[Coverage], str]] = {"text": coverage_text, "json": coverage_json}


def _covered(coverage: Coverage) -> Iterator[str]:
    yield wrapped(counted(coverage))
    if coverage.unsupported:
        yield "\nNot covered:"
    for reason in dict.fromkeys(coverage.unsupported.values()):
        classes = (name for name, why in coverage.unsupported.items() if why == reason)
        yield wrapped(f"- {', '.join(classes)}: {reason}")
    if coverage.unknown:
        yield "\n" + wrapped(f"Not reviewed yet: {', '.join(coverage.unknown)}.")


def counted(coverage: Coverage) -> str:
    """Return the numbers in a sentence."""
    everything = len(coverage.listed) + len(coverage.unsupported) + len(coverage.unknown)
    return (
        f"The registry covers {len(coverage.listed)} of the {everything} classes of causal language models in "
        f"transformers {coverage.version} ({coverage.share:.1%}), each proved on the real module by "
        "tests/test_conformance.py."
    )


ADVICE = {
    "names_unseen": "no tiny model of the class has tensors with these names",
    "unclaimed": "matrices that no branch reads; add them to a branch or to `ignores`",
    "deviations": "products that the module does not compute; see the roles, the norms and `gain`",
    "layers_left_out": "layers that `layers` does not name",
    "norms_left_out": "norms that feed a branch, but no set names them",
    "gains_left_out": "gains that no set names",
    "output_norms_mistaken": "an `output_norm` that is not one, or one that is left out",
    "wrong_normalization": "norms of another kind than `normalization` says",
    "against_plan": "reader and writer are exchanged, by the tensor-parallel plan of transformers",
    "inactive": "`activation`, `fed_by`, `router`, `correction` or `routed` do not describe the module",
    "activations_mistaken": "with another activation in config.json the module computes something else",
    "feeding_mistaken": "another norm feeds the branch",
    "routing_mistaken": "tokens reach other experts",
    "activations_unproved": "no unit of these layers ran",
    "unfinished": "no tiny model could be made, read with the file and run",
}
"""The rule that noticed something -> what that means."""
MOST_SHOWN = 300
"""Characters of what a rule noticed."""


def proof_text(proof: Proof) -> str:
    """Return whether the proof holds and, if not, what the module does otherwise."""
    return "\n".join(wrapped(line) for line in _proved(proof)) + "\n"


def proof_json(proof: Proof) -> str:
    """Return the same as JSON."""
    faults = {name: printable(_shown(seen), MOST_SHOWN) for name, seen in proof.faults.items()}
    return indented(asdict(proof) | {"proved": proof.holds, "faults": faults})


PROOFS: dict[str, Callable[[Proof], str]] = {"text": proof_text, "json": proof_json}


def _proved(proof: Proof) -> Iterator[str]:
    subject = f"{proof.factorization}.yaml for {printable(proof.architecture, 200)}"
    if proof.holds:
        yield (
            f"Proved: every product that {subject} names is what the module of transformers {proof.release} computes. "
            "Until the file changes, reports on this machine no longer call it unproved. No run of a module can show "
            "whether residual coordinates are alike (`exchangeable`): you must decide that."
        )
        return
    yield f"Not proved: {subject} is not what the module of transformers {proof.release} computes."
    for name, seen in proof.faults.items():
        yield f"- {name}: {printable(_shown(seen), MOST_SHOWN)}; {ADVICE.get(name, 'see registry/README.md')}"


def _shown(seen: Any) -> str:
    """What a rule noticed, in a line."""
    if isinstance(seen, dict):
        return ", ".join(f"{name} ({_shown(value)})" for name, value in seen.items())
    if isinstance(seen, float):
        return f"off by {seen:.2g}"
    return ", ".join(map(str, seen)) if isinstance(seen, list | tuple | set) else str(seen)
