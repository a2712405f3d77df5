"""A record holds the shares of a merge in hundredths."""

import msgspec
from hf_lineage.report.findings.merge_record import RecordedParent, RecordedShare, recorded

from hf_lineage.report.findings import merge
from tests.report.findings.test_merge import PARENT


def test_shares_are_recorded_in_hundredths_without_their_layers():
    values = merge.values(PARENT)
    values["shares"]["mlp"] |= {"share": 0.60449, "low": 0.5, "declared": None}
    parent = msgspec.convert(recorded(values), RecordedParent)
    share = RecordedShare(0.6, 0.5, 0.62, detected=True, declared=None)
    assert parent == RecordedParent("linear", False, "", {"mlp": share})
