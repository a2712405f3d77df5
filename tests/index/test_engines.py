"""A build by any engine, stopped or not, gives the same index; what fails is told, and tried again by the next."""

import os
import signal
import subprocess
import sys
import time

import pytest
from huggingface_hub import HfApi, set_client_factory
from huggingface_hub.utils._http import default_client_factory

from hf_lineage import Options
from hf_lineage.errors import OptionError
from hf_lineage.index import build, engines
from hf_lineage.index.engines import Work, local, ray
from hf_lineage.index.store import Catalogue
from tests.github import ROOT
from tests.index.dying import dies
from tests.invoking import COMMAND, environment, process
from tests.models import tiny_llama
from tests.server import faults, serving
from tests.server.client import remote

MODELS = 12


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A Hub of tiny models."""
    folder = tmp_path_factory.mktemp("models")
    with serving() as running:
        for number in range(MODELS):
            running.publish(f"org/model-{number}", tiny_llama(folder / str(number), seed=number, layers=1))
        yield running


@pytest.fixture(scope="module")
def names(hub, tmp_path_factory):
    file = tmp_path_factory.mktemp("list") / "models.txt"
    file.write_text("\n".join(hub.published) + "\n")
    return file


def command(index, names, *options):
    return ["index", "build", "--from", names, "--index", index, *options]


def content(index):
    """Every byte of an index, but for what a killed process had half written."""
    return {
        file.relative_to(index).as_posix(): file.read_bytes()
        for folder in ("keys", "signatures")
        for file in sorted((index / folder).rglob("[!.]*.*"))
    }


@pytest.fixture(scope="module")
def whole(hub, names, tmp_path_factory):
    """The index of a build by one process that was not stopped."""
    index = tmp_path_factory.mktemp("whole")
    done = process(*command(index, names), env=remote(hub, index / "home"))
    assert (done.code, f"\n{MODELS} added, 0 already there, 0 could not be read\n" in done.out) == (0, True), done
    assert len(content(index)) == MODELS + 2
    return index


@pytest.mark.long
def test_a_build_that_was_killed_and_goes_on_equals_one_that_was_not(hub, names, whole, tmp_path):
    index = tmp_path / "index"
    arguments = [*COMMAND, *map(str, command(index, names, "--workers", "2"))]
    running = subprocess.Popen(arguments, env=remote(hub, tmp_path / "home"), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list((index / "keys").glob("*.safetensors"))) < MODELS // 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    done = len(list((index / "keys").glob("*.safetensors")))
    assert MODELS // 2 <= done < MODELS
    again = process(*command(index, names), env=remote(hub, tmp_path / "home"))
    assert f"{done} already there, 0 could not be read" in again.out, again
    assert content(index) == content(whole)


@pytest.mark.long
def test_ray_gives_the_same_index(hub, names, whole, tmp_path):
    index = tmp_path / "index"
    options = ("--engine", "ray", "--workers", "2")
    done = process(*command(index, names, *options), env=remote(hub, tmp_path / "home"), timeout=180)
    assert done.code == 0, done
    assert content(index) == content(whole)


def test_failures_have_a_reason_and_are_tried_again(online, tmp_path):
    online.publish("org/good", tiny_llama(tmp_path / "good", layers=1))
    odd = tiny_llama(tmp_path / "odd", layers=1, architectures=["NoSuchModel"], model_type="none")
    online.publish("org/odd", odd)
    online.plan(faults.unavailable, "org/slow", times=1000)
    names, catalogue = ["org/odd", "org/gone", "org/slow", "org/good"], Catalogue(tmp_path / "index")
    for _ in range(2):
        online.forget()
        found = build.build(names, catalogue, Options(paths=("mlp",)))
        problems = {added.model: added.problem for added in found}
        assert "NoSuchModel" in problems["org/odd"]
        assert problems["org/gone"].startswith("org/gone is not on the Hub")
        assert problems["org/slow"].startswith("org/slow cannot be fetched from the Hub")
        assert problems["org/good"] == ""
        assert any("org/slow" in one for one in online.requests)


def test_a_worker_that_ends_is_told_and_without_ray_it_is_said_what_to_install(monkeypatch):
    jobs = ["org/large", *(f"org/{number}" for number in range(5))]
    outcomes = list(local(dies, jobs, Work(workers=2), lambda job: f"{job} was lost"))
    assert sorted(outcomes) == sorted(["org/large was lost", *jobs[1:]])
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(OptionError, match=r"'hf-lineage\[ray\] @ git"):
        list(ray(dies, ["org/model"], Work(), print))


@pytest.mark.skipif(os.name == "nt", reason="a terminal sends no such signal there")
def test_an_interrupt_of_a_terminal_ends_all_processes_without_a_traceback(tmp_path):
    """A terminal sends it to each of them, at work or idle."""
    jobs = [str(tmp_path / name) for name in ("short", "long")]
    script = (
        "from hf_lineage.index.engines import Work, local\nfrom tests.index.dying import waits\n"
        f"try: list(local(waits, {jobs}, Work(workers=2), print))\nexcept KeyboardInterrupt: print('interrupted')\n"
    )
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, and so by what is run
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment(PYTHONPATH=str(ROOT)), start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        deadline = time.monotonic() + 60
        while not all(map(os.path.exists, jobs)) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.5)  # by then the first is done
        os.killpg(running.pid, signal.SIGINT)
        assert running.communicate(timeout=30) == ("interrupted\n", "")


def test_the_client_keeps_the_pace(online, request, monkeypatch):
    request.addfinalizer(lambda: set_client_factory(default_client_factory))
    waited = []
    monkeypatch.setattr(engines.time, "sleep", waited.append)
    engines.limit(120)
    for name in online.published:
        HfApi().model_info(name)
    assert len(waited) == len(online.published) - 1
