"""registry/README.md tells all of the schema, and its example is the file it speaks of."""

import re
from pathlib import Path

import yaml

from hf_lineage.architecture.registry import registry_root
from hf_lineage.architecture.schema import Branches, Factorization, MatrixSet

README = (Path(__file__).parents[2] / "registry" / "README.md").read_text(encoding="utf-8")


def keys(title):
    """The keys in the table under a title."""
    section = README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \| ", section, re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


def test_every_key_of_a_file_is_told():
    assert keys("A file") == set(Factorization.__struct_fields__) - {"name"}


def test_every_key_of_a_matrix_set_is_told():
    assert keys("A matrix set") == set(MatrixSet.__struct_fields__)


def test_every_kind_of_branch_is_told():
    assert all(f"`{kind}`" in README for kind in Branches.__struct_fields__)


def test_the_example_is_the_file_that_it_names():
    example = re.search(r"^    classes:.*?\n\n", README, re.MULTILINE | re.DOTALL)
    assert example is not None
    said, stored = yaml.safe_load(example[0]), yaml.safe_load((registry_root() / "phi.yaml").read_text())
    assert set(said["classes"]) < set(stored["classes"])
    assert said | {"classes": stored["classes"]} == stored
