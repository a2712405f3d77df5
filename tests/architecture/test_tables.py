"""Tables: a file of the registry is what its type says, or one clear line with its name.

Unsupported: every class that is left out has a reason, which whoever asks for it is told.
"""

import pytest

from hf_lineage.architecture.registry import factorizations, lookup
from hf_lineage.architecture.tables import read_table, registry_root, unsupported
from hf_lineage.errors import NothingToCompare, RegistryError


@pytest.mark.parametrize(("file", "text"), [("a.yaml", "x: 1"), ("a.json", '{"x": 1}')])
def test_a_table_is_read_by_the_ending_of_its_name(tmp_path, file, text):
    (tmp_path / file).write_text(text)
    assert read_table(tmp_path, file, dict[str, int]) == {"x": 1}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.yaml", "x: ["),
        ("a.yaml", "x: one"),
        ("a.yaml", ""),
        ("a.json", "{"),
        ("a.json", "[]"),
        ("b/none.yaml", None),
    ],
)
def test_anything_else_is_an_error_with_the_name_of_the_file(tmp_path, file, text):
    if text is not None:
        (tmp_path / file).write_text(text)
    with pytest.raises(RegistryError, match=rf"{file}: .*registry/README.md documents the schema"):
        read_table(tmp_path, file, dict[str, int])


def written(root, text):
    (root / "unsupported").mkdir()
    (root / "unsupported" / "some.yaml").write_text(text)
    return root


def test_no_class_is_both_listed_and_left_out():
    listed = {name for found in factorizations() for name in found.classes}
    assert unsupported(registry_root())
    assert not listed & unsupported(registry_root()).keys()


def test_a_model_of_such_a_class_is_told_the_reason():
    with pytest.raises(NothingToCompare, match="MambaForCausalLM is not supported: state space: between what reads"):
        lookup({"architectures": ["MambaForCausalLM"]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {reason: odd, classes: [A]}\n- {reason: even, classes: [A]}", "A is listed twice"),
        ("- {reason: odd, classes: [A], colour: red}", "unknown field `colour`"),
        ("- {classes: [A]}", "missing required field `reason`"),
        ("- [", "while parsing a flow node"),
    ],
)
def test_a_file_that_breaks_the_schema_is_refused_by_name(tmp_path, text, said):
    with pytest.raises(RegistryError, match=rf"^unsupported/some\.yaml: (?s:.*){said}"):
        unsupported(written(tmp_path, text))
