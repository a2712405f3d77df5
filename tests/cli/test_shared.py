"""What several commands share: options that are refused before anything is read, and where a result goes."""

import click
import pytest

from hf_lineage.checking.settings import TYPED
from tests.invoking import lineage


class TestSet:
    def test_help_lists_every_key_and_its_usual_value_and_needs_no_model(self):
        outcome = lineage("check", "--set", "help")
        assert (outcome.code, outcome.err) == (0, "")
        assert all(f"{key}=" in outcome.out for key in TYPED)
        assert "alpha=NUMBER         Significance level of the test.  [default: 0.01]\n" in outcome.out
        assert "Seed of the permutations.  [default: 0]\n" in outcome.out

    def test_a_command_lists_the_keys_that_it_has(self):
        listed = lineage("extract", "--set", "help").out
        assert [key for key in TYPED if f"{key}=" in listed] == ["probes", "recipe", "recompute", "max-memory"]
        assert "alpha=0.1' is not KEY=VALUE; the keys are recipe, probes, max-memory, recompute" in (
            lineage("extract", "no/model", "--set", "alpha=0.1").error
        )


def test_check_has_no_more_options_than_a_user_can_read():
    from hf_lineage.cli import cli

    check = cli.get_command(None, "check")
    options = [option for option in check.get_params(click.Context(check)) if isinstance(option, click.Option)]
    assert len(options) <= 28


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ("json", "'json' is not FORMAT=FILE; the formats are text, json, "),
        ("json=", "'json=' is not FORMAT=FILE"),
        ("=x.json", "'=x.json' is not FORMAT=FILE"),
        ("xml=x.xml", "'xml=x.xml' is not FORMAT=FILE"),
        ("json=gone/x.json", "there is no folder 'gone' that can be written to; make it first"),
    ],
)
def test_a_report_without_a_format_or_a_place_is_refused_before_anything_is_read(report, message):
    assert message in lineage("check", "no/such-model", "--report", report).error


def test_an_equals_sign_in_the_name_of_a_file_belongs_to_it(hub, tmp_path):
    file = tmp_path / "a=b.json"
    assert lineage("check", "fern/child", "--local-hub", hub, "--report", f"json={file}").code == 0
    assert file.read_text().startswith("{")
