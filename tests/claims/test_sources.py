"""What the files of a repository declare, what they say wrongly, and what the command line makes of it."""

import json
import os
from dataclasses import replace

import pytest

from hf_lineage.checkpoint.gguf.files import GgufHeader, Head
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

CARD, LORA, MERGE = "README.md", "adapter_config.json", "mergekit_config.yml"
NOTHING = Claims((), ())


@pytest.fixture
def model(tmp_path):
    return RepoRef("org/model", tmp_path)


def declared(model, **files):
    """What a model declares whose files have these contents."""
    names = {"card": CARD, "lora": LORA, "merge": MERGE}
    for name, content in files.items():
        model.path(names[name]).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_claims(replace(model, cache=FolderCache()))


def test_a_card_declares_its_base_and_the_relation(model):
    front = "---\nbase_model: org/base\nbase_model_relation: finetune\n---\n# Title\n"
    assert declared(model, card=front) == Claims((Claim("org/base", "finetune", (CARD,)),), ())


@pytest.mark.parametrize(("value", "bases"), TABLES["values"])
def test_any_text_is_a_name_and_no_value_is_none(model, value, bases):
    claims = declared(model, card=f"---\nbase_model: {value}\n---\n")
    assert [(claim.base, claim.problem) for claim in claims.claims] == [(base, "") for base in bases]


@pytest.mark.parametrize(("value", "shown"), TABLES["no_names"])
def test_what_is_no_name_is_a_claim_that_cannot_be_followed(model, value, shown):
    (claim,) = declared(model, card=f"---\nbase_model: {value}\n---\n").claims
    assert (claim.base, claim.problem) == (shown, f"base_model must be a model name such as org/model, not {shown}")


@pytest.mark.parametrize("card", TABLES["cards_without_a_base"])
def test_a_card_without_a_base_declares_nothing(model, card):
    assert declared(model, card=card) == NOTHING


@pytest.mark.parametrize(
    "card",
    [
        b"\xef\xbb\xbf---\nbase_model: org/base\n---\n",
        b"---\r\nbase_model: org/base\r\n---\r\n",
        b"---\rbase_model: org/base\r---\r",
        b"\n\n---  \nbase_model: org/base\n---\t\n",
        b"---\nbase_model: org/base\n---",
        b"---\nauthor: M\xfcller\nbase_model: org/base\n---\n",
        b"---\nbase_model: org/base\n---\n" + b"x" * 10_000_000,
    ],
    ids=["BOM", "CRLF", "CR", "blanks", "no newline at the end", "not UTF-8", "10 MB of text"],
)
def test_a_card_is_read_however_it_is_written(model, card):
    assert [claim.base for claim in declared(model, card=card).claims] == ["org/base"]


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ("---\nbase_model: [org/a\n---\n", "README.md, line 1 of its YAML: expected ',' or ']', but got"),
        ("---\nbase_model: a: b\n---\n", "line 1 of its YAML: mapping values are not allowed here; correct it"),
        ("---\n\tbase_model: a\n---\n", "README.md, line 1 of its YAML: found character '\\t' that cannot start any"),
        ("---\nbase_model: \x1b[31m\n---\n", "README.md: unacceptable character #x001b: special characters are"),
        ("---\njust text\n---\n", "README.md holds a str where keys and values belong; correct it"),
        ("---\n- a\n---\n", "README.md holds a list where keys and values belong; correct it"),
        (
            "---\na: " + "[" * 5000 + "\n---\n",
            "README.md, line 1 of its YAML: more than 100 lists and mappings inside each other",
        ),
        ("---\na: &a [*a]\n---\n", "README.md, line 1 of its YAML: found unconstructable recursive node"),
        ("---\nbase_model: org/base\n", "the metadata at the top of README.md has no line of ---"),
        (
            "---\n" + "\n" * 2**20 + "---\n",
            "the metadata at the top of README.md has no line of --- at its end within 1",
        ),
        (f"---\nbase_model: {[f'org/{n}' for n in range(101)]}\n---\n", "org/model declares 101 bases; name those to"),
    ],
)
def test_a_card_that_cannot_be_parsed_is_an_error_with_its_place(model, card, message):
    with pytest.raises(CheckpointError) as error:
        declared(model, card=card)
    assert message in str(error.value)
    assert str(error.value).startswith("org/model")


