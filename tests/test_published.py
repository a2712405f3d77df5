"""A published signature stands for the weights of a base if it can be believed, and for those of no other model."""

import hashlib
import json
import logging
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as load_weights
from safetensors.torch import save as save_weights

from hf_lineage import trees, vetting
from hf_lineage.published import FOLDER, file_name, folder_of
from hf_lineage.signature import RECIPES
from hf_lineage.store import encode, load_signature
from tests.conftest import LAYERS
from tests.models import WEIGHTS, raw_safetensors
from tests.running import lineage

BASE, CHILD, STORE = "acme/base", "fern/child", "lib/signatures"
FILE = f"{FOLDER}/{file_name(RECIPES['robust'], 'mlp')}"


@pytest.fixture
def published(server):
    """The base's owner has published its signature; nothing is kept on this machine."""
    publish(server)
    return server


def publish(server, *arguments, model=BASE):
    """Propose what `extract --push` does, and merge it."""
    found = lineage("extract", model, "--push", *arguments)
    assert found.code == 0, found.err
    where = arguments[arguments.index("--to") + 1] if "--to" in arguments else model
    number = len(server.proposals)
    server.hub.published[where]["main"] = server.hub.published[where][f"refs/pr/{number}"]
    server.proposals[number - 1]["status"] = "merged"
    return found.out


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    """What is published is all there is: our own cache would come before it."""
    monkeypatch.setattr("hf_lineage.cache.find", lambda *arguments: None)


def check(*arguments, model=CHILD):
    """What a check says, and what it says besides."""
    notes = StringIO()
    handler, logger = logging.StreamHandler(notes), logging.getLogger("hf_lineage")
    logger.addHandler(handler)
    found = lineage("check", model, "--format", "json", "--permutations", "199", *arguments)
    logger.removeHandler(handler)
    assert found.code in (0, 1), found
    (claim,) = json.loads(found.out)["claims"]
    return claim, found.err + notes.getvalue()


def used(*arguments, **kwargs):
    """Where the numbers of base and model came from, without a word on standard error."""
    claim, said = check(*arguments, **kwargs)
    assert said == ""
    assert claim["verdict"] == "RELATED"
    return tuple(claim["signatures"][who]["kind"] for who in ("base", "model"))


def refused(*arguments, **kwargs):
    """Why what is published was not used; the weights were, and said what they say."""
    claim, said = check(*arguments, **kwargs)
    assert claim["signatures"]["base"]["kind"] == "weights"
    assert claim["verdict"] == "RELATED"
    assert said.count("\n") == 1, said
    return said.strip()


def base_weights(hub):
    """Bytes of the base's weights that were sent, besides headers."""
    return sum(part.stop - part.start for part in hub.parts if part.file == f"{BASE}/{WEIGHTS}" and part.start)


def digest(server, name=BASE, file=FILE):
    return hashlib.sha256(server.file(name, "main", file)).hexdigest()


def trusting(own_files, *pins, **others):
    file = own_files / "config/hf-lineage/trust.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"pinned": list(pins)} | others))
    return file


