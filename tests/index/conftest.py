"""The example models, extracted once, and an index of those that others were made from."""

import pytest

from hf_lineage import Options, extract
from hf_lineage.index.store import Catalogue
from tests.models import EXAMPLES

KNOWN = (
    *("acme/llama-base", "acme/gpt2-base", "fern/llama-finetune-a", "fern/llama-finetune-b", "fern/llama-lora-merged"),
    *("moss/llama-continued", "otter/llama-independent"),
)


@pytest.fixture(scope="session")
def signatures():
    names = sorted("/".join(file.parent.parts[-2:]) for file in EXAMPLES.glob("*/*/model.safetensors"))
    return {name: extract(name, Options(local_hub=EXAMPLES, paths=("mlp",))) for name in names}


@pytest.fixture(scope="session")
def catalogue(signatures, tmp_path_factory):
    made = Catalogue(tmp_path_factory.mktemp("index"))
    for name in KNOWN:
        made.add(signatures[name])
    return made
