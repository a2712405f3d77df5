"""Reports: the text fits 80 columns, the JSON keeps to its schema, the Markdown cannot be broken out of."""

import re
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage import __version__
from hf_lineage.checking.report import Report
from hf_lineage.checking.result import Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import judge
from hf_lineage.evidence.p_values import EmpiricalNull
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.report import FORMATS
from hf_lineage.source.options import Options
from tests.example_evidence import evidence
from tests.pages import document

HOSTILE = "org/<img src=x>|`a`\n::error::x\x1b[31m [l](http://evil) @team"


def row(verdict, base="org/base", relation="finetune"):
    return Row(Claim(base, relation, ("README.md",)), verdict)


def report(*rows, conflicts=(), options=None):
    return Report("org/model", "0123456789abcdef", tuple(rows), conflicts, options or Options())


@pytest.fixture
def every_verdict():
    measured = {
        "mlp": evidence(score=0.973),
        "value_output": evidence(score=0.4, empirical=EmpiricalNull({"x/y": 0.1}, "a paper")),
    }
    return report(
        row(judge(measured, Criteria())),
        row(
            Verdict(Code.UNRELATED, "", {"mlp": evidence(score=-0.004, p=0.453)}, {"mlp": Verdict(Code.UNRELATED)}),
            base="a" * 96 + "/" + "b" * 96,
        ),
        row(Verdict(Code.INCONCLUSIVE, "only 1 of 6 layers hold finite weights")),
        row(Verdict(Code.INCOMPATIBLE, "6 layers of width 96 against 4 of width 64")),
        row(Verdict(Code.NO_WEIGHTS, "no weights"), relation=None),
        row(Verdict(Code.DAMAGED, "truncated"), base=HOSTILE),
        conflicts=("README.md declares a/b; adapter_config.json declares c/d",),
    )


def test_the_markdown_report_has_the_same_table_and_says_how_it_was_made(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795000000")
    reported = report(row(judge({"mlp": evidence(score=0.9734, p=0.001)}, Criteria())))
    *lines, made = FORMATS["markdown"](reported, False).splitlines()
    assert lines == [
        "### Lineage of org/model",
        "",
        "At commit 0123456789abcdef.",
        "",
        "| Declared base | Score | Inherited | p | Verdict |",
        "| --- | --- | --- | --- | --- |",
        "| org/base | 0.973 | 100% | 0.001 | VERIFIED inherited |",
        "",
        "All 4 layers come from it. Unrelated models of this size score at most 0.000.",
        "",
        "Next: Nothing to do.",
        "",
    ]
    assert made.startswith("<sub>Recipe robust, 64 probes; 999 permutations of at most 128 coordinates")
    assert made.endswith(
        f"Checked on 18 November 2026, 11:06 UTC by hf-lineage {__version__}. "
        "Again: <code>hf-lineage check org/model&#64;0123456789abcdef --format markdown</code></sub>"
    )


def test_no_line_of_the_text_is_longer_than_80_columns_and_nothing_is_cut(every_verdict):
    text = FORMATS["text"](every_verdict, True)
    assert max(map(len, text.splitlines())) <= 80
    squeezed = re.sub(r"\s", "", text)
    assert "Inconclusive" not in text
    for words in ("VERIFIED inherited", "UNRELATED", "UNDECIDED inconclusive", "UNDECIDED damaged"):
        assert words.replace(" ", "") in squeezed
    assert "Conflictingclaims:README.mddeclaresa/b;adapter_config.jsondeclaresc/d" in squeezed


WAYS = [
    # The shares of four layers; words, code, exit code and the first words of the reason.
    ((1.0,) * 4, "VERIFIED inherited", "inherited", 0, ""),
    ((1.0, 0, 0, 0), "RELATED part", "part", 3, "25% of what its units write is inherited, in layer 0"),
    ((0.0,) * 4, "RELATED embedding", "embedding", 3, "0% of what its units write is inherited: the coordinates"),
]


def test_an_error_without_bound_is_null_in_json():
    unbounded = evidence()
    unbounded = replace(unbounded, comparison=replace(unbounded.comparison, standard_error=np.inf))
    (claim,) = document(report(row(judge({"mlp": unbounded}, Criteria()))))["claims"]
    assert claim["paths"][0]["standard_error"] is None


def test_models_whose_path_is_not_in_every_layer_are_not_said_to_be_decided_early():
    hybrid = replace(row(judge({"mlp": evidence()}, Criteria())), layers=8)
    assert "decided after" not in FORMATS["text"](report(hybrid), True)
