"""The schema: every key is used by some file and read; the fingerprint follows what a file says of tensors alone."""

import functools
import re
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest
import yaml
from msgspec.structs import replace

import hf_lineage
from hf_lineage.architecture.registry import factorizations, registry_root
from hf_lineage.architecture.schema import BRANCH_ROLES, Branches, Factorization, Lora, MatrixSet, fingerprint

KEYS = [(one, field) for one in (MatrixSet, Branches, Lora, Factorization) for field in msgspec.structs.fields(one)]


@functools.cache
def sources():
    return "".join(path.read_text() for path in Path(hf_lineage.__file__).parent.rglob("*.py"))


def everything(struct):
    found = factorizations()
    pieces = {Factorization: found, Lora: [one.lora for one in found], Branches: [one.branches for one in found]}
    return pieces.get(struct) or [each for one in found for each in one.branches.everything()]


@pytest.mark.parametrize(("struct", "field"), KEYS, ids=lambda one: getattr(one, "name", None))
def test_every_key_says_something_in_some_file_and_is_read_somewhere(struct, field):
    """By its name, or through the tables of roles; a key that nothing reads would promise what nobody does."""
    key = field.name
    usual = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    assert any(getattr(each, key) != usual for each in everything(struct)), f"no file of the registry uses {key}"
    roles = {role for of_branch in BRANCH_ROLES.values() for role in of_branch}
    assert key in roles | BRANCH_ROLES.keys() or f".{key}" in sources()

    if key in ("stored", "gain", "normalization"):  # each of their values is that of some file
        values = get_args(get_type_hints(Factorization)[key])
        assert ({getattr(found, key) for found in factorizations()}, len(values) > 1) == (set(values), True)


FOUND = {found.name: found for found in factorizations()}
LLAMA = FOUND["llama"]


def test_what_may_change_a_number_changes_it_and_a_class_or_ignored_matrix_does_not():
    """Written down, since what is published under it is used for as long as it is the same."""
    assert len(set(map(fingerprint, FOUND.values()))) == len(FOUND)
    assert fingerprint(replace(LLAMA, classes=("Another",), ignores=("router",), depth="n")) == fingerprint(LLAMA)
    assert fingerprint(LLAMA)[:16] == "543b81bd68d3e330"
    changes = [
        *({"stored": "in_out"}, {"gain": "one_plus"}, {"exchangeable": False}, {"heads": "n_head"}),
        *({"normalization": "layer_norm"}, {"layers": "h.{layer}"}, {"branches": FOUND["gemma2"].branches}),
    ]
    assert len({fingerprint(replace(LLAMA, **change)) for change in changes} | {fingerprint(LLAMA)}) == len(changes) + 1


README = (Path(__file__).parents[2] / "registry" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("title", "known"),
    [("A file", {*Factorization.__struct_fields__} - {"name"}), ("A matrix set", {*MatrixSet.__struct_fields__})],
)
def test_every_key_has_a_row_in_the_readme_whose_example_is_the_file_that_it_names(title, known):
    section = README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \| ", section, re.MULTILINE)
    assert {key for row in rows for key in re.findall(r"`(\w+)`", row)} == known
    assert all(f"`{kind}`" in README for kind in Branches.__struct_fields__)
    example = re.search(r"^    classes:.*?\n\n", README, re.MULTILINE | re.DOTALL)
    assert example is not None
    said, stored = yaml.safe_load(example[0]), yaml.safe_load((registry_root() / "phi.yaml").read_text())
    assert set(said["classes"]) < set(stored["classes"])
    assert said | {"classes": stored["classes"]} == stored
