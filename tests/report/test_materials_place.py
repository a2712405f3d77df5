"""Every format for machines: the same each time, in ASCII, and untrusted input is never more than text."""

import json
from pathlib import Path

import pytest

from hf_lineage import check
from hf_lineage.report import FORMATS
from hf_lineage.report.materials import Place, encode, places
from tests import hostile
from tests.models import edit_json, tiny_llama

ROOT = Path(__file__).parents[2]
MACHINES = ("json", "sarif", "cyclonedx", "intoto")


def rendered(form, report):
    return FORMATS[form](report, False)


@pytest.mark.parametrize("form", MACHINES)
def test_the_same_report_is_the_same_file(every_kind, form):
    assert rendered(form, every_kind) == rendered(form, every_kind)


@pytest.mark.parametrize("form", MACHINES)
def test_untrusted_input_is_nowhere_more_than_text(hostile_report, form):
    text = rendered(form, hostile_report)
    assert text.isascii()
    patterns = hostile.MARKUP + hostile.LINES
    assert not hostile.traces(text, patterns[:-1] if form in ("json", "intoto") else patterns)  # these cut no name


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_neither_is_it_in_what_people_read(hostile_report, form):
    text = FORMATS[form](hostile_report, True)
    assert not hostile.traces(text, hostile.LINES if form == "text" else hostile.MARKUP + hostile.LINES)


def test_escaping_changes_no_value():
    document = {"<b>": ["&", "##[x]", "\u202e", "é", 0.1, None, True, -3]}
    assert json.loads(encode(document)) == document


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    return tiny_llama(tmp_path / "a model")


def places_of(model, card, bases=()):
    (model / "README.md").write_text(card, encoding="utf-8")
    return places(check(str(model), bases))


def test_each_entry_of_a_list_is_at_its_own(model):
    card = "---\ntags: [org/b]\nbase_model:\n- org/a\n- 'org/b'\n---\norg/a\n"
    assert [place.line for (place,) in places_of(model, card)] == [4, 5]


def test_every_file_that_says_so_is_named(model):
    edit_json(model / "adapter_config.json", base_model_name_or_path="org/a")
    (model / "mergekit_config.yml").write_text("models:\n- model: org/a+org/lora\n")
    assert places_of(model, "---\nbase_model: org/a\n---\n") == [
        [
            Place("a%20model/README.md", 2),
            Place("a%20model/adapter_config.json", 1),
            Place("a%20model/mergekit_config.yml", 2),
        ]
    ]


def test_a_base_that_the_user_names_is_where_it_could_be_declared(model):
    assert places_of(model, "---\nlicense: mit\n---\n", ["org/a"]) == [[Place("a%20model/README.md", None)]]


def test_nothing_of_this_machine_is_in_a_path(model, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert places_of(model, "---\nbase_model: org/a\n---\n") == [[Place("README.md", 2)]]


@pytest.mark.parametrize("rest", ["* * *: [", "\t- {", "key: &a [*a]\n" * 3, "'"])
def test_what_follows_the_metadata_does_not_matter(model, rest):
    assert places_of(model, f"---\nbase_model: org/a\n---\n{rest}") == [[Place("a%20model/README.md", 2)]]
