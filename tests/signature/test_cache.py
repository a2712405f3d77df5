"""The cache of signatures: it moves nothing, changes nothing that is said, and lets nobody else in."""

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.signature import cache
from hf_lineage.signature.store import load_signature, save_signature
from hf_lineage.signature.values import PARTS
from tests.invoking import lineage
from tests.models import card, fine_tuned, tiny_llama
from tests.parts import seeing
from tests.published.steps import torch_file
from tests.server import serving

BASE, CHILD = "acme/base", "fern/child"
QUIET = ("--seed", "0")
READ, CACHED = (dict.fromkeys(("base", "model"), kind) for kind in ("weights", "cache"))


@pytest.fixture
def served(tmp_path):
    base = tiny_llama(tmp_path / "base")
    with serving() as running:
        running.publish(BASE, base)
        running.publish(CHILD, card(fine_tuned(base, tmp_path / "child"), BASE, "finetune"))
        yield running


def said(*arguments):
    found = lineage("check", CHILD, *QUIET, "--format", "json", *arguments)
    assert found.err == ""
    (claim,) = json.loads(found.out)["claims"]
    return claim


def origins(claim):
    return {who: origin["kind"] for who, origin in claim["signatures"].items()}


def kept():
    return sorted(file for file in cache.root().rglob("*") if file.is_file())


def test_what_was_read_as_a_whole_is_not_read_again_and_suffices_offline(online, monkeypatch):
    first = said()
    assert origins(first) == READ
    online.forget()
    again = said()
    assert origins(again) == CACHED
    assert online.parts == []
    assert not [request for request in online.requests if "safetensors" in request]
    assert (again["paths"], again["verdict"], again["traffic"]) == (first["paths"], "VERIFIED", {})
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    online.forget()
    offline = said()
    assert (offline["paths"], offline["verdict"]) == (first["paths"], "VERIFIED")
    assert (online.requests, online.parts) == ([], [])


@pytest.mark.long
def test_of_what_was_read_in_part_nothing_is_cached(online, tmp_path):
    base = tiny_llama(tmp_path / "deep", layers=16)
    online.publish("acme/deep", base)
    online.publish("fern/deep", card(fine_tuned(base, tmp_path / "deeper"), "acme/deep"))
    command = ("check", "fern/deep", "--seed", "0", "--format", "json")
    for budget, files, layers in (("quick", 0, 6), ("full", 4, 16), ("quick", 4, 6)):
        found = json.loads(lineage(*command, "--budget", budget).out)["claims"][0]
        assert (len(kept()), found["paths"][0]["layers_read"]) == (files, layers)
    apart = ("signatures", "traffic", "relation_seen", "command")  # the third needs weights
    quick = {key: value for key, value in found.items() if key not in apart}
    read = json.loads(lineage(*command, "--no-cache").out)["claims"][0]
    assert quick == {key: value for key, value in read.items() if key not in apart}
    assert origins(found) == CACHED


def test_a_part_is_cached_beside_the_model_that_it_is_of(online, tmp_path):
    base = seeing(tmp_path / "seeing", seed=1)
    online.publish("acme/seeing", base)
    online.publish("fern/seeing", card(fine_tuned(base, tmp_path / "further", noise=0.02), "acme/seeing"))
    command = ("check", "fern/seeing", *QUIET, "--format", "json")
    first, again = (json.loads(lineage(*command).out)["claims"] for _ in range(2))
    assert [(claim["part"], claim["verdict"]) for claim in first] == [("", "VERIFIED"), ("vision", "VERIFIED")]
    assert [origins(claim) for claim in first + again] == [READ, READ, CACHED, CACHED]
    assert [claim["paths"] for claim in again] == [claim["paths"] for claim in first]
    assert len(kept()) == 8, "one for each path"
    assert {load_signature(file).model for file in kept()} == {
        f"{name}{part}" for name in ("acme/seeing", "fern/seeing") for part in ("", "/vision")
    }


SERVED = [
    (("--paths", "mlp,value_output"), ("--paths", "value_output"), True),
    (("--paths", "mlp"), ("--paths", "mlp,value_output"), False),
    ((), ("--no-cache",), False),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("first", "second", "hit"), SERVED)
def test_it_serves_what_it_was_made_for_and_no_more(online, first, second, hit):
    said(*first)
    online.forget()
    assert origins(said(*second)) == (CACHED if hit else READ)
    assert (online.parts == []) == hit


def test_another_commit_factorization_or_release_is_read(online, tmp_path, monkeypatch):
    said()
    for name, other in (("schema.fingerprint", lambda factorization: "0" * 64), ("__version__", "0.2.0")):
        with monkeypatch.context() as patch:
            patch.setattr(f"{cache.__name__}.{name}", other)
            assert origins(said()) == READ
    said()
    shutil.copytree(tmp_path / "base", tmp_path / "moved")
    online.publish(BASE, tmp_path / "moved")
    assert origins(said()) == {"base": "weights", "model": "cache"}


