"""Nulls on Whisper, whose positions leave the decision to models: none that is not independent, and not too few."""

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
TWO_PATHS = (*MANY, "--paths", "mlp,value_output")
CHILD, MODEL = "fern/child", "otter/model"
BOTH = "; name models that are independent of both"


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
    """A base, fine-tunes of it, an independent model, four more to hold a score against, and others that may not be."""
    room = tmp_path_factory.mktemp("hub")
    base = whisper(room / "acme/base", 0)
    for seed, name in enumerate(("child", "sibling"), 7):
        card(fine_tuned(base, room / "fern" / name, seed=seed), "acme/base", "finetune")
    whisper(room / "otter/model", 100)
    for seed in range(1, OTHERS + 1):
        whisper(room / f"other/{seed}", seed)
    for name, like in {"base": "acme/base", "one": "other/1", "made": "other/1"}.items():
        shutil.copytree(room / like, room / "copy" / name)
    card(room / "copy/made", ["some/thing", "Otter/Model@main"])
    save_signature(extract("acme/base", Options(local_hub=room)), room / "copy/base.sig")
    for noise in (0.1, 1.0):
        fine_tuned(base, room / f"silent/{noise}", noise=noise, seed=11)
    for name in ("known", "unknown"):
        tiny_gpt2(room / "gpt2" / name, width=64, layers=3)
    (room / "gpt2/unknown/config.json").write_text('{"architectures": ["NobodyKnows"]}')
    return room


def check(hub, model, *nulls, options=MANY):
    """One path, so that alpha is not divided."""
    named = [argument for null in nulls for argument in ("--null", null)]
    paths = () if "--paths" in options else ("--paths", "mlp")
    return lineage("check", model, "--base", "acme/base", "--local-hub", hub, *paths, *options, *named)


def independent(count=OTHERS):
    return [f"other/{seed}" for seed in range(1, count + 1)]


def test_enough_independent_models_tell_a_fine_tune_and_without_any_its_units_do(hub):
    related, unrelated = (check(hub, name, *independent()) for name in ("fern/child", "otter/model"))
    for result in (related, check(hub, "fern/child")):
        assert (result.code, [row[-1] for row in result.rows]) == (0, ["inherited"])
    assert (unrelated.code, unrelated.rows[0][-1]) == (1, "UNRELATED")


@pytest.mark.parametrize("model", ["fern/child", "otter/model"])
@pytest.mark.parametrize(
    ("count", "options", "needed"),
    [(1, (), 99), (OTHERS, (), 99), (3, MANY, 4), (OTHERS, ("--alpha", "0.1"), 9), (OTHERS, TWO_PATHS, 9)],
)
@pytest.mark.few(2)
def test_too_few_decide_nothing_and_the_report_says_how_many_it_takes(hub, model, count, options, needed):
    result = check(hub, model, *independent(count), options=options)
    assert (result.code, result.rows[0][-1]) == (3, "inconclusive")
    assert f"{count} independent model(s) cannot show p <= " in result.sentences
    assert f"; that needs at least {needed}; name more with --null" in result.sentences


@pytest.mark.parametrize(
    ("model", "nulls", "message"),
    [
        (CHILD, ["acme/base", *independent()], f"--null acme/base is the base itself{BOTH}"),
        (CHILD, ["copy/base", *independent()], "is itself related to acme/base"),
        (CHILD, ["./copy/base.sig"], "is the base itself"),
        (CHILD, [CHILD], "--null fern/child is the candidate itself"),
        (MODEL, ["./otter/model"], "is the candidate itself"),
        (CHILD, ["fern/sibling"], f"--null fern/sibling declares acme/base, the base, as its base{BOTH}"),
        (MODEL, ["copy/made"], "declares Otter/Model@main, the candidate, as its base"),
        (CHILD, ["silent/0.1", *independent()], "is itself related to acme/base; a null model"),
        (CHILD, ["silent/1.0", *independent()], "is itself related to acme/base; a null model"),
        (CHILD, [*independent(3), "copy/one"], "has the same weights as --null other/1; name every model once"),
        (CHILD, ["copy/one", "copy/one"], "name every model once"),
        (CHILD, ["gpt2/known"], "cannot serve: acme/base has mlp in 4 layers, "),
        (CHILD, ["gpt2/unknown"], "cannot serve: "),
    ],
)
def test_what_is_not_independent_of_both_and_of_the_others_is_refused(hub, monkeypatch, model, nulls, message):
    monkeypatch.chdir(hub)
    result = check(hub, model, *nulls)
    assert (result.code, message in result.error) == (2, True)
