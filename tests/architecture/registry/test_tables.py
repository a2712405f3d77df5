"""Tables: a file of the registry is what its type says, or one clear line with its name."""

import pytest

from hf_lineage.architecture.registry.tables import read_table
from hf_lineage.errors import RegistryError


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
