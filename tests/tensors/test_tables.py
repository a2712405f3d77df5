"""What the classes of transformers build, and what the tables say of it: every class, from its real module."""

import functools
import itertools
import json
import re
from collections import Counter, defaultdict

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage.architecture import class_tensors
from hf_lineage.architecture.class_tensors import match_class_tensors, older
from hf_lineage.architecture.layers import find_layers
from hf_lineage.architecture.registry import factorizations, listing, settle_exchangeable, slots
from hf_lineage.architecture.schema import as_names, prefixes
from hf_lineage.errors import CheckpointError
from tests.conformance.forms import variants
from tests.conformance.models import known_classes, required, tiny_model, transformers
from tests.conformance.proving import LAYOUTS
from tests.long import first_of
from tests.tensors.explore import explored
from tests.tensors.names import loaded, module, targets
from tools.in_memory import both_layouts

ANEW = "run `python -m tests.tensors` and look at what has changed in registry/tensors"
JUNK = "a_part_that_no_class_has.weight"
EXPERTS = 4
NONE = torch.ones(0, 0, 0)
LEFT_OUT = r"conv1d\.weight|w13_weight|experts\.gate_up_proj|attn_queries\.\d|attention_input\.query|conv2d\d|\.convs"
"""Names of tensors that transformers makes of others in ways that no table says."""
UNEXPLAINED = {f"SwitchTransformers{head}" for head in ("ForConditionalGeneration", "Model", "EncoderModel")}
"""Classes of which no condition says what layers have experts; a layer with both kinds of MLP is refused."""
KNOWN = [(listed, name) for listed in factorizations() for name in listed.classes]
FIRST = {listed.name: (listed, slice(1)) for listed in LAYOUTS}
EVERY = {f"{listed.name}, every class": (listed, slice(None)) for listed in factorizations()}
MANY_SETTINGS = "PhiForCausalLM Dinov2WithRegistersModel Qwen3MoeForCausalLM JambaForCausalLM "
MANY_SETTINGS += "GraniteMoeHybridForCausalLM"


@functools.cache
def forms(listed_name, name):
    """For each form of a class what its loader takes of a tiny model, and its names in memory."""
    listed = next(listed for listed in factorizations() if listed.name == listed_name)
    models = [module(name, required(listed, name, variant)) for variant in variants(name)]
    return [(loaded(model), model.state_dict().keys()) for model in models]


def layers_in(listed, shapes):
    try:
        return find_layers(listed, shapes)
    except CheckpointError:
        return []


def differences(listed, name, found, names):
    """The names that the tables do not know, or know and do not find, in a file with these and one of no class."""
    shapes = dict.fromkeys(names, (1,))
    layers = layers_in(listed, shapes)
    if not layers:
        return set(), ()
    junk = f"{layers[0].prefix}.{JUNK}"
    names = {**shapes, junk: (1,), JUNK: (1,)}
    known = match_class_tensors(name, settle_exchangeable(found.config, listed), names, found.config)
    return (known.unexpected ^ {junk}) | ({*known.unaccounted} ^ {junk, JUNK}), known.missing


@pytest.mark.parametrize(("listed", "some"), first_of(FIRST | EVERY, count=len(LAYOUTS)))
def test_a_class_builds_what_the_tables_say_and_nothing_else(listed, some):
    for name in [name for name in listed.classes if name in known_classes()][some]:
        for found, state in forms(listed.name, name):
            assert layers_in(listed, dict.fromkeys(found.saved, (1,)))
            for names in (found.saved, state):
                unlike, missing = differences(listed, name, found, names)
                assert not unlike, f"{name} loads {min(unlike)}, and registry/tensors does not say so: {ANEW}"
                assert not missing, f"{name} does not build {missing[0]}, as registry/tensors says: {ANEW}"


@pytest.mark.parametrize(("listed", "name"), KNOWN)
@pytest.mark.few(10)
def test_what_is_in_memory_is_read_number_by_number_as_it_is_published(listed, name):
    for variant in variants(name) if name in known_classes() else ():
        held, published = both_layouts(module(name, required(listed, name, variant)))
        read, shapes = dict(held), {one: tuple(tensor.shape) for one, tensor in held.items()}
        patterns = class_tensors.patterns_in_memory(name, listed)
        for one, (names, rows, expert) in class_tensors.places(patterns, shapes).items():
            whole = torch.cat([held[part] for part in names]) if names[1:] else held[names[0]]
            whole = whole if expert is None else whole[expert]
            read = {part: tensor for part, tensor in read.items() if part not in names}
            read[one] = whole if rows is None else whole[rows]
        unlike = {one for one, tensor in published.items() if not torch.equal(read.pop(older(one), NONE), tensor)}
        unread = {one for one in (*unlike, *read) if not re.search(LEFT_OUT, one)}
        assert unread == set(), "run `python -m tools.in_memory`"


