"""The command line as a process of its own: exit codes, streams, signals, variables, files, imports; and the hook."""

import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import save_file

from hf_lineage import __version__
from hf_lineage.cli import cli
from tests.adapters import pair
from tests.github import ROOT, installed
from tests.invoking import COMMAND, Outcome, environment, lineage, process, run_process, shell
from tests.models import HIDDEN, WEIGHTS, WIDTH, edit_json, family, raw_safetensors, shard, spoil, tiny_llama

FULL = "what is to be written finds no room ([Errno 28] No space left on device)"


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="it shows when the weights are being read")
def test_interrupted_it_leaves_nothing_behind(tmp_path):
    """The weights are one hole in a file: large to compute with, and no byte on disk."""
    folder, layers, width, hidden = tiny_llama(tmp_path / "model"), 60, 1024, 16384
    of_a_layer = {
        **{norm: [width] for norm in ("input_layernorm", "post_attention_layernorm")},
        **{f"self_attn.{role}_proj": [width, width] for role in "qkvo"},
        **{f"mlp.{role}_proj": [hidden, width] for role in ("up", "gate")},
        "mlp.down_proj": [width, hidden],
    }
    header, end = {}, 0
    for layer, (name, shape) in itertools.product(range(layers), of_a_layer.items()):
        between = [end, end := end + 4 * math.prod(shape)]
        header[f"model.layers.{layer}.{name}.weight"] = {"dtype": "F32", "shape": shape, "data_offsets": between}
    edit_json(folder / "config.json", num_hidden_layers=layers, hidden_size=width, intermediate_size=hidden)
    raw_safetensors(folder / WEIGHTS, header)
    os.truncate(folder / WEIGHTS, (folder / WEIGHTS).stat().st_size + end)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, and so by what is run
    with subprocess.Popen(
        [*COMMAND, "extract", folder, "-o", tmp_path / "model.sig"],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        read = 0
        while running.poll() is None and read < 2**28:  # more than a program and its packages
            time.sleep(0.01)
            read = int(re.findall(r"(?m)^rchar: (\d+)$", Path(f"/proc/{running.pid}/io").read_text())[0])
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err.strip()) == (130, "", "hf-lineage: interrupted")
    assert list(tmp_path.iterdir()) == [folder]


def test_names_terminals_and_packages_that_cannot_be_are_one_line(hub):
    done = process("check", hub / "fern/child", "--local-hub", hub, env=environment(PYTHONIOENCODING="latin-1"))
    assert done.error == "a name or the report cannot be encoded as latin-1; try PYTHONIOENCODING=utf-8"
    script = "import sys; sys.modules['msgspec'] = None; from hf_lineage.cli import main; sys.exit(main())"
    assert run_process([sys.executable, "-c", script, "check", hub / "fern/child", "--local-hub", hub]).error == (
        "a package that is needed cannot be imported (import of msgspec halted; None in sys.modules); "
        "install hf-lineage again"
    )
    odd = os.fsdecode(os.fsencode(hub) + b"/\xff")
    (hub / "fern/child").rename(odd)
    done = lineage("check", odd, "--local-hub", hub)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(rf"{hub}/\udcff")


@pytest.mark.parametrize(("error", "message"), [
    (KeyError("x\ny"), r"an unexpected error (KeyError: 'x\ny'); --debug shows where"),
    (MemoryError(), "not enough memory; try HF_LINEAGE_MAX_MEMORY=8GiB"),
    (BaseException("panic"), "an unexpected error (BaseException: panic)"),
    (OSError(28, "No space left on device"), FULL),
])  # fmt: skip
def test_whatever_is_raised_is_no_verdict_and_debug_shows_where(monkeypatch, error, message):
    def broken(*arguments, **others):
        raise error

    monkeypatch.setattr("hf_lineage.hub.client.snapshot", broken)
    told = lineage("check", "org/model").error
    assert message in told
    for arguments in (["--debug", "check", "org/model"], ["check", "org/model", "--debug"]):
        outcome = lineage(*arguments)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err.startswith("Traceback (most recent call last):\n")
        assert "in broken\n" in outcome.err
        assert outcome.err.endswith(f"\nhf-lineage: {told}\n")


