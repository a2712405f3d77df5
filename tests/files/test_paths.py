"""A model is what is inside its folder: a link that leaves it is refused, but for those of the Hub's cache.

Caches and trusted files lie outside what is checked: git writes files of any author as the user who runs it.
"""

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import torch

from hf_lineage import check
from hf_lineage.errors import CheckpointError, OptionError
from hf_lineage.files import paths
from hf_lineage.files.paths import inside, open_regular, outside_checkouts, refuse_within
from hf_lineage.hub.repo import RepoRef, resolve
from tests.invoking import lineage
from tests.models import LOADABLE, WEIGHTS, card, logits, shard, tiny_llama
from tests.server.client import connect

INDEX = "model.safetensors.index.json"
LEAVES = "is a link out of the model's folder, not followed; put a file there"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A base, and an independent model that claims it."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    tiny_llama(tmp_path / "base", **LOADABLE)
    card(tiny_llama(tmp_path / "model", seed=1, **LOADABLE), "acme/base")
    return tmp_path


def linked(model, file, target):
    (model / file).unlink(missing_ok=True)
    (model / file).symlink_to(target)


class TestRefused:
    @pytest.mark.parametrize(("file", "to"), [
        *((file, f"../elsewhere/{file}") for file in ("config.json", "README.md", "adapter_config.json")),
        *((file, f"../elsewhere/{file}") for file in (WEIGHTS, "mergekit_config.yml")),
        *((WEIGHTS, to) for to in (f"{{place}}/elsewhere/{WEIGHTS}", "step", f"inner/{WEIGHTS}")),
    ])  # fmt: skip
    def test_a_link_to_a_file_elsewhere(self, place, file, to):
        model, target = place / "model", place / "elsewhere" / file
        target.parent.mkdir()
        target.write_bytes((model / file).read_bytes() if (model / file).exists() else b"{}")
        (model / "step").symlink_to(target)
        (model / "inner").symlink_to(target.parent)
        linked(model, file, to.format(place=place))
        found = lineage("check", model)
        if file == "mergekit_config.yml":  # nothing but a claim, and the card makes the claim that counts
            assert (found.code, LEAVES in found.sentences) == (3, True)
        else:
            assert found.error == f"{model}: {file} {LEAVES}"

    def test_one_shard_of_the_base_and_its_index_and_all_its_weights_and_records(self, place):
        for name in ("base", "model"):
            shard(place / name)
        part = "model-00001-of-00002.safetensors"
        own = logits(place / "model")
        linked(place / "model", part, f"../base/{part}")
        assert not torch.equal(logits(place / "model"), own), "transformers follows the link"
        found = lineage("check", place / "model", "--base", place / "base")
        assert found.error == f"{place / 'model'}: {part} {LEAVES}"
        linked(place / "model", INDEX, f"../base/{INDEX}")
        assert lineage("check", place / "model").error == f"{place / 'model'}: {INDEX} {LEAVES}"
        (place / "records").mkdir()
        (place / "records/claims.json").write_text("{}")
        (place / "model/lineage").symlink_to(place / "records")
        assert lineage("annotate", place / "model").error == f"{place / 'model'}: lineage/claims.json {LEAVES}"
        linked(place / "base", INDEX, shutil.move(place / "base" / INDEX, place / INDEX))
        found = lineage("check", tiny_llama(place / "own"), "--base", place / "base")
        assert (found.code, found.rows[0][-2:], LEAVES in found.sentences) == (2, ["UNDECIDED", "damaged"], True)


def snapshot(place):
    """The model as the Hub's cache has it, by links from its snapshot."""
    folder = place / "cache/models--acme--model/snapshots" / ("c" * 40)
    (folder.parents[1] / "blobs").mkdir(parents=True)
    folder.mkdir(parents=True)
    for file in (place / "model").iterdir():
        shutil.copy(file, folder.parents[1] / "blobs" / file.name)
        (folder / file.name).symlink_to(f"../../blobs/{file.name}")
    return folder


class TestFollowed:
    def same(self, place, model):
        plain, other = (check(str(each), [str(place / "base")]).rows[0].verdict for each in (place / "model", model))
        assert plain.word == other.word == "UNRELATED"
        assert plain.evidence["mlp"].comparison.score == other.evidence["mlp"].comparison.score

    def test_a_model_folder_that_is_a_link_itself_and_a_link_that_stays_inside(self, place):
        inner = shutil.copytree(place / "model", place / "inner")
        (place / "link").symlink_to("inner")
        (place / "again").symlink_to(place / "link")
        (inner / "weights").mkdir()
        shutil.move(inner / WEIGHTS, inner / "weights/true.safetensors")
        (inner / WEIGHTS).symlink_to("weights/true.safetensors")
        self.same(place, place / "again")

    def test_a_snapshot_whose_blobs_are_its_own_or_those_of_the_whole_cache(self, place):
        found = snapshot(place)
        self.same(place, found)
        blob = found.parents[1] / "blobs" / WEIGHTS
        store = found.parents[2] / "blobs" / "ab" / ("ab" + "0" * 62)
        store.parent.mkdir(parents=True)
        shutil.move(blob, store)
        blob.symlink_to(os.path.relpath(store, blob.parent))
        self.same(place, found)

    def test_a_snapshot_that_the_client_of_the_hub_made(self, served, tmp_path, monkeypatch):
        connect(served, tmp_path / "cache", monkeypatch)
        from huggingface_hub import snapshot_download

        folder = snapshot_download("acme/llama-base")
        assert Path(folder, WEIGHTS).is_symlink()
        found = resolve(folder)
        assert found.has(WEIGHTS)
        assert inside(found.path(WEIGHTS), found.folder).parent.name == "blobs"


