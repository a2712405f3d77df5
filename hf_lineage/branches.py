"""Branch: one path through one layer as a sum of products, oriented, unpacked, and prepared as the recipe says.

Every path has the same form, M = Σ a_u out @ inn with `out` (width, h) and `inn` (h, width), one term for each matrix
set, and a_u = 1 unless the recipe weighs hidden units by their expected activity:

- mlp          out = W_down, inn = W_up (mlp_gate: W_gate); the experts of a mixture are terms side by side
- value_output out = W_O, inn = W_V, the value heads repeated to line up with the query heads
- query_key    out = W_Qᵀ, inn = W_K, likewise
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from hf_lineage import activity
from hf_lineage.curves import Activation
from hf_lineage.header import LayerSet
from hf_lineage.layout import Layout
from hf_lineage.matrices import Read, bias, gain, reader, shift, writer
from hf_lineage.recipe import Recipe
from hf_lineage.term import Beside, Inside, Rows, Term

_WRITER = {"mlp": "down", "mlp_gate": "down", "value_output": "output", "query_key": "query"}
_READER = {"mlp": "up", "mlp_gate": "gate", "value_output": "value", "query_key": "key"}


def terms(layout: Layout, path: str, layer: int, recipe: Recipe, read: Read) -> Iterator[Term]:
    """Yield the terms of one branch with the recipe's `gains`, `means` and `activity`; its `cap` is for those who
    multiply.
    """
    routers: dict[str, torch.Tensor] = {}
    for found in layout.sets(path)[layer]:
        yield _Set(layout, found, recipe, read, routers).term(path)


def tensors(layout: Layout, path: str, layer: int, recipe: Recipe) -> tuple[str, ...]:
    """Return the names of the tensors that one branch reads, each once."""
    sets = layout.sets(path)[layer]
    return tuple(dict.fromkeys(name for found in sets for name in _names(found, path, recipe)))


def numbers_made(layout: Layout, path: str, layer: int) -> int:
    """Return how many numbers one branch has to make: heads that read a latent, as what they do to the stream."""
    roles = _WRITER[path], _READER[path]
    through = (found for found in layout.sets(path)[layer] for role in roles if found.slots[role].latent)
    return sum(found.width * found.units for found in through)


def _names(found: LayerSet, path: str, recipe: Recipe) -> Iterator[str]:
    yield from found.read_by(_WRITER[path], _READER[path])
    if not recipe.activity:
        return
    if path == "query_key":
        yield from found.read_by("output", "value")
    if found.activation is not None and path in ("mlp", "mlp_gate"):
        roles = dict.fromkeys((_activated(found), "up"))
        yield from found.read_by(*roles)
        needed = (
            *(found.slots[role].tensor for role in roles),
            found.norm,
            found.fed_by,
            found.router,
            found.correction,
        )
        present = [name for name in needed if name]
        yield from present
        yield from (found.biases[name] for name in present if name in found.biases)


def _activated(found: LayerSet) -> str:
    """The role whose rows are inside the activation."""
    return "gate" if "gate" in found.slots else "up"


@dataclass(frozen=True)
class _Set:
    """A matrix set of one layer, with what it takes to make a term of it."""

    layout: Layout
    found: LayerSet
    recipe: Recipe
    read: Read
    routers: dict[str, torch.Tensor]
    """By router what is known of its experts, for the sets of one layer."""

    @property
    def _layer_norm(self) -> bool:
        return self.layout.factorization.normalization == "layer_norm"

    @property
    def _centred(self) -> bool:
        return self.recipe.means and self._layer_norm

    def term(self, path: str) -> Term:
        """Return the term that the set adds to a path; query and key both read the stream, and neither writes it."""
        if path == "query_key":
            return self._attending()
        found, role = self.found, _READER[path]
        inside = self._inside(path)
        return Term(
            writer(self.layout, found, _WRITER[path], self.read),
            self._reads(role),
            found.heads[role].size,
            writer_gain=self._folded(found.output_norm),
            reader_gain=self._folded(found.norm),
            reader_shift=shift(found, found.norm, self.read) if inside else None,
            unit_gain=self._folded(found.inner_norm),
            centred=self._centred,
            normed=found.output_norm is not None and self.recipe.gains,
            inside=inside,
        )

    def _attending(self) -> Term:
        norm = self._folded(self.found.norm)
        query, key, size = self._reads("query").mT, self._reads("key"), self.found.heads["query"].size
        weigh = self.term("value_output") if self.recipe.activity else None
        return Term(query, key, size, norm, norm, centred=self._centred, weigh=weigh)

    def _reads(self, role: str) -> torch.Tensor:
        return reader(self.layout, self.found, role, self.read, self.recipe.gains)

    def _folded(self, norm: str | None) -> torch.Tensor | None:
        return gain(self.layout, self.found, norm, self.read) if self.recipe.gains and norm else None

    def _inside(self, path: str) -> Inside | None:
        """What the activity of an MLP's hidden units depends on; None where they count in full."""
        found = self.found
        if not self.recipe.activity or found.activation is None or path not in ("mlp", "mlp_gate"):
            return None
        role = _activated(found)
        mean = activity.mean_steepness if path == "mlp_gate" else _MEANS[role]
        as_prepared = role == _READER[path] and self._folds_alike
        return Inside(
            functools.partial(mean, found.activation),
            rows=None if as_prepared else self._rows(role),
            bias=self._bias(role),
            beside=self._beside(path, found.activation) if role == "gate" else None,
            odds=self._odds(),
        )

    def _beside(self, path: str, activated: Activation) -> Beside | None:
        """What the activation of a gate is multiplied with: its spread, and how probable it is within a limit."""
        limited = functools.partial(activity.share_inside, activated)
        if path == "mlp_gate":
            return Beside(self._rows("up"), lambda spread, centre: spread * limited(spread, centre), self._bias("up"))
        return Beside(self._rows("up"), limited, self._bias("up")) if math.isfinite(activated.limit) else None

    def _bias(self, role: str) -> torch.Tensor | None:
        return bias(self.found, role, self.read)

    @property
    def _folds_alike(self) -> bool:
        """Whether the recipe does to a reader what the activity asks for."""
        found = self.found
        return self.recipe.gains and self._centred == self._layer_norm and not found.fed_by and not found.inner_norm

    def _rows(self, role: str) -> Rows:
        """The rows of a role as they see what feeds the branch, which is standard normal once gains are folded in."""
        return self._fed(reader(self.layout, self.found, role, self.read, gains=True))

    def _fed(self, rows: torch.Tensor) -> Rows:
        norm = self.found.fed_by or self.found.norm
        folded = gain(self.layout, self.found, norm, self.read) if norm else None
        return Rows(rows, folded, self._layer_norm, shift(self.found, norm, self.read))

    def _odds(self) -> torch.Tensor | None:
        """(h,): the probability that a token is sent to the expert of each unit."""
        found = self.found
        if found.router is None or found.routed is None:
            return None
        if found.router not in self.routers:
            self.routers[found.router] = self._routed(found.router, found.routed)
        odds = self.routers[found.router]
        if not found.stacked:
            return odds[found.expert].expand(found.units)
        return odds[: math.prod(found.stacked)].repeat_interleave(found.units)

    def _routed(self, router: str, chosen: int) -> torch.Tensor:
        """(experts,): how probable it is that a token is sent to each of them."""
        found = self.found
        spread, centre = self._fed(self.read(router)).measured()
        if router in found.biases:
            centre = centre + self.read(found.biases[router]).double()
        added = self.read(found.correction).double().flatten().cpu().numpy() if found.correction else None
        return torch.from_numpy(activity.routed(spread.cpu().numpy(), centre.cpu().numpy(), chosen, added))


_MEANS = {"gate": activity.mean_value, "up": activity.mean_slope}
