"""What the registry could make of a model: fits, near misses, a draft; never a verdict, and safe to print."""

import json
import pickle

import pytest
from safetensors.torch import load_file, save_file

from hf_lineage.architecture.drafting.suggestion import NEAREST, survey
from hf_lineage.architecture.registry.lookups import factorizations
from hf_lineage.report.single.suggestion import SUGGESTIONS
from tests.invoking import lineage
from tests.models import WEIGHTS, Trap, edit_json, raw_safetensors, spoil, tiny_gpt2, tiny_llama

CONFIG = {"architectures": ["TheirForCausalLM"], "num_attention_heads": 4}


def suggested(model, *options):
    return lineage("registry", "--check", model, *options)


def unlisted(folder, **config):
    return tiny_llama(folder, **{"architectures": ["TheirForCausalLM"]} | config)


def renamed(folder, old, new):
    """The same model with other names."""

    def rename(tensors):
        for name in [name for name in tensors if old in name]:
            tensors[name.replace(old, new)] = tensors.pop(name)

    return spoil(folder, rename)


def files(found):
    return [fit.factorization for fit in found.fits]


def header(**sizes):
    return {f"model.layers.{n}.{name}": shape for n in range(2) for name, shape in sizes.items()}


@pytest.fixture
def llama(tmp_path):
    tensors = load_file(unlisted(tmp_path / "llama") / WEIGHTS)
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


class TestFits:
    def test_everything_that_binds_fits_and_what_reads_all_comes_first(self, llama):
        found = survey("model", llama, CONFIG)
        assert {"llama", "gemma", "olmo"} <= set(files(found))
        assert files(found).index("llama") < files(found).index("olmo")
        fit = next(fit for fit in found.fits if fit.factorization == "olmo")
        assert (fit.layers, fit.width) == (2, 32)
        assert fit.unread == ("model.layers.*.input_layernorm", "model.layers.*.post_attention_layernorm")


class TestMisses:
    def suggested(self, shapes, name, config=CONFIG):
        registry = [each for each in factorizations() if each.name == name]
        (miss,) = survey("model", shapes, config, registry).misses
        return miss

    def test_the_names_that_no_layer_has_are_told(self, llama):
        shapes = {name: shape for name, shape in llama.items() if "gate_proj" not in name}
        assert self.suggested(shapes, "llama").missing == ("mlp.gate_proj",)

    def test_another_prefix_is_told(self, llama):
        shapes = {name.replace("model.layers", "net.blocks"): shape for name, shape in llama.items()}
        miss = self.suggested(shapes, "llama")
        assert (miss.layers, miss.missing, miss.problem, miss.changes) == ("net.blocks.{layer}", (), None, 1)

    def test_a_shape_that_does_not_fit_is_told(self, llama):
        shapes = llama | {"model.layers.1.mlp.up_proj.weight": (40, 32)}
        assert "model.layers.1.mlp.up_proj.weight has shape (40, 32)" in str(self.suggested(shapes, "llama").problem)

    def test_a_setting_that_is_missing_is_told(self, llama):
        assert "`num_attention_heads` must be a positive integer" in str(self.suggested(llama, "llama", {}).problem)

    def test_a_requirement_that_is_not_met_is_told(self, llama):
        miss = self.suggested(llama, "cohere2_moe", CONFIG | {"rms_norm_eps": 1e-6})
        assert miss.problem == "config.json says rms_norm_eps: 1e-06, not null"

    def test_the_nearest_come_first_and_there_are_few(self, llama):
        misses = survey("model", llama, CONFIG).misses
        assert len(misses) == NEAREST
        assert [miss.changes for miss in misses] == sorted(miss.changes for miss in misses)

    def test_what_shares_next_to_nothing_is_no_near_miss(self):
        assert survey("model", header(a=(4, 4)), CONFIG).misses == ()


