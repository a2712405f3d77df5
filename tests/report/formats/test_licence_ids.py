"""A licence of the SPDX License List is spelled as there; of any other a reference of its own is made."""

import json
from importlib.resources import files

import pytest

from hf_lineage.claims.licence import Licence
from hf_lineage.report.formats.licence_ids import LISTED, expression


def test_every_name_is_on_the_list():
    """CycloneDX ships the list in one of its schemas."""
    (schema,) = (
        file
        for file in files("cyclonedx.schema._res").iterdir()
        if file.name.startswith("spdx") and ".json" in file.name
    )
    assert {*LISTED} - {*json.loads(schema.read_text("utf-8"))["enum"]} == set()


@pytest.mark.parametrize(
    ("licence", "spelled"),
    [
        (Licence("apache-2.0"), "Apache-2.0"),
        (Licence("MIT"), "MIT"),
        (Licence("odbl"), "ODbL-1.0"),
        (Licence("gpl-3.0"), "LicenseRef-gpl-3.0"),
        (Licence("llama3.1"), "LicenseRef-llama3.1"),
        (Licence("other", "Gemma Terms of Use"), "LicenseRef-Gemma-Terms-of-Use"),
        (Licence("", "ours"), "LicenseRef-ours"),
        (Licence("other"), "LicenseRef-other"),
        (Licence("", "", "https://example.org"), "LicenseRef-other"),
        (Licence("mit, cc-by-4.0"), "LicenseRef-mit-cc-by-4.0"),
        (Licence("<b>&"), "LicenseRef-b"),
    ],
)
def test_an_expression(licence, spelled):
    assert expression(licence) == spelled
