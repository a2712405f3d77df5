"""What tools say of two folders, and what that means to each; the folders, as every tool can read them, and edits."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers.convert_slow_tokenizer import bytes_to_unicode
from transformers.utils import logging

from benchmarks.commands import CommandError, environment
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.examples import HUB
from benchmarks.paper.parts.hiding import Change, move, turn_stream
from benchmarks.paper.parts.language import loaded
from benchmarks.paper.parts.laundering import preserved
from benchmarks.paper.parts.streams import stream
from benchmarks.rivals import Rival
from hf_lineage import Options, compare
from hf_lineage.evidence.verdict import Code

RELATED, DISTILLED, INDEPENDENT = "related", "unrelated, distilled", "unrelated"
"""How two models stand to each other in truth: one inherited weights, learned from the other's answers, or neither."""
RIGHT, WRONG, UNDECIDED, OWN_TERMS = "right", "wrong", "undecided", "right by its own definition"

T = TypeVar("T")


@dataclass(frozen=True)
class Said:
    """A verdict."""

    words: str  # as the tool prints them
    related: bool | None  # None where the tool abstains
    figures: str

    def standing(self, truth: str, lineage: frozenset[str]) -> str:
        """Return how the verdict stands to the truth, given what the tool itself counts as lineage."""
        if self.related is None:
            return UNDECIDED
        if self.related == (truth == RELATED):
            return RIGHT
        return OWN_TERMS if self.related == (truth in lineage) else WRONG


@dataclass(frozen=True)
class Tool:
    """A tool that judges the folder of a suspect beside that of a reference."""

    name: str
    judge: Callable[[Path, Path], Said]
    lineage: frozenset[str] = frozenset({RELATED})  # what it counts as lineage


def ours(suspect: Path, reference: Path) -> Said:
    """Return what `hf-lineage compare` says, by default."""
    (row,) = compare(str(reference), str(suspect), Options(seed=0)).rows
    verdict = row.verdict
    figures = [f"score {found.comparison.score:.3f}, p = {found.p_value:.3f}" for found in verdict.evidence.values()]
    related = verdict.is_related or (False if verdict.code is Code.UNRELATED else None)
    return Said(verdict.label, related, "; ".join(figures) or "no score")


def printed(rival: Rival, place: Path, home: Path, suspect: Path, reference: Path) -> str:
    """Return what the comparison of a rival that is installed in `place` prints as JSON.

    Raise CommandError where it ends with an exit code other than 0.
    """
    command = rival.compare(place, suspect, reference, "--json")
    done = subprocess.run(command, capture_output=True, text=True, env=environment(home), check=False)
    if done.returncode:
        raise CommandError(f"{rival.package} ended with exit code {done.returncode}: {done.stderr[-400:].strip()}")
    return done.stdout


MODELDNA: Mapping[str, bool | None] = {
    "EXACT_COPY": True,
    "QUANTIZED_COPY": True,
    "FINE_TUNE": True,
    "SAME_LINEAGE": True,
    "LIKELY_MERGE": True,
    "SAME_FAMILY_UNRESOLVED": None,
    "NO_MATCH": False,
    "INSUFFICIENT": None,
}
"""The classes of modelDNA's README, which calls the one that is unresolved an abstention."""


class _Candidate(msgspec.Struct):
    ruled_out: str | None


class _Class(msgspec.Struct):
    verdict: str
    probability: float | None
    candidates: tuple[_Candidate]


class _Modeldna(msgspec.Struct):
    verdict: _Class


def modeldna(output: str) -> Said:
    """Return what `modeldna compare --json` says; raise CommandError where that cannot be read.

    NO_MATCH without a probability is what it says of folders that it did not compare, and calls an abstention too.
    """
    found = _decoded(output, _Modeldna).verdict
    related = _meaning(found.verdict, MODELDNA)
    if found.probability is None:
        (candidate,) = found.candidates
        return Said(found.verdict, None, f"no probability: {candidate.ruled_out}")
    return Said(found.verdict, related, f"probability {found.probability:.4f}")


MATCHES: Mapping[str, bool | None] = {
    "Confirmed Match": True,
    "High-Confidence Match": True,
    "Weak Match": True,
    "Not Matched": False,
    "Insufficient data": None,
}
"""The decisions of Model Provenance Kit's README, and that of models without a signal in common."""
UNWEIGHED = " (metadata only)"  # behind a decision: no weights were compared


class _Scores(msgspec.Struct):
    provenance_decision: str
    pipeline_score: float
    identity_score: float | None


class _ProvenanceKit(msgspec.Struct):
    scores: _Scores


