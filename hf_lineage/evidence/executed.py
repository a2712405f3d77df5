"""Evidence of `--run` and `--strict`: what a model loses without what it inherits, and which numbers are the base's.

Weights that are stored and do nothing may be like any others. So a claim is verified by running only where the
inherited parts carry something: not much less than as many other parts do.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

CASTS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}  # number formats, in words
NATS, CHANGE = "nats", "change"  # units of a loss: Kullback-Leibler a token, or relative, of the last state
SPEAKS = {NATS: 0.001, CHANGE: 0.01}  # a model that says less than this of its input says the same to every one
CARRIES = 0.1  # inherited parts that carry less than this share of what equal parts carry are stored and not used
INPUTS = {"short": "windows of a text of ours", "long": "these behind other text"}  # kinds of input, in words
TOKENS = {  # by the owner of the tokenizer
    "own": "the tokens of its own tokenizer",
    "base": "the tokens of the base's tokenizer, since it has no tokenizer.json",
    "none": "bytes in place of tokens, since there is no tokenizer.json",
}


@dataclass(frozen=True)
class Beyond:
    """A tensor that is not what the base's would be stored as."""

    name: str
    numbers: int  # numbers of the tensor
    beyond: int  # numbers that are further from the base's than the format leaves; 0 where only grids are too coarse
    excess: float  # largest distance beyond what the format leaves, in steps of the grid; 0 likewise
    place: tuple[int, ...] = ()  # indices of the number that is furthest from the base's
    coarse: int = 0  # blocks whose grid is coarser than their numbers need
    why: str = ""  # another fault, as a phrase that follows the name; empty if the numbers are the fault

    @property
    def wide(self) -> bool:
        """Whether most likely training changed it, and not an edit of some numbers."""
        return self.beyond > 0.01 * self.numbers


@dataclass(frozen=True)
class Strict:
    """Every tensor of a model held against the base's."""

    base: str  # the name of the base, with its commit where it has one
    stored: Mapping[str, int] = field(default_factory=dict)  # tensors by format; by the empty name: as the base's are
    beyond: tuple[Beyond, ...] = ()
    unbound: Mapping[str, str] = field(default_factory=dict)  # tensors that cannot be held against it, and the reasons
    added: tuple[str, ...] = ()  # tensors that the base does not have
    lacking: tuple[str, ...] = ()  # tensors that only the base has
    copies: tuple[str, ...] = ()  # tensors that only one stores and that say nothing of their own, with what they are
    settings: tuple[str, ...] = ()  # settings of `config.json` that differ
    problem: str = ""  # why nothing was held against the base; empty where it was

    @property
    def right(self) -> int:
        """Number of tensors that are what the base's would be stored as."""
        return sum(self.stored.values())

    @property
    def tensors(self) -> int:
        """Number of the model's tensors that were to be held against the base's."""
        return self.right + len(self.beyond) + len(self.unbound) + len(self.added)

    @property
    def holds(self) -> bool:
        """Whether the model is the base as it would be stored in these formats, and nothing else."""
        missing = self.beyond or self.unbound or self.added or self.lacking or self.settings
        return bool(self.right) and not (self.problem or missing)

    @property
    def what(self) -> str:
        """The relation of the model to the base as far as the two agree, as a phrase before the base's name."""
        quantized = sorted({how for how in self.stored if how and how not in CASTS})
        casts = sorted({how for how in self.stored if how in CASTS})
        if quantized:
            return f"the quantization ({', '.join(quantized)}) of"
        return f"the rounding to {' and '.join(CASTS[how] for how in casts)} of" if casts else "the same numbers as"

    @property
    def is_edit(self) -> bool:
        """Whether what differs is as an edit leaves it: few numbers of most tensors, and not as training does."""
        return sum(one.wide for one in self.beyond) <= len(self.beyond) / 2


@dataclass(frozen=True)
class Ran:
    """One model that was run."""

    model: str
    inputs: Mapping[str, tuple[int, ...]]  # kind of input -> its shape: sequences and tokens
    numbers: int  # parameters of the model
    dtype: str = "float32"  # format of the numbers in which it ran
    on_disk: int = 0  # bytes of its weights that did not fit into memory and were read from disk whenever it ran
    tokens_of: str = "none"  # whose tokenizer made tokens of the text, as a key of TOKENS


@dataclass(frozen=True)
class Loss:
    """The change of what a model says when some of its parts write the same for every token."""

    by_sequence: NDArray[np.float64]
    parts: int

    @property
    def mean(self) -> float:
        """The mean over sequences."""
        return float(self.by_sequence.mean()) if len(self.by_sequence) else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that holds the mean over all such sequences with probability 99 %."""
        count = len(self.by_sequence)
        error = 2.576 * float(self.by_sequence.std(ddof=1)) / np.sqrt(count) if count > 1 else 0.0
        return max(0.0, self.mean - error), self.mean + error


@dataclass(frozen=True)
class Ablation:
    """The loss of a model without what it inherits, beside its loss without other parts."""

    unit: str  # NATS or CHANGE
    kind: str  # the kind of input
    says: float  # mean distance of what it says to a token from the mean over all tokens: how much it says at all
    inherited: Loss  # without all inherited parts of the layers that were read
    equal: Loss | None = None  # without as many of them as there are others, or all if these are more
    others: Loss | None = None  # without those others

    @property
    def carries(self) -> float | None:
        """The loss without inherited parts over the loss without as many others; None without others."""
        if self.equal is None or self.others is None or not self.others.mean > 0:
            return None
        return self.equal.mean / self.others.mean

    @property
    def amount(self) -> str:
        """The loss of the model without what it inherits, in words."""
        return amount(self.unit, self.inherited.mean)

    @property
    def is_silent(self) -> bool:
        """Whether the model says nearly the same to every input."""
        return not self.says >= SPEAKS[self.unit]

    @property
    def is_used(self) -> bool:
        """Whether what is inherited carries anything: a loss below a hundredth of all that it says is none."""
        if self.is_silent or not self.inherited.mean >= 0.01 * self.says:
            return False
        enough = self.others is not None and self.inherited.mean >= self.others.mean
        return self.carries is None or self.carries >= CARRIES or enough


def amount(unit: str, mean: float) -> str:
    """Return a loss in words: `4.1 nats a token`, or `7.0% of its last state`."""
    return f"{mean:.2g} nats a token" if unit == NATS else f"{mean:.1%} of its last state"


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of running the candidate of a claim."""

    ran: Ran | None = None  # None where it could not be run, or has nothing that could be taken out
    ablation: Ablation | None = None  # on the kind of input where it carries least; None where nothing was taken out
    seed: int = 0  # seed of the inputs
    problem: str = ""  # why there is no executed evidence; empty where there is

    @property
    def complete(self) -> bool:
        """Whether the model ran, and something is lost without what it inherits."""
        return not self.problem and self.ablation is not None and self.ablation.is_used

    @property
    def unused_warning(self) -> str:
        """A sentence about a model that does not use what it inherits; empty for any other."""
        ablation = self.ablation
        if self.ran is None or ablation is None or ablation.is_used:
            return ""
        name, unit = self.ran.model, ablation.unit
        if ablation.is_silent:
            return f"{name} says nearly the same to every input, so that nothing it has in common with the base is used"
        others = f", and {amount(unit, ablation.others.mean)} without other parts" if ablation.others else ""
        stores = f"{name} stores what it has in common with the base, and does not use it"
        return f"{stores}: without it, the model loses {ablation.amount}{others}"