@pytest.mark.parametrize("laugh", ["[{0}]", "{{<<: [{0}]}}"], ids=["lists", "merge keys"])
def test_a_card_that_multiplies_itself_costs_nothing(model, laugh):
    levels = ["a0: &a0 {x: y}"]
    levels += [f"a{n}: &a{n} " + laugh.format(", ".join([f"*a{n - 1}"] * 9)) for n in range(1, 30)]
    front = "\n".join(["---", "base_model: org/base", *levels, "---\n"])
    with pytest.raises(
        CheckpointError, match=r"README\.md, line 8 of its YAML: its aliases make more than 1000000 values"
    ):
        declared(model, card=front)


def test_a_merge_that_repeats_itself_costs_nothing(model):
    """A hundred thousand slices of a hundred thousand sources each, in half a megabyte."""
    sources, slices = ", ".join(["*s"] * 10**5), ", ".join(["*p"] * 10**5)
    merge = f"x: &s {{model: org/base}}\ny: &p {{sources: [{sources}]}}\nslices: [{slices}]\n"
    with pytest.raises(
        CheckpointError, match=r"mergekit_config\.yml, line 3 of its YAML: its aliases make more than 1000000"
    ):
        declared(model, merge=merge)


@pytest.mark.parametrize("file", ["merge", "lora"])
def test_a_configuration_of_more_than_a_mebibyte_is_not_read(model, file):
    with pytest.raises(CheckpointError, match=r"is larger than 1 MiB; shorten it"):
        declared(model, **{file: "#" * (2**20 + 1)})


def test_a_lora_adapter_declares_its_base(model):
    claims = declared(model, lora='{"base_model_name_or_path": "org/base", "r": 8}')
    assert claims == Claims((Claim("org/base", "adapter", (LORA,)),), ())


REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize("files", [(LORA,), (CARD, LORA)])
def test_the_revision_that_an_adapter_was_trained_on_is_meant_by_its_card_too(model, files):
    said = {"base_model_name_or_path": "org/base", "revision": REVISION}
    written = {"lora": json.dumps(said)} | ({"card": "---\nbase_model: org/base\n---\n"} if CARD in files else {})
    claims = declared(model, **written)
    assert [(claim.base, claim.sources) for claim in claims.claims] == [(f"org/base@{REVISION}", files)]
    assert claims.conflicts == ()


@pytest.mark.parametrize("revision", [None, "", "main", 7, "a b", "../x y", "v" * 200])
def test_a_revision_that_is_the_newest_or_none_of_the_hub_is_left_out(model, revision):
    claims = declared(model, lora=json.dumps({"base_model_name_or_path": "org/base", "revision": revision}))
    assert [claim.base for claim in claims.claims] == ["org/base"]


@pytest.mark.parametrize("value", [None, "", "null"])
def test_a_lora_adapter_without_a_base_declares_nothing(model, value):
    assert declared(model, lora=json.dumps({"base_model_name_or_path": value})) == NOTHING


@pytest.mark.parametrize(("merge", "bases"), TABLES["merges"])
def test_a_merge_declares_its_parents(model, merge, bases):
    claims = declared(model, merge=merge)
    assert claims == Claims(tuple(Claim(base, "merge", (MERGE,)) for base in bases), ())


def test_files_that_agree_make_one_claim_with_both_sources(model):
    claims = declared(model, card="---\nbase_model: org/base\n---\n", lora='{"base_model_name_or_path": "org/base"}')
    assert claims == Claims((Claim("org/base", "adapter", (CARD, LORA)),), ())


