from benchmarks import cost


def test_every_line_follows_from_figures_and_assumptions():
    lines = {what: (much, why) for what, much, why in cost.lines(cost.defaults())}
    assert lines["Requests to the API"][0] == "3,000,000"
    assert lines["Time"][1].endswith(("by the API's limit", "by the limit for files", "by the machines"))
    twice = {what: much for what, much, _ in cost.lines(cost.defaults() | {"models": 2e6})}
    assert twice["Requests to the API"] == "6,000,000"
    assert set(lines) == set(twice)


def test_every_assumption_is_named_and_used():
    usual = list(cost.lines(cost.defaults()))
    for name, value in cost.defaults().items():
        assert list(cost.lines(cost.defaults() | {name: value * 1000})) != usual, name
    assert [row[0] for row in cost.assumptions(cost.defaults())] == [f"`{name}`" for name in cost.ASSUMED]
