"""Every sentence that the program can print stands on one page, to be read aloud."""

from tests import sentences


def test_the_page_holds_the_sentences_of_today_each_once():
    assert sentences.PAGE.read_text("utf-8") == sentences.page(), "run python -m tests.sentences"
    lines = [line for lines in sentences.catalogue().values() for line in lines]
    assert len(lines) == len(set(lines)) > 1000


def test_what_is_put_in_is_shown_by_an_example_or_by_its_name(tmp_path):
    module = tmp_path / "module.py"
    module.write_text('''"""A docstring is for readers of the code."""
LIMIT = 100
def refuse(repo, odd):
    """Nor is this one printed."""
    raise ValueError(f"{repo} holds more than {LIMIT} files of {odd}")
''')
    assert sentences.sentences(module) == ["acme/llama holds more than 100 files of ‹odd›"]


def test_names_keys_and_patterns_are_no_sentences():
    assert [
        text for text in ("hidden_size", "model.layers.0", "two words", r"(?i)a b c") if sentences.is_sentence(text)
    ] == []
