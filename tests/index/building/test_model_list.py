"""The models of a tree are read with what they declare; what cannot be read does not stop the others."""

from pathlib import Path

from hf_lineage import Options
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.derivation.derivation import Means
from hf_lineage.evidence.judging.evaluation import evaluate
from hf_lineage.index.building.model_list import gather, indexed, together
from hf_lineage.index.tree.tree import Mark, grow
from tests.models import EXAMPLES, card, fine_tuned, tiny_llama

HUB = Options(local_hub=EXAMPLES)
MODELS = ("acme/llama-base", "heron/llama-int8-rounded", "acme/none", "acme/llama-base")


def test_models_are_read_once_each_and_an_error_is_told():
    gathered = gather(MODELS, HUB)
    assert [member.name for member in gathered.members] == ["acme/llama-base", "heron/llama-int8-rounded"]
    assert [claim.base for claim in gathered.members[1].claims] == ["acme/llama-base"]
    assert gathered.problems[0].startswith("acme/none: ")
    base, rounded = (member.signature for member in gathered.members)
    verdict = evaluate(base, rounded, Criteria(permutations=99))
    assert Means.QUANTIZED in gathered.seen(0, 1, verdict).means
    assert Means.QUANTIZED not in gathered.seen(1, 0, verdict).means


def test_a_folder_by_two_names_is_one_model_and_the_base_of_who_declares_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = tiny_llama(Path("base"))
    for number, declared in enumerate(("base", "./base", "org/base")):
        card(fine_tuned(base, Path(f"child-{number}"), seed=number), declared, "finetune")
    models = ("./base", "./base/", str(tmp_path / "base"), "./child-0", "./child-1", "./child-2")
    gathered = gather(models, Options())
    tree = grow(gathered.members, "mlp", Criteria(permutations=99))
    assert tree.models == ("./base", "./child-0", "./child-1", "./child-2")
    assert {(edge.parent, edge.child, edge.mark) for edge in tree.edges} == {
        ("./base", "./child-0", Mark.VERIFIED),
        ("./base", "./child-1", Mark.VERIFIED),
        ("./base", "./child-2", Mark.MEASURED),
        ("org/base", "./child-2", Mark.DECLARED),
    }


def test_models_of_an_index_have_signatures_alone(catalogue):
    of_index = indexed(catalogue, "mlp")
    assert {member.claims for member in of_index.members} == {()}
    both = together(gather(MODELS[:2], HUB), of_index)
    names = [member.name for member in both.members]
    assert len(names) == len(set(names)) == len(both.opened) == 8
    assert both.members[0].claims == () != both.members[1].claims
