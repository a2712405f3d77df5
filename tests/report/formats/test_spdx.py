"""The SPDX document is one to SPDX's own model, and says of descent what the weights bear out, and nothing else.

A licence of the SPDX License List is spelled as there; of any other a reference of its own is made.
"""

import hashlib
import json
from dataclasses import replace
from importlib.resources import files

import pytest
import spdx_python_model

from hf_lineage.checking.results.claim_result import Row
from hf_lineage.claims.licence import Licence
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.report import FORMATS
from hf_lineage.report.formats import spdx
from hf_lineage.report.formats.spdx import LISTED, expression
from tests.models import WEIGHTS
from tests.pages import measured, report, row


def rendered(report):
    return json.loads(FORMATS["spdx"](report, False))


def loaded(document):
    """The objects that SPDX's own library reads; it refuses what its model does not have."""
    model, objects = spdx_python_model.load_data(document)
    assert not objects.link(), "an element that is named and is not there"
    return model, objects


def written_again(document):
    """What SPDX's own library writes of what it reads; only then it notices what is missing."""
    model, objects = loaded(document)
    return model.JSONLDSerializer().serialize_data(objects)


def typed(document, kind):
    return [element for element in document["@graph"] if element["type"] == kind]


def relations(document, kind):
    """Ends of every relationship of a kind, by what follows the address of the document."""
    return [
        (one["from"].partition("#")[2], one["to"][0].partition("#")[2] or one["to"][0])
        for one in typed(document, "Relationship")
        if one["relationshipType"] == kind
    ]


def test_spdx_reads_it_and_writes_it_again(any_report):
    again = written_again(rendered(any_report))
    assert len(again["@graph"]) == len(rendered(any_report)["@graph"])
    model, objects = loaded(rendered(any_report))
    (document,) = objects.foreach_type(model.SpdxDocument)
    (sbom,) = document.rootElement
    assert [type(root) for root in sbom.rootElement] == [model.ai_AIPackage]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda graph: graph[0].update(specVersion=3),
        lambda graph: graph[0].pop("created"),
        lambda graph: graph[2].update(software_sbomType=["guessed"]),
        lambda graph: graph[3].update(software_primaryPurpose="oracle"),
        lambda graph: graph[3].update(invented="x"),
    ],
)
def test_spdx_would_notice_what_is_wrong(every_kind, spoil):
    document = rendered(every_kind)
    spoil(document["@graph"])
    with pytest.raises((ValueError, KeyError, TypeError)):
        written_again(document)


def test_only_what_the_weights_bear_out_is_an_ancestor(every_kind):
    document = rendered(every_kind)
    assert relations(document, "descendantOf") == [("model", "base-1")]
    model, base = typed(document, "ai_AIPackage")
    assert (model["name"], base["name"], base["software_packageVersion"]) == ("model", "org/base", "0" * 40)
    assert base["software_packageUrl"] == f"pkg:huggingface/org/base@{'0' * 40}"
    assert base["software_downloadLocation"] == f"https://huggingface.co/org/base/tree/{'0' * 40}"
    assert [one["name"] for one in typed(document, "Agent")] == ["org"]


def test_every_claim_is_told_whatever_became_of_it(every_kind):
    told = [one["statement"] for one in typed(rendered(every_kind), "Annotation")]
    assert len(told) == len(every_kind.rows)
    outcome = "org/base is RELATED (score 0.973, 100% inherited, p = 0.001)"
    assert told[0] == f"{outcome}. Declared in README.md. org/base: All 4 layers come from it."
    assert all(any(word in one for one in told) for word in ("UNRELATED", "UNVERIFIABLE", "UNREADABLE"))


def test_what_is_related_in_part_is_no_ancestor():
    assert relations(rendered(report(row(mlp=measured(share=0.3)))), "descendantOf") == []


def test_the_weights_have_their_digest(every_kind, folder):
    (file,) = typed(rendered(every_kind), "software_File")
    digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    assert file["verifiedUsing"] == [{"type": "Hash", "algorithm": "sha256", "hashValue": digest}]
    assert relations(rendered(every_kind), "contains") == [("model", "model-file-1")]


