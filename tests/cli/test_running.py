"""`--run` on the command line: what it needs, and what a report by it says."""

from tests.invoking import lineage
from tests.models import EXAMPLES


def test_what_it_needs_is_one_line(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    refused = lineage("check", EXAMPLES / "acme/llama-base", "--run")
    assert (refused.code, "pip install 'hf-lineage[run] @ git+" in refused.error) == (2, True)
    assert len(refused.error.strip().splitlines()) == 1
