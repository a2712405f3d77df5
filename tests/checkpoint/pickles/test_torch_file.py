"""Files of torch.save: each tensor is where torch finds it, and a file that holds more, or less, is refused."""

import io
import pickle
import tracemalloc
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch

from hf_lineage.checkpoint.pickles import torch_file, values
from hf_lineage.checkpoint.pickles.torch_file import torch_header
from hf_lineage.checkpoint.tensor import Memory
from hf_lineage.errors import CheckpointError, NothingToCompare
from tests.models import Trap

OLD, NEW = ({"_use_new_zipfile_serialization": new} for new in (False, True))
each_way = pytest.mark.parametrize("how", [OLD, NEW], ids=["old", "new"])
NAMES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool"
TYPES, EIGHT_BITS = ([getattr(torch, name) for name in names.split()] for names in (NAMES, "float8_e4m3fn float8_e5m2"))
TWO = torch.ones(2)
UNKNOWN = [
    (torch.nn.Linear(2, 2), "it holds more than tensors and plain values (NEWOBJ)"),
    ([TWO], "it holds no mapping from names to tensors"),
    ({"model": {"a": TWO}, "step": 1}, "its first level, but model, step"),
    ({}, "it holds no tensors at its first level, but nothing"),
    ({"a": torch.ones(2, 3).T}, "it holds a with numbers that are not stored row by row"),
    ({"a": torch.ones(1, 3).expand(4, 3)}, "that are not stored row by row"),
    ({"a": torch.ones(2, dtype=torch.complex64)}, "numbers of the type torch.ComplexFloatStorage"),
    ({"a": torch.eye(2).to_sparse()}, "it would call torch.serialization._get_layout"),
    # Its file cannot be opened, so that another error would come out where it is run.
    ({"a": TWO, "b": Trap(Path("/nowhere/sprung"))}, "open; only named tensors are read; save"),
]
HUGE = b"\x8a\x08" + (2**47).to_bytes(8, "little")
NO_FIT = [{"shape": b"K\x02K\x04\x86", "stride": b"K\x04K\x01\x86"}, {"offset": b"K\x01"}, {"held": b"K\x07"}]
NO_FIT += [{"shape": HUGE + b"K\x02\x86", "stride": b"K\x02K\x01\x86"}]
NO_PLACE = [{"offset": b"J\xff\xff\xff\xff"}, {"offset": b"\x88"}, {"shape": b"NN\x86"}, {"stride": b"K\x01\x85"}]
OTHERS = [(b"version https://git-lfs.github.com/spec/v1\n", "it is a pointer of git-lfs, not the weights")]
OTHERS += [(pickle.dumps({"a": 1}, 2), "the end of its pickle cannot be read")]
OTHERS += [(b"".join(map(pickle.dumps, (1, 2, "3", "4", "5"))), "that torch.save did not write")]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "weights.bin"


def arrays(file):
    return {name: tensor.read(Memory()) for name, tensor in torch_header(file, "it")}


def refusal(file, content=None, **how):
    """The kind of the error with which a file is refused, to which this may be saved first, and what it says."""
    if content is not None:
        torch.save(content, file, **how)
    with pytest.raises((CheckpointError, NothingToCompare), match=r"^it ") as caught:
        list(torch_header(file, "it"))
    return f"{type(caught.value).__name__}: {caught.value}"


def rewritten(file, compression=zipfile.ZIP_STORED, **changed):
    with zipfile.ZipFile(file) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    folder = next(iter(held)).partition("/")[0]
    held |= {f"{folder}/{name.replace('_at_', '/').replace('_dot_', '.')}": value for name, value in changed.items()}
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in held.items():
            if content is not None:
                archive.writestr(name, content)


@each_way
def test_every_type_and_views_of_one_storage_are_read_as_torch_reads_them(file, how):
    whole = torch.arange(12.0).reshape(4, 3)
    wanted = {str(dtype): torch.arange(-4, 8).reshape(3, 4).to(dtype) for dtype in TYPES}
    wanted |= {} if how is OLD else {str(dtype): torch.arange(12).reshape(3, 4).to(dtype) for dtype in EIGHT_BITS}
    wanted |= {"whole": whole, "part": whole[1:3], "tied": whole, "empty": whole[:0], "one": whole[2, 1]}
    wanted |= {"parameter": torch.nn.Parameter(whole * 2), "row": whole[1:2].T.T}
    torch.save(OrderedDict(wanted | {"count": 3, "nothing": None}), file, **how)
    found = arrays(file)
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        np.testing.assert_array_equal(found[name].astype(np.float64), tensor.detach().double().numpy(), strict=True)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_the_state_of_a_module_in_every_protocol(file, protocol):
    state = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).state_dict()
    torch.save(state, file, pickle_protocol=protocol)
    found = arrays(file)
    assert found.keys() == state.keys()
    np.testing.assert_array_equal(found["0.weight"], state["0.weight"].numpy())


