"""Equal numbers are told with both p, and with what each layer inherits at least."""

import pytest

from hf_lineage import Options, compare
from hf_lineage.report.formats import json
from tests.models import EXAMPLES
from tests.sparse_models import BASE, other_mlps

OPTIONS = Options(seed=0, permutations=199, paths=("mlp",))


def test_reports_have_both_p_and_a_lower_bound_for_each_layer(tmp_path):
    report = compare(str(EXAMPLES / BASE), str(other_mlps(tmp_path / "model")), OPTIONS)
    (claim,) = json.document(report)["claims"]
    shown = claim["findings"]["equal"]["values"]
    assert claim["p_value_adjusted"] == shown["p_value_adjusted"] == pytest.approx(3 / 301)
    assert max(shown["p_permutations"], shown["p_signs"]) <= shown["p_value_adjusted"]
    assert list(shown["inherited_at_least"]) == [str(layer) for layer in range(6)]
    assert "numbers" in report.to_text()


def test_nothing_is_told_where_they_were_not_compared():
    report = compare(str(EXAMPLES / BASE), str(EXAMPLES / "fern/llama-finetune-a"), OPTIONS)
    assert "equal" not in json.document(report)["claims"][0]["findings"]
