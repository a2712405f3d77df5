"""Comparisons beside controls for the formats: of a control of every kind, and of hostile names."""

from hf_lineage.checking.api import Report
from hf_lineage.checking.controls import Control, Controlled
from hf_lineage.checking.options import Options
from hf_lineage.checking.results.claim_result import NAMED, Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.judging.evaluation import judge
from hf_lineage.evidence.verdict import Kind, Verdict
from tests.pages import measured

BASE, MODEL = "org/base", "org/model"


def compared(model=MODEL, base=BASE, commit=None, **numbers):
    """The report on a model compared with the base; related if the score is high, by default."""
    verdict = judge({"mlp": measured(**numbers)}, Criteria())
    return Report(model, commit, (Row(Claim(base, None, NAMED), verdict),), (), Options(order_seed=1))


def unrelated(model, score=0.011, base=BASE, seed=1, p=0.4):
    """The report on an independent model."""
    return compared(model, base, score=score, p=p, share=0.0, seed=seed)


def unread(model, base=BASE):
    """The report on a control that could not be read."""
    return Report(
        model, None, (Row(Claim(base, None, NAMED), Verdict(Kind.UNVERIFIABLE, f"{model} is gone")),), (), Options()
    )


def controlled(*controls, pair=None, base=BASE):
    """A pair beside controls; without any, beside one of every kind."""
    usual = (
        Control(unrelated("free/a"), True),
        Control(unrelated("free/b", 0.014, seed=2), True, declares=base),
        Control(unread("free/gone"), True),
        Control(compared("kin/a", seed=3, score=0.6), False),
    )
    return Controlled(base, pair or compared(), controls or usual)


def hostile(name):
    """A comparison in which every text that a stranger can choose is this one."""
    controls = (
        Control(unrelated(name, base=name), True, declares=name),
        Control(compared(name, name, score=0.9, seed=5), True),
        Control(unrelated(name, base=name, seed=4), False),
        Control(unread(name, name), False),
    )
    return controlled(*controls, pair=compared(name, name, name), base=name)
