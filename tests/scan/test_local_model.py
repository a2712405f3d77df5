"""A model on this disk is known by the digests in the names of its files, and by what its files say about it."""

import shutil

from hf_lineage.hub import RepoRef
from hf_lineage.scan.local_model import LocalModel, digest_in, unlisted, with_claims
from tests.models import EXAMPLES, card

CHILD = EXAMPLES / "fern/llama-finetune-a"


def test_a_file_is_known_by_its_digest_only_among_blobs(tmp_path):
    digest = "0" * 64
    for name in (f"blobs/sha256-{digest}", f"blobs/{digest}", f"blobs/00/{digest}", f"other/{digest}", "blobs/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert digest_in(tmp_path / f"blobs/sha256-{digest}") == digest
    assert digest_in(tmp_path / f"blobs/{digest}") == digest
    assert digest_in(tmp_path / f"blobs/00/{digest}") == digest
    assert digest_in(tmp_path / f"other/{digest}") == digest_in(tmp_path / "blobs/x") == ""
    assert LocalModel("x", "folder", files=(tmp_path / "blobs/x",)).contents == {(str(tmp_path / "blobs/x"), 0)}


def test_what_its_files_say_is_read_and_what_they_do_not_say_is_a_problem(tmp_path):
    folder = card(shutil.copytree(CHILD, tmp_path / "child"), "acme/base")
    model = LocalModel("child", "folder", repo=RepoRef("child", folder), files=(folder / "model.safetensors",))
    assert [claim.base for claim in with_claims(model).claims] == ["acme/base"]
    assert model.size == (CHILD / "model.safetensors").stat().st_size
    (folder / "README.md").write_bytes(b"---\nbase_model: [\n---\n")
    assert "README.md" in with_claims(LocalModel("child", "folder", repo=RepoRef("child", folder))).problem
    (folder / "model.safetensors").unlink()
    assert with_claims(model).problem == "model.safetensors is a pipe or a link to nothing; remove it"
    assert model.size == 0


def test_a_folder_that_cannot_be_listed_says_why():
    assert unlisted(PermissionError(13, "Permission denied", "a b"), "folder") == LocalModel(
        "'./a b'", "folder", problem="cannot be listed: Permission denied; check its permissions"
    )
