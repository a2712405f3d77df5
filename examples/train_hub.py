"""Train the example Hub: small language models over bytes, their derivatives, and false claims.

    python examples/train_hub.py [--out examples/hub]

Models that are there already are kept; the page that describes them all is always written anew.
"""

import argparse
import json
import platform
import time
from pathlib import Path

import torch
import transformers
from hub_catalogue import GPT2, LLAMA, Entry, catalogue
from hub_pages import Row, hub_page, mergekit_config, model_card
from hub_pairing import pairing_accuracy
from hub_text import Corpus, load_corpus
from hub_training import mean_loss
from peft import PeftModel
from peft.utils import CONFIG_NAME
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, PreTrainedModel

RESULTS = "all_results.json"  # named as transformers' Trainer does; written last, so it marks a finished model


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, default=Path(__file__).parent / "hub", help="where the Hub goes")
    hub: Path = arguments.parse_args().out

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

    corpus = load_corpus()
    entries = catalogue(corpus)
    for entry in entries:
        if not (hub / entry.name / RESULTS).exists():
            add(entry, hub, corpus)
    pairing = {name: pairing_accuracy(load(hub / name)) for name in (LLAMA, GPT2)}
    page = hub_page([describe(entry, hub) for entry in entries], pairing)
    (hub / "README.md").write_text(page, encoding="utf-8")
    print(page)


def add(entry: Entry, hub: Path, corpus: Corpus) -> None:
    """Make one model from those it declares and save it as a repository of the Hub."""
    print(entry.name, flush=True)
    start = time.monotonic()
    made = entry.make(*(load(hub / name) for name in entry.parents))
    folder = hub / entry.name
    made.model.to(torch.bfloat16).save_pretrained(folder)
    if entry.trained_on:
        declare(folder / CONFIG_NAME, entry.base_models[0])
    results = {**made.results, "eval_loss": round(mean_loss(made_of(entry, hub), corpus.held_out), 4), **versions()}
    (folder / "README.md").write_text(model_card(entry), encoding="utf-8")
    if entry.relation == "merge":
        (folder / "mergekit_config.yml").write_text(mergekit_config(entry), encoding="utf-8")
    (folder / RESULTS).write_text(json.dumps(results, indent=4) + "\n", encoding="utf-8")
    print(f"  held-out loss {results['eval_loss']}, {(time.monotonic() - start) / 60:.1f} minutes", flush=True)


def load(folder: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=torch.float32)


def made_of(entry: Entry, hub: Path) -> PreTrainedModel | PeftModel:
    """A model of the Hub, or an adapter beside the model that it was trained on."""
    if entry.trained_on is None:
        return load(hub / entry.name)
    return PeftModel.from_pretrained(load(hub / entry.trained_on), hub / entry.name)


def declare(config: Path, base: str) -> None:
    """Name the declared base in the configuration of an adapter, where peft wrote a path of this machine."""
    said = json.loads(config.read_text(encoding="utf-8"))
    said |= {"base_model_name_or_path": base, "target_modules": sorted(said["target_modules"])}
    config.write_text(json.dumps(said, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def describe(entry: Entry, hub: Path) -> Row:
    folder = hub / entry.name
    model = made_of(entry, hub)
    parameters = sum(tensor.numel() for tensor in load_file(next(folder.glob("*.safetensors"))).values())
    results = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
    return Row(entry, parameters, model.config.num_hidden_layers, results)


def versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


if __name__ == "__main__":
    main()
