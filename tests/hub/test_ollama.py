"""A model in Ollama's store is the blobs that its manifest names; a manifest that lies is one clear error."""

import json
import os

import pytest

from hf_lineage import Options, check, compare
from hf_lineage.claims import stated
from hf_lineage.errors import CheckpointError, LineageError, NoModelError, NothingToCompare, RepositoryError
from hf_lineage.hub import ollama
from hf_lineage.hub.ollama import Name, find_stores, list_names, locate_model, parse
from hf_lineage.report.words.commands import of_report
from tests.gguf_models import write
from tests.invoking import lineage
from tests.models import EXAMPLES
from tests.ollama_store import LISTED, MANIFEST, blob, layer, linked, manifest, pulled, written

BASE = "acme/llama-base"
CHILD = EXAMPLES / "fern/llama-finetune-a"
SAID = {"general.base_model.count": 1, "general.base_model.0.repo_url": f"https://huggingface.co/{BASE}"}


@pytest.fixture(scope="session")
def child(tmp_path_factory):
    return write(CHILD, tmp_path_factory.mktemp("gguf") / "child.gguf", said=SAID)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ollama://llama3.2", ("registry.ollama.ai", "library", "llama3.2", "latest")),
        ("ollama://llama3.2:1b", ("registry.ollama.ai", "library", "llama3.2", "1b")),
        ("ollama://me/mine:q4_K_M", ("registry.ollama.ai", "me", "mine", "q4_K_M")),
        ("ollama://hf.co/org/Model-GGUF:Q4_K_M", ("hf.co", "org", "Model-GGUF", "Q4_K_M")),
        ("ollama://localhost:5000/me/mine", ("localhost:5000", "me", "mine", "latest")),
        ("ollama://ollama.com/library/llama3", ("registry.ollama.ai", "library", "llama3", "latest")),
    ],
)
def test_a_name_has_the_parts_that_ollama_gives_it(text, name):
    assert parse(text) == Name(*name)
    assert parse(str(parse(text))) == parse(text)


@pytest.mark.parametrize(
    "text",
    [
        *("ollama://", "ollama:///etc/passwd", "ollama://..", "ollama://../x", "ollama://a/../b", "ollama://a/b/../c"),
        *("ollama://x:..", "ollama://x:a/b", "ollama://a/b/c/d", "ollama://.hidden", "ollama://x\0", "ollama://x y"),
        *("ollama://x:", "ollama://a.b/c", "ollama://" + "x" * 100, "ollama://\u202e", "ollama://x@sha256:0"),
    ],
)
def test_what_is_no_name_is_said_so_and_no_file_is_touched(text, store):
    with pytest.raises(RepositoryError, match=r"is not a name of Ollama such as ollama://llama3.2:1b"):
        locate_model(text)


def test_a_model_is_judged_as_its_gguf_file_is(store, child):
    pulled(store, "child:f32", child)
    options = Options(local_hub=EXAMPLES, order_seed=0)
    (row,), (plain,) = check("ollama://child:f32", options=options).rows, check(str(child), options=options).rows
    assert (row.claim.base, row.claim.sources, row.verdict.words) == (BASE, ("GGUF metadata",), "RELATED")
    scores = [each.verdict.evidence["mlp"].comparison.score for each in (row, plain)]
    assert scores[0] == pytest.approx(scores[1])
    (other,) = compare(str(EXAMPLES / "otter/llama-independent"), "ollama://child:f32", Options(order_seed=0)).rows
    assert other.verdict.words == "UNRELATED"


def test_the_name_works_wherever_a_model_is_named(store, child, tmp_path, monkeypatch):
    pulled(store, "child", child)
    hub, named = EXAMPLES.absolute(), "ollama://child"
    monkeypatch.chdir(tmp_path)
    assert lineage("check", hub / "fern/llama-finetune-a", "--base", named).code == 0
    found = lineage("check", named, "--base", hub / BASE, "--format", "json")
    assert json.loads(found.out)["model"] == named
    assert "LlamaForCausalLM" in lineage("inspect", named).out
    assert lineage("extract", named).out == "child.lineage.safetensors\n"
    assert lineage("index", "add", hub / BASE, named, "--index", "index").code == 0
    assert named in lineage("index", "list", "--index", "index").out
    assert lineage("identify", named, "--index", "index").code == 0
    assert "acme/llama-base" in lineage("tree", hub / BASE, named).out


def test_the_command_that_repeats_a_check_names_it_as_it_was_named(store, child):
    pulled(store, "child", child)
    again = of_report(check("ollama://child", "ollama://child", options=Options(order_seed=0)))
    assert again.startswith("hf-lineage check ollama://child --base ollama://child")


@pytest.mark.parametrize("form", ["cyclonedx", "spdx", "sarif", "html"])
def test_a_report_calls_it_by_its_name(form, store, child):
    pulled(store, "child:1b", child)
    found = lineage("check", "ollama://child:1b", "--local-hub", EXAMPLES, "--format", form)
    assert (found.code, found.err) == (0, "")
    assert ("child:1b" if form in ("cyclonedx", "spdx") else "ollama://child:1b") in found.out


