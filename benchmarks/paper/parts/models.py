"""The paper's residual MLP, and the same without its skips: many networks of one shape side by side.

x ← relu(E x);  x ← x + W_out relu(W_in x + b_in) + b_out for each of L blocks;  y = H x. Every tensor has the
networks along its first axis, so that a family of models trains in about the time of one.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

BRANCH = ("w_in", "b_in", "w_out", "b_out")
"""What stands in the blocks, with the networks and then the layers along the first axes."""


@dataclass(frozen=True)
class Shape:
    """The sizes of one network."""

    inputs: int = 16
    width: int = 48
    hidden: int = 48
    layers: int = 16
    outputs: int = 1
    skip: bool = True  # without it a block is W_out relu(W_in x + b_in) + b_out: the paper's PlainNet


@dataclass(frozen=True)
class Networks:
    """n networks of one shape."""

    shape: Shape
    weights: Mapping[str, Tensor]
    """embed (n, d, in), w_in (n, L, h, d), b_in (n, L, h), w_out (n, L, d, h), b_out (n, L, d), head (n, out, d)."""

    def __len__(self) -> int:
        return len(self.weights["embed"])

    def __getitem__(self, which: int | slice) -> Self:
        """Return one of the networks, by itself, or some of them."""
        some = which if isinstance(which, slice) else slice(which, which + 1)
        return self.changed(lambda tensor: tensor[some])

    def __iter__(self) -> Iterator[Self]:
        return (self[number] for number in range(len(self)))

    def changed(self, change: Callable[[Tensor], Tensor], only: Sequence[str] | None = None) -> Self:
        """Return the networks with a function of every tensor, or of those named, in its place."""
        return replace(
            self,
            weights={
                name: tensor if only is not None and name not in only else change(tensor)
                for name, tensor in self.weights.items()
            },
        )

    def having(self, **tensors: Tensor) -> Self:
        """Return the networks with other tensors under these names."""
        return replace(self, weights={**self.weights, **tensors})

    def repeated(self, count: int) -> Self:
        """Return so many copies of every network, those of one beside each other."""
        return self.changed(lambda tensor: tensor.repeat_interleave(count, dim=0))

    @property
    def blocks(self) -> list[tuple[Tensor, Tensor]]:
        """W_in (h, d) and W_out (d, h) of every layer of a single network."""
        (w_in,), (w_out,) = self.weights["w_in"], self.weights["w_out"]
        return list(zip(w_in, w_out, strict=True))


def joined(several: Sequence[Networks]) -> Networks:
    """Return networks of one shape side by side."""
    names = several[0].weights
    return replace(
        several[0], weights={name: torch.cat([networks.weights[name] for networks in several]) for name in names}
    )


def streams(networks: Networks, inputs: Tensor) -> Iterator[Tensor]:
    """Yield what the residual stream carries (n, b, d): before the first block, and after each.

    All networks see the same inputs (b, in), or each its own (n, b, in).
    """
    weights, shape = networks.weights, networks.shape
    stream = torch.relu(inputs @ weights["embed"].mT)
    yield stream
    for layer in range(shape.layers):
        w_in, b_in, w_out, b_out = (weights[name][:, layer] for name in BRANCH)
        hidden = torch.relu(torch.baddbmm(b_in[:, None], stream, w_in.mT))
        branch = torch.baddbmm(b_out[:, None], hidden, w_out.mT)
        stream = stream + branch if shape.skip else branch
        yield stream


def alone(networks: Networks, stream: Tensor) -> Iterator[Tensor]:
    """Yield what every block's branch (n, b, d) makes of the same stream (b, d)."""
    for w_in, b_in, w_out, b_out in zip(*(networks.weights[name].unbind(1) for name in BRANCH), strict=True):
        hidden = torch.relu(stream @ w_in.mT + b_in[:, None])
        yield hidden @ w_out.mT + b_out[:, None]


def outputs(networks: Networks, inputs: Tensor) -> Tensor:
    """Return what every network says (n, b, out) to inputs (b, in), or (n, b, in)."""
    *_, last = streams(networks, inputs)
    return last @ networks.weights["head"].mT


Scheme = Callable[[Tensor, torch.Generator], Tensor]
"""An initialisation: fills a matrix (out, in) in place, and returns it."""

