"""A check written into a folder: the card, the record beside it, and nothing else.

The section of a card is a table of the claims, what measures them again, and nothing that a name could add.
"""

import contextlib
import json
import shutil
from pathlib import Path

import jsonschema
import pytest
from markdown_it import MarkdownIt

from hf_lineage import annotate as annotate_module
from hf_lineage import errors
from hf_lineage.annotate import render
from hf_lineage.claims import card as card_module
from hf_lineage.errors import OptionError, SignatureError
from hf_lineage.files import atomic
from hf_lineage.report.json import SCHEMA as schema
from hf_lineage.report.wording import MEANING
from tests import goldens
from tests.hostile import NAMES
from tests.invoking import lineage
from tests.models import WEIGHTS, card, tiny_llama

SEED = ("--seed", "0")


def annotate(hub, *arguments, model="fern/child"):
    return lineage("annotate", model, "--local-hub", hub, *arguments)


def readme(hub):
    return (hub / "fern/child/README.md").read_text(encoding="utf-8")


def claims(hub):
    return json.loads((hub / "fern/child/lineage/claims.json").read_text(encoding="utf-8"))


def content(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_folder_is_not_proposed_whatever_it_was_annotated_for(hub):
    result = annotate_module.annotate(str(hub / "fern/child"), [str(hub / "acme/base")])
    with pytest.raises(OptionError, match="is a folder, but pull requests are for the Hub; use --write"):
        annotate_module.propose(result)


def test_without_a_flag_the_change_is_shown_and_nothing_is_written(hub):
    before = content(hub)
    result = annotate(hub)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(
        "acme/base: VERIFIED inherited\n--- a/README.md\n+++ b/README.md\n@@ -5,3 +5,17 @@\n ---\n \n # A model\n+\n"
    )
    assert result.out.endswith(
        "lineage/claims.json: a new JSON report, with every number\n"
        "Nothing was written; --write changes the files, --pull-request proposes the change on the Hub.\n"
    )
    assert content(hub) == before


def test_writing_twice_is_writing_once(hub):
    before, result = readme(hub), annotate(hub, "--write")
    assert (result.code, result.err) == (0, "")
    assert result.out == "acme/base: VERIFIED inherited\nWrote lineage/claims.json and README.md.\n"
    assert readme(hub).startswith(before)
    after = content(hub)
    again = annotate(hub, "--write")
    assert (again.code, again.out) == (0, "acme/base: VERIFIED inherited\nAlready up to date; nothing was written.\n")
    assert annotate(hub).out == again.out
    assert content(hub) == after
    assert lineage("check", "fern/child", "--local-hub", hub).code == 0


def test_only_related_is_written_as_verified(hub):
    tiny_llama(hub / "acme/other", seed=1)
    tiny_llama(hub / "acme/wide", width=64)
    card(hub / "fern/child", ["acme/base", "acme/other", "acme/wide", "acme/gone", "7"])
    result = annotate(hub, "--write")
    assert result.code == 0
    assert result.out.startswith(
        "acme/base: VERIFIED inherited\nacme/other: UNRELATED\nacme/wide: UNRELATED\n"
        "acme/gone: UNDECIDED no-base\n7: UNDECIDED no-base\n"
    )
    assert readme(hub).count("VERIFIED inherited") == 1
    assert [claim["verified"] for claim in claims(hub)["claims"]] == [True, False, False, False, False]
    commands = [claim["command"].partition(" --seed ")[0] for claim in claims(hub)["claims"]]
    assert [command.partition(" --base ")[2] for command in commands] == [
        *(f"acme/{name} --budget full" for name in ("base", "other", "wide", "gone")), "",
    ]  # fmt: skip


def test_the_record_is_the_report_and_a_setting_writes_another(hub):
    annotate(hub, "--write")
    first = claims(hub)
    jsonschema.validate(first, json.loads(schema.read_text("utf-8")))
    assert first["checked_at"] is None
    shown = lineage("check", "fern/child", "--local-hub", hub, "--budget", "full", *SEED, "--format", "json")
    same = first.keys() - {"checked_at", "command", "claims"}
    assert {key: json.loads(shown.out)[key] for key in same} == {key: first[key] for key in same}
    assert "lineage/claims.json: another JSON report" in annotate(hub, "--seed", "1").out


def test_a_card_with_untrusted_text_is_shown_escaped_and_cut(hub):
    before = readme(hub)
    (hub / "fern/child/README.md").write_text(f"{before}\x1b[31m\u202e{'x' * 10_000}\n", encoding="utf-8")
    text = annotate(hub).out
    assert " \\x1b[31m\\u202exx" in text
    assert max(map(len, text.splitlines())) <= 2001


HOSTILE = (
    "x/`a`|<img src=x onerror=alert(1)>[l](http://evil) @team www.evil.com \u202e\x1b[31m\n```\n"
    '<!-- hf-lineage:end -->\n"; id'
)


def test_a_hostile_name_is_only_text(hub):
    card(hub / "fern/child", ["acme/base", HOSTILE, "org/$(id);`id`"])
    shown = annotate(hub).out + annotate(hub, "--write").out + readme(hub).split("---\n", 2)[2]
    for text in (shown, (hub / "fern/child/lineage/claims.json").read_text()):
        assert not {"\u202e", "\x1b"} & set(text)
    section = readme(hub).split("# A model")[1]
    assert section.count("<!-- hf-lineage:") == 2
    for word in ("<img", "](http", "@team", "www.evil"):
        assert word not in section.partition("```console")[0]
    commands = section.split("```console")[1:]
    assert commands
    assert not any("$(id)" in command.partition("```")[0] for command in commands)
    assert annotate(hub, "--write").out.endswith("Already up to date; nothing was written.\n")


class TestFolder:
    def test_no_path_of_this_machine_is_published(self, hub, monkeypatch):
        monkeypatch.chdir(hub / "fern")
        base, command = hub / "acme/base", "hf-lineage check . --base ../../acme/base --budget full --seed 0"
        for model, typed in ((hub / "fern/child", base), ("./child", "../acme/base"), ("child/.", base)):
            assert lineage("annotate", model, "--base", typed, "--write").code == 0
            assert str(hub) not in readme(hub) + json.dumps(claims(hub))
            assert claims(hub)["claims"][0]["command"] == command
            assert f"$ {command}\n" in readme(hub)
            with contextlib.chdir(hub / "fern/child"):
                assert lineage(*command.split()[1:]).rows[0][-2:] == ["VERIFIED", "inherited"]
        monkeypatch.chdir("child")
        assert "Already up to date" in lineage("annotate", ".", "--base", "../../acme/base").out

    def test_a_reason_names_no_path_of_this_machine_either(self, hub):
        (hub / "fern/child" / WEIGHTS).rename(hub / "fern/child/pytorch_model.bin")
        assert lineage("annotate", hub / "fern/child", "--write").code == 0
        assert claims(hub)["claims"][0]["reason"].startswith("this repository holds its weights as a pickle")
        assert str(hub) not in readme(hub)

    def test_a_stale_card_is_not_overwritten(self, hub):
        result = annotate_module.annotate(str(hub / "fern/child"), [str(hub / "acme/base")], target="write")
        (hub / "fern/child/README.md").write_text("Edited meanwhile.\n")
        with pytest.raises(errors.CardError, match=r"README\.md changed while the model was checked; run again"):
            annotate_module.write(result)
        assert readme(hub) == "Edited meanwhile.\n"
        assert not (hub / "fern/child/lineage").exists()

    @pytest.mark.parametrize("again", [False, True])
    def test_a_card_that_cannot_be_written_leaves_the_old_record(self, hub, monkeypatch, again):
        if again:
            annotate(hub, "--write")
        before = content(hub)

        def fail(file, content):
            if file.name == "README.md":
                raise SignatureError("no space")
            return written(file, content)

        written = atomic.write_atomically
        monkeypatch.setattr(annotate_module, "write_atomically", fail)
        assert annotate(hub, "--write", "--seed", "1").error == "no space"
        assert content(hub) == before

    @pytest.mark.parametrize("link", ["README.md", "lineage"])
    def test_a_link_is_never_written_through(self, hub, link, tmp_path):
        (hub / "elsewhere").mkdir()
        shutil.copy(hub / "fern/child/README.md", hub / "elsewhere/README.md")
        (hub / "fern/child/README.md").unlink()
        (hub / "fern/child" / link).symlink_to(hub / "elsewhere" / link.replace("lineage", "."))
        before = content(hub)
        assert f"{link} is a link, perhaps into a shared cache" in annotate(hub, "--base", "acme/base", "--write").error
        assert content(hub) == before

    def test_a_folder_behind_a_link_of_a_checkout_stays_as_it_is(self, hub, tmp_path, monkeypatch):
        """A workflow that names a folder of the checkout means that folder, not what its author makes of the name."""
        (tmp_path / "checkout").mkdir()
        shutil.copytree(hub / "fern/child", tmp_path / "outside/child")
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
    lineage("extract", hub / "fern/child", "-o", hub / "child.sig")
    assert "child.sig is a signature" in lineage("annotate", hub / "child.sig", "--base", hub / "acme/base").error
    card(hub / "fern/child")
    error = annotate(hub, "--write").error
    assert error == "fern/child declares no base, so there is nothing to write; name a base with --base"
    assert "give --write or --pull-request, not both" in annotate(hub, "--write", "--pull-request").error


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "lineage/claims.json is not a file that hf-lineage wrote (Object missing required field"),
        ("not JSON", "lineage/claims.json is not a file that hf-lineage wrote (JSON is malformed"),
        ('{"schema_version": 6}', "lineage/claims.json was written by a later hf-lineage; update hf-lineage"),
    ],
)
def test_a_record_of_somebody_else_is_left_alone(hub, content, message):
    (hub / "fern/child/lineage").mkdir()
    (hub / "fern/child/lineage/claims.json").write_text(content)
    (hub / "fern/child" / WEIGHTS).write_bytes(b"")
    assert message in annotate(hub, "--write").error
    assert (hub / "fern/child/lineage/claims.json").read_text() == content


