"""The formats for machines: what their schemas ask for, what they say of each verdict, and nothing a stranger adds."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from lxml import etree
from referencing import Registry, Resource

from hf_lineage import Options, check, compare, report
from hf_lineage.claims import Claim
from hf_lineage.errors import NothingToCompare, OptionError
from hf_lineage.pipeline import Report, Row
from hf_lineage.report import FORMATS, intoto, renderer
from hf_lineage.report import json as own
from hf_lineage.report.encoding import encode, moment
from hf_lineage.verdict import Incompatible, Inconclusive, Unreadable, Unrelated, Unverifiable, judge
from tests import hostile
from tests.hub import serving
from tests.hub.client import connect
from tests.models import WEIGHTS, card, shard, tiny_llama
from tests.running import lineage
from tests.test_verdict import evidence

ROOT = Path(__file__).parents[1]
SCHEMAS = Path(__file__).with_name("data") / "schemas"
HUB = ROOT / "examples" / "hub"
MACHINES = ("json", "sarif", "junit", "cyclonedx", "intoto")
KINDS = ("RELATED", "UNRELATED", "INCONCLUSIVE", "INCOMPATIBLE", "UNVERIFIABLE", "UNREADABLE")


@pytest.fixture(autouse=True)
def at_a_known_time(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795000000")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return card(tiny_llama(tmp_path / "model"), "org/base")


@pytest.fixture
def every_verdict(folder):
    from hf_lineage.repo import resolve

    def row(verdict, base="org/base", relation=None, sources=("README.md",), commit=None):
        return Row(Claim(base, relation, sources), verdict, commit)

    rows = (
        row(judge({"mlp": evidence(score=0.973)}, 0.01), relation="finetune", commit="0" * 40),
        row(judge({"mlp": evidence(score=0.01, p=0.5)}, 0.01), base="other/base", sources=("--base",)),
        row(Inconclusive("only 1 of 6 layers hold finite weights")),
        row(Incompatible("6 layers of width 96 against 4 of width 64")),
        row(Unverifiable("no weights"), sources=("adapter_config.json", "README.md")),
        row(Unreadable("truncated")),
    )
    return Report(
        "model", None, rows, ("README.md declares a/b; adapter_config.json declares c/d",), Options(), resolve("model")
    )


@pytest.fixture
def hostile_report(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    model = tiny_llama(tmp_path / "<script>::error::\n`|`\u202e")
    (model / "README.md").write_text(hostile.card(), encoding="utf-8")
    found = check(str(model))
    short = tuple(name for name in hostile.NAMES if len(name) < 200)
    verdicts = (Unrelated(short[0]), Inconclusive("\n".join(short)))
    more = tuple(Row(Claim(name, name[:40], ("README.md",)), verdict) for name in hostile.NAMES for verdict in verdicts)
    return Report(found.model, None, found.rows + more, short, found.options, found.source)


@pytest.fixture(params=["every_verdict", "hostile_report", "nothing"])
def any_report(request, folder):
    if request.param == "nothing":
        return check(str(card(folder)))
    return request.getfixturevalue(request.param)


def rendered(form, found):
    return renderer(form)(found, False)


class TestSchemas:
    def test_sarif_keeps_to_the_schema_of_oasis(self, any_report):
        schema = json.loads((SCHEMAS / "sarif-2.1.0.json").read_text("utf-8"))
        jsonschema.Draft7Validator(schema).validate(json.loads(rendered("sarif", any_report)))

    def test_junit_keeps_to_the_schema_of_jenkins(self, any_report):
        schema = etree.XMLSchema(etree.parse(SCHEMAS / "junit-10.xsd"))
        schema.assertValid(etree.fromstring(rendered("junit", any_report).encode()))

    def test_cyclonedx_keeps_to_its_schema(self, any_report):
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(rendered("cyclonedx", any_report)) is None

    def test_in_toto_keeps_to_the_statement_and_to_our_predicate(self, any_report):
        statement = json.loads(rendered("intoto", any_report))
        jsonschema.validate(statement, json.loads((SCHEMAS / "statement-v1.json").read_text("utf-8")))
        predicate_schema().validate(statement["predicate"])

    def test_each_would_notice_what_is_wrong(self, every_verdict):
        sarif, statement = (json.loads(rendered(form, every_verdict)) for form in ("sarif", "intoto"))
        sarif["runs"][0]["results"][0]["level"] = "fatal"
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(sarif, json.loads((SCHEMAS / "sarif-2.1.0.json").read_text("utf-8")))
        statement["subject"][0]["digest"]["sha256"] = "0"
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(statement, json.loads((SCHEMAS / "statement-v1.json").read_text("utf-8")))
        del statement["predicate"]["inputs"][0]["digest"]
        with pytest.raises(jsonschema.ValidationError):
            predicate_schema().validate(statement["predicate"])
        junit = etree.fromstring(rendered("junit", every_verdict).replace("testcase", "case").encode())
        assert not etree.XMLSchema(etree.parse(SCHEMAS / "junit-10.xsd")).validate(junit)
        bom = rendered("cyclonedx", every_verdict).replace("machine-learning-model", "oracle")
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bom) is not None


def predicate_schema():
    """The schema of the predicate, which refers to that of the report."""
    schema = json.loads((ROOT / "docs/attestation/v1/schema.json").read_text("utf-8"))
    (reference,) = (each["$ref"] for each in schema["allOf"])
    shipped = Resource.from_contents(json.loads(own.SCHEMA.read_text("utf-8")))
    return jsonschema.Draft202012Validator(schema, registry=Registry().with_resource(reference, shipped))


class TestSarif:
    def test_each_verdict_has_its_rule_and_level(self, every_verdict):
        (run,) = json.loads(rendered("sarif", every_verdict))["runs"]
        rules = run["tool"]["driver"]["rules"]
        assert (
            [rules[result["ruleIndex"]]["id"] for result in run["results"]]
            == [result["ruleId"] for result in run["results"]]
            == [f"lineage/{kind.lower()}" for kind in KINDS]
        )
        assert [(result["kind"], result["level"]) for result in run["results"]] == [
            ("pass", "none"), ("fail", "error"), ("fail", "warning"),
            ("fail", "warning"), ("fail", "note"), ("fail", "error"),
        ]  # fmt: skip

    def test_a_result_has_its_numbers(self, every_verdict):
        (run,) = json.loads(rendered("sarif", every_verdict))["runs"]
        assert run["results"][0]["properties"] == {
            "verdict": "RELATED", "base": "org/base", "baseRevision": "0" * 40, "relation": "finetune",
            "sources": ["README.md"], "score": pytest.approx(0.973), "pValue": 0.001,
        }  # fmt: skip
        assert run["results"][0]["message"]["text"] == "org/base is RELATED (score 0.973, p = 0.001)."
        assert "score" not in run["results"][3]["properties"]

    def test_fingerprints_tell_claims_apart_and_outlive_commits(self, every_verdict):
        def prints(model):
            found = Report(model, None, every_verdict.rows[:2], (), Options())
            results = json.loads(rendered("sarif", found))["runs"][0]["results"]
            return [result["partialFingerprints"]["primaryLocationLineHash"] for result in results]

        assert prints("org/model@v1") == prints("org/model@v2")
        assert len({*prints("org/model"), *prints("org/other")}) == 4

    def test_what_belongs_to_no_claim_is_a_notification(self, every_verdict, folder):
        def notes(found):
            (run,) = json.loads(rendered("sarif", found))["runs"]
            return [note["message"]["text"] for note in run["invocations"][0]["toolExecutionNotifications"]]

        assert notes(every_verdict) == ["Conflicting claims: README.md declares a/b; adapter_config.json declares c/d"]
        assert notes(check(str(card(folder))))[0].startswith("Nothing is declared")

    def test_no_message_holds_a_link_or_a_placeholder(self, hostile_report):
        (run,) = json.loads(rendered("sarif", hostile_report))["runs"]
        (text,) = {
            result["message"]["text"].partition(" is ")[0]
            for result in run["results"]
            if "a link" in result["message"]["text"] and result["ruleId"] == "lineage/unrelated"
        }
        assert text.startswith(r"\[a link\](https://evil.example) @everyone {{0}} ${{{{ secrets.TOKEN }}}}")


class TestJUnit:
    def test_each_claim_is_a_case_with_what_became_of_it(self, every_verdict):
        root = ET.fromstring(rendered("junit", every_verdict))
        cases = root.findall(".//testcase")
        outcomes = [[child.tag for child in case if child.tag != "system-out"] for case in cases]
        assert outcomes == [[], ["failure"], ["skipped"], ["skipped"], ["skipped"], ["error"]]
        assert cases[0].attrib == {"classname": "model", "name": "base org/base (finetune)", "time": "0"}
        assert cases[1][0].attrib == {
            "type": "UNRELATED", "message": "other/base is UNRELATED (score 0.010, p = 0.5)",
        }  # fmt: skip
        suite = root.find("testsuite")
        assert [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["6", "1", "1", "3"]

    def test_explaining_adds_what_the_score_was_held_against(self, every_verdict):
        assert "permutation null" in FORMATS["junit"](every_verdict, True)
        assert "permutation null" not in FORMATS["junit"](every_verdict, False)


class TestCycloneDX:
    def test_only_what_the_weights_bear_out_is_an_ancestor(self, every_verdict):
        model = json.loads(rendered("cyclonedx", every_verdict))["metadata"]["component"]
        (ancestor,) = model["pedigree"]["ancestors"]
        assert (model["type"], model["name"]) == ("machine-learning-model", "model")
        assert ancestor["purl"] == f"pkg:huggingface/org/base@{'0' * 40}"
        (identity,) = ancestor["evidence"]["identity"]
        assert identity["methods"] == [
            {
                "technique": "binary-analysis",
                "confidence": 0.973,
                "value": "org/base is RELATED (score 0.973, p = 0.001)",
            }
        ]

    def test_every_claim_is_a_property(self, every_verdict):
        model = json.loads(rendered("cyclonedx", every_verdict))["metadata"]["component"]
        said = {each["name"]: each["value"] for each in model["properties"]}
        assert [said[f"hf-lineage:claim:{number}:verdict"] for number in range(6)] == list(KINDS)
        assert said["hf-lineage:claim:1:p-value"] == "0.5"

    def test_the_weights_have_their_digest(self, every_verdict, folder):
        model = json.loads(rendered("cyclonedx", every_verdict))["metadata"]["component"]
        digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
        assert model["components"][0]["hashes"] == [{"alg": "SHA-256", "content": digest}]

    def test_without_its_library_the_extra_is_named_before_anything_is_read(self, monkeypatch):
        monkeypatch.setitem(report.EXTRAS, "cyclonedx", ("no_such_module", "cyclonedx-python-lib"))
        assert lineage("check", "no such model", "--format", "cyclonedx").error == (
            "--format cyclonedx needs cyclonedx-python-lib; run pip install 'hf-lineage[cyclonedx]'"
        )


class TestInToto:
    def test_the_subject_is_the_weights_alone(self, folder):
        found = check(str(folder), ["model"])
        statement = json.loads(rendered("intoto", found))
        digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
        assert statement["subject"] == [{"name": WEIGHTS, "digest": {"sha256": digest}}]
        assert [each["name"] for each in statement["predicate"]["inputs"]] == ["README.md", "config.json"]
        assert statement["predicate"]["claims"] == own.document(found)["claims"]

    def test_every_shard_is_a_subject_and_nothing_that_is_not_read(self, folder):
        shard(folder)
        (folder / "consolidated.safetensors").write_bytes(b"other weights")
        found = check(str(folder), ["model"])
        assert [each["name"] for each in intoto.subjects(found)] == [
            f"model-0000{number}-of-00002.safetensors" for number in (1, 2)
        ]
        for line in intoto.checksums(found).splitlines():
            digest, _, name = line.partition("  ")
            assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest

    def test_of_the_hub_the_listed_digests_are_taken_and_nothing_is_downloaded(self, tmp_path, monkeypatch):
        with serving() as hub:
            for name in ("acme/llama-base", "fern/llama-finetune-a"):
                hub.publish(name, HUB / name)
            connect(hub, tmp_path, monkeypatch)
            found = check("fern/llama-finetune-a")
            hub.forget()
            statement = json.loads(rendered("intoto", found))
            assert [request.rpartition("/")[0] for request in hub.requests] == [
                "GET /api/models/fern/llama-finetune-a/tree"
            ]
            assert hub.moved() == 0
        weights = HUB / "fern/llama-finetune-a" / WEIGHTS
        assert statement["subject"][0]["digest"]["sha256"] == hashlib.sha256(weights.read_bytes()).hexdigest()
        assert statement["predicate"]["claims"][0]["verdict"] == "RELATED"

    def test_what_has_no_weights_has_nothing_to_state(self, folder):
        (folder / WEIGHTS).unlink()
        with pytest.raises(NothingToCompare, match="holds no weights"):
            rendered("intoto", check(str(folder)))

    def test_a_stored_signature_has_no_files(self, folder):
        assert lineage("extract", folder, "-o", folder / "a.sig").code == 0
        assert "is a stored signature, and a statement is about files; name the model" in (
            lineage("compare", folder, folder / "a.sig", "--format", "intoto").error
        )


@pytest.mark.parametrize("form", MACHINES)
def test_the_same_report_is_the_same_file(every_verdict, form):
    assert rendered(form, every_verdict) == rendered(form, every_verdict)


@pytest.mark.parametrize("form", MACHINES)
def test_what_strangers_write_is_nowhere_more_than_text(hostile_report, form):
    text = rendered(form, hostile_report)
    assert text.isascii()
    patterns = hostile.MARKUP + hostile.LINES
    assert not hostile.traces(text, patterns[:-1] if form in ("json", "intoto") else patterns)  # these cut no name


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_neither_is_it_in_what_people_read(hostile_report, form):
    text = FORMATS[form](hostile_report, True)
    assert not hostile.traces(text, hostile.LINES if form == "text" else hostile.MARKUP + hostile.LINES)


def test_escaping_changes_no_value():
    document = {"<b>": ["&", "##[x]", "\u202e", "é", 0.1, None, True, -3]}
    assert json.loads(encode(document)) == document


def test_the_time_is_now_or_what_the_environment_says(monkeypatch):
    assert moment().isoformat() == "2026-11-18T11:06:40+00:00"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "noon")
    with pytest.raises(OptionError, match="SOURCE_DATE_EPOCH must be seconds since 1970, not noon"):
        moment()
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert moment().year >= 2026


def test_a_format_costs_nothing_until_it_is_asked_for():
    code = "import sys, hf_lineage.report; sys.exit('cyclonedx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_compared_models_can_be_reported_too(folder):
    found = compare(str(folder), str(folder))
    assert json.loads(rendered("sarif", found))["runs"][0]["results"][0]["ruleId"] == "lineage/related"
