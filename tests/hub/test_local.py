"""A local hub is a folder of folders, whose case does not count."""

from hf_lineage.hub.local import spelled


def test_case_does_not_count_unless_two_folders_differ_in_nothing_else(tmp_path):
    for name in ("Acme/Base", "fern/Child", "fern/child"):
        (tmp_path / name).mkdir(parents=True)
    assert spelled(tmp_path, "acme/base") == "Acme/Base"
    assert spelled(tmp_path, "fern/child") == "fern/child"
    assert spelled(tmp_path, "fern/CHILD") is None
    assert spelled(tmp_path, "acme/none") is None
    assert spelled(tmp_path, "none/base") is None


def test_a_file_is_no_folder_of_a_model(tmp_path):
    (tmp_path / "Acme").write_text("")
    assert spelled(tmp_path, "acme/base") is None
