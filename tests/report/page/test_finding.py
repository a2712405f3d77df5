"""What a page says of any finding, without what is for those who run the command.

The commit of a model: linked where the model is on the Hub, else the reason why there is none.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from hf_lineage.hub.reference import RepoRef
from hf_lineage.report.findings.finding import Bar, Bars, Finding, Table
from hf_lineage.report.page.finding import (
    HINTS,
    Commit,
    commit_of_base,
    commit_of_model,
    draw,
    is_shown_apart,
    show,
    without_hint,
)
from hf_lineage.signature.sources.origin import Origin
from tests.pages import measured, report, row


@pytest.mark.parametrize("hint", HINTS)
def test_what_only_the_command_line_can_do_is_left_out_at_the_end_alone(hint):
    assert without_hint(f"it was read{hint}") == "it was read"
    assert without_hint(f"it was read{hint}, or not") == f"it was read{hint}, or not"


def test_a_bar_has_its_interval_and_nothing_else_where_that_is_too_wide():
    clear, unclear = (draw(Bar("<b>", 0.5, -3.0, 4.0, told)) for told in (True, False))
    assert 'class="share"' in clear
    assert 'class="share"' not in unclear
    assert "M0 7H200" in unclear


def test_any_finding_has_its_tables_its_bars_and_its_sentences():
    tables = (Table("few", ("A", "B"), (("<x>", "1"),)), Table("many", ("A",), (("y",),) * 12))
    picture = Bars((Bar("<b>", 0.5, 0.4, 0.6),), "what <it> shows")
    finding = Finding("Toy", sentences=(f"one thing{HINTS[0]}",), tables=tables, picture=picture)
    page = show(finding, "claim 1, ")
    assert 'aria-label="claim 1, few"' in page
    assert page.count("<details>") == 1
    assert "<dt>&lt;b&gt;</dt>" in page
    assert "what &lt;it&gt; shows</figcaption>" in page
    assert '<p class="exact">One thing.</p>' in page
    assert '<details open="">' in show(finding, explain=True)
    assert is_shown_apart(finding)
    assert not is_shown_apart(Finding("Toy", sentences=("one thing",)))


A, B = "a" * 40, "b" * 40
WEIGHTS, FILE = (Origin(kind) for kind in ("weights", "file"))


def test_a_commit_on_the_hub_has_an_address():
    on_hub = replace(report(commit=A), source=RepoRef("org/model", Path("/cache"), A, remote="org/model"))
    assert commit_of_model(on_hub).address == f"https://huggingface.co/org/model/tree/{A}"
    of_base = commit_of_base(replace(row(commit=B), base_origin=WEIGHTS))
    assert (of_base.name, of_base.address) == (B, f"https://huggingface.co/org/base/tree/{B}")


def test_a_folder_has_no_commit_and_says_why():
    local = replace(report(row(mlp=measured())), source=RepoRef("./x", Path("x")))
    assert commit_of_model(local) == Commit(None, None, "read from a folder")
    assert commit_of_model(replace(local, source=None)) == Commit(None, None, "given as a stored signature")
    assert commit_of_base(replace(row(), base_origin=WEIGHTS)).reason == "read from a folder"
    assert commit_of_base(row()).reason == "nothing of it was read"


def test_the_commit_that_a_stored_signature_names_is_not_linked():
    assert commit_of_model(replace(report(commit=A), source=None)).address is None
    stored = replace(row("base.lineage.safetensors", commit=B), base_origin=FILE)
    assert (commit_of_base(stored).name, commit_of_base(stored).address) == (B, None)


@pytest.mark.parametrize("name", ["javascript:alert(1)", "//evil.example", "a/b\"onclick='x'", "../../x", "<b>"])
def test_hostile_names_and_commits_are_never_addresses(name):
    hostile = replace(row(name, commit=name, mlp=measured()), base_origin=WEIGHTS)
    remote = RepoRef("org/model", Path("/cache"), A, remote="org/model")
    assert commit_of_base(hostile).address is None
    assert commit_of_model(replace(report(commit=name), source=remote)).address is None
