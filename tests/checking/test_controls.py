"""A pair beside controls: each is judged as it is alone, the base is read once, and no control hides behind a name."""

from collections import Counter

import pytest

from hf_lineage import Options, compare
from hf_lineage.checking.controls import compare_beside
from hf_lineage.checking.source.lazy_signature import Reading
from hf_lineage.errors import OptionError, RepositoryError
from tests.models import EXAMPLES, card, fine_tuned, tiny_llama

BASE, MODEL, INDEPENDENT = "acme/llama-base", "fern/llama-finetune-a", "otter/llama-independent"
OPTIONS = Options(local_hub=EXAMPLES, permutations=99, order_seed=0)


def words(report):
    return [row.verdict.words for row in report.rows]


def test_every_control_gets_the_verdict_that_it_gets_alone():
    found = compare_beside(BASE, MODEL, [INDEPENDENT, "acme/gpt2-base"], ["fern/llama-lora"], OPTIONS)
    alone = [compare(BASE, name, OPTIONS) for name in (MODEL, INDEPENDENT, "acme/gpt2-base", "fern/llama-lora")]
    reports = [found.pair, *(one.report for one in found.controls)]
    assert [words(report) for report in reports] == [words(report) for report in alone]
    assert [words(report) for report in reports] == [["RELATED"], ["UNRELATED"], ["UNRELATED"], ["RELATED by trace"]]
    for report, single in zip(reports[:3], alone, strict=False):
        (row,), (other,) = report.rows, single.rows
        assert row.verdict.evidence["mlp"].p_value == other.verdict.evidence["mlp"].p_value
    assert [one.independent for one in found.controls] == [True, True, False]
    assert found.exit_code == 0


def test_no_layer_of_the_base_is_read_twice(tmp_path, monkeypatch):
    read, extracted = Counter(), Reading._extracted

    def counted(self, layout):
        read.update((self._model.described.repo.name, number) for number in layout.numbers("mlp"))
        return extracted(self, layout)

    monkeypatch.setattr(Reading, "_extracted", counted)
    base = tiny_llama(tmp_path / "base")
    others = [str(tiny_llama(tmp_path / f"other-{seed}", seed=seed)) for seed in (1, 2)]
    compare_beside(str(base), str(fine_tuned(base, tmp_path / "child")), others, [], Options(permutations=99))
    assert {number for name, number in read if name == str(base)} == {0, 1}
    assert set(read.values()) == {1}


def test_a_control_that_cannot_be_compared_has_its_reason(tmp_path):
    (tmp_path / "empty").mkdir()
    damaged = tiny_llama(tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"\xff" * 64)
    controls = [str(tmp_path / "empty"), str(tmp_path / "none"), str(damaged)]
    found = compare_beside(str(tiny_llama(tmp_path / "base")), str(tiny_llama(tmp_path / "b", seed=1)), controls)
    verdicts = [one.report.rows[0].verdict for one in found.controls]
    assert [verdict.name for verdict in verdicts] == ["UNVERIFIABLE", "UNVERIFIABLE", "UNREADABLE"]
    assert all(verdict.reason for verdict in verdicts)


def test_an_error_of_the_pair_is_raised(tmp_path):
    base = str(tiny_llama(tmp_path / "base"))
    with pytest.raises(RepositoryError, match="none"):
        compare_beside(base, str(tmp_path / "none"), [base])


@pytest.mark.parametrize(
    ("controls", "message"),
    [
        ([BASE], "acme/llama-base is A itself; name each control once, and not A or B"),
        ([str(EXAMPLES / MODEL)], "examples/hub/fern/llama-finetune-a is B itself"),
        ([INDEPENDENT, str(EXAMPLES / INDEPENDENT)], "is the control otter/llama-independent already"),
        (["org/x"] * 51, "51 controls are named, but at most 50 are compared;"),
    ],
)
def test_a_control_is_another_model_and_named_once(controls, message):
    with pytest.raises(OptionError, match=message):
        compare_beside(BASE, MODEL, controls, [], OPTIONS)


def test_what_an_independent_control_declares_is_told(tmp_path):
    base, other = tiny_llama(tmp_path / "acme" / "base"), tiny_llama(tmp_path / "acme" / "other", seed=1)
    card(other, "Acme/Base")
    tiny_llama(tmp_path / "acme" / "b", seed=2)
    options = Options(local_hub=tmp_path, permutations=99)
    found = compare_beside("acme/base", "acme/b", ["acme/other"], [], options)
    assert [one.declares for one in found.controls] == ["acme/base"]
    assert base.is_dir()
