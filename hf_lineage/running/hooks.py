"""Hooks: the text that a model is run on, what each writing matrix is given, and runs with parts held at their median.

The text is the verifier's, in windows at the first positions and behind other text: prose and code written for this
program, and article 1 of the Universal Declaration of Human Rights. Only tokens that count do so here too, but for
stacked experts, whose tokens have an order of their own: functions of torch are watched inside their module.
"""

import functools
import inspect
import itertools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch.overrides import TorchFunctionMode

from hf_lineage.running.load import STACK, CannotRunError, LoadedModel, Place
from hf_lineage.running.process import LONG, SHORT

TEXT = Path(__file__).with_name("text.txt")
WINDOWS, WIDTH = 32, 16  # windows of the text, and tokens in each
KEPT, LAST = "logits_to_keep", 2 * WIDTH  # the number of last tokens whose next one is predicted, behind other text
SPARE = 2  # positions that a model may keep for padding
POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_target_positions")
MULTIPLIES = {"linear": (0, 1), "matmul": (0, 1), "__matmul__": (0, 1), "bmm": (0, 1), "mm": (0, 1), "addmm": (1, 2)}
"""Function -> where it takes what it multiplies, and the matrix."""
ROWS = 4096  # rows of a matrix in memory as float32 at once, so that it takes little more than as stored
At = tuple[str, int | None]  # the name of a matrix in memory, and which expert of a stack it is
NATS, CHANGE = "nats", "change"  # nats a token or, without a head that predicts tokens, a share of the last state


@dataclass(frozen=True)
class Input:
    """One kind of input."""

    kind: str
    arguments: dict[str, Any]
    counted_tokens: int  # tokens at the end of each sequence that count


