"""From names to verdicts, on the really trained models of the example Hub."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage import Options, check, compare, extract, load_signature, save_signature
from hf_lineage.checking import claims
from hf_lineage.checking.declared import declared_in
from hf_lineage.errors import NoModelError, OptionError, SignatureError
from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef, resolve
from hf_lineage.report import text
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.values import Signature
from hf_lineage.source.contents import LORA_FILE, Adapters, Folders, WholeModel, contents_of
from tests.models import WEIGHTS, card, edit_json, spoil, tiny_llama
from tests.published.steps import torch_file

HUB = Path(__file__).parents[2] / "examples" / "hub"

BASE, OTHER, TUNED = "acme/llama-base", "otter/llama-independent", "fern/llama-finetune-a"

ALL_PATHS = ("mlp", "mlp_gate", "value_output", "query_key")

MERGED = ("README.md", "mergekit_config.yml")

OPTIONS = Options(local_hub=HUB)


def only_row(report):
    (row,) = report.rows
    return row


@pytest.mark.long
def test_text_and_paths_name_models_alike(tmp_path):
    base, tuned = HUB / BASE, HUB / TUNED
    options = Options(seed=0, permutations=99)
    asked = (check, str(tuned), str(base)), (check, tuned, base), (check, tuned, [base]), (compare, base, tuned)
    reports = [call(one, other, options) for call, one, other in asked]
    assert {row.verdict.code for report in reports for row in report.rows} == {"inherited"}
    assert len({report.to_dict()["claims"][0]["score"] for report in reports}) == 1
    assert {report.model for report in reports} == {str(tuned)}
    one = check(TUNED, BASE, Options(local_hub=str(HUB), seed=0, permutations=99))
    assert one.rows[0].claim.base == BASE
    for file in (tmp_path / "a.lineage.safetensors", str(tmp_path / "b.lineage.safetensors")):
        save_signature(signature := extract(tuned, options), file)
        assert repr(load_signature(file)) == repr(signature)
    assert repr(signature).startswith(f"Signature(model={str(tuned)!r}, commit=None, architecture='LlamaForCausalLM'")
    assert "array" not in repr((signature, signature.paths))


def test_pickles_are_read_of_every_model_where_the_options_allow_it(tmp_path):
    """Of the model, of the base, and of the base of an adapter."""
    names = (BASE, TUNED, "fern/llama-lora")
    base, tuned, _ = (tmp_path / name for name in names)
    for name in names:
        shutil.copytree(HUB / name, tmp_path / name)
    for folder in (base, tuned):
        torch_file(folder)
    assert only_row(compare(str(base), str(tuned))).verdict.code == "unsupported"
    allowed = Options(allow_pickle=True, local_hub=tmp_path)
    for report in (compare(str(base), str(tuned), allowed), check(TUNED, options=allowed)):
        assert (only_row(report).verdict.code, report.exit_code) == ("inherited", 0)
    assert only_row(check(names[2], options=allowed)).verdict.code == "adapter"
    assert only_row(check(names[2], options=replace(allowed, allow_pickle=False))).verdict.code == "unsupported"
    assert extract(str(tuned), allowed).layers == 6


@pytest.mark.parametrize(
    ("model", "rows", "code"),
    [
        (TUNED, [(BASE, "finetune", ("README.md",), "inherited")], 0),
        ("magpie/llama-liar", [(BASE, "finetune", ("README.md",), "unrelated")], 1),
        (BASE, [], 3),
        ("fern/llama-merge-a-b", [(f"fern/llama-finetune-{one}", "merge", MERGED, "merge") for one in "ab"], 0),
    ],
)
def test_each_claim_has_a_row_that_names_where_it_stands(model, rows, code):
    report = check(model, options=OPTIONS)
    assert [(row.claim.base, row.claim.relation, row.claim.sources, row.verdict.code) for row in report.rows] == rows
    assert report.exit_code == code
    assert [row.verdict.verified for row in report.rows] == [code == 0] * len(rows)
    if model == TUNED:
        assert report.rows[0].verdict.evidence["mlp"].p_value == 0.003


@pytest.mark.long
def test_a_base_named_instead_is_checked_instead():
    assert only_row(check(OTHER, [BASE], OPTIONS)).verdict.code == "unrelated"
    assert only_row(check(TUNED, [OTHER], OPTIONS)).claim.base == OTHER


def merge_of(folder, parents, chosen):
    """A model that declares a merge of all parents: every layer is that of the one chosen for it, or of nobody."""
    weights, random = [load_file(parent / WEIGHTS) for parent in parents], torch.Generator().manual_seed(9)
    shutil.copytree(parents[0], folder)

    def mix(tensors):
        for name, tensor in tensors.items():
            if ".layers." in name and tensor.ndim > 1:
                place = chosen(int(name.split(".")[2]))
                nobodys = torch.randn(tensor.shape, generator=random) / tensor.shape[1] ** 0.5
                tensors[name] = nobodys if place is None else weights[place][name]

    spoil(folder, mix)
    return card(folder, [f"acme/{parent.name}" for parent in parents], "merge")


@pytest.fixture
def parents(tmp_path):
    """Two independent models of eight layers, in a local Hub."""
    return [tiny_llama(tmp_path / "hub" / "acme" / f"parent{seed}", seed=seed, layers=8) for seed in (0, 1)]


def test_a_merge_of_two_independent_models_is_verified_though_neither_gave_more_than_half(parents, tmp_path):
    merge = merge_of(tmp_path / "merge", parents, lambda layer: (0, 0, 0, 1, 1, 1, None, None)[layer])
    report = check(str(merge), options=Options(seed=0, local_hub=tmp_path / "hub"))
    assert report.exit_code == 0
    for row in report.rows:
        assert (row.claim.relation, row.verdict.label, row.verdict.verified) == ("merge", "VERIFIED merge", True)
        assert row.verdict.reason.startswith("one of 2 parents of a merge")
        assert 0.3 < row.verdict.evidence["mlp"].inherited.share < 0.45


def test_one_of_its_parents_alone_is_a_base_in_part(parents, tmp_path):
    merge = merge_of(tmp_path / "merge", parents, lambda layer: 0 if layer < 3 else 1)
    report = check(str(merge), [str(parents[0])], Options(seed=0))
    assert (only_row(report).verdict.label, report.exit_code) == ("RELATED part", 3)
    assert only_row(report).verdict.reason.startswith("38% of what its units write is inherited, in layers 0-2; ")


def test_nobody_makes_a_merge_of_an_independent_model_by_naming_a_parent_and_its_copy(parents, tmp_path):
    """Three of eight layers are the first parent's and the others nobody's; its copy is named beside it."""
    copy = shutil.copytree(parents[0], parents[0].with_name("copy"))
    merge = merge_of(tmp_path / "merge", [parents[0], copy], lambda layer: 0 if layer < 3 else None)
    report = check(str(merge), options=Options(seed=0, local_hub=tmp_path / "hub"))
    assert [row.verdict.label for row in report.rows] == ["RELATED part"] * 2
    assert report.exit_code == 3


@pytest.mark.parametrize(("recipe", "tests"), [("paper", 1), ("robust", 3)])
def test_every_path_tells_descendants_from_independent_models(recipe, tests):
    options = replace(OPTIONS, paths=ALL_PATHS, recipe=RECIPES[recipe])
    related = only_row(check(TUNED, options=options)).verdict
    assert {path: single.code for path, single in related.by_path.items()} == dict.fromkeys(ALL_PATHS, "inherited")
    assert related.evidence["mlp"].p_value == pytest.approx(tests / 1000), "four paths do not cost resolution"
    unrelated = only_row(check(OTHER, [BASE], options)).verdict
    assert {path: single.code for path, single in unrelated.by_path.items()} == dict.fromkeys(ALL_PATHS, "unrelated")


def test_an_empirical_null_from_a_named_model_is_applied():
    row = only_row(check(TUNED, options=replace(OPTIONS, nulls=(OTHER,), paths=("mlp",))))
    null = row.verdict.evidence["mlp"].empirical
    assert row.verdict.code == "inherited"
    assert list(null.scores) == [OTHER]
    assert abs(null.threshold) < 0.1
    assert null.p_value == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(nulls=("llama-2-7b",)), "was measured with recipe=paper --paths mlp"),
        (Options(nulls=("llama-2-7b",), recipe=RECIPES["paper"], paths=("query_key",)), "was measured with"),
        (Options(nulls=("llama-2-7b",), recipe=RECIPES["paper"]), "holds scores of meta-llama/Llama-2-7b-hf, not of"),
    ],
)
def test_a_published_null_is_used_only_for_what_it_was_measured_on(options, message):
    with pytest.raises(OptionError, match=message):
        check(TUNED, options=replace(options, local_hub=HUB))


def test_a_published_null_serves_a_folder_of_its_reference():
    options = Options(nulls=("llama-2-7b",), recipe=RECIPES["paper"])
    row = only_row(compare(str(HUB / BASE), str(HUB / TUNED), options))
    assert row.verdict.evidence["mlp"].empirical.threshold == 4e-4


def of_layers(folder, *layers):
    """A model of these layers of the base, one after another."""
    weights = load_file(HUB / BASE / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if ".layers." not in name}
    for number, layer in enumerate(layers):
        there, here = f".layers.{layer}.", f".layers.{number}."
        kept |= {name.replace(there, here): tensor.clone() for name, tensor in weights.items() if there in name}
    save_file(kept, folder / "model.safetensors")
    shutil.copy(HUB / BASE / "config.json", folder)
    edit_json(folder / "config.json", num_hidden_layers=len(layers))
    return str(folder)


def shallower(folder):
    return of_layers(folder, 0, 1, 2, 3, 4)


@pytest.mark.long
def test_a_model_without_some_layers_is_related_either_way(tmp_path):
    few = shallower(tmp_path)
    for pair, shape in (((str(HUB / BASE), few), (6, 5)), ((few, str(HUB / BASE)), (5, 6))):
        verdict = only_row(compare(*pair)).verdict
        evidence = verdict.evidence["mlp"]
        assert (verdict.code, evidence.comparison.similarity.shape) == ("inherited", shape)
        assert evidence.comparison.score == pytest.approx(1)


def test_a_model_with_repeated_layers_is_related(tmp_path):
    again = of_layers(tmp_path, 0, 1, 2, 3, 4, 1, 2, 3, 4, 5)
    evidence = only_row(compare(str(HUB / BASE), again)).verdict.evidence["mlp"]
    assert evidence.comparison.similarity.shape == (6, 10)
    assert evidence.comparison.score == pytest.approx(1)


@pytest.mark.long
def test_independent_models_of_unlike_depth_are_unrelated(tmp_path):
    assert only_row(compare(str(HUB / "otter/llama-independent"), shallower(tmp_path))).verdict.code == "unrelated"


def test_of_unlike_depths_the_report_says_so_and_there_is_no_empirical_null(tmp_path):
    few = shallower(tmp_path)
    sentences = " ".join(text.render(compare(str(HUB / BASE), few), True).split())
    assert "the base has 6 layers and the model 5; the score counts the 5 layers that are paired" in sentences
    options = replace(OPTIONS, nulls=(str(HUB / "otter/llama-independent"),))
    verdict = only_row(compare(str(HUB / BASE), few, options)).verdict
    assert verdict.code == "incompatible"
    assert verdict.reason.endswith("in 5 layers; leave --null out")


@pytest.mark.long
def test_a_stored_signature_stands_for_its_model(tmp_path):
    for name in (BASE, TUNED):
        save_signature(extract(name, OPTIONS), tmp_path / Path(name).name)
    stored = only_row(compare(str(tmp_path / "llama-base"), str(tmp_path / "llama-finetune-a")))
    direct = only_row(compare(BASE, TUNED, OPTIONS))
    assert stored.verdict.evidence["mlp"].comparison.score == direct.verdict.evidence["mlp"].comparison.score
    # Weights may be compared unit by unit and number by number as well, for which p is corrected.
    assert (stored.verdict.evidence["mlp"].p_value, direct.verdict.evidence["mlp"].p_value) == (0.001, 0.003)


def test_a_stored_signature_of_another_recipe_is_refused(tmp_path):
    save_signature(extract(BASE, OPTIONS), tmp_path / "base")
    with pytest.raises(SignatureError, match="extract it again"):
        compare(str(tmp_path / "base"), TUNED, replace(OPTIONS, recipe=RECIPES["paper"]))


@pytest.fixture
def repo(tmp_path):
    return RepoRef("fern/child", tmp_path)


def held(source):
    """The folder or file of each adapter, and the folder of each model; None for a model itself."""
    adapters, folders = [], []
    for content in contents_of(source):
        match content:
            case WholeModel():
                return None
            case Adapters(places):
                adapters += [place.part for place in places]
            case Folders(models):
                folders += [model.subfolder for model in models]
    return adapters, folders


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["config.json", ADAPTER_CONFIG, "part/config.json", f"other/{ADAPTER_CONFIG}"], None),
        ([ADAPTER_CONFIG], ([""], [])),
        ([f"a/{ADAPTER_CONFIG}", "b/config.json"], (["a"], ["b"])),
        ([LORA_FILE], ([LORA_FILE], [])),
        ([], None),
        (["config.json", f"final/{ADAPTER_CONFIG}"], None),
    ],
)
def test_what_a_repository_holds_is_told_by_its_files(repo, files, expected):
    """A model is its repository whatever lies beside it, and what holds nothing known is opened as one."""
    for file in files:
        repo.path(file).parent.mkdir(exist_ok=True)
        repo.path(file).write_text("{}")
    assert held(repo) == expected


def test_a_signature_is_itself_and_declares_nothing():
    signature = object.__new__(Signature)
    assert contents_of(signature) == (signature,)
    assert declared_in(signature, contents_of(signature)).claims == ()


def test_folders_of_adapters_declare_unless_a_card_does(repo):
    for folder, base in (("a", "acme/one"), ("b", "acme/two")):
        repo.path(folder).mkdir()
        repo.path(f"{folder}/{ADAPTER_CONFIG}").write_text(json.dumps({"base_model_name_or_path": base}))
    assert [claim.base for claim in declared_in(repo, contents_of(repo)).claims] == ["acme/one", "acme/two"]
    card(repo.path("."), "acme/base")
    assert [claim.base for claim in declared_in(repo, contents_of(repo)).claims] == ["acme/base"]


def test_a_folder_without_a_model_that_declares_nothing_is_an_error(repo):
    with pytest.raises(NoModelError, match=r"has no config\.json, so it is not a transformers model"):
        declared_in(repo, contents_of(repo))


LORA, SEEDED = HUB / "fern/llama-lora", replace(OPTIONS, seed=0)


@pytest.fixture
def several(tmp_path):
    """Three states of one training run, and an adapter that is none of them."""
    for name in ("checkpoint-1", "checkpoint-2", "checkpoint-3", "final"):
        shutil.copytree(LORA, tmp_path / name)
    return RepoRef("fern/several", tmp_path)


def test_the_last_state_is_judged_on_what_the_folders_declare_and_the_others_are_told(several):
    for report in (check(several.folder, options=SEEDED), compare(BASE, several.folder, SEEDED)):
        rows = [(row.part, row.verdict.code) for row in report.rows]
        assert rows == [("final", "adapter"), ("checkpoint-3", "adapter")]
        assert report.notes == ("2 earlier states of training, such as checkpoint-2, were not judged",)


def test_a_relation_that_is_none_of_an_adapter_is_told(tmp_path):
    folder = card(shutil.copytree(LORA, tmp_path / "lora"), BASE, "finetune")
    (note,) = check(folder, options=SEEDED).notes
    assert note == "README.md declares the relation finetune, but the repository holds only an adapter"


def test_the_base_of_several_adapters_is_looked_for_once(several, monkeypatch):
    asked = []

    def noted(name, *rest, **more):
        asked.append(name)
        return resolve(name, *rest, **more)

    monkeypatch.setattr(claims, "resolve", noted)
    check(several.folder, options=SEEDED)
    assert asked == [BASE]
