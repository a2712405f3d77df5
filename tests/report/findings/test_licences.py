"""The licences of a model and of the base that its weights confirm stand in every report; they decide nothing."""

import json
from dataclasses import replace

import jsonschema
import pytest

from hf_lineage import Options, check
from hf_lineage.claims.licence import Licence
from hf_lineage.report import FORMATS
from hf_lineage.report.findings import notes
from hf_lineage.report.formats.json import SCHEMA
from tests.invoking import lineage
from tests.models import card
from tests.pages import HOSTILE, measured, report, row

TOLD = ("text", "markdown", "html", "json", "sarif", "cyclonedx", "github")
MIT = Licence("mit")
GEMMA = Licence("other", "gemma", "https://example.org/terms")


def judged(model=MIT, base=GEMMA, **evidence):
    rows = (replace(row("org/base", mlp=measured(**evidence)), licence=base),)
    return replace(report(*rows), licence=model)


def text(report):
    return " ".join(FORMATS["text"](report, False).split())


def test_both_are_told_and_that_they_differ():
    assert (
        "org/base: licence as the cards state it: mit for the model, other (gemma, https://example.org/terms) for "
        "the base; the two differ, read both. This is a note, not legal advice"
    ) in text(judged())
    assert "org/base: licence as both cards state it: mit" in text(judged(base=MIT))
    assert "licence as the cards state it: mit for the model, none stated for the base" in text(judged(base=None))
    assert "licence" not in text(judged(None, None))


def test_only_of_a_base_that_the_weights_bear_out():
    assert "licence" not in text(judged(score=0.005, p=0.5, share=0.0))
    assert "licence" not in text(judged(share=0.3))


def test_no_verdict_depends_on_them():
    assert judged().exit_code == judged(base=MIT).exit_code == 0


def test_a_base_of_several_parts_is_told_once():
    (one,) = judged().rows
    several = replace(judged(), rows=(replace(one, part="unet"), replace(one, part="text_encoder")))
    assert text(several).count("licence as the cards") == 1


@pytest.mark.parametrize("form", TOLD)
def test_every_report_has_both(form):
    told = " ".join(FORMATS[form](judged(), False).split())
    assert "mit" in told.lower()
    assert "gemma" in told


def test_machines_get_the_keys_of_a_card():
    document = json.loads(FORMATS["json"](judged(), False))
    jsonschema.validate(document, json.loads(SCHEMA.read_text("utf-8")))
    assert document["license"] == {"license": "mit", "name": None, "link": None}
    assert document["claims"][0]["base_license"] == {
        "license": "other", "name": "gemma", "link": "https://example.org/terms",
    }  # fmt: skip


def test_in_sarif_they_are_a_note():
    (run,) = json.loads(FORMATS["sarif"](judged(), False))["runs"]
    *_, note = run["invocations"][0]["toolExecutionNotifications"]
    assert (note["level"], "not legal advice" in note["message"]["text"]) == ("note", True)
    assert [result["kind"] for result in run["results"]] == ["pass"]


@pytest.mark.parametrize("form", ["markdown", "html", "sarif"])
def test_what_a_card_states_is_no_markup(form):
    assert "<script" not in FORMATS[form](judged(Licence(HOSTILE[:150])), False)


def test_they_are_read_of_both_cards(hub):
    card(hub / "acme/base")
    child = hub / "fern/child" / "README.md"
    child.write_text(child.read_text().replace("license: mit", "license: other\nlicense_name: ours"))
    checked = check("fern/child", options=Options(local_hub=hub))
    assert (checked.licence, checked.rows[0].licence) == (Licence("other", "ours"), MIT)
    (sentence,) = notes.describe_base(checked, checked.rows[0]).sentences
    assert notes.DIFFER in sentence
    assert sentence.endswith(notes.ADVICE)
    assert (
        "other (ours) for the model, mit for the base" in lineage("check", "fern/child", "--local-hub", hub).sentences
    )


def test_of_a_hub_no_request_is_made_for_them(online):
    """The cards are among the small files that are fetched first."""
    checked = check("fern/llama-finetune-a")
    assert checked.rows[0].licence == Licence("apache-2.0")
    cards = [request for request in online.requests if request.startswith("GET") and "README.md" in request]
    assert len(cards) == 2
