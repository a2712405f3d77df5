"""The schema: every key that a file may have is used by some file, and is read for a signature or for an adapter.

The fingerprint of a factorization follows what it says of the tensors, and nothing else.
"""

import shutil
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest
import torch
from msgspec.structs import replace

from hf_lineage import Options, compare, extract
from hf_lineage.architecture import registry as lookup
from hf_lineage.architecture.paths import PATHS
from hf_lineage.architecture.registry import factorizations
from hf_lineage.architecture.schema import (
    BRANCH_ROLES,
    Branches,
    Factorization,
    Lora,
    MatrixSet,
    as_sets,
    fingerprint,
)
from tests.adapters import pair, written
from tests.models import spoil, tiny_gpt2, tiny_llama

STRUCTS = (MatrixSet, Branches, Lora, Factorization)
ADAPTED = [("model.layers.0.self_attn.o_proj", 32, 32), ("model.layers.0.self_attn.q_proj", 32, 32)]


def keys(struct):
    return {field.name: field for field in msgspec.structs.fields(struct)}


def default(field):
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def everything(struct):
    """Every piece of this kind that the registry has."""
    found = lookup.factorizations()
    if struct is Factorization:
        return found
    if struct is Lora:
        return [each.lora for each in found]
    return (
        [each.branches for each in found]
        if struct is Branches
        else [each for one in found for each in one.branches.everything()]
    )


@pytest.mark.parametrize(("struct", "key"), [(struct, key) for struct in STRUCTS for key in keys(struct)])
def test_every_key_says_something_in_some_file(struct, key):
    usual = default(keys(struct)[key])
    assert any(getattr(each, key) != usual for each in everything(struct)), f"no file of the registry uses {key}"


@pytest.mark.parametrize("key", ["stored", "gain", "normalization"])
def test_every_value_that_a_key_may_have_is_that_of_some_file(key):
    values = get_args(get_type_hints(Factorization)[key])
    assert len(values) > 1
    assert {getattr(found, key) for found in everything(Factorization)} == set(values)


def watched(struct, read):
    """The same kind of piece, which notes which of its keys are read."""

    def note(self, name):
        if name in struct.__struct_fields__:
            read.add(name)
        return struct.__getattribute__(self, name)

    return type(struct)(f"Watched{struct.__name__}", (struct,), {"__getattribute__": note}, frozen=True, kw_only=True)


def same(piece, kind, **changes):
    """A piece of the registry as one of another kind."""
    return kind(**{key: getattr(piece, key) for key in keys(type(piece))} | changes)


def _negated(tensors):
    """Other weights, which are unrelated."""
    generator = torch.Generator().manual_seed(9)
    for name, tensor in tensors.items():
        if tensor.ndim > 1:
            tensors[name] = torch.randn(tensor.shape, generator=generator)


def read_by_extracting(folder, name, monkeypatch, **more):
    """Which keys of a factorization, its branches and its sets are read when a model is extracted along every path, and
    when an adapter and an unrelated model are compared with it."""
    read = {struct.__name__: set() for struct in STRUCTS}
    other = spoil(Path(shutil.copytree(folder, folder.parent / f"{folder.name}-other")), _negated)
    kinds = {struct: watched(more.get(struct.__name__, struct), read[struct.__name__]) for struct in STRUCTS}
    (plain,) = (each for each in lookup.factorizations() if each.name == name)
    branches = {
        branch: tuple(same(each, kinds[MatrixSet]) for each in as_sets(plain.branches.sets(branch)))
        for branch in BRANCH_ROLES
    }
    noted = same(plain, kinds[Factorization], branches=kinds[Branches](**branches), lora=same(plain.lora, kinds[Lora]))
    for names in read.values():
        names.clear()
    with monkeypatch.context() as patch:
        patch.setattr(lookup, "_texts", lambda root: {root: " ".join(plain.classes)})
        patch.setattr(lookup, "_parse", lambda path, text: noted)
        extract(str(folder), Options(paths=tuple(PATHS)[:1]))
        adapter = written(folder / "adapter", {k: v for one in ADAPTED for k, v in pair(*one).items()})
        compare(str(folder), str(adapter))
        compare(str(folder), str(other), Options(paths=("mlp",)))
    return read


def test_every_key_is_read_when_a_model_is_extracted_or_an_adapter_is_tested(tmp_path, monkeypatch):
    read = read_by_extracting(tiny_llama(tmp_path / "llama"), "llama", monkeypatch)
    more = read_by_extracting(tiny_gpt2(tmp_path / "gpt2"), "gpt2", monkeypatch)
    for struct in STRUCTS:
        assert set(keys(struct)) - read[struct.__name__] - more[struct.__name__] == set()


FOUND = {found.name: found for found in factorizations()}
LLAMA = FOUND["llama"]


def test_no_two_are_alike():
    assert len(set(map(fingerprint, FOUND.values()))) == len(FOUND)


def test_another_class_or_another_matrix_that_is_left_out_changes_nothing():
    assert fingerprint(replace(LLAMA, classes=("Another",), ignores=("router",), depth="n")) == fingerprint(LLAMA)


def test_whatever_may_change_a_number_changes_it():
    changes = [
        {"stored": "in_out"},
        {"gain": "one_plus"},
        {"exchangeable": False},
        {"heads": "n_head"},
        {"normalization": "layer_norm"},
        {"layers": "h.{layer}"},
        {"branches": FOUND["gemma2"].branches},
    ]
    assert len({fingerprint(replace(LLAMA, **change)) for change in changes} | {fingerprint(LLAMA)}) == len(changes) + 1


def test_it_stays_what_it_is():
    """Written down, since what is published under it is used for as long as it is the same."""
    assert fingerprint(LLAMA)[:16] == "543b81bd68d3e330"