@pytest.mark.parametrize(("listed", "name"), KNOWN)
@pytest.mark.few(4)
def test_a_name_that_decides_nothing_leads_to_no_parameter_or_is_unaccounted_for(listed, name):
    """Under every module of a class, by every renaming of transformers."""
    for variant in variants(name) if name in known_classes() else ():
        model = module(name, required(listed, name, variant))
        found, parameters = loaded(model), dict(model.named_parameters()).keys()
        modules = {"", *(name[: dot.start() + 1] for name in found.groups for dot in re.finditer(r"\.", name))}
        names = {f"{start}{end[1:]}" for start in modules for end in class_tensors.DECIDES_NOTHING} - found.saved
        second = {name for name, target in targets(model, names) if target in parameters}
        known = match_class_tensors(name, listed, dict.fromkeys(found.saved | second, (1,)), found.config)
        assert second <= {*known.unaccounted}


def sets_by_prefix():
    """Every set of every factorization by the prefixes of its layers: the names of its tensors within a layer."""
    by_prefix = defaultdict(dict)
    for listed in factorizations():
        for number, matrices in enumerate(listed.branches.everything()):
            kinds = (matrices.norm, matrices.output_norm, matrices.inner_norm)
            beside = set(filter(None, itertools.chain.from_iterable(map(as_names, kinds))))
            for prefix in prefixes(listed):
                by_prefix[prefix][listed.name, number] = {slot.tensor for slot in slots(matrices)}, beside
    return by_prefix


def written(prefix, names):
    numbered = {name.replace("{expert}", str(expert)) for name in names for expert in range(EXPERTS)}
    return {f"{prefix}.{name}{end}" for name in numbered for end in (".weight", "")}


def added(listed, name, by_prefix):
    """What every set makes the names of on the disk of a class that builds nothing of it in any form."""
    found, _ = forms(listed.name, name)[0]
    loads = set().union(*(form.groups for form, _ in forms(listed.name, name)))
    sets = defaultdict(set)
    for layer in find_layers(listed, dict.fromkeys(found.saved, (1,))):
        number = str(layer.number)
        of_layer = {prefix for prefix in prefixes(listed) if prefix.replace("{layer}", number) == layer.prefix}
        for prefix in of_layer:
            for owner, (matrices, beside) in by_prefix[prefix].items():
                outside_layers = any("{layer}" in one for one in matrices)
                if not outside_layers and loads.isdisjoint(written(layer.prefix, matrices)):
                    sets[owner] |= written(layer.prefix, matrices | beside) - loads
    return sets


@pytest.mark.long
def test_a_set_that_a_class_does_not_build_is_no_part_of_it_whichever_has_it():
    """For every class and every set with the same prefix of layers; those of its own factorization could be read."""
    by_prefix = sets_by_prefix()
    own, others, unknown = Counter(), 0, set()
    for listed, name in [case for case in KNOWN if case[1] in known_classes()]:
        found, _ = forms(listed.name, name)[0]
        shapes = dict.fromkeys(found.saved, (1,))
        sets = added(listed, name, by_prefix)
        others_too = shapes | dict.fromkeys(set().union(*sets.values()), (1,))
        known = match_class_tensors(name, listed, others_too, found.config)
        assert (known.missing, known.unexpected & found.saved) == ((), set())
        others += len(sets)
        mine = [names for (owner, _), names in sets.items() if owner == listed.name]
        own[listed.name, name] += len(mine)
        unknown |= {name} if any(names - known.unexpected for names in mine) else set()
    assert unknown == UNEXPLAINED, f"registry/tensors does not say which of their parts these classes build: {ANEW}"
    assert (len(+own) >= 39, own.total() >= 77, others > 40_000) == (True, True, True), own


@pytest.mark.parametrize("name", first_of(MANY_SETTINGS.split()))
def test_the_tables_hold_under_every_setting_that_was_changed(name):
    (listed,) = listing(name)
    seen = [one for family in explored(listed, name) for one in family]
    assert len(seen) > 20
    for one in seen:
        if layers_in(listed, dict.fromkeys(one.found.saved, (1,))):
            assert differences(listed, name, one.found, one.found.saved) == (set(), ()), one.changed


@pytest.mark.parametrize("name", first_of(["Qwen3MoeForCausalLM", "OlmoeForCausalLM", "GraniteMoeForCausalLM"]))
def test_what_is_left_out_is_what_the_loader_did_not_expect(name, tmp_path):
    (listed,) = listing(name)
    tiny_model(name, variants(name)[0]).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    sets = added(listed, name, sets_by_prefix())
    foreign = set().union(*(names for (owner, _), names in sets.items() if owner == listed.name))
    assert foreign
    save_file({**tensors, **{one: torch.ones(1) for one in foreign}}, tmp_path / "model.safetensors", {"format": "pt"})
    _, told = getattr(transformers, name).from_pretrained(tmp_path, output_loading_info=True)
    config = json.loads((tmp_path / "config.json").read_text())
    known = match_class_tensors(name, listed, dict.fromkeys(tensors.keys() | foreign, (1,)), config)
    assert known.unexpected == foreign == set(told["unexpected_keys"])
    assert known.missing == tuple(told["missing_keys"]) == ()
