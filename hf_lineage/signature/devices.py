"""Which layer is computed on which device: accelerate's device map over the layers, under a memory budget.

Layers pass through a device one at a time, so a budget has to hold one layer and not the model; the number of layers on
each device is proportional to its budget.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import psutil

from hf_lineage.errors import OptionError

Device = int | str
"""A GPU's number, or "cpu", where NumPy computes; any other name is a device of torch's."""
CPU: Device = "cpu"
Budgets = Mapping[Device, int]
"""Bytes by device."""


DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd", "/dev/dri/renderD128", "C:/Windows/System32/nvcuda.dll")
"""A file of the driver of every GPU that torch computes on in float64: NVIDIA's (also under WSL), AMD's and Intel's."""


def budgets(max_memory: str | None = None) -> dict[Device, int]:
    """Return the bytes that each device may use: its free memory, at most `max_memory` such as `8GiB`.

    Only where a GPU may be is accelerate asked for it, because importing torch takes longer than judging most models.
    Raise OptionError for a size that accelerate cannot read.
    """
    if max_memory is None and not any(map(os.path.exists, DRIVERS)):
        return {CPU: psutil.virtual_memory().available}
    from accelerate.utils import convert_file_size_to_int, get_max_memory

    # Apple's GPU has no float64, in which sums are kept, and shares the CPU's memory anyway.
    free: dict[Device, int] = {"cpu" if device == "mps" else device: size for device, size in get_max_memory().items()}
    if max_memory is None:
        return free
    try:
        limit = convert_file_size_to_int(max_memory)
    except (ValueError, OverflowError):
        limit = 0
    if limit <= 0:
        raise OptionError(f"--max-memory {max_memory} is not a size; write 8GiB, 500MB or the like")
    return {device: min(limit, size) for device, size in free.items()}


def place(layers: Sequence[int], memory: Budgets) -> list[Device]:
    """Return the device of each layer, given the bytes of its working set and the budget of each device.

    The GPUs that can hold the largest layer share the work, in runs of consecutive layers; the CPU alone where there
    are none. Raise OptionError if no device can hold it.
    """
    largest = max(layers)
    able = {device: size for device, size in memory.items() if size >= largest}
    chosen = {device: size for device, size in able.items() if device not in ("cpu", "disk")} or able
    if not chosen:
        raise OptionError(
            f"one layer needs {largest / 2**20:.0f} MiB and no device has that much; raise --max-memory or free some"
        )
    if len(chosen) == 1:
        return [next(iter(chosen))] * len(layers)
    return _spread(layers, chosen)


def _spread(layers: Sequence[int], chosen: Budgets) -> list[Device]:
    import torch
    from accelerate import infer_auto_device_map

    with torch.device("meta"):
        blocks = torch.nn.ModuleList(
            torch.nn.ParameterList([torch.nn.Parameter(torch.empty(size, dtype=torch.uint8), requires_grad=False)])
            for size in layers
        )
    # accelerate keeps the room of the largest layer free on the first device, and runs over by less than one layer.
    share = sum(layers) / sum(chosen.values())
    memory = {device: int(size * share) + 2 * max(layers) for device, size in chosen.items()}
    device_map = infer_auto_device_map(blocks, max_memory=memory, no_split_module_classes=["ParameterList"])
    return [device_map[str(number)] for number in range(len(layers))]
