"""A published signature is trusted if it is the owner's, or pinned, and says what the model says; else weights are."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hf_lineage.hub import listing
from hf_lineage.signature.sources import verification
from hf_lineage.signature.sources.published import FOLDER
from hf_lineage.signature.sources.store import encode, load_signature
from tests.conftest import LAYERS
from tests.models import raw_safetensors
from tests.server import faults
from tests.signatures import BASE, CHILD, FILE, check, pin, publish, refused, trusting, used


@pytest.fixture(autouse=True)
def nothing_cached(without_cache):
    """What is published is all there is: our own cache would come before it."""


class TestNotBelieved:
    def test_a_merged_one_of_another_account_is_not(self, server):
        server.account = "mallory"
        publish(server)
        server.hub.forget()
        assert refused() == (
            f"{BASE}: the signature in {BASE}/{FOLDER} is not used: not all of its commits are the owner's, and its "
            "sha256 is not pinned"
        )
        assert not [part for part in server.hub.parts if FOLDER in part.file]

    def test_nor_one_of_which_another_account_is_an_author_too(self, published):
        published.hub.authors[published.hub.commit(BASE, "main")] = ("acme", "mallory")
        assert "not all of its commits are the owner's," in refused()

    def test_until_its_digest_is_pinned(self, server, own_files, tmp_path):
        server.account = "mallory"
        publish(server)
        file = trusting(own_files, pin(server))
        claim, said = check()
        assert (claim["signatures"]["base"]["trusted"], said) == ("its sha256 is pinned in the trust file", "")
        file.rename(tmp_path / "elsewhere")
        assert "is not pinned" in refused()
        assert used("--set", f"trust={tmp_path / 'elsewhere'}") == ("published", "weights")

    @pytest.mark.parametrize("change", [{"model": "acme/other"}, {"sha256": "0" * 64}, {"commit": "0" * 40}])
    def test_a_pin_is_about_one_file_of_one_model_at_one_commit(self, server, own_files, change):
        server.account = "mallory"
        publish(server)
        trusting(own_files, pin(server, **change))
        refused()

    def test_a_models_own_is_never_trusted(self, server):
        server.account = "fern"
        publish(server, model=CHILD)
        assert used() == ("weights", "weights")

    def test_a_candidate_cannot_speak_through_one_about_its_base(self, server):
        """The child publishes its own numbers, under the name of the base, where its owner may write."""
        publish(server, model=BASE)
        forged = replace(load_signature(server.hub.published[BASE]["main"] / FILE), model=CHILD)
        server.push(CHILD, "main", {FILE: encode(forged)})
        assert used() == ("published", "weights")

    def test_a_hub_that_does_not_say_who_it_was_is_not_enough(self, published):
        published.hub.plan(faults.missing, "/commits/", times=100)
        refused()


def forged(server, change):
    """Let the owner publish a file that was changed."""
    file = server.hub.published[BASE]["main"] / FILE
    signature = load_signature(file)
    content = change(signature, file)
    server.push(BASE, "main", {FILE: content if isinstance(content, bytes) else encode(content)})


def first(signature, **parts):
    """The same with other arrays."""
    return replace(signature, paths={"mlp": replace(signature.paths["mlp"], **parts)})


def cut(signature, rows, width):
    """The same of fewer layers and a narrower stream."""
    parts = signature.paths["mlp"]
    path = replace(
        parts.select(range(rows)),
        sketch=parts.sketch[:rows, :width, :width].copy(),
        corner=parts.corner[:rows, :width, :width].copy(),
    )
    return replace(signature, paths={"mlp": path}, layers=rows, width=width)


def raw(**arrays):
    def change(signature, file):
        found = load_file(file) | arrays
        header = file.read_bytes()
        said = json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])["__metadata__"]
        save_file(found, file.parent / "forged", metadata=said)
        content = (file.parent / "forged").read_bytes()
        (file.parent / "forged").unlink()
        return content

    return change


def padded(signature, file):
    """A valid file, with more in it than anybody asked for."""
    return raw(surplus=np.zeros(2**20, np.float32))(signature, file)


def huge_header(signature, file):
    raw_safetensors(file.parent / "forged", b"{}", length=2**62)
    return (file.parent / "forged").read_bytes()


NANS = np.full((LAYERS, 64, 64), np.nan, np.float32)


class TestHostile:
    @pytest.mark.parametrize(
        ("change", "why"),
        [
            (lambda s, _: replace(s, model="acme/other"), "commit: different model"),
            (lambda s, _: replace(s, architecture="MistralForCausalLM"), "commit: different class"),
            (lambda s, _: replace(s, factorization="gemma"), "commit: different factorization"),
            (lambda s, _: replace(s, exchangeable=False), "commit: different null"),
            (lambda s, _: replace(s, recipe=replace(s.recipe, cap=3.0)), "commit: different recipe"),
            (lambda s, _: replace(s, paths={"mlp_gate": s.paths["mlp"]}), "commit: different paths"),
            (lambda s, _: replace(s, made_from={}), "commit: different files"),
            (lambda s, _: replace(s, made_from=s.made_from | {"factorization": "0" * 64}), "commit: different files"),
            (lambda s, _: replace(s, commit=None), "commit: different commit"),
            (lambda s, _: cut(s, LAYERS, 32), "commit: different width"),
            (lambda s, _: cut(s, 4, 64), "commit: different layers"),
            (lambda s, _: first(s, sketch=NANS), "holds numbers that are not finite"),
            (lambda s, _: first(s, norm=np.full(LAYERS, np.nan)), "holds numbers that are not finite"),
            (lambda s, _: first(s, norm=np.full(LAYERS, -1.0)), "holds numbers that are not finite"),
            (
                raw(**{"mlp.sketch": np.zeros((LAYERS, 64, 64), np.float16)}),
                "mlp.sketch is stored as F16, not as one of F32, F64, I64, U8",
            ),
            (padded, "more than a signature of this model can have"),
            (huge_header, "cannot be read as a signature"),
            (lambda s, _: b"", "cannot be read as a signature"),
            (lambda s, _: b"\0" * 100, "cannot be read as a signature"),
        ],
    )
    @pytest.mark.few(8)
    def test_whatever_is_wrong_is_a_line_and_the_weights_are_read(self, published, change, why):
        forged(published, change)
        said = refused()
        assert said.startswith(f"{BASE}: the signature in {BASE}/{FOLDER} is not used: ")
        assert why in said

    def test_what_claims_ten_gigabytes_is_not_begun(self, published, monkeypatch):
        entries = dict(listing.tree(BASE, published.hub.commit(BASE, "main")))
        entries[FILE] = replace(entries[FILE], size=10 * 2**30)
        monkeypatch.setattr(listing, "tree", lambda *arguments: entries)
        published.hub.forget()
        assert "has 10737418240 bytes, more than a signature of this model can have" in refused()
        assert not [name for name in published.hub.downloads() if FOLDER in name]

    def test_what_is_not_the_file_that_was_listed_is_not_read(self, published, monkeypatch):
        monkeypatch.setattr(verification.listing, "fetched", lambda *arguments: Path(__file__))
        assert "is not the file that the Hub lists" in refused()
