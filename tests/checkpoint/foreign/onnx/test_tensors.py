"""The checkpoint in an ONNX file: its numbers, in the file or beside it, and never anywhere else."""

import resource
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hf_lineage.checkpoint.files import weight_files
from hf_lineage.checkpoint.foreign.onnx.tensors import open_onnx, read_graph
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.reference import RepoRef, resolve
from tests.checkpoint.foreign.onnx.test_products import product
from tests.models import open_checkpoint

FILE = "onnx/model.onnx"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "onnx").mkdir()
    return tmp_path


def saved(folder, model, file=FILE, **options):
    onnx.save(model, folder / file, **options)
    return RepoRef("org/model", folder)


def matrix(model):
    return numpy_helper.to_array(model.graph.initializer[0]).T


def beside(folder, location="model.onnx_data"):
    """A model whose numbers are beside it, in a file that may be named otherwise afterwards."""
    model = product()
    options = {"save_as_external_data": True, "location": "model.onnx_data", "size_threshold": 0}
    expected = matrix(model)
    saved(folder, model, **options)
    held = onnx.load(folder / FILE, load_external_data=False)
    for entry in held.graph.initializer[0].external_data:
        entry.value = location if entry.key == "location" else entry.value
    (folder / FILE).write_bytes(held.SerializeToString())
    return RepoRef("org/model", folder), expected


def test_matrices_are_read_as_out_in(folder):
    model = product(bias=True)
    checkpoint = open_checkpoint(saved(folder, model))
    assert checkpoint.shapes == {"up.weight": (24, 40), "up.bias": (24,)}
    np.testing.assert_array_equal(checkpoint.read("up.weight"), matrix(model))
    assert weight_files(RepoRef("org/model", folder)) == [FILE]


def test_numbers_beside_the_model_are_read_there(folder):
    repo, expected = beside(folder)
    np.testing.assert_array_equal(open_checkpoint(repo).read("up.weight"), expected)
    assert weight_files(repo) == [FILE, f"{FILE}_data"]


@pytest.mark.parametrize(
    "location",
    [
        "../model.onnx_data",
        "/etc/passwd",
        "a/../../x",
        "..\\x",
        "C:\\x",
        ".hidden",
        "a//b",
        "",
        "x" * 300,
        "a/b/c/d/e/f",
    ],
)
def test_numbers_never_lie_outside_the_repository(folder, location):
    repo, _ = beside(folder, location)
    with pytest.raises(CheckpointError, match=r"not a file beside it; do not trust it|does not say where"):
        open_checkpoint(repo)


def test_a_link_to_numbers_outside_is_not_followed(folder, tmp_path_factory):
    repo, _ = beside(folder)
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "secret"
    shutil.move(folder / f"{FILE}_data", elsewhere)
    (folder / f"{FILE}_data").symlink_to(elsewhere)
    with pytest.raises(CheckpointError, match="is a link out of the model's folder"):
        open_checkpoint(repo)


def test_numbers_that_are_missing_or_cut_are_one_clear_line(folder):
    repo, _ = beside(folder)
    data = folder / f"{FILE}_data"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"model\.onnx_data is truncated: up\.weight ends at byte 3840 of 3839"):
        open_checkpoint(repo)
    data.unlink()
    with pytest.raises(CheckpointError, match=r"onnx/model\.onnx_data is missing; download it too"):
        open_checkpoint(RepoRef("org/model", folder))


def test_a_file_that_changes_is_noticed(folder):
    checkpoint = open_checkpoint(saved(folder, product()))
    saved(folder, product(bias=True))
    with pytest.raises(CheckpointError, match="the file changed"):
        checkpoint.read("up.weight")


def test_of_several_files_the_first_that_can_be_read_is(folder):
    fused = product()
    fused.graph.node[0].op_type, fused.graph.node[0].domain = "Attention", "com.microsoft"
    saved(folder, fused)
    with pytest.raises(NothingToCompare, match="the operation Attention"):
        open_checkpoint(RepoRef("org/model", folder))
    saved(folder, product(), "onnx/model_fp16.onnx")
    repo = RepoRef("org/model", folder)
    assert open_checkpoint(repo).shapes == {"up.weight": (24, 40)}
    assert weight_files(repo) == ["onnx/model_fp16.onnx"]


