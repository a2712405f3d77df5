"""A draft loads under the schema as it is printed, binds where it says so, and leaves the rest to a human."""

import pytest

from hf_lineage.architecture.guess import find_groups
from hf_lineage.architecture.layout import bind
from hf_lineage.architecture.registry import factorizations
from hf_lineage.hub.repo import resolve
from tests.conformance.forms import variants
from tests.conformance.models import tiny_model
from tests.models import open_checkpoint, tiny_gpt2, tiny_llama
from tools.draft import PLACEHOLDER, draft, main


def opened(folder):
    repo = resolve(str(folder))
    return open_checkpoint(repo).shapes, repo.config()


def drafted(folder, known=None, classes=("MyModel",)):
    shapes, config = opened(folder)
    return draft(classes, find_groups(shapes)[0], shapes, config, factorizations() if known is None else known)


def loaded(text, folder):
    (folder / "registry").mkdir()
    (folder / "registry/draft.yaml").write_text(text, encoding="utf-8")
    (found,) = factorizations(folder / "registry")
    return found


def roles(layout):
    return [
        [{role: (slot.tensor, slot.roles, slot.interleaved) for role, slot in found.slots.items()} for found in layer]
        for path in ("mlp", "value_output")
        for layer in layout.sets(path)
    ]


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "qwen_moe"])
def test_without_its_file_a_model_gets_the_same_roles(name, tmp_path):
    """What the file says has to be guessed."""
    meant = next(found for found in factorizations() if found.name == name)
    architecture = meant.classes[0]
    tiny_model(architecture, variants(architecture)[0]).save_pretrained(tmp_path / "model")
    found = drafted(tmp_path / "model", [each for each in factorizations() if each is not meant])
    assert found.problem is None
    shapes, config = opened(tmp_path / "model")
    layout = bind(loaded(found.text, tmp_path), shapes, config)
    assert sorted(map(str, roles(layout))) == sorted(map(str, roles(bind(meant, shapes, config))))


def test_the_script_names_the_class_and_how_to_prove_it(tmp_path):
    text = main(str(tiny_llama(tmp_path / "model", architectures=["TheirForCausalLM"])))
    assert "where transformers has TheirForCausalLM: pytest tests/test_conformance.py -k TheirForCausalLM" in text
    assert loaded(text, tmp_path).classes == ("TheirForCausalLM",)


def test_what_is_no_class_is_not_named_and_sizes_tell_how_matrices_are_stored(tmp_path):
    model, others = tiny_gpt2(tmp_path / "model"), [each for each in factorizations() if each.stored == "out_in"]
    for number, name in enumerate(("A: b", "x\ny", "__import__('os')", "", "A" * 101, "Ä")):
        (tmp_path / str(number)).mkdir()
        found = loaded(drafted(model, others, (name,)).text, tmp_path / str(number))
        assert (found.classes, found.stored) == (("MyModel",), "in_out")


PARTS = (("a", 8), ("b", 4))


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"n_head": 4}, "n_head"),
        ({"attn_heads": 4}, "attn_heads"),
        ({"num_kv_heads": 2, "num_query_heads": 4}, "num_query_heads"),
        ({"text_config": {"num_attention_heads": 4}}, "text_config.num_attention_heads"),
        ({part: {"width": 8 * n, "num_attention_heads": n} for part, n in PARTS}, "b.num_attention_heads"),
    ],
    ids=str,
)
def test_heads_are_counted_by_the_key_that_is_there(config, key, tmp_path):
    found = drafted(tiny_llama(tmp_path / "model", num_attention_heads=None, hidden_size=None, **config))
    assert (found.problem, loaded(found.text, tmp_path).heads) == (None, key)


def test_what_could_not_be_guessed_is_left_open_and_binds_to_nothing(tmp_path):
    found = drafted(tiny_llama(tmp_path / "model", architectures=["MyModel"]), known=())
    assert found.problem is None  # by letters and sizes
    shapes, config = opened(tmp_path / "model")
    blind = {name: shape for name, shape in shapes.items() if "_proj" not in name or "gate" in name}
    found = draft((), find_groups(blind)[0], blind, config, factorizations())
    assert PLACEHOLDER in found.text
    assert f"has no tensor {PLACEHOLDER}_" in str(found.problem)
    assert loaded(found.text, tmp_path)
