"""python -m tests.fuzzing [--cases N] [--seconds S] [--seed K] [READER ...]: a long run over all readers.

Readers take turns. A case that shows something is printed with the number that makes it again, and the run goes on;
the exit status is that of all cases.
"""

import argparse
import collections
import itertools
import logging
import resource
import sys
import time
import traceback
from pathlib import Path
from random import Random

from tests.fuzzing.readers import only_ours, readers, temporary


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description="Fuzz every reader.")
    parser.add_argument("--cases", type=int, default=10**6, help="over all readers")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other cases")
    parser.add_argument("readers", nargs="*", help="some of them instead of all")
    asked = parser.parse_args()
    logging.getLogger("hf_lineage").setLevel(logging.ERROR)
    begun, findings = time.monotonic(), 0
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    with temporary() as room:
        everything = readers(Path(room))
        most = max(reader.turns for reader in everything.values())
        chosen = asked.readers or list(everything)
        names = itertools.cycle(name for turn in range(most) for name in chosen if turn < everything[name].turns)
        for number in range(asked.cases):
            if time.monotonic() - begun > asked.seconds:
                break
            name, started = next(names), time.process_time()
            content = everything[name].case(Random(f"{asked.seed} {number} {name}"))
            try:
                outcome = only_ours(everything[name].read, content)
                assert time.process_time() - started < 5, f"it took {time.process_time() - started:.1f} s"
            except Exception as error:
                outcome = f"FOUND {type(error).__name__}"
                findings += 1
                if counts[name][outcome] < 3:
                    print(f"{name}, seed {asked.seed}, case {number}: {content[:2000]!r}", flush=True)
                    traceback.print_exc(limit=-6, file=sys.stdout)
            counts[name][outcome] += 1
    for name, outcomes in counts.items():
        print(f"{name:20} {outcomes.total():8}: {', '.join(f'{k} {n}' for k, n in outcomes.most_common())}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    total = sum(each.total() for each in counts.values())
    print(f"{total} cases in {time.monotonic() - begun:.0f} s, {findings} findings, {memory} MiB at most")
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
