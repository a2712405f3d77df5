"""Claims: the bases that a repository declares, the files that declare them, and the licence that its card states.

To read another file that declares bases, add an entry to the table SOURCES; no other module changes.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from hf_lineage.claims import names as parsing
from hf_lineage.claims.names import NO_VALUE, PATH, WORD, MergeRecipe, Name, names_in, parse_name
from hf_lineage.errors import CheckpointError, LineageError, printable
from hf_lineage.files import safe_yaml
from hf_lineage.hub.repo import ADAPTER_CONFIG, LARGEST_CONFIG, RepoRef, hub_name

CARD, CONFIG, MERGE_CONFIG, MOE_CONFIG = "README.md", "config.json", "mergekit_config.yml", "mergekit_moe_config.yml"
GGUF = "GGUF metadata"
LARGEST = 2**20  # The most bytes of a configuration, and of the beginning of a card, that are read for claims
LAST = 2  # The rank of a source that only programs write; a text in it that names no model is no claim
ORIGIN = "_name_or_path"  # The key under which transformers writes what a configuration was loaded from
MOST_CLAIMS = 100  # The most claims of one model, because each may cost a download
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
LARGEST_METADATA = safe_yaml.SHORT  # In so many bytes metadata have to end; those of any card on the Hub do


@dataclass(frozen=True)
class Claim:
    """One base that a repository declares, the relation to it, and every file that declares it."""

    base: str
    relation: str | None
    sources: tuple[str, ...]
    problem: str = ""  # Why the claim cannot be followed; empty if it can
    folder: str = ""  # A folder here that may be meant, as it is typed, and which is never read for that

    @property
    def remedy(self) -> str:
        """The end of a sentence that tells the user which option to add where the claim leads to no model."""
        folder = shlex.quote(self.folder)
        path = "; name the base with --base" if self.problem == PATH else ""
        return f"; to compare the folder {folder}, add `--base {folder}`" if self.folder else path


@dataclass(frozen=True)
class Claims:
    """The claims of a repository that count; `conflicts` describes how its files disagree."""

    claims: tuple[Claim, ...]
    conflicts: tuple[str, ...]
    notes: tuple[str, ...] = ()  # Sentences about what is declared besides and does not count
    besides: tuple[Claim, ...] = ()  # Bases that only weaker sources name than those that count


@dataclass(frozen=True)
class ClaimSource:
    """One file of a repository in which bases are declared."""

    file: str
    declares: Callable[[RepoRef, str], Iterable[Name]]  # Raises CheckpointError for what cannot be parsed
    rank: int = 0  # Sources of a higher rank count only if the sources of lower ranks name no model


def read_claims(repo: RepoRef) -> Claims:
    """Return the bases that any file declares; CheckpointError for one unread unless a lower rank names a model."""
    declared: dict[ClaimSource, Sequence[Name]] = {}
    unread: list[str] = []
    counting: int | None = None
    for source in sorted(SOURCES, key=lambda source: source.rank):
        try:
            declared[source] = tuple(dict.fromkeys(source.declares(repo, source.file)))
        except CheckpointError as error:
            if counting in (None, source.rank):
                raise
            unread.append(str(error))
            continue
        if counting is None and any(not name.problem for name in declared[source]):
            counting = source.rank
    if stated := next((names for source, names in declared.items() if source.file == ADAPTER_CONFIG), None):
        # An adapter changes the weights that it was trained on, at the revision that it states.
        exact = {name.base.partition("@")[0].casefold(): name.base for name in stated if not name.problem}
        for source, names in declared.items():
            declared[source] = tuple(replace(one, base=exact.get(one.base.casefold(), one.base)) for one in names)
    return _weigh(repo, declared, counting, unread)


def _weigh(
    repo: RepoRef, declared: Mapping[ClaimSource, Sequence[Name]], counting: int | None, unread: Sequence[str]
) -> Claims:
    """Return the claims of the rank that counts, with every file that agrees, and what else is declared."""
    meant = (source.rank for source, names in declared.items() if any(name.problem != WORD for name in names))
    rank = next(meant, None) if counting is None else counting
    claims: dict[str, Claim] = {}
    besides: dict[str, Claim] = {}
    notes = list(unread)
    for source, name in ((source, name) for source, names in declared.items() for name in names):
        key, words = name.base.casefold(), f"{source.file} declares {name.base}"
        if name.problem and key not in claims and (source.rank != rank or name.problem == WORD or rank == LAST):
            notes += [f"{words}, which is left out: {name.problem}"] if source.rank < LAST or counting is None else []
            continue
        known = claims if source.rank == rank or key in claims else besides
        claim = known.get(key, Claim(name.base, None, (), name.problem))
        sources = tuple(dict.fromkeys((*claim.sources, source.file)))
        known[key] = replace(claim, relation=claim.relation or name.relation, sources=sources)
        if known is besides and source.rank == LAST:
            notes.append(f"{words} (`{ORIGIN}`), which does not count because other files declare a base")
    if len(claims) > MOST_CLAIMS:
        raise CheckpointError(f"{repo} declares {len(claims)} bases; name those to check with --base")
    return Claims(tuple(claims.values()), _conflicts(declared, counting), tuple(notes), tuple(besides.values()))


def _conflicts(declared: Mapping[ClaimSource, Sequence[Name]], counting: int | None) -> tuple[str, ...]:
    """Return a sentence that says which file declares what, if they disagree, and which of them counts."""
    speaking = dict[ClaimSource, dict[str, str]]()
    for source, names in declared.items():
        bases = {name.base.casefold(): name.base for name in names if not name.problem}
        speaking |= {source: dict(sorted(bases.items()))} if bases and source.rank < LAST else {}
    if len({tuple(bases) for bases in speaking.values()}) <= 1:
        return ()
    sentence = "; ".join(f"{source.file} declares {', '.join(bases.values())}" for source, bases in speaking.items())
    weaker = any(source.rank != counting for source in speaking)
    counts = ", ".join(source.file for source in speaking if source.rank == counting)
    return (f"{sentence}; {counts} counts" if weaker else sentence,)


def _in_card(repo: RepoRef, file: str) -> Iterable[Name]:
    text = repo.read_head(file, LARGEST) or ""
    if "\0" in text:
        raise CheckpointError(f"{repo}: {file} is not UTF-8 text; save it as UTF-8, or name the base with --base")
    if (front_matter := metadata_in(text)) is None:
        end = f"has no line of --- at its end within {LARGEST >> 20} MiB; add one"
        raise CheckpointError(f"{repo}: the metadata at the top of {file} {end}")
    metadata = _yaml(repo, file, front_matter)
    relation = metadata.get("base_model_relation")
    stated = printable(relation.strip(), 40) if isinstance(relation, str) and relation.strip() not in NO_VALUE else None
    names = list(names_in(metadata.get("base_model"), stated))
    # The tags are in the form in which the Hub itself writes them.
    tags = metadata.get("tags")
    tagged = [tag for tag in (tags if isinstance(tags, list) else []) if isinstance(tag, str)]
    return names or [parse_name(tag) for tag in tagged if tag.startswith("base_model:")]


def _in_merge(repo: RepoRef, file: str) -> Iterable[Name]:
    """Return the parents of a merge; of several in one file each has a name, by which the others mean it."""
    merges = _documents(repo, file, repo.read_text(file, LARGEST))
    for merge in merges:
        made = [one.get("name") for one in merges if one is not merge]
        yield from (name for name in parsing.parents_in(merge) if name.base not in made)


def merge_recipe(repo: RepoRef) -> MergeRecipe | None:
    """Return the recipe by which a model says it was merged, of mergekit's file or of its card; None without one."""
    try:
        recipe = parsing.recipe_in(_yaml(repo, MERGE_CONFIG, repo.read_text(MERGE_CONFIG, LARGEST)))
    except CheckpointError:
        recipe = None
    return recipe or parsing.recipe_in_card(repo.read_head(CARD, LARGEST) or "")


