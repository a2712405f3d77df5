"""The package speaks the language of its field: words that were retired do not come back."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "hf_lineage"
RETIRED = {
    r"relabel\w*": "permutation",
    r"stranger\w*": "untrusted input, or independent model",
    r"suspect\w*": "candidate",
    r"vetted|vetting": "verified, verification",
    r"believed": "trusted",
    r"sharing": "publishing",
    r"refuted": "contradicted",
    r"floors?": "minimum effect size",
    r"mend": "correct, replace",
    r"(?:is|are) no (?:size|signature|number)": "is not a",
    r"looks?": "interim analysis, or search",
}
"""A word as it may not stand in an identifier, a comment or a text, and what to write in its place."""
ANY = re.compile("|".join(rf"\b(?:{word})\b" for word in RETIRED))
VAGUE = {"found", "said", "theirs", "ours"}
"""Identifiers that do not say what they hold."""


def files():
    """Every file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def words(text):
    """The words of a text, those of `snake_case` and `CamelCase` names apart, as one lower-case line."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return re.sub(r"[\s_]+", " ", apart).lower()


def spoken(source):
    """Every identifier, comment and text of a source, each with the number of its line; not `math.floor`."""
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        rounding = before == "." and token.string == "floor"
        if token.type in (tokenize.NAME, tokenize.COMMENT, tokenize.STRING) and not rounding:
            yield token.start[0], token.string
        before = token.string


def retired(source):
    """Lines of a source with a retired word, each with the word."""
    return [(line, match[0]) for line, text in spoken(source) for match in ANY.finditer(words(text))]


def vague(source):
    """Lines of a source in which a vague name is bound or used, each with the name."""
    names = (
        (getattr(node, "lineno", 0), bound)
        for node in ast.walk(ast.parse(source))
        for bound in (getattr(node, field, None) for field in ("id", "arg", "name", "attr"))
    )
    return sorted({(line, name) for line, name in names if isinstance(name, str) and name.strip("_") in VAGUE})


def without_verb(source):
    """Lines of a source with a function that is called `of`: the name of a function says what it does."""
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return [(node.lineno, node.name) for node in functions if node.name.strip("_") == "of"]


@pytest.mark.parametrize("forbidden", [retired, vague, without_verb])
def test_no_file_has_a_retired_word_or_a_name_that_says_nothing(forbidden):
    uses = {str(file.relative_to(PACKAGE)): forbidden(file.read_text(encoding="utf-8")) for file in files()}
    assert len(uses) > 300
    assert {name: lines for name, lines in uses.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("relabelled = 1\n", "relabelled"),
        ("class StrangerModel: ...\n", "stranger"),
        ("suspect_score = 1\n", "suspect"),
        ('"""Whether it is\nbelieved."""\n', "believed"),
        ("x = 1  # refuted before\n", "refuted"),
        ('raise ValueError(f"{x} is no size")\n', "is no size"),
    ],
)
def test_a_retired_word_is_found_wherever_it_stands(source, word):
    assert [match for _, match in retired(source)] == [word]


@pytest.mark.parametrize("source", ["theirs = 1\n", "def f(said): ...\n", "self._found = 1\n", "f'{ours}'\n"])
def test_a_vague_name_is_found_wherever_it_stands(source):
    assert len(vague(source)) == 1


def test_a_function_without_a_verb_is_found_wherever_it_stands():
    assert without_verb("class A:\n    def of(self): ...\n") == [(2, "of")]


@pytest.mark.parametrize(
    "source", ["math.floor(1.5)\n", '"""No such file was found."""\n', "# what is said of it\n", "founded = profound\n"]
)
def test_the_same_words_may_stand_in_prose_and_in_longer_words(source):
    assert (retired(source), vague(source), without_verb(source)) == ([], [], [])
