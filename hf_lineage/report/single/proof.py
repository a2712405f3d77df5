"""The proof of a factorization as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hf_lineage.errors import printable
from hf_lineage.report.formats import wrapped
from hf_lineage.report.words import indented

if TYPE_CHECKING:
    from hf_lineage.running.proof import Proof

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
SHOWN = 300
"""Characters of what a rule noticed."""


def text(proof: Proof) -> str:
    """Return whether the proof holds and, if not, what the module does otherwise."""
    return "\n".join(wrapped(line) for line in _lines(proof)) + "\n"


def json(proof: Proof) -> str:
    """Return the same as JSON."""
    faults = {name: printable(_shown(seen), SHOWN) for name, seen in proof.faults.items()}
    return indented(asdict(proof) | {"proved": proof.holds, "faults": faults})


PROOFS: dict[str, Callable[[Proof], str]] = {"text": text, "json": json}


def _lines(proof: Proof) -> Iterator[str]:
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
        yield f"- {name}: {printable(_shown(seen), SHOWN)}; {ADVICE.get(name, 'see registry/README.md')}"


def _shown(seen: Any) -> str:
    """What a rule noticed, in a line."""
    if isinstance(seen, dict):
        return ", ".join(f"{name} ({_shown(value)})" for name, value in seen.items())
    if isinstance(seen, float):
        return f"off by {seen:.2g}"
    return ", ".join(map(str, seen)) if isinstance(seen, list | tuple | set) else str(seen)
