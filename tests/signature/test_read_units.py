"""Hidden units of layers, with and without experts, as they are read."""

import numpy as np
import pytest

from hf_lineage.checking.opened import headers
from hf_lineage.hub.reference import resolve
from hf_lineage.signature.read_units import unit_rows
from tests.models import tiny_gpt2, tiny_llama


@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2])
def test_units_are_over_the_norm_of_their_whole_rows(tmp_path, make):
    model = headers(resolve(str(make(tmp_path / "model"))))
    rows = unit_rows(model.checkpoint, model.layout, [1], np.eye(32, dtype=np.float32)[:8])
    assert list(rows) == [1]
    whole = unit_rows(model.checkpoint, model.layout, [1], np.eye(32, dtype=np.float32))[1]
    assert np.allclose(np.linalg.norm(whole.inner, axis=1), 1, atol=1e-5)
    assert np.allclose(rows[1].outer, whole.outer[:, :8], atol=1e-6)
    assert whole.finite
    assert len(whole.of(slice(3)).weight) == 3
