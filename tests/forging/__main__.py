"""python -m tests.forging [--seed K] [--seconds S] [--cases N] [--stored F] [CLASS ...]: forge while there is time.

Classes take turns, those of one factorization after those of another. A case that fooled us is printed with what makes
it again; the exit status is that of all cases.
"""

import argparse
import json
import logging
import signal
import sys
import time
from collections import Counter, defaultdict

import torch

from hf_lineage.architecture.registry import listing
from tests.forging.cases import TURNS, classes, searched, subject
from tests.forging.subject import FORMATS

LONGEST = 120  # seconds of the processor that the cases of a class take at most, however busy the machine is


def main() -> int:
    """Run until all classes had their turn or the time is over, and say what came out."""
    parser = argparse.ArgumentParser(prog="python -m tests.forging", description="Forge without being told how.")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other cases")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--cases", type=int, default=60, help="of each class")
    parser.add_argument("--stored", choices=FORMATS, default="plain", help="the format that folders are judged in")
    parser.add_argument("named", nargs="*", metavar="CLASS", help="some classes instead of all")
    asked = parser.parse_args()
    if unlisted := [name for name in asked.named if not any(listing(name))]:
        parser.error(f"the registry does not list {', '.join(map(repr, unlisted))}; name classes of transformers")
    for log in ("hf_lineage", "transformers"):
        logging.getLogger(log).setLevel(logging.CRITICAL)
    signal.signal(signal.SIGPROF, _too_long)
    torch.set_num_threads(1)
    begun, counts = time.monotonic(), defaultdict[str, Counter[str]](Counter)
    done, fooled, left_out = 0, 0, dict[str, str]()
    able = tuple(kind for kind in TURNS if kind in (FORMATS[asked.stored].kinds or TURNS))
    held = FORMATS[asked.stored].classes
    several = (each for each in classes() if held is None or each[1] in held)
    for listed, name in [(next(iter(listing(name))), name) for name in asked.named] or several:
        if time.monotonic() - begun > asked.seconds:
            break
        try:
            signal.setitimer(signal.ITIMER_PROF, LONGEST)
            with subject(name, listed, stored=asked.stored) as one:
                for kind, outcome in searched(one, asked.seed, asked.cases, able):
                    counts[kind][outcome.came] += 1
                    if outcome.fooled:
                        fooled += 1
                        print(f"FOOLED {name} {kind}: {outcome.said}: {outcome.came}", flush=True)
            done += 1
        except Exception as error:  # a class that cannot be had as a tiny model
            left_out[name] = f"{type(error).__name__}: {str(error)[:200]}"
            print(f"left out {name}: {left_out[name]}", flush=True)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    by_kind = {kind: dict(outcomes.most_common()) for kind, outcomes in sorted(counts.items())}
    cases = sum(outcomes.total() for outcomes in counts.values())
    said = {"cases": cases, "fooled": fooled, "by kind": by_kind, "classes": done, "left_out": left_out}
    print(json.dumps(said | {"seconds": round(time.monotonic() - begun)}, indent=1))
    return int(bool(fooled))


def _too_long(*_: object) -> None:
    raise TimeoutError(f"its cases took more than {LONGEST} s")


if __name__ == "__main__":
    sys.exit(main())
