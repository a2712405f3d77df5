"""A model in GGUF is judged by its metadata and weights: a true descendant is RELATED, an independent one is not."""

import json
import shutil

import gguf
import pytest

from hf_lineage import Options, check, compare
from hf_lineage.checking.source.describing import described
from hf_lineage.checking.source.opening import opened
from hf_lineage.errors import CheckpointError
from hf_lineage.hub.reference import resolve
from tests import models
from tests.gguf_blocks import quantized
from tests.gguf_models import KINDS, write
from tests.invoking import lineage
from tests.models import EXAMPLES, card, fine_tuned, tiny_llama

FILE = "child-Q4_0.gguf"
ALL = Options(paths=("mlp", "value_output", "query_key"), seed=0)
BASES = {"llama": EXAMPLES / "acme/llama-base", "gpt2": EXAMPLES / "acme/gpt2-base"}
CHILDREN = {"llama": EXAMPLES / "fern/llama-finetune-a", "gpt2": EXAMPLES / "fern/gpt2-finetune-a"}


def verdict(base, candidate, options=ALL):
    return compare(str(base), str(candidate), options).rows[0].verdict


def scores(outcome):
    return {path: evidence.comparison.score for path, evidence in outcome.evidence.items()}


@pytest.mark.few(1)
@pytest.mark.parametrize("architecture", BASES)
def test_a_descendant_is_related(architecture, tmp_path):
    file = write(CHILDREN[architecture], tmp_path / "child.gguf", architecture, KINDS.Q4_0)
    outcome = verdict(BASES[architecture], file)
    assert outcome.code == "inherited"
    assert min(scores(outcome).values()) > 0.95
    itself = scores(verdict(CHILDREN[architecture], file))
    assert min(itself.values()) > 0.98, itself


def test_an_independent_model_in_the_same_clothes_is_unrelated(tmp_path):
    file = write(EXAMPLES / "otter/llama-independent", tmp_path / "other.gguf", kind=KINDS.Q4_0)
    assert verdict(BASES["llama"], file).code == "unrelated"


def test_the_mixture_of_types_of_a_real_release_is_read(tmp_path, monkeypatch):
    """Q4_K_M: most matrices in Q4_K, values and what is written to the stream in Q6_K, gains in F32."""
    monkeypatch.setattr(models, "HIDDEN", 256)
    base = tiny_llama(tmp_path / "base", width=256)
    child = fine_tuned(base, tmp_path / "child")
    other = tiny_llama(tmp_path / "other", width=256, seed=5)
    monkeypatch.setattr("tests.gguf_models.quantized", quantized)

    def of(name):
        return KINDS.Q6_K if "attn_v" in name or "ffn_down" in name else KINDS.Q4_K

    true, false = (write(folder, folder / "gguf/a-Q4_K_M.gguf", of=of) for folder in (child, other))
    kinds = {tensor.tensor_type for tensor in gguf.GGUFReader(str(true)).tensors}
    assert kinds == {KINDS.Q4_K, KINDS.Q6_K, KINDS.F32}
    assert verdict(base, true).code == "inherited"
    assert min(scores(verdict(child, true)).values()) > 0.97
    assert verdict(base, false).code == "unrelated"


@pytest.mark.parametrize(
    "stub", [None, {}, {"model_type": "llama"}, json.loads((CHILDREN["llama"] / "config.json").read_text())]
)
@pytest.mark.few(1)
def test_the_metadata_count_whatever_config_json_says(stub, tmp_path):
    folder = write(CHILDREN["llama"], tmp_path / "model/child-Q8_0.gguf", kind=KINDS.Q8_0).parent
    if stub is not None:
        (folder / "config.json").write_text(json.dumps(stub))
    assert verdict(BASES["llama"], folder).code == "inherited"
    assert described(resolve(str(folder))).architecture == "LlamaForCausalLM"


