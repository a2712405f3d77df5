"""Adapters: where the adapters of a repository that holds no model lie, by its files alone.

They lie in the root, in folders with a configuration of peft each, or in files without one. Diffusers and other
trainers save such files.
"""

from __future__ import annotations

from dataclasses import dataclass

from hf_lineage.checkpoint.foreign import NO_WEIGHTS, SHARD, WEIGHT_FILES
from hf_lineage.checkpoint.open_files import open_file
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef
from hf_lineage.lora.single_file import is_lora_file
from hf_lineage.signature.values import Signature
from hf_lineage.source.contents import CHECKPOINT, CONFIG, INDEX, MOST, adapter_folders, model_folders, part_of

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