@each_way
@pytest.mark.parametrize(("content", "said"), UNKNOWN)
def test_what_is_more_than_tensors_by_their_names_is_not_judged_or_run(content, said, how, file):
    told = refusal(file, content, **how)
    assert told.startswith("NothingToCompare: ")
    assert said in told


def pickled(**changes):
    """The pickle of an archive with one tensor, in which some parts are replaced."""
    said = {"shape": b"K\x02K\x03\x86", "stride": b"K\x03K\x01\x86", "held": b"K\x06", "offset": b"K\x00"} | changes
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu" + said["held"]
    made = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"tQ" + said["offset"] + said["shape"] + said["stride"]
    return b"\x80\x02}X\x01\x00\x00\x00a" + made + b"\x89NtRs."


@pytest.fixture
def saved(file):
    torch.save({"a": torch.ones(2, 3)}, file)
    return file


@pytest.mark.parametrize("changes", NO_FIT + NO_PLACE)
def test_a_tensor_that_is_not_within_its_storage_is_refused(changes, saved):
    rewritten(saved, data_dot_pkl=pickled())
    assert arrays(saved)["a"].shape == (2, 3)
    rewritten(saved, data_dot_pkl=pickled(**changes))
    no_place, no_fit = "holds a tensor with an invalid shape or place", "does not fit its storage of 24 bytes"
    assert (no_fit if changes in NO_FIT else no_place) in refusal(saved)


def test_an_archive_that_lacks_something_is_read_in_two_ways_or_packed_is_refused(saved, file):
    content = saved.read_bytes()
    lacks = {"data_at_0": "the numbers of a are missing", "data_dot_pkl": "an archive without data.pkl,"}
    for name, said in (lacks | {"byteorder": "not stored with the lowest byte first"}).items():
        saved.write_bytes(content)
        rewritten(saved, **{name: b"big" if name == "byteorder" else None})
        assert said in refusal(saved)
    saved.write_bytes(content)
    with zipfile.ZipFile(saved, "a") as archive:
        archive.comment = b"more"
    assert "with a comment" in refusal(saved)
    saved.write_bytes(content)
    with zipfile.ZipFile(saved, "a") as archive:
        archive.writestr("weights/DATA/0", bytes(24))
    assert "two entries of one name" in refusal(saved)
    saved.write_bytes(content.replace(b"/data/0", b"/data/\xff"))
    assert refusal(saved).startswith("CheckpointError: it is damaged: ")
    torch.save({"a": torch.zeros(2**20)}, file)
    rewritten(file, zipfile.ZIP_DEFLATED)
    assert file.stat().st_size < 2**14
    assert refusal(file).endswith("is compressed, and torch does not compress; download it again")


def test_lists_and_pickles_without_end_and_names_that_cannot_be_printed_are_not_read(file, monkeypatch):
    assert "it cannot be read: No such file" in refusal(file)
    assert "the name of a tensor cannot be printed" in refusal(file, {"a\n::error": torch.ones(1)})
    monkeypatch.setattr(torch_file, "LARGEST", 2**13)
    assert "its list of entries is too long" in refusal(file, {f"{n}": torch.ones(1) for n in range(300)})
    assert "its pickle takes 10" in refusal(file, {"a" * 10_000: torch.ones(1)})


@each_way
def test_a_file_that_is_cut_off_anywhere_is_refused(file, how):
    torch.save({"a": torch.ones(2, 3), "b": torch.ones(4)}, file, **how)
    content = file.read_bytes()
    for length in range(0, len(content), 7):
        file.write_bytes(content[:length])
        assert refusal(file).startswith("CheckpointError: it is damaged: "), length


def test_numbers_of_an_old_file_belong_to_its_tensors(file):
    """Storages stand one behind the other, so that one too many would move all that follow."""
    torch.save({"a": torch.ones(2)}, file, **OLD)
    content = file.read_bytes()
    stop = content.rindex(pickle.dumps(["x"], 2)[:4])
    key = io.BytesIO(content[stop:])
    (name,) = values.read_pickle(key, frozenset())
    file.write_bytes(content[:stop] + pickle.dumps([name, "other"], 2) + content[stop + key.tell() :])
    assert "it holds numbers that belong to no tensor" in refusal(file)


@pytest.mark.parametrize(("content", "said"), OTHERS)
def test_another_file_is_refused(content, said, file):
    file.write_bytes(content)
    assert said in refusal(file)


def test_no_more_is_read_than_a_tensor_and_a_pickle_is_known_by_its_name(file):
    torch.save({"large": torch.ones(2**22), "small": torch.ones(2**10)}, file)
    tracemalloc.start()
    tensors = dict(torch_header(file, "it"))
    assert tensors["small"].read(Memory()).sum() == 2**10
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**19
    blob = file.rename(file.with_name("blob"))
    _, (name, tensor) = torch_header(blob, "org/model")
    assert (name, tensor.shape, tensor.dtype) == ("small", (2**10,), "F32")
