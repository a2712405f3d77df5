import os

import numpy as np
import pytest

from hf_lineage.checking.check import extract
from hf_lineage.errors import CheckpointError, NothingToCompare, RepositoryError, SignatureError
from hf_lineage.hub.repo import RepoRef
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.store import save_signature
from hf_lineage.signature.values import Signature
from hf_lineage.source.headers import headers
from hf_lineage.source.locate import locate
from hf_lineage.source.model import open_model
from hf_lineage.source.options import Options
from tests.models import WEIGHTS, edit_json, tiny_gpt2, tiny_llama


@pytest.fixture
def model(tmp_path):
    return tiny_llama(tmp_path / "model")


def test_a_folder_is_a_repository_and_a_file_is_a_stored_signature(model, tmp_path):
    save_signature(extract(str(model)), tmp_path / "model.sig")
    assert isinstance(locate(str(model)), RepoRef)
    assert isinstance(locate(str(tmp_path / "model.sig")), Signature)


def test_opening_a_model_reads_its_headers_and_extracts_once(model):
    subject = open_model(locate(str(model)), Options())
    assert (subject.layers, subject.width, subject.local) == (2, 32, True)
    assert subject.identity == (str(model),)
    assert subject.signature() is subject.signature()


def test_a_signature_has_the_layers_that_are_asked_for_whatever_was_read_before(tmp_path):
    model = tiny_llama(tmp_path / "model", layers=5)
    save_signature(extract(str(model)), tmp_path / "model.sig")
    for source in (model, tmp_path / "model.sig"):
        subject = open_model(locate(str(source)), Options())
        whole = extract(str(model)).paths["mlp"]
        for layers in ((4, 1), (0,), (0, 1, 2, 3, 4), (3,)):
            part = subject.signature(layers)
            assert part.numbers("mlp") == tuple(sorted(layers))
            np.testing.assert_array_equal(part.paths["mlp"].sketch, whole.sketch[sorted(layers)])
        assert subject.signature().without == {}


def test_a_stored_signature_has_no_folder_and_is_as_large_as_its_model(model, tmp_path):
    save_signature(extract(str(model)), tmp_path / "model.sig")
    subject = open_model(locate(str(tmp_path / "model.sig")), Options())
    assert (subject.name, subject.identity, subject.layers, subject.width) == (str(model), None, 2, 32)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (Options(paths=("mlp", "query_key")), "path query_key"),
        (Options(recipe=RECIPES["paper"]), "recipe robust with other parameters"),
    ],
)
def test_a_stored_signature_serves_only_what_it_was_made_for(model, tmp_path, options, what):
    save_signature(extract(str(model)), tmp_path / "model.sig")
    subject = open_model(locate(str(tmp_path / "model.sig")), options)
    with pytest.raises(SignatureError) as error:
        subject.signature()
    assert str(error.value) == (f"{model}: the stored signature lacks what this check needs ({what}); extract it again")


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (lambda folder: edit_json(folder / "config.json", num_hidden_layers=9), NothingToCompare),
        (lambda folder: edit_json(folder / "config.json", num_attention_heads=0), CheckpointError),
        (lambda folder: edit_json(folder / "config.json", num_attention_heads=5), CheckpointError),
        (lambda folder: os.truncate(folder / WEIGHTS, 5000), CheckpointError),
        (lambda folder: (folder / WEIGHTS).rename(folder / "weights.bin"), NothingToCompare),
    ],
)
def test_what_is_wrong_with_a_model_names_it_once(model, damage, kind):
    damage(model)
    with pytest.raises(kind) as error:
        headers(RepoRef(str(model), model))
    assert str(error.value).count(str(model)) == 1


def test_a_path_that_the_model_has_not_names_the_model(tmp_path):
    subject = open_model(RepoRef("org/model", tiny_gpt2(tmp_path / "gpt2")), Options(paths=("mlp_gate",)))
    with pytest.raises(NothingToCompare, match=r"^org/model: gpt2 has no path mlp_gate; it has mlp, value_output"):
        subject.signature()


def test_a_folder_without_config_is_an_error_but_a_lora_adapter_is_nothing_to_compare(model):
    (model / "config.json").unlink()
    with pytest.raises(RepositoryError, match=r"has no config\.json"):
        headers(RepoRef("org/model", model))
    (model / WEIGHTS).rename(model / "adapter_model.safetensors")
    with pytest.raises(NothingToCompare, match=r"org/model holds an adapter without its adapter_config"):
        headers(RepoRef("org/model", model))
