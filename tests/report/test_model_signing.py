"""OpenSSF Model Signing takes the statement along: one signature holds the weights and what was found about them."""

import base64
import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hf_lineage import check
from hf_lineage.report import write_report
from tests.models import WEIGHTS

STATEMENT = "lineage/statement.intoto.json"


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
    write_report(check(str(folder), ["./model"]), "intoto", folder / STATEMENT)
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
    statement = json.loads((signed / STATEMENT).read_text())
    assert payload["_type"] == statement["_type"]
    assert {WEIGHTS} <= {file["name"] for file in statement["subject"]} <= digests.keys() - {"README.md", "config.json"}
    assert all(digests[file["name"]] == file["digest"]["sha256"] for file in statement["subject"])