def _in_config(repo: RepoRef, file: str) -> Iterable[Name]:
    """Return the model that the configuration says it was loaded from, unless that is this repository itself."""
    names = names_in((repo.read_json(file, LARGEST_CONFIG) or {}).get(ORIGIN))
    return [name for name in names if name.base.partition("@")[0].casefold() not in _own(repo)]


def _in_gguf(repo: RepoRef, _: str) -> Iterable[Name]:
    """Return the base models that metadata name or, where they name none, the model that was converted."""
    if "model.safetensors" in repo.files() if repo.file is None else not repo.file.endswith(".gguf"):
        return []
    from hf_lineage.checkpoint.gguf.files import choose_files, read_head

    files = choose_files(repo)
    metadata = read_head(repo, files[0]).metadata if files else {}
    keys = [f"general.base_model.{number}.repo_url" for number in range(MOST_CLAIMS + 1)]
    bases = [name for key in keys for name in names_in(metadata.get(key))]
    title = str(metadata.get("general.name", ""))
    sources = (metadata.get(f"general.source.{key}") for key in ("repo_url", "huggingface.repository", "url"))
    source = next(filter(None, sources), title if "/" in title and hub_name(title) else None)
    return bases or [name for name in names_in(source, "quantized") if name.base.casefold() not in _own(repo)]


