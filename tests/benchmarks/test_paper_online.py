"""What `--online` measures, on stand-ins for the public models, served to the real client by a small Hub."""

import re
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

from benchmarks.paper.__main__ import main, reproduced
from benchmarks.paper.experiment import Bench, UnavailableError
from benchmarks.paper.items import found, pairing_figures
from benchmarks.paper.items import public as item
from benchmarks.paper.parts import pictures, text
from benchmarks.paper.parts.baselines import weight_cosine
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.judges import layers, lineage, tensors
from benchmarks.paper.parts.online import look, tokenizer
from benchmarks.paper.parts.public import CIFAR10, FAMILIES, GPT2, LAUNDERED, LLAMA, SUSPECTS, Public
from benchmarks.paper.parts.results import Results, file_name
from hf_lineage.errors import NetworkError
from tests import public
from tests.models import EXAMPLES, SMALL, WEIGHTS
from tests.public import READ, UNREAD
from tests.server import Hub, faults, serving
from tests.server.client import connect

NAMED = re.compile(r"([\w.-]+/[\w.-]+)@([0-9a-f]{40})")
REASONS = {
    "Vicuna-7B: score": r"lmsys/vicuna-7b-v1.5@\w{40} holds its weights as a pickle",
    "Amber: score": "LLM360/Amber is gated: request access on its page and set HF_TOKEN",
    "Baichuan-7B: score": r"baichuan-inc/Baichuan-7B@\w{40}: BaichuanForCausalLM is not in the registry",
    "Baichuan2-7B: score": "baichuan-inc/Baichuan2-7B-Base is not on the Hub",
    "InternLM-7B: score": r"INCOMPATIBLE: .*has 6 layers of width 96, .*has 2 of width 32",
}


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


@pytest.mark.long
def test_every_way_in_which_a_suspect_cannot_be_judged_has_its_reason(everything):
    rows = {row.name: row for row in everything[2]["tab:real-llm-baselines"]}
    assert {name for name, row in rows.items() if row.ours is None} == set(REASONS)
    assert all(re.match(reason, rows[name].note) for name, reason in REASONS.items())


@pytest.mark.long
def test_nothing_large_is_fetched_of_what_cannot_be_judged(everything):
    hub, _, _ = everything
    assert hub.moved(public.PICKLED) == 0
    assert hub.moved(public.CUSTOM) <= 2**15  # its headers, by which a listed class that fits is found
    assert hub.moved("codellama/CodeLlama-7b-hf") > 0
    assert not hub.twice()


@pytest.mark.long
def test_the_score_is_that_of_the_folders(everything):
    rows = {row.name: row.ours for row in everything[2]["tab:real-llm-baselines"]}
    base, suspect = EXAMPLES / "acme/llama-base", EXAMPLES / "moss/llama-continued"
    assert rows["CodeLlama-7B: score"] == pytest.approx(lineage(base, suspect), abs=1e-4)


@pytest.mark.long
def test_the_papers_cosine_stands_beside_the_one_that_it_is(everything):
    rows = {row.name: row.paper for row in everything[2]["tab:laundering-llm"]}
    assert rows["LLaMA-2 7B, Chat: cosine lost"] == 0.993
    assert (rows["LLaMA-2 7B, OpenLLaMA: cosine before"], rows["LLaMA-2 7B, OpenLLaMA: cosine lost"]) == (0.089, None)


def test_the_cosine_of_one_layer_at_a_time_is_that_of_the_whole():
    one, other = (EXAMPLES / name for name in SMALL)
    ours, theirs = (
        torch.cat([torch.cat([m.flatten() for m in block]) for block in tensors(model)]) for model in (one, other)
    )
    whole = torch.nn.functional.cosine_similarity(ours.double(), theirs.double(), dim=0)
    assert weight_cosine(layers(one), layers(other)) == pytest.approx(float(whole), abs=1e-12)


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

    def test_lies_whole_on_this_disk_before_it_is_looked_at(self, pinned, tmp_path):
        def read(repo):
            return dict(load_file(repo.folder / WEIGHTS))["model.norm.weight"]

        there = load_file(EXAMPLES / pinned[0].repository / WEIGHTS)["model.norm.weight"]
        assert torch.equal(look(Cache(tmp_path / "s"), "norm", read, pinned[0]).found, there)

    def test_has_one_place_for_each_repository(self):
        groups = [SUSPECTS.values(), *LAUNDERED.values(), FAMILIES, GPT2, [LLAMA]]
        listed = {id(model): model.repository for group in groups for model in group}
        assert len(listed) == len(set(listed.values()))

    def test_has_its_own_tokenizer(self, online, tmp_path):
        name = "openai-community/gpt2"
        first = online.publish(name, public.tokenized(tmp_path / "first", "<|first|>"))
        online.publish(name, public.tokenized(tmp_path / "second", "<|second|>"))
        assert tokenizer(Public("", name, first)).eos_token == "<|first|>"
        assert tokenizer(Public("", name)).eos_token == "<|second|>"


