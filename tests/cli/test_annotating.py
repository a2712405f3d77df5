"""annotate: what does not go together is refused before anything is read."""

from tests.invoking import lineage


def test_a_card_goes_to_one_place():
    refused = lineage("annotate", "no/such-model", "--write", "--pull-request")
    assert "give --write or --pull-request, not both" in refused.error
