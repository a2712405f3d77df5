"""The record beside a card: the committed one is read, written and measured again, and nothing private is in it."""

import datetime
import json
from dataclasses import replace

import pytest
from hf_lineage.report.record import record

from hf_lineage.errors import CardError
from tests import goldens

NAME = "claims-v4.json"
BASE = "acme/llama-base"


@pytest.fixture(scope="module")
def report():
    return goldens.pair()


def built(report, names=(), commit=goldens.COMMIT):
    return record.build(report, commit, goldens.DAY, dict(names))


def test_the_record_of_an_example_pair_is_the_committed_one(report):
    now = json.loads(record.encode(built(report)))
    assert goldens.differences(json.loads(goldens.read(NAME)), now) == []


def test_the_committed_record_is_read_and_written_as_the_same_bytes():
    decoded = record.decode(goldens.read(NAME))
    assert record.encode(decoded) == goldens.read(NAME)
    (claim,) = decoded.claims
    assert (claim.base, claim.code, claim.verified, claim.date) == (BASE, "inherited", True, goldens.DAY)
    assert list(claim.evidence) == ["mlp", "query_key"]


def test_a_record_and_a_report_have_one_key_for_one_thing():
    """What the record adds is about the record; everything else stands under the same keys, with fewer digits."""
    recorded, told = (json.loads(goldens.read(name)) for name in (NAME, "report-v4.json"))
    assert alien(recorded, told) == {"claims.date", "claims.test"}


def alien(record, report, where=""):
    """Keys of one document that the other one does not have at the same place."""
    if isinstance(record, list):
        return set().union(*(alien(a, b, where) for a, b in zip(record, report, strict=True)))
    if not isinstance(record, dict):
        return set()
    inside = (alien(record[key], report[key], f"{where}{key}.") for key in record.keys() & report.keys())
    return {f"{where}{key}" for key in record.keys() - report.keys()}.union(*inside)


def test_no_file_is_no_record_and_neither_is_one_of_an_earlier_version():
    assert record.decode(None) is None
    assert record.decode(b'{"schema_version": 3, "claims": []}') is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a file that hf-lineage wrote"),
        (b"[]", "is not a file that hf-lineage wrote"),
        (b"{}", "is not a file that hf-lineage wrote"),
        (b'{"schema_version": 4}', "is not a file that hf-lineage wrote"),
        (b'{"schema_version": 5}', "was written by a later hf-lineage; update hf-lineage"),
        (b"[" * 10**5, "is not a file that hf-lineage wrote"),
        (b'{"schema_version": 4, "probes": \xff}', "is not a file that hf-lineage wrote"),
    ],
)
def test_a_file_of_somebody_else_is_refused(content, message):
    with pytest.raises(CardError, match=message):
        record.decode(content)


def test_a_recipe_that_cannot_be_is_no_record():
    content = goldens.read(NAME).replace(b'"probes": 64', b'"probes": 0')
    with pytest.raises(CardError, match="probes must be between 1 and 65536"):
        record.decode(content)


def test_measured_figures_have_four_digits_and_shares_two_decimals(report):
    (claim,) = built(report).claims
    assert claim.score == float(f"{claim.score:.4g}")
    assert claim.evidence["mlp"].standard_error == float(f"{claim.evidence['mlp'].standard_error:.1g}")
    assert claim.inherited.share == round(claim.inherited.share, 2) == 1.0


def test_names_that_only_this_machine_knows_stand_for_others_wherever_they_are_words(report):
    private = {BASE: "public/base"}
    reason = f"see {BASE}, {BASE}/config.json and /x/{BASE}, {BASE}-more, {BASE}.more"
    (row,) = report.rows
    named = replace(report, rows=(replace(row, verdict=replace(row.verdict, reason=reason)),))
    (claim,) = built(named, private).claims
    assert claim.base == "public/base"
    assert claim.reason == (f"see public/base, public/base/config.json and /x/{BASE}, {BASE}-more, {BASE}.more")
    assert f"--base {BASE} " in claim.command


def test_our_own_cache_is_as_good_as_the_weights(report):
    (row,) = report.rows
    cached = replace(report, rows=(replace(row, base_origin=replace(row.base_origin, kind="cache")),))
    assert built(cached).claims == built(report).claims


def test_the_day_is_the_one_that_was_given(report):
    later = record.build(report, None, datetime.date(2027, 1, 1), {})
    assert [claim.date.isoformat() for claim in later.claims] == ["2027-01-01"]
    assert later.commit is None
