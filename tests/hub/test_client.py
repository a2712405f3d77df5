"""What is asked of the Hub and what is made of it; what its client logs meanwhile is translated, and only meanwhile."""

import logging
import shutil
import threading
from dataclasses import replace

import huggingface_hub.file_download
import huggingface_hub.hf_api
import pytest
from huggingface_hub import snapshot_download

from hf_lineage.errors import RepositoryError
from hf_lineage.hub import client
from hf_lineage.hub.client import translated_messages
from tests.invoking import lineage, process
from tests.models import card, fine_tuned, shard, tiny_llama
from tests.server import faults, serving
from tests.server.client import connect, remote

TOKEN = "hf_averysecrettoken"
ADVICE = "You are sending unauthenticated requests to the HF Hub. Please set a HF_TOKEN to enable higher rate limits."
REAL = "Could not reach the Hub (timed out).\nUsing cached commit hash for 'a/b'. ::error::x"


@pytest.fixture
def served(tmp_path):
    """A Hub with a sharded base and a fine-tune that declares it."""
    base = tiny_llama(tmp_path / "base")
    child = card(fine_tuned(base, tmp_path / "child"), "acme/base", "finetune")
    with serving() as running:
        running.publish("acme/base", shard(base))
        running.publish("fern/child", child)
        yield running


def test_a_claim_is_checked_end_to_end_and_again_without_a_network(served, tmp_path, monkeypatch):
    """Nothing is logged of the Hub's advice, or of a temporary failure that the client repeats itself."""
    commit = served.commit("fern/child", "main")
    advising = {"X-HF-Warning": f"unauthenticated; {ADVICE}"}
    served.plan(lambda right: replace(right, headers={**right.headers, **advising}), "GET hub/api/models/fern")
    served.plan(faults.unavailable, "HEAD hub/fern")
    first = process("check", "fern/child", env=remote(served, tmp_path / "home"))
    assert (first.code, first.err, [fault for fault in served.faults if fault.left]) == (0, "", [])
    assert first.out.startswith(f"fern/child @ {commit}\n")
    assert (first.rows[0][0], first.rows[0][-1]) == ("acme/base", "inherited")
    connect(served, tmp_path / "home/hub", monkeypatch)
    for model in ("fern/child", "acme/base"):
        snapshot_download(model)
    served.forget()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    again = lineage("check", "fern/child")
    assert (again.code, again.err, again.rows) == (first.code, first.err, first.rows)
    assert (served.requests, served.parts) == ([], [])


def test_only_what_is_needed_is_downloaded(online, tmp_path):
    for file in ("pytorch_model.bin", "tokenizer.json", "modeling_child.py", "onnx/model.safetensors", "model.gguf"):
        (tmp_path / "child" / file).parent.mkdir(exist_ok=True)
        (tmp_path / "child" / file).write_bytes(b"unwanted")
    assert lineage("check", "fern/child").code == 0
    shards = {f"acme/base/model-0000{number}-of-00002.safetensors" for number in (1, 2)}
    base = {"acme/base/config.json", "acme/base/model.safetensors.index.json"}
    child = {f"fern/child/{file}" for file in ("README.md", "config.json", "model.safetensors")}
    assert online.downloads() == {*base, *shards, *child}


def test_where_nothing_is_declared_or_can_be_read_no_weights_are_downloaded(online, tmp_path):
    assert lineage("check", "acme/base").code == 3
    assert online.downloads() == {"acme/base/config.json", "acme/base/model.safetensors.index.json"}
    online.forget()
    (tmp_path / "child/model.safetensors").rename(tmp_path / "child/pytorch_model.bin")
    found = lineage("check", "fern/child")
    assert (found.code, found.rows[0][-1]) == (3, "unsupported")
    assert "fern/child holds its weights as a pickle (pytorch_model.bin), which is never loaded" in found.sentences
    assert online.downloads() == {"fern/child/README.md", "fern/child/config.json"}


def test_a_revision_is_pinned_to_its_commit_and_commands_take_a_name_of_the_hub(online, tmp_path):
    other = card(tiny_llama(tmp_path / "v2", seed=1), "acme/base")
    commit = online.publish("fern/child", other, revision="v2")
    found = lineage("check", "fern/child@v2")
    assert found.out.startswith(f"fern/child@v2 @ {commit}\n")
    assert (found.code, found.rows[0][-1]) == (1, "UNRELATED")
    assert (lineage("check", f"fern/child@{commit}").code, lineage("check", "fern/child").code) == (1, 0)
    online.publish("acme/base", other, revision="v2")
    assert lineage("check", "fern/child", "--base", "acme/base@v2").code == 1
    assert lineage("check", "fern/child", "--base", "acme/base@main").code == 0
    assert lineage("extract", "fern/child", "-o", tmp_path / "child.sig").code == 0
    assert lineage("compare", "acme/base", tmp_path / "child.sig").code == 0
    assert lineage("inspect", "acme/base").out.startswith("acme/base: LlamaForCausalLM, factorization llama, 2 layers")


