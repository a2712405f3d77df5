"""Two models of the Hub that have the same files are told by its listing, and no weights are read."""

import json
import shutil
from dataclasses import replace

import pytest
from safetensors.torch import load_file, save_file

from hf_lineage import Options, check
from hf_lineage.checking import stages
from tests.models import WEIGHTS, card, edit_json, fine_tuned, tiny_llama
from tests.server import serving
from tests.server.client import connect

SHARDS = "one.safetensors", "two.safetensors"
HEADERS = 2 * 2**15
"""Bytes that are read of two files when they are opened."""
QUICK = Options(seed=1, permutations=199, paths=("mlp",))


def sharded(folder):
    """The same tensors in two files."""
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(tensors)
    parts = dict(zip(SHARDS, (names[::2], names[1::2]), strict=True))
    for file, own in parts.items():
        save_file({name: tensors[name] for name in own}, folder / file, {"format": "pt"})
    index = {name: file for file, own in parts.items() for name in own}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}), encoding="utf-8")
    return folder


@pytest.fixture
def base(tmp_path):
    return sharded(tiny_llama(tmp_path / "base", layers=8, width=64))


@pytest.fixture
def mirror(base, tmp_path):
    """A copy of all files but the card, saved by another version."""
    folder = shutil.copytree(base, tmp_path / "mirror", ignore=shutil.ignore_patterns("README.md"))
    edit_json(folder / "config.json", transformers_version="4.0.0")
    return card(folder, "acme/base")


@pytest.fixture
def judge(base, mirror, tmp_path, monkeypatch):
    """Check the mirror against the base, both on one Hub, and return its row and the large bytes that were moved."""
    with serving() as hub:

        def judged(options=QUICK):
            hub.publish("acme/base", base)
            hub.publish("fern/mirror", mirror)
            connect(hub, tmp_path / "cache", monkeypatch)
            row, *_ = check("fern/mirror", options=options).rows
            return row, hub.moved()

        judged.hub = hub
        yield judged


def test_a_mirror_is_related_by_the_listing_and_not_verified_and_no_weights_are_read(judge):
    row, moved = judge()
    assert row.verdict.label == "RELATED listed"
    assert row.verdict.reason.startswith("the same files, by the Hub's listing: 2 files with weights")
    assert (row.verdict.verified, row.verdict.exit_code) == (False, 3)
    assert moved <= 2 * HEADERS
    row, _ = judge(replace(QUICK, accept=("listed",)))
    assert (row.verdict.verified, row.verdict.exit_code) == (False, 0)


@pytest.mark.few(1)
@pytest.mark.parametrize("asked", [{"budget": "full"}, {"recompute": True}])
def test_where_the_weights_are_asked_for_they_are_read(judge, asked):
    row, moved = judge(replace(QUICK, **asked))
    assert (row.verdict.label, row.verdict.verified) == ("VERIFIED inherited", True)
    assert moved > 2 * HEADERS


def test_a_fine_tune_falls_through_to_its_weights_at_no_more_requests(judge, mirror, tmp_path, monkeypatch):
    shutil.rmtree(mirror)
    whole = tiny_llama(tmp_path / "whole", layers=8, width=64)
    card(sharded(fine_tuned(whole, mirror)), "acme/base")
    row, _ = judge()
    assert row.verdict.label == "VERIFIED inherited"
    assert row.verdict.verified
    asked = len(judge.hub.requests)
    monkeypatch.setattr(stages, "STAGES", stages.STAGES[1:])
    shutil.rmtree(tmp_path / "cache")
    judge.hub.forget()
    judge()
    assert asked <= len(judge.hub.requests) + 2


def test_another_configuration_says_that_the_weights_may_do_something_else(judge, mirror):
    edit_json(mirror / "config.json", rope_theta=5.0)
    row, _ = judge()
    assert row.verdict.label == "VERIFIED inherited"


def test_an_index_that_leaves_tensors_out_is_no_copy(judge, mirror):
    """The shards are the base's, and their names are listed; what would be loaded is not."""
    index = mirror / f"{WEIGHTS}.index.json"
    content = json.loads(index.read_text("utf-8"))
    content["weight_map"] = {name: SHARDS[0] for name, file in content["weight_map"].items() if file == SHARDS[0]}
    index.write_text(json.dumps(content), encoding="utf-8")
    (mirror / SHARDS[1]).unlink()
    with pytest.raises(Exception, match=r"misses|lacks|missing|no tensor|incomplete"):
        judge()


def test_a_folder_whose_links_look_like_those_of_the_cache_is_read(base, tmp_path):
    """Nobody lists what is in a folder of the user's: a link to a file with a digest as its name is no proof."""
    folder = shutil.copytree(base, tmp_path / "liar", ignore=shutil.ignore_patterns("README.md"))
    (folder / "blobs").mkdir()
    (folder / SHARDS[0]).rename(folder / "blobs" / ("0" * 64))
    (folder / SHARDS[0]).symlink_to(folder / "blobs" / ("0" * 64))
    (row,) = check(str(card(folder, "acme/base")), str(base), options=QUICK).rows
    assert row.verdict.label == "VERIFIED inherited"
    assert row.verdict.verified
