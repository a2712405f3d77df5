"""YAML within bounds gives what PyYAML gives, and what is out of bounds is refused before it costs anything."""

import time
import tracemalloc

import pytest
import yaml

from hf_lineage.files import safe_yaml
from hf_lineage.files.safe_yaml import load

BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))


@pytest.mark.parametrize("text", [
    "", "# nothing", "a", "a: b", "- a\n- [b, {c: d}]\n", "{}", "[]", "a:\n", "a: ~", "? a\n: b",
    "a: 1\nb: 2.5\nc: no\n",
    "a: &x [1]\nb: *x", "a: !!int x", "!!set {a, b}", "a: |\n  b\n  c\n", "a: >-\n  b\n", '"\\u00e9": \U0001f600',
    "a: 1\na: 2", "--- a\n...\n", "'a': \"b\\nc\"", '"\\ud83d\\ude00"', "<<: {a: b}", "{a: b, ? c}",
])  # fmt: skip
def test_it_gives_what_the_plain_loader_gives(text):
    assert load(text) == yaml.load(text, Loader=yaml.BaseLoader)
    with pytest.raises(yaml.YAMLError) as error:
        load("a: b\nc: [d\n")
    assert safe_yaml.problem(error.value) == "expected ',' or ']', but got '<stream end>'"
    assert (safe_yaml.line(error.value), safe_yaml.line(yaml.YAMLError("x"))) == (3, None)


@pytest.mark.parametrize("loader", [safe_yaml.FAST, yaml.BaseLoader])
@pytest.mark.parametrize(("text", "message"), [
    *((each * 200_000, "more than 100 lists and mappings inside each other") for each in ("[", "- ", "{a: ")),
    (BOMB, "its aliases make more than 1000000 values"),
    ("a: &a [*a]", "found unconstructable recursive node"),
    ("a: *b", "found undefined alias 'b'"),
    ("a: &a x\nb: &a y", "found duplicate anchor 'a'"),
    ("? [a]\n: b", "found unhashable key"),
    ("a\n---\nb", "expected a single document in the stream"),
    ("a: \ud800", "it holds characters or numbers that YAML does not allow|special characters are not allowed"),
    ("#" * (2**20 + 1), "it is larger than 1 MiB"),
], ids=lambda value: value[:20] if isinstance(value, str) else value.__name__)  # fmt: skip
def test_what_cannot_be_is_refused_at_once(monkeypatch, loader, text, message):
    monkeypatch.setattr(safe_yaml, "FAST", loader)
    begun = time.process_time()
    with pytest.raises(yaml.YAMLError, match=message):
        load(text)
    assert time.process_time() - begun < 3


@pytest.mark.long
def test_a_mebibyte_takes_seconds_and_memory_within_bounds():
    tracemalloc.start()
    found = load("- [a, b]\n" * 116_000)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(found), most < 100 * 2**20) == (116_000, True)
