"""The report for machines: all of it is held against a committed one, and every key is in its schema."""

import hashlib
import json as plain
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from hf_lineage import Options, check
from hf_lineage.report import FORMATS, json
from hf_lineage.report.findings import OF_CLAIM, OF_REPORT
from hf_lineage.report.json import digests, encode
from tests import goldens, pages
from tests.models import card, fine_tuned, shard, tiny_llama
from tests.report.test_cyclonedx import validate


@pytest.fixture(scope="module")
def report():
    return goldens.pair()


@pytest.fixture(autouse=True)
def without_another_time(monkeypatch):
    """What builds packages may set a time for everything."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


@pytest.fixture(scope="module")
def golden():
    return plain.loads(goldens.read(goldens.REPORT))


def all_of(value, names):
    """The names that every object has, wherever it stands, as a function tells them."""
    if isinstance(value, list):
        return set().union(*(all_of(one, names) for one in value))
    return names(value).union(*(all_of(one, names) for one in value.values())) if isinstance(value, dict) else set()


def test_the_report_on_a_pair_is_the_committed_one_whose_schema_has_every_key(report, golden):
    """A key that the schema does not know is a key that nobody can rely on."""
    assert goldens.differences(golden, plain.loads(json.render(report))) == []
    assert encode(golden).encode() == goldens.read(goldens.REPORT)
    pages.validate(golden)
    makers = {maker.name for maker in (*OF_CLAIM, *OF_REPORT)}
    schema = plain.loads(json.SCHEMA.read_text("utf-8"))
    described = all_of(schema, lambda one: {*one.get("properties", {})})
    keys = all_of(golden, lambda one: {key for key in one if not key.isdigit()})  # the numbers of layers are data
    assert keys - described - makers == set()


def test_licences_and_the_bases_of_the_card_are_told_though_others_are_named(hub):
    (hub / "acme/base/README.md").write_text("---\nlicense: other\nlicense_name: <ours>\n---\n")
    options = Options(local_hub=hub, budget="full")
    document = check("fern/child", options=options).to_dict()
    pages.validate(document)
    assert (document["license"], document["claims"][0]["base_license"]) == ("mit", "other (<ours>)")
    assert document["exit_code"] == 0
    declared = [{"base": "acme/base", "relation": "finetune", "sources": ["README.md"]}]
    for bases in ((), ("acme/base",), (str(hub / "fern/child"),)):
        document = check("fern/child", bases, options=options).to_dict()
        assert document["declared"] == declared
        assert [claim["sources"] for claim in document["claims"]] == [["--base"] if bases else ["README.md"]]
    (hub / "fern/child/README.md").write_bytes(b"---\n: [\n---\n")
    assert check("fern/child", "acme/base", options=options).to_dict()["declared"] == []


def test_what_is_published_is_the_report_without_what_one_run_or_machine_knows(report, golden):
    published = json.publish_report(report)
    pages.validate(published)
    assert (published.keys(), published["claims"][0].keys()) == (golden.keys(), golden["claims"][0].keys())
    assert json.OF_THIS_RUN.items() <= (published | published["claims"][0]).items()
    (row,) = report.rows
    cached = replace(report, rows=(replace(row, base_origin=replace(row.base_origin, kind="cache"), traffic={}),))
    assert json.publish_report(replace(cached, checked_at=report.checked_at + timedelta(1))) == published


@pytest.fixture
def on_folders(tmp_path, monkeypatch):
    """A report on a fine-tune of a base in shards, both in the working directory, and the digests of the shards."""
    monkeypatch.chdir(tmp_path)
    base = tiny_llama(tmp_path / "base")
    card(fine_tuned(base, tmp_path / "child"))
    files = sorted(shard(base).glob("*.safetensors"))
    assert len(files) > 1
    return check("./child", ["./base"]), {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_a_statement_names_them_and_in_cyclonedx_they_are_parts_of_the_ancestor(on_folders):
    report, expected = on_folders
    (claim,) = plain.loads(FORMATS["intoto"](report, False))["predicate"]["claims"]
    assert claim["base_commit"] is None
    assert claim["signatures"]["base"] == {"kind": "weights", "files": expected}
    assert plain.loads(FORMATS["json"](report, False))["claims"][0]["signatures"]["base"]["files"] == {}
    text = FORMATS["cyclonedx"](report, False)
    validate(text)
    model = plain.loads(text)["metadata"]["component"]
    (ancestor,) = model["pedigree"]["ancestors"]
    assert {file["name"]: file["hashes"][0]["content"] for file in ancestor["components"]} == expected
    (told,) = (one["value"] for one in model["properties"] if one["name"] == "hf-lineage:claim:0:base-files")
    assert told == ", ".join(f"{file} sha256:{sha256}" for file, sha256 in expected.items())


def test_weights_are_read_once_for_both_for_no_other_and_again_after_a_change(tmp_path, on_folders, monkeypatch):
    (report, expected), digested, read = on_folders, [], hashlib.file_digest
    files = {file.stat().st_ino for file in tmp_path.rglob("*.safetensors")}

    def noted(stream, name):
        digested.append(os.fstat(stream.fileno()).st_ino)
        return read(stream, name)

    monkeypatch.setattr(hashlib, "file_digest", noted)
    for form in FORMATS.keys() - {"intoto", "cyclonedx", "intoto-predicate", "checksums"}:
        FORMATS[form](report, False)
    assert digested == []
    for form in ("intoto", "cyclonedx"):
        FORMATS[form](report, False)
    weights = [inode for inode in digested if inode in files]
    assert len(weights) == len({*weights}) == len(expected) + 1
    assert digests(report.rows[0].base_folder) == expected
    file = Path("base", next(iter(expected)))
    file.write_bytes(file.read_bytes() + b"\n")
    assert digests(report.rows[0].base_folder)[file.name] != expected[file.name]
