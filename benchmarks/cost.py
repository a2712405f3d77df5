"""Cost: what an index of a million models would cost, from measured figures and named assumptions.

`python -m benchmarks.cost` prints it as Markdown; every assumption can be replaced: `--assume machines=50`. Nothing is
measured here: figures are those of the committed results of `benchmarks.building`, `benchmarks.search` and
`benchmarks.speed`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.shapes import SHAPES

RESULTS = Path(__file__).with_name("results")
WINDOW = 300
"""Seconds over which the Hub counts requests."""
LIMITS = "[rate limits of the Hub](https://huggingface.co/docs/hub/rate-limits)"
PRICES = "[prices of Jobs](https://huggingface.co/docs/hub/jobs-pricing)"


@dataclass(frozen=True)
class Assumption:
    """A number that is not measured."""

    value: float
    words: str


ASSUMED: Mapping[str, Assumption] = {
    "models": Assumption(1e6, "models of which the weights can be read; the Hub does not say how many those are"),
    "size": Assumption(5e9, "bytes of weights of a model in the mean: 2.5 billion numbers of 16 bits"),
    "signature": Assumption(1.0, "of the size of a 7B's: a signature in the mean, which is an upper bound"),
    "files": Assumption(12_000, f"requests for files in five minutes: a PRO account, {LIMITS}"),
    "api": Assumption(2_500, f"requests to the API in five minutes: a PRO account, {LIMITS}"),
    "machines": Assumption(20, "machines at the same time"),
    "link": Assumption(125e6, "bytes a second that a machine receives: a link of 1 Gbit/s"),
    "cores": Assumption(8, f"of a machine, CPU Upgrade, {PRICES}; each as fast as one of those that measured"),
    "price": Assumption(0.03, f"dollars an hour for a machine, {PRICES}"),
    "storage": Assumption(25, "dollars a month for 10¹² bytes, if the index is private; public ones cost nothing"),
}
Line = tuple[str, str, str]
"""What, how much, and from what it follows."""


def lines(assumed: Mapping[str, float]) -> Iterator[Line]:
    """Yield each figure."""
    a, whole = assumed, SHAPES["7B"].bytes
    asked, files = (
        _figure("building", "one model: requests to the API"),
        _figure("building", "one model: requests for files"),
    )
    api_hours = a["models"] * asked / a["api"] * WINDOW / 3600
    file_hours = a["models"] * files / a["files"] * WINDOW / 3600
    yield (
        "Requests to the API",
        f"{a['models'] * asked:,.0f}",
        f"{asked:g} a model, {api_hours:,.0f} hours at the limit",
    )
    yield (
        "Requests for files",
        f"{a['models'] * files:,.0f}",
        f"{files:g} a model, {file_hours:,.0f} hours at the limit",
    )
    share = _figure("building", "one model: bytes")
    read = a["models"] * a["size"] * share
    link_hours = read / a["link"] / 3600
    yield (
        "Bytes that are read",
        f"{read / 1e15:,.2f} · 10¹⁵",
        f"{share:.1%} of the weights, {link_hours:,.0f} machine hours of link",
    )
    seconds, cores = _extraction()
    processor_hours = a["models"] * a["size"] / whole * seconds * cores / a["cores"] / 3600
    yield (
        "Processor",
        f"{processor_hours:,.0f} machine hours",
        f"{seconds:g} s on {cores} cores for a 7B, in proportion to the bytes",
    )
    machine_hours = max(link_hours, processor_hours)
    hours = max(api_hours, file_hours, machine_hours / a["machines"])
    by = {
        api_hours: "the API's limit",
        file_hours: "the limit for files",
        machine_hours / a["machines"]: "the machines",
    }
    yield "Time", f"{hours:,.0f} hours", f"{hours / 24:,.0f} days, by {by[hours]}"
    dollars = a["price"] * max(machine_hours, hours * a["machines"])
    yield "Machines", f"${dollars:,.0f}", f"{a['machines']:g} machines for {hours:,.0f} hours"
    keys = a["models"] * _figure("search", "1,000,000 models, keys on disk") * 1e6 / 1e6
    yield "Keys", f"{keys / 1e9:,.2f} GB", "whoever searches the index fetches them"
    signatures = a["models"] * a["signature"] * _figure("search", "signature of a 7B") * 1e6
    yield (
        "Signatures",
        f"{signatures / 1e12:,.0f} TB",
        f"${signatures / 1e12 * a['storage']:,.0f} a month if private; one is fetched for each model that is tested",
    )


def assumptions(assumed: Mapping[str, float]) -> list[tuple[str, str, str]]:
    """Return the name, the value and the words of every assumption."""
    return [(f"`{name}`", f"{assumed[name]:,.12g}", ASSUMED[name].words) for name in ASSUMED]


def defaults() -> dict[str, float]:
    """Return the assumptions as they are in the table."""
    return {name: assumption.value for name, assumption in ASSUMED.items()}


def _figure(run: str, what: str) -> float:
    (row,) = (row for row in _rows(run) if row["what"] == what)
    return float(row["measured"])


def _extraction() -> tuple[float, int]:
    """The seconds that reading a 7B takes, and the cores of the machine that measured."""
    (row,) = (row for row in _rows("speed") if row["what"].startswith("extract 7B, mlp path"))
    seconds = re.match(r"([\d.]+) s for 32 layers", row["note"])
    assert seconds is not None, row
    return float(seconds[1]), int(_run("speed")["machine"]["cores"])


def _rows(run: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _run(run)["rows"]
    return rows


def _run(run: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((RESULTS / f"{run}.json").read_text(encoding="utf-8"))
    return document


@click.command()
@click.option("--assume", "changes", multiple=True, metavar="NAME=NUMBER", help="Another value of an assumption.")
def main(changes: Sequence[str]) -> None:
    """Print what an index of a million models would cost."""
    assumed = defaults()
    for change in changes:
        name, _, value = change.partition("=")
        if name not in assumed:
            raise click.UsageError(f"{name!r} is no assumption; there are {', '.join(assumed)}")
        assumed[name] = float(value)
    for what, much, why in (*assumptions(assumed), *lines(assumed)):
        print(f"{what:22} {much:>22}  {why}")


if __name__ == "__main__":
    main()
