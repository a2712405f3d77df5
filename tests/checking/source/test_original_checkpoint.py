"""Makers' files are read as those of transformers, the order of rows of queries and keys undone."""

import numpy as np
import pytest

from hf_lineage import Options, compare
from hf_lineage.checking.source.original_checkpoint import by_names_of_transformers, makers_config, makers_notes
from hf_lineage.checkpoint.opening import open_checkpoint
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.reference import RepoRef
from tests.models import WEIGHTS, edit_json, fine_tuned, tiny_llama
from tests.published.steps import makers_names, makers_parameters, makers_parts


def made(folder):
    makers_names(folder)
    makers_parameters(folder)
    return folder


@pytest.fixture
def repo(tmp_path):
    return RepoRef("org/model", made(tiny_llama(tmp_path / "model")))


def test_every_tensor_is_that_of_transformers(repo, tmp_path):
    plain = open_checkpoint(RepoRef("org/plain", tiny_llama(tmp_path / "plain")))
    found = by_names_of_transformers(repo, open_checkpoint(repo))
    assert found.shapes == plain.shapes
    for name in plain.tensors:
        np.testing.assert_array_equal(found.read(name), plain.read(name), err_msg=name)


def test_a_repository_with_a_configuration_is_as_it_was(tmp_path):
    repo = RepoRef("org/model", tiny_llama(tmp_path))
    (tmp_path / "params.json").write_text("{}")
    (tmp_path / "consolidated.safetensors").write_bytes((tmp_path / WEIGHTS).read_bytes())
    checkpoint = open_checkpoint(repo)
    assert (makers_config(repo), makers_notes(repo)) == (None, ())
    assert by_names_of_transformers(repo, checkpoint) is checkpoint


def test_the_descendant_is_related_along_every_path_and_an_independent_model_is_not(tmp_path):
    base = tiny_llama(tmp_path / "base")
    child = made(fine_tuned(base, tmp_path / "child"))
    other = made(tiny_llama(tmp_path / "other", seed=5))
    options = Options(order_seed=0, paths=("mlp", "value_output", "query_key"))
    (row,) = compare(str(base), str(child), options).rows
    assert {path: one.name for path, one in row.verdict.by_path.items()} == dict.fromkeys(options.paths, "RELATED")
    assert compare(str(base), str(other), options).rows[0].verdict.name == "UNRELATED"


@pytest.mark.parametrize("count", [0.5, -4, "4", [4], 2**40, True])
def test_heads_that_are_no_number_are_damage(repo, count):
    edit_json(repo.folder / "params.json", n_heads=count)
    with pytest.raises(CheckpointError, match="which counts no heads; do not trust it"):
        by_names_of_transformers(repo, open_checkpoint(repo))


def test_heads_that_do_not_fit_are_damage(repo):
    edit_json(repo.folder / "params.json", n_heads=7)
    with pytest.raises(CheckpointError, match="has 32 rows, which are not 7 heads"):
        by_names_of_transformers(repo, open_checkpoint(repo))


def test_parts_for_several_gpus_are_named(tmp_path):
    makers_parts(tiny_llama(tmp_path))
    with pytest.raises(NothingToCompare, match=r"cut into 2 parts \(consolidated\.00\.pth and others\)"):
        makers_config(RepoRef("org/model", tmp_path, allow_pickle=True))
