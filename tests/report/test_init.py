"""Reports: the text fits 80 columns, the JSON keeps to its schema, the Markdown cannot be broken out of."""

import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage import __version__
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import judge
from hf_lineage.evidence.p_values import EmpiricalNull
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.report import FORMATS
from hf_lineage.report.json import encode
from tests import hostile
from tests.example_evidence import evidence
from tests.github import ROOT
from tests.invoking import Outcome, environment, run_process
from tests.pages import document, report, validate
from tests.report.families import claimed
from tests.report.test_cyclonedx import validate as validate_bill

HOSTILE = "org/<img src=x>|`a`\n::error::x\x1b[31m [l](http://evil) @team"


def test_the_markdown_report_has_the_same_table_and_says_how_it_was_made(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795000000")
    judged = claimed(judge({"mlp": evidence(score=0.9734, p=0.001)}, Criteria()))
    reported = report(judged, commit="0123456789abcdef")
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


def test_no_line_of_the_text_is_longer_than_80_columns_and_nothing_is_cut():
    measured = {
        "mlp": evidence(score=0.973),
        "value_output": evidence(score=0.4, empirical=EmpiricalNull({"x/y": 0.1}, "a paper")),
    }
    unrelated = Verdict(Code.UNRELATED, "", {"mlp": evidence(score=-0.004, p=0.453)}, {"mlp": Verdict(Code.UNRELATED)})
    every_verdict = report(
        claimed(judge(measured, Criteria())),
        claimed(unrelated, base="a" * 96 + "/" + "b" * 96),
        claimed(Verdict(Code.INCONCLUSIVE, "only 1 of 6 layers hold finite weights")),
        claimed(Verdict(Code.INCOMPATIBLE, "6 layers of width 96 against 4 of width 64")),
        claimed(Verdict(Code.NO_WEIGHTS, "no weights"), relation=None),
        claimed(Verdict(Code.DAMAGED, "truncated"), base=HOSTILE),
        conflicts=("README.md declares a/b; adapter_config.json declares c/d",),
    )
    text = FORMATS["text"](every_verdict, True)
    assert max(map(len, text.splitlines())) <= 80
    squeezed = re.sub(r"\s", "", text)
    assert "Inconclusive" not in text
    for words in ("VERIFIED inherited", "UNRELATED", "UNDECIDED inconclusive", "UNDECIDED damaged"):
        assert words.replace(" ", "") in squeezed
    assert "Conflictingclaims:README.mddeclaresa/b;adapter_config.jsondeclaresc/d" in squeezed


def test_an_error_without_bound_is_null_and_a_path_of_few_layers_not_called_early():
    unbounded = evidence()
    unbounded = replace(unbounded, comparison=replace(unbounded.comparison, standard_error=np.inf))
    (claim,) = document(report(claimed(judge({"mlp": unbounded}, Criteria()))))["claims"]
    assert claim["paths"][0]["standard_error"] is None
    hybrid = claimed(judge({"mlp": evidence()}, Criteria()), layers=8)
    assert "decided after" not in FORMATS["text"](report(hybrid), True)


def test_a_format_is_a_module_and_a_line_of_the_table(hub, tmp_path):
    toy = 'return f"{len(report.rows)} claim, explained: {explain}\\n"'
    (tmp_path / "toy_format.py").write_text(f"def render(report, explain):\n    {toy}\n")
    with_toy = "from hf_lineage.report import FORMATS, NAMES\nimport toy_format\nFORMATS['toy'] = toy_format.render\n"
    with_toy += "NAMES.append('toy')\nfrom hf_lineage.cli import main\nraise SystemExit(main())"
    files = {form: tmp_path / f"report.{form}" for form in ("toy", "json")}
    asked = [f"--output={form}={file}" for form, file in files.items()]
    command = [sys.executable, "-c", with_toy, "check", hub / "fern/child", "--local-hub", hub, "--format", "toy"]
    done = run_process([*command, *asked], env=environment(PYTHONPATH=f"{tmp_path}:{ROOT}"))
    assert done == Outcome(0, "1 claim, explained: False\n", "")
    assert files["toy"].read_text() == "1 claim, explained: True\n"
    assert json.loads(files["json"].read_text())["tool"] == {"name": "hf-lineage", "version": __version__}


MACHINES = ("json", "sarif", "cyclonedx", "intoto")


def test_what_machines_read_keeps_to_its_schema_and_is_the_same_file_again(any_report):
    made = {form: FORMATS[form](any_report, False) for form in MACHINES}
    assert made == {form: FORMATS[form](any_report, False) for form in MACHINES}
    validate(json.loads(made["json"]))
    validate(json.loads(made["intoto"])["predicate"])
    for form, schema in (("intoto", "statement-v1"), ("sarif", "sarif-2.1.0")):
        validate(json.loads(made[form]), ROOT / f"tests/data/schemas/{schema}.json")
    validate_bill(made["cyclonedx"])


@pytest.mark.parametrize("form", [*MACHINES, "text", "markdown"])
def test_untrusted_input_is_nowhere_more_than_text(hostile_report, form):
    for_machines = form in MACHINES
    text = FORMATS[form](hostile_report, not for_machines)
    assert text.isascii() or not for_machines
    patterns = hostile.LINES if form == "text" else hostile.MARKUP + hostile.LINES
    assert not hostile.traces(text, patterns[:-1] if form in ("json", "intoto") else patterns)  # these cut no name
    escaped = {"<b>": ["&", "##[x]", "\u202e", "é", 0.1, None, True, -3]}
    assert json.loads(encode(escaped)) == escaped
