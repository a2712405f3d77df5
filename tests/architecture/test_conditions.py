import pytest

from hf_lineage.architecture.conditions import OF_LISTS, OF_NUMBERS, holds, value_of

KEYS = ["n", "count"]


@pytest.mark.parametrize(
    ("condition", "config", "answers"),
    [
        (["all"], {}, [True, True, True, True]),
        (["any"], {}, [False, False, False, False]),
        (["first"], {}, [True, False, False, False]),
        (["true", KEYS, 3], {}, [True] * 4),
        (["true", KEYS, 3], {"n": 0}, [False] * 4),
        (["true", KEYS, 3], {"count": 0}, [False] * 4),
        (["true", KEYS, 3], {"n": None}, [False] * 4),
        (["is", KEYS, None, [None]], {}, [True] * 4),
        (["is", KEYS, None, ["a", "b"]], {"n": "b"}, [True] * 4),
        (["above", KEYS, 0, 1], {"n": 2}, [True] * 4),
        (["from", KEYS, 0], {"n": 2}, [False, False, True, True]),
        (["to", KEYS, 0], {"n": 2}, [True, True, True, False]),
        (["to", KEYS, 0], {"n": -2}, [True, True, True, False]),
        (["last", KEYS, 0], {"n": 1}, [False, False, False, True]),
        (["every", KEYS, 1, 1], {"n": 2}, [False, True, False, True]),
        (["every", KEYS, 1, 0], {"n": 0}, [False] * 4),
        (["every", KEYS, 1, -1], {"n": 3}, [False, True, False, False]),
        (["cycle", [KEYS, 1], [["m"], 1]], {"n": 2}, [False, True, False, True]),
        (["holds", KEYS, None], {"n": [1, 2]}, [False, True, True, False]),
        (["holds", KEYS, None], {}, [False] * 4),
        (["word", KEYS, None, ["moe"]], {"n": ["dense", "moe"]}, [False, True, False, True]),
        (["entry", KEYS, None], {"n": [1, 0, 0, 1]}, [True, False, False, True]),
        (["not", ["first"]], {}, [False, True, True, True]),
        (["all", ["first"], ["true", KEYS, 1]], {}, [True, False, False, False]),
        (["any", ["first"], ["true", KEYS, 1]], {}, [True] * 4),
        (["listed", KEYS, ["holds", KEYS, None], ["first"]], {"n": [3]}, [False, False, False, True]),
        (["listed", KEYS, ["holds", KEYS, None], ["first"]], {"n": 3}, [True, False, False, False]),
    ],
)
def test_a_condition_is_answered_for_every_layer(condition, config, answers):
    assert [holds(condition, config, layer, 4) for layer in range(4)] == answers


def test_an_inner_key_is_found_and_null_is_said():
    assert value_of({"text_config": {"n": 2}}, ["text_config.n"], 5) == 2
    assert value_of({"text_config": {"n": None}}, ["text_config.n"], 5) is None
    assert value_of({"text_config": 3}, ["text_config.n"], 5) == 5


def test_what_nobody_knows_is_unknown_and_decides_nothing_that_is_decided_elsewhere():
    maybe = ["maybe"]
    assert holds(maybe, {}, 0, 1) is None
    assert holds(["not", maybe], {}, 0, 1) is None
    assert holds(["all", maybe, ["any"]], {}, 0, 1) is False
    assert holds(["any", maybe, ["all"]], {}, 0, 1) is True
    assert holds(["all", maybe, ["all"]], {}, 0, 1) is None


@pytest.mark.parametrize("value", [None, True, -1, 0, 2.5, float("nan"), "x", [], [[]], {}, {"a": 1}, 10**400])
@pytest.mark.parametrize("kind", [*OF_NUMBERS, *OF_LISTS, "true", "is", "holds"])
def test_any_value_of_config_json_is_answered_or_unknown(kind, value):
    told = {"is": [[1]], "word": [["a"]], "above": [0], "every": [1]}.get(kind, [])
    assert holds([kind, KEYS, None, *told], {"n": value}, 1, 4) in (True, False, None)
    assert holds(["cycle", [KEYS, 1], [["m"], 1]], {"n": value, "m": value}, 1, 4) in (True, False, None)
