"""The statement keeps to in-toto's form and to our predicate; its subjects are the files of the weights alone."""

import hashlib
import json
from pathlib import Path

import pytest

from hf_lineage import check
from hf_lineage.errors import NothingToCompare
from hf_lineage.report import FORMATS
from hf_lineage.report.formats import intoto
from hf_lineage.report.formats import json as own
from tests.invoking import lineage
from tests.models import EXAMPLES, WEIGHTS, shard

ROOT = Path(__file__).parents[3]
STATEMENT = ROOT / "tests" / "data" / "schemas" / "statement-v1.json"


def stated(report):
    return json.loads(FORMATS["intoto"](report, False))


def validate(statement):
    """Hold a statement against its schema, and its predicate against that of the report."""
    import jsonschema

    jsonschema.validate(statement, json.loads(STATEMENT.read_text("utf-8")))
    jsonschema.validate(statement["predicate"], json.loads(own.SCHEMA.read_text("utf-8")))


def test_it_keeps_to_the_statement_and_to_our_predicate(any_report):
    validate(stated(any_report))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda statement: statement["subject"][0]["digest"].update(sha256="0"),
        lambda statement: statement.update(subject=[]),
        lambda statement: statement.update(_type="https://in-toto.io/Statement/v0.1"),
        lambda statement: statement["predicate"].pop("declared"),
        lambda statement: statement["predicate"]["claims"][0].update(verdict="PERHAPS"),
    ],
)
def test_the_schemas_would_notice_what_is_wrong(every_kind, spoil):
    import jsonschema

    statement = stated(every_kind)
    spoil(statement)
    with pytest.raises(jsonschema.ValidationError):
        validate(statement)


def test_the_subject_is_the_weights_alone(folder):
    report = check(str(folder), ["./model"])
    statement = stated(report)
    digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    assert statement["subject"] == [{"name": WEIGHTS, "digest": {"sha256": digest}}]
    assert statement["predicate"] == own.published(report)
    assert (statement["predicate"]["model"], str(folder) in json.dumps(statement)) == (".", False)


def test_every_shard_is_a_subject_and_nothing_that_is_not_read(folder):
    shard(folder)
    (folder / "consolidated.safetensors").write_bytes(b"other weights")
    report = check(str(folder), ["./model"])
    assert [file["name"] for file in intoto.subjects(report)] == [
        f"model-0000{number}-of-00002.safetensors" for number in (1, 2)
    ]
    for line in intoto.checksums(report).splitlines():
        digest, between, name = line.partition("  ")
        if line.startswith("#"):
            assert " " not in line
            continue
        assert between
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


def test_of_the_hub_the_listed_digests_are_taken_and_nothing_is_downloaded(online):
    report = check("fern/llama-finetune-a")
    online.forget()
    statement = stated(report)
    assert [request.rpartition("/")[0] for request in online.requests] == ["GET /api/models/fern/llama-finetune-a/tree"]
    assert online.moved() == 0
    digest = hashlib.sha256((EXAMPLES / "fern/llama-finetune-a" / WEIGHTS).read_bytes()).hexdigest()
    assert statement["subject"][0]["digest"]["sha256"] == digest
    assert statement["predicate"]["claims"][0]["code"] == "inherited"


def test_what_has_no_weights_has_nothing_to_state(folder):
    (folder / WEIGHTS).unlink()
    with pytest.raises(NothingToCompare, match="holds no weights"):
        stated(check(str(folder)))


def test_a_stored_signature_has_no_files(folder):
    assert lineage("extract", folder, "-o", folder / "a.sig").code == 0
    assert "is a stored signature, but a statement is about files; name the model" in (
        lineage("compare", folder, folder / "a.sig", "--format", "intoto").error
    )
