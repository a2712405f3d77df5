"""What the files of a repository declare, what they say wrongly, and what the command line makes of it."""

import json
import os
import re
from dataclasses import replace

import pytest

from hf_lineage.checkpoint.gguf.files import Head
from hf_lineage.claims import names as names_module
from hf_lineage.claims import sources as sources_module
from hf_lineage.claims.names import Name
from hf_lineage.claims.sources import Claim, Claims, ClaimSource, read_claims
from hf_lineage.errors import CheckpointError
from hf_lineage.hub.repo import FolderCache, RepoRef
from tests.invoking import check
from tests.models import WEIGHTS, spoil, tiny_llama
from tests.models import card as write_card
from tests.published.spellings import TABLES

CARD, LORA, MERGE, CONFIG = "README.md", "adapter_config.json", "mergekit_config.yml", "config.json"
FILES = {"card": CARD, "lora": LORA, "merge": MERGE, "config": CONFIG}
NOTHING, LOADED = Claims((), ()), '{"_name_or_path": "org/a"}'
DECLARING = b"---\nbase_model: org/base\n---\n"
LINE_1 = "README.md, line 1 of its YAML: "
MERGED = f"x: &s {{model: org/base}}\ny: &p {{sources: [{'*s, ' * 10**5}]}}\nslices: [{'*p, ' * 10**5}]\n"
"""A hundred thousand slices of a hundred thousand sources each, in a megabyte."""
ALIASES = "of its YAML: its aliases make more than 1000000 values"
REVISION = "0123456789abcdef0123456789abcdef01234567"
TAGS = "tags: [text-generation, 'base_model:finetune:org/a', 'base_model:org/a']"
A_AND_C, A_AND_PATH = (f"models: [{{model: org/a}}, {{model: {other}}}]" for other in ("org/c", "./merged"))
OF_B = "adapter_config.json declares org/b; mergekit_config.yml declares org/a, org/c"
UNCOUNTED = "config.json declares org/a (`_name_or_path`), which does not count because other files declare a base"
WRITTEN = [
    b"\xef\xbb\xbf" + DECLARING,
    DECLARING.replace(b"\n", b"\r\n"),
    DECLARING.replace(b"\n", b"\r"),
    b"\n\n---  \nbase_model: org/base\n---\t\n",
    DECLARING.rstrip(),
    b"---\nauthor: M\xfcller\nbase_model: org/base\n---\n",
    DECLARING + b"x" * 10_000_000,
]
UNVERIFIABLE = [
    ({"nom": "acme/base"}, "a mapping without a name"),
    ("acme/base\n# RELATED", r"acme/base\n#"),
    ("\x1b[2Jacme/base", r"\x1b[2Jacme/base"),
    ("acme/\ud800", r"acme/\ud800"),
]


@pytest.fixture
def model(tmp_path):
    return RepoRef("org/model", tmp_path)


def declared(model, **files):
    for name, content in files.items():
        model.path(FILES[name]).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_claims(replace(model, cache=FolderCache()))


def adapter(base, **settings):
    return json.dumps({"base_model_name_or_path": base, **settings})


def front(*lines):
    return "\n".join(("---", *lines, "---", "# Title\n"))


def test_a_card_declares_names_or_what_cannot_be_followed_or_nothing(model):
    for value, bases in TABLES["values"]:
        claims = declared(model, card=front(f"base_model: {value}")).claims
        assert [(claim.base, claim.problem) for claim in claims] == [(base, "") for base in bases], value
    for value, shown in TABLES["no_names"]:
        (claim,) = declared(model, card=front(f"base_model: {value}")).claims
        problem = f"base_model must be a model name such as org/model, not {shown}"
        assert (claim.base, claim.problem) == (shown, problem), value
    for card in TABLES["cards_without_a_base"]:
        assert declared(model, card=card) == NOTHING, card


@pytest.mark.parametrize(
    "card", WRITTEN, ids=["BOM", "CRLF", "CR", "blanks", "no newline at the end", "not UTF-8", "10 MB of text"]
)
def test_a_card_is_read_however_it_is_written(model, card):
    assert [claim.base for claim in declared(model, card=card).claims] == ["org/base"]


