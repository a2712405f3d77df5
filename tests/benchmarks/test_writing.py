"""What the benchmarks write is what the package reads."""

import pytest

from benchmarks.shapes import QUICK
from benchmarks.writing import write_model
from hf_lineage import compare, extract
from tests.long import first_of


@pytest.mark.few(1)
@pytest.mark.parametrize("name", first_of(["125M", "GPT-2", "70B"], count=2))
def test_a_child_is_related_to_its_parent_and_a_stranger_is_not(tmp_path, name):
    from dataclasses import replace

    parent, child = QUICK.model(name).pair
    models = [parent, child, replace(parent, name="stranger", seed=1)]
    for model in models:
        write_model(model, tmp_path / model.folder)
    a, b, c = (str(tmp_path / model.folder) for model in models)
    assert [compare(a, other).rows[0].verdict.word for other in (b, c)] == ["VERIFIED", "UNRELATED"]


def test_the_tokenizer_is_one(tmp_path):
    from transformers import AutoTokenizer

    write_model(QUICK.model("125M", 1), tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert tokenizer("word7 word12 nonsense").input_ids == [7, 12, 0]
    assert len(tokenizer) == QUICK.shapes["125M"].vocabulary
    assert extract(str(tmp_path / "model")).layers == 1