def test_a_graph_whose_matrices_nothing_names_or_that_has_none_is_not_read(folder):
    bare = product()
    bare.graph.node[0].name = ""
    bare.graph.node[0].input[1] = bare.graph.initializer[0].name = "onnx::MatMul_1"
    repo = saved(folder, bare)
    with pytest.raises(NothingToCompare, match="multiplies with 1 matrices whose place in the model is unknown;"):
        open_onnx(repo, [FILE])
    empty = helper.make_model(helper.make_graph([], "g", [], [helper.make_tensor_value_info("y", 1, None)]))
    with pytest.raises(NothingToCompare, match="has no product with a stored matrix;"):
        open_onnx(saved(folder, empty, "a.onnx"), ["a.onnx"])


def test_a_damaged_file_is_not_passed_over(folder):
    saved(folder, product(), "onnx/model_fp16.onnx")
    (folder / FILE).write_bytes(b"\x07")
    with pytest.raises(CheckpointError, match=r"onnx/model\.onnx is damaged"):
        open_checkpoint(RepoRef("org/model", folder))
    clash = product()
    clash.graph.node.append(helper.make_node("MatMul", ["x", "onnx::1"], ["y"], name="/up/MatMul"))
    clash.graph.initializer.append(numpy_helper.from_array(np.ones((40, 24), np.float32), "onnx::1"))
    with pytest.raises(CheckpointError, match=r"org/model: a\.onnx: two matrices of the ONNX graph are up\.weight"):
        read_graph(saved(folder, clash, "a.onnx"), ["a.onnx"])


def test_tensors_of_layers_that_nothing_is_multiplied_with_do_not_count(folder):
    model = product()
    held = numpy_helper.from_array(np.ones((50, 4), np.float32), "layers.0.up.weight")
    model.graph.initializer.append(held)
    model.graph.node.append(helper.make_node("Gather", [held.name, "x"], ["z"]))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    assert open_checkpoint(saved(folder, model)).shapes == {"up.weight": (24, 40)}


def test_on_the_hub_only_the_wanted_numbers_beside_the_graph_are_downloaded(online, folder):
    model = product()
    other = numpy_helper.from_array(np.ones((40, 4096), np.float32), "down.weight")
    model.graph.initializer.append(other)
    model.graph.node.append(helper.make_node("MatMul", ["x", "down.weight"], ["z"], name="/down/MatMul"))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    expected = matrix(model)
    saved(folder, model, save_as_external_data=True, location="model.onnx_data", size_threshold=0)
    (folder / "config.json").write_text("{}")
    online.publish("org/onnx", folder)
    checkpoint = open_checkpoint(resolve("org/onnx"))
    np.testing.assert_array_equal(checkpoint.read("up.weight"), expected)
    checkpoint.release()
    sent = {(part.file, part.start, part.stop) for part in online.parts if part.file.endswith("_data")}
    assert sum(stop - start for _, start, stop in sent) == expected.nbytes


HOSTILE = """
import resource, sys
from tests.models import open_checkpoint
from hf_lineage.errors import LineageError
from hf_lineage.hub.reference import RepoRef
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
try:
    open_checkpoint(RepoRef("org/model", __import__("pathlib").Path(sys.argv[1])))
except LineageError as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_AS"), reason="the system bounds no address space")
def test_a_huge_claim_takes_no_memory(folder):
    model = product()
    model.graph.node[0].op_type = "MatMulNBits"
    model.graph.node[0].input.append("up.weight")
    for name, value in (("N", 2**30), ("K", 2**30), ("bits", 4), ("block_size", 32)):
        model.graph.node[0].attribute.append(helper.make_attribute(name, value))
    saved(folder, model)
    ran = subprocess.run([sys.executable, "-c", HOSTILE, folder], capture_output=True, text=True, check=True)
    assert ran.stdout == "CheckpointError\n"