DAMAGED = [
    (front("base_model: [org/a"), f"{LINE_1}expected ',' or ']', but got"),
    (front("base_model: a: b"), f"{LINE_1}mapping values are not allowed here; correct it"),
    (front("\tbase_model: a"), f"{LINE_1}found character '\\t' that cannot start any"),
    (front("base_model: \x1b[31m"), "README.md: unacceptable character #x001b: special characters are"),
    (front("just text"), "README.md holds a str where keys and values belong; correct it"),
    (front("- a"), "README.md holds a list where keys and values belong; correct it"),
    (front("a: " + "[" * 5000), f"{LINE_1}more than 100 lists and mappings inside each other"),
    (front("a: &a [*a]"), f"{LINE_1}found unconstructable recursive node"),
    ("---\nbase_model: org/base\n", "the metadata at the top of README.md has no line of ---"),
    (front("\n" * 2**20), "the metadata at the top of README.md has no line of --- at its end within 1"),
    (front(f"base_model: {[f'org/{n}' for n in range(101)]}"), " declares 101 bases; name those to"),
]


@pytest.mark.parametrize(("card", "message"), DAMAGED)
def test_a_card_that_cannot_be_parsed_is_an_error_with_its_place(model, card, message):
    with pytest.raises(CheckpointError, match=f"^org/model.*{re.escape(message)}"):
        declared(model, card=card)


def repeated(laugh):
    levels = [f"a{n}: &a{n} " + laugh.format(", ".join([f"*a{n - 1}"] * 9)) for n in range(1, 30)]
    return front("base_model: org/base", "a0: &a0 {x: y}", *levels)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        *(("card", repeated(laugh), f"README.md, line 8 {ALIASES}") for laugh in ("[{0}]", "{{<<: [{0}]}}")),
        ("merge", MERGED, f"mergekit_config.yml, line 3 {ALIASES}"),
        *((file, "#" * (2**20 + 1), "is larger than 1 MiB; shorten it") for file in ("merge", "lora")),
    ],
    ids=["lists", "merge keys", "a merge", "a long merge", "a long adapter"],
)
def test_what_multiplies_itself_or_takes_more_than_a_mebibyte_costs_nothing(model, file, content, message):
    with pytest.raises(CheckpointError, match=message):
        declared(model, **{file: content})


@pytest.mark.parametrize("files", [(LORA,), (CARD, LORA)])
def test_the_revision_that_an_adapter_was_trained_on_is_meant_by_its_card_too(model, files):
    of_card = {"card": front("base_model: org/base")} if CARD in files else {}
    claims = declared(model, lora=adapter("org/base", revision=REVISION), **of_card)
    assert [(claim.base, claim.sources) for claim in claims.claims] == [(f"org/base@{REVISION}", files)]
    assert claims.conflicts == ()


def test_a_newest_revision_a_base_that_is_none_and_weak_files_are_left_out(model):
    for revision in (None, "", "main", 7, "a b", "../x y", "v" * 200):
        claims = declared(model, lora=adapter("org/base", revision=revision))
        assert [claim.base for claim in claims.claims] == ["org/base"]
    for value in (None, "", "null"):
        assert declared(model, lora=adapter(value)) == NOTHING
    for origin in ("org/model", "ORG/Model", None, 7, ["org/model"], {}):  # what a configuration says of itself
        assert declared(model, config=json.dumps({"_name_or_path": origin})).claims == ()
    for content in ("{", "[]", "#" * (2**20 + 1)):  # a weak file that cannot be read, where the card names the base
        claims = declared(model, card=front("base_model: org/b"), lora=content)
        assert [claim.base for claim in claims.claims] == ["org/b"]
        assert "adapter_config.json" in claims.notes[0]


def left_out(file, base, problem=names_module.PATH):
    return f"{file} declares {base}, which is left out: {problem}"


AN_A, AN_B, OUTPUT = front("base_model: org/a"), front("base_model: org/b"), '{"_name_or_path": "./output"}'


def weighed(model, files, *claims, conflicts=(), notes=(), besides=()):
    """Assert what files declare together: each claim a base, its relation, and the files that say it."""
    for name in FILES.values():
        model.path(name).unlink(missing_ok=True)
    named, others = (tuple(Claim(base, kind, tuple(by)) for base, kind, *by in each) for each in (claims, besides))
    assert declared(model, **files) == Claims(named, conflicts, notes, others)


def test_what_one_or_several_files_declare_is_weighed(model):
    for merge, bases in TABLES["merges"]:
        weighed(model, {"merge": merge}, *((base, "merge", MERGE) for base in bases))
    weighed(model, {"card": front("base_model: org/a", "base_model_relation: merge")}, ("org/a", "merge", CARD))
    weighed(model, {"lora": adapter("org/a", r=8)}, ("org/a", "adapter", LORA))
    weighed(model, {"card": AN_A, "lora": adapter("org/a")}, ("org/a", "adapter", CARD, LORA))
    weighed(model, {"card": front("base_model: [org/a, hf.co/ORG/A, 'org/a/']")}, ("org/a", None, CARD))
    weighed(model, {"card": front(TAGS)}, ("org/a", "finetune", CARD))
    weighed(model, {"card": front("base_model: org/b", TAGS)}, ("org/b", None, CARD))
    weighed(model, {"config": LOADED}, ("org/a", None, CONFIG))
    weighed(model, {"config": OUTPUT, "card": AN_B}, ("org/b", None, CARD))


