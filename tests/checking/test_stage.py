"""A stage compares two models along the paths that are asked for or, of all paths, along those that both have."""

from types import SimpleNamespace

from hf_lineage import Options, compare
from hf_lineage.checking import stage
from hf_lineage.checking.stage import ModelPair
from tests.models import tiny_llama


def model(*paths):
    return SimpleNamespace(rows={path: {0: 8} for path in paths})


def test_all_paths_are_those_that_both_models_have():
    base, candidate = model("mlp", "value_output"), model("mlp", "query_key")
    everything = Options(paths=("all",))
    assert ModelPair.along_common_paths(base, candidate, everything).options.paths == ("mlp",)
    assert ModelPair.along_common_paths(base, model("query_key"), everything).options.paths == ("all",)


def test_paths_that_are_named_stay():
    pair = ModelPair.along_common_paths(model("mlp"), model("mlp"), Options(paths=("query_key",)))
    assert pair.options.paths == ("query_key",)


def test_how_a_pair_is_sampled_is_found_once(tmp_path, monkeypatch):
    sizes = []
    monkeypatch.setattr(stage, "_sizes", lambda model, options: sizes.append(model.name) or ())
    base, child = (tiny_llama(tmp_path / name, layers=12) for name in ("base", "child"))
    compare(base, child, Options(seed=0))
    assert sizes == [str(base)]
