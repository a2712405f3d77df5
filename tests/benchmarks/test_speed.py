"""The benchmark as a command: what it writes, what it leaves behind, how it fails."""

import json
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import speed
from benchmarks.cases import CASES
from benchmarks.shapes import FULL

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "benchmarks.speed", "--quick"]


@pytest.mark.long
def test_it_prints_and_writes_one_row_for_each_figure(tmp_path):
    output = tmp_path / "speed.json"
    command = [*COMMAND, "--only", "startup", "--scratch", tmp_path, "--output", output]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(output.read_text(encoding="utf-8"))
    assert found["command"] == "python -m benchmarks.speed --quick"
    assert [row["what"] for row in found["rows"]] == [
        "start-up of hf-lineage --help",
        "start-up of hf-lineage compare",
        "start-up to the first byte of weights, check of a local model",
        "check of one small model",
        "check of 100 small models, each",
    ]
    assert [row.keys() for row in found["rows"]] == 5 * [{"case", "what", "target", "measured", "unit", "met", "note"}]
    assert all(row["measured"] > 0 for row in found["rows"])
    assert "start-up of hf-lineage --help" in done.stdout
    assert platform.node() not in output.read_text(encoding="utf-8")
    assert str(tmp_path) not in output.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize(("room", "layers"), [(60e9, 32), (19e9, 24), (15e9, 16)])
def test_a_small_disk_takes_fewer_layers(room, layers):
    assert speed.fitting(FULL, ["extraction"], int(room)).shapes["7B"].layers == layers


def test_a_disk_error_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.scratch.RESERVE", 10**18)
    done = CliRunner().invoke(speed.main, ["--scratch", str(tmp_path)])
    assert done.exit_code == 2
    assert done.stderr.startswith("benchmarks: ")
    assert done.stderr.count("\n") == 1


def test_interrupted_it_leaves_nothing_behind(tmp_path):
    with subprocess.Popen(
        [*COMMAND, "--only", "memory", "--scratch", tmp_path],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    ) as running:
        while running.poll() is None and not list(tmp_path.glob("*/*/config.json")):
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=30)
    assert (running.returncode, err.splitlines()[-1]) == (130, "benchmarks: interrupted")
    assert list(tmp_path.iterdir()) == []


def test_the_committed_results_have_a_row_of_every_case():
    rows = json.loads((ROOT / "benchmarks/results/speed.json").read_text(encoding="utf-8"))["rows"]
    assert list(dict.fromkeys(row["case"] for row in rows)) == list(CASES)
