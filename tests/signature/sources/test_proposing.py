"""A signature proposed to the Hub: one pull request, brought up to date, never doubled."""

import hashlib

import pytest

from hf_lineage.signature.sources.published import folder_of
from hf_lineage.signature.sources.store import load_signature
from tests.invoking import lineage
from tests.models import WEIGHTS
from tests.server import faults
from tests.signatures import BASE, CHILD, FILE, STORE, publish

TITLE = f"Add the lineage signature of {BASE}"


def push(*arguments, model=BASE):
    found = lineage("extract", model, "--push", *arguments)
    assert (found.code, found.err) == (0, "")
    return found.out.splitlines()


def test_a_pull_request_is_opened_with_a_file_that_says_what_it_was_made_from(server):
    commit = server.hub.commit(BASE, "main")
    first, *files = push()
    assert first == f"Opened a pull request: {server.hub.url}/{BASE}/discussions/1"
    assert server.made == [(BASE, "refs/pr/1", [FILE])]
    assert server.proposals[0]["title"] == TITLE
    content = server.file(BASE, "refs/pr/1", FILE)
    assert files == [f"{hashlib.sha256(content).hexdigest()}  {FILE}"]
    found = load_signature(server.hub.published[BASE]["refs/pr/1"] / FILE)
    assert (found.model, found.commit) == (BASE, commit)
    weights = hashlib.sha256(server.file(BASE, "main", WEIGHTS)).hexdigest()
    assert found.made_from[WEIGHTS] == weights
    assert set(found.made_from) == {"factorization", "config.json", WEIGHTS}


def test_a_second_time_it_is_up_to_date(server):
    push()
    assert push()[0] == "Pull request 1 is already up to date; nothing was written."
    assert len(server.made) == 1


def test_the_open_one_is_brought_up_to_date(server):
    push()
    assert push("--paths", "mlp,value_output")[0].startswith("Updated pull request 1: ")
    assert [(where, len(files)) for _, where, files in server.made] == [("refs/pr/1", 1), ("refs/pr/1", 1)]
    assert len(server.proposals) == 1
    push("--set", "recipe=paper")
    assert len(list((server.hub.published[BASE]["refs/pr/1"] / "lineage").iterdir())) == 3


def test_once_it_is_merged_nothing_is_left_to_do_until_the_weights_change(server):
    publish(server)
    assert push()[0] == "Already up to date; nothing was written."
    server.push(BASE, "main", {"README.md": b"# New\n"})
    assert push()[0] == "Already up to date; nothing was written."
    server.push(BASE, "main", {"config.json": server.file(BASE, "main", "config.json") + b"\n"})
    assert push()[0] == f"Opened a pull request: {server.hub.url}/{BASE}/discussions/2"


def test_what_others_put_into_ours_is_replaced(server):
    push()
    right = server.file(BASE, "refs/pr/1", FILE)
    server.push(BASE, "refs/pr/1", {FILE: b"\0" * len(right)}, "mallory")
    assert push()[0].startswith("Updated pull request 1: ")
    assert server.file(BASE, "refs/pr/1", FILE) == right


def test_a_signature_repository_has_a_folder_for_each_commit(server, tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store/README.md").write_text("# Signatures\n")
    server.hub.publish(STORE, tmp_path / "store")
    for model in (BASE, CHILD):
        push("--to", STORE, model=model)
    commit = server.hub.commit(BASE, "main")
    assert server.made[0] == (STORE, "refs/pr/1", [FILE.replace("lineage", folder_of(BASE, commit))])
    assert [each["title"] for each in server.proposals] == [TITLE, TITLE.replace(BASE, CHILD)]
    assert push("--to", STORE)[0] == "Pull request 1 is already up to date; nothing was written."


def test_the_weights_are_read_once_and_then_our_own_cache_serves(server, monkeypatch):
    push()
    server.hub.forget()
    push()
    assert not [part for part in server.hub.parts if part.file.endswith(WEIGHTS) and part.start]
    push("--set", "recompute=yes")
    assert [part for part in server.hub.parts if part.file.endswith(WEIGHTS) and part.start]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (BASE, "--set", "probes=exact", "--push"),
            "a signature with probes=exact is as large as the weights; leave probes=exact",
        ),
        ((f"{BASE}@v2", "--push"), "a pull request is made against the main branch; leave @v2 out, or use --to"),
        ((BASE, "--to", STORE), "--to names the repository for --push; give both"),
        (("examples/hub/acme/llama-base", "--push"), "is not a model on the Hub"),
        (("nobody/there", "--push"), "nobody/there is not on the Hub"),
    ],
)
def test_what_cannot_be_proposed_is_said_before_anything_is_read(server, tmp_path, arguments, message):
    server.hub.publish(BASE, tmp_path / "child", revision="v2")
    assert message in lineage("extract", *arguments).error
    assert server.hub.parts == []


def test_without_an_account_there_is_one_line(server, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    error = lineage("extract", BASE, "--push").error
    assert error == f"{BASE}: writing needs an account; run `hf auth login` or set HF_TOKEN"


def test_a_refusal_is_one_line(server):
    server.refusal = 403
    assert "the Hub refuses the change (403)" in lineage("extract", BASE, "--push").error


def test_an_upload_that_breaks_off_leaves_nothing(server):
    server.hub.plan(faults.unavailable, "PUT", times=100)
    error = lineage("extract", BASE, "--push").error
    assert error.startswith(f"{BASE}: the upload failed (")
    assert error.endswith("); run again")
    assert server.made == []