class TestCommand:
    def test_an_unlisted_class_gets_fits_and_a_draft(self, tmp_path):
        found = suggested(unlisted(tmp_path / "model"))
        assert (found.code, found.err) == (0, "")
        assert "TheirForCausalLM is in no file of the registry." in found.sentences
        assert "- gemma.yaml: reads everything" in found.out
        assert "The draft below loads and fits this model." in found.out
        assert "`pytest tests/test_conformance.py -k CLASS` proves it" in found.sentences

    def test_the_draft_is_the_end_of_the_text_and_loads_as_it_is(self, tmp_path):
        out = suggested(unlisted(tmp_path / "model")).out
        (tmp_path / "registry").mkdir()
        (tmp_path / "registry/mine.yaml").write_text(out[out.index("# A draft") :])
        (found,) = factorizations(tmp_path / "registry")
        assert (found.classes, found.layers) == (("TheirForCausalLM",), "model.layers.{layer}")

    def test_where_nothing_fits_the_code_is_3_and_the_draft_is_there(self, tmp_path):
        found = suggested(renamed(unlisted(tmp_path / "model"), "model.layers", "net.blocks"))
        assert found.code == 3
        assert "Names and shapes fit:\n- none\n" in found.out
        assert "- llama.yaml: 9 of 9 names; the layers are net.blocks.{layer}\n" in found.out
        assert "layers: net.blocks.{layer}\n" in found.out

    def test_a_listed_class_is_said_to_be_there_and_gets_no_draft(self, tmp_path):
        found = suggested(tiny_llama(tmp_path / "model"))
        assert found.code == 0
        assert "LlamaForCausalLM is listed already, in llama.yaml, and llama.yaml fits; there is nothing to add." in (
            found.sentences
        )
        assert "draft" not in found.out

    def test_a_listed_class_that_does_not_fit_is_told_apart(self, tmp_path):
        found = suggested(tiny_gpt2(tmp_path / "model", architectures=["LlamaForCausalLM"]))
        assert "LlamaForCausalLM is listed already, in llama.yaml, but this model does not fit" in found.sentences
        assert "# A draft" in found.out

    def test_remote_code_is_named(self, tmp_path):
        found = suggested(unlisted(tmp_path / "model", auto_map={"AutoModel": "theirs.py"}))
        assert "it is remote code (auto_map), which is never run, so it cannot be proved" in found.sentences

    @pytest.mark.parametrize("named", [None, [], "LlamaForCausalLM", [1]])
    def test_a_configuration_without_a_class_is_no_error(self, named, tmp_path):
        found = suggested(unlisted(tmp_path / "model", architectures=named, model_type="theirs"))
        assert found.code == 0
        assert "config.json names no class under `architectures`." in found.sentences
        assert "classes: [MyModel]\n" in found.out

    def test_a_model_without_layers_is_no_error(self, tmp_path):
        folder = unlisted(tmp_path / "model")
        save_file({"a.weight": load_file(folder / WEIGHTS)["model.norm.weight"]}, folder / WEIGHTS)
        found = suggested(folder)
        assert found.code == 3
        assert "No draft: no tensors are numbered like layers" in found.sentences

    def test_json_says_the_same(self, tmp_path):
        said = json.loads(suggested(unlisted(tmp_path / "model"), "--format", "json").out)
        assert (said["classes"], said["listed"]) == (["TheirForCausalLM"], [])
        assert said["layers"] == ["model.layers.{layer}"]
        assert {"factorization": "llama", "layers": 2, "width": 32, "unread": [], "unread_count": 0} in said["fits"]
        assert said["misses"][0]["missing"]
        assert said["draft"]["text"].startswith("# A draft")
        assert said["draft"]["problem"] is None

    def test_a_model_of_a_local_hub_is_found_and_the_output_can_go_into_a_file(self, tmp_path):
        unlisted(tmp_path / "acme/model")
        found = suggested("acme/model", "--local-hub", tmp_path, "-o", tmp_path / "said")
        assert (found.code, found.out) == (0, "")
        assert (tmp_path / "said").read_text().startswith("acme/model: TheirForCausalLM is in no file")

    def test_a_class_and_a_model_at_once_are_refused(self, tmp_path):
        assert (
            "give only one of CLASS, --check MODEL and --coverage"
            in lineage("registry", "X", "--check", tmp_path).error
        )


