"""Naming: which repository, folder or file a name means; what a repository declares is always one on the Hub.

The author of a checkout chose the names of its folders, so none is ever read for what the files there declare.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from hf_lineage.checkpoint.weight_files import content_of, nameable
from hf_lineage.claims.sources import Claims
from hf_lineage.errors import OptionError, RepositoryError, SignatureError, printable
from hf_lineage.files.paths import is_file, is_folder, refuse_within, spell_path
from hf_lineage.hub.repo import EVERY, RepoRef, hub_name, resolve, spell_name
from hf_lineage.signature.values import Signature
from hf_lineage.source.contents import CONFIG, INDEX, only, part_of
from hf_lineage.source.options import Options

SUFFIX = ".lineage.safetensors"  # The end of the name of the file that `extract` writes by default
WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".ckpt"})  # Ends of files beside a `config.json`
# A folder of a repository on the Hub, such as org/name/text_encoder.
_PART = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*/\w[\w.-]*)/(?P<subfolder>\w[\w.-]*)(?P<revision>@[\w./-]+)?")
Model = str | os.PathLike[str]  # A model as people name it: org/name, org/name@revision, or a path


def model_name(model: Model) -> str:
    """Return a model's name as text: a path object is a folder or file here, not a name on the Hub."""
    if isinstance(model, str):
        return model
    if not isinstance(model, os.PathLike) or not isinstance(os.fspath(model), str):
        raise OptionError(f"the name of a model must be a text or a path, not {printable(repr(model), 100)}")
    return spell_path(model)


def several(models: Model | Sequence[Model]) -> tuple[str, ...]:
    """Return the names of one model or of several as text; raise OptionError as `named` does."""
    if isinstance(models, str | os.PathLike) or not isinstance(models, Iterable):
        return (model_name(models),)
    return tuple(map(model_name, models))


def locate(
    model: str, local_hub: Path | None = None, subfolder: str = "", file: str | None = None
) -> RepoRef | Signature:
    """Return the repository, or one folder or file of it, or the stored signature; LineageError if it is neither."""
    if model.startswith("ollama://"):
        why = "the store of Ollama is not read; its blob is a GGUF file: copy it here and check ./blob.gguf"
        raise RepositoryError(f"{printable(model, 200)}: {why}")
    unambiguous(model, local_hub)
    if is_file(model):
        if not nameable(model):
            return _signature(Path(model))
        path = Path(model)  # its repository may be a folder above: `onnx/model.onnx`
        inside = path.parent.name == "onnx" and is_file(str(path.parent.parent / "config.json"))
        repository = path.parent.parent if inside else path.parent
        refuse_within(repository)
        return RepoRef(model, repository, file=path.relative_to(repository).as_posix())
    if not subfolder and (named := _PART.fullmatch(model)) and not is_folder(model):
        model, subfolder = f"{named['name']}{named['revision'] or ''}", named["subfolder"]
    if not subfolder and is_path(model):  # of a pipeline or a checkpoint it may be a part
        above, name = Path(model).parent, Path(model).name
        if name not in ("", "..") and is_file(str(above / (INDEX if is_folder(model) else CONFIG))):
            model, subfolder = model_name(above), name
    repo = resolve(model, local_hub)
    repo = part_of(repo, subfolder) if subfolder else repo
    return replace(repo, file=EVERY if file == "all" else file) if file is not None else repo


def _signature(file: Path) -> Signature:
    """Return the signature in a file; RepositoryError, which names the folder, for a file of a model's weights."""
    from hf_lineage.signature import store

    try:
        return store.load_signature(file)
    except SignatureError:
        what = content_of(RepoRef(file.name, file.parent), file.name)
        if file.name.endswith(SUFFIX) or (file.suffix not in WEIGHTS and not what):
            raise
        config = next((name for name in ("config.json", "adapter_config.json") if is_file(str(file.parent / name))), "")
        quoted = shlex.quote(str(file.parent))
        folder = f"{quoted}, where its {config} is" if config else "with its config.json beside it"
        kind, give = f"is {what}" if what else "cannot be read as a signature", "to name the model with these weights"
        raise RepositoryError(f"{file} {kind}; {give}, give its folder, {folder}") from None


def weights(model: str, source: RepoRef | Signature) -> RepoRef:
    """Return a source that holds weights; OptionError for a signature, which does not."""
    if isinstance(source, Signature):
        raise OptionError(f"{model} is a signature and holds no weights to inspect; give the model")
    return source


def locate_model(model: str, options: Options) -> RepoRef | Signature:
    """Return the model that is to be judged, as the options say where it is and what may be read of it."""
    source = locate(model, options.local_hub, options.subfolder, options.file)
    return options.allow(source) if isinstance(source, RepoRef) else source


def one(model: str, options: Options) -> RepoRef:
    """Return the one model with weights that a name means, in a folder or not; LineageError for a signature."""
    return only(weights(model, locate_model(model, options)))


def unambiguous(name: str, local_hub: Path | None = None) -> None:
    """Raise RepositoryError for a name that may be one on the Hub, and that a folder or file here has too."""
    kind = "folder" if is_folder(name) else "file" if is_file(name) else ""
    if kind and not is_path(name) and not (local_hub and spell_name(local_hub, name)):
        write = f"write ./{name}, or {name}@main for what is on the Hub"
        raise RepositoryError(f"{name} may be a name on the Hub, and there is a {kind} ./{name} here: {write}")


def is_here(name: str) -> bool:
    """Return whether a name that the user typed is a path of this machine, whether there is anything or not."""
    return is_path(name) and (_PART.fullmatch(name) is None or is_folder(name) or is_file(name))


def is_path(name: str) -> bool:
    """Return whether what a user typed is no name on the Hub, or a file with the name of a signature or of weights."""
    of_file = Path(name).suffix in WEIGHTS or nameable(name)
    return hub_name(name) is None or ("/" not in name and of_file and is_file(name))


def with_folders(claims: Claims, source: RepoRef) -> Claims:
    """Return the claims of a repository, each with the folder here that may be meant; those of one on the Hub as is."""
    if source.remote is not None:
        return claims
    located = []
    for claim in claims.claims:
        folders = (place for place in _places(claim.base, source.folder) if is_file(f"{place}/config.json"))
        folder = next((place for place in folders if is_folder(str(place)) and not place.samefile(source.folder)), None)
        located.append(replace(claim, folder=spell_path(os.path.relpath(folder))) if folder else claim)
    return replace(claims, claims=tuple(located))


def _places(base: str, model: Path) -> Iterator[Path]:
    """Yield where a base may lie: in the working directory, or beside the model if the name has no organisation."""
    path = PurePath(base)
    if not path.is_absolute() and ".." not in path.parts:
        yield Path(base)
    last = re.split(r"[/\\]", base.rstrip("/\\"))[-1]
    if last not in ("", ".", "..") and (last == base or hub_name(base) is None):
        yield Path(os.path.realpath(model)).parent / last
