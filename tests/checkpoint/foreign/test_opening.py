"""What a report says of the files of a converted model, and that each form has what opens it."""

import onnx

from hf_lineage.checkpoint.files import files_beside
from hf_lineage.checkpoint.foreign.files import CHOICES
from hf_lineage.checkpoint.foreign.opening import FORMS, GRAPH
from hf_lineage.hub.reference import RepoRef
from tests.checkpoint.foreign.ctranslate2.test_tensors import written
from tests.checkpoint.foreign.onnx.test_products import product


def test_every_form_is_opened_and_told_of():
    assert FORMS.keys() == CHOICES.keys()


def test_a_graph_and_what_lies_beside_it_is_told(tmp_path):
    for name in ("model.onnx", "model_q4.onnx"):
        onnx.save(product(), tmp_path / name)
    told = GRAPH.format("model.onnx")
    assert files_beside(RepoRef("org/model", tmp_path)) == (
        told,
        "model.onnx was read, by its name the most precise of the ONNX files that can be read; name another by its "
        "path, or with --file for the model that is judged; "
        "1 more files may hold weights too",
    )
    named = RepoRef("org/model", tmp_path, file="model_q4.onnx")
    assert files_beside(named)[1].startswith("model_q4.onnx was read, as it was named; 1 more")
    (tmp_path / "model_q4.onnx").unlink()
    assert files_beside(RepoRef("org/model", tmp_path)) == (told,)


def test_of_ctranslate2_nothing_is_told_where_there_is_nothing_else(tmp_path):
    repo = written(tmp_path)
    (tmp_path / "vocabulary.json").write_text("[]")
    assert files_beside(repo) == ()
    (tmp_path / "tf_model.h5").write_bytes(b"")
    assert files_beside(RepoRef("org/model", tmp_path)) == (
        "model.bin was read, which CTranslate2 loads; name another by its path, or with --file for the model that is "
        "judged; 1 more files may hold weights too",
    )