class TestErrors:
    def test_no_configuration(self, tmp_path):
        (unlisted(tmp_path / "model") / "config.json").unlink()
        assert "model has no config.json, so it is not a transformers model" in suggested(tmp_path / "model").error

    @pytest.mark.parametrize(
        ("file", "said"),
        [
            ("model.gguf", "model.gguf is truncated: it ends within its header; download"),
            ("adapter_model.safetensors", "holds only a LoRA adapter"),
            ("nothing", "holds no weights"),
        ],
    )
    def test_other_formats(self, file, said, tmp_path):
        (unlisted(tmp_path / "model") / WEIGHTS).unlink()
        (tmp_path / "model" / file).touch()
        assert said in suggested(tmp_path / "model").error

    def test_a_pickle_is_never_loaded(self, tmp_path):
        (unlisted(tmp_path / "model") / WEIGHTS).unlink()
        (tmp_path / "model/pytorch_model.bin").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
        assert "as a pickle (pytorch_model.bin), which is never loaded" in suggested(tmp_path / "model").error
        assert not (tmp_path / "sprung").exists()

    def test_quantized_weights(self, tmp_path):
        folder = unlisted(tmp_path / "model", quantization_config={"quant_method": "gptq"})
        spoil(folder, lambda tensors: tensors.update({"qweight": tensors["model.norm.weight"].int()}))
        assert "the weights are quantized (I32); config.json names `gptq`" in suggested(folder).error

    def test_a_signature(self, tmp_path):
        lineage("extract", tiny_llama(tmp_path / "model"), "-o", tmp_path / "signature")
        assert "is a signature and holds no weights to inspect" in suggested(tmp_path / "signature").error

    def test_a_model_that_is_not_there(self, tmp_path):
        assert "is neither a folder nor a Hub name" in suggested(tmp_path / "gone").error


HOSTILE = "\x1b[31m\n::error::x\u202e"


class TestHostileHeaders:
    def written(self, folder, tensors, **config):
        """A model of empty tensors, whose header may say anything."""
        folder.mkdir()
        edit_json(folder / "config.json", **CONFIG | config)
        header = {name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]} for name, shape in tensors.items()}
        raw_safetensors(folder / WEIGHTS, header)
        return folder

    @pytest.mark.parametrize("form", ["text", "json"])
    def test_names_are_escaped_and_the_output_is_bounded(self, form, tmp_path):
        # Sizes of 0 cost no bytes: every number is a lie that the reader of headers cannot see.
        evil = {f"model.layers.{n % 2}.{HOSTILE}{n}.weight": [0, 32] for n in range(20_000)}
        evil |= {f"{'x' * 100_000}.{n}.fc1.weight": [0, 32] for n in range(2)}
        evil |= {f"a{{b}}{{layer}}.{n}.c{{expert}}.weight": [0, 32] for n in range(2)}
        folder = self.written(tmp_path / "model", evil, architectures=[HOSTILE, "A" * 10_000] * 500)
        found = suggested(folder, "--format", form)
        assert found.code == 3
        assert len(found.out) < 30_000
        assert all(line.isprintable() for line in found.out.split("\n"))

    def test_a_fit_beside_hostile_names_is_bounded_and_escaped(self, llama):
        evil = {f"model.layers.{n % 2}.{HOSTILE}{n}.weight": (32, 32) for n in range(20_000)}
        found = survey("model", llama | evil, CONFIG)
        assert "llama" in files(found)
        for render in SUGGESTIONS.values():
            out = render(found)
            assert len(out) < 300_000
            assert all(line.isprintable() for line in out.split("\n"))

    def test_a_draft_says_only_plain_names(self, llama):
        names = {f"model.layers.{n}.{HOSTILE}.{role}.weight": (32, 32) for n in range(2) for role in ("fc1", "fc2")}
        found = survey("model", llama | names, CONFIG)
        assert found.draft is not None
        assert found.draft.problem is None
        (shown,) = {line for line in found.draft.text.splitlines() if "fc1" in line}
        assert shown.startswith("#     ")
