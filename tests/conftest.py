"""Fixtures that several modules share, and how much of the processors a run took."""

import gc
import itertools
import os
import zlib
from collections import Counter

import pytest
from _pytest.doctest import DoctestModule

from hf_lineage import Options, check
from hf_lineage.checking.report import Report
from hf_lineage.checking.result import ClaimResult
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence import measure
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import judge
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import resolve
from tests import hostile
from tests.example_evidence import evidence
from tests.models import SMALL, card, family, fine_tuned, tiny_llama
from tests.server import serving
from tests.server.client import connect
from tests.server.commits import Commits

NUMBERS = itertools.count()
SPENT = pytest.StashKey[list[float]]()  # what each worker took of the processors, in seconds
LIMIT = 540  # core seconds that `make test` may take; it is only printed, because no test depends on time


def core_seconds() -> float:
    """What this process and those that it started and saw end have taken of the processors."""
    return sum(os.times()[:4])


def pytest_configure(config):
    config.stash[SPENT] = []


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for no doctests here, for which every helper would be imported and every test module read twice."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark as long the cases of a test that show the same as the few that `make test` runs."""
    counted, first = Counter(), {}
    for item in items:
        test = item.nodeid.partition("[")[0]
        if few := item.get_closest_marker("few"):
            counted[test] += 1
            if counted[test] > few.args[0]:
                item.add_marker("long")
        crossed = item.get_closest_marker("crossed")
        values = {name: item.callspec.params[name] for name in crossed.args} if crossed else {}
        if values and all(value is not first.setdefault((test, name), value) for name, value in values.items()):
            item.add_marker("long")


def pytest_collection_finish():
    """Take libraries and test cases out of every later search for garbage: there are millions of objects."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # a worker of pytest-xdist
        session.config.workeroutput["core_seconds"] = core_seconds()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    node.config.stash[SPENT].append(node.workeroutput["core_seconds"])


def pytest_terminal_summary(terminalreporter, config):
    """Say it in every run, so that growth is seen."""
    by_workers = config.stash[SPENT]
    whole = sum(by_workers) + sum(os.times()[:2]) if by_workers else core_seconds()
    every_short_test = config.args_source is config.ArgsSource.TESTPATHS and config.option.markexpr == "not long"
    limit = f" `make test` may take at most {LIMIT}." if every_short_test else ""
    terminalreporter.write_line(f"The processors worked {whole:.0f} core seconds for this run.{limit}")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A local hub of one base and one model that declares it; nothing is asked of the real one."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return family(tmp_path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model in the working directory that declares org/base, at a known time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795000000")
    return card(tiny_llama(tmp_path / "model"), "org/base")


@pytest.fixture
def every_kind(folder):
    def row(verdict, base="org/base", relation=None, sources=("README.md",), commit=None):
        return ClaimResult(Claim(base, relation, sources), verdict, commit)

    true, false = evidence(score=0.973), evidence(score=0.01, p=0.5, shares=(0.0,) * 4)
    rows = (
        row(judge({"mlp": true}, Criteria()), relation="finetune", commit="0" * 40),
        row(judge({"mlp": false}, Criteria()), base="other/base", sources=("--base",)),
        row(Verdict(Code.INCONCLUSIVE, "only 1 of 6 layers hold finite weights")),
        row(Verdict(Code.INCOMPATIBLE, "6 layers of width 96 against 4 of width 64")),
        row(Verdict(Code.NO_WEIGHTS, "no weights"), sources=("adapter_config.json", "README.md")),
        row(Verdict(Code.DAMAGED, "truncated")),
    )
    conflicts = ("README.md declares a/b; adapter_config.json declares c/d",)
    return Report("model", None, rows, conflicts, Options(), resolve("model"))


@pytest.fixture
def hostile_report(tmp_path, monkeypatch):
    """A report on a model whose names are all hostile."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    model = tiny_llama(tmp_path / "<script>::error::\n`|`\u202e")
    (model / "README.md").write_text(hostile.card(), encoding="utf-8")
    found = check(str(model))
    short = tuple(name for name in hostile.NAMES if len(name) < 200)
    verdicts = (Verdict(Code.UNRELATED, short[0]), Verdict(Code.INCONCLUSIVE, "\n".join(short)))
    claims = [Claim(name, name[:40], ("README.md",)) for name in hostile.NAMES]
    more = tuple(ClaimResult(claim, verdict) for claim in claims for verdict in verdicts)
    return Report(found.model, None, found.rows + more, short, found.options, found.source)


@pytest.fixture(params=["every_kind", "hostile_report", "nothing"])
def any_report(request, folder):
    if request.param == "nothing":
        return check(str(card(folder)))
    return request.getfixturevalue(request.param)


@pytest.fixture
def served():
    """A Hub of two example models, for whoever knows where it is."""
    with serving() as running:
        for name, folder in SMALL.items():
            running.publish(name, folder)
        yield running


@pytest.fixture
def online(served, tmp_path, monkeypatch):
    """The Hub that is served, to which the client of this process talks, without ever waiting."""
    connect(served, tmp_path / "cache", monkeypatch)
    return served


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A Hub on which a base's owner may write, and a fine-tune of it, too large to come with their headers."""
    base = tiny_llama(tmp_path / "base", layers=8, width=64)
    (tmp_path / "commits").mkdir()
    with serving() as hub:
        hub.publish("acme/base", base)
        hub.publish("fern/child", card(fine_tuned(base, tmp_path / "child"), "acme/base", "finetune"))
        connect(hub, tmp_path / "hub", monkeypatch)
        monkeypatch.setenv("HF_TOKEN", "hf_averysecrettoken")
        yield Commits(hub, tmp_path / "commits", account="acme").attach()


@pytest.fixture(autouse=True)
def own_seeds(request, monkeypatch):
    """Every test draws what it does not give a seed by seeds of its own, which are the same in every run."""
    monkeypatch.setattr(measure, "drawn_seed", itertools.count(zlib.crc32(request.node.nodeid.encode())).__next__)


@pytest.fixture(autouse=True)
def own_files(tmp_path_factory, monkeypatch):
    """Every test has a cache and a configuration of its own, neither of which is there yet."""
    folder = tmp_path_factory.getbasetemp() / f"own-{next(NUMBERS)}"  # `mktemp` is slow where there are many folders
    monkeypatch.setenv("HF_LINEAGE_CACHE", str(folder / "cache"))
    return folder
