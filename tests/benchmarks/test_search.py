from benchmarks import search


def test_relatives_are_among_the_first_ten_of_an_index():
    rows = {row.what: row for row in search.measure([2_000], 3, runs=0)}
    assert rows["2,000 models, recall at 10"].measured == 1
    assert (rows["2,000 models, others above chance"].measured or 0) < 2
    assert (rows["2,000 models, keys on disk"].measured or 0) < 1
