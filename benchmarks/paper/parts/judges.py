"""The methods on saved GPT-2 models: ours through the library, rivals on weights, rivals that read held-out text."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.paper.parts import baselines
from benchmarks.paper.parts.baselines import by_layer, cka, svcca
from benchmarks.paper.parts.gpt2 import VERSION, Benchmark, load
from benchmarks.paper.parts.scores import EXACT
from hf_lineage import Options, compare, extract
from hf_lineage.errors import NothingToCompare
from hf_lineage.evidence.verdict import Evidence, Verdict
from hf_lineage.signature.factors import matrix_products
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.values import PathSignature
from hf_lineage.source.headers import headers
from hf_lineage.source.locate import locate, weights

Block = tuple[Tensor, Tensor]
OURS, ROBUST = "ours", "robust"
NEAR = 0.1  # the share of positions nearest to the boundary that IPGuard looks at

Score = Callable[[Path, Path], float]


def layers(model: Path | str, path: str = "mlp") -> Iterator[Block]:
    """Yield the matrix that reads the stream (h, d) and that which writes it (d, h), of every layer of a model."""
    opened = headers(weights(str(model), locate(str(model))))
    checkpoint, layout = opened.checkpoint, opened.layout
    for number in layout.numbers(path):
        parts = list(matrix_products(layout, path, number, EXACT, checkpoint.read))
        readers, writers = np.concatenate([part.inn for part in parts]), np.hstack([part.out for part in parts])
        yield torch.from_numpy(readers), torch.from_numpy(writers)


def tensors(folder: Path | str, path: str = "mlp") -> list[Block]:
    return list(layers(folder, path))


def evidence(reference: Path | str, suspect: Path | str, options: Options) -> tuple[Verdict, Evidence]:
    """Return the verdict of the library on two models, and the evidence of it; raise NothingToCompare without any."""
    (row,) = compare(str(reference), str(suspect), options).rows
    if "mlp" not in row.verdict.evidence:
        raise NothingToCompare(f"{row.verdict.label}: {row.verdict.reason}")
    return row.verdict, row.verdict.evidence["mlp"]


def lineage(reference: Path | str, suspect: Path | str) -> float:
    return evidence(reference, suspect, Options(recipe=EXACT, seed=0))[1].comparison.score


def lineage_signature(folder: Path | str) -> PathSignature:
    """Return the paper's signature of a model's MLPs, whole."""
    return extract(str(folder), Options(recipe=EXACT)).paths["mlp"]


def robust(reference: Path, suspect: Path) -> float:
    """Return the score that `hf-lineage compare` reports, by its own recipe and from its sketch."""
    return evidence(reference, suspect, Options(recipe=RECIPES["robust"], seed=0))[1].comparison.score


def verdict(reference: Path, suspect: Path) -> float:
    """Return 1 where `hf-lineage compare` calls two models related, and 0 otherwise."""
    return float(evidence(reference, suspect, Options(seed=0))[0].is_related)


def of_weights(method: Callable[[baselines.Blocks, baselines.Blocks], float]) -> Score:
    """Return a rival that reads weights as one of two saved models."""

    def scored(reference: Path, suspect: Path) -> float:
        return method(*(baselines.arrays(tensors(folder)) for folder in (reference, suspect)))

    return scored


@dataclass(frozen=True)
class Readers:
    """The rivals that run both models on held-out windows (b, t)."""

    windows: Tensor
    seen: dict[Path, tuple[list[Tensor], Tensor]] = field(default_factory=dict)

    def run(self, folder: Path) -> tuple[list[Tensor], Tensor]:
        """Return what the residual stream carries before the first block and after each (b, t, d), and the logits."""
        if folder not in self.seen:
            with torch.no_grad():
                said = load(folder)(input_ids=self.windows, output_hidden_states=True)
            self.seen[folder] = list(said.hidden_states), said.logits
        return self.seen[folder]

    def svcca(self, reference: Path, suspect: Path) -> float:
        return by_layer(svcca, self.run(reference)[0], self.run(suspect)[0])

    def cka(self, reference: Path, suspect: Path) -> float:
        return by_layer(cka, self.run(reference)[0], self.run(suspect)[0])

    def ipguard(self, reference: Path, suspect: Path) -> float:
        """Return the share of positions near the reference's boundary at which both say the same token.

        Tokens have no gradient that IPGuard could follow to the boundary, so the positions of held-out text at which
        the reference's two likeliest tokens differ least are its fingerprint.
        """
        (_, ours), (_, theirs) = self.run(reference), self.run(suspect)
        first, second = ours.topk(2, dim=-1).values.unbind(-1)
        margin = (first - second).flatten()
        near = margin.argsort()[: max(1, round(NEAR * len(margin)))]
        return float((ours.argmax(-1) == theirs.argmax(-1)).flatten()[near].float().mean())

    @property
    def by_name(self) -> Mapping[str, Score]:
        """The three, as the tables name them."""
        return {"SVCCA": self.svcca, "CKA": self.cka, "IPGuard": self.ipguard}


BY_WEIGHTS: Mapping[str, Score] = {OURS: lineage} | {name: of_weights(run) for name, run in baselines.METHODS.items()}


@dataclass(frozen=True)
class Judged:
    """Pairs of the test roots, and what the methods say of them."""

    kinds: list[str]
    related: list[bool]
    scores: dict[str, list[float]]

    def of(self, method: str, *kinds: str) -> list[float]:
        return [score for score, kind in zip(self.scores[method], self.kinds, strict=True) if kind in kinds]

    def split(self, method: str) -> tuple[list[float], list[float]]:
        """Return a method's scores of related and of unrelated pairs."""
        values, related = np.array(self.scores[method]), np.array(self.related)
        return list(values[related]), list(values[~related])


@dataclass(frozen=True)
class Jury:
    """The methods on the benchmark's pairs; what was scored once is not scored again."""

    benchmark: Benchmark

    @cached_property
    def readers(self) -> Mapping[str, Score]:
        """The rivals that run the models, on held-out text."""
        plan = self.benchmark.plan
        return Readers(self.benchmark.corpus.windows(plan.held_out // 4, plan.shape.context)).by_name

    def judged(self, methods: Mapping[str, Score], roots: tuple[int, ...] | None = None) -> Judged:
        """Return what some methods say of the pairs of the test roots, or of others."""
        return self._judged(methods, roots, laundered=False)

    def laundered(self, methods: Mapping[str, Score]) -> Judged:
        """Return what some methods say once the descendants are laundered; who is unrelated has nothing to hide."""
        return self._judged(methods, None, laundered=True)

    def _judged(self, methods: Mapping[str, Score], roots: tuple[int, ...] | None, laundered: bool) -> Judged:
        pairs = list(self.benchmark.pairs(roots))
        suspects = [self.benchmark.laundered(pair) if laundered and pair.related else pair.suspect for pair in pairs]
        scores = {
            name: [
                self._score(name, method, pair.reference, suspect)
                for pair, suspect in zip(pairs, suspects, strict=True)
            ]
            for name, method in methods.items()
        }
        return Judged([pair.kind for pair in pairs], [pair.related for pair in pairs], scores)

    def _score(self, name: str, method: Score, reference: Path, suspect: Path) -> float:
        depends = [VERSION, name, reference.name, suspect.name, self.benchmark.plan.held_out]
        return self.benchmark.cache.kept("gpt2-scores", depends, lambda: method(reference, suspect))
