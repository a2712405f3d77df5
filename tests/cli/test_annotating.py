"""annotate: what does not go together is refused before anything is read, and what is not asked for is not written."""

import pytest

from tests.invoking import lineage
from tests.models import tiny_llama

CHILD = "fern/child"


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


def test_the_exit_code_says_that_the_card_was_written_whatever_the_verdict(hub):
    tiny_llama(hub / "other/base", seed=5)
    found = lineage("annotate", hub / CHILD, "--local-hub", hub, "--base", "other/base", "--write")
    assert (found.code, found.out) == (0, "other/base: UNRELATED\nWrote lineage/claims.json and README.md.\n")
    assert "## Lineage" in (hub / CHILD / "README.md").read_text()


def test_a_base_is_declared_only_where_that_is_asked_for(hub):
    (hub / CHILD / "README.md").write_text("---\nlicense: mit\n---\n# A model\n")
    arguments = ("annotate", hub / CHILD, "--local-hub", hub, "--base", "acme/base", "--write")
    assert lineage(*arguments).code == 0
    assert "base_model:" not in (hub / CHILD / "README.md").read_text()
    assert lineage(*arguments, "--repair-base", "--relation", "finetune").code == 0
    text = (hub / CHILD / "README.md").read_text()
    assert "base_model: acme/base\n" in text
    assert "base_model_relation: finetune\n" in text