def test_nothing_is_written_beside_it(store, child):
    pulled(store, "child", child)
    before = sorted(store.rglob("*"))
    for target in ((), ("--write",)):
        said = lineage("annotate", "ollama://child", "--local-hub", EXAMPLES, *target)
        assert said.error == "ollama://child is in Ollama's store and has no model card; annotate a repository of it"
    assert sorted(store.rglob("*")) == before


def test_a_folder_of_that_name_here_is_not_meant(store, child, tmp_path, monkeypatch):
    """Who wrote a checkout chose the names of its folders."""
    (tmp_path / "ollama:" / "child").mkdir(parents=True)
    (tmp_path / "ollama:" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert lineage("inspect", "ollama://child").error.startswith("ollama://child:latest is not in the store of Ollama")
    pulled(store, "child", child)
    assert lineage("inspect", "ollama://child").code == 0


def test_what_a_card_declares_never_names_a_model_of_the_store(store, child, tmp_path):
    pulled(store, "base", child)
    said = {"general.base_model.count": 1, "general.base_model.0.repo_url": "ollama://base"}
    file = write(CHILD, tmp_path / "liar.gguf", said=said)
    (row,) = check(str(file), options=Options(order_seed=0)).rows
    assert row.verdict.words == "UNVERIFIABLE"


def test_the_licence_is_that_of_its_layer(store, child):
    pulled(store, "apache", child, licence="\n                                 Apache License\n   Version 2.0\n")
    pulled(store, "llama", child, licence="LLAMA 3.2 COMMUNITY LICENSE AGREEMENT\nLlama 3.2 Version")
    pulled(store, "none", child)
    assert str(stated(locate_model("ollama://apache"))) == "apache-2.0"
    assert str(stated(locate_model("ollama://llama"))) == "other (LLAMA 3.2 COMMUNITY LICENSE AGREEMENT)"
    assert stated(locate_model("ollama://none")) is None


def test_an_adapter_upon_the_model_leaves_the_claim_open_and_a_projector_is_told(store, child):
    adapter = layer(store, "adapter", b"GGUF and more")
    pulled(store, "adapted", child, adapter, layer(store, "projector", b"GGUF"))
    (row,) = check("ollama://adapted", options=Options(local_hub=EXAMPLES, order_seed=0)).rows
    assert row.verdict.words == "INCONCLUSIVE"
    assert "runs ollama://adapted with a LoRA adapter upon it, which was not read" in row.verdict.reason
    assert "adapter.gguf and 1 more may hold weights too and was not read" in " ".join(row.notes)


def test_manifests_of_a_newer_ollama_are_links_to_blobs_and_come_first(store, child):
    pulled(store, "both", write(EXAMPLES / "otter/llama-independent", store.parent / "other.gguf"))
    linked(store, "both", manifest(store, layer(store, "model", child.read_bytes())))
    assert locate_model("ollama://both").located("model.gguf").read_bytes() == child.read_bytes()
    assert list(map(str, list_names(store))) == ["ollama://both:latest"]


def test_a_manifest_that_names_very_many_files_is_refused_before_one_is_touched(store, child):
    licences = [layer(store, "license", b"x")] * 100_000
    written(store, "many", manifest(store, layer(store, "model", child.read_bytes()), *licences))
    with pytest.raises(CheckpointError, match=r"ollama://many: its manifest names 100001 files; do not trust it"):
        locate_model("ollama://many")


def test_a_model_of_the_public_registry_lies_under_either_of_its_names_and_a_link_to_nothing_is_passed_over(
    store, child
):
    pulled(store, "old", child, host="ollama.com")
    assert list(map(str, list_names(store))) == ["ollama://old:latest"]
    linked(store, "old", {}).resolve().unlink()
    assert locate_model("ollama://old").located("model.gguf").read_bytes() == child.read_bytes()
    linked(store, "gone", {}).resolve().unlink()
    assert "is not a file but a folder, a pipe, a broken link" in lineage("check", "ollama://gone").error


def test_of_several_manifests_the_one_of_gguf_is_read(store, child):
    own = manifest(store, layer(store, "model", child.read_bytes()), runner="llamacpp", format="gguf")
    apart = manifest(store, layer(store, "tensor", b"x"), runner="mlx", format="safetensors")
    listed = [
        {"mediaType": MANIFEST, "digest": blob(store, json.dumps(one).encode()), "runner": one["runner"]}
        for one in (apart, own)
    ]
    linked(store, "both", {"schemaVersion": 2, "mediaType": LISTED, "manifests": listed})
    linked(store, "within", {"schemaVersion": 2, "mediaType": LISTED, "manifests": [apart, own]})
    linked(store, "mlx", {"schemaVersion": 2, "mediaType": LISTED, "manifests": listed[:1]})
    for name in ("both", "within"):
        assert locate_model(f"ollama://{name}").located("model.gguf").read_bytes() == child.read_bytes()
    with pytest.raises(NothingToCompare, match=r"ollama://mlx is stored as each tensor in a file of its own, not as"):
        locate_model("ollama://mlx")


SHA = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", CheckpointError, "its manifest is not one of Ollama (Input data was truncated); pull it again"),
        (b"{", CheckpointError, "its manifest is not one of Ollama (Input data was truncated); pull it again"),
        (b"[]", CheckpointError, "its manifest is not one of Ollama (Expected `object`, got `array`)"),
        (b"[" * 100_000, CheckpointError, "its manifest is not one of Ollama ("),
        (b'{"layers":' * 100_000, CheckpointError, "its manifest is not one of Ollama ("),
        (b'{"layers":[{"mediaType":1}]}', CheckpointError, "its manifest is not one of Ollama (Expected `str`"),
        (b'{"layers":"\xff"}', CheckpointError, "its manifest is not one of Ollama ("),
        (b" " * (2**24 + 1), CheckpointError, "its manifest is larger than 16 MiB; do not trust it"),
        (b"{}", NoModelError, "its manifest names no file with a model; pull it again"),
        (b'{"layers":null}', NoModelError, "its manifest names no file with a model; pull it again"),
        ([SHA], CheckpointError, f"{SHA.replace(':', '-')} is not among the blobs of the store; pull it again"),
        ([""], CheckpointError, "its manifest names the blob nothing, which is not a SHA-256; do not trust it"),
        (["sha256:../../x"], CheckpointError, "its manifest names the blob sha256:../../x, which is not a SHA-256"),
        (["sha256:" + "../" * 21 + "x"], CheckpointError, "which is not a SHA-256; do not trust it"),
        (["/etc/passwd"], CheckpointError, "its manifest names the blob /etc/passwd, which is not a SHA-256"),
        (["sha256:\x1b[31m"], CheckpointError, r"its manifest names the blob sha256:\x1b[31m, which is not a SHA-256"),
        ([SHA] * 101, NothingToCompare, "is stored as 101 files with models, not as one GGUF file, and is not read"),
        ([SHA, SHA], NothingToCompare, "is stored as 2 files with models, not as one GGUF file, and is not read"),
    ],
)
def test_a_manifest_that_is_damaged_or_hostile_is_one_error(content, error, message, store):
    layers = [{"mediaType": "application/vnd.ollama.image.model", "digest": one, "size": 1} for one in content]
    written(store, "bad", {"layers": layers} if isinstance(content, list) else content)
    with pytest.raises(error) as raised:
        locate_model("ollama://bad")
    assert message in str(raised.value)
    assert lineage("check", "ollama://bad").error == str(raised.value)


