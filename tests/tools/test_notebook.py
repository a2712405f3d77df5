"""The notebook in docs/ shows what it gives today, and can be read by whoever opens it."""

import pytest

from tools import notebook


@pytest.fixture(scope="module")
def committed():
    return notebook.read()


@pytest.mark.long
def test_run_today_it_gives_what_is_committed(committed):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    today = notebook.run()
    assert list(notebook.ROOT.glob("kernel*")) == []
    for now, before in zip(today["cells"], committed["cells"], strict=True):
        assert now == before, "run `make docs`"
    assert today == committed


def test_it_keeps_to_the_format_of_notebooks(committed):
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.from_dict(committed))


def test_no_cell_failed_and_none_was_left_out(committed):
    cells = [cell for cell in committed["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"execute_result", "stream"}
    assert not [output for output in outputs if output.get("name") == "stderr"]


def test_it_tells_nothing_of_the_machine_that_ran_it(committed):
    assert str(notebook.ROOT) not in notebook.NOTEBOOK.read_text("utf-8")
    assert {name for cell in committed["cells"] for name in cell["metadata"]} == set()


def test_the_page_has_each_cell_with_what_it_gives(committed):
    page = notebook.page()
    assert page.startswith("# ")
    assert page.count("```python\n") == sum(cell["cell_type"] == "code" for cell in committed["cells"])
    assert '<div class="output"><p>Lineage of' in page
    assert "alpha must be a number, not '0.01'" in page
