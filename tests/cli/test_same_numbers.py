"""A blend whose card names one of its two parents has the same numbers wherever somebody asks for them."""

import json
import shutil

import pytest

from hf_lineage import Options, check, extract
from hf_lineage.index.store import Catalogue
from tests.blends import BASE, A, B, blended
from tests.invoking import lineage
from tests.models import EXAMPLES

MODEL = "wren/rio"
SENTENCE = (
    f"{B} shows as an undeclared parent: 57% (± 0.1) of {B} and 43% (± 0.1) of {BASE} explain 99.9% of the model; "
    f"nothing was trained after the blend; the model names {BASE} alone"
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A local hub of the blend and its relatives, with an index of these beside it."""
    folder = tmp_path_factory.mktemp("hub")
    catalogue = Catalogue(folder / "index")
    for name in (BASE, A, B):
        shutil.copytree(EXAMPLES / name, folder / name)
        catalogue.add(extract(name, Options(local_hub=folder)))
    blended(folder / MODEL, {BASE: 0.43, B: 0.57})
    return folder


@pytest.fixture(scope="module")
def expected(hub):
    """What Python says of the two parents."""
    return check(MODEL, (BASE, B), Options(local_hub=hub, seed=0)).to_dict()["blend"]


def asked(hub, *arguments, code=3, command="check"):
    shown = lineage(command, MODEL, "--local-hub", hub, *arguments)
    assert shown.code == code
    return shown


@pytest.mark.long
def test_the_command_says_them_by_an_index_and_by_bases_that_are_named(hub, expected):
    for how in (("--index", hub / "index"), ("--base", BASE, "--base", B)):
        assert json.loads(asked(hub, *how, "--format", "json").out)["blend"] == expected
        assert SENTENCE in asked(hub, *how).sentences
    assert [round(one["share"], 3) for one in expected["parents"]] == [0.43, 0.57]
