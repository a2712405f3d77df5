"""A model in GGUF is judged by its metadata and weights: a true descendant is RELATED, an independent one is not."""

import json
import re
import shutil
from dataclasses import replace

import gguf
import numpy as np
import pytest
import torch

from hf_lineage import Options, check, compare, extract
from hf_lineage.architecture.registry import lookup
from hf_lineage.checking.strict import judge_strict
from hf_lineage.checkpoint.gguf.form import _table, config_of, name_tensors
from hf_lineage.errors import CheckpointError, NothingToCompare, RegistryError
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import resolve
from hf_lineage.source.config import read_config
from hf_lineage.source.headers import headers, read_headers
from hf_lineage.source.model import FromWeights
from tests import models
from tests.conformance.models import tiny_model
from tests.gguf_models import KINDS, write
from tests.invoking import lineage
from tests.models import EXAMPLES, fine_tuned, tiny_llama

ALL = Options(paths=("mlp", "value_output", "query_key"), seed=0)
BASES = {"llama": EXAMPLES / "acme/llama-base", "gpt2": EXAMPLES / "acme/gpt2-base"}
CHILDREN = {name: EXAMPLES / f"fern/{name}-finetune-a" for name in BASES}
ARCHITECTURES = _table().architectures
NAMED = [(name, kind) for name, entry in ARCHITECTURES.items() for kind in (entry.name, entry.with_experts)]
CLASSES = sorted((name, kind) for name, kind in NAMED if kind)
LLAMA = {"general.architecture": "llama"}
DROPPED = {"apertus": {"model.layers.0.mlp.act_fn.eps"}, "bert": {"pooler.dense.weight", "pooler.dense.bias"}}
"""What a converter leaves out of a model, so that a file of it is never all that the model is."""
DEAD = ("residual_scale", "embedding_scale", "attention.layer_norm_rms_epsilon")
OTHER_DEAD = {"dots1": "expert_weights_scale", "glm4moe": "expert_weights_scale", "olmo": "attention.clamp_kqv"}
OTHER_DEAD |= {"llama": "attention.head_count_kv"}
UNREAD = "architecture {}, which hf-lineage cannot read; check the safetensors release instead"
UNNAMED = [({}, None), ({"general.architecture": "mamba"}, "mamba"), ({"general.architecture": 7}, 7)]
ADAPTER = (LLAMA | {"general.type": "adapter"}, "type adapter, not a model; check the adapter that was converted")
NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "blk.17.attn_q.weight": "model.layers.17.self_attn.q_proj.weight",
    "blk.0.ffn_norm.weight": "model.layers.0.post_attention_layernorm.weight",
    "blk.0.attn_v.bias": "model.layers.0.self_attn.v_proj.bias",
    "blk.3.something.weight": "model.layers.3.something.weight",
    "blk.3.more": "model.layers.3.more",
}
"""Names of Llama's tensors; what the class does not name keeps its own name under the prefix of its layer."""
EXPERTS = {f"blk.0.ffn_up_exps.weight[{n}]": f"model.layers.0.mlp.experts.{n}.up_proj.weight" for n in (0, 31)}


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


def test_the_mixture_of_types_of_a_real_release_is_read(tmp_path, monkeypatch):
    """Q4_K_M: most matrices in Q4_K, values and what is written to the stream in Q6_K, gains in F32."""
    monkeypatch.setattr(models, "HIDDEN", 256)
    base = tiny_llama(tmp_path / "base", width=256)
    child = fine_tuned(base, tmp_path / "child")
    other = tiny_llama(tmp_path / "other", width=256, seed=5)

    def of(name):
        return KINDS.Q6_K if "attn_v" in name or "ffn_down" in name else KINDS.Q4_K

    true, false = (write(folder, folder / "gguf/a-Q4_K_M.gguf", of=of) for folder in (child, other))
    kinds = {tensor.tensor_type for tensor in gguf.GGUFReader(str(true)).tensors}
    assert kinds == {KINDS.Q4_K, KINDS.Q6_K, KINDS.F32}
    assert verdict(base, true).code == "inherited"
    assert min(scores(verdict(child, true)).values()) > 0.97
    assert verdict(base, false).code == "unrelated"


