"""What is opened is a regular file, and nothing is waited for."""

import os
from pathlib import Path

import pytest

from hf_lineage.files.paths import open_regular


def test_a_file_is_read_and_so_is_one_behind_a_link(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        with open_regular(tmp_path / name) as stream:
            assert stream.read() == b"content"


def test_a_pipe_that_nobody_writes_to_is_an_error_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match="it is a pipe or a device, not a regular file"):
            open_regular(tmp_path / name)


@pytest.mark.parametrize("path", [Path(os.devnull), Path("/"), Path("/missing")])
def test_what_is_no_file_is_an_error(path):
    with pytest.raises(OSError):  # noqa: PT011 - each has another message of the system
        open_regular(path)
