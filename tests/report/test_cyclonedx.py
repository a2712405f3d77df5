"""The bill of materials keeps to its schema; an ancestor is what the weights bear out, and nothing else."""

import json
from dataclasses import replace

import pytest

from hf_lineage import report
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.merge import Parent
from hf_lineage.report.cyclonedx import ancestors
from tests import pages
from tests.invoking import lineage

CODES = ["inherited", "unrelated", "inconclusive", "incompatible", "no-weights", "damaged"]


def rendered(checked):
    return report.FORMATS["cyclonedx"](checked, False)


def validate(text):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_only_what_the_weights_bear_out_is_an_ancestor_and_every_claim_a_property(every_kind):
    model = json.loads(rendered(every_kind))["metadata"]["component"]
    (ancestor,) = model["pedigree"]["ancestors"]
    assert (model["type"], model["name"]) == ("machine-learning-model", "model")
    assert ancestor["purl"] == f"pkg:huggingface/org/base@{'0' * 40}"
    (identity,) = ancestor["evidence"]["identity"]
    said = "org/base is VERIFIED inherited (score 0.973, 100% inherited, p = 0.001)"
    assert identity["methods"] == [{"technique": "binary-analysis", "confidence": 0.999, "value": said}]
    properties = {entry["name"]: entry["value"] for entry in model["properties"]}
    assert [properties[f"hf-lineage:claim:{number}:code"] for number in range(6)] == CODES
    assert properties["hf-lineage:claim:1:p-value"] == "0.5"
    first = [properties[f"hf-lineage:claim:0:{name}"] for name in ("verdict", "verified", "inherited")]
    assert first == ["VERIFIED", "true", "100%"]


@pytest.mark.parametrize("share", [0.3, 0.0, None])
def test_what_is_related_in_another_way_is_no_ancestor_even_if_it_is_accepted(share):
    part = pages.row(mlp=pages.measured(share=share), criteria=Criteria(accept=("part", "embedding")))
    model = json.loads(rendered(pages.report(part)))["metadata"]["component"]
    assert "pedigree" not in model
    properties = {entry["name"]: entry["value"] for entry in model["properties"]}
    assert properties["hf-lineage:claim:0:verified"] == "false"


@pytest.mark.parametrize("licence", ["apache-2.0", "other (gemma, javascript:alert(1))"])
def test_licences_are_those_that_the_cards_declare(licence):
    judged = replace(pages.report(replace(pages.row(mlp=pages.measured()), licence=licence)), licence=licence)
    validate(rendered(judged))
    model = json.loads(rendered(judged))["metadata"]["component"]
    told = {"id": "Apache-2.0"} if licence == "apache-2.0" else {"name": licence}
    for component in (model, *model["pedigree"]["ancestors"]):
        assert component["licenses"] == [{"license": {"acknowledgement": "declared"} | told}]


def test_without_its_library_the_extra_is_named_before_anything_is_read(monkeypatch):
    monkeypatch.setattr(report, "find_spec", lambda module: None)
    assert lineage("check", "no such model", "--format", "cyclonedx").error == (
        "--format cyclonedx needs cyclonedx-python-lib; run pip install 'hf-lineage[cyclonedx] @ git+https://github.com/hf-lineage/hf-lineage'"
    )


def test_the_nearest_is_first_the_base_of_a_merge_last_and_each_named_once():
    def near(base, share, **more):
        return replace(pages.row(base, mlp=pages.measured(share=share)), **more)

    base = Parent(method="ties", declared={}, shares={}, is_base=True)
    for rows, names in (
        ((near("org/far", 0.6), near("org/near", 0.99), near("org/part", 0.3)), ["org/near", "org/far"]),
        ((near("org/base", 0.99, parent=base), near("org/parent", 0.7)), ["org/parent", "org/base"]),
        ((near("org/base", 0.9, part="unet"), near("org/base", 0.9, part="text_encoder")), ["org/base"]),
    ):
        assert [one.claim.base for one in ancestors(pages.report(*rows))] == names
    model = json.loads(rendered(pages.report(near("org/far", 0.6), near("org/near", 0.99))))["metadata"]["component"]
    assert [one["name"] for one in model["pedigree"]["ancestors"]] == ["near", "far"]
    for p, level in ((0.001, 0.999), (0.003, 0.997), (1e-9, 0.9999)):
        model = json.loads(rendered(pages.report(pages.row(mlp=pages.measured(p=p)))))["metadata"]["component"]
        (identity,) = model["pedigree"]["ancestors"][0]["evidence"]["identity"]
        assert identity["confidence"] == level, "never certain"
