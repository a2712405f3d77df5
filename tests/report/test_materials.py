"""Records that are kept name the verified bases in order, and pin a base that is a folder by digests of its files."""

import hashlib
import json
import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from hf_lineage import check
from hf_lineage.evidence.merge import Parent
from hf_lineage.report import FORMATS
from hf_lineage.report.materials import Place, ancestors, confidence, digests, encode, places
from tests import hostile
from tests.models import card, edit_json, fine_tuned, shard, tiny_llama
from tests.pages import measured, row
from tests.pages import report as report_of
from tests.report.test_cyclonedx import validate

KEPT = ("intoto", "cyclonedx")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A working directory with a base in shards and a fine-tune of it."""
    monkeypatch.chdir(tmp_path)
    base = tiny_llama(tmp_path / "base")
    card(fine_tuned(base, tmp_path / "child"))
    shard(base)
    return tmp_path


@pytest.fixture
def report(home):
    return check("./child", ["./base"])


@pytest.fixture
def expected(home):
    files = sorted((home / "base").glob("*.safetensors"))
    assert len(files) > 1
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def rendered(report, form):
    return FORMATS[form](report, False)


def test_a_statement_names_them_as_the_origin_of_the_numbers(report, expected):
    (claim,) = json.loads(rendered(report, "intoto"))["predicate"]["claims"]
    assert claim["base_commit"] is None
    assert claim["signatures"]["base"] == {"kind": "weights", "files": expected}
    assert json.loads(rendered(report, "json"))["claims"][0]["signatures"]["base"]["files"] == {}


def test_in_cyclonedx_they_are_parts_of_the_ancestor_and_a_property_of_the_claim(report, expected):
    text = rendered(report, "cyclonedx")
    validate(text)
    model = json.loads(text)["metadata"]["component"]
    (ancestor,) = model["pedigree"]["ancestors"]
    assert {file["name"]: file["hashes"][0]["content"] for file in ancestor["components"]} == expected
    (told,) = (one["value"] for one in model["properties"] if one["name"] == "hf-lineage:claim:0:base-files")
    assert told == ", ".join(f"{file} sha256:{sha256}" for file, sha256 in expected.items())


def test_weights_are_read_once_for_all_of_them_and_for_no_other_format(home, report, expected, monkeypatch):
    digested = []
    plain = hashlib.file_digest
    files = {file.stat().st_ino for file in home.rglob("*.safetensors")}

    def noted(stream, name):
        digested.append(os.fstat(stream.fileno()).st_ino)
        return plain(stream, name)

    monkeypatch.setattr(hashlib, "file_digest", noted)
    for form in FORMATS.keys() - {*KEPT, "intoto-predicate", "checksums"}:
        rendered(report, form)
    assert digested == []
    for form in KEPT:
        rendered(report, form)
    weights = [inode for inode in digested if inode in files]
    assert len(weights) == len({*weights}) == len(expected) + 1


def test_what_changed_since_is_read_again(home, report):
    before = digests(report.rows[0].base_folder)
    (file, *_) = before
    (home / "base" / file).write_bytes((home / "base" / file).read_bytes() + b"\n")
    assert digests(report.rows[0].base_folder)[file] != before[file]


def near(base, share, **more):
    return replace(row(base, mlp=measured(share=share)), **more)


def names(*rows):
    return [one.claim.base for one in ancestors(report_of(*rows))]


def test_the_nearest_is_the_first_and_the_upstream_of_all_the_last():
    assert names(near("org/far", 0.6), near("org/near", 0.99), near("org/part", 0.3)) == ["org/near", "org/far"]


def test_the_base_of_a_merge_is_behind_its_parents():
    base = Parent(method="ties", declared={}, shares={}, is_base=True)
    assert names(near("org/base", 0.99, parent=base), near("org/parent", 0.7)) == ["org/parent", "org/base"]


def test_a_base_of_several_parts_is_named_once():
    assert names(near("org/base", 0.9, part="unet"), near("org/base", 0.9, part="text_encoder")) == ["org/base"]


@pytest.mark.parametrize(("p", "level"), [(0.001, "0.999"), (0.003, "0.997"), (1e-9, "0.9999"), (0.5, "0.5")])
def test_confidence_is_the_level_at_which_independence_is_rejected_and_never_certain(p, level):
    assert confidence(row(mlp=measured(p=p))) == Decimal(level)


ROOT = Path(__file__).parents[2]
MACHINES = ("json", "sarif", "cyclonedx", "intoto")


@pytest.mark.parametrize("form", MACHINES)
def test_the_same_report_is_the_same_file(every_kind, form):
    assert rendered(every_kind, form) == rendered(every_kind, form)


@pytest.mark.parametrize("form", MACHINES)
def test_untrusted_input_is_nowhere_more_than_text(hostile_report, form):
    text = rendered(hostile_report, form)
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
