"""Names as people write them: each means a model of the Hub, or is set aside with a sentence of its own."""

import pytest

from hf_lineage.claims import names
from hf_lineage.claims.names import LONGEST, Name, names_in, parse_name
from tests.published.spellings import TABLES


@pytest.mark.parametrize(("text", "base"), TABLES["models"])
def test_what_means_a_model_is_understood(text, base):
    assert parse_name(text) == Name(base)


@pytest.mark.parametrize(
    ("text", "problem"),
    [(text, getattr(names, problem)) for problem, texts in TABLES["no_models"].items() for text in texts],
)
def test_what_means_none_is_set_aside_with_its_own_sentence(text, problem):
    if text == ".":
        assert "not ." in parse_name(text).problem
    else:
        assert (parse_name(text).base, parse_name(text).problem) == (text, problem)


def test_a_tag_and_a_mapping_say_the_relation_and_hostile_text_costs_nothing():
    assert parse_name("base_model:Quantized:org/name", "finetune") == Name("org/name", "quantized")
    assert parse_name("base_model:org/name", "finetune") == Name("org/name", "finetune")
    assert [name.relation for name in names_in({"relation": "Merge", "models": ["org/a"]})] == ["merge"]
    assert [name.relation for name in names_in({"relation": "child", "name": "org/a"}, "finetune")] == ["finetune"]
    for text in ("/" * LONGEST, "models--" * 125, "a-" * 500, "a." * 500, "[" * LONGEST, "x" * 10**6):
        assert parse_name(text).problem
        assert len(parse_name(text).base) <= 200
    for value, bases in TABLES["mappings"]:
        assert [name.base for name in names_in(value)] == bases, value
