"""Paths: another way through a layer is another entry of the table."""

import pytest

from hf_lineage import Options, compare, extract
from hf_lineage.architecture.paths import PATHS, Path
from hf_lineage.architecture.schema import BRANCH_ROLES
from hf_lineage.errors import NothingToCompare
from tests.models import tiny_gpt2, tiny_llama


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(PATHS, "gate_up", Path("mlp", writer="gate", reader="up", bilinear=True))
    return Options(paths=("gate_up",))


def test_a_path_that_is_added_to_the_table_is_extracted_and_compared(toy, tmp_path):
    assert all(set(path.roles) <= set(BRANCH_ROLES[path.branch]) for path in PATHS.values())
    base, other = tiny_llama(tmp_path / "base", seed=1), tiny_llama(tmp_path / "other", seed=2)
    assert extract(str(base), toy).paths["gate_up"].sketch.shape[0] == 2
    same, apart = (compare(str(base), str(model), toy).rows[0].verdict for model in (base, other))
    assert (same.code, same.evidence["gate_up"].comparison.score) == ("inherited", pytest.approx(1, abs=1e-5))
    assert apart.evidence["gate_up"].comparison.score < 0.5
    with pytest.raises(NothingToCompare, match="gpt2 has no path gate_up; it has mlp, value_output, query_key"):
        extract(str(tiny_gpt2(tmp_path / "ungated")), toy)