def test_of_files_that_disagree_the_card_counts_and_the_conflict_is_shown(model):
    claims = declared(
        model,
        card="---\nbase_model: org/a\n---\n",
        lora='{"base_model_name_or_path": "org/b"}',
        merge="models: [{model: org/a}, {model: org/c}]",
    )
    assert [(claim.base, claim.sources) for claim in claims.claims] == [("org/a", (CARD, MERGE))]
    assert [(claim.base, claim.sources) for claim in claims.besides] == [("org/b", (LORA,)), ("org/c", (MERGE,))]
    assert claims.conflicts == (
        "README.md declares org/a; adapter_config.json declares org/b; mergekit_config.yml declares org/a, org/c; "
        "README.md counts",
    )


def test_without_a_card_the_other_files_are_claims_all_alike(model):
    claims = declared(model, lora='{"base_model_name_or_path": "org/b"}', merge="models: [{model: org/a}]")
    assert [(claim.base, claim.relation) for claim in claims.claims] == [("org/b", "adapter"), ("org/a", "merge")]
    assert claims.conflicts == ("adapter_config.json declares org/b; mergekit_config.yml declares org/a",)


def test_names_of_another_machine_do_not_count_where_the_card_names_the_base(model):
    claims = declared(
        model,
        card="---\nbase_model: https://huggingface.co/Org/A/\n---\n",
        lora='{"base_model_name_or_path": "/workspace/a"}',
        merge="models: [{model: org/a}, {model: ./merged}]",
    )
    assert [(claim.base, claim.sources) for claim in claims.claims] == [("Org/A", (CARD, MERGE))]
    assert (claims.conflicts, claims.besides) == ((), ())
    assert claims.notes == (
        f"adapter_config.json declares /workspace/a, which is left out: {names_module.PATH}",
        f"mergekit_config.yml declares ./merged, which is left out: {names_module.PATH}",
    )


def test_a_card_that_names_a_path_gives_way_to_a_file_that_names_a_model(model):
    claims = declared(model, card="---\nbase_model: /root/a\n---\n", lora='{"base_model_name_or_path": "org/a"}')
    assert [(claim.base, claim.sources) for claim in claims.claims] == [("org/a", (LORA,))]
    assert claims.notes == (f"README.md declares /root/a, which is left out: {names_module.PATH}",)


def test_one_base_under_several_names_is_one_claim(model):
    (claim,) = declared(model, card="---\nbase_model: [org/a, hf.co/ORG/A, 'org/a/']\n---\n").claims
    assert (claim.base, claim.sources) == ("org/a", (CARD,))


def test_a_word_for_no_model_is_said_and_nothing_is_declared(model):
    claims = declared(model, card="---\nbase_model: None\n---\n")
    assert claims == Claims((), (), (f"README.md declares None, which is left out: {names_module.WORD}",))


def test_tags_declare_the_base_where_the_card_does_not(model):
    tags = "tags: [text-generation, 'base_model:finetune:org/a', 'base_model:org/a']"
    assert declared(model, card=f"---\n{tags}\n---\n") == Claims((Claim("org/a", "finetune", (CARD,)),), ())
    assert declared(model, card=f"---\nbase_model: org/b\n{tags}\n---\n").claims[0].base == "org/b"


@pytest.mark.parametrize("origin", ["org/model", "ORG/Model", None, 7, ["org/model"], {}])
def test_what_a_configuration_says_of_itself_is_no_claim(model, origin):
    model.path("config.json").write_text(json.dumps({"_name_or_path": origin}))
    assert read_claims(model).claims == ()


def test_what_a_configuration_was_loaded_from_counts_where_nothing_else_is_declared(model):
    model.path("config.json").write_text('{"_name_or_path": "org/a"}')
    assert read_claims(model) == Claims((Claim("org/a", None, ("config.json",)),), ())
    claims = declared(model, card="---\nbase_model: org/b\n---\n")
    assert [claim.base for claim in claims.claims] == ["org/b"]
    assert (claims.conflicts, [claim.base for claim in claims.besides]) == ((), ["org/a"])
    assert claims.notes == (
        "config.json declares org/a (`_name_or_path`), which does not count because other files declare a base",
    )