@pytest.mark.parametrize("stub", ['{"model_type": "llama"}', "{}", (CHILDREN["llama"] / "config.json").read_text()])
@pytest.mark.few(1)
def test_the_metadata_count_whatever_config_json_says(stub, tmp_path):
    folder = write(CHILDREN["llama"], tmp_path / "model/child-Q8_0.gguf", kind=KINDS.Q8_0).parent
    (folder / "config.json").write_text(stub)
    model = read_config(resolve(str(folder)))
    assert model.architecture == "LlamaForCausalLM"
    assert read_headers(model).layout.paths


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A local hub with a child in three precisions that says in its metadata where it comes from."""
    folder = tmp_path_factory.mktemp("hub")
    shutil.copytree(EXAMPLES / "acme/llama-base", folder / "acme/llama-base")
    said = {"general.base_model.count": 1, "general.base_model.0.repo_url": "https://huggingface.co/acme/llama-base"}
    for kind in (KINDS.F16, KINDS.Q8_0, KINDS.Q4_0):
        write(CHILDREN["llama"], folder / f"me/child-GGUF/child-{kind.name}.gguf", kind=kind, said=said)
    return folder


def test_the_claim_in_the_metadata_is_checked_and_the_report_names_the_file(hub):
    (row,) = check("me/child-GGUF", options=Options(local_hub=hub, seed=0)).rows
    assert (row.claim.base, row.claim.sources, row.verdict.code) == ("acme/llama-base", ("GGUF metadata",), "inherited")
    read = "child-F16.gguf was read, the most precise GGUF file by its name (--file all judges each); name another by "
    read += "its path, or with --file for the model that is judged; child-Q4_0.gguf, child-Q8_0.gguf may hold weights "
    assert row.notes == (f"me/child-GGUF: {read}too and were not read",)


@pytest.mark.long
def test_another_file_may_be_named(hub):
    found = lineage("check", "me/child-GGUF", "--file", "child-Q4_0.gguf", "--local-hub", hub, "--format", "json")
    (claim,) = json.loads(found.out)["claims"]
    told = "me/child-GGUF: child-Q4_0.gguf was read, as it was named; child-F16.gguf, child-Q8_0.gguf may hold weights "
    assert (found.code, claim["notes"]) == (0, [f"{told}too and were not read"])
    (row,) = check("me/child-GGUF", options=Options(local_hub=hub, seed=0)).rows
    assert claim["paths"][0]["path"] == "mlp"
    assert scores(row.verdict)["mlp"] > claim["paths"][0]["score"] + 1e-3


@pytest.mark.long
def test_one_file_is_inspected_and_extracted_and_not_taken_for_another(tmp_path, online):
    file = write(CHILDREN["llama"], tmp_path / "gguf/child.gguf", kind=KINDS.Q8_0)
    for base in (file, file.parent):
        assert verdict(base, CHILDREN["llama"]).code == "inherited"
    assert "LlamaForCausalLM, factorization llama, 6 layers, width 96" in lineage("inspect", file).out
    assert lineage("extract", file, "-o", tmp_path / "signature").code == 0
    assert lineage("compare", EXAMPLES / "acme/llama-base", tmp_path / "signature").code == 0
    folder = tmp_path / "published"
    write(CHILDREN["llama"], folder / "a-Q8_0.gguf", kind=KINDS.Q8_0)
    write(EXAMPLES / "otter/llama-independent", folder / "a-Q4_0.gguf", kind=KINDS.Q4_0)
    online.publish("fern/gguf", folder)
    for file, name in [(None, "inherited"), ("a-Q4_0.gguf", "unrelated")] * 2:
        options = Options(file=file, seed=0, budget="full")
        assert verdict("acme/llama-base", "fern/gguf", options).code == name


def test_from_the_network_the_verdict_is_that_from_disk(online, tmp_path):
    folder = write(CHILDREN["llama"], tmp_path / "p/child-Q8_0.gguf", kind=KINDS.Q8_0, split_max_tensors=20).parent
    online.publish("fern/gguf", folder)
    one = Options(paths=("query_key",), seed=0)
    there, here = verdict("acme/llama-base", "fern/gguf", one), verdict(BASES["llama"], folder, one)
    assert (there.code, scores(there)) == (here.code, scores(here))


@pytest.mark.few(12)
@pytest.mark.parametrize(("architecture", "name"), CLASSES)
def test_a_file_has_the_signature_of_the_model_it_was_made_from(architecture, name, tmp_path):
    torch.manual_seed(0)
    model = tiny_model(name, {})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    model.save_pretrained(tmp_path / "plain")
    write(tmp_path / "plain", tmp_path / "gguf/model.gguf", architecture)
    plain, stored = (headers(resolve(str(tmp_path / folder))) for folder in ("plain", "gguf"))
    assert stored.model_config.factorization.name == plain.model_config.factorization.name
    assert (stored.layout.unclaimed, stored.layout.paths) == (plain.layout.unclaimed, plain.layout.paths)
    options = Options(paths=plain.layout.paths)
    one, other = (extract(str(tmp_path / folder), options) for folder in ("plain", "gguf"))
    for path in plain.layout.paths:
        for numbers in ("sketch", "trace", "norm", "corner"):
            wanted = getattr(one.paths[path], numbers)
            largest = np.abs(wanted).max()
            np.testing.assert_allclose(getattr(other.paths[path], numbers), wanted, rtol=1e-3, atol=1e-5 * largest)
    both = (FromWeights.from_opened(model, options) for model in (plain, stored))
    strict = judge_strict(*both, Verdict(Code.INHERITED)).strict
    assert {re.sub(r"\d+", "0", name) for name in strict.lacking} == DROPPED.get(architecture, set())
    assert replace(strict, lacking=()).holds, (strict.beyond, strict.added, strict.settings, strict.unbound)
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize(("architecture", "key"), [*(("granite", key) for key in DEAD), *OTHER_DEAD.items()])
def test_metadata_that_take_the_layers_out_or_are_no_number_are_refused(architecture, key, tmp_path):
    tiny_model(ARCHITECTURES[architecture].name, {}).save_pretrained(tmp_path / "plain")
    value = "two" if "count" in key else 1e9 if "epsilon" in key else 1e-9
    write(tmp_path / "plain", tmp_path / "gguf/model.gguf", architecture, said={f"{architecture}.{key}": value})
    kind, said = NothingToCompare, r"have (hardly any|no) effect; correct it"
    if value == "two":
        kind, said = CheckpointError, "says attention.head_count_kv: two, not a number of heads; do not trust it$"
    with pytest.raises(kind, match=said):
        read_headers(read_config(resolve(str(tmp_path / "gguf"))))


def test_the_configuration_is_that_of_the_metadata_and_experts_make_another_class():
    sizes = {"block_count": 32, "embedding_length": 4096, "feed_forward_length": 14336}
    sizes |= {"attention.head_count": 32, "attention.head_count_kv": (8, 8), "attention.layer_norm_rms_epsilon": 1e-5}
    metadata = LLAMA | {f"llama.{key}": value for key, value in sizes.items()}
    config = {"num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32}
    config |= {"n_head": 32, "n_heads": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
    found = config_of(metadata | {"general.name": "a name", "qwen2.block_count": 7})
    assert found == {"architectures": ["LlamaForCausalLM"]} | config
    for count, name in ((8, "MixtralForCausalLM"), (0, "LlamaForCausalLM")):
        assert config_of(LLAMA | {"llama.expert_count": count})["architectures"] == [name]
    counts = {"general.architecture": "glm4moe", "glm4moe.block_count": 47, "glm4moe.nextn_predict_layers": 1}
    config = config_of(counts)
    assert (config["num_hidden_layers"], config["num_nextn_predict_layers"]) == (46, 1)
    assert set(ARCHITECTURES) <= set(gguf.MODEL_ARCH_NAMES.values())
    assert len(CLASSES) > 40
    for _, name in CLASSES:
        lookup({"architectures": [name], "apply_residual_connection_post_layernorm": False})


@pytest.mark.parametrize(("metadata", "why"), [*((said, UNREAD.format(name)) for said, name in UNNAMED), ADAPTER])
def test_what_is_not_read_says_why(metadata, why):
    with pytest.raises(NothingToCompare, match=f"^the GGUF file has the {why}$"):
        config_of(metadata)


def pieces(architecture, stored):
    _, factorization = lookup({"architectures": [ARCHITECTURES[architecture].name]})
    return list(name_tensors({"general.architecture": architecture}, factorization, stored))


def test_names_are_those_on_the_disk_of_the_hub_and_each_expert_of_a_stack_has_one(monkeypatch):
    found = pieces("llama", NAMES)
    assert {piece.stored: piece.name for piece in found} == NAMES
    assert [piece.stored for piece in found if piece.undo == "rotated"] == ["blk.17.attn_q.weight"]
    found = pieces("qwen3moe", ["blk.0.ffn_up_exps.weight", *EXPERTS])
    assert {piece.stored: piece.name for piece in found} == EXPERTS
    monkeypatch.setattr(gguf, "MODEL_ARCH_NAMES", {})
    why = "^the package gguf does not know llama; `pip install --upgrade gguf`$"
    with pytest.raises(NothingToCompare, match=why):
        pieces("llama", NAMES)


@pytest.mark.parametrize("odd", [None, [], {"colour": "red"}, {"undo": {"attn_q": "turned"}}])
def test_a_table_that_breaks_the_schema_is_refused(odd, tmp_path, monkeypatch):
    table = {"settings": {}} | ({"architectures": {"llama": {"class": "A"} | odd}} if odd else {})
    (tmp_path / "gguf").mkdir()
    (tmp_path / "gguf/architectures.yaml").write_text(json.dumps([] if odd == [] else table))
    monkeypatch.setattr("hf_lineage.architecture.registry.registry_root", lambda: tmp_path)
    with pytest.raises(RegistryError, match=r"gguf/architectures.yaml: .*registry/README.md documents the schema"):
        _table()
