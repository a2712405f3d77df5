"""Reports made for the formats that people look at: of hostile names, of many layers, of few."""

import html
import json
import re
from functools import cache

import numpy as np

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import ClaimResult
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.comparison import Comparison, assign
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import judge
from hf_lineage.evidence.p_values import EmpiricalNull
from hf_lineage.evidence.verdict import Code, Evidence, Verdict
from hf_lineage.report import FORMATS
from hf_lineage.report.json import SCHEMA
from hf_lineage.source.options import Options
from tests.example_evidence import inheriting, null, nulls

START = "<script>window.hacked = 1</script><img src=x onerror='window.hacked=1'>\"'></style></title>`a`|b|"
HOSTILE = f"{START}\n::error::\u202e\u2066\u200b\x1b[31m$x^2$ --> ]]> &lt;" + "m" * 200
BENIGN = "n" * len(HOSTILE)


def measured(rows=6, columns=6, score=0.97, p=0.001, seed=0, empirical=None, share=0.97, **more):
    """Evidence of `rows` layers of the base against `columns` of the model; related if the score is high.

    `share` is what is inherited: of every layer, of each of them, or None where it is not known.
    """
    stream = np.random.default_rng(seed)
    similarity = stream.normal(0, 0.01, (rows, columns))
    np.fill_diagonal(similarity, score)
    pairs, usable = assign(similarity), np.ones(min(rows, columns), dtype=bool)
    concentration = (stream.uniform(0.2, 1, rows), stream.uniform(0.2, 1, columns))
    return Evidence(
        comparison=Comparison(similarity, pairs, usable, concentration, standard_error=0.001),
        nulls=nulls(null(score, stream.normal(0, 0.01, 999)), empirical, score),
        p_value=p,
        layers=more.pop("layers", (tuple(range(rows)), tuple(range(columns)))),
        inherited=None if share is None else inheriting(*[share] * columns, error=0.02),
        **more,
    )


def row(
    base="org/base", relation="finetune", sources=("README.md",), commit=None, criteria=None, layers=None, **evidence
):
    return ClaimResult(Claim(base, relation, sources), judge(evidence, criteria or Criteria()), commit, layers)


def report(*rows, model="org/model", commit=None, conflicts=(), options=None):
    return Report(model, commit, rows, conflicts, options or Options())


@cache
def _validator(schema):
    import jsonschema

    read = json.loads(schema.read_text("utf-8"))
    chosen = jsonschema.validators.validator_for(read)
    chosen.check_schema(read)
    return chosen(read)


def validate(document, schema=SCHEMA):
    """Hold a document against a schema, by default that of the report for machines."""
    _validator(schema).validate(document)


def document(made):
    told = json.loads(FORMATS["json"](made, False))
    validate(told)
    return told


def words(form, made, explain=False):
    """A report in a format, on one line and without tags."""
    return " ".join(html.unescape(re.sub("<[^>]*>", "", FORMATS[form](made, explain))).split())


def hostile_report(name):
    """A report in which every text that a stranger can choose is this one."""
    null = EmpiricalNull({name: 0.01}, name)
    claims = (
        row(name, name, (name, name), name, mlp=measured(), value_output=measured(empirical=null)),
        ClaimResult(Claim(name, name, (name,)), Verdict(Code.NO_WEIGHTS, f"a reason: {name}"), name),
    )
    return report(*claims, model=name, commit=name, conflicts=(name,), options=Options(nulls=(name,)))
