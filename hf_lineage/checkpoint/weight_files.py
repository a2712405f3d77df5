"""The form that a repository is read from, and its weight files: what transformers would load, or likely ones."""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from hf_lineage import errors
from hf_lineage.architecture.config_checks import of_diffusers
from hf_lineage.architecture.registry import find_known
from hf_lineage.checkpoint.foreign_form import PREFERRED, ForeignForm, list_files
from hf_lineage.errors import ONE_FILE, Ambiguous, CheckpointError, NothingToCompare, NoWeights, OptionError, printable
from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef

PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")  # loaded where no safetensors file has a usual name
PICKLES = (".bin", ".pt", ".pth", ".ckpt")  # the ends of the names of files that torch.save wrote
NO_WEIGHTS = re.compile(
    r"(training_args|optimizer|scheduler|rng_state.*|scaler|tokenizer.*|adapter_model|(\d+_)?adapters)\.\w+"
)  # files beside a model that are not models
WEIGHT_FILES = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx")  # of any library
SHARD = re.compile(r"(?P<start>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<rest>.*)\.(?:safetensors|bin)")
WRAPPERS = ("_orig_mod.", "module.", "base_model.model.")  # left by torch.compile, data-parallel training and peft
DEEPEST, LISTED = 3, 6  # wrappers inside each other, and names of files in a message, at most
ENDS = (".gguf", ".onnx")  # the ends of the names of files in foreign forms
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
DIFFUSERS = "diffusion_pytorch_"  # the prefix of these names in a folder that diffusers wrote
INDICES = (INDEX, DIFFUSERS + INDEX)
PART, PICKLED_PART = re.compile(r"[^/\\:\0]+\.safetensors"), re.compile(r"[^/\\:\0]+\.bin")  # in the folder itself
NAMED = "transformers_weights"  # the key of `config.json` with which transformers loads another file than these two
RANKS = re.compile(r"shard-[0-9]{5}-model-[0-9]{5}-of-[0-9]{5}\.safetensors")  # transformers prefers such parts
PICKLE_BEGINS, BEGINNING = ("PK\x03\x04", *(f"\ufffd{chr(protocol)}" for protocol in range(2, 6))), 64
"""Beginnings, as text, of files of torch.save (an archive or a pickle), and the number of bytes read to see them."""


def _unusual(repo: RepoRef) -> "WeightFiles | None":
    """Return files that transformers does not find, None if there are none; raise if it is unclear which they are."""
    names = [name for name in repo.files() if not NO_WEIGHTS.fullmatch(name)]
    files = [name for name in names if name.endswith(".safetensors")]
    if not files and repo.allow_pickle:
        files = [name for name in names if name.endswith(PICKLES)]
    if not files or ADAPTER_CONFIG in repo.files():
        return None
    if pickled := next((name for name in PICKLED if name in names), None):
        what = f"loads the pickle {pickled}, which hf-lineage never loads, and none of {_join(files)}"
        instead = "let --allow-pickle read its tensors, or rename the file to model.safetensors if it is the same model"
        raise NothingToCompare(f"{repo}: transformers {what}; {instead}")
    groups: dict[tuple[str, int], dict[int, str]] = defaultdict(dict)  # by the model that they may be parts of
    for file in files:
        shard = SHARD.fullmatch(file)
        key = (f"{shard['start']}*{shard['rest']}", int(shard["count"])) if shard else (file, 0)
        groups[key][int(shard["number"]) if shard else 1] = file
    # Where transformers loads no file at all, people load the one of another library.
    others = [name for name in names if name.endswith(WEIGHT_FILES) and name not in files]
    if len(groups) > 1 or others:
        what = f"{_join([*files, *others])}; transformers loads none of them"
        instead = f"Rename the right one to model.safetensors, or name one {ONE_FILE}"
        raise Ambiguous(f"{repo}: it is not clear which file is the model: {what}. {instead}")
    (((_, count), group),) = groups.items()
    if count and set(group) != set(range(1, count + 1)):
        raise CheckpointError(f"{repo} has {len(group)} of {count} shards, {_join(group.values())}; download the rest")
    files, shown = list(group.values()), printable(next(iter(group.values())), 200)
    note = f"{shown} was read, the only file with weights; transformers loads model.safetensors alone"
    if len(files) > 1:
        note = f"the {len(files)} shards such as {shown} have no index; transformers loads none of them"
    elif variant := re.fullmatch(r"(?:diffusion_pytorch_)?model\.(?P<variant>[\w-]+)\.safetensors", files[0]):
        note = f"{shown} was read; transformers loads it only with the variant {variant['variant']}"
    return WeightFiles(repo, tuple(files), note=note)


def _join(files: Collection[str]) -> str:
    names = ", ".join(printable(name, 100) for name in sorted(files)[:LISTED])
    return names + (f" and {len(files) - LISTED} more" if len(files) > LISTED else "")


