"""The statement keeps to in-toto's form and to our predicate; its subjects are the files of the weights alone."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hf_lineage import check
from hf_lineage.errors import NothingToCompare
from hf_lineage.report import FORMATS, intoto, write_report
from hf_lineage.report import json as own
from tests.invoking import lineage
from tests.models import EXAMPLES, WEIGHTS, shard

ROOT = Path(__file__).parents[2]
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


SIGNED = "lineage/statement.intoto.json"


@pytest.fixture
def signed(folder, tmp_path):
    """A model with its statement, signed with a key of this test as docs/attestation/signing.md says."""
    from model_signing import signing

    key = ec.generate_private_key(ec.SECP256R1())
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (tmp_path / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pub").write_bytes(public)
    (folder / "lineage").mkdir()
    write_report(check(str(folder), ["./model"]), "intoto", folder / SIGNED)
    config = signing.Config().use_elliptic_key_signer(private_key=tmp_path / "key.pem")
    config.sign(folder, tmp_path / "model.sig")
    return folder


def verify(folder):
    from model_signing import verifying

    config = verifying.Config().use_elliptic_key_verifier(public_key=folder.parent / "key.pub")
    config.verify(folder, folder.parent / "model.sig")


def test_a_signed_model_and_its_statement_are_verified(signed):
    verify(signed)


def test_what_is_signed_names_the_files_of_the_statement_by_the_same_digests(signed):
    bundle = json.loads((signed.parent / "model.sig").read_text())
    payload = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    digests = {resource["name"]: resource["digest"] for resource in payload["predicate"]["resources"]}
    statement = json.loads((signed / SIGNED).read_text())
    assert payload["_type"] == statement["_type"]
    assert {WEIGHTS} <= {file["name"] for file in statement["subject"]} <= digests.keys() - {"README.md", "config.json"}
    assert all(digests[file["name"]] == file["digest"]["sha256"] for file in statement["subject"])
