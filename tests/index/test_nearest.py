"""A nearer relative than the declared base, and a second parent, are noted; siblings and copies are not accused."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage import Options, check, extract
from hf_lineage.errors import NetworkError
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.merge import BlendPlace
from hf_lineage.evidence.verdict import ExitCode
from hf_lineage.index.differences import normalise, products
from hf_lineage.index.identify import identify
from hf_lineage.index.nearest import between, nearer, note_nearer, relatives
from hf_lineage.index.store import Catalogue, signature_file
from tests.blends import BASE, A, B, blended
from tests.models import EXAMPLES, card
from tests.server.client import connect_to_nothing

OPTIONS, SEEDED = Options(local_hub=EXAMPLES), Options(local_hub=EXAMPLES, seed=0)


def step(rng, size):
    """A change of a base in two layers, of a size beside it."""
    made = rng.normal(size=(2, 16, 8)).astype(np.float32)
    return size * made / np.linalg.norm(made, axis=(1, 2), keepdims=True)


@pytest.mark.parametrize("share", [0.3, 0.45])
def test_in_200_trials_siblings_are_not_noted_and_intermediates_are(share):
    """Siblings have so much of their change in common, as a cosine; a child changes as much again, or less."""
    rng, wrong, missed = np.random.default_rng(0), 0, 0
    for _ in range(200):
        base, common = step(rng, 1.0), step(rng, 1.0)
        one, other = (base + 0.1 * (share**0.5 * common + step(rng, (1 - share) ** 0.5)) for _ in range(2))
        child = one + step(rng, 0.1 * rng.uniform(0.2, 1.0))
        wrong += between(products([normalise(each) for each in (one, base, other)])) is not None
        missed += between(products([normalise(each) for each in (child, base, one)])) is None
    assert missed == 0
    assert wrong <= (0 if share == 0.3 else 60)  # at random two directions of 128 numbers have .09 in common


def test_the_parents_of_a_merge_are_nearer_and_a_report_keeps_its_verdict(signatures, catalogue, tmp_path):
    merge, criteria = signatures["fern/llama-merge-a-b"], Criteria(permutations=199)
    found = nearer(relatives(merge, signatures[BASE], "mlp", catalogue, criteria))
    assert sorted(one.model for one in found) == [A, B]
    catalogue = Catalogue(tmp_path)
    catalogue.add(replace(signatures["fern/llama-finetune-a"], model="org/red"))
    report = check("fern/llama-merge-a-b", (BASE,), OPTIONS)
    after = note_nearer(report, catalogue)
    (note,), (relative,) = after.notes, after.relatives
    assert (relative.model, relative.base, round(relative.along**2, 2)) == ("org/red", BASE, 0.57)
    assert (after.rows, after.exit_code) == (report.rows, report.exit_code)
    assert "is a nearer relative than the base acme/llama-base: it shares 57% of" in note
    assert "shared training data alone can cause up to 0.5" in note


def test_a_model_that_gave_more_than_a_base_of_which_a_part_was_taken_is_named(signatures, tmp_path):
    catalogue = Catalogue(tmp_path / "index")
    for name in (BASE, host := "otter/llama-independent"):
        catalogue.add(signatures[name])
    graft = blended(tmp_path / "graft", {host: 0.0, BASE: 1.0}, part="layers.[14].")
    told = f"{host}, which is in the index, is nearer than {{}}base {BASE}: 67% of what the model's units write has"
    for declares, word in ((f"base_model: {BASE}", "the declared "), ("license: mit", "the ")):
        (graft / "README.md").write_text(f"---\n{declares}\n---\n")
        (note,) = note_nearer(check(str(graft), () if "declared" in word else (BASE,), OPTIONS), catalogue).notes
        assert note.startswith(told.format(word)), note


def test_a_report_keeps_its_verdict_where_the_hub_has_no_answer(signatures, tmp_path, monkeypatch):
    catalogue = Catalogue(tmp_path / "index", "wren/index@" + "0" * 40)
    (entry,) = catalogue.add(signatures["fern/llama-finetune-a"])
    (catalogue.folder / signature_file(entry)).unlink()  # it is on the Hub
    report = check("fern/llama-merge-a-b", (BASE,), OPTIONS)
    connect_to_nothing(tmp_path / "cache", monkeypatch)
    after = note_nearer(report, catalogue)
    assert (after.rows, after.exit_code, after.relatives) == (report.rows, report.exit_code, ())
    (note,) = after.notes
    assert note.startswith("the index was not searched for acme/llama-base: wren/index cannot be fetched from the Hub")
    with pytest.raises(NetworkError):  # nobody is told that no relative was found
        identify(signatures["fern/llama-merge-a-b"], "mlp", catalogue, Criteria(permutations=199))


def with_index(model, catalogue, *bases):
    return note_nearer(check(str(model), bases, SEEDED), catalogue)


@pytest.fixture
def rio(tmp_path):
    """A blend whose card names one of its two parents."""
    return blended(tmp_path / "rio", {BASE: 0.43, B: 0.57})


def test_the_parent_that_the_card_leaves_out_is_found_and_the_check_is_undecided(rio, catalogue):
    report = with_index(rio, catalogue)
    assert (report.undeclared, report.exit_code) == ((B,), ExitCode.UNDECIDED)
    assert report.blended.parents == (BASE, B)
    assert [share.value for share in report.blended.blend.shares.parents] == pytest.approx([0.43, 0.57], abs=0.001)
    assert not any("nearer relative" in note for note in report.notes)
    assert check(rio, (BASE, B), SEEDED).undeclared == (B,), "no file names it, though the check does"


@pytest.mark.long
def test_a_card_that_names_every_parent_passes_and_else_whoever_asks_names_them(rio, catalogue):
    report = with_index(card(rio, [BASE, B], "merge"), catalogue)
    assert (report.undeclared, report.exit_code) == ((), ExitCode.VERIFIED)
    assert report.blended.blend.places == (BlendPlace.BLEND, BlendPlace.BLEND)
    assert check(str(rio), (BASE, B), SEEDED).exit_code is ExitCode.VERIFIED
    (rio / "README.md").unlink()
    assert check(str(rio), (BASE, B), SEEDED).undeclared == ()
    found = with_index(rio, catalogue, BASE)
    assert (found.undeclared, f"the check names {BASE} alone" in " ".join(found.to_text().split())) == ((B,), True)


NAMING = [
    ("config.json", '{{"_name_or_path": "{0}", {1}'),
    ("mergekit_config.yml", "merge_method: linear\nmodels: [{{model: {0}}}]"),
    ("README.md", "---\nbase_model:\n- acme/llama-base\n- /data/{0}\n---\n"),
]


@pytest.mark.parametrize(("file", "names"), NAMING)
def test_a_parent_that_another_file_than_the_card_names_or_a_path_is_declared(rio, file, names):
    stored = (rio / file).read_text()[1:] if file == "config.json" else ""
    (rio / file).write_text(names.format(B, stored))
    assert check(rio, (BASE, B), SEEDED).undeclared == ()


@pytest.mark.parametrize("model", [A, "fern/llama-lora-merged", "heron/llama-int8-rounded", "heron/llama-pruned-50"])
@pytest.mark.few(1)
def test_siblings_are_not_accused_by_each_other(model, catalogue):
    report = with_index(model, catalogue)
    assert (report.undeclared, report.exit_code) == ((), ExitCode.VERIFIED)


def test_a_model_that_somebody_extrapolated_is_not_accused(tmp_path):
    hub = tmp_path / "hub"
    for name in (BASE, A):
        shutil.copytree(EXAMPLES / name, hub / name)
    blended(hub / "wren" / "further", {BASE: 1 - 1 / 0.57, A: 1 / 0.57})
    options, made = Options(local_hub=hub, seed=0), Catalogue(tmp_path / "index")
    made.add(extract("wren/further", options))
    report = note_nearer(check(A, options=options), made)
    assert (report.undeclared, report.exit_code) == ((), ExitCode.VERIFIED)
    assert report.blended.blend.places[1] is BlendPlace.FROM_MODEL