@pytest.mark.long
def test_a_base_may_be_a_gguf_file_as_well(tmp_path):
    base = write(BASES["llama"], tmp_path / "base/base.gguf", kind=KINDS.Q4_0)
    assert verdict(base.parent, CHILDREN["llama"]).code == "inherited"
    assert verdict(base, CHILDREN["llama"]).code == "inherited"


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A local hub with a child in three precisions that says in its metadata where it comes from."""
    folder = tmp_path_factory.mktemp("hub")
    shutil.copytree(EXAMPLES / "acme/llama-base", folder / "acme/llama-base")
    said = {"general.base_model.count": 1, "general.base_model.0.repo_url": "https://huggingface.co/acme/llama-base"}
    for kind in (KINDS.F16, KINDS.Q8_0, KINDS.Q4_0):
        write(CHILDREN["llama"], folder / f"me/child-GGUF/child-{kind.name}.gguf", kind=kind, said=said)
    return folder


def test_the_claim_in_the_metadata_is_checked_and_the_report_says_which_file_was_read(hub):
    (row,) = check("me/child-GGUF", options=Options(local_hub=hub, seed=0)).rows
    assert (row.claim.base, row.claim.sources, row.verdict.code) == ("acme/llama-base", ("GGUF metadata",), "inherited")
    assert row.notes == (
        "me/child-GGUF: child-F16.gguf was read, the most precise GGUF file by its name (--file all judges each); name "
        "another by its path, or with --file for the model that is judged; child-Q4_0.gguf, child-Q8_0.gguf may hold "
        "weights too and were not read",
    )


@pytest.mark.long
def test_another_file_may_be_named(hub):
    found = lineage("check", "me/child-GGUF", "--file", FILE, "--local-hub", hub, "--format", "json")
    assert found.code == 0
    (claim,) = json.loads(found.out)["claims"]
    assert claim["notes"] == [
        "me/child-GGUF: child-Q4_0.gguf was read, as it was named; child-F16.gguf, child-Q8_0.gguf may hold weights "
        "too and were not read"
    ]
    (row,) = check("me/child-GGUF", options=Options(local_hub=hub, seed=0)).rows
    assert claim["paths"][0]["path"] == "mlp"
    assert scores(row.verdict)["mlp"] > claim["paths"][0]["score"] + 1e-3


@pytest.mark.long
def test_one_file_is_inspected_and_extracted_as_any_model(tmp_path):
    file = write(CHILDREN["llama"], tmp_path / "child.gguf", kind=KINDS.Q8_0)
    assert "LlamaForCausalLM, factorization llama, 6 layers, width 96" in lineage("inspect", file).out
    assert lineage("extract", file, "-o", tmp_path / "signature").code == 0
    assert lineage("compare", EXAMPLES / "acme/llama-base", tmp_path / "signature").code == 0


@pytest.mark.long
def test_on_the_hub_the_header_and_the_matrices_are_fetched_and_nothing_twice(online, tmp_path):
    folder = write(CHILDREN["llama"], tmp_path / "published/child-F16.gguf", kind=KINDS.F16).parent
    card(folder, "acme/llama-base", "quantized")
    online.publish("fern/gguf", folder)
    found = lineage("check", "fern/gguf", "--paths", "mlp", "--format", "json")
    assert found.code == 0, found.err
    assert json.loads(found.out)["claims"][0]["verdict"] == "VERIFIED"
    moved, size = online.moved("fern/gguf"), (folder / "child-F16.gguf").stat().st_size
    assert size / 3 < moved < 0.95 * size
    headers_twice = online.twice()
    assert not [part for part in headers_twice if part.stop - part.start > 2**15]


def test_from_the_network_the_verdict_is_that_from_disk(online, tmp_path):
    folder = write(CHILDREN["llama"], tmp_path / "p/child-Q8_0.gguf", kind=KINDS.Q8_0, split_max_tensors=20).parent
    online.publish("fern/gguf", folder)
    there, here = verdict("acme/llama-base", "fern/gguf"), verdict(BASES["llama"], folder)
    assert (there.code, scores(there)) == (here.code, scores(here))


@pytest.mark.long
def test_a_signature_of_a_named_file_is_not_taken_for_that_of_another(online, tmp_path):
    folder = tmp_path / "published"
    write(CHILDREN["llama"], folder / "a-Q8_0.gguf", kind=KINDS.Q8_0)
    write(EXAMPLES / "otter/llama-independent", folder / "a-Q4_0.gguf", kind=KINDS.Q4_0)
    online.publish("fern/gguf", folder)
    for file, name in (
        (None, "inherited"),
        ("a-Q4_0.gguf", "unrelated"),
        (None, "inherited"),
        ("a-Q4_0.gguf", "unrelated"),
    ):
        options = Options(file=file, seed=0, budget="full")
        assert verdict("acme/llama-base", "fern/gguf", options).code == name


def test_heads_that_are_no_number_are_refused(tmp_path):
    file = write(CHILDREN["llama"], tmp_path / "child.gguf", said={"llama.attention.head_count_kv": "two"})
    with pytest.raises(CheckpointError) as caught:
        opened(described(resolve(str(file.parent))))
    assert str(caught.value).endswith(
        "the GGUF file says attention.head_count_kv: two, not a number of heads; do not trust it"
    )
