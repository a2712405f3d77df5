"""A second parent in the index is found though the card names one, and neither siblings nor copies are accused."""

import shutil

import pytest

from hf_lineage import Options, check, extract
from hf_lineage.evidence.blend import Made
from hf_lineage.evidence.verdict import ExitCode
from hf_lineage.index.nearest import noted
from hf_lineage.index.store import Catalogue
from tests.blends import BASE, A, B, blended
from tests.models import EXAMPLES, card

OPTIONS = Options(local_hub=EXAMPLES, seed=0)


def searched(model, catalogue, *bases):
    return noted(check(str(model), bases, OPTIONS), catalogue)


def test_the_parent_that_the_card_leaves_out_is_found_and_the_check_is_undecided(tmp_path, catalogue):
    report = searched(blended(tmp_path / "rio", {BASE: 0.43, B: 0.57}), catalogue)
    assert report.undeclared == (B,)
    assert report.exit_code is ExitCode.UNDECIDED
    assert report.blended.parents == (BASE, B)
    assert [share.value for share in report.blended.blend.shares.parents] == pytest.approx([0.43, 0.57], abs=0.001)
    assert not any("nearer relative" in note for note in report.notes)


@pytest.mark.long
def test_a_card_that_names_every_parent_passes_as_before(tmp_path, catalogue):
    folder = blended(tmp_path / "rio", {BASE: 0.43, B: 0.57})
    card(folder, [BASE, B], "merge")
    report = searched(folder, catalogue)
    assert (report.undeclared, report.exit_code) == ((), ExitCode.VERIFIED)
    assert report.blended.blend.made == (Made.BLEND, Made.BLEND)
    assert check(str(folder), (BASE, B), OPTIONS).exit_code is ExitCode.VERIFIED


@pytest.mark.long
def test_where_the_model_names_nothing_whoever_asks_names_the_bases_and_the_index_does_not(tmp_path, catalogue):
    folder = blended(tmp_path / "rio", {BASE: 0.43, B: 0.57})
    (folder / "README.md").unlink()
    assert check(str(folder), (BASE, B), OPTIONS).undeclared == ()
    found = searched(folder, catalogue, BASE)
    assert (found.undeclared, f"the check names {BASE} alone" in " ".join(found.to_text().split())) == ((B,), True)


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("config.json", '{{"_name_or_path": "{0}", {1}'),
        ("mergekit_config.yml", "merge_method: linear\nmodels: [{{model: {0}}}]"),
        ("README.md", "---\nbase_model:\n- acme/llama-base\n- /data/{0}\n---\n"),
    ],
)
def test_a_parent_that_another_file_than_the_card_names_or_a_path_is_declared(tmp_path, catalogue, file, names):
    folder = blended(tmp_path / "rio", {BASE: 0.43, B: 0.57})
    assert check(str(folder), (BASE, B), OPTIONS).undeclared == (B,)
    stored = (folder / file).read_text()[1:] if file == "config.json" else ""
    (folder / file).write_text(names.format(B, stored))
    assert check(str(folder), (BASE, B), OPTIONS).undeclared == ()


@pytest.mark.parametrize("model", [A, "fern/llama-lora-merged", "heron/llama-int8-rounded", "heron/llama-pruned-50"])
@pytest.mark.few(1)
def test_siblings_are_not_accused_by_each_other(model, catalogue):
    report = searched(model, catalogue)
    assert (report.undeclared, report.exit_code) == ((), ExitCode.VERIFIED)


def test_a_model_that_somebody_extrapolated_is_not_accused(tmp_path):
    hub = tmp_path / "hub"
    for name in (BASE, A):
        shutil.copytree(EXAMPLES / name, hub / name)
    blended(hub / "wren" / "further", {BASE: 1 - 1 / 0.57, A: 1 / 0.57})
    options, made = Options(local_hub=hub, seed=0), Catalogue(tmp_path / "index")
    made.add(extract("wren/further", options))
    report = noted(check(A, options=options), made)
    assert (report.undeclared, report.exit_code) == ((), ExitCode.VERIFIED)
    assert report.blended.blend.made[1] is Made.FROM_MODEL
