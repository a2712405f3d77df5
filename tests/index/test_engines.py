"""A build by any engine, stopped or not, gives the same index; what fails is told, and not tried for ever."""

import os
import signal
import subprocess
import time

import pytest

from tests.models import tiny_llama
from tests.running import COMMAND, process
from tests.server import faults, serving
from tests.server.client import remote

MODELS = 24


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
    """Every byte of an index, but for the journal."""
    return {
        file.relative_to(index).as_posix(): file.read_bytes()
        for folder in ("keys", "signatures")
        for file in sorted((index / folder).rglob("*.*"))
    }


@pytest.fixture(scope="module")
def whole(hub, names, tmp_path_factory):
    """The index of a build by one process that was not stopped."""
    index = tmp_path_factory.mktemp("whole")
    done = process(*command(index, names), env=remote(hub, index / "home"))
    assert (done.code, done.out.splitlines()[-1]) == (
        0, f"{MODELS} added, 0 were in the index, 0 could not be read",
    ), done  # fmt: skip
    assert len(content(index)) == MODELS + 1
    return index


def test_a_build_that_was_killed_and_goes_on_equals_one_that_was_not(hub, names, whole, tmp_path):
    index = tmp_path / "index"
    arguments = [*COMMAND, *map(str, command(index, names, "--workers", "2"))]
    running = subprocess.Popen(arguments, env=remote(hub, tmp_path / "home"), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list((index / "signatures").rglob("*.safetensors"))) < MODELS // 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    done = len(list((index / "signatures").rglob("*.safetensors")))
    assert MODELS // 2 <= done < MODELS
    again = process(*command(index, names), env=remote(hub, tmp_path / "home"))
    assert f"{done} were in the index, 0 could not be read" in again.out, again
    assert content(index) == content(whole)


def test_ray_gives_the_same_index(hub, names, whole, tmp_path):
    index = tmp_path / "index"
    few = tmp_path / "few.txt"
    few.write_text("".join(names.read_text().splitlines(keepends=True)))
    options = ("--engine", "ray", "--workers", "2")
    done = process(*command(index, few, *options), env=remote(hub, tmp_path / "home"), timeout=180)
    assert done.code == 0, done
    assert content(index) == content(whole)
