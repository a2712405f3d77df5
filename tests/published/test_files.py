"""Files and quantized folders of public bug reports: every row is built from a tiny model, and checked."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.checkpoint.formats import test_bitsandbytes as bnb
from tests.checkpoint.formats import test_compressed_tensors as compressed
from tests.checkpoint.formats import test_fp8 as fp8
from tests.checkpoint.formats import test_gptq as gptq
from tests.checkpoint.formats import test_hqq as hqq
from tests.invoking import check, lineage
from tests.long import first_with
from tests.models import card, edit_json, family, shard, spoil, tiny_llama
from tests.published.steps import INDEX, quantized

HERE = Path(__file__).parent
ROWS, DAMAGED = (
    yaml.safe_load((Path(__file__).parent / f"{of}.yaml").read_text("utf-8")) for of in ("files", "damaged")
)


def rows_of_fp8(matrix):
    scales = matrix.abs().amax(dim=1) / 448
    return {".weight": (matrix / scales[:, None]).to(torch.float8_e4m3fn), ".weight_scale": scales}


def as_bfloat16(matrix):
    parts = bnb.four_bits()(matrix)
    return parts | {".weight": parts[".weight"].reshape(-1).view(torch.bfloat16)[:, None]}


def by_width(narrow, wide):
    """One packing for matrices of the usual width, and another for the others."""
    return lambda matrix: (narrow if matrix.shape[1] == 32 else wide)(matrix)


FP8, NVFP4 = (compressed.case(name)[0] for name in ("FP8, naive", "NVFP4"))
PACKS = {
    "awq": gptq.awq(),
    "fp8": fp8.whole,
    "fp8 by row": rows_of_fp8,
    "gptq": gptq.gptq(),
    "mlx": by_width(hqq.mlx(4), hqq.mlx(8, 16)),
    "mlx mxfp4": lambda matrix: {".weight": torch.zeros(len(matrix), 4, dtype=torch.uint32), ".scales": matrix[:, :1]},
    "modelopt awq": lambda matrix: {".weight": matrix.to(torch.uint8), ".weight_scale": matrix[:, :1]},
    "nf4": bnb.four_bits(),
    "nf4 as bfloat16": as_bfloat16,
    "nvfp4": fp8.nvfp4,
    "int8": lambda matrix: {".weight": matrix.to(torch.int8)},
    "q_weight": lambda matrix: {".q_weight": matrix.to(torch.int32)},
    "qweight alone": lambda matrix: {".qweight": matrix.to(torch.int32)},
    "compressed fp8": FP8,
    "compressed mixed": by_width(FP8, NVFP4),
}


def each(change: Callable[[Path, str, Any], object]) -> Callable[[Path, dict[str, Any]], object]:
    """A step that changes one thing after the other, each by its name."""
    return lambda folder, given: [change(folder, name, value) for name, value in given.items()]


def write(folder, name, content):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    edit_json(folder / name, **content) if isinstance(content, dict) else (folder / name).write_text(content)


def move(folder, name, other):
    (folder / other).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).rename(folder / other) if other else (folder / name).unlink()


def rename(folder, pattern, name):
    def change(tensors):
        renamed = {re.sub(pattern, name, own): tensor for own, tensor in tensors.items()}
        tensors.clear()
        tensors.update({own: tensor for own, tensor in renamed.items() if own})

    spoil(folder, change)


def index(folder, name, file):
    weight_map = {own: file.name for file in folder.glob("*.safetensors") for own in load_file(file)}
    edit_json(folder / INDEX, weight_map=weight_map | {name: file} if name else dict.fromkeys(weight_map, file))


def cut(folder, name, size):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:size] if size < len(content) else content + bytes(3))


def odd(folder, name, kind):
    """The file is gone, and something else has its name."""
    (folder / name).unlink()
    {"mkdir": os.mkdir, "mkfifo": os.mkfifo, "link": lambda path: path.symlink_to("gone")}[kind](folder / name)


STEPS = {
    "pack": lambda folder, name: quantized(PACKS[name])(folder),
    "config": lambda folder, said: edit_json(folder / "config.json", **said),
    "write": each(write),
    "bytes": each(lambda folder, name, content: (folder / name).write_bytes(bytes.fromhex(content))),
    "repeat": each(lambda folder, name, given: (folder / name).write_text(given[0] * given[1])),
    "move": each(move),
    "odd": each(odd),
    "rename": each(rename),
    "add": each(lambda folder, name, shape: spoil(folder, lambda tensors: tensors.update({name: torch.ones(shape)}))),
    "poke": each(lambda folder, name, value: spoil(folder, lambda tensors: tensors[name].view(-1)[:1].fill_(value))),
    "shard": lambda folder, _: shard(folder),
    "index": each(index),
    "cut": each(cut),
    "copy": lambda folder, steps: copytree(take(folder.parents[1] / "acme/base", steps), folder, dirs_exist_ok=True),
}


def steps(row):
    """What is done to a folder, by its kind and for a packing by its name; and the exit code."""
    kinds = {str(given) if name == "pack" else name for step in row["do"] for name, given in step.items()}
    return {f"{kind} {row['code']}" for kind in kinds}


def take(folder, steps):
    for step in steps:
        ((name, given),) = step.items()
        STEPS[name](folder, given)
    return folder


@pytest.mark.parametrize("row", first_with([*ROWS, *DAMAGED], steps))
def test_what_was_reported_is_read_or_named_as_what_it_is(row, tmp_path):
    """An independent model in the same clothes is UNRELATED wherever the descendant is verified."""
    hub = family(tmp_path / "hub")
    take(hub / row.get("at", "fern/child"), row["do"])
    outcome = check(hub, "--explain")
    text = f"{outcome.sentences} {outcome.err}"
    assert outcome.code == row["code"], text
    assert [words for words in row["says"] if words not in text] == [], text
    if row["code"] == 2 and "at" not in row:
        assert "fern/child" in outcome.error
    else:
        assert outcome.err == ""
    if "row" in row:
        assert outcome.rows == [["acme/base", "finetune", "-", "-", "-", "-", *row["row"].split()]]
    if outcome.code == 0:
        take(card(tiny_llama(hub / "fern/other", seed=5), "acme/base", "finetune"), row["do"])
        assert lineage("check", "fern/other", "--local-hub", hub).code == 1


def test_every_report_has_a_source_and_every_row_a_name_of_its_own():
    assert len(ROWS) >= 55
    assert len({row["name"] for row in (*ROWS, *DAMAGED)}) == len(ROWS) + len(DAMAGED)
    assert [row["name"] for row in ROWS if not re.match(r"https://(github\.com|huggingface\.co)/\w", row["link"])] == []
    assert {step for row in (*ROWS, *DAMAGED) for taken in row["do"] for step in taken} == STEPS.keys()