@pytest.mark.parametrize(("refusal", "message"), [
    ((403, "GatedRepo"), "acme/base is gated: request access on its page; the account of your token has no access"),
    ((401, "RepoNotFound"), "acme/base is not on the Hub, or is private; check the name, or whether"),
    ((404, "RevisionNotFound"), "acme/base has no such revision on the Hub; check the part after the @"),
], ids=["gated", "private", "no revision"])  # fmt: skip
def test_what_is_refused_is_undecided_as_a_base_and_an_error_as_the_model(online, refusal, message, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    online.refused["acme/base"] = refusal
    found = lineage("check", "fern/child")
    assert (found.code, found.err) == (3, "")
    assert found.rows == [["acme/base", "-", "-", "-", "UNDECIDED", "no-base"]]
    assert (message in found.sentences, f"Bearer {TOKEN}" in online.tokens) == (True, True)
    error = lineage("check", "acme/base", "--base", "fern/child").error
    assert message in error
    assert TOKEN not in found.out + error


@pytest.mark.parametrize(("status", "said"), [(503, "Server error '503"), (429, "429 Too Many Requests")])
def test_a_hub_that_answers_nothing_says_nothing_about_a_model(online, tmp_path, monkeypatch, status, said):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    online.refused["acme/base"] = (status, "")
    for arguments in (["fern/child"], ["acme/base", "--base", "fern/child"]):
        outcome = lineage("check", *arguments)
        assert outcome.error.startswith("acme/base cannot be fetched from the Hub by HF_ENDPOINT http://127.0.0.1:")
        assert outcome.error.endswith("; check the connection and try again")
        assert (outcome.code, f" ({said}" in outcome.error, TOKEN in outcome.error) == (4, True, False)
    online.refused.clear()
    (tmp_path / "base/model-00002-of-00002.safetensors").unlink()
    error = lineage("compare", "acme/base", "fern/child").error
    assert "names the shard model-00002-of-00002.safetensors, which is missing" in error
    monkeypatch.setenv("HF_OIDC_RESOURCE", "fern/child")
    monkeypatch.setenv("GITHUB_ACTIONS", "false")
    monkeypatch.delenv("HF_TOKEN")
    error = lineage("check", "fern/child").error
    assert error.startswith("fern/child: the token for HF_OIDC_RESOURCE cannot be obtained (")
    assert "give the job `permissions: id-token: write`" in error


@pytest.mark.parametrize("base", ["{here}/base", "./base", "../base", "acme/base"])
def test_a_card_of_the_hub_opens_no_folder_of_this_machine(online, tmp_path, monkeypatch, base):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tmp_path / "base", tmp_path / "acme/base")
    online.refused["acme/base"] = (404, "RepoNotFound")
    card(tmp_path / "child", base.format(here=tmp_path))
    found = lineage("check", "fern/child")
    path = "It is a path on the machine that trained the model, not a name"
    why = "acme/base is not on the Hub, or is private" if base == "acme/base" else path
    assert (found.code, found.rows[0][-1], why in found.sentences) == (3, "no-base", True)
    error = lineage("check", "fern/child", "--base", "acme/base").error
    assert "there is a folder ./acme/base here: write ./acme/base" in error
    assert lineage("check", "fern/child", "--base", "./acme/base").rows[0][-1] == "inherited"


def test_a_listing_names_every_file_and_a_name_with_wildcards_matches_itself_alone(online, tmp_path):
    names = {"a[1]*.safetensors", "a1.safetensors"}
    for name in names:
        (tmp_path / "child" / name).touch()
    assert names < set(client.listing("fern/child", None))
    with pytest.raises(RepositoryError, match="no/such is not on the Hub"):
        client.listing("no/such", None)
    folder, _ = client.snapshot("fern/child", None, ["a[1]*.safetensors"])
    assert [file.name for file in folder.iterdir()] == ["a[1]*.safetensors"]


@pytest.mark.parametrize("source", client.SOURCES)
def test_a_warning_is_one_line_and_advice_none_and_both_are_as_ever_outside(source, caplog):
    """One that ends earlier in another thread changes nothing for the others."""
    logger = logging.getLogger(f"huggingface_hub.{source}")
    logger.warning(ADVICE)
    with translated_messages(), translated_messages():
        other = threading.Thread(target=lambda: client.ask("a/b", lambda: None))
        other.start()
        other.join()
        for message in (ADVICE, "HTTP Error 503 thrown while requesting GET x", "Retrying in 1s [Retry 1/5].", REAL):
            logger.warning(message)
    logger.warning("%s", REAL)
    told = "the client of the Hub says: Could not reach the Hub (timed out). Using cached commit hash for 'a/b'. "
    assert caplog.messages == [ADVICE, rf"{told}:\x3aerror:\x3ax", REAL]
    modules = (huggingface_hub.file_download, huggingface_hub.hf_api)
    assert {module.logger.name.removeprefix("huggingface_hub.") for module in modules} < {*client.SOURCES}