def wrapping(names: Collection[str]) -> str:
    """Return the prefix that tools left before all of these names; empty if there is none."""
    prefix = ""
    for _ in range(DEEPEST):
        longer = (prefix + wrapper for wrapper in WRAPPERS)
        prefix = next((start for start in longer if names and all(name.startswith(start) for name in names)), prefix)
    return prefix


def foreign_model(repo: RepoRef) -> ForeignForm | None:
    """Return a repository in the foreign form that it is read in; None where it is as transformers saves it."""
    if repo.file is not None and not nameable(repo.file):
        name = printable(repo.file, 200)
        raise OptionError(f"{repo}: {name} is not a file for --file; it reads {' and '.join(ENDS)}")
    names = repo.files()
    preferred = any(map(PREFERRED.fullmatch, names))
    models: list[ForeignForm] = []
    for end in ENDS:
        possible = [repo.file] if repo.file is not None else names if preferred else list_files(repo, end)
        if any(name.endswith(end) for name in possible):  # each is imported only where there are such files
            if end == ".gguf":
                from hf_lineage.checkpoint.gguf.form import gguf_form as form
            else:
                from hf_lineage.checkpoint.onnx.form import onnx_form as form
            models += filter(None, [form(repo)])
    if len(models) > 1:
        listed = ", ".join(printable(model.files[0], 100) for model in models)
        raise Ambiguous(f"{repo} holds models for several libraries ({listed}); name one {ONE_FILE}")
    if not models and (unread := find_known("originals", names if {"model.bin", "params.json"} & {*names} else ())):
        raise CheckpointError(f"{repo}: {unread}")
    return models[0] if models else None


def nameable(file: str) -> bool:
    """Return whether --file may name such a file, and its path stand for a model."""
    return file.endswith(ENDS)


@dataclass(frozen=True)
class WeightFiles:
    """The files of a repository that hold its weights, found once."""

    repo: RepoRef
    files: tuple[str, ...]  # the files that transformers reads; none where the model is read in a foreign form
    index: Mapping[str, str] = field(default_factory=dict)  # tensor -> file, by the index; empty if there is none
    foreign: ForeignForm | None = None  # None where the files are as transformers saves them
    note: str = ""  # a sentence about files that are read although transformers loads none; empty for others

    @property
    def doubt(self) -> str:
        """Why weights that do not fit their class need not be damaged, as they need not be the model; else empty."""
        return (self.foreign.doubt if self.foreign else "") or self.note

    def list_read(self) -> list[str]:
        """Return the names of the files that are read."""
        return self.foreign.list_read() if self.foreign else list(self.files)

    def notes(self) -> tuple[str, ...]:
        """Return sentences about other files with weights that another loader may read."""
        repo, foreign, read = self.repo, self.foreign, self.list_read()
        notes: tuple[str, ...] = (self.note,) if self.note else ()
        if foreign and foreign.remark:
            notes += (foreign.remark.format(printable(read[0], 200)),)
        if pickled := next((printable(name, 200) for name in sorted(self.files) if name.endswith(PICKLES)), None):
            notes += (f"{pickled} is a pickle; its tensors were read and nothing was run (--allow-pickle)",)
        listed = {*repo.files(), *(list_files(repo, foreign.end) if foreign else ())} - {*read}
        unread = sorted(name for name in listed if name.endswith(WEIGHT_FILES) and not NO_WEIGHTS.fullmatch(name))
        if not unread or repo.each:
            return notes
        if foreign:
            how = "as it was named" if repo.file else f"{foreign.how}; name another {ONE_FILE}"
            left = f"{printable(', '.join(unread), 1000)} may hold weights too and {'were' if unread[1:] else 'was'}"
            return (*notes, f"{printable(read[0], 200)} was read, {how}; {left} not read")
        more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
        loads = "" if self.note else f": transformers loads {min(self.files)}, other loaders may choose otherwise"
        return (*notes, f"{printable(unread[0], 200)}{more} may hold weights too and was not read{loads}")


def find_weights(repo: RepoRef) -> WeightFiles:
    """Return the files that hold the weights of a repository; raise as `foreign_model` and `weights_in`."""
    return weights_in(repo, foreign_model(repo))


def weight_files(repo: RepoRef) -> list[str]:
    """Return the names of the files that are read of a repository; raise as `find_weights` does."""
    return find_weights(repo).list_read()


