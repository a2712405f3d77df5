"""A check written into a folder or to the Hub once: the card, the record beside it, and nothing that a name adds."""

import contextlib
import json
import re
import shutil
from pathlib import Path

import jsonschema
import pytest
from markdown_it import MarkdownIt

from hf_lineage import Options, errors
from hf_lineage import annotate as annotate_module
from hf_lineage.annotate import render
from hf_lineage.claims import card as card_module
from hf_lineage.errors import OptionError, RepositoryError, SignatureError
from hf_lineage.evidence.inherited import MOST
from hf_lineage.files import atomic
from hf_lineage.report.json import SCHEMA as schema
from hf_lineage.report.wording import MEANING
from tests import goldens, models
from tests.hostile import NAMES
from tests.invoking import Outcome, lineage
from tests.models import WEIGHTS, card, family, fine_tuned, tiny_llama
from tests.server.commits import Commits

CARD, RECORD, CHILD = "README.md", "lineage/claims.json", "fern/child"
NOTHING_NEW = "acme/base: VERIFIED inherited\nAlready up to date; nothing was written.\n"
LAYERS = 12


def annotate(hub, *arguments, model=CHILD):
    return lineage("annotate", model, "--local-hub", hub, *arguments)


def readme(hub, model=CHILD):
    return (hub / model / CARD).read_text(encoding="utf-8")


def claims(hub, model=CHILD):
    return json.loads((hub / model / RECORD).read_text(encoding="utf-8"))


