"""Models are put into the index one after the other; one that cannot be read does not stop the others."""

import pytest

from hf_lineage import Options
from hf_lineage.checking.source import model as opening
from hf_lineage.index.building import building
from hf_lineage.index.storage.catalogue import Catalogue
from tests.models import EXAMPLES

HUB = Options(local_hub=EXAMPLES)


def test_every_model_is_added_and_an_error_is_told(tmp_path):
    models = ["acme/llama-base", "acme/no-such-model", "otter/llama-independent"]
    added = list(building.add(models, Catalogue(tmp_path), HUB))
    assert [bool(one.entries) for one in added] == [True, False, True]
    assert "acme/no-such-model" in added[1].problem
    assert sorted(entry.model for entry in Catalogue(tmp_path).read().entries()) == [
        "acme/llama-base",
        "otter/llama-independent",
    ]


@pytest.fixture
def published(online):
    for name in ("acme/llama-base", "acme/gpt2-base"):
        online.publish(name, EXAMPLES / name)
    return online


def test_an_account_is_added_by_commit_and_not_read_again(published, tmp_path, monkeypatch):
    models = building.published_by("acme")
    assert sorted(model.partition("@")[0] for model in models) == ["acme/gpt2-base", "acme/llama-base"]
    first = list(building.add(models, Catalogue(tmp_path), Options()))
    assert all(one.entries and one.entries[0].commit for one in first)
    monkeypatch.setattr(building, "open_model", lambda *_: pytest.fail("a model of the index was read again"))
    assert [one.entries for one in building.add(models, Catalogue(tmp_path), Options())] == [(), ()]


def test_a_run_that_was_stopped_goes_on_where_it_was(published, tmp_path, monkeypatch):
    models, read = building.published_by("acme"), opening.open_model

    def stopped(source, options):
        if source.name.startswith(models[1].partition("@")[0]):
            raise KeyboardInterrupt
        return read(source, options)

    monkeypatch.setattr(building, "open_model", stopped)
    with pytest.raises(KeyboardInterrupt):
        list(building.add(models, Catalogue(tmp_path), Options()))
    monkeypatch.setattr(building, "open_model", read)
    assert [bool(one.entries) for one in building.add(models, Catalogue(tmp_path), Options())] == [False, True]
