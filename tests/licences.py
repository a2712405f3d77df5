"""Models whose cards state licences, each fine-tuned from the one before."""

import pytest

from tests.models import card, fine_tuned


def licensed(folder, licence, base=None, *files):
    """Another licence in the card of a model, and empty files beside it."""
    text = card(folder, base).joinpath("README.md").read_text()
    (folder / "README.md").write_text(text.replace("license: mit\n", licence))
    for file in files:
        (folder / file).write_text("x")
    return folder


@pytest.fixture
def chain(hub):
    """A local hub: acme/base (Gemma's licence) -> fern/child (mit) -> wren/grandchild (apache-2.0)."""
    licensed(hub / "acme/base", "license: gemma\n", None, "NOTICE.txt")
    licensed(fine_tuned(hub / "fern/child", hub / "wren/grandchild"), "license: apache-2.0\n", "fern/child")
    return hub