def weights_in(repo: RepoRef, foreign: ForeignForm | None) -> WeightFiles:
    """Return the files that hold the weights of a repository, given the foreign form in which it is read, if any."""
    if foreign:
        return WeightFiles(repo, (), foreign=foreign)
    if ranks := next(filter(RANKS.fullmatch, repo.files()), None):
        why = f"which hf-lineage cannot read and transformers prefers to {SINGLE}; save the model in one piece"
        raise NothingToCompare(f"{repo} holds a distributed checkpoint ({ranks}), {why}")
    config = repo.read_json("config.json") or {}
    before = DIFFUSERS if of_diffusers(config) else ""
    single, index_file = before + SINGLE, before + INDEX
    if (named := config.get(NAMED)) is not None:
        return _in_config(repo, named, (single, index_file))
    index = repo.read_json(index_file) if repo.offers(index_file) else None
    if repo.offers(single):
        if index is not None and {*_read_index(repo, index, index_file).values()} != {single}:
            what = f"{repo} holds {single}, and its {index_file} names other files: transformers loads the file"
            raise Ambiguous(f"{what}, other loaders follow the index; keep one of them")
        return WeightFiles(repo, (single,))
    if index is not None:
        return _shards(repo, index, index_file)
    if repo.allow_pickle and repo.offers(PICKLED[0]):
        return WeightFiles(repo, PICKLED[:1])
    if repo.allow_pickle and repo.offers(PICKLED[1]):
        repo.fetch(PICKLED[1])
        return _shards(repo, repo.read_json(PICKLED[1]) or {}, PICKLED[1], PICKLED_PART)
    if unusual := _unusual(repo):
        return unusual
    if other := other_format(repo):
        raise NothingToCompare(other)
    raise NoWeights(f"{repo} holds no weights ({single} or {index_file})")


def _in_config(repo: RepoRef, value: object, usual: tuple[str, str]) -> WeightFiles:
    text = printable(str(value), 200)
    if not isinstance(value, str) or not PART.fullmatch(value.removesuffix(".index.json")):
        what = f"{text} (`{NAMED}`), which is not a safetensors file of this folder; leave the key out"
        raise NothingToCompare(f"{repo}: config.json names the weights {what}")
    if other := next((name for name in usual if name != value and repo.offers(name)), None):
        what = f"which config.json names (`{NAMED}`), and other loaders load {other}; keep one of them"
        raise Ambiguous(f"{repo}: transformers loads {text}, {what}")
    if not repo.offers(value):
        raise CheckpointError(f"{repo}: config.json names the weights {text}, which are missing")
    if not value.endswith(".json"):
        return WeightFiles(repo, (value,))
    repo.fetch(value)
    index = repo.read_json(value)
    return WeightFiles(repo, (value,)) if index is None else _shards(repo, index)


def _read_index(repo: RepoRef, index: Mapping[str, Any], file: str = INDEX) -> dict[str, str]:
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        raise CheckpointError(f"{repo}: {file} has no `weight_map` from tensor names to file names; save it again")
    return weight_map


def _shards(repo: RepoRef, index: Mapping[str, Any], file: str = INDEX, names: re.Pattern[str] = PART) -> WeightFiles:
    weight_map = _read_index(repo, index, file)
    shards = sorted(set(weight_map.values()))
    if (invalid := next((shard for shard in shards if not names.fullmatch(shard)), None)) is not None:
        what = f"is not a {names.pattern.rpartition('.')[2]} file of this folder: {printable(invalid, 200)}"
        raise CheckpointError(f"{repo}: {file} names a shard that {what}; do not trust this model")
    if missing := next((shard for shard in shards if not repo.offers(shard)), None):
        raise CheckpointError(f"{repo}: {file} names the shard {missing}, which is missing; fetch it, or a newer index")
    return WeightFiles(repo, tuple(shards), weight_map)


def other_format(repo: RepoRef) -> str | None:
    """Return what a repository without usable weights holds; raise NoModelError for a part of the Hub's cache."""
    files = repo.files()
    if "adapter_model.safetensors" in files or "adapter_config.json" in files:
        if "adapter_config.json" not in files:
            return f"{repo} holds an adapter without its adapter_config.json; save it with peft's `save_pretrained`"
        return f"{repo} holds only a LoRA adapter; `hf-lineage check {repo.typed_name}` checks it on its base"
    if place := find_known("places", repo.folders()):
        raise errors.NoModelError(f"{repo}: {place}")
    if known := find_known("files", [*list_files(repo, ""), *repo.folders()]):
        return f"{repo}: {known}"
    first = ""
    for name in (name for name in files if name.endswith(PICKLES) and not NO_WEIGHTS.fullmatch(name)):
        begins = repo.read_head(name, BEGINNING)
        if begins is None or name.startswith("pytorch_model") or begins.startswith(PICKLE_BEGINS):
            convert = (
                "convert it with `AutoModel.from_pretrained(...).save_pretrained(folder)` where you trust the file"
            )
            instead = f"{convert}, or let --allow-pickle read its tensors without running it"
            return f"{repo} holds its weights as a pickle ({name}), which is never loaded; {instead}"
        first = first or f"{name} is {content_of(repo, name) or 'of no form that is known here'}"
    return f"{repo} holds no weights: {first}, and no pickle as its name says" if first else None


def content_of(repo: RepoRef, file: str) -> str:
    """Return the kind of a file by its beginning; empty where it is not known, or the file is not here."""
    return find_known("contents", [repo.read_head(file, BEGINNING) or ""])
