"""The machine that measured, without its name."""

import os
import platform
from importlib.metadata import version
from pathlib import Path


def machine() -> dict[str, object]:
    """Return what a reader has to know of this machine to judge its figures."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numpy", "scipy")},
        "linear algebra": ", ".join(
            sorted(
                {f"{found['internal_api']} {found['version']} for {found['architecture']}" for found in _libraries()}
            )
        ),
    }


def _libraries() -> list[dict[str, str]]:
    """The libraries that multiply NumPy's matrices, and the processor whose instructions they use."""
    from hf_lineage.signature.devices import linear_algebra

    found: list[dict[str, str]] = linear_algebra().info()
    return found


def _processor() -> str:
    """The processor's model: Linux keeps it in a file."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())
