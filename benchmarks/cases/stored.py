"""Comparing two stored signatures: the whole command, and its permutation test alone."""

import statistics
from collections.abc import Iterator

from benchmarks import tasks
from benchmarks.cases.bench import Bench
from benchmarks.clock import cold, interleaved
from benchmarks.commands import lineage, succeeded
from benchmarks.isolated import isolated
from benchmarks.results import Row, Target
from benchmarks.writing import write_signatures

PERMUTATIONS = 999
OTHERS = 9
"""Signatures of independent models that are written; a hundred would take 3.4 GB."""
HUNDRED = 100


def rows(bench: Bench) -> Iterator[Row]:
    """Yield the seconds of both."""
    folder = bench.scratch.folder / "signatures"
    shape = bench.plan.shapes["7B"]
    isolated(write_signatures, folder, shape, OTHERS)
    files = folder / "a.sig", folder / "b.sig"
    command = lineage("compare", *files)
    taken = interleaved({"whole": lambda: succeeded(cold(command))}, bench.plan.rounds)["whole"]
    run = cold(command)
    yield Row(
        f"compare two stored 7B signatures, {PERMUTATIONS} permutations",
        Target(high=1.5),
        statistics.median(taken),
        "s",
        f"whole command, cold process, {shape.layers} layers; peak memory {run.peak / 1e6:.0f} MB; {bench.medians()}",
    )
    many = [files[1], *(folder / f"{number % OTHERS}.sig" for number in range(HUNDRED - 1))]
    taken = isolated(tasks.against_many, files[0], many, bench.plan.slow_rounds)
    yield Row(
        f"{HUNDRED} stored 7B signatures against one, tests included",
        Target(high=10.0),
        statistics.median(taken),
        "s",
        f"each is loaded and judged; one is related, {HUNDRED - 1} are not and end after some 40 permutations; of the "
        f"independent ones {OTHERS} files are read in turn; medians of {bench.plan.slow_rounds}",
    )
    test = isolated(tasks.permutation_test, *files, PERMUTATIONS, bench.plan.rounds)
    yield Row(
        "of which the permutation test, in process",
        Target(high=1.0),
        statistics.median(test),
        "s",
        f"both signatures loaded; {bench.medians()}",
    )