def provenancekit(output: str) -> Said:
    """Return what `provenancekit compare --json` says; raise CommandError where that cannot be read."""
    found = _decoded(output, _ProvenanceKit).scores
    words, weights = found.provenance_decision, found.identity_score
    related = _meaning(words.removesuffix(UNWEIGHED), MATCHES)
    figures = f"pipeline score {found.pipeline_score:.4f}, identity score of the weights " + (
        "none" if weights is None else f"{weights:.4f}"
    )
    return Said(words, None if words.endswith(UNWEIGHED) else related, figures)


READERS: Mapping[str, Callable[[str], Said]] = {"modeldna": modeldna, "provenancekit": provenancekit}
"""What reads the output of a rival, by its command."""


def _decoded(output: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(output, type=kind)
    except msgspec.MsgspecError as error:
        raise CommandError(f"no verdict can be read from what was printed: {error}: {output[:200]!r}") from None


def _meaning(words: str, meanings: Mapping[str, bool | None]) -> bool | None:
    if words not in meanings:
        raise CommandError(f"{words!r} is none of the verdicts that are documented: {', '.join(meanings)}")
    return meanings[words]


VERSION = 1  # raised when a folder would be made in another way


def folder(cache: Cache, name: str) -> Path:
    """Return the folder of a model of the Hub, or of an edit of one, as `name` says."""
    edit = EDITS.get(name, Edit(name))
    weights = (HUB / edit.of / "model.safetensors").read_bytes()
    return cache.kept_folder("folders", [VERSION, name, hashlib.sha256(weights).hexdigest()], partial(_fill, edit))


@dataclass(frozen=True)
class Edit:
    """A model of the Hub, changed or as it is."""

    of: str
    change: Change | None = None


def _fill(edit: Edit, folder: Path) -> None:
    if edit.change is None:
        shutil.copytree(HUB / edit.of, folder, dirs_exist_ok=True)
    else:
        logging.disable_progress_bar()
        model = loaded(HUB / edit.of)
        with torch.no_grad():
            edit.change(model)
        model.to(torch.bfloat16).save_pretrained(folder)  # as the Hub stores all of them
    write_tokenizer(folder)


def write_tokenizer(folder: Path) -> None:
    """Write the tokenizer that all models of the Hub share: a token for each of the 256 bytes."""
    bytewise = Tokenizer(models.BPE(vocab={word: byte for byte, word in bytes_to_unicode().items()}, merges=[]))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    bytewise.save(str(folder / "tokenizer.json"))
    said = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(said), encoding="utf-8")


def same_function(change: Change) -> Change:
    """Return a change that raises FunctionError where a logit moves by more than the paper's 1e-4."""

    def checked(model: Any) -> None:
        probe = torch.arange(64)[None]
        before = model(probe).logits
        change(model)
        preserved(before, model(probe).logits)

    return checked


def swap_gains(model: Any) -> None:
    """Move a factor of every coordinate, a power of two from 1/4 to 4, from each norm to what reads it."""
    random = torch.Generator().manual_seed(0)
    for read in stream(model).reads:
        move(read, 2.0 ** torch.randint(-2, 3, read.norm.weight.shape, generator=random))


def rotate(model: Any) -> None:
    """Turn the residual stream by a random orthogonal matrix: norms without gains do not see it."""
    random, width = torch.Generator().manual_seed(0), model.config.hidden_size
    turn_stream(model, torch.linalg.qr(torch.randn(width, width, generator=random, dtype=torch.float64)).Q.T)


def round_to_int4(model: Any) -> None:
    """Round each row of the matrices of the blocks to 4 bits, scaled by its largest magnitude."""
    for module in model.model.layers.modules():
        if isinstance(module, nn.Linear):
            step = module.weight.abs().amax(dim=1, keepdim=True) / 7
            module.weight.copy_((module.weight / step).round() * step)


def drop_layers(model: Any) -> None:
    """Take the two layers in the middle out."""
    middle = len(model.model.layers) // 2
    del model.model.layers[middle - 1 : middle + 1]
    model.config.num_hidden_layers = len(model.model.layers)


EDITS: Mapping[str, Edit] = {
    "llama-base, norm gains swapped": Edit("acme/llama-base", same_function(swap_gains)),
    "llama-base, stream rotated": Edit("acme/llama-base", same_function(rotate)),
    "llama-finetune-a, 4 bits": Edit("fern/llama-finetune-a", round_to_int4),
    "llama-finetune-a, two layers less": Edit("fern/llama-finetune-a", drop_layers),
}