SCHEMES: Mapping[str, Scheme] = {
    "default": lambda matrix, random: nn.init.kaiming_uniform_(matrix, a=5**0.5, generator=random),
    "orthogonal": lambda matrix, random: nn.init.orthogonal_(matrix, generator=random),
    "kaiming-normal": lambda matrix, random: nn.init.kaiming_normal_(matrix, generator=random),
    "kaiming-uniform": lambda matrix, random: nn.init.kaiming_uniform_(matrix, generator=random),
    "xavier-normal": lambda matrix, random: nn.init.xavier_normal_(matrix, generator=random),
    "xavier-uniform": lambda matrix, random: nn.init.xavier_uniform_(matrix, generator=random),
    "uniform": lambda matrix, random: nn.init.uniform_(matrix, -0.1, 0.1, generator=random),
    "gaussian-0.02": lambda matrix, random: nn.init.normal_(matrix, std=0.02, generator=random),
}
"""By name; `default` is what torch gives a Linear, the others are those of the paper's `tab:init-ablation`."""


def initial(shape: Shape, seeds: Sequence[int], scheme: str = "default") -> Networks:
    """Return one untrained network for each seed, the same whatever stands beside it. Biases are zero.

    The scheme is for the blocks; embedding and head are as torch makes them.
    """
    return joined([_initial(shape, seed, SCHEMES[scheme]) for seed in seeds])


def _initial(shape: Shape, seed: int, fill: Scheme) -> Networks:
    random = torch.Generator().manual_seed(seed)

    def drawn(rows: int, columns: int, fill: Scheme) -> Tensor:
        return fill(torch.empty(rows, columns), random)

    def layers(rows: int, columns: int) -> Tensor:
        return torch.stack([drawn(rows, columns, fill) for _ in range(shape.layers)])[None]

    weights = {
        "embed": drawn(shape.width, shape.inputs, SCHEMES["default"])[None],
        "w_in": layers(shape.hidden, shape.width),
        "b_in": torch.zeros(1, shape.layers, shape.hidden),
        "w_out": layers(shape.width, shape.hidden),
        "b_out": torch.zeros(1, shape.layers, shape.width),
        "head": drawn(shape.outputs, shape.width, SCHEMES["default"])[None],
    }
    return Networks(shape, weights)


Change = Callable[[Tensor], Tensor]
MATRICES = ("embed", "w_in", "w_out", "head")


def noisy(matrix: Tensor, relative: float, random: torch.Generator) -> Tensor:
    """Return a matrix plus normal noise of σ_rel times its standard deviation."""
    return matrix + relative * matrix.std() * torch.randn(matrix.shape, generator=random)


def pruned(matrix: Tensor, share: float) -> Tensor:
    """Return a matrix with that share of its numbers, the smallest by magnitude, set to zero (Han et al. 2015)."""
    count = round(share * matrix.numel())
    if not count:
        return matrix
    threshold = matrix.abs().flatten().kthvalue(count).values
    return torch.where(matrix.abs() > threshold, matrix, 0.0)


def quantized(matrix: Tensor, levels: float) -> Tensor:
    """Return a matrix rounded to so many equidistant values from its least to its largest."""
    least, most = matrix.aminmax()
    step = (most - least) / (levels - 1)
    return least + ((matrix - least) / step).round() * step if step > 0 else matrix


def each_matrix(networks: Networks, change: Change) -> Networks:
    """Return networks with every matrix changed by itself; biases stay."""

    def all_of(tensor: Tensor) -> Tensor:
        matrices = tensor.flatten(0, -3)
        return torch.stack([change(matrix) for matrix in matrices]).view(tensor.shape)

    return networks.changed(all_of, MATRICES)


def grafted(reference: Networks, donor: Networks, layers: Collection[int]) -> Networks:
    """Return the donor with some blocks of the reference in the place of its own."""
    chosen = torch.zeros(donor.shape.layers, dtype=torch.bool)
    chosen[list(layers)] = True

    def mixed(name: str) -> Tensor:
        theirs = donor.weights[name]
        return torch.where(chosen.view(-1, *[1] * (theirs.ndim - 2)), reference.weights[name], theirs)

    return donor.having(**{name: mixed(name) for name in BRANCH})


def merged(reference: Networks, donor: Networks, weight: float) -> Networks:
    """Return `weight` parts of the reference and the rest of the donor, in all weights (Wortsman et al. 2022)."""
    return donor.having(
        **{name: torch.lerp(theirs, reference.weights[name], weight) for name, theirs in donor.weights.items()}
    )
