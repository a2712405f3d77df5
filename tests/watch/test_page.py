from dataclasses import FrozenInstanceError

import pytest

from hf_lineage.watch.page import ERROR, VERDICT, Page


def test_a_page_is_a_value():
    page = Page(("Model", VERDICT), (("fern/gated", ERROR),), ("1 model is new.",), {})
    assert page == Page(page.columns, page.rows, page.sentences, {})
    with pytest.raises(FrozenInstanceError):
        page.rows = ()
