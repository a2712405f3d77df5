"""A stored signature comes back bit for bit, and the file of the first release is still read by today's code."""

import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hf_lineage.errors import SignatureError
from hf_lineage.options import Options
from hf_lineage.pipeline import extract
from hf_lineage.signature import RECIPES
from hf_lineage.store import STALE, load_signature, save_signature, write_atomically

HUB = Path(__file__).parents[1] / "examples" / "hub"
GOLDEN = Path(__file__).parent / "data"
SMALL = replace(RECIPES["robust"], probes=4, coordinates=8)


@pytest.fixture(scope="module", params=["robust", "paper"])
def signature(request):
    recipe = replace(RECIPES[request.param], probes=4, coordinates=8)
    return extract(str(HUB / "acme" / "gpt2-base"), Options(recipe=recipe, paths=("mlp", "query_key")))


def assert_same(a, b, exactly=True):
    assert replace(a, paths={}) == replace(b, paths={})
    assert list(a.paths) == list(b.paths)
    for path in a.paths:
        for part in ("sketch", "corner", "trace", "norm"):
            ours, theirs = getattr(a.paths[path], part), getattr(b.paths[path], part)
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=0 if exactly else 1e-4, atol=0 if exactly else 1e-5)


def test_a_signature_round_trips_bit_for_bit(signature, tmp_path):
    save_signature(signature, tmp_path / "a.safetensors")
    assert_same(load_signature(tmp_path / "a.safetensors"), signature)


def test_the_same_signature_is_written_as_the_same_bytes(signature, tmp_path):
    for name in ("a", "b"):
        save_signature(signature, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("recipe", ["robust", "paper"])
def test_the_golden_file_of_each_recipe_is_read_and_extracted_again(recipe, tmp_path):
    golden = load_signature(GOLDEN / f"signature-v1-{recipe}.safetensors")
    options = Options(recipe=replace(RECIPES[recipe], probes=4, coordinates=8))
    again = replace(extract(str(HUB / "acme" / "llama-base"), options), model=golden.model)
    assert_same(golden, again, exactly=False)


def test_residuals_that_are_not_in_memory_are_not_written(signature, tmp_path):
    elsewhere = {
        path: replace(found, sketch=SimpleNamespace(shape=found.sketch.shape))
        for path, found in signature.paths.items()
    }
    with pytest.raises(SignatureError, match="do not fit in memory, so there is nothing to write; raise --max-memory"):
        save_signature(replace(signature, paths=elsewhere), tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_behind_when_a_file_cannot_be_written(tmp_path):
    with pytest.raises(SignatureError, match="cannot be written"):
        write_atomically(tmp_path / "missing" / "a", b"x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(SignatureError, match="cannot be written"):
        write_atomically(tmp_path / "folder", b"x")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_an_existing_file_is_replaced_as_a_whole(tmp_path):
    (tmp_path / "a").write_bytes(b"a long old content")
    write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == 1


class TestTemporaries:
    """What a process that was killed leaves behind, and what must not be taken for it."""

    LEFT = ".hf-lineage-0123456789abcdef"

    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "README.md").write_bytes(b"old")
        return tmp_path

    @staticmethod
    def aged(file, seconds):
        file.write_bytes(b"half")
        os.utime(file, (time.time() - seconds,) * 2)

    def test_one_that_was_left_behind_is_removed_by_the_next_write(self, folder):
        self.aged(folder / self.LEFT, 2 * STALE)
        write_atomically(folder / "README.md", b"new")
        assert [path.name for path in folder.iterdir()] == ["README.md"]

    def test_one_that_somebody_may_be_writing_stays(self, folder):
        self.aged(folder / self.LEFT, STALE / 2)
        write_atomically(folder / "README.md", b"new")
        assert (folder / self.LEFT).read_bytes() == b"half"

    @pytest.mark.parametrize(
        "name", [".hf-lineage-notes", ".README.md.123", ".hf-lineage-0123456789ABCDEF", f"{LEFT}0"]
    )
    def test_other_files_stay_however_old(self, folder, name):
        self.aged(folder / name, 10 * STALE)
        write_atomically(folder / "README.md", b"new")
        assert (folder / name).exists()

    def test_what_is_no_plain_file_stays(self, folder, tmp_path_factory):
        elsewhere = tmp_path_factory.mktemp("elsewhere") / "theirs"
        self.aged(elsewhere, 10 * STALE)
        (folder / self.LEFT).symlink_to(elsewhere)
        (folder / self.LEFT.replace("0", "f")).mkdir()
        write_atomically(folder / "README.md", b"new")
        assert len(list(folder.iterdir())) == 3
        assert elsewhere.read_bytes() == b"half"

    def test_killed_in_the_middle_it_leaves_the_old_content_and_one_such_file(self, folder):
        script = (
            "import os, pathlib, signal\n"
            "from hf_lineage.store import write_atomically\n"
            "os.fsync = lambda number: os.kill(os.getpid(), signal.SIGKILL)\n"
            f"write_atomically(pathlib.Path({str(folder / 'README.md')!r}), b'new')\n"
        )
        assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -signal.SIGKILL
        (left,) = (path for path in folder.iterdir() if path.name != "README.md")
        assert (folder / "README.md").read_bytes() == b"old"
        self.aged(left, 2 * STALE)
        write_atomically(folder / "README.md", b"new")
        assert [path.name for path in folder.iterdir()] == ["README.md"]

    @pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
    def test_a_file_keeps_its_permissions(self, folder, mode):
        (folder / "README.md").chmod(mode)
        write_atomically(folder / "README.md", b"new")
        assert stat.S_IMODE((folder / "README.md").stat().st_mode) == mode
        assert (folder / "README.md").read_bytes() == b"new"
