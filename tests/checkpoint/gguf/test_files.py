"""GGUF files of a repository: which one is the model, by name, and what its header says, here or on the Hub."""

import shutil

import pytest

from hf_lineage.checkpoint.foreign_form import list_files
from hf_lineage.checkpoint.gguf.files import choose_files, read_head
from hf_lineage.errors import CheckpointError, NothingToCompare, OptionError
from hf_lineage.hub.repo import RepoRef, resolve
from tests.gguf_models import write
from tests.models import EXAMPLES
from tests.published.spellings import TABLES


@pytest.fixture
def folder(tmp_path):
    """A folder with empty files of these names."""

    def made(*names):
        for name in names:
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(b"")
        return RepoRef("org/model", tmp_path)

    return made


@pytest.mark.parametrize(("names", "chosen"), TABLES["gguf_files"])
def test_the_most_precise_file_by_its_name_is_the_model(folder, names, chosen):
    assert choose_files(folder(*names)) == tuple(chosen)


def test_several_models_are_refused_with_their_names(folder):
    with pytest.raises(NothingToCompare) as caught:
        choose_files(folder("a-1b-Q8_0.gguf", "a-7b-Q8_0.gguf"))
    assert str(caught.value) == (
        "org/model holds several models as GGUF (a-1b-Q8_0.gguf, a-7b-Q8_0.gguf); name one by its path, or "
        "with --file for the model that is judged; --file all judges each"
    )


def test_a_missing_part_is_named(folder):
    with pytest.raises(CheckpointError) as caught:
        choose_files(folder("a-Q8_0-00001-of-00003.gguf", "a-Q8_0-00003-of-00003.gguf"))
    assert str(caught.value) == "org/model: a-Q8_0-00002-of-00003.gguf is missing; download all parts of the model"


def test_a_file_that_is_named_is_read_whatever_lies_beside_it(folder, tmp_path):
    folder("a-Q8_0.gguf", "b/a-Q4_0-00001-of-00001.gguf", "model.safetensors")
    repo = RepoRef("org/model", tmp_path, file="b/a-Q4_0-00001-of-00001.gguf")
    assert choose_files(repo) == ("b/a-Q4_0-00001-of-00001.gguf",)
    assert list_files(repo, ".gguf") == ["a-Q8_0.gguf", "b/a-Q4_0-00001-of-00001.gguf"]


@pytest.mark.parametrize("named", ["nothing.gguf", "../other.gguf"])
def test_a_file_that_is_not_there_is_an_error_of_the_option(folder, tmp_path, named):
    folder("a-Q8_0.gguf", "model.safetensors")
    with pytest.raises(OptionError) as caught:
        choose_files(RepoRef("org/model", tmp_path, file=named))
    assert str(caught.value) == f"org/model has no GGUF file {named} (it has a-Q8_0.gguf); name another"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "is a pointer of git-lfs, not the weights; run `git lfs pull`",
        ),
        (b"GGUF\3\0", "is truncated: it ends within its header; download it again"),
    ],
)
def test_an_error_names_the_model_and_the_file(folder, tmp_path, content, said):
    repo = folder("a.gguf")
    (tmp_path / "a.gguf").write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read_head(repo, "a.gguf")
    assert str(caught.value).startswith(f"org/model: a.gguf {said}")


def test_a_link_out_of_the_folder_is_not_followed(folder, tmp_path):
    repo = folder("inside/a.gguf")
    own = RepoRef("org/model", tmp_path / "inside")
    (tmp_path / "inside/a.gguf").unlink()
    (tmp_path / "b.gguf").write_bytes(b"GGUF")
    (tmp_path / "inside/a.gguf").symlink_to(tmp_path / "b.gguf")
    assert repo.heads == {}
    with pytest.raises(CheckpointError, match="is a link out of the model's folder"):
        read_head(own, "a.gguf")


def test_of_a_file_on_the_hub_the_header_alone_is_fetched_once(online, tmp_path):
    source = EXAMPLES / "fern/llama-finetune-a"
    file = write(source, tmp_path / "published/a-Q8_0.gguf", kind=8, said={"general.name": "a name"})
    here = read_head(RepoRef("here", file.parent), file.name)
    online.publish("fern/gguf", file.parent)
    repo = resolve("fern/gguf")
    assert choose_files(repo) == (file.name,)
    found = read_head(repo, file.name)
    assert found.header == here.header
    assert found.stamp is None
    assert found.downloaded == online.moved("fern/gguf") < file.stat().st_size / 4
    online.forget()
    assert read_head(repo, file.name) is found
    assert online.requests == []


def test_a_longer_header_is_fetched_piece_by_piece(online, tmp_path, monkeypatch):
    monkeypatch.setattr("hf_lineage.checkpoint.gguf.files.HEAD", 64)
    source = EXAMPLES / "fern/llama-finetune-a"
    file = write(source, tmp_path / "published/a.gguf")
    online.publish("fern/gguf", file.parent)
    found = read_head(resolve("fern/gguf"), file.name)
    assert found.header == read_head(RepoRef("here", file.parent), file.name).header
    assert 4 < found.requests < 10
    assert online.twice() == []


def test_a_file_that_the_cache_has_is_read_there(online, tmp_path):
    file = write(EXAMPLES / "fern/llama-finetune-a", tmp_path / "published/a.gguf")
    online.publish("fern/gguf", file.parent)
    resolve("fern/gguf").fetch("a.gguf")
    online.forget()
    assert read_head(resolve("fern/gguf"), "a.gguf").stamp is not None
    assert online.moved() == 0
    shutil.rmtree(file.parent)
