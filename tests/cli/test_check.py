"""Several models in one command: a row or a line of JSON for each, the worst exit code, and nothing that stays."""

import gc
import json
import shutil
import tracemalloc
import weakref
from pathlib import Path

import pytest

from hf_lineage.checking import check
from hf_lineage.signature.store import load_signature
from tests.invoking import lineage
from tests.models import WEIGHTS, card, family, tiny_gpt2, tiny_llama
from tests.server.client import connect_to_nothing

CHILD, LIAR, BASE = "fern/child", "fern/liar", "acme/base"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A local hub of a base, of a model that was made from it, of one that was not, and of one that ends too early."""
    folder = family(tmp_path_factory.mktemp("models") / "hub")
    card(tiny_llama(folder / LIAR, seed=7), BASE)
    shutil.copytree(folder / CHILD, folder / "cut")
    (folder / "cut" / WEIGHTS).write_bytes((folder / CHILD / WEIGHTS).read_bytes()[:1000])
    return folder


def check_all(models, *arguments):
    return lineage("check", *arguments, "--local-hub", models, "--seed", "0")


def test_the_worst_exit_code_counts_and_an_unexpected_error_loses_no_other_row(models, tmp_path, monkeypatch):
    connect_to_nothing(tmp_path / "cache", monkeypatch)
    for code, checked in (
        (0, (CHILD, CHILD)), (1, (BASE, LIAR, CHILD)), (2, ("org/model", "./none")), (3, (CHILD, BASE)),
        (4, (LIAR, "org/model")),
    ):  # fmt: skip
        assert check_all(models, *checked).code == code
    real = check.check
    monkeypatch.setattr(check, "check", lambda model, *rest, **more: (
        real(model, *rest, **more) if model == CHILD else 1 / 0))  # fmt: skip
    shown = check_all(models, LIAR, CHILD)
    assert (shown.code, [row[-1] for row in shown.rows]) == (2, ["ERROR", "inherited"])
    assert f"{LIAR}: an unexpected error (ZeroDivisionError: division by zero)" in shown.sentences


def test_each_claim_is_a_row_and_models_that_cannot_be_read_are_named_below(models, monkeypatch):
    monkeypatch.chdir(models)
    shown = check_all(models, CHILD, "./none", LIAR, "./cut", BASE)
    assert (shown.code, shown.err) == (2, "")
    assert shown.out.startswith(" Model  ")
    assert [(row[0], *row[-2:]) for row in shown.rows] == [
        (CHILD, "VERIFIED", "inherited"), ("./none", "-", "ERROR"), (LIAR, "0.311", "UNRELATED"),
        ("./cut", "-", "ERROR"), (BASE, "UNDECIDED", "undeclared"),
    ]  # fmt: skip
    assert shown.rows[1] == ["./none", "-", "-", "-", "-", "ERROR"]
    assert "2 ERROR, 1 VERIFIED inherited, 1 UNRELATED, 1 UNDECIDED undeclared. Details: check one" in shown.sentences
    assert "with --explain. ./none is neither a folder nor a Hub name" in shown.sentences
    assert f" cut/{WEIGHTS}: the header claims 1976 bytes in a file of 1000" in shown.sentences


def test_json_is_a_line_for_each_model_and_what_a_policy_accepts_or_misses_is_said(models, tmp_path):
    named = (CHILD, str(tmp_path / "none"), str(models / "cut"), LIAR)
    shown = check_all(models, *named, "--format", "json")
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert (shown.code, shown.err, [line["model"] for line in lines]) == (2, "", list(named))
    codes = [line.get("code") or line["error"]["code"] for line in lines]
    assert codes == ["inherited", "no-model", "damaged", "unrelated"]
    assert [line.get("exit_code") for line in lines] == [0, None, None, 1]
    assert lines[1]["error"].keys() == {"code", "message", "remedy"}
    written = check_all(models, *named[1:3], "--format", "json", "-o", tmp_path / "lines")
    assert (written.code, written.out) == (2, "")
    assert (tmp_path / "lines").read_text().splitlines() == shown.out.splitlines()[1:3]
    accepted = f"accepted: [{{base: {BASE}, code: unrelated, reason: known, expires: 2999-01-01}}]\n"
    (tmp_path / "policy.yaml").write_text(f"{accepted}require: strict\n")
    shown = check_all(models, CHILD, LIAR, "--policy", tmp_path / "policy.yaml")
    assert (shown.code, f"{CHILD}: {BASE} is VERIFIED inherited" in shown.sentences) == (3, True)
    assert "accepted until 2999-01-01: known" in shown.sentences


def test_what_is_about_one_model_is_refused_of_several_before_anything_is_read():
    of_check, of_compare = "check each model by itself", "compare two models with it"
    for command, option, named, remedy in (
        ("check ./gone ./none", "--explain", "--explain", of_check),
        ("check ./gone ./none", "--format html", "--format html", of_check),
        ("check ./gone ./none", "-o json=a.json", "-o", of_check),
        ("compare ./gone ./none ./a", "--format sarif", "--format sarif", of_compare),
        ("compare ./gone ./none ./a", "-o intoto=b", "--format intoto", of_compare),
    ):
        assert lineage(*command.split(), *option.split()).error == f"{named} is about one model; {remedy}"


def test_no_report_stays_in_memory(models, monkeypatch):
    """A row and a line of output take a kilobyte, a report a hundred times as much."""
    real, reports, sizes, count = check.check, [], [], 4

    def watched(*arguments, **named):
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
        assert sum(report() is not None for report in reports) <= 1
        report = real(*arguments, **named)
        reports.append(weakref.ref(report))
        return report

    monkeypatch.setattr(check, "check", watched)
    tracemalloc.start()
    shown = check_all(models, *[CHILD] * count)
    tracemalloc.stop()
    assert (shown.code, len(reports)) == (0, count)
    assert sizes[-1] - sizes[2] < 4096 * count


def paths(*arguments):
    (claim,) = json.loads(lineage(*arguments, "--seed", "0", "--format", "json").out)["claims"]
    return {measured["path"]: measured for measured in claim["paths"]}


def test_all_paths_are_those_that_both_models_have(models, tmp_path):
    command = ("check", CHILD, "--local-hub", models)
    every, of_llama = paths(*command, "--paths", "all"), ["mlp", "mlp_gate", "value_output", "query_key"]
    assert (list(every), every) == (of_llama, paths(*command, "--paths", ",".join(of_llama)))
    assert list(paths(*command)) == ["mlp", "value_output"]
    gpt2 = tiny_gpt2(tmp_path / "gpt2")
    outcome = lineage("compare", gpt2, gpt2, "--paths", "mlp_gate")
    assert (outcome.code, outcome.rows[0][-2:]) == (3, ["UNDECIDED", "unsupported"])
    assert "gpt2 has no path mlp_gate; it has mlp, value_output, query_key" in outcome.sentences
    assert list(paths("compare", gpt2, gpt2, "--paths", "all")) == ["mlp", "value_output", "query_key"]
    model, mlp, attention = models / BASE, tmp_path / "mlp.safetensors", tmp_path / "v.safetensors"
    assert lineage("extract", model, "--paths", "mlp", "-o", mlp).code == 0
    assert lineage("extract", model, "--paths", "value_output", "-o", attention).code == 0
    assert list(paths("compare", mlp, model, "--paths", "all")) == ["mlp"]
    outcome = lineage("compare", mlp, attention, "--paths", "all")
    assert (outcome.code, outcome.rows[0][-1]) == (3, "incompatible")
    assert "No path is in both models: " in outcome.sentences
    assert lineage("extract", model, "--paths", "all", "-o", mlp).code == 0
    assert list(paths("compare", mlp, model, "--paths", "all")) == of_llama


def test_several_models_have_a_row_each_and_one_exit_code(models, tmp_path):
    page, others = tmp_path / "page.html", (CHILD, LIAR, str(tmp_path / "none"))
    there = ("--local-hub", models, "--seed", "0")
    shown = lineage("compare", BASE, *others, *there, "-o", f"html={page}", "-o", f"json={tmp_path / 'a.json'}")
    assert (shown.code, shown.out.splitlines()[0]) == (1, BASE)
    claims = json.loads((tmp_path / "a.json").read_text())["claims"]
    verdicts = zip(others, [BASE] * 3, ("VERIFIED", "UNRELATED", "UNDECIDED"), strict=True)
    assert [(claim["model"], claim["base"], claim["verdict"]) for claim in claims] == [*verdicts]
    for claim in claims[:2]:
        alone = lineage("compare", claim["base"], claim["model"], *there, "--format", "json").out
        assert json.loads(alone)["claims"][0]["paths"] == claim["paths"]
    text = page.read_text()
    assert all(name in text for name in (CHILD, LIAR, "./none"))


@pytest.fixture
def record(hub):
    assert lineage("annotate", "fern/child", "--local-hub", hub, "--write").code == 0
    return hub / "fern/child/lineage/claims.json"


def test_a_record_is_checked_again_and_the_exit_code_says_how_grave_a_change_is(hub, record):
    for model in ((), ("fern/child",), (hub / "fern/child",)):
        done = lineage("check", *model, "--verify", record, "--local-hub", hub)
        assert (done.code, done.err) == (0, "")
        assert done.out == f"Checked {model[0] if model else 'fern/child'} against acme/base; differences: none.\n"
    document = json.loads(record.read_text())
    for change, code in (({"code": "part"}, 1), ({"score": 0.1}, 3), ({}, 0)):
        record.write_text(json.dumps(document | {"claims": [document["claims"][0] | change]}))
        assert lineage("check", "--verify", record, "--local-hub", hub).code == code


def test_what_is_no_record_or_does_not_go_with_one_is_an_error(hub, record):
    other, settled = hub / "fern/child/config.json", (("--paths", "mlp"), ("--strict",), ("--fail-on", "never"))
    for typed, message in (
        (("--verify", other), "config.json is not a file that hf-lineage wrote"),
        (("--verify", other), "; name another file"),
        *((("--verify", record, *one), f"takes the settings of FILE; leave {one[0]} out") for one in settled),
        (("--verify", record, "--explain"), "--verify takes the settings of FILE; leave --explain out"),
        (("a/b", "c/d", "--verify", record), "--verify is about one model"),
        ((), "Missing argument 'MODEL...'"),
    ):
        assert message in lineage("check", *typed).error


def test_a_signature_is_called_after_its_model_and_one_that_fails_leaves_no_file(hub, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert "each once, not nose" in lineage("extract", BASE, "--local-hub", hub, "--paths", "nose").error
    assert "no/model" in lineage("extract", "no/model", "--local-hub", hub).error
    assert list(Path().iterdir()) == []
    found = lineage("extract", BASE, "--local-hub", hub)
    assert (found.code, found.out, found.err) == (0, "base.lineage.safetensors\n", "")
    (file,) = Path().iterdir()
    assert (file.name, load_signature(file).model) == ("base.lineage.safetensors", BASE)
    assert "is a signature and holds no weights" in lineage("inspect", f"./{file}").error
    text = lineage("inspect", BASE, "--local-hub", hub)
    assert text.out.startswith(f"{BASE}: LlamaForCausalLM, factorization llama, 2 layers, width 32, 4 heads")
    lineage("inspect", BASE, "--local-hub", hub, "--format", "json", "-o", tmp_path / "x.json")
    found = json.loads((tmp_path / "x.json").read_text())
    assert (found["model"], found["layers"], found["width"]) == (BASE, 2, 32)
    monkeypatch.chdir(hub / BASE)
    assert lineage("extract", ".").out == "base.lineage.safetensors\n"
