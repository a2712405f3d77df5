"""Models in folders: each with a counterpart in the base has a row, and what is not read is never passed over."""

import shutil

import pytest

from hf_lineage import check, compare
from tests.models import edit_json, family, tiny_llama
from tests.published.steps import STEPS
from tests.source.test_contents import DIFFUSION, into, options, pipeline, rows


@pytest.fixture
def hub(tmp_path):
    return family(tmp_path)


def test_every_part_of_a_pipeline_with_a_counterpart_has_a_row_and_the_rest_is_never_passed_over(hub):
    pipeline(hub / "acme/base", text_encoder=1, text_encoder_2=1)
    pipeline(hub / "fern/child", text_encoder=1, text_encoder_2=1, image_encoder=1)
    report = check("fern/child", options=options(hub))
    assert rows(report) == [
        ("acme/base", "text_encoder", "inherited"),
        ("acme/base", "text_encoder_2", "inherited"),
        ("acme/base", "", "unsupported"),
    ]
    assert report.exit_code == 3
    assert "may come from elsewhere: vae (AutoencoderKL)" in report.rows[2].verdict.reason
    assert any(note.startswith("image_encoder was not judged: ") for note in report.rows[0].notes)


def test_a_false_part_is_unrelated(hub):
    pipeline(hub / "acme/base", text_encoder=1)
    pipeline(hub / "fern/child", text_encoder=1)
    shutil.rmtree(hub / "fern/child/text_encoder")
    tiny_llama(hub / "fern/child/text_encoder", seed=9)
    report = check("fern/child", options=options(hub))
    assert (rows(report)[0][2], report.exit_code) == ("unrelated", 1)


def test_a_base_of_several_models_without_the_part_is_undecided(hub):
    into(hub / "acme/base", "first", "second")
    (row,) = check("fern/child", options=options(hub)).rows
    assert (row.verdict.code, "holds several models, in first, second" in row.verdict.reason) == ("ambiguous", True)


def test_a_part_that_no_factorization_reads_counts_as_the_bases_only_byte_for_byte(hub):
    for folder in (hub / "acme/base", hub / "fern/child"):
        STEPS["pipeline"](folder)
    assert [row[2] for row in rows(check("fern/child", options=options(hub)))] == ["inherited", "inherited"]
    (hub / "fern/child/vae" / DIFFUSION).unlink()
    assert rows(check("fern/child", options=options(hub)))[-1] == ("acme/base", "", "unsupported")


def test_a_part_that_the_base_has_and_that_cannot_be_judged_is_never_a_note(hub):
    for folder in (hub / "acme/base", hub / "fern/child"):
        STEPS["pipeline"](folder)
    edit_json(hub / "fern/child/unet/config.json", _class_name="NobodysNetwork")
    assert rows(check("fern/child", options=options(hub)))[:2] == [
        ("acme/base", "text_encoder", "inherited"),
        ("acme/base", "unet", "unsupported"),
    ]


def test_each_is_compared_with_the_folder_of_its_name(hub):
    into(hub / "acme/base", "a", "b")
    into(hub / "fern/child", "a", "b")
    assert rows(compare("acme/base", "fern/child", options(hub))) == [
        ("acme/base", "a", "inherited"),
        ("acme/base", "b", "inherited"),
    ]
