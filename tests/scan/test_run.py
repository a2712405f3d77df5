"""A scan judges what declares a base, and what fails for one model does not stop the others."""

import shutil

import pytest

from hf_lineage import Options
from hf_lineage.evidence import ExitCode
from hf_lineage.scan.local_model import LocalModel
from hf_lineage.scan.places import find_models
from hf_lineage.scan.run import judge, scanned
from hf_lineage.scan.same import Digest
from tests.gguf_models import write
from tests.models import EXAMPLES, card
from tests.ollama_store import pulled

CHILD = EXAMPLES / "fern/llama-finetune-a"
OPTIONS = Options(local_hub=EXAMPLES, order_seed=0)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


def judged(place):
    """By the last part of its name, the words of the verdicts on a model, or why it could not be checked."""
    models = list(find_models([place]))
    outcomes = [judge(model, OPTIONS) for model in models]
    shown = {
        model.name.rpartition("/")[2]: [row.verdict.words for row in report.rows] if report else failure
        for model, (report, failure) in zip(models, outcomes, strict=True)
    }
    return shown, scanned(models, None, outcomes).exit_code


def liar(place):
    shutil.copytree(EXAMPLES / "otter/llama-independent", place / "liar")
    return card(place / "liar", "acme/llama-base")


def test_each_model_that_declares_a_base_is_judged(place, tmp_path):
    said = {"general.base_model.count": 1, "general.base_model.0.repo_url": "https://huggingface.co/acme/llama-base"}
    pulled(place / "store", "child", write(CHILD, tmp_path / "child.gguf", said=said))
    shutil.copytree(CHILD, place / "child")
    shutil.copytree(EXAMPLES / "acme/llama-base", place / "silent", ignore=shutil.ignore_patterns("README.md"))
    assert judged(place) == ({"child": ["RELATED"], "silent": "", "child:latest": ["RELATED"]}, ExitCode.RELATED)


def test_a_false_claim_counts_most_but_for_what_cannot_be_read(place):
    liar(place)
    assert judged(place) == ({"liar": ["UNRELATED"]}, ExitCode.UNRELATED)
    broken = shutil.copytree(CHILD, place / "broken")
    (broken / "model.safetensors").write_bytes(b"x" * 100)
    shown, code = judged(place)
    assert (shown["liar"], code) == (["UNRELATED"], ExitCode.ERROR)
    assert "truncated or not a safetensors file" in shown["broken"]


def test_what_can_only_be_listed_is_not_judged(place):
    shutil.copytree(CHILD, place / "child")
    (model,) = find_models([place])
    for other in (LocalModel("x", "folder"), LocalModel("x", "folder", repo=model.repo, problem="gone")):
        assert judge(other, OPTIONS) == (None, "")
    assert scanned([LocalModel("x", "folder", problem="gone")], None, None).exit_code is ExitCode.ERROR
    assert scanned([model], [Digest(problem="changed")], None).exit_code is ExitCode.ERROR
    assert scanned([model], [Digest(unread="TensorFlow")], None).exit_code is ExitCode.RELATED
    assert scanned([], None, None).exit_code is ExitCode.RELATED
