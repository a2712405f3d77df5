import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from hf_lineage.errors import CheckpointError, RepositoryError
from hf_lineage.hub import repo as repo_module
from hf_lineage.hub.repo import RepoRef, files_at, resolve, spell_name


@pytest.fixture
def model(tmp_path):
    return RepoRef("org/model", tmp_path)


def test_a_local_hub_is_looked_into_first_and_a_folder_is_itself(tmp_path, monkeypatch):
    (tmp_path / "hub/org/model").mkdir(parents=True)
    (tmp_path / "org/model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert resolve("org/model", tmp_path / "hub").folder == tmp_path / "hub/org/model"
    with pytest.raises(RepositoryError, match="a local hub has no revisions; leave @v1 out"):
        resolve("org/model@v1", tmp_path / "hub")
    assert str(resolve("org/model").folder) == "org/model"
    assert resolve(str(tmp_path)) == RepoRef(str(tmp_path), tmp_path)
    (tmp_path / "config.json").touch()
    with pytest.raises(RepositoryError, match=r"config\.json is a file; give the folder that holds config.json"):
        resolve(str(tmp_path / "config.json"))
    with pytest.raises(RepositoryError, match="is not a folder, so it cannot be a local hub; check --local-hub"):
        resolve("org/model", tmp_path / "missing")
    with pytest.raises(RepositoryError, match=r"is not a Hub name such as .*; only --base may name a folder"):
        resolve(str(tmp_path), folders=False)


def test_a_command_names_a_model_so_that_it_is_met_again(tmp_path, monkeypatch):
    (tmp_path / "my hub/Org/model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    hub = tmp_path / "my hub"
    assert resolve("org/model", hub).typed_name == f"org/model --local-hub '{hub}'"
    assert resolve("my hub/Org/model").typed_name == "'./my hub/Org/model'"
    assert resolve(str(hub)).typed_name == f"'{hub}'"
    assert RepoRef("org/model@v1", tmp_path, "c0ffee", remote="org/model").typed_name == "org/model@v1"


@pytest.mark.parametrize("name", ["gpt2", "org/model", "org/model@v1.0", "org/model@refs/pr/1", "0rg/_m.o-del"])
def test_a_hub_name_may_have_an_organisation_and_a_revision(name, monkeypatch, tmp_path):
    snapshot = Mock(return_value=(tmp_path, "c0ffee"))
    monkeypatch.setattr("hf_lineage.hub.client.snapshot", snapshot)
    monkeypatch.setattr("hf_lineage.hub.client.current_name", lambda name, commit: name)
    found, (remote, _, revision) = resolve(name), name.partition("@")
    assert snapshot.call_args.args[:2] == (remote, revision or None)
    assert (found.name, found.commit, found.remote) == (name, "c0ffee", remote)


@pytest.mark.parametrize("name", [
    *("", " ", "a/b/c", "org/model@", "org/model@two@three", "../model", "/nowhere", "./model", "org/../x"),
    "x" * 5000,
    *("org/mo del", "org/model\n", "\x1b[31morg/model", "org/mo\0del", "https://huggingface.co/org/model"),
])  # fmt: skip
def test_anything_else_is_no_model(name):
    with pytest.raises(RepositoryError, match=r"is neither a folder nor a Hub name such as org/model or org/"):
        resolve(name)


@pytest.mark.parametrize(("content", "message"), [
    (b'{"a": }', "config.json is not JSON: Expecting value: line 1 column 7"),
    (b"", "config.json is not JSON: Expecting value"),
    (b"[1]", "config.json holds a list, not an object"),
    (b"null", "config.json holds a NoneType, not an object"),
    (b"[" * 100_000, "config.json is nested too deeply; have it saved again"),
    (b'{"a":' * 100_000, "config.json is nested too deeply; have it saved again"),
    (b'{"a": 1' + b"0" * 5000 + b"}", "config.json is not JSON: Exceeds the limit"),
    (b'{"a": "\xff"}', "config.json is not UTF-8 text (invalid start byte at byte 7)"),
])  # fmt: skip
def test_json_that_is_none_says_why(model, content, message):
    model.path("config.json").write_bytes(content)
    with pytest.raises(CheckpointError) as error:
        model.read_json("config.json")
    assert str(error.value).startswith(f"org/model: {message}")


class TestRead:
    """Each folder is listed once, and each small file is read once, by one value and those that are made of it."""

    @pytest.fixture
    def reads(self, monkeypatch):
        reads = []
        opened = repo_module.open_regular
        monkeypatch.setattr(repo_module, "open_regular", lambda path: (reads.append(path.name), opened(path))[1])
        return reads

    def test_a_folder_is_listed_once_until_files_come_into_it(self, model):
        """Links count as what they lead to, and a loop or a folder that is not there as nothing."""
        model.path("file").touch()
        model.path("folder").mkdir()
        for name, target in (("link", "folder"), ("broken", "nowhere"), ("loop", "loop")):
            model.path(name).symlink_to(target)
        assert (model.files(), model.folders()) == (["file"], ["folder", "link"])
        model.path("late").touch()
        assert replace(model, part="x").files() == ["file"]
        model.cache.entries.clear()
        assert (model.files(), replace(model, subfolder="none").files()) == (["file", "late"], [])

    def test_a_beginning_and_an_object_are_read_once_and_no_change_comes_back(self, model, reads):
        """What is not there is looked for again, and more of a file than before."""
        assert model.read_head("head", 4) is model.read_json("file") is None
        model.path("head").write_text("0123456789")
        heads = [model.read_head("head", size) for size in (4, 3, 20, 30, 2)]
        assert heads == ["0123", "012", "0123456789", "0123456789", "01"]
        assert [name for name in reads if name == "head"] == ["head"] * 2
        reads.clear()
        model.path("file").write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n')
        model.read_json("file", 100)["b"] = 2
        assert (model.read_json("file", 100), len(reads)) == ({"a": 1}, 1)
        with pytest.raises(CheckpointError, match="is larger than 0 MiB"):
            model.read_json("file", 4)


@pytest.mark.parametrize(("read", "largest"), [
    (lambda model: model.config(), 16), (lambda model: model.read_json("config.json"), 64),
], ids=["a config", "any other file"])  # fmt: skip
def test_what_is_too_large_is_refused_before_it_is_parsed(model, read, largest):
    size, file = largest * 2**20, model.path("config.json")
    file.write_bytes(b"{" + b" " * (size - 2) + b"}")
    assert read(model) == {}
    with file.open("ab") as stream:
        stream.write(b"{")
    with pytest.raises(CheckpointError) as error:
        read(RepoRef("org/model", model.folder))
    assert str(error.value) == f"org/model: config.json is larger than {largest} MiB; shorten it"
    entries = (f'"model.layers.{n}.mlp.experts.0.down_proj.weight": "model-0.safetensors"' for n in range(150_000))
    model.path("index.json").write_text(f'{{"weight_map": {{{",".join(entries)}}}}}')
    assert len(model.read_json("index.json")["weight_map"]) == 150_000, "of a very large model"


@pytest.mark.parametrize("kind", ["folder", "pipe", "/dev/zero", "missing", "config.json"])
def test_what_is_no_file_is_said_so_and_never_waited_for(model, kind):
    """A folder, a pipe, and links to a device, to nothing, and to themselves."""
    make = {"folder": Path.mkdir, "pipe": os.mkfifo}.get(kind, lambda path: path.symlink_to(kind))
    make(model.path("config.json"))
    with pytest.raises(CheckpointError, match=r"config.json is not a readable file but a folder, a pipe or a broken"):
        model.read_json("config.json")


def test_a_file_without_permission_is_named_and_a_folder_without_config_is_no_model(model, monkeypatch):
    model.path("config.json").touch()
    refuse = Mock(side_effect=PermissionError(13, "Permission denied"))  # root reads whatever its mode is
    monkeypatch.setattr("hf_lineage.hub.repo.open_regular", refuse)
    with pytest.raises(CheckpointError, match=r"org/model: config.json cannot be read: Permission denied; check its"):
        model.read_json("config.json")
    model.path("config.json").unlink()
    with pytest.raises(RepositoryError, match=r"org/model has no config.json, so it is not a transformers model; ch"):
        model.config()


COMMIT = "0123456789abcdef0123456789abcdef01234567"
NO_NAMES = (
    *(None, "", "./org", "org/../name", "org/name@main", "//evil.example/x", "javascript:alert(1)", "org/name?x=1"),
    *("org/name#x", "org/na me", "org/<b>", "org/name\n"),
)


@pytest.mark.parametrize("name", ["org/name", "gpt2", "org/naïve"])
def test_a_commit_of_a_model_on_the_public_hub_is_linked_and_nothing_else(monkeypatch, name):
    assert files_at(name, COMMIT) == f"https://huggingface.co/{name.replace('ï', '%C3%AF')}/tree/{COMMIT}"
    for no_commit in (None, "", "main", COMMIT[:-1], COMMIT.upper(), f"{COMMIT}\n", f"{COMMIT}/../x"):
        assert files_at(name, no_commit) is None
    assert [no_name for no_name in NO_NAMES if files_at(no_name, COMMIT)] == []
    for endpoint in ("http://127.0.0.1:8000", "https://user:secret@mirror.example", "http://huggingface.co"):
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
        assert files_at(name, COMMIT) is None


def test_case_does_not_count_unless_two_folders_differ_in_nothing_else(tmp_path):
    for name in ("Acme/Base", "fern/Child", "fern/child"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "Robin").write_text("")  # a file is no folder of a model
    assert spell_name(tmp_path, "acme/base") == "Acme/Base"
    assert spell_name(tmp_path, "fern/child") == "fern/child"
    for name in ("fern/CHILD", "acme/none", "none/base", "robin/base"):
        assert spell_name(tmp_path, name) is None
