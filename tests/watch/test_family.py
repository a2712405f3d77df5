"""The family tree of what is watched is rewritten when something is new, and read from the Hub alone."""

from tests.models import card, fine_tuned, tiny_llama
from tests.watching import watch


def test_the_page_has_every_model_and_the_base_that_it_declares(hub, ledger, tmp_path):
    page = tmp_path / "fern.html"
    shown = watch(ledger, "fern", "--tree", page)
    assert (shown.code, shown.err) == (1, "")
    text = page.read_text(encoding="utf-8")
    assert "fern/child from acme/base: verified" in text
    assert "fern/liar from acme/base: contradicted" in text
    assert "<title>Family tree of 4 models</title>" in text
    assert "@" not in text.partition("</svg>")[0].partition("<svg")[2]


def test_the_page_stays_where_nothing_is_new_and_is_written_anew_where_something_is(hub, ledger, tmp_path):
    page = tmp_path / "fern.html"
    watch(ledger, "fern", "--tree", page)
    page.write_text("as it was")
    watch(ledger, "fern", "--tree", page)
    assert page.read_text() == "as it was"
    hub.publish("fern/new", card(fine_tuned(tmp_path / "base", tmp_path / "new", seed=3), "acme/base"))
    watch(ledger, "fern", "--tree", page)
    assert "fern/new from acme/base: verified" in page.read_text()
    page.unlink()
    watch(ledger, "fern", "--tree", page)
    assert "Family tree of 5 models" in page.read_text()


def test_a_model_that_cannot_be_read_is_told_and_changes_no_exit_code(hub, ledger, tmp_path, monkeypatch):
    page = tmp_path / "fern.html"
    monkeypatch.setattr("hf_lineage.watch.family.MOST", 2)
    shown = watch(ledger, "fern", "--tree", page)
    assert shown.code == 1
    assert shown.err == "hf-lineage: the tree leaves out 1 of the models, which changed before the 2 others\n"
    assert "fern/plain" not in page.read_text()


def test_a_folder_of_the_name_of_a_model_is_not_read(hub, ledger, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commit = hub.commit("fern/child", "main")
    tiny_llama(tmp_path / f"fern/child@{commit}", seed=9)
    watch(ledger, "fern", "--tree", tmp_path / "fern.html")
    assert "fern/child from acme/base: verified" in (tmp_path / "fern.html").read_text()


def test_a_dry_run_writes_no_page(hub, ledger, tmp_path):
    watch(ledger, "fern", "--tree", tmp_path / "fern.html", "--dry-run")
    assert not (tmp_path / "fern.html").exists()
