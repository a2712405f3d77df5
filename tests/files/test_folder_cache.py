"""A folder is listed once and a small file is read once, as long as one value stands for the repository."""

import pytest

from hf_lineage.files.folder_cache import FolderCache


def test_a_folder_is_listed_once_until_files_come_into_it(tmp_path):
    cache = FolderCache()
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    assert cache.listed(tmp_path) == ({"file"}, {"folder"})
    (tmp_path / "late").touch()
    assert cache.listed(tmp_path).files == {"file"}
    cache.forget_listings()
    assert cache.listed(tmp_path).files == {"file", "late"}


def test_a_folder_that_is_not_there_holds_nothing(tmp_path):
    assert FolderCache().listed(tmp_path / "none") == (frozenset(), frozenset())


def test_links_count_as_what_they_lead_to(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "broken").symlink_to("nowhere")
    assert FolderCache().listed(tmp_path) == (frozenset(), {"folder", "link"})


def test_the_beginning_of_a_file_is_read_once_and_more_of_it_again(tmp_path):
    cache, read = FolderCache(), []

    def head(size):
        return cache.head(tmp_path, size, lambda: read.append(size) or b"0123456789"[:size])

    assert [head(size) for size in (4, 3, 20, 30, 2)] == [b"0123", b"012", b"0123456789", b"0123456789", b"01"]
    assert read == [4, 20]


def test_a_file_that_is_not_there_is_looked_for_again(tmp_path):
    cache, contents = FolderCache(), iter((None, b"1"))
    assert [cache.head(tmp_path, 4, lambda: next(contents)) for _ in range(2)] == [None, b"1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("[" * 200_000, "is nested too deeply"), ("{", "is not JSON: "), ("[]", "holds a list, not an object")],
)
def test_what_is_no_object_is_an_error(text, message, tmp_path):
    with pytest.raises(ValueError, match=f"^{message}"):
        FolderCache().json_object(tmp_path, 2**20, lambda: text)


def test_an_object_is_read_once_and_no_change_of_it_comes_back(tmp_path):
    cache, texts = FolderCache(), iter(('{"a": 1}', None))
    first = cache.json_object(tmp_path, 100, lambda: next(texts))
    first["b"] = 2
    assert cache.json_object(tmp_path, 100, lambda: next(texts)) == {"a": 1}
    assert cache.json_object(tmp_path, 4, lambda: next(texts)) is None


def test_a_link_that_leads_back_to_itself_is_neither_a_file_nor_a_folder(tmp_path):
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert FolderCache().listed(tmp_path) == (frozenset({"model.safetensors"}), frozenset())