def pin(server, **changes):
    signature = load_signature(server.hub.published[BASE]["main"] / FILE)
    return {"model": BASE, "commit": signature.revision, "sha256": digest(server)} | changes


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
        theirs, ours = check("--budget", "full")[0], check("--budget", "full", "--recompute")[0]
        assert (theirs["paths"], ours["signatures"]["base"]["kind"]) == (ours["paths"], "weights")

    def test_the_text_says_where_it_is_and_why_it_is_believed(self, published):
        said = lineage("check", CHILD).sentences
        assert f"the signature of the base is published in {BASE}: {FILE} (sha256 {digest(published)})" in said
        assert "believed because the owner of acme/base committed it" in said

    def test_compare_takes_it_for_the_first_model_alone(self, published):
        for a, b, expected in ((BASE, CHILD, ("published", "weights")), (CHILD, BASE, ("weights", "weights"))):
            claim = json.loads(lineage("compare", a, b, "--format", "json").out)["claims"][0]
            assert tuple(claim["signatures"][who]["kind"] for who in ("base", "model")) == expected

    def test_a_record_beside_the_card_says_so_too(self, published):
        assert lineage("annotate", CHILD, "--write").code == 0
        (claim,) = json.loads(published.file(CHILD, "main", "lineage/claims.json"))["claims"]
        assert claim["signatures"]["base"]["files"] == {FILE: digest(published)}
        assert "Up to date already" in lineage("annotate", CHILD, "--write").out

    def test_for_an_organisation_its_members_speak(self, server):
        server.account = "ann"
        publish(server)
        assert "it is not from a commit of the owner alone" in refused()
        server.hub.members["acme"] = ("bob", "ann")
        assert used() == ("published", "weights")

    def test_several_paths_are_used_if_all_are_there(self, server):
        publish(server, "--paths", "mlp,value_output")
        assert used() == ("published", "weights")
        assert used("--paths", "value_output,mlp") == ("published", "weights")
        assert used("--paths", "mlp,query_key") == ("weights", "weights")

    @pytest.mark.parametrize("arguments", [("--recompute",), ("--recipe", "paper"), ("--probes", "32"), ("--exact",)])
    def test_what_was_not_asked_for_is_not_looked_at(self, published, arguments):
        published.hub.forget()
        assert used(*arguments) == ("weights", "weights")
        assert not [name for name in published.hub.downloads() if FOLDER in name]

    def test_weights_that_are_on_this_machine_are_read(self, published):
        from huggingface_hub import snapshot_download

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
            f"{BASE}: the signature in {BASE}/{FOLDER} is not used: it is about other files than this model at this "
            "commit has"
        )

    def test_one_from_a_pull_request_is_not_looked_at_whatever_is_asked_for(self, server):
        assert lineage("extract", BASE, "--push").code == 0
        assert used("--base", f"{BASE}@refs/pr/1") == ("weights", "weights")
        assert used("--base", f"{BASE}@{server.hub.commit(BASE, 'refs/pr/1')}") == ("weights", "weights")