def test_a_path_that_a_configuration_was_loaded_from_is_never_a_claim(model):
    model.path("config.json").write_text('{"_name_or_path": "./output"}')
    assert read_claims(model).claims == ()
    assert declared(model, card="---\nbase_model: org/b\n---\n").notes == ()


@pytest.mark.parametrize("content", ["{", "[]", "#" * (2**20 + 1)])
def test_a_weak_file_that_cannot_be_read_is_a_note_where_the_card_names_the_base(model, content):
    claims = declared(model, card="---\nbase_model: org/b\n---\n", lora=content)
    assert [claim.base for claim in claims.claims] == ["org/b"]
    assert "adapter_config.json" in claims.notes[0]


def test_a_file_that_is_added_to_the_table_declares_bases(model, monkeypatch):
    toy = ClaimSource("PARENT", lambda repo, file: [Name(repo.read_text(file).strip(), "copy")])
    monkeypatch.setattr(sources_module, "SOURCES", [*sources_module.SOURCES, toy])
    model.path("PARENT").write_text("org/parent\n")
    assert declared(model) == Claims((Claim("org/parent", "copy", ("PARENT",)),), ())


@pytest.mark.parametrize(("metadata", "claims"), TABLES["metadata"])
def test_metadata_of_a_gguf_file_declare_a_base(model, monkeypatch, metadata, claims):
    model.path("a-Q8_0.gguf").touch()
    model.heads["a-Q8_0.gguf"] = Head(GgufHeader(metadata, ()), None)
    assert [(claim.base, claim.relation, claim.problem) for claim in read_claims(model).claims] == list(
        map(tuple, claims)
    )
    assert all(claim.sources == ("GGUF metadata",) for claim in read_claims(model).claims)


def test_where_the_weights_are_no_gguf_file_its_metadata_are_not_read(model):
    for file in ("a.gguf", "model.safetensors"):
        model.path(file).touch()
    assert read_claims(model) == NOTHING
    assert model.heads == {}


def test_a_broken_card_does_not_matter_where_the_base_is_named(hub):
    (hub / "fern/child/README.md").write_text("---\nbase_model: [\n---\n")
    assert check(hub, "--base", "acme/base").code == 0


NO_NAME = {
    "mapping": ({"nom": "acme/base"}, "a mapping without a name"),
    "two lines": ("acme/base\n# RELATED", r"acme/base\n#"),
    "escape sequence": ("\x1b[2Jacme/base", r"\x1b[2Jacme/base"),
    "half a pair": ("acme/\ud800", r"acme/\ud800"),
}
"""What a card declares, and how that is shown."""


@pytest.mark.parametrize(("base_model", "shown"), NO_NAME.values(), ids=NO_NAME)
def test_a_base_that_cannot_be_followed_is_unverifiable(hub, base_model, shown):
    write_card(hub / "fern/child", base_model)
    result = check(hub)
    assert (result.code, result.err) == (3, "")
    assert "UNDECIDED" in result.out
    assert all(line.isprintable() for line in result.out.splitlines())
    assert f"base_model must be a model name such as org/model, not {shown}" in result.sentences


def test_several_claims_are_judged_one_by_one_and_the_worst_counts(hub):
    tiny_llama(hub / "acme/other", seed=1)
    spoil(tiny_llama(hub / "acme/wide", width=64), lambda tensors: tensors.pop("model.embed_tokens.weight"))
    write_card(hub / "fern/child", ["acme/base", "acme/other", "acme/wide", 7])
    result = check(hub)
    assert [(row[0], row[-1]) for row in result.rows] == [
        ("acme/base", "inherited"),
        ("acme/other", "UNRELATED"),
        ("acme/wide", "incompatible"),
        ("7", "no-base"),
    ]
    assert result.code == 1
    os.truncate(hub / "acme/wide" / WEIGHTS, 100)
    assert check(hub).code == 2
