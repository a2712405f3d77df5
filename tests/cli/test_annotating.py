"""annotate: what does not go together is refused before anything is read."""

import pytest

from tests.invoking import lineage


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--write", "--pull-request"], "give --write or --pull-request, not both"),
        (["--repair-base"], "--repair-base needs exactly one --base"),
        (["--repair-base", "--base", "a/b", "--base", "c/d"], "--repair-base needs exactly one --base"),
        (["--relation", "finetune"], "--relation needs --repair-base, which declares the base"),
        (["--repair-base", "--base", "a/b", "--relation", "parent"], "'parent' is not one of 'adapter', 'finetune'"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_read(arguments, message):
    assert message in lineage("annotate", "no/such-model", *arguments).error
