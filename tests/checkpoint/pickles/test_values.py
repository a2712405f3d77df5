"""Pickles: plain values are read as Python reads them, and nothing that a pickle names is ever run."""

import io
import pickle
import pickletools
from collections import OrderedDict

import pytest

from hf_lineage.checkpoint.pickles import values as pickled
from hf_lineage.checkpoint.pickles.values import Call, DamagedError, Name, UnknownError, read_pickle
from tests.models import Trap

NONE: frozenset[str] = frozenset()
NESTED = {"a": 1, "b": [1.5, -3, 2**40, None, True, False], "c": {"d": (), "e": ("x", "y")}}
NO_PICKLES = [b"", b"a pickle", pickle.dumps([1, 2, 3], 2)[:-1], b"X\xff\xff\xff\x7fabc."]
NO_STACK = [b".", b"t.", b"h\x07.", b"K\x01)R.", b"K\x01K\x02\x93.", b")K\x01a."]
"""A result, a mark, a memory, a call and a name out of numbers, and items for a tuple."""


def value(content, calls=NONE):
    return read_pickle(io.BytesIO(content), calls)


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("content", [NESTED, OrderedDict(a=1, b=OrderedDict()), {}, (1, 2, 3, 4, 5), "text"])
def test_plain_values_are_read_as_python_reads_them(content, protocol):
    assert value(pickle.dumps(content, protocol)) == content


def test_a_pickle_ends_where_it_ends_and_one_without_end_is_given_up(monkeypatch):
    stream = io.BytesIO(pickle.dumps(1, 2) + pickle.dumps(2, 2) + b"rest")
    assert (read_pickle(stream, NONE), read_pickle(stream, NONE), stream.read()) == (1, 2, b"rest")
    mapping = OrderedDict(a=1)
    mapping._metadata = {"": {"version": 1}}
    assert value(pickle.dumps(mapping, 2)) == {"a": 1}
    content = b"\x80\x02]q\x00" + b"".join(b"]q%c(h%ch%ce" % (at + 1, at, at) for at in range(60)) + b"."
    assert len(value(content)) == 2
    monkeypatch.setattr(pickled, "MOST_STEPS", 100)
    with pytest.raises(UnknownError):
        value(b"]" * 102 + b".")
    assert {code.name for code in pickletools.opcodes} >= pickled.KNOWN


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_nothing_is_called_but_what_is_known_is_a_value(protocol, tmp_path):
    trap = tmp_path / "sprung"
    with pytest.raises(UnknownError):
        value(pickle.dumps({"a": Trap(trap)}, protocol))
    assert not trap.exists()
    pickle.loads(pickle.dumps(Trap(trap), protocol))
    assert trap.exists()
    content = b"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00idc__builtin__\nint\ntR."
    assert value(content, frozenset({"os.system"})) == Call("os.system", ("id", Name("__builtin__.int")))
    with pytest.raises(UnknownError, match=r"would call os\.system"):
        value(content)


class Set:
    def __init__(self):
        self.a = 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (pickle.dumps(Set(), 2), r"more than tensors and plain values \(NEWOBJ\)"),
        (b"(cos\nsystem\nX\x02\x00\x00\x00ido.", r"\(OBJ\)"),
        (pickle.dumps({1: 2}, 2), "whose keys are not texts"),
        (b"}}X\x05\x00\x00\x00itemsNsb.", "would change more than a mapping"),
        (b"\x82\x01.", r"\(EXT1\)"),
    ],
)
def test_more_than_plain_values_is_refused(content, said):
    with pytest.raises(UnknownError, match=said):
        value(content)


@pytest.mark.parametrize("content", NO_PICKLES + NO_STACK)
def test_what_is_damaged_is_refused(content):
    with pytest.raises(DamagedError):
        value(content)
