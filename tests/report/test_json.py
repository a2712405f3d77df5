"""The report for machines: all of it is held against a committed one, and every key is in its schema."""

import base64
import hashlib
import json as plain
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hf_lineage import Options, check
from hf_lineage.errors import NothingToCompare
from hf_lineage.report import FORMATS, json
from hf_lineage.report.findings import OF_CLAIM, OF_REPORT
from hf_lineage.report.json import digests, encode
from tests import goldens, pages
from tests.invoking import lineage
from tests.models import EXAMPLES, WEIGHTS, card, fine_tuned, shard, tiny_llama
from tests.report.test_cyclonedx import validate


@pytest.fixture(scope="module")
def report():
    return goldens.pair()


@pytest.fixture(autouse=True)
def without_another_time(monkeypatch):
    """What builds packages may set a time for everything."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


@pytest.fixture(scope="module")
def golden():
    return plain.loads(goldens.read(goldens.REPORT))


def all_of(value, names):
    """The names that every object has, wherever it stands, as a function tells them."""
    if isinstance(value, list):
        return set().union(*(all_of(one, names) for one in value))
    return names(value).union(*(all_of(one, names) for one in value.values())) if isinstance(value, dict) else set()


def test_the_report_on_a_pair_is_the_committed_one_whose_schema_has_every_key(report, golden):
    """A key that the schema does not know is a key that nobody can rely on."""
    assert goldens.differences(golden, plain.loads(json.render(report))) == []
    assert encode(golden).encode() == goldens.read(goldens.REPORT)
    pages.validate(golden)
    makers = {maker.name for maker in (*OF_CLAIM, *OF_REPORT)}
    schema = plain.loads(json.SCHEMA.read_text("utf-8"))
    described = all_of(schema, lambda one: {*one.get("properties", {})})
    keys = all_of(golden, lambda one: {key for key in one if not key.isdigit()})  # the numbers of layers are data
    assert keys - described - makers == set()


def test_licences_and_the_bases_of_the_card_are_told_though_others_are_named(hub):
    (hub / "acme/base/README.md").write_text("---\nlicense: other\nlicense_name: <ours>\n---\n")
    options = Options(local_hub=hub, budget="full")
    document = check("fern/child", options=options).to_dict()
    pages.validate(document)
    assert (document["license"], document["claims"][0]["base_license"]) == ("mit", "other (<ours>)")
    assert document["exit_code"] == 0
    declared = [{"base": "acme/base", "relation": "finetune", "sources": ["README.md"]}]
    for bases in ((), ("acme/base",), (str(hub / "fern/child"),)):
        document = check("fern/child", bases, options=options).to_dict()
        assert document["declared"] == declared
        assert [claim["sources"] for claim in document["claims"]] == [["--base"] if bases else ["README.md"]]
    (hub / "fern/child/README.md").write_bytes(b"---\n: [\n---\n")
    assert check("fern/child", "acme/base", options=options).to_dict()["declared"] == []


def test_what_is_published_is_the_report_without_what_one_run_or_machine_knows(report, golden):
    published = json.publish_report(report)
    pages.validate(published)
    assert (published.keys(), published["claims"][0].keys()) == (golden.keys(), golden["claims"][0].keys())
    assert json.OF_THIS_RUN.items() <= (published | published["claims"][0]).items()
    (row,) = report.rows
    cached = replace(report, rows=(replace(row, base_origin=replace(row.base_origin, kind="cache"), traffic={}),))
    assert json.publish_report(replace(cached, checked_at=report.checked_at + timedelta(1))) == published


@pytest.fixture
def on_folders(tmp_path, monkeypatch):
    """A report on a fine-tune of a base in shards, both in the working directory, and the digests of the shards."""
    monkeypatch.chdir(tmp_path)
    base = tiny_llama(tmp_path / "base")
    card(fine_tuned(base, tmp_path / "child"))
    files = sorted(shard(base).glob("*.safetensors"))
    assert len(files) > 1
    return check("./child", ["./base"]), {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_a_statement_names_them_and_in_cyclonedx_they_are_parts_of_the_ancestor(on_folders):
    report, expected = on_folders
    (claim,) = plain.loads(FORMATS["intoto"](report, False))["predicate"]["claims"]
    assert claim["base_commit"] is None
    assert claim["signatures"]["base"] == {"kind": "weights", "files": expected}
    assert plain.loads(FORMATS["json"](report, False))["claims"][0]["signatures"]["base"]["files"] == {}
    text = FORMATS["cyclonedx"](report, False)
    validate(text)
    model = plain.loads(text)["metadata"]["component"]
    (ancestor,) = model["pedigree"]["ancestors"]
    assert {file["name"]: file["hashes"][0]["content"] for file in ancestor["components"]} == expected
    (told,) = (one["value"] for one in model["properties"] if one["name"] == "hf-lineage:claim:0:base-files")
    assert told == ", ".join(f"{file} sha256:{sha256}" for file, sha256 in expected.items())


def test_weights_are_read_once_for_both_for_no_other_and_again_after_a_change(tmp_path, on_folders, monkeypatch):
    (report, expected), digested, read = on_folders, [], hashlib.file_digest
    files = {file.stat().st_ino for file in tmp_path.rglob("*.safetensors")}

    def noted(stream, name):
        digested.append(os.fstat(stream.fileno()).st_ino)
        return read(stream, name)

    monkeypatch.setattr(hashlib, "file_digest", noted)
    for form in FORMATS.keys() - {"intoto", "cyclonedx", "intoto-predicate", "checksums"}:
        FORMATS[form](report, False)
    assert digested == []
    for form in ("intoto", "cyclonedx"):
        FORMATS[form](report, False)
    weights = [inode for inode in digested if inode in files]
    assert len(weights) == len({*weights}) == len(expected) + 1
    assert digests(report.rows[0].base_folder) == expected
    file = Path("base", next(iter(expected)))
    file.write_bytes(file.read_bytes() + b"\n")
    assert digests(report.rows[0].base_folder)[file.name] != expected[file.name]


def stated(report):
    return plain.loads(FORMATS["intoto"](report, False))


def test_the_subjects_are_the_weights_each_shard_and_nothing_that_is_not_read(folder):
    report = check(str(folder), ["./model"])
    statement = stated(report)
    digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    assert statement["subject"] == [{"name": WEIGHTS, "digest": {"sha256": digest}}]
    assert statement["predicate"] == json.publish_report(report)
    assert (statement["predicate"]["model"], str(folder) in plain.dumps(statement)) == (".", False)
    shard(folder)
    (folder / "consolidated.safetensors").write_bytes(b"other weights")
    report = check(str(folder), ["./model"])
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    assert [file["name"] for file in json.subjects(report)] == shards
    *remarks, first, second = json.checksums(report).splitlines()
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
    pem, bare = serialization.Encoding.PEM, serialization.NoEncryption()
    (tmp_path / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, bare))
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pub").write_bytes(public)
    (folder / "lineage").mkdir()
    (folder / "lineage/statement.intoto.json").write_text(FORMATS["intoto"](check(str(folder), ["./model"]), True))
    config = signing.Config().use_elliptic_key_signer(private_key=tmp_path / "key.pem")
    config.sign(folder, tmp_path / "model.sig")
    config = verifying.Config().use_elliptic_key_verifier(public_key=tmp_path / "key.pub")
    config.verify(folder, tmp_path / "model.sig")
    bundle = plain.loads((tmp_path / "model.sig").read_text())
    payload = plain.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    digests = {resource["name"]: resource["digest"] for resource in payload["predicate"]["resources"]}
    statement = plain.loads((folder / "lineage/statement.intoto.json").read_text())
    assert payload["_type"] == statement["_type"]
    assert {WEIGHTS} <= {file["name"] for file in statement["subject"]} <= digests.keys() - {"README.md", "config.json"}
    assert all(digests[file["name"]] == file["digest"]["sha256"] for file in statement["subject"])