def draw(model: Any, tokenizer: Path, seed: int) -> list[Input]:
    """Return the windows that a seed draws, each by itself, and all of them behind as much other text."""
    config = model.config.get_text_config()
    before, ids, after = _encode(tokenizer, getattr(config, "vocab_size", 0))
    pieces = torch.tensor(ids[: len(ids) // WIDTH * WIDTH], dtype=torch.long).view(-1, WIDTH)
    if len(pieces) < 2 * WINDOWS:
        raise CannotRunError(f"its tokenizer makes only {len(ids)} tokens of the text that is read")
    most = 4 * WINDOWS * WIDTH
    stated = [value for key in POSITIONS if isinstance(value := getattr(config, key, None), int) and value > 1]
    if stated and not any(name.endswith("rotary_emb") for name, _ in model.named_modules()):
        most = stated[0]  # positions that are rotated have no end, so that nobody can keep a run short
    room = most - SPARE - len(before) - len(after)
    if room < SPARE:
        raise CannotRunError("it reads too few tokens at once")
    order = torch.randperm(len(pieces), generator=torch.Generator().manual_seed(seed % 2**63))
    windows, others = pieces[order[:WINDOWS]], pieces[order[WINDOWS : 2 * WINDOWS]]
    batches = [(SHORT, windows[:, :room], 0)]
    if count := min(WINDOWS, room // (2 * WIDTH)):
        batches.append((LONG, torch.cat([others[:count], windows[:count]]).view(1, -1), count * WIDTH))
    inputs = []
    for kind, rows, skipped in batches:
        around = (torch.tensor([each], dtype=torch.long).expand(len(rows), -1) for each in (before, after))
        arguments = _make_arguments(model, torch.cat([next(around), rows, next(around)], dim=1), kind)
        counted = arguments["input_ids"].shape[1] - max(1, len(before) + skipped)
        inputs.append(Input(kind, arguments, min(counted, arguments.get(KEPT, counted))))
    return inputs


def _encode(file: Path, size: int) -> tuple[list[int], list[int], list[int]]:
    """Return the tokens of the text, and those that the tokenizer writes before and after every text."""
    text = TEXT.read_text("utf-8")
    if not file.exists():
        return [], [number % size for number in text.encode("ascii", "ignore")], []
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids, whole = tokenizer.encode(text, add_special_tokens=False).ids, tokenizer.encode(text)
    added = list(zip(whole.ids, whole.special_tokens_mask, strict=True))
    before, after = (
        [number for number, special in itertools.takewhile(lambda pair: pair[1], each)]
        for each in (added, reversed(added))
    )
    if len(before) + len(after) > WIDTH or max(whole.ids, default=0) >= size:
        raise CannotRunError(f"its tokenizer is not one for its {size} tokens")
    return before, ids, after[::-1]


def _make_arguments(model: Any, ids: torch.Tensor, kind: str) -> dict[str, Any]:
    accepted = inspect.signature(model.forward).parameters
    arguments: dict[str, Any] = {"input_ids": ids}
    if "use_cache" in accepted:
        arguments["use_cache"] = False  # keys and values of tokens that nothing follows
    if "attention_mask" in accepted:
        arguments["attention_mask"] = torch.ones_like(ids)
    if "decoder_input_ids" in accepted and model.config.is_encoder_decoder:
        start = torch.full_like(ids[:, :1], getattr(model.config, "decoder_start_token_id", None) or 0)
        arguments["decoder_input_ids"] = torch.cat([start, ids[:, :-1]], dim=1)
    elif KEPT in accepted and kind == LONG:
        arguments[KEPT] = LAST  # rows of all tokens may take more memory than all else
    return arguments


class _Products(TorchFunctionMode):
    """Watches the multiplications inside modules that hold stacks of experts, and makes all of them fast."""

    def __init__(self, run: "Running") -> None:
        super().__init__()
        self._run = run

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        into, matrix = MULTIPLIES.get(name, (0, 0))
        if matrix and len(args) > matrix and isinstance(args[matrix], torch.Tensor):
            if self._run.inside:
                args = (*args[:into], self._run.replace_input(args[into], args[matrix]), *args[into + 1 :])
            if not kwargs and args[into].is_cpu and is_slow(args[into].dtype):
                return in_float32(function, name, args)
        return function(*args, **(kwargs or {}))


@functools.cache
def is_slow(dtype: torch.dtype) -> bool:
    """Return whether this processor has no instructions that multiply such numbers."""
    able = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}
    return dtype in able and not getattr(torch.ops.mkldnn, able[dtype])()


def in_float32(function: Any, name: str, args: tuple[Any, ...]) -> torch.Tensor:
    """Return what a function makes of matrices of 16 bits, multiplied as float32 and rounded to 16 bits again."""
    pieces, dim = [args], 0  # rows of a weight, and matrices of a batch, are converted some at a time
    if name == "linear":
        rows = zip(*(each.split(ROWS) for each in args[1:] if each is not None), strict=True)
        pieces, dim = [(args[0], *each) for each in rows], -1
    elif name == "bmm":
        pieces = list(zip(*(each.split(1) for each in args), strict=True))
    made = [function(*(each.float() for each in piece)).to(args[0].dtype) for piece in pieces]
    return torch.cat(made, dim) if made[1:] else made[0]


class Running:
    """Runs a model on one input: first recorded, and then with some inputs of its matrices held at their medians."""

    def __init__(self, loaded: LoadedModel, counted: int) -> None:
        self._model, self._counted = loaded.model, counted
        self._held: Mapping[At, torch.Tensor] | None = None
        self.medians, self.inside = dict[At, torch.Tensor](), list[torch.nn.Module]()
        self._places = {place.module: place for place in reversed(loaded.places)}

    @torch.no_grad()
    def go(self, arguments: Mapping[str, Any], inputs: Mapping[At, torch.Tensor] | None = None) -> Any:
        """Run the model once, on the device of the first weights that are in memory, and return what it gives out."""
        self._held = inputs
        devices = (each.device for each in self._model.parameters() if not each.is_meta)
        device = next(devices, torch.device("cpu"))
        there = {name: each.to(device) if isinstance(each, torch.Tensor) else each for name, each in arguments.items()}
        with ExitStack() as stack:
            for module, place in self._places.items():
                enter = self._enter_stack if is_stack(place) else self._change_first
                stack.callback(module.register_forward_pre_hook(enter).remove)
                if is_stack(place):
                    stack.callback(module.register_forward_hook(self._leave_stack).remove)
            stack.enter_context(_Products(self))
            return self._model(**there)

    def _enter_stack(self, module: Any, _: Any) -> None:
        self.inside.append(module)

    def _leave_stack(self, *_: Any) -> None:
        self.inside.pop()

    def _change_first(self, module: Any, args: Any) -> Any:
        return (self._record_or_hold((self._places[module].owner, None), args[0]), *args[1:])

    def replace_input(self, into: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        """Return what a matrix is to be given instead, if it is of the stack of experts that runs."""
        module = self.inside[-1]
        place = self._places[module]
        stack = getattr(module, place.parameter)
        if matrix.untyped_storage().data_ptr() != stack.untyped_storage().data_ptr():
            return into
        if matrix.ndim == STACK:
            return torch.stack([self._record_or_hold((place.owner, expert), each) for expert, each in enumerate(into)])
        expert = (matrix.storage_offset() - stack.storage_offset()) // stack.stride(0)
        return self._record_or_hold((place.owner, expert), into)

    def _record_or_hold(self, at: At, tensor: torch.Tensor) -> torch.Tensor:
        if self._held is None:
            rows = tensor[:, -self._counted :] if tensor.ndim == 3 else tensor  # (batch, tokens, inputs)
            if rows.numel():
                self.medians[at] = rows.reshape(-1, rows.shape[-1]).float().median(dim=0).values.cpu()
            return tensor
        if at not in self._held or at not in self.medians:
            return tensor
        changed, inputs = tensor.clone(), self._held[at]
        changed[..., inputs.to(tensor.device)] = self.medians[at][inputs].to(tensor)
        return changed


def is_stack(place: Place) -> bool:
    """Return whether a place is in a stack of experts."""
    return bool(getattr(place.module, place.parameter).ndim == STACK)


def held_inputs(loaded: LoadedModel, parts: Mapping[str, Sequence[int]]) -> dict[At, torch.Tensor]:
    """Return which inputs of which matrices hold their median, given parts by the key of their writer."""
    chosen: dict[At, list[int]] = {}
    for place in loaded.places:
        writer = place.writer
        per = writer.parts // writer.experts
        for number in parts.get(writer.key, ()):
            expert = (number // per if place.expert is None else place.expert) if is_stack(place) else None
            first = number % per * writer.part
            chosen.setdefault((place.owner, expert), []).extend(range(first, first + writer.part))
    return {at: torch.tensor(inputs) for at, inputs in chosen.items()}


def divergences(before: Any, after: Any, counted: int) -> tuple[str, torch.Tensor, float]:
    """Return a unit, by sequence how far what a model says to so many last tokens moved, and how much it says at all.

    The last is how far what it says to a token is, in the mean, from what it says to all of them together.
    """
    if not (hasattr(before, "logits") and before.logits.ndim == STACK):
        both = (each[0][:, -counted:] if each[0].ndim == STACK else each[0][:, None] for each in (before, after))
        old, new = (each.cpu().double() for each in both)  # (sequences, tokens, width)
        sizes = old.norm(dim=-1).clamp(min=1e-30)
        says = ((old - old.mean(dim=(0, 1))).norm(dim=-1) / sizes).mean()
        return CHANGE, ((old - new).norm(dim=-1) / sizes).mean(dim=1), float(says)
    logits = before.logits[:, -counted:], after.logits[:, -counted:]
    moved, unsure, together = [], 0.0, torch.zeros(logits[0].shape[-1], dtype=torch.float64)
    for first, second in zip(*logits, strict=True):  # a sequence at a time
        old, new = (each.cpu().double().log_softmax(dim=-1) for each in (first, second))
        moved.append((old.exp() * (old - new)).sum() / len(old))
        unsure += float(torch.special.entr(old.exp()).sum())
        together += old.exp().sum(dim=0)
    count = logits[0].shape[:2].numel()
    says = torch.special.entr(together / count).sum() - unsure / count
    return NATS, torch.stack(moved), float(says)
