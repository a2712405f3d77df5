"""The checkpoint in a model.bin: the numbers that CTranslate2's converter was given, decoded as its own code does.

The header of a model.bin: what CTranslate2's own writer wrote is read, and what is damaged is one clear line.
"""

import contextlib
import io
import struct

import ml_dtypes
import numpy as np
import pytest
from ctranslate2.specs import common_spec, model_spec
from hypothesis import given
from hypothesis import strategies as st

from hf_lineage.checkpoint.foreign.ctranslate2.form import CTRANSLATE2, Variable, parse
from hf_lineage.checkpoint.foreign.form import HeaderError
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.reference import RepoRef
from tests.properties import cases


class VariedSpecification(model_spec.ModelSpec):
    """Some variables of every type."""

    def __init__(self):
        super().__init__()
        self.linear = common_spec.LinearSpec()
        self.linear.weight = np.arange(12, dtype=np.float32).reshape(3, 4)
        self.again = common_spec.LinearSpec()
        self.again.weight = self.linear.weight.copy()
        self.heads = np.dtype("int16").type(7)
        self.scale = np.dtype("float32").type(0.5)

    @property
    def name(self):
        return "Specification"


def written_header(folder, quantization=None):
    specification = VariedSpecification()
    specification.validate()
    specification.optimize(quantization)
    specification._serialize(str(folder / "model.bin"))
    return folder / "model.bin"


def read(content):
    return parse(io.BytesIO(content), len(content))


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    return written_header(tmp_path_factory.mktemp("ct2"), "int8").read_bytes()


def text(value):
    return struct.pack("<H", len(value) + 1) + value + b"\0"


def file(*variables, aliases=(), version=6, count=None):
    """A file of raw variables, each its header and its numbers."""
    start = struct.pack("<I", version) + text(b"S") + struct.pack("<II", 1, len(variables) if count is None else count)
    return start + b"".join(variables) + struct.pack("<I", len(aliases)) + b"".join(map(text, aliases))


def variable(name=b"w", shape=(2, 2), kind=0, held=None, numbers=None):
    size = int(np.prod(shape)) * (4, 1, 2, 4, 2, 2, 1)[kind]
    numbers = bytes(size) if numbers is None else numbers
    dimensions = struct.pack(f"<B{len(shape)}I", len(shape), *shape)
    return text(name) + dimensions + struct.pack("<BI", kind, size if held is None else held) + numbers


def test_variables_scalars_and_aliases_are_told_apart(content):
    header = read(content)
    assert header.specification == "Specification"
    assert {name: (one.shape, one.dtype) for name, one in header.variables.items()} == {
        "again/weight": ((3, 4), "I8"),
        "again/weight_scale": ((3,), "F32"),
    }
    assert header.numbers == {"heads": 7, "scale": 0.5}
    assert header.aliases == {"linear/weight": "again/weight"}
    start = header.variables["again/weight"].start
    assert content[start + 11] == 127


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "int16"])
def test_every_type_is_known(kind, tmp_path):
    held = read(written_header(tmp_path, kind).read_bytes()).variables["again/weight"]
    assert held == Variable(
        (3, 4), {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int16": "I16"}[kind], held.start
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is truncated"),
        (b"PK\x03\x04" + bytes(100), "is not a CTranslate2 model"),
        (file(version=3), r"\(3, not 4 to 6\)"),
        (file(variable(), count=2**20), "claims 1048576 variables"),
        (file(variable(), count=9), "is truncated|has a name of 0 bytes"),
        (file(variable(), variable()), "has the variable 'w' twice"),
        (file(variable(shape=(1,) * 9)), "has 9 dimensions"),
        (file(variable(held=15)), r"'w' of \(2, 2\) has 15 bytes of the type 0"),
        (file(variable(kind=6, numbers=b"")), "of the type 6"),
        (file(variable(shape=(2**31, 2**31), held=0, numbers=b"")), "is truncated"),
        (file(variable(numbers=b"123")), "is truncated"),
        (file(variable(), aliases=(b"a", b"b")), "claims|is truncated|another name for a variable that is missing"),
        (
            file(variable())[:-4] + struct.pack("<I", 1) + text(b"a") + text(b"b"),
            "another name for a variable that is missing",
        ),
        (
            file(variable())[:-4] + struct.pack("<I", 1) + text(b"w") + text(b"w"),
            "another name for a variable that is missing",
        ),
    ],
    ids=range(14),
)
def test_what_is_damaged_or_hostile_is_one_clear_line(content, message):
    with pytest.raises(HeaderError, match=message):
        read(content)