def test_a_card_that_cannot_be_edited_is_refused_before_weights_are_read(hub):
    (hub / "fern/child/README.md").write_text(f"---\nbase_model: acme/base\n---\n{card_module.BEGIN}\n")
    (hub / "fern/child" / WEIGHTS).write_bytes(b"")
    assert "(begin in line 4); remove them and run again" in annotate(hub, "--write").error


COMMIT = "0123456789abcdef0123456789abcdef01234567"
GOLDEN = json.loads(goldens.read(goldens.REPORT)) | {"commit": COMMIT}


def recorded(**changes):
    """The committed report, with its one claim changed."""
    (claim,) = GOLDEN["claims"]
    return GOLDEN | {"claims": [claim | changes]}


def rows(text):
    return [line for line in text.splitlines() if line.startswith("|")]


def test_the_section_of_the_committed_record():
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


def test_what_was_not_measured_is_a_dash():
    nothing = {"score": None, "p_value_adjusted": None, "inherited": None, "paths": ()}
    text = render(recorded(verdict="UNDECIDED", code="no-weights", verified=False, **nothing), ("a parent",))
    assert text.startswith("## Lineage\n\na parent\n\n| Base |")
    assert "| acme/llama-base | UNDECIDED no-weights | – | – | – |" in rows(text)


def test_a_reason_is_a_sentence_under_the_table_and_names_the_base_once():
    for reason in ("no weights", "acme/llama-base: no weights"):
        assert "\n\nacme/llama-base: no weights\n\n" in render(recorded(reason=reason, verified=False))


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


@pytest.mark.parametrize("base", ["- x", "1. x", "# x", "    x", "---"])
def test_a_base_that_would_begin_a_block_begins_a_sentence(base):
    text = render(recorded(base=base, reason="it is not a Hub name", verified=False))
    assert f"<p>{base.strip()}: it is not a Hub name</p>" in MarkdownIt().render(text)
