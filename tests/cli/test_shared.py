"""What several commands share: options that are refused before anything is read, and where a result goes."""

import click
import pytest

from hf_lineage.checking.settings import SETTINGS
from tests.invoking import lineage


def test_check_has_no_more_options_than_a_user_can_read():
    from hf_lineage.cli import cli

    check = cli.get_command(None, "check")
    options = [option for option in check.get_params(click.Context(check)) if isinstance(option, click.Option)]
    assert len(options) <= 21 + len(("--debug", "--quiet", "--help"))


def test_the_command_line_names_every_option_once():
    shown = lineage("check", "--help").out
    flags = [row.flag or f"--{name.replace('_', '-')}" for name, row in SETTINGS.items() if row.help]
    assert [flag for flag in flags if shown.count(f"  {flag}") != 1] == []


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ("json=", "'json=' is not FORMAT=FILE; the formats are text, json, "),
        ("=x.json", "'=x.json' is not FORMAT=FILE"),
        ("xml=x.xml", "'xml=x.xml' is not FORMAT=FILE"),
        ("json=gone/x.json", "there is no folder 'gone' that can be written to; make it first"),
    ],
)
def test_a_report_without_a_format_or_a_place_is_refused_before_anything_is_read(report, message):
    assert message in lineage("check", "no/such-model", "-o", report).error


def test_an_equals_sign_in_the_name_of_a_file_belongs_to_it(hub, tmp_path):
    file = tmp_path / "a=b.json"
    assert lineage("check", "fern/child", "--local-hub", hub, "-o", f"json={file}").code == 0
    assert file.read_text().startswith("{")
