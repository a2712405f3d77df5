"""A quantized copy of a model is RELATED whatever its format, and an independent model in the same format is not."""

import pytest
import torch

from tests.checkpoint.formats import test_autoround, test_awq, test_fp8, test_gptq, test_hqq, test_torchao
from tests.checkpoint.formats import test_bitsandbytes as test_bnb
from tests.checkpoint.formats import test_compressed_tensors as test_compressed
from tests.checkpoint.formats import test_torchao as test_bitnet
from tests.checkpoint.formats import test_torchao_quanto as test_quanto
from tests.quantizing import BASE, INDEPENDENT, repacked, verdict

FORMATS = {
    "GPTQ": (test_gptq.gptq(), test_gptq.settings(), 0.95),
    "AWQ": (test_awq.awq(), test_awq.AWQ, 0.95),
    "NF4": (test_bnb.four_bits(), test_bnb.FOUR, 0.95),
    "FP8": (test_fp8.whole, test_fp8.FP8, 0.99),
    "NVFP4 of modelopt": (test_fp8.nvfp4, test_fp8.MODELOPT, 0.9),
    "pack-quantized": (*test_compressed.case("4 bits, groups"), 0.9),
    "HQQ": (test_hqq.hqq(), test_hqq.SETTINGS, 0.95),
    "BitNet": (test_bitnet.bitnet(), test_bitnet.BITNET, 0.75),
    "AutoRound": (*test_autoround.PACKS["GPTQ's layout"], 0.95),
    "torchao": (test_torchao.rows(torch.int8), test_torchao.TORCHAO, 0.99),
    "quanto": (test_quanto.rows(torch.int8), {}, 0.99),
}
"""A packing, its settings and the least score; that numbers are decoded as the library does is shown of each."""


@pytest.mark.few(1)
@pytest.mark.parametrize(("pack", "settings", "least"), FORMATS.values(), ids=FORMATS)
def test_a_quantized_copy_is_related_and_an_independent_model_is_not(pack, settings, least, tmp_path):
    outcome = verdict(BASE, repacked(BASE, tmp_path / "child", pack, **settings))
    assert outcome.code == "inherited", outcome.reason
    assert outcome.evidence["mlp"].comparison.score > least
    assert verdict(BASE, repacked(INDEPENDENT, tmp_path / "other", pack, **settings)).code == "unrelated"
