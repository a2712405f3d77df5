"""What people write is understood where it can only mean one thing, and refused by the name of the option elsewhere."""

import dataclasses
import datetime
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from hf_lineage import RECIPES, Options
from hf_lineage.errors import OptionError
from hf_lineage.options import SETTINGS, in_words, moment, stamp


@pytest.mark.parametrize(("written", "kept"), [
    ({"local_hub": "hub"}, {"local_hub": Path("hub")}), ({"registry": "registry"}, {"registry": Path("registry")}),
    ({"paths": "query_key"}, {"paths": ("query_key",)}), ({"accept": "part"}, {"accept": ("part",)}),
    ({"paths": ["mlp", "query_key"]}, {"paths": ("mlp", "query_key")}),
    ({"paths": "all"}, {"paths": ("all",)}), ({"nulls": Path("other/model")}, {"nulls": ("other/model",)}),
    ({"recipe": "paper"}, {"recipe": RECIPES["paper"]}),
    ({"alpha": np.float32(0.5), "permutations": np.int64(99)}, {"alpha": 0.5, "permutations": 99}),
    ({"subfolder": PurePosixPath("onnx"), "file": Path("m.gguf")}, {"subfolder": "onnx", "file": "m.gguf"}),
])  # fmt: skip
def test_what_can_only_mean_one_thing_is_understood(written, kept):
    assert set(SETTINGS) == {field.name for field in dataclasses.fields(Options)}, "every option has a line there"
    options = Options(**written)
    assert ({name: getattr(options, name) for name in kept}, options) == (kept, Options(**kept))
    assert {type(getattr(options, name)) for name in kept} == {type(value) for value in kept.values()}


@pytest.mark.parametrize(("written", "message"), [
    ({"alpha": "0.01"}, "alpha must be a number, not '0.01'"),
    ({"alpha": None}, "alpha must be a number, not None"),
    ({"min_share": 1}, "min_share must lie between 0.01 and 0.99, not 1"),
    ({"permutations": 999.0}, "permutations must be a whole number, not 999.0"),
    ({"permutations": True}, "permutations must be a whole number, not True"),
    ({"seed": -1}, "seed must lie between 0 and 1.844674e+19, not -1"),
    ({"seed": "x"}, "seed must be a whole number, or None, not 'x'"),
    ({"recompute": "no"}, "recompute must be True or False, not 'no'"),
    ({"local_hub": 7}, "local_hub must be a path, or None, not 7"),
    ({"local_hub": b"hub"}, "local_hub must be a path, or None, not b'hub'"),
    ({"paths": 7}, "paths must be a name, or several, not 7"),
    ({"nulls": [None]}, "nulls must be a name, or several, not [None]"),
    ({"recipe": "nose"}, "recipe must be a Recipe, or robust, paper, not 'nose'"),
    ({"recipe": ["robust"]}, "recipe must be a Recipe, or robust, paper, not ['robust']"),
    ({"budget": "slow"}, "budget must be quick or full, or None, not 'slow'"),
    ({"budget": ["quick"]}, "budget must be quick or full, or None, not ['quick']"),
    ({"max_memory": 8}, "max_memory must be text, or None, not 8"),
])  # fmt: skip
def test_anything_else_is_refused_by_the_name_of_the_option(written, message):
    with pytest.raises(OptionError) as error:
        Options(**written)
    assert str(error.value) == message


def test_a_time_is_when_the_check_began_or_what_the_environment_says_told_in_utc(monkeypatch):
    zone = datetime.timezone(datetime.timedelta(hours=2))
    began = datetime.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=zone)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795000000")
    assert moment(began).isoformat() == "2026-11-18T11:06:40+00:00"
    for epoch in ("noon", "9" * 20, "9" * 5000, "-" + "9" * 20, "1e9", "inf"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
        with pytest.raises(OptionError, match=f"SOURCE_DATE_EPOCH must be seconds since 1970, not {epoch[:1900]}"):
            moment(began)
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert (moment(began), stamp(began)) == (began, "2026-01-02T01:04:05Z")
    assert in_words(began) == "2 January 2026, 01:04 UTC"
