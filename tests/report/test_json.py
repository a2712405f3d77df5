"""The report for machines: all of it is held against a committed one, and every key is in its schema."""

import json as plain
from dataclasses import replace
from datetime import timedelta

import pytest

from hf_lineage import Options, check
from hf_lineage.report import json
from hf_lineage.report.findings import OF_CLAIM, OF_REPORT
from hf_lineage.report.materials import encode
from tests import goldens


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


def test_the_report_on_an_example_pair_is_the_committed_one(report, golden):
    assert goldens.differences(golden, plain.loads(json.render(report))) == []


def test_the_committed_report_is_written_as_the_same_bytes(golden):
    assert encode(golden).encode() == goldens.read(goldens.REPORT)


def test_the_committed_report_keeps_to_todays_schema(golden):
    import jsonschema

    jsonschema.validate(golden, plain.loads(json.SCHEMA.read_text("utf-8")))


def test_every_key_of_a_report_is_described_in_the_schema(golden):
    """A key that the schema does not know is a key that nobody can rely on."""
    names = {maker.name for maker in (*OF_CLAIM, *OF_REPORT)}
    undescribed = keys(golden) - described(plain.loads(json.SCHEMA.read_text("utf-8"))) - names
    assert undescribed == set()


def keys(value):
    """The keys of all objects, but for names that are data: layers, paths and files."""
    if isinstance(value, list):
        return set().union(*map(keys, value))
    if not isinstance(value, dict):
        return set()
    own = {key for key in value if not key.isdigit()}
    return own.union(*map(keys, value.values()))


def described(schema):
    """Every name under `properties` of a schema, wherever it stands."""
    if isinstance(schema, list):
        return set().union(*map(described, schema))
    if not isinstance(schema, dict):
        return set()
    return set(schema.get("properties", {})).union(*map(described, schema.values()))


def test_both_licences_are_text_that_decides_nothing(hub):
    import jsonschema

    (hub / "acme/base/README.md").write_text("---\nlicense: other\nlicense_name: <ours>\n---\n")
    document = check("fern/child", options=Options(local_hub=hub)).to_dict()
    jsonschema.validate(document, plain.loads(json.SCHEMA.read_text("utf-8")))
    assert (document["license"], document["claims"][0]["base_license"]) == ("mit", "other (<ours>)")
    assert document["exit_code"] == 0


def test_the_bases_of_the_card_are_told_though_others_are_named(hub):
    options = Options(local_hub=hub, budget="full")
    declared = [{"base": "acme/base", "relation": "finetune", "sources": ["README.md"]}]
    for bases in ((), ("acme/base",), (str(hub / "fern/child"),)):
        document = check("fern/child", bases, options=options).to_dict()
        assert document["declared"] == declared
        assert [claim["sources"] for claim in document["claims"]] == [["--base"] if bases else ["README.md"]]
    (hub / "fern/child/README.md").write_bytes(b"---\n: [\n---\n")
    assert check("fern/child", "acme/base", options=options).to_dict()["declared"] == []


def test_what_is_published_is_the_report_without_what_one_run_or_machine_knows(report, golden):
    import jsonschema

    published = json.published(report)
    jsonschema.validate(published, plain.loads(json.SCHEMA.read_text("utf-8")))
    assert published.keys() == golden.keys()
    assert published["claims"][0].keys() == golden["claims"][0].keys()
    assert json.OF_THIS_RUN.items() <= (published | published["claims"][0]).items()
    (row,) = report.rows
    cached = replace(report, rows=(replace(row, base_origin=replace(row.base_origin, kind="cache"), traffic={}),))
    assert json.published(replace(cached, checked_at=report.checked_at + timedelta(1))) == published