class TestALook:
    BASE = Public("", "acme/llama-base")

    def test_is_taken_once_at_a_commit(self, online, tmp_path):
        cache, taken = Cache(tmp_path / "s"), []

        def find(repo):
            taken.append(str(repo))
            return 0.5

        first = look(cache, "once", find, self.BASE)
        assert look(cache, "once", find, self.BASE) == first
        online.publish(self.BASE.repository, EXAMPLES / "otter/llama-independent")
        look(cache, "once", find, self.BASE)
        assert len(taken) == len(set(taken)) == 2

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

    def test_that_must_not_ask_the_hub_says_what_to_unset(self, online, tmp_path, monkeypatch):
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        code, (line,), files = self.run(tmp_path, "fig:gpt2-trace", "--scale", "smoke", "--online")
        assert (code, files) == (1, set())
        assert line.startswith("benchmarks: fig:gpt2-trace: none of its public models could be measured: openai-comm")
        assert "HF_HUB_OFFLINE" in line

    def test_without_datasets_says_how_to_install_it(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "datasets", None)
        names = ("tab:gpt2-survival", "app:cifar-resnet")
        code, lines, files = self.run(tmp_path, *names, "--scale", "paper", "--online")
        assert (code, files, len(lines)) == (1, set(), 2)
        for name, data, line in zip(names, ("TinyStories", "CIFAR-10"), lines, strict=True):
            assert line.startswith(f"benchmarks: {name}: {data} comes by the library `datasets`, which cannot")
            assert "`pip install datasets`" in line

    def test_with_data_that_cannot_be_had_says_what_datasets_says_first(self, tmp_path, standing_in):
        _, (line,), _ = self.run(tmp_path, "app:cifar-resnet", "--scale", "paper", "--online")
        assert "CIFAR-10 cannot be had from uoft-cs/cifar10 on the Hub (no such data set); check the conn" in line


@pytest.fixture
def standing_in(monkeypatch):
    """Splits of data sets by name and revision, for `load_dataset` alone: the library itself is not installed here."""
    splits = {}

    def load_dataset(path, split, revision):
        if path not in splits:
            raise RuntimeError("no such data set\nand more")
        return splits[path](split, revision)

    module = ModuleType("datasets")
    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    text.tiny_stories.cache_clear()
    yield splits
    text.tiny_stories.cache_clear()


def test_stories_are_told_apart_by_the_tokenizer_of_gpt2(online, tmp_path, standing_in):
    online.publish("openai-community/gpt2", public.tokenized(tmp_path / "gpt2", "<|endoftext|>"))
    stories = {"train[:2]": ["One day.", "The end."], "validation[:1]": ["Once."]}
    standing_in["roneneldan/TinyStories"] = lambda split, revision: {"text": stories[split]}
    corpus = text.tiny_stories(2, 1)
    words = tokenizer(GPT2[0])
    assert words.decode(corpus.training) == "One day.<|endoftext|>The end.<|endoftext|>"
    assert words.decode(corpus.held_out) == "Once.<|endoftext|>"
    assert (corpus.name, corpus.vocabulary) == ("TinyStories", len(words))


def test_pictures_come_in_their_split_and_at_the_commit_that_is_pinned(standing_in, monkeypatch):
    def rows(split, revision):
        assert revision == "1" * 40
        count = {"train": 3, "test": 2}[split]
        return [{"img": np.full((4, 4, 3), number, dtype=np.uint8), "label": number} for number in range(count)]

    standing_in["uoft-cs/cifar10"] = rows
    monkeypatch.setattr(pictures, "CIFAR10", Public(CIFAR10.family, CIFAR10.repository, "1" * 40))
    source = pictures.cifar()
    assert (source.training.classes.tolist(), source.held_out.classes.tolist()) == ([0, 1, 2], [0, 1])


def test_an_item_of_which_nothing_is_to_be_had_has_no_figures(online, tmp_path):
    with pytest.raises(
        UnavailableError,
        match="none of its public models could be measured: openai-community/gpt2 is not on the Hub, or is private;",
    ):
        pairing_figures.traces(Bench("smoke", Cache(tmp_path / "s"), tmp_path / "figures", online=True))
    assert not (tmp_path / "figures").exists()