def test_what_is_said_is_the_same_in_every_run(tmp_path):
    """Python orders sets of texts anew in each process."""
    index = shard(tiny_llama(tmp_path / "shards")) / "model.safetensors.index.json"
    edit_json(index, weight_map={f"x{n}": f"gone-{n}.safetensors" for n in range(20)})
    spoil(tiny_llama(tmp_path / "eighth"), lambda tensors: tensors.update(
        {name: one.to(torch.float8_e5m2) for name, one in tensors.items()}))  # fmt: skip
    for model in (tmp_path / "shards", tmp_path / "eighth"):
        arguments = ("check", model, "--base", model, "--seed", "0")
        assert len({process(*arguments, env=environment(PYTHONHASHSEED=str(seed))) for seed in (1, 2)}) == 1


CHECK = ("check", "{}/fern/child", "--local-hub", "{}", "--seed", "0")
CLOSED = "standard output is closed, so the result cannot be printed; leave it open, or name a file with -o"


@pytest.mark.few(4)
@pytest.mark.parametrize(("script", "arguments", "out", "err", "code"), [
    ('exec 3>&1; { "$@"; echo $? >&3; } | true', CHECK, "2\n", "", 0),
    ('"$@" >&- <&-', CHECK, "", CLOSED, 2),
    ('"$@" >/dev/full', ["registry"], "", f"{FULL}; make room, or write it to another place", 2),
    ('"$@" >&- 2>&- <&-', [*CHECK, "-o", "{}/report"], "", "", 0),
    ('"$@" >&- 2>&-', CHECK, "", "", 2),
    ('"$@" 2>/dev/full /nowhere', ["check"], "", "", 2),
    ('"$@" 2>&- /nowhere', ["check"], "", "", 2),
    ('"$@" >&-', [*CHECK, "--quiet"], "", "", 0),
    ('"$@" 2>&- <&-', [*CHECK, "--base", "{}/acme/other"], None, "", 1),
])  # fmt: skip
def test_output_that_nobody_reads_or_that_finds_no_room_is_no_verdict(hub, script, arguments, out, err, code):
    tiny_llama(hub / "acme/other", seed=1)
    typed = [word.format(hub) for word in arguments]
    expected = lineage(*typed) if out is None or "-o" in typed else None
    report = (hub / "report").read_bytes() if "-o" in typed else b""
    (hub / "report").unlink(missing_ok=True)
    done = shell(script, *typed)
    assert done == Outcome(code, expected.out if out is None else out, f"hf-lineage: {err}\n" if err else "")
    assert "-o" not in typed or (hub / "report").read_bytes() == report, "and is no file with the number of a stream"


WHOLE = "must be a whole number of seconds"
ADDRESS = "must be the address of a Hub such as https://huggingface.co"


