"""Records that are kept name the verified bases in order, and pin a base that is a folder by digests of its files."""

import hashlib
import json
import os
from dataclasses import replace
from decimal import Decimal

import pytest

from hf_lineage import check
from hf_lineage.evidence.merge import Parent
from hf_lineage.report import FORMATS
from hf_lineage.report.materials import ancestors, confidence, digests
from tests.models import card, fine_tuned, shard, tiny_llama
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
