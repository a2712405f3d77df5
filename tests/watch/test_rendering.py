import datetime
import json
from dataclasses import replace

import pytest

from hf_lineage.errors import printable
from hf_lineage.evidence.verdict import ExitCode, Kind
from hf_lineage.policy.policy import Policy, Waiver
from hf_lineage.watch import rendering
from hf_lineage.watch.ledger import Inherited
from hf_lineage.watch.rendering import FORMATS, Run, outcome, results
from tests.watch.test_ledger import claim, entry

DAY = datetime.date(2026, 11, 22)
EMPTY = Run((), 0, 0, (), ())


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([], ExitCode.RELATED),
        (["RELATED"], ExitCode.RELATED),
        (["RELATED", "INCONCLUSIVE"], ExitCode.UNDECIDED),
        (["RELATED", "INCOMPATIBLE"], ExitCode.UNDECIDED),
        (["UNVERIFIABLE", "UNRELATED"], ExitCode.UNRELATED),
        (["UNREADABLE", "UNRELATED"], ExitCode.ERROR),
        (["no verdict of ours"], ExitCode.ERROR),
    ],
)
def test_the_worst_claim_decides(verdicts, code):
    seen = entry(claims=tuple(claim(verdict=verdict) for verdict in verdicts))
    assert outcome(seen) is code
    assert replace(EMPTY, entries=(entry(), seen)).exit_code is code


def test_what_could_not_be_checked_or_listed_is_an_error():
    assert outcome(entry(error="gone")) is ExitCode.ERROR
    assert replace(EMPTY, problems=("gone",)).exit_code is ExitCode.ERROR


def test_a_policy_accepts_by_the_model_the_base_and_the_part_and_asks_for_the_rest():
    accepted = Waiver("acme/base", Kind.UNRELATED, "distilled", DAY, model="fern/child")
    seen = entry(claims=(claim(verdict="UNRELATED"),))
    run = replace(EMPTY, entries=(seen,), latest=(seen,), policy=Policy("p", (accepted,)), today=DAY)
    assert run.exit_code is ExitCode.RELATED
    assert [one.claims for one in run.open_entries()] == [()]
    document = json.loads(FORMATS["json"](results(run)))
    assert document["accepted"] == [
        {"model": "fern/child", "base": "acme/base", "verdict": "UNRELATED", "reason": "distilled",
         "expires": "2026-11-22"}
    ]  # fmt: skip
    assert document["entries"][0]["claims"][0]["exit_code"] == seen.claims[0].exit_code
    part = entry(claims=(claim(verdict="UNRELATED", part="unet"),))
    assert replace(run, entries=(part,)).exit_code is ExitCode.UNRELATED
    other = Policy(relations=("merge",), fail_on="unrelated")
    assert replace(run, entries=(entry(claims=(claim(),)),), policy=other).exit_code is ExitCode.UNDECIDED


def test_text_fits_eighty_columns_and_says_the_worst_first():
    seen = (
        entry("fern/good", claims=(claim(),)),
        entry("fern/bad", claims=(claim(verdict="UNRELATED", score=0.0123, p_value_adjusted=0.4567),)),
        entry(
            "fern/" + "x" * 96, claims=(claim(verdict="UNVERIFIABLE", score=None, p_value_adjusted=None, reason="why"),)
        ),
        entry("fern/gated", error="fern/gated is gated: request access"),
    )
    text = FORMATS["text"](results(Run(seen, 2, 1, ("nobody has no public models",), ())))
    assert max(map(len, text.splitlines())) <= 80
    lines = [line.split() for line in text.splitlines() if line.startswith(" fern/")]
    assert [(line[0][:10], line[-1]) for line in lines] == [
        ("fern/gated", "ERROR"), ("fern/bad", "UNRELATED"), ("fern/", "UNVERIFIABLE"), ("fern/good", "RELATED")
    ]  # fmt: skip
    sentences = " ".join(text.split())
    assert "fern/gated is gated: request access fern/" in sentences
    assert sentences.endswith(
        "nobody has no public models New models: 4 (0 without a claim, 1 in error). Claims: 1 RELATED, 1 UNRELATED, "
        "1 undecided, 0 in error. Models already in the ledger: 2. Models left for the next run: 1."
    )


