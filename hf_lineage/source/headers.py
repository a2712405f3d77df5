"""Opened: the headers of a model, read as transformers would load it: its class, its tensors and its layout."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hf_lineage.architecture.class_tensors import ClassTensors, match_class_tensors, patterns_in_memory, places
from hf_lineage.architecture.config_checks import parts, settings_notes, settings_reservations, usual_type
from hf_lineage.architecture.layout import Layout, bind
from hf_lineage.architecture.loaded_layers import as_loaded, refuse_hidden, scalar_reservations, within_range
from hf_lineage.architecture.registry import LISTED, Choice, find_known
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.open_files import open_weights
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.checkpoint.weight_files import WeightFiles, weights_in
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.hub.repo import RepoRef
from hf_lineage.source.config import ModelConfig, about, read_config, unread_parts, whole_config


@dataclass(frozen=True)
class Headers:
    """A model whose headers are read, and not its weights."""

    model_config: ModelConfig
    weights: WeightFiles
    checkpoint: Checkpoint
    layout: Layout
    notes: tuple[str, ...] = ()  # Sentences about files beside the weights that were not read
    reservations: tuple[str, ...] = ()  # Reasons why these weights neither verify nor contradict a claim
    unaccounted: Mapping[str, TensorInfo] = field(default_factory=dict)  # Stored, and not the class's own
    doubtful: tuple[str, ...] = ()  # Those that verify nothing unless the base has equal ones; no scales in range


def read_headers(model: ModelConfig, headers: Headers | None = None) -> Headers:
    """Return headers read as transformers loads them, bound before or now; NothingToCompare for two ways to load."""
    with about(model.repo):
        settings = settings_notes(model.config, model.architecture, model.factorization)
    headers = headers or bind_headers(model)
    checkpoint, usual = headers.checkpoint, usual_type(model.config, model.architecture)
    with about(model.repo):
        refuse_hidden(headers.layout)
        inside = parts(model.config, usual)
        scalars = scalar_reservations(headers.layout, checkpoint.shapes, checkpoint.read, inside, checkpoint.prefetch)
        reservations = (*headers.reservations, *settings_reservations(model.config, usual), *scalars)
    notes = (*model.notes, *settings, *headers.notes, *checkpoint.notes, *headers.weights.notes())
    return replace(headers, notes=notes, reservations=reservations)


def bind_headers(model: ModelConfig) -> Headers:
    """Return a model's headers without the checks for other ways to load it; raise as `read_headers` does."""
    weights = weights_in(model.repo, model.foreign)
    checkpoint = open_weights(weights, whole_config(model))
    others, elsewhere = unread_parts(model, checkpoint)
    with about(model.repo):
        checkpoint = _rename(model, checkpoint)
        known, passing = ClassTensors(), set[str]()
        try:
            reading = as_loaded(model.factorization, checkpoint.shapes, model.config)
            # Nothing is known of what another program than transformers loads.
            if not model.foreign:
                known = match_class_tensors(model.architecture, model.factorization, reading.shapes, model.config)
            built = {name: shape for name, shape in reading.shapes.items() if name not in known.unexpected}
            layout = bind(model.factorization, built, model.config)
            if known.unaccounted:
                names = tuple(name for name in known.unaccounted if not checkpoint.tensors[name].refusal)
                passing |= {*within_range(layout, names, checkpoint.shapes, checkpoint.read, checkpoint.prefetch)}
        except CheckpointError as error:
            if instead := find_known("tensors", {*known.unexpected, *known.unaccounted} or checkpoint.stored):
                raise NothingToCompare(f"{error}; {instead}") from None
            if doubt := weights.doubt or (known.unexpected and f"{min(known.unexpected)} is none that the class loads"):
                raise NothingToCompare(f"{printable(doubt, 300)}; {error}") from None
            raise
        # A draft head has one layer; a model of several is none, whatever it stores.
        wide = [(layout.width, 2 * layout.width), (layout.width, 3 * layout.width)]
        wide_names = [name for name in known.unaccounted if checkpoint.shapes[name] in wide]
        if layout.layers == 1 and (draft := find_known("drafts", wide_names)):
            raise NothingToCompare(draft)
    loaded = {name: info for name, info in checkpoint.tensors.items() if name not in known.unexpected}
    unaccounted = {name: checkpoint.tensors[name] for name in known.unaccounted if not name.startswith(elsewhere)}
    doubtful = tuple(name for name in unaccounted if name not in passing)
    checkpoint, notes = checkpoint.with_tensors(loaded), (*reading.notes, *others)
    return Headers(model, weights, checkpoint, layout, notes, known.reservations, unaccounted, doubtful)


def _rename(model: ModelConfig, checkpoint: Checkpoint) -> Checkpoint:
    """Return the tensors of a model under the names that its class publishes, none transposed by a quantizer."""
    if model.within:
        checkpoint = checkpoint.with_tensors(model.within.tensors(checkpoint.tensors))
    if model.foreign:
        checkpoint = model.foreign.rename(model.factorization, model.config, checkpoint)
    elif patterns := patterns_in_memory(model.architecture, model.factorization):
        checkpoint = checkpoint.with_places(places(patterns, checkpoint.shapes))
    if model.factorization.stored == "in_out":
        # What a quantizer transposed is transposed back.
        stored = checkpoint.tensors.items()
        checkpoint = checkpoint.with_tensors({name: it.transpose() if it.linear else it for name, it in stored})
    return checkpoint


def headers(repo: RepoRef, choice: Choice = LISTED) -> Headers:
    """Return a model's headers without the checks for other ways to load it; raise as `read_headers` does."""
    return bind_headers(read_config(repo, choice))
