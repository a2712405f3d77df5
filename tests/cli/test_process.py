"""The command line as a process of its own: exit codes, pipes, signals."""

import itertools
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.invoking import COMMAND, Outcome, environment, lineage, process, shell
from tests.models import WEIGHTS, edit_json, raw_safetensors, shard, spoil, tiny_llama

FULL = "what is to be written finds no room ([Errno 28] No space left on device)"


def test_where_nobody_reads_the_report_the_code_is_not_that_of_a_verdict(hub):
    script = 'exec 3>&1; { "$@"; echo $? >&3; } | true'
    done = shell(script, "check", hub / "fern/child", "--local-hub", hub)
    assert (done.out, done.err) == ("2\n", "")


@pytest.mark.long
def test_a_terminal_without_line_drawing_is_an_error_and_no_traceback(hub):
    env = environment(PYTHONIOENCODING="latin-1")
    assert process("check", hub / "fern/child", "--local-hub", hub, env=env).error == (
        "a name or the report cannot be encoded as latin-1; try PYTHONIOENCODING=utf-8"
    )


def test_a_name_that_is_no_unicode_is_shown_escaped(hub):
    odd = os.fsdecode(os.fsencode(hub) + b"/\xff")
    (hub / "fern/child").rename(odd)
    done = lineage("check", odd, "--local-hub", hub)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(rf"{hub}/\udcff")


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="it shows when the weights are being read")
def test_interrupted_it_leaves_nothing_behind(tmp_path):
    model = hollow_llama(tmp_path / "model", layers=60, width=1024, hidden=16384)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, and so by what is run
    with subprocess.Popen(
        [*COMMAND, "extract", model, "-o", tmp_path / "model.sig"],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        while running.poll() is None and not reading_weights(running.pid):
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err.strip()) == (130, "", "hf-lineage: interrupted")
    assert list(tmp_path.iterdir()) == [model]


def reading_weights(process_id):
    """Whether a process has read more than a program and its packages."""
    (counted,) = re.findall(r"(?m)^rchar: (\d+)$", Path(f"/proc/{process_id}/io").read_text())
    return int(counted) > 2**28


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
    edit_json(folder / "config.json", num_hidden_layers=layers, hidden_size=width, intermediate_size=hidden)
    raw_safetensors(
        folder / WEIGHTS,
        {
            name: {"dtype": "F32", "shape": shape, "data_offsets": between}
            for (name, shape), between in zip(shapes.items(), offsets, strict=True)
        },
    )
    os.truncate(folder / WEIGHTS, (folder / WEIGHTS).stat().st_size + ends[-1])
    return folder


def breaks(monkeypatch, error):
    """Make whoever asks the Hub meet this error."""

    def broken(*arguments, **others):
        raise error

    monkeypatch.setattr("hf_lineage.hub.client.snapshot", broken)


def test_a_package_that_cannot_be_imported_is_one_line(hub):
    script = "import sys; sys.modules['msgspec'] = None; from hf_lineage.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "check", hub / "fern/child", "--local-hub", hub]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
    assert Outcome(done.returncode, done.stdout, done.stderr).error == (
        "a package that is needed cannot be imported (import of msgspec halted; None in sys.modules); "
        "install hf-lineage again"
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("x\ny"), r"an unexpected error (KeyError: 'x\ny'); --debug shows where"),
        (MemoryError(), "not enough memory; try HF_LINEAGE_MAX_MEMORY=8GiB"),
        (BaseException("panic"), "an unexpected error (BaseException: panic)"),
        (OSError(28, "No space left on device"), FULL),
    ],
)
def test_whatever_is_raised_the_code_is_not_that_of_a_verdict(monkeypatch, error, message):
    breaks(monkeypatch, error)
    assert message in lineage("check", "org/model").error


@pytest.mark.parametrize("arguments", [["--debug", "check", "org/model"], ["check", "org/model", "--debug"]])
def test_debug_shows_where_an_error_came_from(monkeypatch, arguments):
    breaks(monkeypatch, KeyError("x"))
    outcome, told = lineage(*arguments), "an unexpected error (KeyError: 'x'); --debug shows where, please report it"
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("Traceback (most recent call last):\n")
    assert "in broken\n" in outcome.err
    assert outcome.err.endswith(f"\nhf-lineage: {told}\n")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("redirected", "code", "error"),
    [
        (">/dev/full", 2, f"hf-lineage: {FULL}; make room, or write it to another place\n"),
        ("2>/dev/full /nowhere", 2, ""),
        ("2>&- /nowhere", 2, ""),
    ],
)
def test_output_that_cannot_be_written_does_not_change_the_code(redirected, code, error):
    command = "check" if "nowhere" in redirected else "registry"
    assert shell(f'"$@" {redirected}', command) == Outcome(code, "", error)


def eighth_floats(folder):
    spoil(folder, lambda tensors: tensors.update({name: one.to(torch.float8_e5m2) for name, one in tensors.items()}))


def gone_shards(folder):
    index = shard(folder) / "model.safetensors.index.json"
    edit_json(index, weight_map={f"x{n}": f"gone-{n}.safetensors" for n in range(20)})


@pytest.mark.few(1)
@pytest.mark.parametrize("damage", [gone_shards, eighth_floats])
def test_what_is_said_is_the_same_in_every_run(tmp_path, damage):
    """Python orders sets of texts anew in each process."""
    damage(model := tiny_llama(tmp_path / "model"))
    arguments = ("check", model, "--base", model, "--seed", "0")
    outcomes = {process(*arguments, env=environment(PYTHONHASHSEED=str(seed))) for seed in (1, 2, 3)}
    assert len(outcomes) == 1