def test_what_files_that_disagree_or_name_no_model_declare_is_weighed_too(model):
    of_b, of_c = ("org/b", "adapter", LORA), ("org/c", "merge", MERGE)
    merged = {"lora": adapter("org/b"), "merge": A_AND_C}
    weighed(model, merged, of_b, ("org/a", "merge", MERGE), of_c, conflicts=(OF_B,))
    counted = (f"README.md declares org/a; {OF_B}; README.md counts",)
    weighed(model, {"card": AN_A} | merged, ("org/a", "merge", CARD, MERGE), conflicts=counted, besides=[of_b, of_c])
    files = {"card": front("base_model: hf.co/Org/A/"), "lora": adapter("/workspace/a"), "merge": A_AND_PATH}
    paths = (left_out(LORA, "/workspace/a"), left_out(MERGE, "./merged"))
    weighed(model, files, ("Org/A", "merge", CARD, MERGE), notes=paths)
    files, of_root = {"card": front("base_model: /root/a"), "lora": adapter("org/a")}, left_out(CARD, "/root/a")
    weighed(model, files, ("org/a", "adapter", LORA), notes=(of_root,))
    weighed(model, {"card": front("base_model: None")}, notes=(left_out(CARD, "None", names_module.WORD),))
    origin = {"notes": (UNCOUNTED,), "besides": [("org/a", None, CONFIG)]}
    weighed(model, {"config": LOADED, "card": AN_B}, ("org/b", None, CARD), **origin)
    weighed(model, {"config": OUTPUT}, notes=(left_out(CONFIG, "./output"),))


def test_a_file_that_is_added_to_the_table_declares_but_no_gguf_beside_weights(model, monkeypatch):
    toy = ClaimSource("PARENT", lambda repo, file: [Name(repo.read_text(file).strip(), "copy")])
    monkeypatch.setattr(sources_module, "SOURCES", [*sources_module.SOURCES, toy])
    model.path("PARENT").write_text("org/parent\n")
    expected = Claims((Claim("org/parent", "copy", ("PARENT",)),), ())
    assert declared(model) == expected
    for file in ("a.gguf", "model.safetensors"):
        model.path(file).touch()
    assert (read_claims(model), model.heads) == (expected, {})


@pytest.mark.parametrize(("metadata", "claims"), TABLES["metadata"])
def test_metadata_of_a_gguf_file_declare_a_base(model, monkeypatch, metadata, claims):
    model.path("a-Q8_0.gguf").touch()
    model.heads["a-Q8_0.gguf"] = Head(metadata, ())
    found = read_claims(model).claims
    assert [[claim.base, claim.relation, claim.problem] for claim in found] == [*map(list, claims)]
    assert all(claim.sources == ("GGUF metadata",) for claim in found)


@pytest.mark.parametrize(
    ("base_model", "shown"), UNVERIFIABLE, ids=["mapping", "two lines", "escape sequence", "half a pair"]
)
def test_a_base_that_cannot_be_followed_is_unverifiable(hub, base_model, shown):
    write_card(hub / "fern/child", base_model)
    result = check(hub)
    assert (result.code, result.err, "UNDECIDED" in result.out) == (3, "", True)
    assert all(line.isprintable() for line in result.out.splitlines())
    assert f"base_model must be a model name such as org/model, not {shown}" in result.sentences


def test_several_claims_are_judged_one_by_one_and_the_worst_counts_unless_named(hub):
    tiny_llama(hub / "acme/other", seed=1)
    spoil(tiny_llama(hub / "acme/wide", width=64), lambda tensors: tensors.pop("model.embed_tokens.weight"))
    write_card(hub / "fern/child", ["acme/base", "acme/other", "acme/wide", 7])
    result = check(hub)
    expected = {"acme/base": "inherited", "acme/other": "UNRELATED", "acme/wide": "incompatible", "7": "no-base"}
    assert ({row[0]: row[-1] for row in result.rows}, result.code) == (expected, 1)
    os.truncate(hub / "acme/wide" / WEIGHTS, 100)
    assert check(hub).code == 2
    (hub / "fern/child/README.md").write_text("---\nbase_model: [\n---\n")
    assert check(hub, "--base", "acme/base").code == 0
