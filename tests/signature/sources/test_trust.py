"""The trust file: what it may say, and what is said where it is wrong."""

import os

import pytest

from hf_lineage.errors import OptionError
from hf_lineage.signature.sources import trust

COMMIT, DIGEST = "1" * 40, "ab" * 32
WHOLE = f"""\
signatures:
  - lib/signatures
pinned:
  - model: acme/base
    commit: "{COMMIT}"
    sha256: {DIGEST}
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "trust.yaml"


def test_it_names_repositories_and_pins_files(file):
    file.write_text(WHOLE)
    found = trust.load(file)
    assert found.signatures == ("lib/signatures",)
    assert found.commits(("acme/former", "acme/base"), DIGEST) == {COMMIT}
    assert not found.commits(("acme/other",), DIGEST)
    assert not found.commits(("acme/base",), "0" * 64)


def test_a_digest_of_digits_alone_needs_no_quotes(file):
    file.write_text(WHOLE.replace(DIGEST, "1" * 64).replace(f'"{COMMIT}"', COMMIT))
    assert trust.load(file).commits(("acme/base",), "1" * 64) == {COMMIT}


@pytest.mark.parametrize("tag", ["timestamp", "int", "float", "bool", "binary", "omap", "python/object:os.system"])
def test_a_tag_makes_nothing(file, tag):
    file.write_text(f"signatures: [!!{tag} x]")
    assert trust.load(file).signatures == ("x",)


def test_without_one_nothing_is_pinned(own_files):
    assert trust.usual_file() == own_files / "config/hf-lineage/trust.yaml"
    assert trust.load() == trust.Trust()


def test_the_usual_one_is_among_the_users_configurations(monkeypatch, own_files):
    trust.usual_file().parent.mkdir(parents=True)
    trust.usual_file().write_text(WHOLE)
    assert trust.load().signatures == ("lib/signatures",)
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/home/wren")
    assert str(trust.usual_file()) == "/home/wren/.config/hf-lineage/trust.yaml"


def test_a_pipe_is_not_waited_for(file):
    os.mkfifo(file)
    with pytest.raises(OptionError, match="cannot be read: it is a pipe or a device, not a regular file"):
        trust.load(file)


def test_a_folder_of_nobody_is_told(file):
    file.write_text("registry: ~nouser/x")
    with pytest.raises(OptionError) as error:
        trust.load(file)
    assert str(error.value).endswith(f"of a user who has none; set registry in {file} to a path")


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}"])
def test_an_empty_one_is_one(file, text):
    file.write_text(text)
    assert trust.load(file) == trust.Trust()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pinned: [", "is not a trust file: expected the node content, but found '<stream end>'"),
        ("- a list", "is not a trust file: Expected `object`, got `array`"),
        ("surplus: 1", "is not a trust file: Object contains unknown field `surplus`"),
        ("signatures: lib/signatures", "is not a trust file: Expected `array`, got `str`"),
        (WHOLE.replace(DIGEST, "short"), "matching regex"),
        (WHOLE.replace(COMMIT, "main"), "matching regex"),
        ("pinned: [{}]", "is not a trust file: Object missing required field `model`"),
        ("a: &a [*a]", "is not a trust file: "),
        ("#" * (2**20 + 1), "is larger than 1 MiB"),
        ("[" * 100_000, "is not a trust file: more than 100 lists and mappings inside each other"),
        ("signatures: !!timestamp x", "is not a trust file: Expected `array`, got `str`"),
        ("signatures: !!int x", "is not a trust file: Expected `array`, got `str`"),
        ('signatures: "\\UFFFFFFFF"', "is not a trust file: it holds characters or numbers that YAML does not allow"),
        (
            "%YAML " + "9" * 5000 + ".1\n--- {}",
            "is not a trust file: it holds characters or numbers that YAML does not allow",
        ),
    ],
    ids=lambda value: value[:20],
)
def test_a_wrong_one_is_one_line(file, text, message):
    file.write_text(text)
    with pytest.raises(OptionError, match=r".") as error:
        trust.load(file)
    assert message in str(error.value)
    assert str(error.value).isprintable()


def test_one_that_is_named_has_to_be_there(file):
    with pytest.raises(OptionError, match="there is no such trust file; create it, or leave the option out"):
        trust.load(file)


def test_one_that_cannot_be_read_is_one_line(file):
    file.mkdir()
    with pytest.raises(OptionError, match="cannot be read: Is a directory"):
        trust.load(file)
    file.rmdir()
    file.write_bytes(b"\xff")
    with pytest.raises(OptionError, match="is not a trust file: 'utf-8' codec"):
        trust.load(file)
