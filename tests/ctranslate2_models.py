"""CTranslate2 models written by its own converters."""

import warnings
from pathlib import Path

import transformers
from ctranslate2.converters import transformers as converters


def converted(source: Path, folder: Path, quantization: str | None = None) -> Path:
    """Write the model of a folder as CTranslate2 does; its words are made up, for the model has no tokenizer."""
    config = transformers.AutoConfig.from_pretrained(source)
    loader = converters._MODEL_LOADERS[type(config).__name__]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(transformers, loader.architecture_name).from_pretrained(source).eval().float()
    specification = loader.get_model_spec(model)
    loader.set_vocabulary(specification, [f"word {number}" for number in range(words(config, specification))])
    specification.validate()
    specification.optimize(quantization=quantization)
    folder.mkdir(parents=True, exist_ok=True)
    specification.save(str(folder))
    return folder


def words(config: transformers.PretrainedConfig, specification: object) -> int:
    """How many words the specification expects."""
    encoder = getattr(specification, "encoder", None)
    decoder = getattr(specification, "decoder", None)
    embeddings = decoder.embeddings if decoder is not None else encoder.embeddings[0]  # type: ignore[union-attr]
    return int(embeddings.weight.shape[0])
