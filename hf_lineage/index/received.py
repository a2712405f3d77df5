"""Received: the shards of an index that somebody else published, read as untrusted input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hf_lineage.architecture.paths import PATHS
from hf_lineage.errors import RepositoryError, SignatureError
from hf_lineage.hub import trees
from hf_lineage.index.catalogue import ENDING, KEYS
from hf_lineage.index.shards import LARGEST, NAMES, REMEDY, libraries, opened, rows_of, schema
from hf_lineage.signature.values import WIDEST

MOST_SHARDS = 1000
"""Shards of one index that are read."""
LARGEST_INDEX = 2**33
"""Bytes of all shards together."""
LONGEST = 400
"""Bytes of a name or of a label."""
MOST_LAYERS = 100_000
RULES = {
    "model": r"^([A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9_][\w.-]{0,95}(/\w[\w.-]{0,95})*$",
    "commit": "^[0-9a-f]{40}$",
    "path": f"^({'|'.join(PATHS)})$",
    "recipe": r"^[\w.-]+$",
    "source": "^$",
}
"""What each text of a row has to be."""


def shards_of(name: str, commit: str) -> dict[str, trees.Entry]:
    """Return the shards of an index on the Hub at a commit; none where it has no folder of keys.

    Raise RepositoryError for more of them, or larger ones, than are read.
    """
    try:
        files = trees.tree(name, commit, KEYS, trees.DATASET)
    except RepositoryError:
        return {}
    shards = {file: entry for file, entry in files.items() if file.endswith(ENDING)}
    sizes = [entry.size for entry in shards.values()]
    if len(sizes) > MOST_SHARDS or max(sizes, default=0) > LARGEST or sum(sizes) > LARGEST_INDEX:
        raise RepositoryError(
            f"{name} has {len(sizes)} files of keys of {sum(sizes)} bytes, more than are read: {MOST_SHARDS} of "
            f"{LARGEST_INDEX >> 30} GiB; it is no index"
        )
    return shards


def table(name: str, commit: str) -> Any:
    """Return every row of an index on the Hub at a commit, with where its signature is; LineageError if damaged."""
    arrow, _ = libraries()
    tables = [schema().empty_table()]
    for file in shards_of(name, commit):
        place = trees.fetched(name, commit, file, trees.DATASET, LARGEST)
        tables.append(_checked(place, f"{name}: {file}", f"{name}@{commit}"))
    return arrow.concat_tables(tables)


def _checked(file: Path, shown: str, source: str) -> Any:
    """The rows of a shard; SignatureError, which names it as the user knows it, for what no index holds."""
    arrow, _ = libraries()
    try:
        shard = opened(file, NAMES)
        groups = [rows_of(file, shard, (*NAMES, "key"), group, _problem) for group in range(shard.num_row_groups)]
    except SignatureError as error:
        message = str(error).replace(str(file), shown).replace(REMEDY, "name a revision at which it is whole")
        raise SignatureError(message) from None
    rows = arrow.concat_tables([schema().empty_table(), *groups])
    place = schema().get_field_index("source")
    return rows.set_column(place, schema().field("source"), arrow.array([source] * len(rows), arrow.string()))


def _problem(rows: Any) -> str:
    """What is wrong with some rows: a text that is too long, or what cannot be of a model; empty if nothing is."""
    import pyarrow.compute as compute

    for name, rule in RULES.items():
        for chunk in rows[name].chunks:
            texts = chunk.dictionary
            if len(texts) and compute.max(compute.binary_length(texts)).as_py() > LONGEST:
                return f"a {name} is longer than {LONGEST} bytes"
            wrong = texts.filter(compute.invert(compute.match_substring_regex(texts, rule)))
            if len(wrong):
                return f"{wrong[0].as_py()!r} is no {name}"
    for name, most in (("width", WIDEST), ("layers", MOST_LAYERS)):
        values = compute.min_max(rows[name].cast("int64")).as_py()
        if len(rows) and not 0 < values["min"] <= values["max"] <= most:
            return f"a {name} lies outside 1 to {most}"
    return ""