def test_a_link_out_of_the_store_is_not_followed(store, child, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(child.read_bytes())
    file = pulled(store, "stolen", child)
    where = locate_model("ollama://stolen").path("model.gguf")
    where.unlink()
    where.symlink_to(secret)
    assert "is a link out of the store and is not followed" in lineage("check", "ollama://stolen").error
    content = file.read_bytes()
    file.unlink()
    (tmp_path / "manifest").write_bytes(content)
    file.symlink_to(tmp_path / "manifest")
    assert "its manifest" in lineage("check", "ollama://stolen").error


@pytest.mark.parametrize(
    "make", [lambda path: path.mkdir(), lambda path: os.mkfifo(path), lambda path: path.symlink_to(path)]
)
def test_what_is_no_file_is_said_so_and_never_waited_for(make, store):
    file = written(store, "odd", b"")
    file.unlink()
    make(file)
    assert "is not a file but a folder, a pipe, a broken link" in lineage("check", "ollama://odd").error


def test_a_blob_may_lie_on_another_disk_with_all_others(store, child, tmp_path):
    pulled(store, "child", child)
    (store / "blobs").rename(tmp_path / "elsewhere")
    (store / "blobs").symlink_to(tmp_path / "elsewhere")
    assert lineage("inspect", "ollama://child").code == 0


def test_nothing_beside_the_manifest_is_a_file_of_the_model(store, child):
    file = pulled(store, "child", child)
    (file.parent / "README.md").write_text("---\nbase_model: otter/llama-independent\n---\n")
    (store / "config.json").write_text("{}")
    model = locate_model("ollama://child")
    assert model.files() == ["model.gguf"]
    assert not model.has("README.md")
    assert not model.has("config.json")
    with pytest.raises(LineageError, match=r"has no config.json"):
        model.config()


def test_without_the_variable_the_usual_places_are_searched(tmp_path, monkeypatch, child):
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setattr(ollama, "USUAL", (str(tmp_path / "none"), str(tmp_path / "home"), str(tmp_path / "service")))
    pulled(tmp_path / "service", "child", child)
    (tmp_path / "home").mkdir()
    assert find_stores() == (tmp_path / "home", tmp_path / "service")
    assert locate_model("ollama://child").path("model.gguf").parent == tmp_path / "service/blobs"
    with pytest.raises(RepositoryError, match=r"other:latest is not in the store of Ollama \(.*home or .*service"):
        locate_model("ollama://other")
