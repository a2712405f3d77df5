"""A scan in words: a table of at most 80 columns, sentences below it, and JSON with everything."""

import json
from pathlib import Path

from hf_lineage.claims import Claim
from hf_lineage.scan import rendering
from hf_lineage.scan.local_model import LocalModel
from hf_lineage.scan.run import scanned
from hf_lineage.scan.same import Digest
from tests.models import EXAMPLES

FILE = EXAMPLES / "fern/llama-finetune-a/model.safetensors"
BASE = (Claim("acme/llama-base", None, ("README.md",)),)
LONG = "/home/somebody/models/publisher-with-a-long-name/repository-with-a-long-name/model-00001-of-00002.gguf"
MODELS = [
    LocalModel("fern/child", "Hub cache", "safetensors", files=(FILE,), claims=BASE),
    LocalModel(LONG, "LM Studio", "GGUF", files=(FILE,), title="Child 1B"),
    LocalModel("ollama://gone:1b", "Ollama", "GGUF", problem="ollama://gone:1b: its manifest is damaged"),
    LocalModel("x", "folder in \x1b[31m", problem="\x1b[31m::error::"),
]


def test_the_table_fits_80_columns_and_says_what_each_declares():
    text = rendering.text(scanned(MODELS, None, None))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].split() == ["Model", "Where", "Size", "Declared", "base", "Format"]
    assert lines[3].split() == ["fern/child", "Hub", "cache", "1.3", "MB", "acme/llama-base", "safetensors"]
    assert "(Child 1B)" in text
    assert "A name in parentheses is what a file calls itself" in text
    assert "\nollama://gone:1b: its manifest is damaged\n" in text
    assert r"x: \x1b[31m:\x3aerror:\x3a" in text
    assert "\x1b" not in text
    assert lines[-1] == "Models: 4."


def test_groups_are_told_by_what_is_known_of_them():
    by_names = rendering.text(scanned(MODELS, None, None))
    assert "The same files: fern/child, /home/somebody/models" in " ".join(by_names.split())
    assert "their bytes were not read, --digest reads them" in " ".join(by_names.split())
    digests = [Digest("a" * 64), Digest("b" * 64), Digest(unread="ONNX"), Digest("a" * 64)]
    by_bytes = " ".join(rendering.text(scanned(MODELS, digests, None)).split())
    assert "The same numbers: fern/child, x. Every tensor has the same bytes;" in by_bytes
    assert "ollama://gone:1b: ONNX" in by_bytes


def test_json_has_all_of_it():
    document = json.loads(rendering.json(scanned(MODELS, [Digest("a" * 64)] * 4, None, ["passed over"])))
    assert document["exit_code"] == 2
    assert document["notes"] == ["passed over"]
    assert document["same"] == {"by": "bytes", "groups": [["fern/child", LONG, "ollama://gone:1b", r"x"]]}
    assert document["models"][0] == {
        "name": "fern/child",
        "where": "Hub cache",
        "format": "safetensors",
        "bytes": FILE.stat().st_size,
        "files": [str(Path(FILE))],
        "title": None,
        "declares": ["acme/llama-base"],
        "tensors_sha256": "a" * 64,
        "unread": None,
        "problem": None,
        "claims": [],
    }
    assert document["models"][3]["problem"].isprintable()


def test_nothing_is_said_so():
    assert rendering.text(scanned([], None, None)) == (
        "No models were found. Name folders to search, such as\n  `hf-lineage scan ./models`.\n"
    )
