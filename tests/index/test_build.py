"""A model that an index has at its commit is not read again; all models that are named are removed, or none."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import HfApi, set_client_factory
from huggingface_hub.utils._http import default_client_factory

from hf_lineage import Options
from hf_lineage.errors import OptionError, SignatureError
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.relation import Means
from hf_lineage.hub import commits
from hf_lineage.index import build
from hf_lineage.index.build import Work, gather, local, ray, remove
from hf_lineage.index.relatives import PairTests
from hf_lineage.index.store import Catalogue
from hf_lineage.index.tree import Mark, grow
from tests.blends import BASE, B, blended
from tests.github import ROOT
from tests.index.dying import dies
from tests.invoking import COMMAND, environment, process
from tests.models import EXAMPLES, WEIGHTS, card, fine_tuned, tiny_llama
from tests.server import faults, serving
from tests.server.client import remote

MLP = Options(paths=("mlp",))
FIRST, SECOND = "0123abc" + 33 * "0", "4567def" + 33 * "0"
UNKNOWN = ("org/gone", "base", "org/model@0123", "org/model@main", "org/model@", "./gone", "x" * 5000, "a\0b")
OF_EXAMPLES = Options(local_hub=EXAMPLES, paths=("mlp",))


def test_an_account_is_added_by_commit_and_not_read_again(online, tmp_path, monkeypatch):
    online.publish("acme/gpt2-base", EXAMPLES / "acme/gpt2-base")
    models = commits.list_models("acme")
    assert sorted(model.partition("@")[0] for model in models) == ["acme/gpt2-base", "acme/llama-base"]
    first = list(build.build(models, Catalogue(tmp_path), MLP))
    assert all(one.records and one.records[0].entry.commit for one in first)
    monkeypatch.setattr(build, "open_model", lambda *_: pytest.fail("a model of the index was read again"))
    assert [one.records for one in build.build(models, Catalogue(tmp_path), MLP)] == [(), ()]


@pytest.fixture
def catalogue(signatures, tmp_path, monkeypatch):
    """An index of a folder, of a model at two commits, and of another one; all rows but the last in one file."""
    monkeypatch.chdir(tmp_path)
    index, one = Catalogue(tmp_path / "index"), signatures["acme/llama-base"]
    for name, commit in (("./base", None), ("org/model", FIRST), ("org/model", SECOND)):
        index.add(replace(one, model=name, commit=commit))
    index.compact()
    index.add(replace(one, model="org/other", commit=FIRST))
    return index


def signatures_of(catalogue):
    return list((catalogue.folder / "signatures").rglob("*.safetensors"))


def left(catalogue):
    return [(entry.model, entry.commit[:7]) for entry in sorted(catalogue.entries())]


EVERYTHING = [("./base", ""), ("org/model", "0123abc"), ("org/model", "4567def"), ("org/other", "0123abc")]
REMOVED = [
    (["org/model"], EVERYTHING[1:3]),
    (["Org/Model@0123abc"], EVERYTHING[1:2]),
    ([f"org/model@{SECOND}", "org/other"], EVERYTHING[2:]),
    (["./base"], EVERYTHING[:1]),
    (["base/"], EVERYTHING[:1]),
    (["./base", "org/model", "org/other", "org/other"], EVERYTHING),
]


@pytest.mark.parametrize(("models", "gone"), REMOVED)
def test_the_models_that_are_named_are_gone_with_their_signatures_and_no_others(catalogue, models, gone):
    remove(models, catalogue)
    assert left(catalogue) == [one for one in EVERYTHING if one not in gone]
    assert len(signatures_of(catalogue)) == len(EVERYTHING) - len(gone)
    assert all(catalogue.find_signature(entry) for entry in catalogue.entries())


def test_where_one_is_not_in_the_index_or_a_part_of_it_is_damaged_nothing_is_removed(catalogue, tmp_path):
    for model in UNKNOWN:
        with pytest.raises(OptionError, match="so nothing was removed; `hf-lineage index list --index /"):
            remove(["org/model", model], catalogue)
        assert left(catalogue) == EVERYTHING
    file = next((catalogue.folder / "keys").glob("*.jsonl"))
    file.write_bytes(b"")
    with pytest.raises(SignatureError, match="is not a file of an index: it ends before line 1 of"):
        remove(["org/model"], catalogue)
    assert len(signatures_of(catalogue)) == len(EVERYTHING)
    with pytest.raises(OptionError, match="does not exist, so there is no index; check --index"):
        remove(["org/model"], Catalogue(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_a_model_without_a_signature_here_is_removed(catalogue):
    for file in signatures_of(catalogue):
        file.unlink()
    remove(["org/model"], catalogue)
    assert left(catalogue) == [EVERYTHING[0], EVERYTHING[3]]


def test_nothing_is_removed_behind_a_link(catalogue, tmp_path):
    """Whoever wrote a checkout chose where its links lead."""
    (tmp_path / ".git").mkdir()
    (catalogue.folder / "keys").rename(tmp_path / "elsewhere")
    (catalogue.folder / "keys").symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").iterdir())
    with pytest.raises(SignatureError, match="is a link and is not followed"):
        remove(["org/other"], catalogue)
    assert sorted((tmp_path / "elsewhere").iterdir()) == before


def gathered(*models, options=OF_EXAMPLES):
    members, problems = gather(models, options)
    return PairTests(members, "mlp", Criteria(permutations=99)), problems


def test_models_are_read_once_each_and_an_error_is_told():
    tests, problems = gathered("acme/llama-base", "heron/llama-int8-rounded", "acme/none", "acme/llama-base")
    assert [member.name for member in tests.members] == ["acme/llama-base", "heron/llama-int8-rounded"]
    assert [claim.base for claim in tests.members[1].claims] == ["acme/llama-base"]
    assert problems[0].startswith("acme/none: ")
    assert Means.QUANTIZED in tests.derivation(0, 1).means
    assert Means.QUANTIZED not in tests.derivation(1, 0).means


def test_a_folder_by_two_names_is_one_model_and_the_base_of_who_declares_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = tiny_llama(Path("base"))
    for number, declared in enumerate(("base", "./base", "org/base")):
        card(fine_tuned(base, Path(f"child-{number}"), seed=number), declared, "finetune")
    models = ("./base", "./base/", str(tmp_path / "base"), "./child-0", "./child-1", "./child-2")
    tests, _ = gathered(*models, options=Options(paths=("mlp",)))
    tree = grow([replace(member, model=None) for member in tests.members], "mlp", tests.criteria)
    assert tree.models == ("./base", "./child-0", "./child-1", "./child-2")
    assert {(edge.parent, edge.child, edge.mark) for edge in tree.edges} == {
        ("./base", "./child-0", Mark.VERIFIED),
        ("./base", "./child-1", Mark.VERIFIED),
        ("./base", "./child-2", Mark.MEASURED),
        ("org/base", "./child-2", Mark.DECLARED),
    }


def test_the_weights_of_a_blend_tell_its_parents_until_they_are_gone(tmp_path):
    folder = blended(tmp_path / "rio", {BASE: 0.43, B: 0.57})
    tests, _ = gathered(str(folder), BASE, B)
    assert [round(share.value, 2) for share in tests.blend(0, (1, 2)).shares.parents] == [0.43, 0.57]
    (folder / WEIGHTS).unlink()
    assert tests.blend(0, (1, 2)) is None
    assert replace(tests, members=[replace(one, model=None) for one in tests.members]).blend(0, (1, 2)) is None


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
        "from hf_lineage.index.build import Work, local\nfrom tests.index.dying import waits\n"
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
    monkeypatch.setattr(build.time, "sleep", waited.append)
    build.limit(120)
    for name in online.published:
        HfApi().model_info(name)
    assert len(waited) == len(online.published) - 1
