"""The statement keeps to in-toto's form and to our predicate; its subjects are the files of the weights alone."""

import base64
import hashlib
import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hf_lineage import check
from hf_lineage.errors import NothingToCompare
from hf_lineage.report import FORMATS, intoto, write_report
from hf_lineage.report import json as own
from tests.invoking import lineage
from tests.models import EXAMPLES, WEIGHTS, shard


def stated(report):
    return json.loads(FORMATS["intoto"](report, False))


def test_the_subjects_are_the_weights_each_shard_and_nothing_that_is_not_read(folder):
    report = check(str(folder), ["./model"])
    statement = stated(report)
    digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    assert statement["subject"] == [{"name": WEIGHTS, "digest": {"sha256": digest}}]
    assert statement["predicate"] == own.publish_report(report)
    assert (statement["predicate"]["model"], str(folder) in json.dumps(statement)) == (".", False)
    shard(folder)
    (folder / "consolidated.safetensors").write_bytes(b"other weights")
    report = check(str(folder), ["./model"])
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    assert [file["name"] for file in intoto.subjects(report)] == shards
    *remarks, first, second = intoto.checksums(report).splitlines()
    assert remarks
    assert all(line.startswith("#") and " " not in line for line in remarks)
    assert [first, second] == [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}" for name in shards]


def test_of_the_hub_the_listed_digests_are_taken_and_nothing_is_downloaded(online):
    report = check("fern/llama-finetune-a")
    online.forget()
    statement = stated(report)
    assert [request.rpartition("/")[0] for request in online.requests] == ["GET /api/models/fern/llama-finetune-a/tree"]
    assert online.moved() == 0
    digest = hashlib.sha256((EXAMPLES / "fern/llama-finetune-a" / WEIGHTS).read_bytes()).hexdigest()
    assert statement["subject"][0]["digest"]["sha256"] == digest
    assert statement["predicate"]["claims"][0]["code"] == "inherited"


def test_a_stored_signature_and_what_has_no_weights_have_nothing_to_state(folder):
    assert lineage("extract", folder, "-o", folder / "a.sig").code == 0
    refused = lineage("compare", folder, folder / "a.sig", "--format", "intoto").error
    assert "is a stored signature, but a statement is about files; name the model" in refused
    (folder / WEIGHTS).unlink()
    with pytest.raises(NothingToCompare, match="holds no weights"):
        stated(check(str(folder)))


def test_a_signed_model_is_verified_with_its_statement_which_has_the_same_digests(folder, tmp_path):
    """The key is of this test, and signing is done as docs/attestation/signing.md says."""
    from model_signing import signing, verifying

    key = ec.generate_private_key(ec.SECP256R1())
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (tmp_path / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pub").write_bytes(public)
    (folder / "lineage").mkdir()
    write_report(check(str(folder), ["./model"]), "intoto", folder / "lineage/statement.intoto.json")
    config = signing.Config().use_elliptic_key_signer(private_key=tmp_path / "key.pem")
    config.sign(folder, tmp_path / "model.sig")
    config = verifying.Config().use_elliptic_key_verifier(public_key=tmp_path / "key.pub")
    config.verify(folder, tmp_path / "model.sig")
    bundle = json.loads((tmp_path / "model.sig").read_text())
    payload = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    digests = {resource["name"]: resource["digest"] for resource in payload["predicate"]["resources"]}
    statement = json.loads((folder / "lineage/statement.intoto.json").read_text())
    assert payload["_type"] == statement["_type"]
    assert {WEIGHTS} <= {file["name"] for file in statement["subject"]} <= digests.keys() - {"README.md", "config.json"}
    assert all(digests[file["name"]] == file["digest"]["sha256"] for file in statement["subject"])
