"""The experiments. A module here names them in `EXPERIMENTS`, a tuple of `benchmarks.paper.experiment.Experiment`."""

import importlib
import pkgutil

from benchmarks.paper.experiment import Experiment


def found() -> dict[str, list[Experiment]]:
    """Return all experiments by the label of the paper's item that they reproduce a part of, or of our own."""
    by_item: dict[str, list[Experiment]] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        for experiment in importlib.import_module(f"{__name__}.{module.name}").EXPERIMENTS:
            by_item.setdefault(experiment.item, []).append(experiment)
    return by_item