def test_a_file_cut_anywhere_is_our_error(content):
    for length in range(len(content)):
        with pytest.raises(HeaderError):
            read(content[:length])


@cases(200)
@given(st.data())
def test_changed_bytes_are_read_or_are_our_error(content, data):
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(HeaderError):
        read(bytes(changed))


MATRIX = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
FILE = "model.bin"


class Specification(model_spec.ModelSpec):
    def __init__(self):
        super().__init__()
        self.linear = common_spec.LinearSpec()
        self.linear.weight = MATRIX.copy()
        self.linear.bias = MATRIX[0].copy()
        self.again = common_spec.LinearSpec()
        self.again.weight = MATRIX.copy()
        self.conv = common_spec.Conv1DSpec()
        self.conv.weight = MATRIX.reshape(6, 2, 2).copy()

    @property
    def name(self):
        return "Specification"


def written(folder, quantization=None):
    specification = Specification()
    specification.validate()
    specification.optimize(quantization)
    specification._serialize(str(folder / FILE))
    return RepoRef("org/model", folder)


@pytest.mark.parametrize(
    ("quantization", "kept"),
    [
        (None, MATRIX),
        ("float32", MATRIX),
        ("float16", MATRIX.astype(np.float16)),
        ("bfloat16", MATRIX.astype(ml_dtypes.bfloat16)),
        ("int8", None),
        ("int8_float16", None),
        ("int16", None),
    ],
)
def test_matrices_are_what_the_converter_stored(quantization, kept, tmp_path):
    checkpoint = CTRANSLATE2.open(written(tmp_path, quantization), [FILE])
    assert set(checkpoint.tensors) == {"linear/weight", "linear/bias", "again/weight", "conv/weight"}
    if kept is None:
        numbers, scale = (
            (127, np.abs(MATRIX).max(1, keepdims=True)) if "int8" in quantization else (2**10, np.abs(MATRIX).max())
        )
        kept = np.rint(MATRIX * (numbers / scale)) / (numbers / scale)
    for name in ("linear/weight", "again/weight", "conv/weight"):
        found = checkpoint.read(name).astype(np.float32)
        np.testing.assert_allclose(found.reshape(6, 4), np.asarray(kept, np.float32), rtol=1e-6)
    np.testing.assert_allclose(checkpoint.read("linear/bias").astype(np.float32), MATRIX[0], rtol=1e-2)


def test_what_is_quantized_otherwise_is_said(tmp_path):
    (tmp_path / FILE).write_bytes(file(variable(kind=3), variable(b"w_zero", (2, 1), 3), variable(b"v", kind=1)))
    checkpoint = CTRANSLATE2.open(RepoRef("org/model", tmp_path), [FILE])
    assert set(checkpoint.tensors) == {"w", "v"}
    for name in checkpoint.tensors:
        with pytest.raises(NothingToCompare, match=f"{name} is stored as AWQ in CTranslate2, which is not supported"):
            checkpoint.read(name)


@pytest.mark.parametrize(
    "scale", [variable(b"w_scale", (3,)), variable(b"w_scale", (2,), 4), variable(b"w_scale", (2, 2))]
)
def test_scales_that_do_not_fit_are_refused(scale, tmp_path):
    (tmp_path / FILE).write_bytes(file(variable(kind=1), scale))
    with pytest.raises(CheckpointError, match=r"org/model: model\.bin: w of \(2, 2\) has scales of"):
        CTRANSLATE2.open(RepoRef("org/model", tmp_path), [FILE])


def test_scales_of_nothing_give_what_is_found_where_weights_are_compared(tmp_path):
    (tmp_path / FILE).write_bytes(file(variable(kind=1, numbers=b"\1\0\1\1"), variable(b"w_scale", (2,))))
    found = CTRANSLATE2.open(RepoRef("org/model", tmp_path), [FILE]).read("w")
    assert not np.isfinite(found).any()
