"""Where the numbers of a model came from, and which of those places somebody gave."""

from dataclasses import asdict

import pytest

from hf_lineage.signature.sources.trust import CACHE, FILE, WEIGHTS, Origin


@pytest.mark.parametrize(
    ("origin", "given"), [(WEIGHTS, False), (CACHE, False), (FILE, True), (Origin("published", "a/b"), True)]
)
def test_what_somebody_gave_in_place_of_the_weights_is_told_from_what_was_read_here(origin, given):
    assert origin.given is given


def test_a_report_has_it_as_plain_values():
    assert asdict(Origin("published", "a/b", {"mlp": "0" * 64}, "pinned")) == {
        "kind": "published",
        "repository": "a/b",
        "files": {"mlp": "0" * 64},
        "trusted": "pinned",
    }
    assert asdict(WEIGHTS) == {"kind": "weights", "repository": None, "files": {}, "trusted": ""}
