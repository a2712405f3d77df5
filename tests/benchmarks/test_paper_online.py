"""What `--online` measures, on stand-ins for the public models, served to the real client by a small Hub."""

import re
import sys

import pytest
import torch
from click.testing import CliRunner

from benchmarks.paper.__main__ import main, reproduced
from benchmarks.paper.experiment import Bench
from benchmarks.paper.items import found
from benchmarks.paper.items import public as item
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.online import look
from benchmarks.paper.parts.public import Public
from benchmarks.paper.parts.results import Results, file_name
from hf_lineage.errors import NetworkError
from tests import public
from tests.models import EXAMPLES, SMALL
from tests.public import READ, UNREAD
from tests.server import Hub, faults, serving
from tests.server.client import connect

NAMED = re.compile(r"([\w.-]+/[\w.-]+)@([0-9a-f]{40})")


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The Hub of all stand-ins, and every item that reads public models as it came out there."""
    room = tmp_path_factory.mktemp("online")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with serving() as hub, pytest.MonkeyPatch.context() as patch:
        public.publish(hub, room / "models")
        connect(hub, room / "hub", patch)
        bench, items = Bench("smoke", Cache(room / "scratch"), room / "figures", online=True), found()
        held = {name: reproduced(name, items[name], bench, room) for name in READ}
        yield hub, held, {name: Results.read(room / file_name(name)).rows for name in READ}
    torch.set_num_threads(threads)


@pytest.mark.long
@pytest.mark.parametrize("name", READ)
def test_an_item_holds_for_what_is_there_and_names_every_commit(everything, name):
    hub, held, rows = everything
    assert held[name]
    commits = {each for row in rows[name] if row.ours is not None for each in NAMED.findall(row.note)}
    assert commits == {(model, hub.commit(model, "main")) for model in READ[name] - UNREAD}


@pytest.mark.long
@pytest.mark.parametrize("name", READ)
def test_a_model_that_is_not_to_be_had_is_a_row_without_a_figure(everything, name):
    _, _, rows = everything
    for model in READ[name] & set(public.MISSING):
        assert any(row.ours is None and row.note.startswith(f"{model} is not on") for row in rows[name])
    assert all(row.note for row in rows[name] if row.ours is None)


class TestAPinnedCommit:
    PAIR = "LLaMA-2 7B, Chat"

    @pytest.fixture
    def pinned(self, online, tmp_path):
        """Both models of the small Hub as they were before their main branches moved to what cannot be read."""
        models = [Public("", name, online.commit(name, "main")) for name in SMALL]
        for name in SMALL:
            online.publish(name, public.pickled(EXAMPLES / name, tmp_path / name))
        return models

    def test_is_what_the_library_and_transformers_read(self, pinned, tmp_path, monkeypatch):
        monkeypatch.setattr(item, "LAUNDERED", {self.PAIR: tuple(pinned)})
        rows = {row.name: row for row in item.laundering(Bench("smoke", Cache(tmp_path / "s"), tmp_path, online=True))}
        item.invariant(rows)
        assert rows[f"{self.PAIR}: cosine before"].number == pytest.approx(0.998, abs=1e-3)
        assert all(NAMED.findall(row.note) == [(one.repository, one.commit) for one in pinned] for row in rows.values())
        assert not list((tmp_path / "s").glob("tmp*"))


class TestALook:
    BASE = Public("", "acme/llama-base")

    def test_fails_where_the_hub_says_nothing(self, online, tmp_path):
        online.plan(faults.unavailable, times=1000)
        with pytest.raises(NetworkError, match="check the connection"):
            look(Cache(tmp_path / "s"), "failing", str, self.BASE)


class TestTheCommand:
    OTHER = "tab:gpt2-latency"

    def run(self, scratch, *arguments):
        """The exit code, the errors, and what was written."""
        options = ["--scratch", str(scratch), "--output", str(scratch / "out"), *arguments]
        done = CliRunner().invoke(main, options, catch_exceptions=False)
        files = {file.relative_to(scratch / "out").as_posix() for file in (scratch / "out").rglob("*.*")}
        return done.exit_code, [line for line in done.stderr.splitlines() if line.startswith("benchmarks: ")], files

    def test_without_a_network_says_so_in_a_line_for_each_item_and_goes_on(self, tmp_path, monkeypatch):
        connect(Hub(url="http://127.0.0.1:9"), tmp_path / "hub", monkeypatch)
        code, lines, files = self.run(tmp_path, *READ, self.OTHER, "--scale", "smoke", "--online")
        assert (code, files) == (1, {file_name(self.OTHER)})
        told = [line for line in lines if self.OTHER not in line]  # whose claim is about times
        assert [line.split(": ")[1] for line in told] == list(READ)
        route = r"cannot be fetched from the Hub by HF_ENDPOINT \S+ \(.*\)"
        said = rf"benchmarks: \S+: \S+ {route}; check the connection and try again"
        assert [line for line in told if not re.fullmatch(said, line)] == []

    def test_without_datasets_says_how_to_install_it(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "datasets", None)
        names = ("tab:gpt2-survival", "app:cifar-resnet")
        code, lines, files = self.run(tmp_path, *names, "--scale", "paper", "--online")
        assert (code, files, len(lines)) == (1, set(), 2)
        for name, data, line in zip(names, ("TinyStories", "CIFAR-10"), lines, strict=True):
            assert line.startswith(f"benchmarks: {name}: {data} comes by the library `datasets`, which cannot")
            assert "`pip install datasets`" in line