def test_each_model_has_one_declared_and_one_concluded_licence():
    base = replace(row("org/base", mlp=measured()), licence=Licence("other", "gemma", "https://example.org/terms"))
    document = rendered(replace(report(base), licence=Licence("apache-2.0")))
    loaded(document)
    assert relations(document, "hasDeclaredLicense") == [("model", "model-licence"), ("base-1", "base-1-licence")]
    assert relations(document, "hasConcludedLicense") == [
        ("model", spdx.NOT_CONCLUDED),
        ("base-1", spdx.NOT_CONCLUDED),
    ]
    stated = typed(document, "simplelicensing_LicenseExpression")
    assert [one["simplelicensing_licenseExpression"] for one in stated] == ["Apache-2.0", "LicenseRef-gemma"]
    without = relations(rendered(report(row(mlp=measured()))), "hasDeclaredLicense")
    assert without == [("model", spdx.NOT_CONCLUDED), ("base-1", spdx.NOT_CONCLUDED)]


def test_the_same_report_is_the_same_document(every_kind):
    assert rendered(every_kind) == rendered(every_kind)
    assert rendered(every_kind)["@graph"][0]["created"] == "2026-11-18T11:06:40Z"


def test_it_claims_no_profile_that_asks_for_what_is_not_known(every_kind):
    (document,) = typed(rendered(every_kind), "SpdxDocument")
    assert document["profileConformance"] == ["core", "software", "simpleLicensing"]


def test_every_name_is_on_the_list():
    """CycloneDX ships the list in one of its schemas."""
    (schema,) = (
        file
        for file in files("cyclonedx.schema._res").iterdir()
        if file.name.startswith("spdx") and ".json" in file.name
    )
    assert {*LISTED} - {*json.loads(schema.read_text("utf-8"))["enum"]} == set()


@pytest.mark.parametrize(
    ("licence", "spelled"),
    [
        (Licence("apache-2.0"), "Apache-2.0"),
        (Licence("MIT"), "MIT"),
        (Licence("odbl"), "ODbL-1.0"),
        (Licence("gpl-3.0"), "LicenseRef-gpl-3.0"),
        (Licence("llama3.1"), "LicenseRef-llama3.1"),
        (Licence("other", "Gemma Terms of Use"), "LicenseRef-Gemma-Terms-of-Use"),
        (Licence("", "ours"), "LicenseRef-ours"),
        (Licence("other"), "LicenseRef-other"),
        (Licence("", "", "https://example.org"), "LicenseRef-other"),
        (Licence("mit, cc-by-4.0"), "LicenseRef-mit-cc-by-4.0"),
        (Licence("<b>&"), "LicenseRef-b"),
    ],
)
def test_an_expression(licence, spelled):
    assert expression(licence) == spelled


def test_each_part_is_a_package_with_ancestors_of_its_own():
    language = row(layers=6, mlp=measured())
    tower = replace(row(base="org/tower", layers=4, mlp=measured()), part="vision")
    document = rendered(report(language, tower))
    assert written_again(document)
    names = [one["name"] for one in typed(document, "ai_AIPackage")]
    assert names == ["org/model", "vision", "org/base", "org/tower"]
    assert relations(document, "descendantOf") == [("model", "base-1"), ("part-1", "base-2")]
    assert ("model", "part-1") in relations(document, "contains")


def test_a_part_that_nothing_verifies_has_no_ancestor():
    language = row(layers=6, mlp=measured())
    tower = Row(language.claim, Verdict(Kind.UNRELATED), part="vision")
    document = rendered(report(language, tower))
    assert written_again(document)
    assert relations(document, "descendantOf") == [("model", "base-1")]
    about = {one["statement"].partition(" is ")[0]: one["subject"] for one in typed(document, "Annotation")}
    assert {base: subject.partition("#")[2] for base, subject in about.items()} == {
        "org/base": "descent-base-1",
        "org/base (vision)": "part-1",
    }
