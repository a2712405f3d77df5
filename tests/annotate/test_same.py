"""A second run changes nothing, for it draws nothing anew; without the Hub nothing that was verified is taken back.

A change as a diff: what `patch` would read, with nothing in it that a terminal obeys.
"""

import json
import shutil
import subprocess

import pytest
from hf_lineage.annotate.same import render
from hf_lineage.report.record import record

from hf_lineage.evidence.units.inherited import MOST
from tests import models
from tests.invoking import lineage
from tests.models import card, fine_tuned, tiny_llama

LAYERS = 12
RECORD = "fern/child/lineage/claims.json"


@pytest.fixture
def deep(tmp_path, monkeypatch):
    """A local hub of models of many layers, with more units in a layer than are looked up."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(models, "HIDDEN", 2 * MOST)
    base = tiny_llama(tmp_path / "acme/base", layers=LAYERS)
    card(fine_tuned(base, tmp_path / "fern/child", noise=0.6), "acme/base", "finetune")
    return tmp_path


def annotate(hub):
    return lineage("annotate", "fern/child", "--local-hub", hub, "--write")


def files(hub):
    return {file: (hub / "fern/child" / file).read_bytes() for file in ("README.md", "lineage/claims.json")}


def test_a_card_is_written_from_all_layers_and_again_without_a_change(deep):
    assert annotate(deep).code == 0
    before = files(deep)
    assert json.loads(before["lineage/claims.json"])["claims"][0]["paths"][0]["layers_read"] == LAYERS
    assert annotate(deep).out == "acme/base: VERIFIED inherited\nAlready up to date; nothing was written.\n"
    assert files(deep) == before


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "change",
    [
        lambda claim: claim.update(score=-claim["score"]),
        lambda claim: claim.update(verdict="UNRELATED"),
        lambda claim: claim.update(command="rm -rf /"),
        lambda claim: claim.update(date="2999-01-01"),
    ],
    ids=["score", "verdict", "command", "a day to come"],
)
def test_what_another_check_would_not_say_is_written_anew(deep, change):
    annotate(deep)
    before = files(deep)
    kept = json.loads((deep / RECORD).read_text("utf-8"))
    change(kept["claims"][0])
    (deep / RECORD).write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    assert "Wrote lineage/claims.json" in annotate(deep).out
    assert files(deep) == before


def test_a_share_is_recorded_in_whole_per_cent(deep):
    annotate(deep)
    (claim,) = record.decode(files(deep)["lineage/claims.json"]).claims
    assert claim.inherited == claim.evidence["mlp"].inherited
    assert claim.inherited.share == round(claim.inherited.share, 2)
    assert f"| {claim.inherited.share:.0%} |" in files(deep)["README.md"].decode()


def test_a_section_that_calls_verified_what_is_not_loses_its_word(deep):
    new = tiny_llama(deep / "acme/new", layers=LAYERS, seed=5)
    tensors = models.load_file(deep / "acme/base" / models.WEIGHTS)
    models.spoil(new, lambda own: own.update({"model.embed_tokens.weight": tensors["model.embed_tokens.weight"]}))
    grafted = {name: value for name, value in tensors.items() if ".layers.3." in name}
    card(new, "acme/base", "finetune")
    models.spoil(new, lambda own: own.update(grafted))
    section = "<!-- hf-lineage:begin -->\n| acme/base | finetune | VERIFIED inherited |\n<!-- hf-lineage:end -->\n"
    with (new / "README.md").open("a") as file:
        file.write(section)
    result = lineage(
        "annotate", "acme/new", "--local-hub", deep, "--write", "--budget", "full", "--set", "permutations=1999"
    )
    assert result.out.splitlines()[0] == "acme/base: RELATED part"
    written = (new / "README.md").read_text("utf-8")
    assert "RELATED part" in written
    assert "VERIFIED inherited" not in written
    (claim,) = json.loads((new / "lineage/claims.json").read_text("utf-8"))["claims"]
    assert (claim["verified"], claim["code"], claim["exit_code"]) == (False, "part", 3)


@pytest.fixture
def annotated(hub):
    assert lineage("annotate", "fern/child", "--local-hub", hub, "--write").code == 0
    return hub


def test_a_verified_base_that_cannot_be_read_for_want_of_the_hub_stays_verified(annotated):
    before = files(annotated)
    shutil.rmtree(annotated / "acme/base")
    refused = lineage("annotate", "fern/child", "--local-hub", annotated, "--write")
    assert (refused.code, files(annotated)) == (2, before)
    assert (
        "acme/base was verified before (lineage/claims.json records it), but cannot be read now because HF_HUB_OFFLINE"
        in refused.error
    )


def test_where_nothing_was_verified_the_card_says_that_there_is_nothing_to_compare(hub):
    shutil.rmtree(hub / "acme/base")
    written = lineage("annotate", "fern/child", "--local-hub", hub, "--write")
    assert written.code == 0
    assert b"UNDECIDED" in files(hub)["README.md"]


def test_a_verified_base_that_the_hub_does_not_have_any_more_is_written_down(annotated, monkeypatch):
    shutil.rmtree(annotated / "acme/base")
    monkeypatch.setattr("hf_lineage.hub.client.offline", lambda: False)
    assert lineage("annotate", "fern/child", "--local-hub", annotated, "--write").code == 0
    assert b"UNDECIDED" in files(annotated)["README.md"]


def test_a_change_is_shown_with_the_lines_around_it():
    before = "".join(f"{n}\n" for n in range(9)).encode()
    assert render("f", before, before.replace(b"4\n", b"four\n4a\n")) == (
        "--- a/f\n+++ b/f\n@@ -2,7 +2,8 @@\n 1\n 2\n 3\n-4\n+four\n+4a\n 5\n 6\n 7\n"
    )


def test_a_new_file_comes_from_nowhere_and_no_change_is_nothing():
    assert render("f", None, b"a\n") == "--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+a\n"
    assert render("f", b"a\n", b"a\n") == render("f", b"", b"") == ""


def test_a_missing_last_line_end_is_said():
    assert render("f", b"a", b"a\nb\n").endswith("@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n")


def test_untrusted_text_is_escaped_and_cut():
    text = render("f", "\ufeff\x1b[31m\u202e\r\n".encode() + b"\xff\n", b"x" * 10_000)
    assert "-\\ufeff\\x1b[31m\\u202e\n-\\udcff\n" in text
    assert max(map(len, text.splitlines())) <= 2001


@pytest.mark.skipif(not shutil.which("patch"), reason="needs patch")
@pytest.mark.parametrize(
    ("before", "after"), [([*"abcdefghijklmnop"], [*"abcdefXYZghijkm"]), (["a"] * 50, ["a"] * 20 + ["b"] + ["a"] * 31)]
)
def test_it_is_a_diff_that_patch_applies(before, after, tmp_path):
    old, new = ("".join(f"{line}\n" for line in lines).encode() for lines in (before, after))
    (tmp_path / "f").write_bytes(old)
    subprocess.run(
        ["patch", "-p1"], cwd=tmp_path, input=render("f", old, new).encode(), check=True, capture_output=True
    )
    assert (tmp_path / "f").read_bytes() == new


def test_a_long_change_is_not_compared_line_by_line():
    old, new = (b"".join(b"%d\n" % (n * step % 97) for n in range(5000)) for step in (3, 5))
    assert render("f", old, new).count("\n-") >= 4990
