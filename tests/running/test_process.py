"""The process that runs a model has no network and bounds on its time and memory, and however it ends is told."""

import sys
from dataclasses import replace

import pytest

from hf_lineage.errors import NothingToCompare, OptionError
from hf_lineage.running import process as processes
from hf_lineage.running.process import Load, Process, refuse_without_extra

NOTHING = Load("/nowhere", "LlamaForCausalLM", (), (), 2**33)
FAKE = "import sys, json\nfor line in sys.stdin:\n    {}\n    sys.stdout.flush()"


def answering(monkeypatch, code):
    monkeypatch.setattr(processes, "COMMAND", FAKE.format(code).replace("{", "{{").replace("}", "}}"))


def test_answers_are_values_after_what_is_done_and_it_learns_no_token(monkeypatch, capsys):
    answering(monkeypatch, "print(json.dumps({'values': {'n': 1}}))")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(processes, "are_progress_bars_disabled", lambda: False)  # another test may have done so
    with Process(NOTHING, 60) as process:
        assert (process.values, capsys.readouterr().err) == ({"n": 1}, "")
        assert process.ask("measure", "running it", seed=1) == {"n": 1}
    assert "running it:   0%|" in capsys.readouterr().err
    monkeypatch.setenv("HF_TOKEN", "secret")
    answering(monkeypatch, "import os; print(json.dumps({'values': dict(os.environ)}))")
    with Process(NOTHING, 60) as process:
        assert ("HF_TOKEN" in process.values, process.values["HF_HUB_OFFLINE"]) == (False, "1")
        assert process.values["HOME"] not in ("", sys.prefix)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "transformers" else object())
    with pytest.raises(OptionError, match=r"--run loads models with transformers; pip install 'hf-lineage\[run\] @"):
        refuse_without_extra()


@pytest.mark.parametrize(("code", "why"), [
    ("print(json.dumps({'problem': 'it says \\x1b no'}))", r"it says \\x1b no"),
    ("sys.exit(3)", r"ended \(exit code 3\)"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", r"ended \(SIGKILL\)"),
    ("import time; time.sleep(60)", "took more than 1 s"),
    ("print('x' * 2**25)", "is too long"),
])  # fmt: skip
def test_a_process_that_does_not_answer_is_a_reason(monkeypatch, code, why):
    answering(monkeypatch, code)
    monkeypatch.setattr(processes, "LONGEST_ANSWER", 2**20)
    with pytest.raises(NothingToCompare, match=why), Process(NOTHING, 1 if "time" in code else 60):
        pass


def test_the_real_one_has_no_network_and_bounds_its_memory(tmp_path, monkeypatch):
    code = (
        "import sys; sys.path[:] = {path!r}\n"
        "import json, socket, resource, urllib.request\n"
        "from hf_lineage.running.worker import limit_memory, without_network\n"
        "without_network(); limit_memory(2**28)\n"
        "seen = []\n"
        "for action in (lambda: socket.create_connection(('::1', 9)), lambda: socket.socket().connect(('::1', 9)),\n"
        "               lambda: urllib.request.urlopen('http://127.0.0.1:9'), lambda: bytearray(2**29)):\n"
        "    try: action(); seen.append('done')\n"
        "    except (OSError, MemoryError) as error: seen.append(str(error) or type(error).__name__)\n"
        "for line in sys.stdin: print(json.dumps({{'values': seen}})); sys.stdout.flush()"
    )
    monkeypatch.setattr(processes, "COMMAND", code)
    with Process(replace(NOTHING, folder=str(tmp_path)), 60) as process:
        assert [("has no network" in seen, seen == "MemoryError") for seen in process.values] == [
            (True, False), (True, False), (True, False), (False, True),
        ]  # fmt: skip
