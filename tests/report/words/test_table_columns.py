"""The head of the table of claims says only of declared bases that they are declared."""

from hf_lineage.checking.results.claim_result import NAMED
from hf_lineage.report.words.table_columns import COLUMNS, columns
from tests import pages


def test_a_base_that_the_user_named_is_not_called_declared():
    measured = pages.measured()
    named, declared = pages.row(sources=NAMED, mlp=measured), pages.row(mlp=measured)
    assert columns(pages.report(named)) == ("Base", *COLUMNS[1:])
    assert columns(pages.report(declared)) == COLUMNS
    assert columns(pages.report(named, declared)) == columns(pages.report()) == COLUMNS
    assert pages.report(named).to_text().splitlines()[2].startswith(" Base ")
    assert "| Base |" in pages.report(named).to_markdown()
