"""A model is given a text of the verifier in its own tokens, at its first positions and behind other text."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, processors

from hf_lineage.running.inputs import draw
from hf_lineage.running.load import CannotRunError
from tests.conformance.models import tiny_model
from tests.unspoken import tokens_of_bytes

SHAPES = {
    "LlamaForCausalLM": [(32, 16), (1, 1024)],
    "GPT2LMHeadModel": [(32, 16), (1, 480)],
    "T5ForConditionalGeneration": [(32, 16), (1, 1024)],
    "BertForMaskedLM": [(32, 16), (1, 480)],
    "LlavaModel": [(32, 16), (1, 1024)],
}
NOWHERE = Path("/nowhere")


def model(name="LlamaForCausalLM", **settings):
    made = tiny_model(name, {})
    for key, value in settings.items():
        setattr(made.config, key, value)
    return made


def tokenizer(folder, around=(1, 1)):
    """A tokenizer of bytes that writes some tokens around every text."""
    made = tokens_of_bytes()
    template = " ".join(["<1022>"] * around[0] + ["$0"] + ["<1023>"] * around[1])
    made.post_processor = processors.TemplateProcessing(template, None, [("<1022>", 1022), ("<1023>", 1023)])
    made.enable_truncation(8)
    made.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


@pytest.mark.parametrize("name", SHAPES)
def test_every_class_reads_windows_of_a_text_and_the_same_behind_other_text(name):
    short, long = draw(model(name), NOWHERE, 3)
    assert [tuple(each.given["input_ids"].shape) for each in (short, long)] == SHAPES[name]
    ids = long.given["input_ids"][0]
    behind = ids[len(ids) // 2 :].view(-1, 16)
    assert torch.equal(behind, short.given["input_ids"][: len(behind)])
    assert (short.kind, short.counted, long.kind) == ("short", 15, "long")
    assert (long.counted, long.given.get("logits_to_keep")) in ((32, 32), (len(behind) * 16, None))


def test_neither_settings_nor_weights_of_a_model_choose_what_it_reads():
    plain = draw(model(), NOWHERE, 3)
    settings = {"bos_token_id": 7, "temperature": 9.0, "max_position_embeddings": 12, "mask_token_id": 5}
    for one, other in zip(plain, draw(model(**settings), NOWHERE, 3), strict=True):
        assert torch.equal(one.given["input_ids"], other.given["input_ids"])
    assert not torch.equal(plain[0].given["input_ids"], draw(model(), NOWHERE, 4)[0].given["input_ids"])


def test_a_model_whose_places_end_is_read_to_their_end():
    (only,) = draw(model("GPT2LMHeadModel", n_positions=12), NOWHERE, 3)
    assert (only.kind, only.given["input_ids"].shape) == ("short", (32, 10))
    with pytest.raises(CannotRunError, match="it reads too few tokens at once"):
        draw(model("GPT2LMHeadModel", n_positions=3), NOWHERE, 3)


def test_the_models_own_tokenizer_makes_its_tokens_and_those_around_a_text(tmp_path):
    short, long = draw(model(vocab_size=1024), tokenizer(tmp_path), 3)
    for each, counted in ((short, 17), (long, 32)):
        ids = each.given["input_ids"]
        assert (ids[:, [0, -1]] == torch.tensor([1022, 1023])).all()
        assert (int(ids[:, 1:-1].max()) < 256, each.counted) == (True, counted)
    assert short.given["input_ids"].shape == (32, 18)


@pytest.mark.parametrize(("size", "around"), [(1023, (1, 1)), (1024, (20, 1))])
def test_a_tokenizer_of_another_model_is_a_reason(tmp_path, size, around):
    with pytest.raises(CannotRunError, match=f"its tokenizer is not one for its {size} tokens"):
        draw(model(vocab_size=size), tokenizer(tmp_path, around), 3)


def test_a_tokenizer_that_makes_one_token_of_the_text_is_a_reason(tmp_path):
    Tokenizer(models.WordLevel({"[UNK]": 0}, "[UNK]")).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(CannotRunError, match="its tokenizer makes only 1 tokens of the text that is read"):
        draw(model(), tmp_path / "tokenizer.json", 3)