@pytest.mark.parametrize(
    ("kind", "lines"),
    [("part", ["RELATED in part"]), ("basis", ["RELATED by the", "basis only"]), ("related", ["RELATED"])],
)
def test_kind_and_share_stand_in_the_table_and_count(kind, lines):
    code = 0 if kind == "related" else 3
    seen = (entry("fern/" + "x" * 96, claims=(claim(kind=kind, exit_code=code, inherited=Inherited(0.17)),)),)
    text = FORMATS["text"](results(Run(seen, 0, 0, (), ())))
    assert max(map(len, text.splitlines())) <= 80
    assert all(any(shown.endswith(line) for shown in text.splitlines()) for line in lines)
    assert " 17% " in text
    assert ("1 undecided" in " ".join(text.split())) is bool(code)


def test_a_run_without_news_is_a_sentence():
    assert FORMATS["text"](results(EMPTY)) == (
        "New models: 0 (0 without a claim, 0 in error). Claims: 0 RELATED, 0 UNRELATED, 0\n  undecided, 0 in error.\n"
    )


def test_claims_are_not_counted_as_models():
    several = entry(claims=(claim(), claim(base="a/b"), claim(base="c/d", verdict="UNREADABLE")))
    run = replace(EMPTY, entries=(several, entry("fern/silent"), entry("fern/gone", error="gone")))
    assert " ".join(results(run).sentences[-1].split()) == (
        "New models: 3 (1 without a claim, 1 in error). Claims: 2 RELATED, 0 UNRELATED, 0 undecided, 1 in error."
    )
    document = json.loads(FORMATS["json"](results(run)))
    assert document["models"] == {"new": 3, "without a claim": 1, "in error": 1}
    assert document["counts"] == {"RELATED": 2, "UNRELATED": 0, "undecided": 0, "in error": 1}


def test_markdown_stays_under_a_mebibyte_whatever_there_is_and_says_what_it_hides():
    claims = (claim(base="<" * 2000, reason="<`|*_" * 400, verdict="UNVERIFIABLE"),) * 100
    seen = tuple(entry(f"fern/m{number}", claims=claims) for number in range(100))
    text = FORMATS["markdown"](results(replace(EMPTY, entries=seen)))
    assert len(text.encode()) < 2**20
    assert "9800 more lines are not shown; --format json has them all." in text
    assert text.count("UNVERIFIABLE") == rendering.MOST_ROWS


def test_markdown_escapes_untrusted_names():
    seen = entry(claims=(claim(base="a|b<script>`x`\n@team", reason="[x](http://evil) www.evil"),))
    text = FORMATS["markdown"](results(replace(EMPTY, entries=(seen,))))
    for raw in ("<script>", "@team", "](http", "http://", "www.", "a|b", "`x`"):
        assert raw not in text, raw


@pytest.mark.parametrize("command", ["::error::owned", "##[error]owned"])
def test_no_line_of_text_begins_like_a_command_of_the_runner_wherever_a_name_is_folded(command):
    bases = [f"{'x' * width} {command}" for width in range(1, 90)] + [f"{'x' * width}{command}" for width in range(90)]
    seen = entry(claims=tuple(claim(base=base, reason=base, verdict="UNVERIFIABLE") for base in bases))
    lines = FORMATS["text"](results(replace(EMPTY, entries=(seen,)))).splitlines()
    assert [line for line in lines if line.strip().startswith(printable(command)[:6])]
    assert not [line for line in lines if line.strip().startswith(("::", "##["))]


def test_json_has_all_of_it():
    seen = tuple(entry(f"fern/m{number}", claims=(claim(),)) for number in range(300))
    document = json.loads(FORMATS["json"](results(Run(seen, 7, 2, ("p",), ()))))
    assert len(document["entries"]) == document["counts"]["RELATED"] == 300
    assert (document["known"], document["left"], document["problems"], document["exit_code"]) == (7, 2, ["p"], 2)
    assert (document["schema_version"], document["tool"]["name"]) == (2, "hf-lineage")
