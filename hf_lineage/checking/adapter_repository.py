"""The adapters of one repository that holds no model: where they are, and each judged on what is declared of it.

They lie in the root, in folders with a configuration of peft each, or in files without one. Diffusers and other
trainers save such files.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hf_lineage.checking.adapters import Adapter, Found, judge_adapter, judge_on, open_adapter
from hf_lineage.checking.claims import Base, base_once
from hf_lineage.checking.result import VERDICTS, Row, attempt
from hf_lineage.checkpoint.foreign import NO_WEIGHTS, SHARD, WEIGHT_FILES
from hf_lineage.checkpoint.open_files import open_file
from hf_lineage.claims.sources import Claim, Claims, read_claims
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef
from hf_lineage.lora.single_file import is_lora_file, open_lora_file
from hf_lineage.signature.values import Signature
from hf_lineage.source.contents import CHECKPOINT, CONFIG, INDEX, adapter_folders, model_folders, part_of
from hf_lineage.source.options import Options

MOST = 20
"""Adapters of one repository that are judged."""
LORA_FILE = "pytorch_lora_weights.safetensors"
"""Name that diffusers gives to the file with an adapter."""
END = ".safetensors"
MODELS = (CONFIG, INDEX)
"""Files of a repository that is a model or a pipeline itself."""
MODEL_FILES = ("model", "diffusion_pytorch_model", "consolidated", "adapter_model")
"""Beginnings of the names of files that hold no adapter without a configuration."""


@dataclass(frozen=True)
class Place:
    """The place of one adapter of a repository."""

    repo: RepoRef
    file: str = ""
    """The file of an adapter that has no configuration."""

    @property
    def part(self) -> str:
        """The folder or the file by which a row names it; empty for the repository itself."""
        return self.file or self.repo.subfolder


@dataclass(frozen=True)
class Adapters:
    """The adapters of a repository that holds no model."""

    places: tuple[Place, ...]
    left_out: str = ""
    """Other files, which may have any ancestry."""
    notes: tuple[str, ...] = ()
    """Sentences about other files that are not adapters themselves."""


def find_adapters(source: RepoRef | Signature) -> Adapters | None:
    """Return the adapters of a repository that holds no model, None if there are none.

    They are found by its files alone, or by the headers of files of unknown names.
    """
    if isinstance(source, Signature) or any(map(source.offers, MODELS)):
        return None
    here = [Place(source)] if source.offers(ADAPTER_CONFIG) else []
    folders, notes = ([], []) if source.subfolder else _folders(source, bool(here))
    files, others = ([], []) if here else _files(source, bool(folders))
    others += model_folders(source) if files and not source.subfolder else []  # models beside files are not looked for
    places = [*here, *(Place(part_of(source, name)) for name in folders[:MOST]), *(Place(source, f) for f in files)]
    if not places:
        return None
    unread = [*others, *(place.part for place in places[MOST:]), *folders[MOST:]]
    shown = printable(", ".join(unread[:6]), 500) + (f" and {len(unread) - 6} more" if len(unread) > 6 else "")
    return Adapters(tuple(places[:MOST]), shown, tuple(notes))


def _folders(repo: RepoRef, beside: bool) -> tuple[list[str], list[str]]:
    """Return the folders with adapters, only the last state of a training run, and sentences about the others.

    Beside an adapter in the root they are its earlier states.
    """
    held = adapter_folders(repo)
    states = sorted((name for name in held if CHECKPOINT.fullmatch(name)), key=lambda name: int(name.split("-")[1]))
    last = [] if beside else states[-1:]
    earlier = [name for name in states if name not in last]
    notes = [f"{len(earlier)} earlier states of training, such as {earlier[-1]}, were not judged"] if earlier else []
    deeper = sorted(name for name in repo.published if name.endswith(f"/{ADAPTER_CONFIG}") and name.count("/") > 1)
    if deeper:
        shown = printable(deeper[0].rpartition("/")[0], 200)
        notes.append(f"adapters in deeper folders, such as {shown}, were not judged; name one as MODEL/FOLDER")
    return [*(name for name in held if name not in states), *last], notes


def _files(repo: RepoRef, beside: bool) -> tuple[list[str], list[str]]:
    """Return the files with adapters, and other weights that loaders may read; none if no file is surely an adapter."""
    held = [name for name in repo.files() if name.endswith(WEIGHT_FILES) and not NO_WEIGHTS.fullmatch(name)]
    if repo.file is not None:
        held = [name for name in held if name == repo.file]
    likely = [
        name for name in held if name.endswith(END) and not SHARD.fullmatch(name) and not name.startswith(MODEL_FILES)
    ]
    if not likely or (len(likely) < len(held) and LORA_FILE not in held and not beside):
        return [], held if beside else []
    files = [name for name in likely[:MOST] if name == LORA_FILE or _holds_factors(repo, name)]
    return (files, [name for name in held if name not in files]) if files or beside else ([], [])


def _holds_factors(repo: RepoRef, file: str) -> bool:
    try:
        return is_lora_file(open_file(repo, file))
    except (CheckpointError, NothingToCompare):
        return False


def open_place(place: Place) -> tuple[tuple[str, Found], ...]:
    """Return the adapters at a place, by the part that a row names; LineageError if one is damaged."""
    if not place.file:
        return ((place.part, open_adapter(place.repo)),)
    loras = attempt(lambda: open_lora_file(place.repo, place.file), NothingToCompare)
    if isinstance(loras, Verdict):
        return ((place.part, loras),)
    shown = replace(place.repo, name=f"{place.repo}: {printable(place.file, 200)}")
    return tuple(
        (f"{place.part}: {component}" if component else place.part, Adapter(shown, lora, component))
        for component, lora in loras.items()
    )


def judge_all(adapters: Adapters, declared: Claims, options: Options, named: bool) -> Iterator[Row]:
    """Yield a row for every adapter and claim; an error of the only one is raised, one of several is its verdict.

    `named` says that the claims are the user's.
    """
    by_place = {place: declared.claims if named else _claims(place, declared) for place in adapters.places}
    judged = {claim.base.casefold() for claims in by_place.values() for claim in claims}
    everywhere = [claim for claim in declared.claims if claim.base.casefold() not in judged]
    base = functools.cache(functools.partial(base_once, local_hub=options.local_hub))
    for place, own in by_place.items():
        claims = [*own, *everywhere]
        alone = len(adapters.places) == 1
        opened = open_place(place) if alone else attempt(functools.partial(open_place, place), *VERDICTS)
        for part, adapter in ((place.part, opened),) if isinstance(opened, Verdict) else opened:
            for claim in claims:
                yield replace(_judged(adapter, claim, options, base(claim), alone), part=part)
    if adapters.left_out:
        reason = f"other weights of the repository may come from elsewhere: {adapters.left_out}"
        yield from (Row(claim, Verdict(Code.UNSUPPORTED, reason)) for claim in declared.claims)


def _judged(adapter: Found, claim: Claim, options: Options, base: Base, alone: bool) -> Row:
    if alone:
        return judge_adapter(adapter, claim, options, base)
    row = attempt(lambda: judge_adapter(adapter, claim, options, base), CheckpointError)
    return Row(claim, row) if isinstance(row, Verdict) else row


def judge_each_on(adapters: Adapters, claim: Claim, base: RepoRef | Signature, options: Options) -> Iterator[Row]:
    """Yield the row of every adapter on a base that was located before; an error of one is raised."""
    for place in adapters.places:
        for part, adapter in open_place(place):
            yield replace(judge_on(adapter, claim, base, options), part=part)
    if adapters.left_out:
        reason = f"other weights of the repository were not read: {adapters.left_out}"
        yield Row(claim, Verdict(Code.UNSUPPORTED, reason))


def _claims(place: Place, declared: Claims) -> Sequence[Claim]:
    """Return what is declared of one adapter: in its own folder, else in the root of the repository."""
    own = read_claims(place.repo).claims if place.repo.subfolder else ()
    for claims in ([claim for claim in own if not claim.problem], declared.claims, own):
        if any(not claim.problem for claim in claims):
            return claims
    return own or declared.claims
