"""The benchmark of every number: its committed result, and a few of its files and edits made anew."""

import json

import numpy as np
import pytest

from benchmarks.strict import ARCHITECTURES, EDITS, FILE, SEEDS, cost, edited, formats, honest, judged, main, run

FEW = ("GGUF Q4_K, importance matrix", "bitsandbytes nf4, nested", "cast to float16")


def test_no_honest_file_was_refused_and_every_changed_number_was_found_at_its_place():
    result = json.loads(FILE.read_text("utf-8"))
    total = result["total"]
    assert result["architectures"] == list(ARCHITECTURES)
    assert (total["refused"], total["edits"]) == (0, EDITS)
    assert total["found"] == total["placed"] == EDITS
    assert total["honest"] >= 200
    assert result["formats"].keys() == formats().keys()


@pytest.mark.long
def test_a_few_of_them_made_anew_say_the_same():
    result = run(1, 4, FEW)
    assert result["total"] == {"honest": 12, "refused": 0, "edits": 4, "found": 4, "placed": 4}
    assert result["formats"].keys() == set(FEW)


@pytest.mark.long
def test_every_format_is_written_for_every_architecture_that_has_it(tmp_path):
    assert all(judged(one.base, one.folder).holds for one in honest(tmp_path, SEEDS))


def test_an_edit_is_of_one_number_and_as_large_as_it_says(tmp_path):
    files = list(honest(tmp_path, 1, ("GGUF Q8_0",)))
    for _, edit, outcome in edited(files, 3, seed=5):
        (wrong,) = outcome.beyond
        assert (wrong.name, wrong.place, wrong.beyond) == (edit.tensor, edit.place, 1)
        assert edit.steps >= 4
        assert wrong.excess >= edit.steps - 1.1 or np.isinf(wrong.excess)


@pytest.mark.long
def test_the_cost_is_measured_beside_a_plain_check_and_reading(tmp_path):
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 320}
    measured = cost(sizes)
    assert measured["time_beside_plain"] > 0.5
    assert measured["time_beside_reading"] > 1
    committed = json.loads(FILE.read_text("utf-8"))["cost"]
    assert committed.keys() == measured.keys()
    assert 1 < committed["memory_plain"] <= committed["memory_strict"] < 6


def test_the_command_says_whether_anything_was_missed(tmp_path, monkeypatch, capsys):
    row = {"honest": 2, "refused": 0, "edits": 3, "found": 3, "placed": 3}
    for found, code in ((3, 0), (2, 1)):
        result = {"total": row | {"found": found}, "formats": {"a": row}}
        monkeypatch.setattr("benchmarks.strict.run", lambda *_, result=result: result)
        assert main(["-o", str(tmp_path / "out.json")]) == code
    assert json.loads((tmp_path / "out.json").read_text()) == result
    assert "refused" in capsys.readouterr().out
