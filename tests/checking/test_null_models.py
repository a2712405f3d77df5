"""Nulls: a model that is not independent cannot serve as one, and too few of them decide nothing.

On Whisper, whose sinusoidal positions leave the decision to named models: a sibling or the base itself, named as
independent, used to make two fine-tunes of one model UNRELATED.
"""

import shutil

import pytest
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from hf_lineage import Options, extract
from hf_lineage.signature.store import save_signature
from tests.invoking import lineage
from tests.models import card, fine_tuned, tiny_gpt2

MANY = ("--alpha", "0.2")
"""A level that four independent models reach; at 0.01 it takes 99."""
OTHERS = 4


def whisper(folder, seed):
    """A Whisper of random weights, as transformers saves it."""
    shape = WhisperConfig(
        vocab_size=64, num_mel_bins=8, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=16,
        max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    torch.manual_seed(seed)
    WhisperForConditionalGeneration(shape).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A base, two fine-tunes of it, an independent model, and four more of those to hold a score against."""
    room = tmp_path_factory.mktemp("hub")
    base = whisper(room / "acme/base", 0)
    for seed, name in enumerate(("child", "sibling"), 7):
        card(fine_tuned(base, room / "fern" / name, seed=seed), "acme/base", "finetune")
    whisper(room / "otter/model", 100)
    for seed in range(1, OTHERS + 1):
        whisper(room / f"other/{seed}", seed)
    return room


def check(hub, model, *nulls, options=MANY):
    """One path, so that alpha is not divided."""
    named = [argument for null in nulls for argument in ("--null", null)]
    paths = () if "--paths" in options else ("--paths", "mlp")
    return lineage("check", model, "--base", "acme/base", "--local-hub", hub, *paths, *options, *named)


def independent(count=OTHERS):
    return [f"other/{seed}" for seed in range(1, count + 1)]


def test_the_fine_tune_computes_nearly_what_the_base_does_and_the_other_model_does_not(hub):
    sound, tokens = torch.randn(1, 8, 32, generator=torch.Generator().manual_seed(0)), torch.arange(8)[None]
    base, child, other = (
        WhisperForConditionalGeneration.from_pretrained(hub / name)(sound, decoder_input_ids=tokens).logits
        for name in ("acme/base", "fern/child", "otter/model")
    )
    assert torch.nn.functional.cosine_similarity(base.flatten(), child.flatten(), 0) > 0.9
    assert torch.nn.functional.cosine_similarity(base.flatten(), other.flatten(), 0) < 0.5


def test_enough_independent_models_tell_a_fine_tune_from_another_model(hub):
    related, unrelated = (check(hub, name, *independent()) for name in ("fern/child", "otter/model"))
    assert (related.code, related.rows[0][-1]) == (0, "inherited")
    assert (unrelated.code, unrelated.rows[0][-1]) == (1, "UNRELATED")


@pytest.mark.parametrize("model", ["fern/child", "otter/model"])
@pytest.mark.parametrize(
    ("count", "options", "needed"), [(1, (), 99), (OTHERS, (), 99), (3, MANY, 4), (OTHERS, ("--alpha", "0.1"), 9)]
)
@pytest.mark.few(2)
def test_too_few_decide_nothing_and_the_report_says_how_many_it_takes(hub, model, count, options, needed):
    result = check(hub, model, *independent(count), options=options)
    assert (result.code, result.rows[0][-1]) == (3, "inconclusive")
    assert f"{count} independent model(s) cannot show p <= " in result.sentences
    assert f"; that needs at least {needed}; name more with --null" in result.sentences


@pytest.mark.long
def test_over_several_paths_it_takes_as_many_times_more(hub):
    result = check(hub, "fern/child", *independent(), options=(*MANY, "--paths", "mlp,value_output"))
    assert (result.code, result.rows[0][-1]) == (3, "inconclusive")
    assert "cannot show p <= 0.2; that needs at least 9;" in result.sentences


def test_the_base_itself_is_refused(hub, tmp_path):
    message = "--null acme/base is the base itself; name models that are independent of both"
    result = check(hub, "fern/child", "acme/base", *independent())
    assert (result.code, message in result.error) == (2, True)
    copied = shutil.copytree(hub / "acme/base", tmp_path / "copy")
    result = check(hub, "fern/child", copied, *independent())
    assert (result.code, "is itself related to acme/base" in result.error) == (2, True)


def test_the_candidate_itself_is_refused(hub):
    result = check(hub, "fern/child", "fern/child")
    assert (result.code, "--null fern/child is the candidate itself" in result.error) == (2, True)
    independent_one = check(hub, "otter/model", hub / "otter" / "model")
    assert (independent_one.code, "is the candidate itself" in independent_one.error) == (2, True)


def test_the_signature_of_the_base_is_the_base(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(hub)
    save_signature(extract("acme/base", Options(local_hub=hub)), tmp_path / "base.sig")
    result = check(hub, "fern/child", tmp_path / "base.sig")
    assert (result.code, "is the base itself" in result.error) == (2, True)


def test_a_sibling_that_says_so_is_refused(hub):
    result = check(hub, "fern/child", "fern/sibling")
    message = "--null fern/sibling declares acme/base, the base, as its base; name models that are independent of both"
    assert (result.code, message in result.error) == (2, True)


def test_a_model_made_from_the_candidate_is_refused_where_it_says_so(hub, tmp_path):
    card(shutil.copytree(hub / "other/1", tmp_path / "made"), ["some/thing", "Otter/Model@main"])
    result = check(hub, "otter/model", tmp_path / "made")
    assert (result.code, "declares Otter/Model@main, the candidate, as its base" in result.error) == (2, True)


def test_a_sibling_that_says_nothing_is_refused_for_its_weights(hub, tmp_path):
    for noise in (0.1, 1.0):
        silent = fine_tuned(hub / "acme/base", tmp_path / f"silent{noise}", noise=noise, seed=11)
        result = check(hub, "fern/child", silent, *independent())
        assert (result.code, "is itself related to acme/base; a null model" in result.error) == (2, True)


def test_one_model_counts_once_under_any_name(hub, tmp_path):
    copies = [shutil.copytree(hub / "other/1", tmp_path / str(number)) for number in range(2)]
    result = check(hub, "fern/child", *independent(3), copies[0])
    assert (result.code, "has the same weights as --null other/1; name every model once" in result.error) == (2, True)
    result = check(hub, "fern/child", copies[0], copies[0])
    assert (result.code, "name every model once" in result.error) == (2, True)


def test_a_model_of_another_architecture_or_none_is_refused(hub, tmp_path):
    other = tiny_gpt2(tmp_path / "gpt2", width=64, layers=3)
    result = check(hub, "fern/child", other)
    assert (result.code, "cannot serve: acme/base has mlp in 4 layers, " in result.error) == (2, True)
    (other / "config.json").write_text('{"architectures": ["NobodyKnows"]}')
    result = check(hub, "fern/child", other)
    assert (result.code, "cannot serve: " in result.error) == (2, True)


def test_without_any_the_order_of_units_decides(hub):
    result = check(hub, "fern/child")
    assert (result.code, [row[-1] for row in result.rows]) == (0, ["inherited"])
