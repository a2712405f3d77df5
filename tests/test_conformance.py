"""The proof behind the registry: for every class every product is what the real transformers module computes."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers

from hf_lineage.architecture.registry import factorizations
from hf_lineage.architecture.schema import as_names
from hf_lineage.hub.repo import resolve
from hf_lineage.source.config import described
from hf_lineage.source.headers import opened
from tests.conformance.forms import variants
from tests.conformance.models import known_classes, required
from tests.conformance.proving import LAYOUTS, faults, names_said, names_unseen
from tests.conformance.tables import adds_fixed_table, begun, claims_exchangeable, under_switches
from tests.conformance.tiny import TinyModel, build_tiny_model
from tests.long import LONG
from tests.settings import cases as cases_of_settings

OF_TRANSFORMERS = [one for one in factorizations() if not any("." in name for name in one.classes)]
"""The factorizations of other libraries are proved by test_conformance_libraries.py."""

ONE_A_LAYOUT = [pytest.param(one, id=one.name, marks=[LONG] * (one not in LAYOUTS)) for one in OF_TRANSFORMERS]
"""Of all of them one a layout, and the others as long tests."""
HEAD = re.compile(r"(For\w+|Model|LMHead\w*|With\w+|Backbone)+$")
"""What the name of a class says of its head."""


def cases() -> Iterator[Any]:
    """The first class of a file a layout, in its first form; and as long tests all classes and forms, by models."""
    for factorization in OF_TRANSFORMERS:
        name = factorization.classes[0]
        first = [(name, variants(name)[0])] if factorization in LAYOUTS else []
        if first:
            yield pytest.param(factorization, first, id=f"{factorization.name}-{name}")
        models: dict[str, list[str]] = defaultdict(list)
        for name in factorization.classes:
            models[HEAD.sub("", name)].append(name)
        for names in models.values():
            forms = [(name, wanted) for name in names for wanted in variants(name)]
            if forms != first:
                yield pytest.param(factorization, forms, id=f"{factorization.name}-{'+'.join(names)}", marks=LONG)


def known(forms: list[Any]) -> list[Any]:
    """Those of classes that transformers has; a test without any is skipped."""
    return [form for form in forms if form[0] in known_classes()] or pytest.skip(
        f"transformers {transformers.__version__} has none of these classes"
    )


def embedding_said(found: TinyModel) -> Any:
    """The tensor that the file names as the embedding, None where it names none or there is none on the disk."""
    names = (f"{name}.weight" for name in as_names(found.layout.factorization.embedding))
    name = next((name for name in names if name in found.shapes), None)
    return None if name is None else torch.from_numpy(found.read(name)).tolist()


def embedding_held(found: TinyModel) -> Any:
    """What the module looks the rows of its tokens up in."""
    return found.model.get_input_embeddings().weight.tolist()


def proof(found: TinyModel) -> Any:
    """What a proof of a class is a proof of: the model under its head, its settings, the names on disk within it, and
    what kinds of modules the head is made of."""
    base = found.model.base_model
    head = {type(module) for module in found.model.modules()} - {type(module) for module in base.modules()}
    config = base.config.to_dict()
    settings = {key: value for key, value in config.items() if key not in ("architectures", "transformers_version")}
    names = [name for matrices in found.layout.everything for name in matrices.tensors]
    inside = tuple(name.removeprefix(f"{found.model.base_model_prefix}.") for name in names)
    return type(base), frozenset(head - {type(found.model)}), json.dumps(settings, sort_keys=True, default=str), inside


@pytest.mark.parametrize(("factorization", "forms"), list(cases()))
def test_every_product_is_what_the_module_computes(factorization, forms, tmp_path):
    """Most classes put a head of their own on a model that others have as well, which is proved once."""
    proved = set()
    for number, (name, wanted) in enumerate(known(forms)):
        found = build_tiny_model(name, tmp_path / str(number), required(factorization, name, wanted))
        assert found.layout.factorization.name == factorization.name, name
        loaded = opened(described(resolve(str(tmp_path / str(number)))))
        assert loaded.layout == found.layout, name  # what transformers saves it also loads
        said = embedding_said(found)
        assert said is None or said == embedding_held(found), name
        if proof(found) not in proved:
            assert faults(found) == {}, name
            proved.add(proof(found))


@pytest.mark.parametrize("factorization", ONE_A_LAYOUT)
def test_under_every_setting_a_class_that_adds_a_fixed_table_to_the_stream_is_not_exchangeable(factorization, tmp_path):
    """One class of each configuration; what a table would tell apart is then neither permuted nor flipped."""
    forms = [case for case in cases_of_settings(factorization) if case[1] in known_classes()]
    for at, (_, name, number, wanted) in enumerate(forms):
        found = build_tiny_model(name, tmp_path / str(at), wanted, factorization)
        pairs = [("", begun(name, wanted)), *(under_switches(name, wanted, found.model) if number == 0 else ())]
        assert [said for said, both in pairs if claims_exchangeable(both[0]) and adds_fixed_table(found, *both)] == []


@pytest.mark.parametrize("factorization", ONE_A_LAYOUT)
def test_every_name_that_a_file_says_is_on_the_disk_of_a_class_it_lists(factorization, tmp_path):
    unseen = names_said(factorization) | set(as_names(factorization.lora.unembedding))
    unseen |= set(as_names(factorization.embedding))
    witnesses = known([(name, wanted) for name in factorization.classes for wanted in variants(name)])
    while unseen and witnesses:
        name, wanted = witnesses.pop()
        found = build_tiny_model(name, tmp_path / str(len(witnesses)), required(factorization, name, wanted))
        unseen = names_unseen(unseen, found)
    assert unseen == set()