@pytest.mark.parametrize(("variable", "value", "message"), [
    ("HF_HUB_DOWNLOAD_TIMEOUT", "zzz", f"HF_HUB_DOWNLOAD_TIMEOUT {WHOLE}, not 'zzz'"),
    ("HF_HUB_DOWNLOAD_TIMEOUT", "1.5", f"HF_HUB_DOWNLOAD_TIMEOUT {WHOLE}, not '1.5'"),
    ("HF_HUB_ETAG_TIMEOUT", "", f"HF_HUB_ETAG_TIMEOUT {WHOLE}, not ''"),
    ("HF_ENDPOINT", "bogus", f"HF_ENDPOINT {ADDRESS}, not 'bogus'"),
    ("HF_ENDPOINT", "https://me:secret@hub:99999", f"HF_ENDPOINT {ADDRESS}, not 'hub:99999'"),
    ("HF_ENDPOINT", "http://[1", f"HF_ENDPOINT {ADDRESS}, not 'http://[1'"),
    ("HF_LINEAGE_CACHE", "~nouser/x", "~nouser/x is nobody's home folder; set HF_LINEAGE"),
])  # fmt: skip
def test_a_variable_that_means_nothing_is_one_line_that_names_it(hub, monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    assert lineage("check", hub / "fern/child", "--local-hub", hub).error.startswith(message)


def test_an_isolated_python_takes_no_notice_of_variables_that_would_end_it(hub):
    """Without -I they end Python before any line of hf-lineage runs, with the code that means UNRELATED."""
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from hf_lineage.cli import main; sys.exit(main())"
    for flags, code in (([], 1), (["-I"], 0)):
        command = [sys.executable, *flags, "-c", script, "check", hub / "fern/child", "--local-hub", hub]
        assert run_process(command, env=environment(PYTHONHASHSEED="nonsense")).code == code


@pytest.mark.parametrize(("typed", "message"), [
    ("watch org", "No such command 'watch'. (--help shows the usage)"),
    ("registry qwen3", "qwen3 is not in the registry; did you mean Qwen3ForCausalLM?"),
    ("registry qwen3_moe", "qwen3_moe is not in the registry; did you mean Qwen3MoeForCausalLM?"),
    ("registry LlamaForCasualLM", "LlamaForCasualLM is not in the registry; did you mean LlamaForCausalLM?"),
    ("check FT --as qwen3", "--as qwen3 is not a class of the registry; did you mean Qwen3ForCausalLM?"),
])  # fmt: skip
def test_what_no_command_has_is_answered_by_what_to_write(typed, message):
    assert lineage(*typed.split()).error == message


def test_the_version_is_told_however_it_is_asked_for_and_completions_offer_files():
    for typed in ("-v", "-V", "--version"):
        assert lineage(typed) == Outcome(0, f"hf-lineage, version {__version__}\n", "")
    asked = environment(_HF_LINEAGE_COMPLETE="bash_complete", COMP_WORDS="hf-lineage che", COMP_CWORD="1")
    assert process(env=asked) == Outcome(0, "plain,check\n", "")
    commands = [
        cli.commands[name] for name in ("check", "compare", "annotate", "extract", "inspect", "identify", "tree")
    ]
    named = [one for command in commands for one in command.params if one.param_type_name == "argument"]
    context = cli.make_context("hf-lineage", ["check"], resilient_parsing=True)
    assert [[item.type for item in one.shell_complete(context, "x")] for one in named] == [["file"]] * 8


HEAVY = ("accelerate", "torch", "transformers")
PROGRAM = f"""
import sys
from hf_lineage.cli import main
from hf_lineage.signature import devices

devices.DRIVERS = sys.argv[1:2]
code = main(sys.argv[2:])
print(*(name for name in {HEAVY} if sys.modules.get(name)), file=sys.stderr)
sys.exit(code)
"""


def imported(*arguments, drivers="", before=""):
    """The exit code of a command, by default without the driver of a GPU, and which of the three it imported."""
    command = [sys.executable, "-c", before + PROGRAM, drivers, *arguments]
    done = run_process(command, env=environment(CUDA_VISIBLE_DEVICES=""))
    return done.code, done.err.splitlines()[-1].split()


@pytest.mark.few(1)
@pytest.mark.parametrize(("command", "code"), [("check", 3), ("annotate", 0)])
def test_a_command_that_reads_weights_imports_none_of_the_three(hub, command, code):
    child = hub / "fern/child"
    save_file(pair("model.layers.0.mlp.up_proj", HIDDEN, WIDTH), child / "adapter_model.safetensors")
    said = {"peft_type": "LORA", "r": 2, "lora_alpha": 2, "target_modules": ["up_proj"]}
    (child / "adapter_config.json").write_text(json.dumps(said))
    assert imported(command, child, "--local-hub", hub) == (code, [])


@pytest.mark.few(1)
@pytest.mark.parametrize("command", ["check", "compare", "inspect"])
def test_a_computer_with_a_gpu_and_without_the_three_works_on_its_cpu(hub, command):
    (hub / "driver").touch()
    arguments = {"check": ["--local-hub", hub], "compare": [hub / "acme/base", "--paths", "all"], "inspect": []}
    absent = f"import sys\nsys.modules.update(dict.fromkeys({HEAVY}))\n"
    asked = (command, hub / "fern/child", *arguments[command])
    assert imported(*asked, drivers=hub / "driver", before=absent) == (0, [])


MODELS = {"acme/llama-base", "fern/llama-finetune-a"}
MOST_OPENED, MOST_LISTED = 8, 2  # of a file with weights, and of a folder
MOST_IMPORTED = 75  # modules of the package, without the files that make a folder a package
MOST_FILES, MOST_DEEP = 68, 23  # files whose functions run, and calls of named functions within each other in a thread
WATCHED = """
import collections, inspect, json, os, sys, threading
from pathlib import Path

hub, events = sys.argv[1], collections.defaultdict(collections.Counter)

def note(event, arguments):
    if event in ("open", "os.scandir", "os.listdir") and isinstance(arguments[0], str | bytes | os.PathLike):
        path = os.path.abspath(os.fsdecode(arguments[0]))
        events[event == "open"][os.path.relpath(path, hub)] += path.startswith(hub + os.sep)

sys.addaudithook(note)
import hf_lineage

root, files, deep, here = os.path.dirname(hf_lineage.__file__), set(), [0], threading.local()

def count(frame, event, _):
    if event not in ("call", "return") or not (code := frame.f_code).co_filename.startswith(root):
        return
    if not code.co_name.startswith("<") and code.co_flags & inspect.CO_OPTIMIZED:  # and not the body of a class
        files.add(code.co_filename)
        here.calls = getattr(here, "calls", 0) + (1 if event == "call" else -1)
        deep[0] = max(deep[0], here.calls)

sys.setprofile(count)
threading.setprofile(count)
from hf_lineage.cli import main

code = main(["check", "fern/llama-finetune-a", "--local-hub", hub, "--seed", "0"])
sys.setprofile(None)
ours = {name: module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "hf_lineage"}
faces = {name for name, file in ours.items() if os.path.basename(file) == "__init__.py"}
print(json.dumps([code, events[True], events[False], sorted(ours.keys() - faces), sorted(files), deep[0]]))
"""


def test_files_are_opened_and_modules_imported_and_run_no_more_often_than_they_must(tmp_path):
    env = environment(HF_LINEAGE_CACHE=str(tmp_path), CUDA_VISIBLE_DEVICES="")
    done = run_process([sys.executable, "-c", WATCHED, ROOT / "examples/hub"], env=env)
    assert done.code == 0, done.err
    code, opened, listed, modules, files, deep = json.loads(done.out.splitlines()[-1])
    assert code == 0
    small = {path: count for path, count in opened.items() if path.endswith(("config.json", "README.md"))}
    assert small == {f"{model}/{file}": 1 for model in MODELS for file in ("config.json", "README.md")}
    weights = {path: count for path, count in opened.items() if path.endswith(".safetensors")}
    assert weights.keys() == {f"{model}/model.safetensors" for model in MODELS}
    assert max(weights.values()) <= MOST_OPENED
    folders = {path: count for path, count in listed.items() if count}
    assert folders.keys() == MODELS
    assert max(folders.values()) <= MOST_LISTED
    assert len(modules) <= MOST_IMPORTED, "\n".join(modules)
    foreign = ("checkpoint.gguf.", "checkpoint.onnx.", "checkpoint.pickles.", "hub.client")
    assert [name for name in modules if name.removeprefix("hf_lineage.").startswith(foreign)] == []
    assert len(files) <= MOST_FILES, "\n".join(files)
    assert deep <= MOST_DEEP


def committed(folder, message="x"):
    identity = ("-c", "user.name=wren", "-c", "user.email=wren@example.org", "-c", "commit.gpgsign=false")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "--allow-empty", "-m", message)):
        subprocess.run(["git", *identity, *arguments], cwd=folder, check=True)


