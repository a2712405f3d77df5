"""A model that an index has at its commit is not read again; all models that are named are removed, or none."""

from dataclasses import replace
from pathlib import Path

import pytest

from hf_lineage import Options
from hf_lineage.errors import OptionError, SignatureError
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.relation import Means
from hf_lineage.hub import commits
from hf_lineage.index import build
from hf_lineage.index.build import gather, remove
from hf_lineage.index.relatives import PairTests
from hf_lineage.index.store import Catalogue
from hf_lineage.index.tree import Mark, grow
from tests.blends import BASE, B, blended
from tests.models import EXAMPLES, WEIGHTS, card, fine_tuned, tiny_llama

MLP = Options(paths=("mlp",))
FIRST, SECOND = "0123abc" + 33 * "0", "4567def" + 33 * "0"
UNKNOWN = ("org/gone", "base", "org/model@0123", "org/model@main", "org/model@", "./gone", "x" * 5000, "a\0b")
OF_EXAMPLES = Options(local_hub=EXAMPLES, paths=("mlp",))


def test_an_account_is_added_by_commit_and_not_read_again(online, tmp_path, monkeypatch):
    online.publish("acme/gpt2-base", EXAMPLES / "acme/gpt2-base")
    models = commits.list_models("acme")
    assert sorted(model.partition("@")[0] for model in models) == ["acme/gpt2-base", "acme/llama-base"]
    first = list(build.build(models, Catalogue(tmp_path), MLP))
    assert all(one.records and one.records[0].entry.commit for one in first)
    monkeypatch.setattr(build, "open_model", lambda *_: pytest.fail("a model of the index was read again"))
    assert [one.records for one in build.build(models, Catalogue(tmp_path), MLP)] == [(), ()]


@pytest.fixture
def catalogue(signatures, tmp_path, monkeypatch):
    """An index of a folder, of a model at two commits, and of another one; all rows but the last in one file."""
    monkeypatch.chdir(tmp_path)
    index, one = Catalogue(tmp_path / "index"), signatures["acme/llama-base"]
    for name, commit in (("./base", None), ("org/model", FIRST), ("org/model", SECOND)):
        index.add(replace(one, model=name, commit=commit))
    index.compact()
    index.add(replace(one, model="org/other", commit=FIRST))
    return index


def signatures_of(catalogue):
    return list((catalogue.folder / "signatures").rglob("*.safetensors"))


def left(catalogue):
    return [(entry.model, entry.commit[:7]) for entry in sorted(catalogue.entries())]


EVERYTHING = [("./base", ""), ("org/model", "0123abc"), ("org/model", "4567def"), ("org/other", "0123abc")]
REMOVED = [
    (["org/model"], EVERYTHING[1:3]),
    (["Org/Model@0123abc"], EVERYTHING[1:2]),
    ([f"org/model@{SECOND}", "org/other"], EVERYTHING[2:]),
    (["./base"], EVERYTHING[:1]),
    (["base/"], EVERYTHING[:1]),
    (["./base", "org/model", "org/other", "org/other"], EVERYTHING),
]


@pytest.mark.parametrize(("models", "gone"), REMOVED)
def test_the_models_that_are_named_are_gone_with_their_signatures_and_no_others(catalogue, models, gone):
    remove(models, catalogue)
    assert left(catalogue) == [one for one in EVERYTHING if one not in gone]
    assert len(signatures_of(catalogue)) == len(EVERYTHING) - len(gone)
    assert all(catalogue.find_signature(entry) for entry in catalogue.entries())


def test_where_one_is_not_in_the_index_or_a_part_of_it_is_damaged_nothing_is_removed(catalogue, tmp_path):
    for model in UNKNOWN:
        with pytest.raises(OptionError, match="so nothing was removed; `hf-lineage index list --index /"):
            remove(["org/model", model], catalogue)
        assert left(catalogue) == EVERYTHING
    file = next((catalogue.folder / "keys").glob("*.jsonl"))
    file.write_bytes(b"")
    with pytest.raises(SignatureError, match="is not a file of an index: it ends before line 1 of"):
        remove(["org/model"], catalogue)
    assert len(signatures_of(catalogue)) == len(EVERYTHING)
    with pytest.raises(OptionError, match="does not exist, so there is no index; check --index"):
        remove(["org/model"], Catalogue(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_a_model_without_a_signature_here_is_removed(catalogue):
    for file in signatures_of(catalogue):
        file.unlink()
    remove(["org/model"], catalogue)
    assert left(catalogue) == [EVERYTHING[0], EVERYTHING[3]]


def test_nothing_is_removed_behind_a_link(catalogue, tmp_path):
    """Whoever wrote a checkout chose where its links lead."""
    (tmp_path / ".git").mkdir()
    (catalogue.folder / "keys").rename(tmp_path / "elsewhere")
    (catalogue.folder / "keys").symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").iterdir())
    with pytest.raises(SignatureError, match="is a link and is not followed"):
        remove(["org/other"], catalogue)
    assert sorted((tmp_path / "elsewhere").iterdir()) == before


def gathered(*models, options=OF_EXAMPLES):
    members, problems = gather(models, options)
    return PairTests(members, "mlp", Criteria(permutations=99)), problems


def test_models_are_read_once_each_and_an_error_is_told():
    tests, problems = gathered("acme/llama-base", "heron/llama-int8-rounded", "acme/none", "acme/llama-base")
    assert [member.name for member in tests.members] == ["acme/llama-base", "heron/llama-int8-rounded"]
    assert [claim.base for claim in tests.members[1].claims] == ["acme/llama-base"]
    assert problems[0].startswith("acme/none: ")
    assert Means.QUANTIZED in tests.derivation(0, 1).means
    assert Means.QUANTIZED not in tests.derivation(1, 0).means


def test_a_folder_by_two_names_is_one_model_and_the_base_of_who_declares_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = tiny_llama(Path("base"))
    for number, declared in enumerate(("base", "./base", "org/base")):
        card(fine_tuned(base, Path(f"child-{number}"), seed=number), declared, "finetune")
    models = ("./base", "./base/", str(tmp_path / "base"), "./child-0", "./child-1", "./child-2")
    tests, _ = gathered(*models, options=Options(paths=("mlp",)))
    tree = grow([replace(member, model=None) for member in tests.members], "mlp", tests.criteria)
    assert tree.models == ("./base", "./child-0", "./child-1", "./child-2")
    assert {(edge.parent, edge.child, edge.mark) for edge in tree.edges} == {
        ("./base", "./child-0", Mark.VERIFIED),
        ("./base", "./child-1", Mark.VERIFIED),
        ("./base", "./child-2", Mark.MEASURED),
        ("org/base", "./child-2", Mark.DECLARED),
    }


def test_the_weights_of_a_blend_tell_its_parents_until_they_are_gone(tmp_path):
    folder = blended(tmp_path / "rio", {BASE: 0.43, B: 0.57})
    tests, _ = gathered(str(folder), BASE, B)
    assert [round(share.value, 2) for share in tests.blend(0, (1, 2)).shares.parents] == [0.43, 0.57]
    (folder / WEIGHTS).unlink()
    assert tests.blend(0, (1, 2)) is None
    assert replace(tests, members=[replace(one, model=None) for one in tests.members]).blend(0, (1, 2)) is None
