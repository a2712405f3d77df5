"""The benchmark as a command: what it writes and leaves behind, how it fails; its models, rows and cases."""

import json
import platform
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import search, speed
from benchmarks.cases import CASES, Bench, extraction
from benchmarks.results import Row, Target
from benchmarks.scratch import most_at_once, scratch
from benchmarks.shapes import FULL, QUICK
from benchmarks.writing import write_model
from hf_lineage import compare, extract
from tests.long import first_of

ROOT = Path(__file__).parents[2]
STARTED = "of hf-lineage --help", "of hf-lineage compare", "to the first byte of weights, check of a local model"
COMMAND = [sys.executable, "-m", "benchmarks.speed", "--quick"]


@pytest.mark.long
def test_it_prints_and_writes_one_row_for_each_figure(tmp_path):
    output = tmp_path / "speed.json"
    command = [*COMMAND, "--only", "startup", "--scratch", tmp_path, "--output", output]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(output.read_text(encoding="utf-8"))
    assert found["command"] == "python -m benchmarks.speed --quick"
    started = [f"start-up {what}" for what in STARTED]
    assert [row["what"] for row in found["rows"]] == [
        *started,
        "check of one small model",
        "check of 100 small models, each",
    ]
    assert [row.keys() for row in found["rows"]] == 5 * [{"case", "what", "target", "measured", "unit", "met", "note"}]
    assert all(row["measured"] > 0 for row in found["rows"])
    assert "start-up of hf-lineage --help" in done.stdout
    assert [name for name in (platform.node(), str(tmp_path)) if name in output.read_text(encoding="utf-8")] == []
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize(("room", "layers"), [(60e9, 32), (19e9, 24), (15e9, 16)])
def test_a_small_disk_takes_fewer_layers(room, layers):
    assert speed.fitting(FULL, ["extraction"], int(room)).shapes["7B"].layers == layers


def test_a_disk_error_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.scratch.RESERVE", 10**18)
    done = CliRunner().invoke(speed.main, ["--scratch", str(tmp_path)])
    assert (done.exit_code, done.stderr.startswith("benchmarks: "), done.stderr.count("\n")) == (2, True, 1)


def test_interrupted_it_leaves_nothing_behind(tmp_path):
    with subprocess.Popen(
        [*COMMAND, "--only", "memory", "--scratch", tmp_path], cwd=ROOT, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    ) as running:  # fmt: skip
        while running.poll() is None and not list(tmp_path.glob("*/*/config.json")):
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=30)
    assert (running.returncode, err.splitlines()[-1]) == (130, "benchmarks: interrupted")
    assert list(tmp_path.iterdir()) == []


def test_the_committed_results_have_a_row_of_every_case():
    rows = json.loads((ROOT / "benchmarks/results/speed.json").read_text(encoding="utf-8"))["rows"]
    assert list(dict.fromkeys(row["case"] for row in rows)) == list(CASES)


@pytest.mark.parametrize(
    ("target", "text", "met", "ratio", "missed"),
    [
        (Target(high=2.0), "≤ 2", 1.0, 2.0, 2.1),
        (Target(low=10), "≥ 10", 25.0, 2.5, 9.9),
        (Target(0.85, 1.15), "0.85 to 1.15", 0.95, 3.0, 1.2),
    ],
)
def test_a_target_is_a_range_and_what_was_not_measured_is_not_met(target, text, met, ratio, missed):
    assert (str(target), target.holds(met), target.holds(missed)) == (text, True, False)
    assert (target.ratio(met), target.ratio(missed) < 1) == (pytest.approx(ratio), True)
    row = Row("compare", Target(low=1), None, "× faster", "no network")
    told = {"measured": None, "unit": "× faster", "met": False, "note": "no network"}
    assert row.as_json() == {"what": "compare", "target": "≥ 1 × faster"} | told


A, B, C = (replace(QUICK.model("125M", layers), name=name) for name, layers in (("a", 1), ("b", 2), ("c", 3)))


@pytest.mark.parametrize(
    ("needs", "alive"),
    [
        ([], ()),
        ([(A,), (B,), (C,)], (C,)),
        ([(A, B), (C,)], (A, B)),
        ([(A,), (B,), (A,)], (A, B)),
        ([(C,), (), (C,)], (C,)),
    ],
)
def test_room_is_asked_for_what_lies_there_at_once(needs, alive):
    assert most_at_once(needs) == sum(model.shape.bytes for model in alive)


def test_models_are_written_kept_and_removed(tmp_path):
    from transformers import AutoTokenizer

    with scratch(tmp_path) as place:
        place.write((A, B))
        tokenizer = AutoTokenizer.from_pretrained(place.model(A))
        assert tokenizer("word7 word12 nonsense").input_ids == [7, 12, 0]
        assert (len(tokenizer), extract(str(place.model(A))).layers) == (QUICK.shapes["125M"].vocabulary, 1)
        written = sum(file.stat().st_size for file in place.model(A).glob("*.safetensors"))
        assert A.shape.bytes < written < 1.01 * A.shape.bytes
        place.keep({B})
        assert (place.model(A).exists(), place.model(B).exists()) == (False, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("name", first_of(["125M", "GPT-2", "70B"], count=2))
def test_a_child_is_related_to_its_parent_and_a_stranger_is_not(tmp_path, name):
    parent, child = QUICK.model(name).pair
    models = [parent, child, replace(parent, name="stranger", seed=1)]
    for model in models:
        write_model(model, tmp_path / model.folder)
    a, b, c = (str(tmp_path / model.folder) for model in models)
    assert [compare(a, other).rows[0].verdict.word for other in (b, c)] == ["VERIFIED", "UNRELATED"]


def test_relatives_are_among_the_first_ten_of_an_index():
    rows = {row.what: row for row in search.measure([2_000], 3, runs=0)}
    assert rows["2,000 models, recall at 10"].measured == 1
    assert (rows["2,000 models, others above chance"].measured or 0) < 2
    assert (rows["2,000 models, keys on disk"].measured or 0) < 1


@pytest.mark.long
def test_without_a_gpu_a_row_says_that_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(extraction, "SIZES", ("1.3B",))
    with scratch(tmp_path) as place:
        place.write(CASES["gpu"].models(QUICK))
        rows = [(row.measured, row.note) for row in extraction.gpu_rows(Bench(QUICK, place, None))]
    assert rows == [(None, "not measured: no GPU here")]
