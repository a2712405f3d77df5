"""The base in a card's YAML: one line replaced or added, or a refusal."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hf_lineage.claims import card
from hf_lineage.claims.sources import read_claims
from hf_lineage.errors import CardError
from hf_lineage.hub.reference import RepoRef
from tests.properties import cases


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


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("{base_model: x/y}\n", "does not have one line for each key and cannot be edited;"),
        ("base_model: &b x/y\n", "has anchors, aliases or tags and cannot be edited; set base_model by hand"),
        ("a: &a [1]\nb: *a\n", "has anchors"),
        ("base_model: !!str x/y\n", "has anchors, aliases or tags and cannot be edited;"),
        ("base_model: |\n  x/y\n", "has a base_model that is not a value on one line"),
        ("base_model: x/y\n  and more\n", "has a base_model that is not a value on one line"),
        ("base_model: {name: x/y}\n", "has a base_model that is not a value on one line"),
        ("base_model: [x/y, z/y]\n", "has 2 entries under base_model, any of which may be right; edit it by hand"),
        ("base_model: x/y\nbase_model: z/y\n", "has the key base_model twice; remove one"),
        ("- a\n", "holds a list where keys and values belong; correct it"),
        ("text\n", "holds a str where keys and values belong; correct it"),
        ("a: [b\n", "cannot be read: expected ',' or ']', but got '<stream end>'; correct it"),
        ("a: " + "[" * 5000 + "\n", "cannot be read: more than 100 lists and mappings inside each other; correct it"),
        ("a: b\n...\n", "has no place where base_model can be set safely; set it by hand"),
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
    with pytest.raises(CardError, match="the metadata at its top has no line of --- at its end; add one"):
        card.with_base("\n---\na: b\n", "acme/base", None)


LETTERS = st.text("AZaz09", min_size=1, max_size=4)
NAMES = st.one_of(
    st.builds("{}/{}.-_{}".format, LETTERS, LETTERS, LETTERS),
    st.sampled_from(["gpt2", "no", "null", "1e3", "0x1f", "2024-01-01", "12", "1.5", "_", "true", "0o7", "1_0"]),
)
HERE = "§"
WAYS = (
    *(f"base_model: {HERE}", f'"base_model" :   {HERE}', f"base_model: [{HERE}]", f"base_model: [ {HERE} ]"),
    *(f"base_model:\n- {HERE}", f"base_model:\n  - {HERE}", f"base_model:\n    {HERE}"),
)
"""How one value may be written."""
BESIDE = (
    *("license: mit", "# base_model: x/y", "", "  # more", "tags:\n- a\n- base_model", "model:\n  base_model: x/y"),
    *("text: |\n  base_model: x/y\n\n  more", "words: 'it''s'", "emoji: 🐦 é", "flow: {base_model: [x, y]}"),
    *("folded: >-\n  a\n  b", "empty:", "date: 2024-01-01", '"quoted": "\\u00e9 # no comment"'),
)
"""What may stand beside it."""
LINES = st.lists(st.sampled_from(BESIDE), max_size=5, unique=True)
NEWLINES = st.sampled_from(["\n", "\r\n"])


def whole(lines, newline):
    """A card with these lines of YAML."""
    return "\n".join(["---", *lines, "---", "# Title", ""]).replace("\n", newline)


def value(text):
    """The base that a card names, as a YAML parser has it."""
    stated = yaml.safe_load(text.split("---")[1])["base_model"]
    return stated[0] if isinstance(stated, list) else stated


@cases(80)
@given(
    LINES,
    st.integers(0, 5),
    st.sampled_from(WAYS),
    st.sampled_from(["", " ", "  # why", " # base_model: not/this"]),
    st.sampled_from([HERE, f"'{HERE}'", f'"{HERE}"']),
    *(NAMES, NAMES, NEWLINES),
)
def test_a_value_is_replaced_wherever_it_stands_and_every_other_byte_stays(
    lines, place, way, tail, quotes, old, new, newline
):
    lines.insert(place, way + tail)
    before, after = whole(lines, newline).split(HERE)
    text = before + quotes.replace(HERE, old) + after
    edited = card.with_base(text, new, None)
    if old == new:
        assert edited == text
    else:
        assert edited in {f"{before}{new}{after}", f'{before}"{new}"{after}'}
        assert value(edited) == new
    assert card.with_base(edited, new, None) == edited


@cases(80)
@given(LINES, NAMES, st.sampled_from([None, "finetune"]), NEWLINES)
def test_a_value_is_added_behind_all_others_and_every_other_byte_stays(lines, new, relation, newline):
    text = whole(lines, newline)
    start, end = text[: text.rindex("---")], text[text.rindex("---") :]
    edited = card.with_base(text, new, relation)
    more = f"base_model_relation: {relation}{newline}" if relation else ""
    assert edited in {f"{start}base_model: {name}{newline}{more}{end}" for name in (new, f'"{new}"')}
    assert value(edited) == new


def spliced(old, new, piece):
    """Whether a text is the old one with a piece in place of at most one line's worth of it."""
    starts = (start for start in range(len(new)) if new.startswith(piece, start))
    halves = ((new[:start], new[start + len(piece) :]) for start in starts)
    return any(
        old.startswith(before) and old.endswith(after) and "\n" not in old[len(before) : len(old) - len(after)]
        for before, after in halves
        if len(before) + len(after) <= len(old)
    )


@cases(200)
@given(st.lists(st.one_of(st.sampled_from((*BESIDE, *WAYS)), st.text(max_size=12)), max_size=6), NAMES)
def test_whatever_stands_there_one_value_or_line_is_put_in_or_it_is_refused(lines, new):
    text = whole(lines, "\n")
    try:
        edited = card.with_base(text, new, None)
    except CardError:
        return
    pieces = (new, f'"{new}"', f" {new}", f' "{new}"', f"base_model: {new}\n", f'base_model: "{new}"\n')
    assert edited == text or any(spliced(text, edited, piece) for piece in pieces)
    assert card.with_base(edited, new, None) == edited
