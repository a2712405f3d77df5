"""The command line as a process of its own: exit codes, pipes, signals."""

import itertools
import math
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.models import WEIGHTS, raw_safetensors, tiny_llama
from tests.running import COMMAND, environment, process


def test_the_exit_code_is_that_of_the_verdict(hub):
    tiny_llama(hub / "acme/base", seed=1)
    assert process("check", hub / "fern/child", "--local-hub", hub).code == 1


def test_an_error_is_one_line_without_traceback(tmp_path):
    assert process("check", tmp_path).error == (
        f"{tmp_path} has no config.json, so it is no transformers model; check the path"
    )


def test_where_nobody_reads_the_report_the_code_is_not_that_of_a_verdict(hub):
    script = 'exec 3>&1; { "$@"; echo $? >&3; } | true'
    arguments = ["check", str(hub / "fern/child"), "--local-hub", str(hub)]
    done = subprocess.run(
        ["bash", "-c", script, "bash", *COMMAND, *arguments],
        env=environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_a_terminal_without_line_drawing_is_an_error_and_no_traceback(hub):
    env = environment(PYTHONIOENCODING="latin-1")
    assert process("check", hub / "fern/child", "--local-hub", hub, env=env).error == (
        "a name or the report cannot be written as latin-1; try PYTHONIOENCODING=utf-8"
    )


def test_a_name_that_is_no_unicode_is_an_error_and_no_traceback(hub):
    odd = os.fsencode(hub) + b"/\xff"
    (hub / "fern/child").rename(os.fsdecode(odd))
    done = subprocess.run(
        [*COMMAND, "check", odd, "--local-hub", hub], env=environment(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(rf"hf-lineage: {hub}/\udcff: model.layers.0.")
    assert ".weight cannot be read: " in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="it shows when the weights are being read")
def test_interrupted_it_leaves_nothing_behind(tmp_path):
    model = hollow_llama(tmp_path / "model", layers=60, width=1024, hidden=16384)
    with subprocess.Popen(
        [*COMMAND, "extract", model, "-o", tmp_path / "model.sig"],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        while running.poll() is None and not reading_weights(running.pid):
            time.sleep(0.01)
        time.sleep(0.5)  # until it computes: an interrupt while torch opens a tensor comes out as an error of torch
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err.strip()) == (130, "", "hf-lineage: interrupted")
    assert list(tmp_path.iterdir()) == [model]


def reading_weights(process_id):
    """Whether a process has imported torch and holds the weights."""
    mapped = Path(f"/proc/{process_id}/maps").read_text()
    return "libtorch" in mapped and "model.safetensors" in mapped


def hollow_llama(folder, layers, width, hidden):
    """A Llama whose weights are one hole in a file: large to compute with, and no byte on disk."""
    shapes = {
        f"model.layers.{layer}.{name}.weight": shape
        for layer in range(layers)
        for name, shape in {
            **{norm: [width] for norm in ("input_layernorm", "post_attention_layernorm")},
            **{f"self_attn.{role}_proj": [width, width] for role in "qkvo"},
            **{f"mlp.{role}_proj": [hidden, width] for role in ("up", "gate")},
            "mlp.down_proj": [width, hidden],
        }.items()
    }
    ends = list(itertools.accumulate(4 * math.prod(shape) for shape in shapes.values()))
    offsets = zip([0, *ends], ends, strict=False)
    tiny_llama(folder)
    raw_safetensors(
        folder / WEIGHTS,
        {
            name: {"dtype": "F32", "shape": shape, "data_offsets": between}
            for (name, shape), between in zip(shapes.items(), offsets, strict=True)
        },
    )
    os.truncate(folder / WEIGHTS, (folder / WEIGHTS).stat().st_size + ends[-1])
    return folder
