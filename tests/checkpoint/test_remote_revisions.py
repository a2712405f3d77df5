import shutil

import numpy as np
import pytest

from hf_lineage.hub.repo import resolve
from tests.invoking import lineage
from tests.models import SMALL, open_checkpoint, tiny_llama


@pytest.mark.parametrize("revision", ["v2", "refs/pr/1", "feature/x"])
def test_a_branch_a_tag_and_a_pull_request_are_followed(online, tmp_path, revision):
    other = tiny_llama(tmp_path / "v2", seed=1)
    commit = online.publish("acme/llama-base", other, revision=revision)
    found, here = open_checkpoint(resolve(f"acme/llama-base@{revision}")), open_checkpoint(resolve(str(other)))
    assert resolve(f"acme/llama-base@{revision}").commit == commit
    assert np.array_equal(found.read("model.norm.weight"), here.read("model.norm.weight"))
    assert open_checkpoint(resolve(f"acme/llama-base@{commit}")).shapes == here.shapes


def test_a_branch_that_moves_is_read_as_it_was(online, tmp_path):
    repo = resolve("acme/llama-base")
    online.publish("acme/llama-base", tiny_llama(tmp_path / "v2", seed=1))
    found, here = open_checkpoint(repo), open_checkpoint(resolve(str(SMALL["acme/llama-base"])))
    assert np.array_equal(found.read("model.norm.weight"), here.read("model.norm.weight"))


def test_a_model_that_was_renamed_is_followed_and_that_is_said(online, caplog):
    online.renamed["meta/old-name"] = "acme/llama-base"
    found = lineage("check", "fern/llama-finetune-a", "--base", "meta/old-name")
    assert found.rows[0][-1] == "inherited"
    assert "meta/old-name is now called acme/llama-base" in caplog.text


def test_a_model_that_declares_its_own_former_name_has_no_base(online, tmp_path):
    own = shutil.copytree(SMALL["fern/llama-finetune-a"], tmp_path / "own")
    (own / "README.md").write_text("---\nbase_model: fern/before\n---\n")
    online.publish("fern/own", own)
    online.renamed["fern/before"] = "fern/own"
    found = lineage("check", "fern/own")
    assert found.rows[0][-1] == "no-base"
    assert "The model declares itself, and a model cannot be its own base." in found.sentences