class TestNotBelieved:
    def test_a_merged_one_of_a_stranger_is_not(self, server):
        server.account = "mallory"
        publish(server)
        server.hub.forget()
        assert refused() == (
            f"{BASE}: the signature in {BASE}/{FOLDER} is not used: it is not from a commit of the owner alone, and "
            "its sha256 is not pinned"
        )
        assert not [part for part in server.hub.parts if FOLDER in part.file]

    def test_nor_one_of_which_a_stranger_is_an_author_too(self, published):
        published.hub.authors[published.hub.commit(BASE, "main")] = ("acme", "mallory")
        assert "not from a commit of the owner alone" in refused()

    def test_until_its_digest_is_pinned(self, server, own_files, tmp_path):
        server.account = "mallory"
        publish(server)
        file = trusting(own_files, pin(server))
        claim, said = check()
        assert (claim["signatures"]["base"]["trusted"], said) == ("its sha256 is pinned in the trust file", "")
        file.rename(tmp_path / "elsewhere")
        assert "is not pinned" in refused()
        assert used("--trust", tmp_path / "elsewhere") == ("published", "weights")

    @pytest.mark.parametrize("change", [{"model": "acme/other"}, {"sha256": "0" * 64}, {"commit": "0" * 40}])
    def test_a_pin_is_about_one_file_of_one_model_at_one_commit(self, server, own_files, change):
        server.account = "mallory"
        publish(server)
        trusting(own_files, pin(server, **change))
        refused()

    def test_a_models_own_is_never_believed(self, server):
        server.account = "fern"
        publish(server, model=CHILD)
        assert used() == ("weights", "weights")

    def test_a_suspect_cannot_speak_through_one_about_its_base(self, server):
        """The child publishes its own numbers, under the name of the base, where its owner may write."""
        publish(server, model=BASE)
        forged = replace(load_signature(server.hub.published[BASE]["main"] / FILE), model=CHILD)
        server.push(CHILD, "main", {FILE: encode(forged)})
        assert used() == ("published", "weights")

    def test_a_hub_that_does_not_say_who_it_was_is_not_enough(self, published):
        from tests.hub import faults

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
        parts,
        sketch=parts.sketch[:rows, :width, :width].copy(),
        corner=parts.corner[:rows, :width, :width].copy(),
        trace=parts.trace[:rows].copy(),
        norm=parts.norm[:rows].copy(),
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
            (lambda s, _: replace(s, model="acme/other"), "it is about other model than"),
            (lambda s, _: replace(s, architecture="MistralForCausalLM"), "it is about other class than"),
            (lambda s, _: replace(s, factorization="gemma"), "it is about other factorization than"),
            (lambda s, _: replace(s, exchangeable=False), "it is about other null than"),
            (lambda s, _: replace(s, recipe=replace(s.recipe, cap=3.0)), "it is about other recipe than"),
            (lambda s, _: replace(s, paths={"mlp_gate": s.paths["mlp"]}), "it is about other paths than"),
            (lambda s, _: replace(s, made_from={}), "it is about other files than"),
            (lambda s, _: replace(s, made_from=s.made_from | {"factorization": "0" * 64}), "it is about other files"),
            (lambda s, _: replace(s, revision=None), "it is about other commit than"),
            (lambda s, _: cut(s, LAYERS, 32), "it is about other width than"),
            (lambda s, _: cut(s, 4, 64), "it is about other layers than"),
            (lambda s, _: first(s, sketch=NANS), "holds numbers that are not finite"),
            (lambda s, _: first(s, norm=np.full(LAYERS, np.nan)), "it holds numbers that are none"),
            (lambda s, _: first(s, norm=np.full(LAYERS, -1.0)), "it holds numbers that are none"),
            (raw(**{"mlp.sketch": np.zeros((LAYERS, 64, 64), np.float16)}), "mlp.sketch is stored as F16, not F32"),
            (padded, "more than a signature of this model can have"),
            (huge_header, "cannot be read as a signature"),
            (lambda s, _: b"", "cannot be read as a signature"),
            (lambda s, _: b"\0" * 100, "cannot be read as a signature"),
        ],
    )
    def test_whatever_is_wrong_is_a_line_and_the_weights_are_read(self, published, change, why):
        forged(published, change)
        said = refused()
        assert said.startswith(f"{BASE}: the signature in {BASE}/{FOLDER} is not used: ")
        assert why in said

    def test_what_claims_ten_gigabytes_is_not_begun(self, published, monkeypatch):
        entries = dict(trees.tree(BASE, published.hub.commit(BASE, "main")))
        entries[FILE] = replace(entries[FILE], size=10 * 2**30)
        monkeypatch.setattr(trees, "tree", lambda *arguments: entries)
        published.hub.forget()
        assert "has 10737418240 bytes, more than a signature of this model can have" in refused()
        assert not [name for name in published.hub.downloads() if FOLDER in name]

    def test_what_is_not_the_file_that_was_listed_is_not_read(self, published, monkeypatch):
        monkeypatch.setattr(vetting.trees, "fetched", lambda *arguments: Path(__file__))
        assert "is not the file that the Hub lists" in refused()


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
        claim, _ = check("--signatures", STORE)
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
        assert used("--signatures", STORE) == ("published", "weights")
        store.push(BASE, "main", {"config.json": store.file(BASE, "main", "config.json") + b"\n"})
        assert used("--signatures", STORE) == ("weights", "weights")

    def test_what_strangers_put_there_is_not_believed(self, store):
        head = store.hub.commit(STORE, "main")
        store.hub.authors[head] = ("mallory",)
        said = refused("--signatures", STORE)
        assert f"the signature in {STORE}/{FOLDER}/{BASE}" in said
        assert "not from a commit of the owner alone" in said

    def test_one_that_is_not_there_is_a_line(self, server):
        assert "nobody/there is neither a folder nor on the Hub" in refused("--signatures", "nobody/there")