def content(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_change_is_shown_and_then_written_once_with_the_report_as_its_record(hub):
    before, card_before = content(hub), readme(hub)
    shown = annotate(hub)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(
        "acme/base: VERIFIED inherited\n--- a/README.md\n+++ b/README.md\n@@ -5,3 +5,17 @@\n ---\n \n # A model\n+\n"
    )
    assert shown.out.endswith(
        "lineage/claims.json: a new JSON report, with every number\n"
        "Nothing was written; --write changes the files, --pull-request proposes the change on the Hub.\n"
    )
    assert content(hub) == before
    assert annotate(hub, "--write") == Outcome(
        0, "acme/base: VERIFIED inherited\nWrote lineage/claims.json and README.md.\n", "")  # fmt: skip
    assert readme(hub).startswith(card_before)
    after = content(hub)
    assert annotate(hub, "--write") == annotate(hub) == Outcome(0, NOTHING_NEW, "")
    assert (content(hub), lineage("check", CHILD, "--local-hub", hub).code) == (after, 0)
    record = claims(hub)
    jsonschema.validate(record, json.loads(schema.read_text("utf-8")))
    assert record["checked_at"] is None
    shown = lineage("check", CHILD, "--local-hub", hub, "--budget", "full", "--seed", "0", "--format", "json")
    same = record.keys() - {"checked_at", "command", "claims"}
    assert {key: json.loads(shown.out)[key] for key in same} == {key: record[key] for key in same}
    assert "lineage/claims.json: another JSON report" in annotate(hub, "--seed", "1").out


def test_only_related_is_written_as_verified(hub):
    tiny_llama(hub / "acme/other", seed=1)
    tiny_llama(hub / "acme/wide", width=64)
    bases = ["acme/base", "acme/other", "acme/wide", "acme/gone", "7"]
    card(hub / CHILD, bases)
    result = annotate(hub, "--write")
    labels = ["VERIFIED inherited", "UNRELATED", "UNRELATED", "UNDECIDED no-base", "UNDECIDED no-base"]
    assert result.code == 0
    assert result.out.splitlines()[:5] == [f"{base}: {label}" for base, label in zip(bases, labels, strict=True)]
    assert readme(hub).count("VERIFIED inherited") == 1
    assert [claim["verified"] for claim in claims(hub)["claims"]] == [True, False, False, False, False]
    commands = [claim["command"].partition(" --seed ")[0].partition(" --base ")[2] for claim in claims(hub)["claims"]]
    assert commands == [*(f"{base} --budget full" for base in bases[:4]), ""]


def test_a_hostile_name_is_only_text_and_a_card_shown_escaped_and_cut(hub):
    card(hub / CHILD, [
        "acme/base", "org/$(id);`id`", "x/`a`|<img src=x onerror=alert(1)>[l](http://evil) @team www.evil.com \u202e"
        '\x1b[31m\n```\n<!-- hf-lineage:end -->\n"; id',
    ])  # fmt: skip
    shown = annotate(hub).out + annotate(hub, "--write").out + readme(hub).split("---\n", 2)[2]
    for text in (shown, (hub / CHILD / RECORD).read_text()):
        assert not {"\u202e", "\x1b"} & set(text)
    section = readme(hub).split("# A model")[1]
    assert section.count("<!-- hf-lineage:") == 2
    for word in ("<img", "](http", "@team", "www.evil"):
        assert word not in section.partition("```console")[0]
    commands = [command.partition("```")[0] for command in section.split("```console")[1:]]
    assert (bool(commands), [command for command in commands if "$(id)" in command]) == (True, [])
    assert annotate(hub, "--write").out.endswith("Already up to date; nothing was written.\n")
    card(hub / CHILD, "acme/base")
    (hub / CHILD / CARD).write_text(f"{readme(hub)}\x1b[31m\u202e{'x' * 10_000}\n", encoding="utf-8")
    text = annotate(hub).out
    assert (" \\x1b[31m\\u202exx" in text, max(map(len, text.splitlines())) <= 2001) == (True, True)


class TestFolder:
    def test_no_path_of_this_machine_is_published(self, hub, monkeypatch):
        monkeypatch.chdir(hub / "fern")
        base, command = hub / "acme/base", "hf-lineage check . --base ../../acme/base --budget full --seed 0"
        for model, typed in ((hub / CHILD, base), ("./child", "../acme/base"), ("child/.", base)):
            assert lineage("annotate", model, "--base", typed, "--write").code == 0
            assert str(hub) not in readme(hub) + json.dumps(claims(hub))
            assert claims(hub)["claims"][0]["command"] == command
            assert f"$ {command}\n" in readme(hub)
            with contextlib.chdir(hub / CHILD):
                assert lineage(*command.split()[1:]).rows[0][-2:] == ["VERIFIED", "inherited"]
        monkeypatch.chdir("child")
        assert "Already up to date" in lineage("annotate", ".", "--base", "../../acme/base").out
        (hub / CHILD / WEIGHTS).rename(hub / "fern/child/pytorch_model.bin")
        assert lineage("annotate", hub / CHILD, "--write").code == 0
        assert claims(hub)["claims"][0]["reason"].startswith("this repository holds its weights as a pickle")
        assert str(hub) not in readme(hub)

    def test_a_stale_card_is_not_overwritten_and_a_folder_not_proposed(self, hub):
        result = annotate_module.annotate(str(hub / CHILD), [str(hub / "acme/base")], target="write")
        with pytest.raises(OptionError, match="is a folder, but pull requests are for the Hub; use --write"):
            annotate_module.propose(result)
        (hub / CHILD / CARD).write_text("Edited meanwhile.\n")
        with pytest.raises(errors.CardError, match=r"README\.md changed while the model was checked; run again"):
            annotate_module.write(result)
        assert (readme(hub), (hub / CHILD / "lineage").exists()) == ("Edited meanwhile.\n", False)

    def test_a_card_that_cannot_be_written_leaves_the_old_record(self, hub, monkeypatch):
        def fail(file, content):
            if file.name == CARD:
                raise SignatureError("no space")
            return atomic.write_atomically(file, content)

        for number in ("1", "2"):  # without a record, and with an old one
            before = content(hub)
            with monkeypatch.context() as patch:
                patch.setattr(annotate_module, "write_atomically", fail)
                assert annotate(hub, "--write", "--seed", number).error == "no space"
            assert content(hub) == before
            annotate(hub, "--write")

    @pytest.mark.parametrize("link", ["README.md", "lineage"])
    def test_a_link_is_never_written_through(self, hub, link, tmp_path):
        (hub / "elsewhere").mkdir()
        shutil.copy(hub / CHILD / CARD, hub / "elsewhere/README.md")
        (hub / CHILD / CARD).unlink()
        (hub / CHILD / link).symlink_to(hub / "elsewhere" / link.replace("lineage", "."))
        before = content(hub)
        assert f"{link} is a link, perhaps into a shared cache" in annotate(hub, "--base", "acme/base", "--write").error
        assert content(hub) == before

    def test_a_folder_behind_a_link_of_a_checkout_stays_as_it_is(self, hub, tmp_path, monkeypatch):
        """A workflow that names a folder of the checkout means that folder, not what its author makes of the name."""
        (tmp_path / "checkout").mkdir()
        shutil.copytree(hub / CHILD, tmp_path / "outside/child")
        (tmp_path / "checkout/model").symlink_to("../outside/child")
        (tmp_path / "checkout/models").symlink_to("../outside")
        before = content(tmp_path / "outside")
        monkeypatch.chdir(tmp_path / "checkout")
        for model, link in (("./model", "model"), ("./models/child", "models"), (f"{Path.cwd()}/model", "model")):
            outcome = annotate(hub, "--base", "acme/base", "--write", model=model)
            assert outcome.error == (
                f"{model}: {tmp_path / 'checkout' / link} is a link, and hf-lineage does not write through links; "
                "name the file or folder that it leads to"
            )
        assert content(tmp_path / "outside") == before
        assert annotate(hub, "--base", "acme/base", "--write", model="../outside/child").code == 0


def test_what_gives_no_card_is_one_line(hub):
    told = "a card is written from all layers, so that it can be made again; leave --budget quick out"
    assert annotate(hub, "--budget", "quick", "--write").error == told
    lineage("extract", hub / CHILD, "-o", hub / "child.sig")
    assert "child.sig is a signature" in lineage("annotate", hub / "child.sig", "--base", hub / "acme/base").error
    card(hub / CHILD)
    told = "fern/child declares no base, so there is nothing to write; name a base with --base"
    assert annotate(hub, "--write").error == told
    assert "give --write or --pull-request, not both" in annotate(hub, "--write", "--pull-request").error


def test_a_record_or_card_of_somebody_else_is_left_alone_before_weights_are_read(hub):
    (hub / CHILD / "lineage").mkdir()
    (hub / CHILD / WEIGHTS).write_bytes(b"")
    for content, message in (
        ("{}", "lineage/claims.json is not a file that hf-lineage wrote (Object missing required field"),
        ("not JSON", "lineage/claims.json is not a file that hf-lineage wrote (JSON is malformed"),
        ('{"schema_version": 6}', "lineage/claims.json was written by a later hf-lineage; update hf-lineage"),
    ):
        (hub / CHILD / RECORD).write_text(content)
        assert message in annotate(hub, "--write").error
        assert (hub / CHILD / RECORD).read_text() == content
    (hub / CHILD / RECORD).unlink()
    (hub / CHILD / CARD).write_text(f"---\nbase_model: acme/base\n---\n{card_module.BEGIN}\n")
    assert "(begin in line 4); remove them and run again" in annotate(hub, "--write").error


COMMIT = "0123456789abcdef0123456789abcdef01234567"
GOLDEN = json.loads(goldens.read(goldens.REPORT)) | {"commit": COMMIT}


def recorded(**changes):
    (claim,) = GOLDEN["claims"]
    return GOLDEN | {"claims": [claim | changes]}


def test_the_section_of_the_committed_record_and_of_what_was_not_measured():
    lines = render(recorded(score=0.99459, p_value_adjusted=0.0051)).splitlines()
    assert lines == [
        "## Lineage",
        "",
        "| Base | Verdict | Score | Inherited | p |",
        "| --- | --- | --- | --- | --- |",
        "| acme/llama-base | VERIFIED inherited | 0.995 | 100% | 0.0051 |",
        "",
        f"Checked by hf-lineage {GOLDEN['tool']['version']} (fern/llama-finetune-a at {COMMIT}). "
        f"Every number: [lineage/claims.json](lineage/claims.json). {MEANING}",
        "",
        "```console",
        f"$ {GOLDEN['claims'][0]['command']}",
        "```",
    ]
    nothing = {"score": None, "p_value_adjusted": None, "inherited": None, "paths": ()}
    text = render(recorded(verdict="UNDECIDED", code="no-weights", verified=False, **nothing), ("a parent",))
    assert text.startswith("## Lineage\n\na parent\n\n| Base |")
    assert "\n| acme/llama-base | UNDECIDED no-weights | – | – | – |\n" in text
    for reason in ("no weights", "acme/llama-base: no weights"):
        assert "\n\nacme/llama-base: no weights\n\n" in render(recorded(reason=reason, verified=False))
    for base in ("- x", "1. x", "# x", "    x", "---"):  # these would begin a block
        text = render(recorded(base=base, reason="it is not a Hub name", verified=False))
        assert f"<p>{base.strip()}: it is not a Hub name</p>" in MarkdownIt().render(text)


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_adds_no_block_to_the_card_and_ends_no_section(name):
    text = render(recorded(base=name, reason=name, verified=False, command=f"hf-lineage check '{name}'"))
    blocks, plain = (
        [token.type for token in MarkdownIt("commonmark").enable("table").parse(each) if token.level == 0]
        for each in (text, render(recorded(reason="because", verified=False)))
    )
    assert blocks == plain
    whole = card_module.with_section("# Title\n", text)
    assert card_module.with_section(whole, "") == card_module.with_section("# Title\n", "")


@pytest.fixture
def deep(tmp_path, monkeypatch):
    """A local hub of models of many layers, with more units in a layer than are looked up."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(models, "HIDDEN", 2 * MOST)
    base = tiny_llama(tmp_path / "acme/base", layers=LAYERS)
    card(fine_tuned(base, tmp_path / CHILD, noise=0.6), "acme/base", "finetune")
    return tmp_path


def test_a_card_is_written_from_all_layers_and_again_where_a_check_says_otherwise(deep):
    assert annotate(deep, "--write").code == 0
    before = content(deep)
    assert claims(deep)["claims"][0]["paths"][0]["layers_read"] == LAYERS
    assert (annotate(deep, "--write").out, content(deep)) == (NOTHING_NEW, before)
    kept = json.loads(before[deep / CHILD / RECORD])
    (claim,) = kept["claims"]
    for change in ({"score": -0.99}, {"score": claim["score"] * 1.0001}, {"verdict": "UNRELATED"}, {"command": "rm /"}):
        record = kept | {"claims": [claim | change]}
        (deep / CHILD / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        changed, out = content(deep), annotate(deep, "--write").out.splitlines()[-1]
        is_noise = change.get("score", 0) > 0  # a number of another machine, which stays
        assert out == ("Already up to date; nothing was written." if is_noise else f"Wrote {RECORD}.")
        assert content(deep) == (changed if is_noise else before)


def test_a_section_that_calls_verified_what_is_not_loses_its_word(deep):
    new = tiny_llama(deep / "acme/new", layers=LAYERS, seed=5)
    tensors = models.load_file(deep / "acme/base" / WEIGHTS)
    grafted = {name: value for name, value in tensors.items() if ".layers.3." in name or "embed_tokens" in name}
    models.spoil(card(new, "acme/base", "finetune"), lambda own: own.update(grafted))
    section = "<!-- hf-lineage:begin -->\n| acme/base | finetune | VERIFIED inherited |\n<!-- hf-lineage:end -->\n"
    with (new / CARD).open("a") as file:
        file.write(section)
    assert annotate(deep, "--write", model="acme/new").out.splitlines()[0] == "acme/base: RELATED part"
    written = readme(deep, "acme/new")
    assert ("RELATED part" in written, "VERIFIED inherited" in written) == (True, False)
    (claim,) = claims(deep, "acme/new")["claims"]
    assert (claim["verified"], claim["code"], claim["exit_code"]) == (False, "part", 3)


@pytest.mark.parametrize("is_gone", [False, True], ids=["out of reach", "gone"])
def test_a_verified_base_stays_verified_where_the_hub_cannot_be_asked_alone(hub, monkeypatch, is_gone):
    assert annotate(hub, "--write").code == 0
    shutil.rmtree(hub / "acme/base")
    if is_gone:
        monkeypatch.setattr("hf_lineage.hub.client.offline", lambda: False)
    else:
        before, refused = content(hub), annotate(hub, "--write")
        assert (refused.code, content(hub)) == (2, before)
        told = f"acme/base was verified before ({RECORD} records it), but cannot be read now because HF_HUB_OFFLINE"
        assert told in refused.error
        (hub / CHILD / RECORD).unlink()
    assert annotate(hub, "--write").code == 0
    assert "UNDECIDED" in readme(hub)


@pytest.fixture
def server(online, tmp_path, monkeypatch):
    """A Hub that takes commits, with a base and a fine-tune that declares it, which are small."""
    family(tmp_path)
    for name in ("acme/base", CHILD):
        online.publish(name, tmp_path / name)
    (tmp_path / "commits").mkdir()
    monkeypatch.setenv("HF_TOKEN", "hf_averysecrettoken")
    return Commits(online, tmp_path / "commits").attach()


def annotate_there(*arguments, model=CHILD):
    """Annotate a model of the Hub that is served, and show the token to nobody."""
    result = lineage("annotate", model, *arguments)
    assert "hf_averysecrettoken" not in result.out + result.err
    return result


class TestPullRequest:
    def test_it_is_opened_once_with_both_files_and_updated_until_it_is_merged(self, server):
        shown = annotate_there()
        assert (shown.code, "+++ b/README.md" in shown.out, server.made) == (0, True, [])
        assert all(request.startswith(("GET", "HEAD")) for request in server.hub.requests)
        assert "GET /api/whoami-v2" not in server.hub.requests, "nothing is asked that needs an account"
        checked, base = server.hub.commit(CHILD, "main"), server.hub.commit("acme/base", "main")
        opened = f"Opened a pull request: {server.hub.url}/{CHILD}/discussions/1\n"
        assert annotate_there("--pull-request") == Outcome(0, f"acme/base: VERIFIED inherited\n{opened}", "")
        assert server.made == [(CHILD, "refs/pr/1", [CARD, RECORD])]
        assert server.hub.commit(CHILD, "main") == checked
        text = server.file(CHILD, "refs/pr/1", CARD).decode()
        assert text.startswith(server.file(CHILD, "main", CARD).decode())
        options = "--budget full --seed 0"
        assert f"$ hf-lineage check {CHILD}@{checked} --base acme/base@{base} {options}\n" in text
        assert f"({CHILD} at {checked}, acme/base at {base})" in text
        assert server.proposals[0]["title"] == annotate_module.TITLE
        server.push(CHILD, "refs/pr/1", {CARD: server.file(CHILD, "refs/pr/1", CARD) + b"A reviewer's line.\n"})
        tip = server.hub.commit(CHILD, "refs/pr/1")
        updated = f"acme/base: VERIFIED inherited\nUpdated pull request 1: {server.hub.url}/{CHILD}/commit/"
        assert annotate_there("--pull-request", "--seed", "1").out.startswith(updated)
        assert (len(server.proposals), server.made[1]) == (1, (CHILD, "refs/pr/1", [CARD, RECORD]))
        assert server.hub.commit(CHILD, "refs/pr/1") != tip
        text = server.file(CHILD, "refs/pr/1", CARD)
        assert (b"--seed 1\n" in text, text.endswith(b"A reviewer's line.\n")) == (True, True)
        server.hub.published[CHILD]["main"] = server.hub.published[CHILD]["refs/pr/1"]
        server.proposals[0]["status"] = "merged"
        assert annotate_there("--pull-request", "--seed", "1").out == NOTHING_NEW

    def test_one_that_moves_is_noticed_and_none_made_against_another_branch(self, server, tmp_path, monkeypatch):
        annotate_there("--pull-request")
        server.hub.publish(CHILD, tmp_path / CHILD, revision="v2")
        error = annotate_there("--pull-request", model=f"{CHILD}@v2").error
        assert error == f"{CHILD}@v2: a pull request is made against the main branch; leave @v2 out"
        result = annotate_module.annotate(f"{CHILD}@main", options=Options(alpha=0.001), target="pull-request")
        found_files = annotate_module._files

        def move(repo):
            files = found_files(repo)
            server.push(CHILD, "refs/pr/1", {CARD: b"Edited meanwhile.\n"})
            return files

        monkeypatch.setattr(annotate_module, "_files", move)
        with pytest.raises(RepositoryError, match="the branch changed during the check; run again"):
            annotate_module.propose(result)


class TestWrite:
    def test_it_commits_once_and_again_when_weights_change_or_they_have_no_such_commit(self, server):
        checked = server.hub.commit(CHILD, "main")
        result = annotate_there("--write")
        head, verified = server.hub.commit(CHILD, "main"), "acme/base: VERIFIED inherited\n"
        assert result == Outcome(0, f"{verified}Committed: {server.hub.url}/{CHILD}/commit/{head}\n", "")
        assert (server.made, head != checked) == ([(CHILD, "main", [CARD, RECORD])], True)
        assert annotate_there("--write").out == NOTHING_NEW
        server.push(CHILD, "main", {CARD: server.file(CHILD, "main", CARD) + b"More.\n"})
        assert (annotate_there("--write").out, len(server.made)) == (NOTHING_NEW, 1)
        server.push(CHILD, "main", {"tokenizer.json": b"{}"})
        head = server.hub.commit(CHILD, "main")
        assert "Committed" in annotate_there("--write").out
        assert f"({CHILD} at {head}, ".encode() in server.file(CHILD, "main", CARD)
        assert server.file(CHILD, "main", CARD).endswith(b"More.\n")
        forged = server.file(CHILD, "main", RECORD)
        for commit in set(re.findall(rb"\b[0-9a-f]{40}\b", forged)):
            if commit.decode() in server.hub.published[CHILD]:
                forged = forged.replace(commit, b"f" * 40)
        head = server.push(CHILD, "main", {RECORD: forged})
        assert "Committed" in annotate_there("--write").out
        assert f"({CHILD} at {head}, ".encode() in server.file(CHILD, "main", CARD)

    def test_a_refusal_is_one_line(self, server):
        at_commit = f"{CHILD}@{server.hub.commit(CHILD, 'main')}"
        assert "names a commit, which cannot change; name a branch" in annotate_there("--write", model=at_commit).error
        for trouble, message in (
            ({"refusal": 403}, "the Hub refuses the change (403): the branch does not exist, pull requests are"),
            ({"refusal": 500}, "the Hub answers 500 by HF_ENDPOINT http"),
            ({"invalid": '"base_model" is odd'}, 'the Hub refuses README.md: Invalid metadata in README.md. - "base_'),
        ):
            vars(server).update({"refusal": 0, "invalid": ""} | trouble)
            assert f"{CHILD}: {message}" in annotate_there("--write").error
        assert server.made == []
