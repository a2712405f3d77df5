"""Several models in one command: a row or a line of JSON for each, the worst exit code, and nothing that stays."""

import gc
import json
import shutil
import tracemalloc
import weakref

import pytest

from hf_lineage.checking import api
from tests.invoking import lineage
from tests.models import EXAMPLES, WEIGHTS
from tests.server.client import connect_to_nothing

CHILD, LIAR, GRAFTED, BASE = "fern/llama-finetune-a", "magpie/llama-liar", "magpie/llama-grafted", "acme/llama-base"
HUB = ("--local-hub", EXAMPLES.resolve(), "--seed", "0")


@pytest.fixture
def damaged(tmp_path):
    """A model whose file with weights ends too early."""
    shutil.copytree(EXAMPLES / CHILD, tmp_path / "cut")
    (tmp_path / "cut" / WEIGHTS).write_bytes((EXAMPLES / CHILD / WEIGHTS).read_bytes()[:5000])
    return str(tmp_path / "cut")


def test_each_claim_is_a_row_and_models_that_cannot_be_read_are_named_below(tmp_path, monkeypatch, damaged):
    monkeypatch.chdir(tmp_path)
    shown = lineage("check", CHILD, "./none", LIAR, "./cut", BASE, *HUB)
    assert (shown.code, shown.err) == (2, "")
    assert shown.out.startswith(" Model  ")
    assert [(row[0], *row[-2:]) for row in shown.rows] == [
        (CHILD, "VERIFIED", "inherited"), ("./none", "-", "ERROR"), (LIAR, "1", "UNRELATED"),
        ("./cut", "-", "ERROR"), (BASE, "UNDECIDED", "undeclared"),
    ]  # fmt: skip
    assert shown.rows[1] == ["./none", "-", "-", "-", "-", "ERROR"]
    assert "2 ERROR, 1 VERIFIED inherited, 1 UNRELATED, 1 UNDECIDED undeclared. Details: check one" in shown.sentences
    assert "with --explain. ./none is neither a folder nor a Hub name" in shown.sentences
    assert f" cut/{WEIGHTS}: the header claims 5944 bytes in a file of 5000" in shown.sentences


def test_json_is_a_line_for_each_model_also_where_it_cannot_be_read(tmp_path, damaged):
    models = (CHILD, str(tmp_path / "none"), damaged, LIAR)
    shown = lineage("check", *models, *HUB, "--format", "json")
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert (shown.code, shown.err, [line["model"] for line in lines]) == (2, "", list(models))
    assert [line.get("code") or line["error"]["code"] for line in lines] == [
        "inherited", "no-model", "damaged", "unrelated",
    ]  # fmt: skip
    assert [line.get("exit_code") for line in lines] == [0, None, None, 1]
    assert lines[1]["error"].keys() == {"code", "message", "remedy"}
    written = lineage("check", *models[1:3], *HUB, "--format", "json", "-o", tmp_path / "lines")
    assert (written.code, written.out) == (2, "")
    assert (tmp_path / "lines").read_text().splitlines() == shown.out.splitlines()[1:3]


WORST = {
    0: (CHILD, CHILD), 1: (BASE, LIAR, GRAFTED), 2: ("org/model", "./none"), 3: (CHILD, BASE), 4: (LIAR, "org/model"),
}  # fmt: skip


@pytest.mark.parametrize("code", WORST)
def test_the_worst_exit_code_counts(tmp_path, monkeypatch, code):
    connect_to_nothing(tmp_path / "cache", monkeypatch)
    assert lineage("check", *WORST[code], *HUB).code == code


def test_what_a_policy_accepts_or_misses_is_said(tmp_path):
    policy = tmp_path / "policy.yaml"
    accepted = "accepted: [{base: acme/llama-base, code: unrelated, reason: known, expires: 2999-01-01}]\n"
    policy.write_text(f"{accepted}require: strict\n")
    shown = lineage("check", CHILD, LIAR, *HUB, "--policy", policy)
    assert shown.code == 3
    assert f"{CHILD}: {BASE} is VERIFIED inherited" in shown.sentences
    assert "accepted until 2999-01-01: known" in shown.sentences


@pytest.mark.parametrize("option", ["--explain", "--format html", "-o json=a.json"])
def test_what_is_about_one_model_is_refused_before_anything_is_read(option):
    name = option if "html" in option else option.split()[0]
    refused = lineage("check", EXAMPLES / CHILD, "./none", *option.split()).error
    assert refused == f"{name} is about one model; check each model by itself"


def test_an_unexpected_error_at_one_model_loses_no_other_row(monkeypatch):
    real = api.check
    monkeypatch.setattr(
        api, "check", lambda model, *rest, **more: real(model, *rest, **more) if model == CHILD else 1 / 0
    )
    shown = lineage("check", LIAR, CHILD, *HUB)
    assert (shown.code, [row[-1] for row in shown.rows]) == (2, ["ERROR", "inherited"])
    assert f"{LIAR}: an unexpected error (ZeroDivisionError: division by zero)" in shown.sentences


def test_no_report_stays_in_memory(hub, monkeypatch):
    """A row and a line of output take a kilobyte, a report a hundred times as much."""
    real, reports, sizes, count = api.check, [], [], 6

    def watched(*arguments, **named):
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
        assert sum(report() is not None for report in reports) <= 1
        report = real(*arguments, **named)
        reports.append(weakref.ref(report))
        return report

    monkeypatch.setattr(api, "check", watched)
    tracemalloc.start()
    shown = lineage("check", *["fern/child"] * count, "--local-hub", hub)
    tracemalloc.stop()
    assert (shown.code, len(reports)) == (0, count)
    assert sizes[-1] - sizes[2] < 4096 * count
