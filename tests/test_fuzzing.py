"""Whatever a file holds, its reader returns a value or raises one of our errors, soon and in little memory."""

import logging
import shutil
import tracemalloc
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzzing.changes import json_file, safetensors_file, yaml_file
from tests.fuzzing.readers import only_ours, parted, readers
from tests.invoking import lineage
from tests.models import WEIGHTS, family
from tests.properties import cases

NAMES = (
    *("header", "header, unlisted", "torch file", "old torch file", "gguf", "index"),
    *("config", "config, unlisted", "card", "adapter of diffusers", "adapter", "mergekit"),
    *("signature", "policy", "claims", "keys of an index", "models of an index", "ONNX"),
)
RANDOM = st.randoms(use_true_random=True)
"""From a seed that Hypothesis draws: each choice by itself would take it a hundred times as long."""


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    logging.getLogger("hf_lineage").setLevel(logging.ERROR)
    yield readers(tmp_path_factory.mktemp("fuzz"))
    logging.getLogger("hf_lineage").setLevel(logging.NOTSET)


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_raises_nothing_but_our_errors_and_needs_little_memory(every, name):
    assert tuple(every) == NAMES
    reader, outcomes = every[name], set()

    @cases(100 if reader.turns > 1 else 12)
    @given(RANDOM)
    def run(random):
        outcomes.add(only_ours(reader.read, reader.case(random)))

    run()
    assert {"value"} < outcomes
    contents = [reader.case(Random(seed)) for seed in range(3 if reader.turns > 1 else 2)]
    tracemalloc.start()
    for content in contents:
        only_ours(reader.read, content)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 16 * 2**20, "bytes that Python may hold at a time for a file of some kilobytes"


FILES = {
    "config.json":
        (json_file, {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_attention_heads": 4}),
    "adapter_config.json": (json_file, {"base_model_name_or_path": "acme/base"}),
    "mergekit_config.yml": (yaml_file, {"models": [{"model": "acme/base"}]}),
    "README.md": (lambda random, valid: b"---\n" + yaml_file(random, valid) + b"\n---\n", {"base_model": "acme/base"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    return family(tmp_path_factory.mktemp("hub"))


@pytest.mark.parametrize("file", [*FILES, WEIGHTS])
def test_the_command_ends_with_the_code_of_a_verdict_or_with_2(hub, file, monkeypatch, tmp_path):
    """1 means UNRELATED, and is never the code of what could not be read."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    model = shutil.copytree(hub / "fern/child", tmp_path / "child")
    header, data = parted((model / WEIGHTS).read_bytes())
    make, valid = FILES.get(file, (partial(safetensors_file, data=data), header))

    @cases(8)
    @given(RANDOM)
    def run(random):
        (model / file).write_bytes(make(random, valid))
        found = lineage("check", model, "--local-hub", hub, "--alpha", "0.05")
        assert found.code in (0, 1, 2, 3), found
        assert found.code != 1 or "UNRELATED" in found.out, found
        if found.code == 2 and not found.out:
            assert found.error

    run()
