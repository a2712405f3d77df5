"""A tiny model in memory beside the same model read back from disk, and what it is given to read, see or hear."""

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from hf_lineage.architecture.config_checks import as_listed
from hf_lineage.architecture.layers import KERNEL, LayerSet
from hf_lineage.architecture.layout import Layout, bind
from hf_lineage.architecture.registry import lookup
from hf_lineage.architecture.schema import Factorization, prefixes
from hf_lineage.hub.repo import resolve
from hf_lineage.signature.factors import Read, matrix_products
from hf_lineage.signature.recipe import RECIPES, Array
from tests.conformance.forms import PICTURE, SOUND, WIDTH
from tests.conformance.models import by_modules, tiny_model
from tests.models import open_checkpoint


def runner(model: Any) -> Any:
    """The part of a model to run: its base, unless that asks for more than what a file's owner would put in."""
    base = getattr(model, "base_model", model)
    accepted = inspect.signature(base.forward).parameters
    known = accepted.keys() & {"input_ids", "pixel_values", "input_values", "input_features"}
    return base if known and "decoder_input_values" not in accepted else model


def sample(model: Any, batch: int, length: int = 1) -> dict[str, torch.Tensor]:
    """What a model takes: so many tokens or, of pictures and sounds, what makes enough of them, or both."""
    torch.default_generator.manual_seed(1)  # `torch.manual_seed` takes milliseconds, to tell devices that are not there
    accepted = inspect.signature(model.forward).parameters
    tokens = (3 + torch.arange(length).fmod(57)).expand(batch, length)
    config = getattr(model.config, "vision_config", model.config)
    # One of two towers, and one stack that is given both, has to see too.
    sees = "pixel_values" in accepted and accepted["pixel_values"].default is inspect.Parameter.empty
    sees |= "pixel_mask" in accepted and not hasattr(model.config, "text_config")
    sees |= "input_ids" not in accepted or hasattr(runner(model), "get_text_features")
    taken = _perceived(config, accepted, batch) if sees else {}
    if "input_ids" in accepted:
        taken |= {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if "cross_attention_states" in accepted:
        taken["cross_attention_states"] = torch.randn(batch, 2, WIDTH)
    if "decoder_input_ids" in accepted:
        taken["decoder_input_ids"] = tokens
    if "decoder_input_values" in accepted:
        taken["decoder_input_values"] = torch.randn(1, length, config.num_mel_bins).expand(batch, -1, -1)
    return taken


def _perceived(config: Any, accepted: Mapping[str, inspect.Parameter], batch: int) -> dict[str, torch.Tensor]:
    """A picture, a film or a sound, the same for the whole batch."""
    if "spatial_shapes" in accepted:  # a picture that was cut into patches beforehand
        patches, sides = torch.randn(1, SOUND, 3 * config.patch_size**2), torch.full((batch, 2), PICTURE // 2)
        mask = torch.ones(batch, SOUND)
        return {"pixel_values": patches.expand(batch, -1, -1), "pixel_attention_mask": mask, "spatial_shapes": sides}
    if "grid_thw" in accepted:  # patches of pictures in one sequence: of a large one, or of several small ones
        side = PICTURE // 2 if batch == 1 else getattr(config, "spatial_merge_size", 2)
        numbers = 3 * getattr(config, "temporal_patch_size", 1) * config.patch_size**2
        patches = torch.rand(1, side**2, numbers).expand(batch, -1, -1).reshape(-1, numbers)
        name = "hidden_states" if "hidden_states" in accepted else "pixel_values"
        return {name: patches, "grid_thw": torch.tensor([[1, side, side]] * batch)}
    if "feature_lens" in accepted:
        length = 2 * SOUND if batch == 1 else 4
        sounds = torch.rand(config.num_mel_bins, length).repeat(1, batch)
        return {"input_features": sounds, "feature_lens": torch.tensor([length] * batch)}
    frames = [config.num_frames] if hasattr(config, "num_frames") else []
    channels = getattr(config, "num_channels", 3)
    pixels = 2 * PICTURE if hasattr(config, "depths") else PICTURE  # every stage halves them
    # A spectrogram is seen as a picture; where convolutions make its frames, the sound itself is given.
    convolved, seen = hasattr(config, "conv_dim"), hasattr(config, "num_mel_bins")
    waves = (PICTURE, PICTURE) if seen and not convolved else (SOUND * (2 if convolved else 384),)
    shapes: dict[str, tuple[int, ...]] = {
        "pixel_values": (*frames, channels, pixels, pixels),
        "input_values": waves,
        "input_features": _features(config),
        "flattened_patches": (SOUND, 2 + channels * 16**2),
    }
    name = next(name for name in shapes if name in accepted)
    taken = {name: torch.rand(1, *shapes[name]).expand(batch, *shapes[name])}
    if "input_features_mask" in accepted:
        taken["input_features_mask"] = torch.ones(batch, shapes[name][-1])
    return taken


def _features(config: Any) -> tuple[int, ...]:
    """The shape of a spectrogram: frames by bins, or the other way round."""
    if hasattr(config, "feature_projection_input_dim"):
        return SOUND, config.feature_projection_input_dim
    if hasattr(config, "input_feat_per_channel"):
        return 2 * SOUND, config.input_feat_per_channel
    return getattr(config, "num_mel_bins", 0), 2 * SOUND


PLAIN = RECIPES["paper"]
READERS = {"mlp": ("up",), "mlp_gate": ("gate",), "value_output": ("value",), "query_key": ("query", "key")}


@dataclass(frozen=True)
class TinyModel:
    """One tiny model in memory and the same model read back from disk."""

    model: Any
    layout: Layout
    shapes: Mapping[str, tuple[int, ...]]
    read: Read
    inputs: Callable[[Any, int, int], dict[str, torch.Tensor]] = sample  # for so many sequences of so many tokens
    owners: dict[str, torch.nn.Module] = field(default_factory=dict)

    def run(self, batch: int, length: int, placed: Mapping[str, torch.Tensor] = MappingProxyType({})) -> None:
        """Run the model on so many sequences, of what it can be told of their places only what it takes."""
        base = runner(self.model)
        accepted = inspect.signature(base.forward).parameters
        base(**self.inputs(base, batch, length), **{name: place for name, place in placed.items() if name in accepted})

    def owner(self, tensor: str) -> torch.nn.Module:
        """The module that holds a tensor of the file, recognised by its values: in memory it may have another name."""
        if tensor not in self.owners:
            self.owners[tensor] = self._holder(self.read(tensor).ravel())
        return self.owners[tensor]

    def readers(self, path: str) -> list[tuple[int, LayerSet, list[torch.nn.Module]]]:
        """Every matrix set of a path with its layer and its readers' modules; what a file packs may be apart there."""
        roles, by_set = READERS[path], []
        for number, sets in enumerate(self.layout.sets(path)):
            for each, term in zip(sets, matrix_products(self.layout, path, number, PLAIN, self.read), strict=True):
                rows = {roles[0]: term.out[:, 0], roles[-1]: term.inn[0]}
                modules = []
                for role in roles:
                    slot = each.slots[role]
                    whole = slot.latent or len(self.shapes[slot.tensor]) == KERNEL
                    modules.append(self.owner(slot.tensors[:2][-1]) if whole else self._holder(rows[role]))
                by_set.append((number, each, modules))
        return by_set

    @functools.cached_property
    def stack(self) -> tuple[str, ...]:
        """Prefixes of the layers in memory that the factorization speaks of."""
        readers = {module for path in self.layout.paths for _, _, modules in self.readers(path) for module in modules}
        names = [name for name, module in self.model.named_modules() if module in readers]
        numbers = sorted({prefix.count("{") for prefix in prefixes(self.layout.factorization)}, reverse=True)
        layer = re.compile("|".join(rf"(?:(?:.*?\.|)\d+\.){{{count}}}" for count in numbers))
        return tuple({match[0] for name in names if (match := layer.match(name))})

    def _holder(self, values: Array) -> torch.nn.Module:
        """The first module with a parameter that holds all of the first few values."""
        modules, numbers, parameters = self._index
        parts = values[:8].astype(np.float64)
        ends = zip(np.searchsorted(numbers, parts, "left"), np.searchsorted(numbers, parts, "right"), strict=True)
        return modules[min(set.intersection(*(set(parameters[start:stop].tolist()) for start, stop in ends)))]

    @functools.cached_property
    def _index(self) -> tuple[list[torch.nn.Module], np.ndarray, np.ndarray]:
        """The module of every parameter, all numbers sorted, and which parameter each is from."""
        held = [(module, parameter) for module in self.model.modules() for parameter in module.parameters(False)]
        numbers = np.concatenate([parameter.detach().double().flatten().numpy() for _, parameter in held])
        parameters = np.repeat(np.arange(len(held)), [parameter.numel() for _, parameter in held])
        order = np.argsort(numbers, kind="stable")
        return [module for module, _ in held], numbers[order], parameters[order]

    def scale(self, each: LayerSet) -> torch.nn.Parameter | None:
        if each.output_norm is None or is_norm(owner := self.owner(each.output_norm)):
            return None
        values = torch.from_numpy(self.read(each.output_norm))
        return next(p for p in owner.parameters(recurse=False) if same(p, values))

    def sets(self, path: str) -> Iterator[tuple[int, LayerSet]]:
        for layer, sets in enumerate(self.layout.sets(path)):
            yield from ((layer, each) for each in sets)


def build_tiny_model(
    name: str, folder: Path, wanted: dict[str, Any], factorization: Factorization | None = None
) -> TinyModel:
    model = tiny_model(name, wanted)
    model.save_pretrained(folder)
    by_modules(model)
    return read_back(model, folder, factorization)


def read_back(model: Any, folder: Path, factorization: Factorization | None = None) -> TinyModel:
    repo = resolve(str(folder))
    checkpoint, config = open_checkpoint(repo), as_listed(repo.config())
    layout = bind(factorization or lookup(config)[1], checkpoint.shapes, config)
    return TinyModel(model, layout, checkpoint.shapes, checkpoint.read)


def is_norm(module: torch.nn.Module) -> bool:
    return "norm" in type(module).__name__.lower()


def of_pictures(module: Any) -> bool:
    """Whether a module reads and gives out pictures: (batch, width, height of the picture, width of the picture)."""
    return isinstance(module, torch.nn.Module) and type(module).__name__.endswith("2d")


def fixed(module: torch.nn.Module) -> bool:
    """Whether a module multiplies every channel with a number of its own: a batch norm that is not trained."""
    return isinstance(module, torch.nn.BatchNorm2d)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-4)
