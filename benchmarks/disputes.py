"""Disputes over where a model comes from, each in miniature, with what our page says.

`python -m benchmarks.disputes` makes the models of `disputes.yaml` out of those of `examples/hub`, checks each of them,
and writes `results/disputes.json`. Each case is made twice: as it was written down, and with other models and other
proportions, on which nothing was tuned.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    import torch

    from hf_lineage.checking.report import Report

    Tensors = dict[str, torch.Tensor]

ROOT = Path(__file__).parents[1]
HUB, CASES = ROOT / "examples" / "hub", Path(__file__).with_suffix(".yaml")
FILE = Path(__file__).with_name("results") / "disputes.json"
WEIGHTS = "model.safetensors"
LAYER = re.compile(r"\.(layers|h)\.")
"""In the names of what belongs to a layer."""
OWNER = "dispute"
FAMILY = (
    *("acme/llama-base", "fern/llama-finetune-a", "fern/llama-finetune-b", "fern/llama-lora-merged"),
    *("moss/llama-continued", "heron/llama-pruned-50", "heron/llama-int8-rounded", "fern/llama-merge-a-b"),
    *("magpie/llama-laundered", "magpie/llama-grafted"),
)
"""The example models that descend from one base."""
MERGED = ("fern/llama-merge-a-b", "fern/llama-finetune-a", "fern/llama-finetune-b")
"""The only one of them that was put together from two others."""


@dataclass(frozen=True)
class Build:
    """Which example models stand for those of a case, and by how much its proportions are moved."""

    name: str
    models: Mapping[str, str]
    seed: int
    moved: float = 0.0
    """What is taken from the first weight of a blend and given to the second."""
    only: tuple[str, ...] = ()
    """The cases for which there are such models; empty for all."""


BUILDS = (
    Build(
        "as written",
        {
            "base": "acme/llama-base",
            "sibling": "fern/llama-finetune-b",
            "continued": "moss/llama-continued",
            "adapted": "fern/llama-lora-merged",
            "stranger": "otter/llama-independent",
        },
        seed=0,
    ),
    Build(
        "other models, seeds and proportions",
        {
            "base": "acme/llama-base",
            "sibling": "fern/llama-finetune-a",
            "continued": "fern/llama-finetune-b",
            "adapted": "fern/llama-merge-a-b",
            "stranger": "magpie/llama-liar",
        },
        seed=7,
        moved=-0.21,
    ),
    Build(
        "another architecture",
        {
            "base": "acme/gpt2-base",
            "sibling": "fern/gpt2-finetune-a",
            "continued": "fern/gpt2-finetune-a",
        },
        seed=11,
        moved=-0.1,
        only=("rio", "rio-named", "skt", "minicpm", "miqu", "extrapolated"),
    ),
)


@dataclass(frozen=True)
class Case:
    """One dispute, as `disputes.yaml` tells it."""

    name: str
    case: str
    accusers: str
    defenders: str
    make: Mapping[str, Any]
    card: Mapping[str, Any]
    verdicts: list[str]
    exit: int
    says: str
    against: str = ""
    also: Mapping[str, Mapping[str, float]] | None = None
    open: str = ""
    """The build in which the page does not say it; empty if there is none."""


@dataclass(frozen=True)
class Outcome:
    """What our page says of a case."""

    verdicts: list[str]
    exit: int
    text: str
    """The report as text, in one line."""


def cases() -> list[Case]:
    """Return every dispute in the order of the file."""
    told = yaml.safe_load(CASES.read_text(encoding="utf-8"))
    return [Case(name=name, **fields) for name, fields in told.items()]


def expected(case: Case, build: Build) -> str:
    """Return the sentence that the page has to hold, with the proportions of a build."""
    weights = moved(case.make.get("blend", {}), build)
    parts = (f"{weight:.0%} (± 0.1) of {role}" for role, weight in sorted(weights.items(), key=lambda one: -one[1]))
    shares = {role: f"{weight:.2f}" for role, weight in weights.items()}
    return case.says.format(**shares, blend=" and ".join(parts))


def moved(weights: Mapping[str, float], build: Build) -> dict[str, float]:
    """Return the weights of a blend in a build: the first one less what goes to the second."""
    changes = (-build.moved, build.moved)
    return {role: round(weight + change, 6) for (role, weight), change in zip(weights.items(), changes, strict=False)}


def run(case: Case, build: Build, folder: Path) -> Outcome:
    """Make the models of a case in a folder, and return what our page says of the one that is in dispute."""
    from hf_lineage.checking.check import check
    from hf_lineage.report import text as text_module
    from hf_lineage.source.options import Options

    hub = folder / "hub"
    for role, name in build.models.items():
        if not (hub / OWNER / role).exists():
            shutil.copytree(HUB / name, hub / OWNER / role, ignore=shutil.ignore_patterns("README.md"))
    known = [*build.models, *(case.also or {})]
    model = _written(case.make, hub, hub / OWNER / case.name, build)
    _declare(model, case.card)
    for other, weights in (case.also or {}).items():
        _written({"blend": weights}, hub, hub / OWNER / other, replace(build, moved=0.0))
    options = Options(local_hub=hub, seed=0)
    bases = [f"{OWNER}/{case.against}"] if case.against else []
    report = _searched(check(f"{OWNER}/{case.name}", bases, options), hub, known)
    told = " ".join(text_module.render(report, explain=True).split()).replace(f"{OWNER}/", "")
    return Outcome([row.verdict.word for row in report.rows], int(report.exit_code), told)


def _searched(report: Report, hub: Path, known: list[str]) -> Report:
    """The report with what an index of all other models of the case knows."""
    from hf_lineage import extract
    from hf_lineage.index.nearest import noted
    from hf_lineage.index.store import Catalogue
    from hf_lineage.source.options import Options

    catalogue = Catalogue(hub / "index")
    for role in known:
        catalogue.add(extract(f"{OWNER}/{role}", Options(local_hub=hub)))
    return noted(report, catalogue)


def _declare(model: Path, card: Mapping[str, Any]) -> None:
    """Write the card of a model, as it was."""
    bases = card.get("base_model", [])
    names = [f"{OWNER}/{base}" for base in (bases if isinstance(bases, list) else [bases])]
    matter = {**card, "base_model": names} if names else card
    (model / "README.md").write_text(f"---\n{yaml.safe_dump(dict(matter))}---\n" if matter else "", encoding="utf-8")


def _written(make: Mapping[str, Any], hub: Path, folder: Path, build: Build) -> Path:
    """Write a model as a case makes it."""
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(build.seed)
    (kind, what), *steps = make.items()
    tensors = MAKERS[kind](what, hub, build, generator)
    for step, how in steps:
        tensors = STEPS[step](tensors, how, hub, generator)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(hub / OWNER / "base" / "config.json", folder)
    save_file({name: one.to(torch.bfloat16) for name, one in tensors.items()}, folder / WEIGHTS, {"format": "pt"})
    return folder


def _load(hub: Path, role: str) -> Tensors:
    from safetensors.torch import load_file

    return {name: one.double() for name, one in load_file(hub / OWNER / role / WEIGHTS).items()}


def _blend(weights: Mapping[str, float], hub: Path, build: Build, _: torch.Generator) -> Tensors:
    parts = [(weight, _load(hub, role)) for role, weight in moved(weights, build).items()]
    (first, base), *others = parts
    blend = {name: first * one for name, one in base.items()}
    for weight, part in others:
        blend = {name: one + weight * part[name] for name, one in blend.items()}
    return blend


def _random(_what: object, hub: Path, _build: Build, generator: torch.Generator) -> Tensors:
    """Weights as at the start of a training: of the sizes of the base, and nothing else of it."""
    import torch

    base = _load(hub, "base")
    return {
        name: torch.ones_like(one) if one.ndim < 2 else one.std() * torch.randn(one.shape, generator=generator).double()
        for name, one in base.items()
    }


def _noisy(tensors: Tensors, size: float, _hub: Path, generator: torch.Generator) -> Tensors:
    import torch

    return {
        name: one + size * one.std() * torch.randn(one.shape, generator=generator).double() if one.ndim > 1 else one
        for name, one in tensors.items()
    }


def _rounded(tensors: Tensors, bits: int, _hub: Path, _: torch.Generator) -> Tensors:
    """The matrices of the layers in blocks of 32 numbers that share a scale."""

    def quantized(one: torch.Tensor) -> torch.Tensor:
        blocks = one.reshape(-1, 32)
        step = blocks.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
        rounded: torch.Tensor = ((blocks / step).round() * step).reshape(one.shape)
        return rounded

    return {name: quantized(one) if LAYER.search(name) and one.ndim > 1 else one for name, one in tensors.items()}


def _trained(tensors: Tensors, steps: int, hub: Path, generator: torch.Generator) -> Tensors:
    """The same after some steps on a part of the text, as the examples were fine-tuned."""
    import torch
    from transformers import LlamaForCausalLM

    sys.path.insert(0, str(ROOT / "examples"))
    from hub_text import load_corpus
    from hub_training import Schedule, train

    model = LlamaForCausalLM.from_pretrained(hub / OWNER / "base", dtype=torch.float32)
    model.load_state_dict({name: one.float() for name, one in tensors.items()}, strict=False)
    train(model, load_corpus().part_b, Schedule(steps, 5e-4, data_seed=generator.initial_seed()))
    return {name: one.detach().double() for name, one in model.state_dict().items() if name in tensors}


MAKERS: Mapping[str, Callable[[Any, Path, Build, Any], Tensors]] = {
    "blend": _blend,
    "copy": lambda role, hub, *_: _load(hub, role),
    "independent": lambda _, hub, *__: _load(hub, "stranger"),
    "random": _random,
    "further": _blend,
}
STEPS: Mapping[str, Callable[[Tensors, Any, Path, Any], Tensors]] = {
    "noise": _noisy,
    "bits": _rounded,
    "train": _trained,
}


def results() -> Iterator[dict[str, Any]]:
    """Yield what our page says of every case, in both builds."""
    for build in BUILDS:
        with tempfile.TemporaryDirectory() as scratch:
            for case in cases():
                if build.only and case.name not in build.only:
                    continue
                outcome = run(case, build, Path(scratch))
                sentence = expected(case, build)
                agrees = (outcome.verdicts, outcome.exit) == (case.verdicts, case.exit)
                yield {
                    "case": case.name,
                    "build": build.name,
                    "verdicts": outcome.verdicts,
                    "exit": outcome.exit,
                    "says": sentence,
                    "settled": agrees and sentence in outcome.text,
                    "open": case.open == build.name,
                }


def accused() -> dict[str, Any]:
    """Return of how many triples of related models two are called parents of the third, though they are not."""
    from hf_lineage.checking.merge import read_matrices
    from hf_lineage.evidence.blend import Made, blend_of
    from hf_lineage.signature.sample import Sample
    from hf_lineage.source.locate import located
    from hf_lineage.source.model import open_model
    from hf_lineage.source.options import Options

    options, wrong, count = Options(local_hub=HUB), [], 0
    opened = {name: open_model(located(name, options), options) for name in FAMILY}
    for name, model in opened.items():
        for pair in itertools.combinations([other for other in FAMILY if other != name], 2):
            if (name, *pair) == MERGED:
                continue
            parents: Any = [opened[other] for other in pair]
            blend = blend_of(read_matrices(parents, model, range(model.layers), Sample(0), False), 2, model.layers)  # type: ignore[arg-type]
            wrong += [(name, *pair)] if Made.BLEND in blend.made else []
            count += 1
    return {"triples": count, "wrong": wrong}


def main() -> None:
    """Write the results, and end with an error if a case is not settled."""
    settled = [*results()]
    FILE.write_text(json.dumps({"cases": settled, "accused": accused()}, indent=1) + "\n", encoding="utf-8")
    missed = [f"{one['case']} ({one['build']})" for one in settled if one["settled"] is one["open"]]
    print(f"{len(settled) - len(missed)} of {len(settled)} as expected{': not ' + ', '.join(missed) if missed else ''}")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
