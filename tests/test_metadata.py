"""The base in a card's YAML: one line replaced or added, or a refusal."""

import pytest

from hf_lineage import card
from hf_lineage.claims import read_claims
from hf_lineage.errors import CardError
from hf_lineage.repo import RepoRef


def repaired(yaml, base="acme/base", relation=None):
    return card.with_base(f"---\n{yaml}---\n# Title\n", base, relation)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "base_model: acme/base\n"),
        ("# a comment\n", "# a comment\nbase_model: acme/base\n"),
        ("license: mit\n", "license: mit\nbase_model: acme/base\n"),
        ("a: |\n  text\n\n", "a: |\n  text\n\nbase_model: acme/base\n"),
        ("a:\n- b\n# end\n", "a:\n- b\n# end\nbase_model: acme/base\n"),
        ("  a: b\n", "  a: b\n  base_model: acme/base\n"),
        ("base_model: x/y\n", "base_model: acme/base\n"),
        ("base_model: 'x/y'   # why\nz: 1\n", "base_model: acme/base   # why\nz: 1\n"),
        ("base_model:\n", "base_model: acme/base\n"),
        ("base_model:   # none yet\n", "base_model: acme/base   # none yet\n"),
        ("base_model: ~\n", "base_model: acme/base\n"),
        ("base_model: []\n", "base_model: acme/base\n"),
        ("base_model:\n- x/y # why\n", "base_model:\n- acme/base # why\n"),
        ("base_model: [x/y]\n", "base_model: [acme/base]\n"),
        ('"base_model" : x/y\n', '"base_model" : acme/base\n'),
        ("base_model:\n  x/y\nz: 1\n", "base_model:\n  acme/base\nz: 1\n"),
        ("emoji: 🐦\nbase_model: x/y\n", "emoji: 🐦\nbase_model: acme/base\n"),
        ("base_model: acme/base # yes\n", "base_model: acme/base # yes\n"),
        ("base_model: [x/y, acme/base]\n", "base_model: [x/y, acme/base]\n"),
        ("nested:\n  base_model: x/y\n", "nested:\n  base_model: x/y\nbase_model: acme/base\n"),
        ("a: {b: [c, d]}\n", "a: {b: [c, d]}\nbase_model: acme/base\n"),
    ],
)
def test_one_line_is_replaced_or_added(before, after):
    assert repaired(before) == f"---\n{after}---\n# Title\n"
    assert repaired(after) == f"---\n{after}---\n# Title\n"


def test_the_relation_is_set_beside_it():
    before = "base_model_relation: merge # once\nbase_model: x/y\nz: 1\n"
    after = "base_model_relation: finetune # once\nbase_model: acme/base\nz: 1\n"
    assert repaired(before, relation="finetune") == f"---\n{after}---\n# Title\n"
    assert "z: 1\nbase_model: acme/base\nbase_model_relation: adapter\n---\n" in repaired("z: 1\n", relation="adapter")


def test_a_name_that_yaml_takes_for_something_else_is_quoted():
    assert 'base_model: "1e3"\n' in repaired("", "1e3") or "base_model: 1e3\n" in repaired("", "1e3")
    assert 'base_model: "null"\n' in repaired("", "null")
    assert 'base_model: "2024-01-01"\n' in repaired("", "2024-01-01")


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("{base_model: x/y}\n", "is not written as a line for each key"),
        ("base_model: &b x/y\n", "has anchors, aliases or tags, which are not edited; set base_model by hand"),
        ("a: &a [1]\nb: *a\n", "has anchors"),
        ("base_model: !!str x/y\n", "has anchors, aliases or tags"),
        ("base_model: |\n  x/y\n", "has a base_model that is no value on one line"),
        ("base_model: x/y\n  and more\n", "has a base_model that is no value on one line"),
        ("base_model: {name: x/y}\n", "has a base_model that is no value on one line"),
        ("base_model: [x/y, z/y]\n", "has 2 entries under base_model, any of which may be right; edit it by hand"),
        ("base_model: x/y\nbase_model: z/y\n", "says base_model twice; remove one"),
        ("- a\n", "holds a list where keys and values belong; mend it"),
        ("text\n", "holds a str where keys and values belong; mend it"),
        ("a: [b\n", "cannot be read: expected ',' or ']', but got '<stream end>'; mend it"),
        ("a: " + "[" * 5000 + "\n", "cannot be read: more than 100 lists and mappings inside each other; mend it"),
        ("a: b\n...\n", "has no place where base_model can be set without harm; set it by hand"),
    ],
)
def test_what_cannot_be_edited_line_by_line_is_refused(before, message):
    with pytest.raises(CardError) as error:
        repaired(before)
    assert str(error.value).startswith("README.md: the YAML at its top ")
    assert message in str(error.value)


@pytest.mark.parametrize("text", ["", "# Title\n\nText.\n", "\ufeff# Title\r\n", "Text\n---\na: b\n---\n"])
def test_a_card_without_yaml_gets_some(text, tmp_path):
    new = card.with_base(text, "acme/base", "finetune")
    newline = "\r\n" if "\r" in text else "\n"
    lines = ("---", "base_model: acme/base", "base_model_relation: finetune", "---", "")
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    assert new == mark + newline.join(lines) + text.removeprefix(mark)
    (tmp_path / "README.md").write_bytes(new.encode())
    (claim,) = read_claims(RepoRef("org/model", tmp_path)).claims
    assert (claim.base, claim.relation) == ("acme/base", "finetune")


def test_yaml_that_never_ends_is_refused():
    with pytest.raises(CardError, match="the metadata at its top does not end in a line of ---; end it with one"):
        card.with_base("\n---\na: b\n", "acme/base", None)


def test_line_endings_stay():
    text = "---\r\n# why\r\nbase_model: x/y # parent\r\n---\r\nText\n"
    assert card.with_base(text, "acme/base", "merge") == (
        "---\r\n# why\r\nbase_model: acme/base # parent\r\nbase_model_relation: merge\r\n---\r\nText\n"
    )