class TestCacheThatIsNone:
    def test_only_the_blobs_of_the_same_repository_and_of_the_store_count(self, place):
        """None that are a link elsewhere, or of no snapshot."""
        folder = snapshot(place)
        for target in (
            "../../../models--acme--other/blobs/x", "../../blobs/deeper/x", "../../../../outside", "../other/x",
            "../../../blobs/ab/short", "../../refs/main",
        ):  # fmt: skip
            file = Path(os.path.normpath(folder / target))
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(place / "base" / WEIGHTS, file)
            linked(folder, WEIGHTS, target)
            with pytest.raises(CheckpointError, match="is a link out of the model's folder"):
                RepoRef("acme/model", folder).has(WEIGHTS)
        linked(folder, WEIGHTS, f"../../blobs/{WEIGHTS}")
        shutil.move(folder.parents[1] / "blobs", place / "blobs")
        (folder.parents[1] / "blobs").symlink_to(place / "blobs")
        linked(place / "model", WEIGHTS, f"../blobs/{WEIGHTS}")
        for model in (folder, place / "model"):
            assert LEAVES in lineage("check", model).error


def test_a_link_that_is_laid_anew_all_the_time_shows_nothing_from_elsewhere(place):
    secret = place / "secret.json"
    secret.write_text('{"secret": 1}')
    (place / "model/own.json").write_text('{"own": 1}')
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            for target in ("own.json", secret):
                (place / "model/new").symlink_to(target)
                (place / "model/new").replace(place / "model/config.json")

    seen = set()
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        stack.callback(stop.set)
        pool.submit(swap)
        for _ in range(2000):
            with suppress(CheckpointError):
                seen |= set(RepoRef("model", place / "model").read_json("config.json") or {})
    assert ("own" in seen, "secret" in seen) == (True, False)


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "checkout/inner").mkdir(parents=True)
    (tmp_path / "checkout/.git").mkdir()
    return tmp_path / "checkout"


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    for variable in paths.TRUSTED:
        monkeypatch.delenv(variable, raising=False)


class TestOutsideCheckouts:
    @pytest.mark.parametrize("variable", [paths.CACHE, paths.INDEX])
    def test_a_place_outside_is_returned_and_one_in_a_git_checkout_refused(
        self, checkout, tmp_path, monkeypatch, variable
    ):
        assert outside_checkouts(variable) is None
        for place, path in ((tmp_path / "cache", tmp_path / "cache"), ("~/cache", Path.home() / "cache")):
            monkeypatch.setenv(variable, str(place))
            assert outside_checkouts(variable) == path
        named = f"{variable} names a place in the git checkout {checkout}, whose authors could then decide what is "
        inside = (checkout / path for path in (".", "cache", "inner/deep/cache", "inner/../cache"))
        for place, message in (
            ("~nouser/x", f"~nouser/x is nobody's home folder; set {variable} to a path"),
            *((place, f"{named}trusted; set it to one outside") for place in inside),
        ):
            monkeypatch.setenv(variable, str(place))
            with pytest.raises(OptionError) as error:
                outside_checkouts(variable)
            assert str(error.value) == message

    def test_links_relative_places_and_other_kinds_of_checkouts_change_nothing(self, checkout, tmp_path, monkeypatch):
        """A checkout may lead a cache to a folder of its own, and a folder outside may be a link into it."""
        (checkout / "out").symlink_to(tmp_path)
        (tmp_path / "in").symlink_to(checkout)
        monkeypatch.chdir(checkout / "inner")
        for is_worktree in (False, True):  # or a submodule
            if is_worktree:
                (checkout / ".git").rmdir()
                (checkout / ".git").write_text("gitdir: elsewhere")
            for place in (checkout / "out/cache", tmp_path / "in/cache", "index"):
                monkeypatch.setenv(paths.INDEX, str(place))
                with pytest.raises(OptionError, match="HF_LINEAGE_INDEX names a place in the git checkout"):
                    outside_checkouts(paths.INDEX)


@pytest.mark.parametrize("variable", paths.TRUSTED)
def test_no_trusted_place_lies_in_the_folder_of_a_model(tmp_path, monkeypatch, variable):
    (tmp_path / "model").mkdir()
    monkeypatch.setenv(variable, str(tmp_path / "model/cache"))
    with pytest.raises(OptionError, match=f"{variable} names a place in .*model .with the model that is checked"):
        refuse_within(tmp_path / "model")
    monkeypatch.setenv(variable, str(tmp_path / "models"))
    refuse_within(tmp_path / "model")


def test_nor_in_the_checkout_around_it_but_by_default(checkout, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(checkout))
    refuse_within(checkout)
    monkeypatch.setenv("HF_HOME", str(checkout / ".hf"))
    refuse_within(tmp_path / "elsewhere")
    for folder in (checkout / "inner", checkout):
        with pytest.raises(OptionError, match=r"HF_HOME names a place in .*checkout .with the model"):
            refuse_within(folder)


def test_a_file_is_read_behind_a_link_too_and_a_pipe_is_an_error_at_once(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "pipe"):
        (tmp_path / f"link-{name}").symlink_to(name)
    for name in ("file", "link-file"):
        with open_regular(tmp_path / name) as stream:
            assert stream.read() == b"content"
    for path in (tmp_path / "pipe", tmp_path / "link-pipe", Path(os.devnull)):
        with pytest.raises(OSError, match="it is a pipe or a device, not a regular file"):
            open_regular(path)
    for path in (Path("/"), Path("/missing")):
        with pytest.raises(OSError, match=r"a directory|No such file"):
            open_regular(path)
