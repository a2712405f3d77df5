"""What is stored as in the base stands in every report, with the layers that were taken."""

import html
import json
import re
from dataclasses import replace

import jsonschema
import pytest

from hf_lineage.evidence.derivation import Copies, Part, Source
from hf_lineage.report import FORMATS
from hf_lineage.report.findings.copies import describe
from hf_lineage.report.formats.json import SCHEMA
from tests.pages import HOSTILE, measured, report, row

LAYERS = [Part(f"model.layers.{number}", True) for number in range(12)]
EMBEDDING, HEAD = Part("model.embed_tokens.weight", False), Part("lm_head.weight", False)
ORDER = (*range(6), *range(2, 8))
STACKED = Copies(0.984, {LAYERS[own]: Source(LAYERS[source], 0.99) for own, source in enumerate(ORDER)}, (HEAD,))
FROZEN = Copies(0.21, {EMBEDDING: Source(EMBEDDING, 1.0)}, tuple(LAYERS))


def reported(copies):
    one = row("org/base", mlp=measured())
    return report(replace(one, verdict=replace(one.verdict, copies=copies)))


def said(copies):
    full = reported(copies)
    (sentence,) = describe(full, full.rows[0]).sentences
    return sentence


def test_layers_that_stand_elsewhere_are_told_as_runs():
    assert said(STACKED) == (
        "98.4% of its bytes are stored as those of org/base, by the Hub's listing of stored chunks: 12 of 12 layers "
        "(0 to 5 from 0 to 5, 6 to 11 from 2 to 7); what is not listed may be equal too"
    )


def test_a_frozen_embedding_is_told_by_its_name():
    assert "none of the layers and outside the layers model.embed_tokens.weight" in said(FROZEN)


@pytest.mark.parametrize("form", ["text", "markdown", "html", "github", "sarif"])
def test_every_report_says_it(form):
    text = html.unescape(re.sub("<[^>]*>", "", FORMATS[form](reported(FROZEN), False)))
    assert "21.0% of its bytes are stored as those of org/base" in " ".join(text.split())


def test_the_json_report_has_it_part_by_part():
    document = json.loads(FORMATS["json"](reported(STACKED), False))
    jsonschema.validate(document, json.loads(SCHEMA.read_text("utf-8")))
    values = document["claims"][0]["findings"]["copies"]["values"]
    assert values["copied"]["model.layers.11"] == {"layer": True, "from": "model.layers.7", "share": 0.99}


def test_names_of_tensors_are_escaped():
    hostile = Copies(0.5, {Part(HOSTILE, False): Source(Part(HOSTILE, False), 1.0)}, ())
    assert "<script>" not in FORMATS["html"](reported(hostile), True)
    assert "\x1b" not in FORMATS["text"](reported(hostile), True)
