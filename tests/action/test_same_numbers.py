"""A blend whose card names one of its two parents has the same numbers wherever somebody asks for them."""

import html
import json
import shutil

import pytest

from hf_lineage import Options, action, check, extract
from hf_lineage.index.storage.catalogue import Catalogue
from tests.blends import BASE, A, B, blended
from tests.github import outputs
from tests.invoking import lineage
from tests.models import EXAMPLES

MODEL = "wren/rio"
SENTENCE = (
    f"{B} shows as an undeclared parent: 57% (± 0.1) of {B} and 43% (± 0.1) of {BASE} explain 99.9% of the model; "
    f"nothing was trained after the blend; the model names {BASE} alone"
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A local hub of the blend and its relatives, with an index of these beside it."""
    folder = tmp_path_factory.mktemp("hub")
    catalogue = Catalogue(folder / "index")
    for name in (BASE, A, B):
        shutil.copytree(EXAMPLES / name, folder / name)
        catalogue.add(extract(name, Options(local_hub=folder)))
    blended(folder / MODEL, {BASE: 0.43, B: 0.57})
    return folder


@pytest.fixture(scope="module")
def expected(hub):
    """What Python says of the two parents."""
    return check(MODEL, (BASE, B), Options(local_hub=hub, order_seed=0)).to_dict()["blend"]


def asked(hub, *arguments, code=3, command="check"):
    shown = lineage(command, MODEL, "--local-hub", hub, *arguments)
    assert shown.code == code
    return shown


@pytest.mark.long
def test_the_command_says_them_by_an_index_and_by_bases_that_are_named(hub, expected):
    for how in (("--index", hub / "index"), ("--base", BASE, "--base", B)):
        assert json.loads(asked(hub, *how, "--format", "json").out)["blend"] == expected
        assert SENTENCE in asked(hub, *how).sentences
    assert [round(one["share"], 3) for one in expected["parents"]] == [0.43, 0.57]


@pytest.mark.long
def test_so_do_the_page_and_the_other_formats(hub):
    for form in ("html", "markdown", "sarif"):
        shown = asked(hub, "--base", BASE, "--base", B, "--format", form).out
        shown = " ".join(html.unescape(shown).replace("\\u00b1", "±").replace("\\", "").split())
        assert "57% (± 0.1) of " in shown
        assert "43% (± 0.1) of " in shown


def test_so_does_the_action(hub, expected, tmp_path, monkeypatch):
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path))
    for name in ("OUTPUT", "STEP_SUMMARY"):
        monkeypatch.setenv(f"GITHUB_{name}", str(tmp_path / name))
    inputs = {
        "model": MODEL,
        "base": f"{BASE} {B}",
        "local_hub": hub,
        "formats": "json",
        "fail_on": "undeclared-parent",
    }
    for name, value in inputs.items():
        monkeypatch.setenv(f"LINEAGE_{name.upper()}", str(value))
    assert action.main(["check"]) == 3
    put_out = outputs((tmp_path / "OUTPUT").read_text("utf-8"))
    (report,) = tmp_path.glob("hf-lineage-*/lineage.json")
    assert (put_out["undeclared-parents"], put_out["verdict"]) == (B, "RELATED")
    assert json.loads(report.read_text("utf-8"))["blend"] == expected
    assert SENTENCE in " ".join((tmp_path / "STEP_SUMMARY").read_text("utf-8").replace("\\", "").split())


@pytest.mark.long
def test_a_policy_changes_what_fails_and_no_number(hub, expected, tmp_path):
    for word, code in (("accept", 0), ("refuse", 3)):
        (tmp_path / "p.yaml").write_text(f"undeclared-parent: {word}\nfail-on: unrelated\n")
        how = ("--base", BASE, "--base", B, "--policy", tmp_path / "p.yaml", "--format", "json")
        document = json.loads(asked(hub, *how, code=code).out)
        assert (document["blend"], document["exit_code"]) == (expected, 3)


@pytest.mark.long
def test_identify_and_tree_weigh_the_same_matrices(hub, expected):
    shown = asked(hub, "--index", hub / "index", "--format", "json", command="identify", code=0)
    parents = json.loads(shown.out)["paths"][0]["blend"]["parents"]
    assert [(one["model"], one["share"]) for one in parents] == [
        (one["model"], one["share"]) for one in expected["parents"]
    ]
    drawn = lineage("tree", MODEL, BASE, B, A, "--local-hub", hub).sentences
    assert f"seen: 43% of {MODEL}, which is a blend" in drawn
    assert f"seen: 57% of {MODEL}, which is a blend" in drawn


@pytest.mark.long
def test_annotate_writes_them_into_the_card(hub, tmp_path):
    shutil.copytree(hub / MODEL, tmp_path / "rio")
    lineage("annotate", tmp_path / "rio", "--write", "--local-hub", hub, "--base", BASE, "--base", B)
    written = " ".join((tmp_path / "rio/README.md").read_text("utf-8").replace("\\", "").split())
    assert "57% (± 0.1) of " in written


@pytest.mark.long
def test_of_models_on_the_hub_parts_are_downloaded_and_say_nearly_the_same(hub, online, tmp_path):
    catalogue = Catalogue(tmp_path / "index")
    for name in (BASE, B, MODEL):
        online.publish(name, hub / name)
    for name in (BASE, B):
        catalogue.add(extract(name))
    for command, code, key in (("check", 3, "blend"), ("identify", 0, "paths")):
        shown = lineage(command, MODEL, "--index", tmp_path / "index", "--format", "json")
        assert shown.code == code
        document = json.loads(shown.out)[key]
        blend = document if command == "check" else document[0]["blend"]
        assert {one["model"]: one["share"] for one in blend["parents"]} == pytest.approx(
            {BASE: 0.43, B: 0.57}, abs=0.01
        )
    assert "57% of wren/rio, which is a blend" in lineage("tree", MODEL, BASE, B).sentences