def _own(repo: RepoRef) -> set[str]:
    return {name.partition("@")[0].casefold() for name in (repo.name, repo.remote, repo.new_name) if name}


SOURCES = [
    ClaimSource(CARD, _in_card),
    ClaimSource(
        ADAPTER_CONFIG, lambda repo, file: parsing.bases_of_adapter(repo.read_json(file, LARGEST) or {}), rank=1
    ),
    ClaimSource(MERGE_CONFIG, _in_merge, rank=1),
    ClaimSource(MOE_CONFIG, _in_merge, rank=1),
    ClaimSource(GGUF, _in_gguf, rank=1),
    ClaimSource(CONFIG, _in_config, rank=LAST),
]  # In the order of reports; if several files declare one base, the first relation counts


def _yaml(repo: RepoRef, file: str, text: str | None) -> dict[str, Any]:
    return next(iter(_documents(repo, file, text, most=1)), {})


def _documents(repo: RepoRef, file: str, text: str | None, most: int = MOST_CLAIMS) -> list[dict[str, Any]]:
    """Return mappings and lists of plain text, which is enough for names and safe for untrusted input."""
    try:
        contents = [content for content in safe_yaml.documents(text or "", most) if content]
    except yaml.YAMLError as error:
        line, what = safe_yaml.line(error), safe_yaml.problem(error)
        where = f"{file}, line {line} of its YAML" if line else file
        raise CheckpointError(f"{repo}: {where}: {what}; correct it, or name the base with --base") from None
    if other := next((type(content).__name__ for content in contents if not isinstance(content, dict)), None):
        raise CheckpointError(f"{repo}: {file} holds a {other} where keys and values belong; correct it")
    return contents


def split_lines(text: str) -> tuple[str, list[str]]:
    """Return the byte order mark of a text, if any, and its lines with their endings: LF, CRLF or CR."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    return mark, LINE.findall(text.removeprefix(mark))


def front_matter(lines: Sequence[str]) -> tuple[int, int | None]:
    """Return the first line of the YAML at the top of a card and the line of its end, if any; 0 and 0 without YAML."""
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None or lines[first].strip() != "---":
        return 0, 0
    return first + 1, next((number for number in range(first + 1, len(lines)) if lines[number].rstrip() == "---"), None)


def metadata_in(text: str) -> str | None:
    """Return the YAML at the top of a card, empty if there is none; None if it never ends."""
    _, lines = split_lines(text)
    start, end = front_matter(lines)
    return None if end is None else "\n".join(line.rstrip() for line in lines[start:end])


def stated_licence(source: object) -> str:
    """Return the licence that a card on this disk states, on one printable line; empty where it states none."""
    if not isinstance(source, RepoRef):
        return ""
    try:
        text = replace(source, subfolder="").read_head(CARD, LARGEST_METADATA) or ""
        metadata = safe_yaml.load(metadata_in(text) or "")
    except (LineageError, OSError, yaml.YAMLError):
        return ""
    licences = []
    for key in ("license", "license_name", "license_link") if isinstance(metadata, Mapping) else ():
        value = metadata.get(key)
        values = value[:10] if isinstance(value, list) else [value]  # licences of one card that are shown
        texts = (text.strip() for text in values if isinstance(text, str))
        licences.append(printable(", ".join(text for text in texts if text not in NO_VALUE), 200))
    names = ", ".join(filter(None, licences[1:]))
    return " ".join(filter(None, (*licences[:1], f"({names})" if names else "")))
