"""What a model's own record told before is held against today's verdict, quoted, and never believed."""

import json
from dataclasses import replace

import pytest

from hf_lineage import Options, check
from hf_lineage.annotate import history
from hf_lineage.report.record import record
from tests import goldens
from tests.invoking import lineage

BASE = "acme/base"
FIRST = {"schema_version": 1, "tool": {"name": "hf-lineage", "version": "0.0.1"}, "model": "fern/child"}
QUICK = ("--permutations", "99", "--order-seed", "0")


def recorded(hub, *claims, **changes):
    folder = hub / "fern/child/lineage"
    folder.mkdir(exist_ok=True)
    (folder / "claims.json").write_text(json.dumps(FIRST | {"claims": list(claims)} | changes))


def notes(hub):
    report = check("fern/child", options=Options(local_hub=hub, permutations=99, order_seed=0))
    return history.with_changes(report).notes[len(report.notes) :]


def claim(verdict="RELATED", base=BASE, **more):
    return {"base": base, "verdict": verdict, "verified": verdict == "RELATED"} | more


def test_another_verdict_is_told_with_its_version_and_its_reason(hub):
    recorded(hub, claim("UNRELATED", reason="p is 0.4"))
    assert notes(hub) == (
        "acme/base: as lineage/claims.json of the model has it, under hf-lineage 0.0.1 this was UNRELATED, because p "
        "is 0.4; now it is RELATED",
    )


def test_what_a_word_meant_then_is_its_reason(hub):
    recorded(hub, claim())
    report = check("fern/child", options=Options(local_hub=hub, permutations=99, min_share=0.999999, order_seed=0))
    (row,) = report.rows
    in_part = replace(row.verdict, kind=type(row.verdict.kind).IN_PART)
    (note,) = history.with_changes(replace(report, rows=(replace(row, verdict=in_part),))).notes
    assert note.endswith(
        "under hf-lineage 0.0.1 this was RELATED, because RELATED took the exact test alone, whatever was inherited; "
        "now it is RELATED in part"
    )


def test_the_same_verdict_is_told_by_nobody(hub):
    recorded(hub, claim())
    assert notes(hub) == ()
    assert lineage("annotate", "fern/child", "--local-hub", hub, "--write", *QUICK).code == 0
    assert notes(hub) == ()


@pytest.mark.parametrize(
    "claims",
    [
        [claim("UNRELATED", base="acme/other")],
        [claim("UNRELATED"), claim("UNRELATED", reason="twice")],
        [claim("BLESSED")],
        [],
    ],
    ids=["another base", "told twice", "no verdict", "nothing"],
)
def test_what_is_about_no_claim_of_today_is_left_out(hub, claims):
    recorded(hub, *claims)
    assert notes(hub) == ()


@pytest.mark.parametrize("content", [b"", b"[" * 10**5, b"{}", b"\xff", b'{"schema_version": 9}', b"x" * 2**25])
def test_a_file_of_somebody_else_tells_nothing(hub, content):
    (hub / "fern/child/lineage").mkdir()
    (hub / "fern/child" / record.FILE).write_bytes(content)
    assert notes(hub) == ()


def test_a_record_is_quoted_on_one_line_and_changes_no_verdict(hub):
    reason = "\n::error::Acme audited it " + "\u202e" * 900
    recorded(hub, claim("UNRELATED", reason=reason), tool={"name": "x", "version": "9\n" * 99})
    (note,) = notes(hub)
    assert "\n" not in note
    assert "::error" not in note
    assert len(note) < 500
    result = lineage("check", "fern/child", "--local-hub", hub, "--explain", *QUICK)
    assert (result.code, result.rows[0][-1]) == (0, "RELATED")
    assert "this was UNRELATED" in " ".join(result.out.split())
    assert "this was" not in lineage("check", "fern/child", "--local-hub", hub, *QUICK).out


def test_a_stored_signature_has_no_record():
    assert history.with_changes(replace(goldens.pair(), source=None)).notes == ()


def test_a_record_on_the_hub_is_read_where_it_is_asked_for_alone(server):
    server.push("fern/child", "main", {record.FILE: json.dumps(FIRST | {"claims": [claim("UNRELATED")]}).encode()})
    assert "this was" not in lineage("check", "fern/child", *QUICK).out
    assert not [request for request in server.hub.requests if record.FILE in request]
    assert "this was UNRELATED" in " ".join(lineage("check", "fern/child", "--explain", *QUICK).out.split())
