"""A published signature stands for the weights of a base, and for those of no other model."""

import json
from pathlib import Path

import pytest
from huggingface_hub import snapshot_download
from safetensors.torch import load_file as load_weights
from safetensors.torch import save as save_weights

from hf_lineage.signature.sources.published import FOLDER, folder_of
from tests.invoking import lineage
from tests.models import WEIGHTS
from tests.signatures import BASE, CHILD, FILE, STORE, base_weights, check, digest, publish, refused, trusting, used


@pytest.fixture(autouse=True)
def nothing_cached(without_cache):
    """What is published is all there is: our own cache would come before it."""


class TestBelieved:
    def test_from_the_owners_commit_it_spares_the_weights_of_the_base(self, published):
        published.hub.forget()
        claim, said = check()
        assert (claim["verdict"], said) == ("RELATED", "")
        assert claim["signatures"]["base"] == {
            "kind": "published",
            "repository": BASE,
            "files": {FILE: digest(published)},
            "trusted": f"the owner of {BASE} committed it ({published.hub.commit(BASE, 'main')})",
        }
        assert base_weights(published.hub) == 0
        assert published.hub.twice() == []
        published.hub.forget()
        assert used() == ("published", "weights")
        assert not [part for part in published.hub.parts if FOLDER in part.file]

    def test_it_says_what_the_weights_say(self, published):
        theirs, ours = check("--budget", "full")[0], check("--budget", "full", "--set", "recompute=yes")[0]
        assert (theirs["paths"], ours["signatures"]["base"]["kind"]) == (ours["paths"], "weights")

    def test_the_text_says_where_it_is_and_why_it_is_trusted(self, published):
        said = lineage("check", CHILD).sentences
        assert f"the signature of the base is published in {BASE}: {FILE} (sha256 {digest(published)})" in said
        assert "trusted because the owner of acme/base committed it" in said

    def test_compare_takes_it_for_the_first_model_alone(self, published):
        for a, b, expected in ((BASE, CHILD, ("published", "weights")), (CHILD, BASE, ("weights", "weights"))):
            claim = json.loads(lineage("compare", a, b, "--format", "json").out)["claims"][0]
            assert tuple(claim["signatures"][who]["kind"] for who in ("base", "model")) == expected

    def test_a_record_beside_the_card_says_so_too(self, published):
        assert lineage("annotate", CHILD, "--write").code == 0
        (claim,) = json.loads(published.file(CHILD, "main", "lineage/claims.json"))["claims"]
        assert claim["signatures"]["base"]["files"] == {FILE: digest(published)}
        assert "Already up to date" in lineage("annotate", CHILD, "--write").out

    def test_for_an_organisation_its_members_speak(self, server):
        server.account = "ann"
        publish(server)
        assert "not all of its commits are the owner's," in refused()
        server.hub.members["acme"] = ("bob", "ann")
        assert used() == ("published", "weights")

    def test_several_paths_are_used_if_all_are_there(self, server):
        publish(server, "--paths", "mlp,value_output")
        assert used() == ("published", "weights")
        assert used("--paths", "value_output,mlp") == ("published", "weights")
        assert used("--paths", "mlp,query_key") == ("weights", "weights")

    @pytest.mark.parametrize("setting", ["recompute=yes", "recipe=paper", "probes=32", "probes=exact"])
    @pytest.mark.few(2)
    def test_what_was_not_asked_for_is_not_looked_at(self, published, setting):
        published.hub.forget()
        assert used("--set", setting) == ("weights", "weights")
        assert not [name for name in published.hub.downloads() if FOLDER in name]

    def test_weights_that_are_on_this_machine_are_read(self, published):
        snapshot_download(BASE, allow_patterns=[WEIGHTS])
        assert used() == ("weights", "weights")


class TestWhichWeights:
    def test_a_later_commit_that_left_the_weights_alone_has_it_still(self, published):
        published.push(BASE, "main", {"README.md": b"# New\n"})
        assert used() == ("published", "weights")

    def test_an_earlier_commit_with_the_same_weights_has_it_too(self, server):
        before = server.hub.commit(BASE, "main")
        publish(server)
        assert used("--base", f"{BASE}@{before}") == ("published", "weights")

    @pytest.mark.parametrize("file", [WEIGHTS, "config.json"])
    def test_once_the_files_have_changed_it_is_about_others(self, published, file):
        content = published.file(BASE, "main", file)
        if file == WEIGHTS:
            weights = load_weights(published.hub.published[BASE]["main"] / file)
            content = save_weights({name: tensor * 1.01 for name, tensor in weights.items()})
        published.push(BASE, "main", {file: content if file == WEIGHTS else content + b"\n"})
        assert refused() == (
            f"{BASE}: the signature in {BASE}/{FOLDER} is not used: it does not fit this model at this commit: "
            "different files"
        )

    def test_one_from_a_pull_request_is_not_looked_at_whatever_is_asked_for(self, server):
        assert lineage("extract", BASE, "--push").code == 0
        assert used("--base", f"{BASE}@refs/pr/1") == ("weights", "weights")
        assert used("--base", f"{BASE}@{server.hub.commit(BASE, 'refs/pr/1')}") == ("weights", "weights")


class TestSignatureRepositories:
    @pytest.fixture
    def store(self, server, tmp_path):
        """Somebody keeps the signatures of others."""
        (tmp_path / "store").mkdir()
        (tmp_path / "store/README.md").write_text("# Signatures\n")
        server.hub.publish(STORE, tmp_path / "store")
        server.account = "lib"
        publish(server, "--to", STORE)
        return server

    def test_one_that_is_named_is_looked_into(self, store, own_files, monkeypatch):
        assert used() == ("weights", "weights")
        claim, _ = check("--set", f"signatures={STORE}")
        file = f"{folder_of(BASE, store.hub.commit(BASE, 'main'))}/{Path(FILE).name}"
        assert claim["signatures"]["base"]["files"] == {file: digest(store, STORE, file)}
        assert claim["signatures"]["base"]["repository"] == STORE
        monkeypatch.setenv("HF_LINEAGE_SIGNATURES", f"nobody/there {STORE}")
        claim, said = check()
        assert (claim["signatures"]["base"]["kind"], said.count("\n")) == ("published", 1)
        monkeypatch.delenv("HF_LINEAGE_SIGNATURES")
        trusting(own_files, signatures=[STORE])
        assert used() == ("published", "weights")

    def test_it_serves_other_commits_with_the_same_weights(self, store):
        store.push(BASE, "main", {"README.md": b"# New\n"})
        assert used("--set", f"signatures={STORE}") == ("published", "weights")
        store.push(BASE, "main", {"config.json": store.file(BASE, "main", "config.json") + b"\n"})
        assert used("--set", f"signatures={STORE}") == ("weights", "weights")

    def test_what_other_accounts_put_there_is_not_trusted(self, store):
        head = store.hub.commit(STORE, "main")
        store.hub.authors[head] = ("mallory",)
        said = refused("--set", f"signatures={STORE}")
        assert f"the signature in {STORE}/{FOLDER}/{BASE}" in said
        assert "not all of its commits are the owner's," in said

    def test_one_that_is_not_there_is_a_line(self, server):
        assert "nobody/there is not on the Hub" in refused("--set", "signatures=nobody/there")
