"""Declared: what a model says about its bases, and which of it the stored files contradict."""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from hf_lineage.checking.result import ModelOrVerdict
from hf_lineage.checkpoint.formats.modules import SETTINGS
from hf_lineage.checkpoint.weight_files import WEIGHT_FILES
from hf_lineage.claims.names import RELATIONS
from hf_lineage.claims.sources import CARD, MERGE_CONFIG, Claim, Claims, read_claims
from hf_lineage.errors import LineageError, NothingToCompare, printable
from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef, hub_name
from hf_lineage.signature.values import Signature
from hf_lineage.source.config import model_config
from hf_lineage.source.contents import Adapters, Content, WholeModel, adapter_beside
from hf_lineage.source.locate import with_folders
from hf_lineage.source.model import FromWeights


def declared_in(source: RepoRef | Signature, contents: Sequence[Content]) -> Claims:
    """Return what the root declares, else the folder that is meant, else those of its adapters; none of a signature."""
    if isinstance(source, Signature):
        return Claims((), ())
    claims = read_claims(replace(source, subfolder=""))
    if source.subfolder and not claims.claims:
        claims = read_claims(source)
    elif not claims.claims:
        adapters = (place.repo for one in contents if isinstance(one, Adapters) for place in one.places)
        folders = [read_claims(repo) for repo in adapters if repo.subfolder]
        bases = {claim.base.casefold(): claim for each in folders for claim in each.claims}
        conflicts = sum((each.conflicts for each in folders), claims.conflicts)
        claims = replace(claims, claims=tuple(bases.values()), conflicts=conflicts)
    # Where nothing is declared nothing is downloaded, but a folder that holds no model is still an error.
    if not claims.claims and any(isinstance(one, WholeModel) for one in contents):
        with contextlib.suppress(NothingToCompare):
            model_config(source)
    return with_folders(claims, source)


def relation_notes(claims: Sequence[Claim], repo: RepoRef, model: ModelOrVerdict | None = None) -> tuple[str, ...]:
    """Return a sentence for each declared relation that what is stored contradicts, as far as it shows."""
    declared, notes = [claim for claim in claims if claim.relation and CARD in claim.sources], []
    weights = (name for name in repo.files() if name.endswith(WEIGHT_FILES))
    own = [name for name in weights if not name.startswith(("adapter_model.", "adapters."))]
    for relation in dict.fromkeys(str(claim.relation) for claim in declared):
        contradiction = ""
        if relation not in RELATIONS:
            contradiction = f"the Hub knows only {', '.join(RELATIONS)}"
        elif relation == "adapter" and not adapter_beside(repo):
            missing = "adapter_model.safetensors" if repo.offers(ADAPTER_CONFIG) else ADAPTER_CONFIG
            contradiction = f"there is no adapter: {missing} is missing"
        elif relation != "adapter" and adapter_beside(repo) and not own:
            contradiction = "the repository holds only an adapter"
        elif relation == "merge" and len(declared) == 1 and MERGE_CONFIG not in declared[0].sources:
            contradiction = "names one parent only"
        elif relation == "quantized" and isinstance(model, FromWeights):
            config, types = model.headers.model_config, {one.dtype for one in model.headers.checkpoint.stored.values()}
            # The Hub calls a converted model quantized.
            whole = not config.foreign and types <= {"F64", "F32", "F16", "BF16"}
            if whole and not any(map(config.config.get, SETTINGS)):
                contradiction = "no tensor is quantized and config.json has no `quantization_config`"
        if contradiction:
            notes.append(f"{CARD} declares the relation {printable(relation, 40)}, but {contradiction}")
    return tuple(notes)


def names_in(source: RepoRef) -> tuple[str, ...]:
    """Return the bases that any file of a repository names, whatever counts; none where they cannot be read."""
    try:
        claims = read_claims(replace(source, subfolder=""))
        return tuple(claim.base for claim in (*claims.claims, *claims.besides))
    except LineageError:
        return ()


def is_named(base: str, names: Iterable[str]) -> bool:
    """Return whether a model names a base, at any commit; a folder is named by its last part, and names so."""
    known = {plain_name(name) for name in names}
    last = {name.rpartition("/")[2] for name in known if hub_name(base) is None or hub_name(name) is None}
    return plain_name(base) in known or Path(plain_name(base)).name in last


def plain_name(name: str) -> str:
    """Return the name of a model without its revision, as names are compared."""
    return name.partition("@")[0].casefold()
