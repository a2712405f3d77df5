"""What the last committed run says of builds, and how it tells two indexes apart."""

import json

from benchmarks import building


def test_every_build_of_the_committed_run_gave_the_same_index():
    rows = {row["what"]: row for row in json.loads(building.FILE.read_text(encoding="utf-8"))["rows"]}
    off = {what: row["measured"] for what, row in rows.items() if what.endswith("files that differ")}
    assert off == {
        "200 models, local: files that differ": 0,
        "200 models, ray: files that differ": 0,
        "200 models, after a kill: files that differ": 0,
    }