def test_a_false_claim_stops_the_push_and_what_is_accepted_and_other_files_pass(tmp_path):
    """The hook is copied to a repository of its own, and a Python on the path finds this project."""
    manifest, source, model = ".pre-commit-hooks.yaml", tmp_path / "source", family(tmp_path / "hub") / "fern/child"
    tiny_llama(tmp_path / "hub/acme/base", seed=1)
    (hook,) = yaml.safe_load((ROOT / manifest).read_text("utf-8"))
    source.mkdir()
    (source / manifest).write_text(yaml.safe_dump([hook | {"language": "system", "args": ["--local-hub", "../.."]}]))
    committed(source)
    installed(tmp_path / "venv")
    scripts = sysconfig.get_path("scripts", vars={"base": str(tmp_path / "venv")})
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    env = environment(PRE_COMMIT_HOME=str(tmp_path / "cache"), PATH=path)

    def push(*arguments):
        committed(model)
        command = [sys.executable, "-m", "pre_commit", "try-repo", source, "hf-lineage", "--color", "never"]
        return run_process([*command, "--hook-stage", "pre-push", *arguments], cwd=model, env=env, timeout=120)

    stopped = push("--all-files")
    assert (stopped.code, "- exit code: 1" in stopped.out, "UNRELATED" in stopped.out) == (1, True, True)
    (model / "notes.txt").write_text("x")
    passed = push("--files", "notes.txt")
    assert (passed.code, "(no files to check)Skipped" in passed.out) == (0, True)
    accepted = "{base: acme/base, code: unrelated, reason: distilled, expires: 2999-01-01}"
    (model / "lineage.yaml").write_text(f"accepted: [{accepted}]")
    assert push("--files", "lineage.yaml").code == 0