def test_folders_are_not_cached_nor_what_was_read_of_a_pickle_on_the_hub(online, tmp_path):
    assert lineage("compare", tmp_path / "base", tmp_path / "child").code == 0
    assert kept() == []
    folder = card(fine_tuned(tmp_path / "base", tmp_path / "pickled"), BASE)
    torch_file(folder)
    online.publish("fern/pickled", folder)
    for arguments, code in (([], 3), (["--allow-pickle"], 0), (["--allow-pickle"], 0), ([], 3)):
        result = lineage("check", "fern/pickled", "--budget", "full", *arguments)
        assert result.code == code, result
    assert kept() == []


def pipe(file):
    file.unlink()
    os.mkfifo(file)


def link(file):
    file.rename(file.with_suffix(".moved"))
    file.symlink_to(file.with_suffix(".moved"))


SPOILT = {
    "cut": lambda file: os.truncate(file, 100),
    "empty": lambda file: file.write_bytes(b""),
    "of another model": lambda file: shutil.copy(next(each for each in kept() if each != file), file),
    "open to all": lambda file: file.chmod(0o666),
    "a link": link,
    "a pipe": pipe,
}


@pytest.mark.few(1)
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_what_is_not_ours_or_not_whole_is_made_again(online, spoil):
    first = said()
    file = next(each for each in kept() if "acme" in str(each))
    right = load_signature(file).paths["mlp"]
    spoil(file)
    again = said()
    assert origins(again) == {"base": "weights", "model": "cache"}
    assert again["paths"] == first["paths"]
    made = load_signature(file).paths["mlp"]
    assert all(np.array_equal(getattr(made, part), getattr(right, part)) for part in PARTS)
    if spoil is not link:
        assert origins(said()) == CACHED


def test_a_cache_that_a_checkout_brings_is_refused(online, tmp_path, monkeypatch):
    """In it the numbers of a model are those of its base, and nothing tells who made it: git writes it as this user."""
    online.publish("magpie/other", card(tiny_llama(tmp_path / "other", seed=7), BASE))
    command = ("check", "magpie/other", *QUIET)
    assert lineage(*command, "--budget", "full").rows[0][-1] == "UNRELATED"
    commit = online.commit(BASE, "main")
    own = [file for file in kept() if "other" in str(file)]
    for folder in ("elsewhere", "checkout/.hf-lineage"):
        place = tmp_path / folder / "signatures/models--acme--base" / commit
        place.mkdir(parents=True)
        for file in own:
            save_signature(replace(load_signature(file), model=BASE, commit=commit), place / file.name)
            (place / file.name).chmod(0o644)
    monkeypatch.setenv("HF_LINEAGE_CACHE", str(tmp_path / "elsewhere"))
    assert lineage(*command).rows[0][-1] == "inherited"  # so who may write there decides the verdict
    (tmp_path / "checkout/.git").mkdir()
    monkeypatch.setenv("HF_LINEAGE_CACHE", str(tmp_path / "checkout/.hf-lineage"))
    where = f"HF_LINEAGE_CACHE names a place in the git checkout {tmp_path / 'checkout'}"
    assert lineage(*command).error.startswith(where)
    monkeypatch.setenv("HF_LINEAGE_CACHE", str(tmp_path / "base/cache"))
    assert "(with the model that is checked)" in lineage("check", tmp_path / "base", "--base", BASE).error
    assert "(with the model that is checked)" in lineage(*command, "--local-hub", tmp_path / "base").error


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_trusted(online):
    said()
    for file in kept():
        os.chown(file, 65534, 65534)
    assert origins(said()) == READ


def test_its_files_are_for_nobody_else_and_without_any_the_check_goes_on(online, tmp_path, monkeypatch):
    previous = os.umask(0)
    try:
        said()
    finally:
        os.umask(previous)
    assert cache.root().stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in kept()} == {0o600}
    assert origins(said()) == CACHED
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HF_LINEAGE_CACHE", str(tmp_path / "file"))
    found = lineage("check", CHILD, *QUIET)
    assert (found.code, found.rows[0][-1]) == (0, "inherited")


def test_extract_takes_it_and_writes_the_same_bytes(online, tmp_path):
    for file in ("first", "second"):
        assert lineage("extract", BASE, "-o", tmp_path / file).code == 0
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    assert load_signature(tmp_path / "second").model == BASE
    online.forget()
    assert lineage("extract", BASE, "--no-cache", "-o", tmp_path / "third").code == 0
    assert online.parts
    assert (tmp_path / "first").read_bytes() == (tmp_path / "third").read_bytes()
