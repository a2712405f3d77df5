"""The notebook in docs/: run on the example Hub, its outputs kept, and shown as a page of the documentation.

`python -m tools.notebook` runs it and writes its outputs anew; it needs nbclient and ipykernel.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
SLOWEST = 120
"""Seconds for a cell."""


def read() -> dict[str, Any]:
    """Return the notebook as it is committed."""
    notebook: dict[str, Any] = json.loads(NOTEBOOK.read_text("utf-8"))
    return notebook


def run() -> dict[str, Any]:
    """Return the notebook as it is when it was run just now, in the root of the repository."""
    import nbformat
    from jupyter_client import AsyncKernelManager
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as room:  # sockets of this user, and no port
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=str(Path(room) / "kernel"))
        NotebookClient(notebook, kernel, timeout=SLOWEST, resources={"metadata": {"path": ROOT}}).execute()
    return _lasting(json.loads(nbformat.writes(notebook)))


def page() -> str:
    """Return the notebook as Markdown, with what each cell gives below it."""
    return "\n\n".join(part for cell in read()["cells"] for part in _parts(cell))


def _parts(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    return [f"```python\n{source}\n```", *map(_shown, cell["outputs"])]


def _shown(output: dict[str, Any]) -> str:
    """An output as notebooks show it: HTML where there is some, else text."""
    data = output.get("data", {})
    if "text/html" in data:
        return f'<div class="output">{"".join(data["text/html"])}</div>'
    text = "".join(output["text"] if output["output_type"] == "stream" else data["text/plain"])
    return f"```text\n{text.rstrip()}\n```"


def _lasting(notebook: dict[str, Any]) -> dict[str, Any]:
    """What of a notebook does not change from one run to the next, nor from one Python to another."""
    for cell in notebook["cells"]:
        cell["metadata"] = {}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return notebook | {"metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}}


if __name__ == "__main__":
    NOTEBOOK.write_text(f"{json.dumps(run(), indent=1, ensure_ascii=False)}\n", "utf-8", newline="\n")
