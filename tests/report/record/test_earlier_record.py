"""What a record told is read whichever schema it has."""

import json

import msgspec
import pytest

from hf_lineage.report.record import earlier_record
from hf_lineage.report.record.earlier_record import Told
from tests import goldens

FIRST = {"schema_version": 1, "tool": {"name": "hf-lineage", "version": "0.0.1"}, "claims": [{"base": "a/b"}]}


@pytest.mark.parametrize(("name", "version"), [("claims-v2.json", 2), ("claims-v3.json", 3)])
def test_the_committed_records_tell_their_verdicts(name, version):
    record = earlier_record.read(goldens.read(name))
    assert (record.schema_version, earlier_record.version(goldens.read(name))) == (version, version)
    assert record.claims == (Told("acme/llama-base", "RELATED", "related", verified=True),)


def test_what_the_first_schema_did_not_tell_is_nothing():
    assert earlier_record.read(json.dumps(FIRST).encode()).claims == (Told("a/b"),)


@pytest.mark.parametrize("changes", [{"tool": 7}, {"claims": 7}, {"claims": [7]}, {"claims": [{"base": None}]}])
def test_what_is_no_record_is_an_error(changes):
    with pytest.raises(msgspec.ValidationError):
        earlier_record.read(json.dumps(FIRST | changes).encode())
