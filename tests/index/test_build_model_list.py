"""The models of a tree are read with what they declare; what cannot be read does not stop the others."""

from dataclasses import replace
from pathlib import Path

from hf_lineage import Options
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.relation import Means
from hf_lineage.index.build import gather
from hf_lineage.index.relatives import PairTests
from hf_lineage.index.tree import Mark, grow
from tests.blends import BASE, B, blended
from tests.models import EXAMPLES, WEIGHTS, card, fine_tuned, tiny_llama

HUB = Options(local_hub=EXAMPLES, paths=("mlp",))


def gathered(*models, options=HUB):
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
    tree = grow([replace(member, opened=None) for member in tests.members], "mlp", tests.criteria)
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
    assert replace(tests, members=[replace(one, opened=None) for one in tests.members]).blend(0, (1, 2)) is None
