"""`doctor`: a line for each thing, an exit code that a script can read, and JSON."""

import json

from tests.invoking import lineage
from tests.server.client import connect_to_nothing


def test_where_nothing_is_wrong_the_exit_code_is_0_and_every_line_fits_80_columns(online):
    found = lineage("doctor")
    assert (found.code, found.err) == (0, "")
    assert max(map(len, found.out.splitlines())) <= 80
    heads = [line.split()[:2] for line in found.out.splitlines() if not line.startswith(" ")]
    assert (heads[0], heads[-1]) == (["ok", "versions"], ["absent", "account"])


def test_a_hub_out_of_reach_is_exit_code_2_and_is_said_with_all_that_is_there(tmp_path, monkeypatch):
    connect_to_nothing(tmp_path, monkeypatch)
    found = lineage("doctor", "--format", "json")
    findings = json.loads(found.out)
    assert found.code == 2
    assert [finding["about"] for finding in findings if finding["state"] == "wrong"] == ["Hub"]
    assert findings[-1]["sentence"].endswith("check the connection and try again")
    assert {"about", "state", "sentence"} == set(findings[0])
