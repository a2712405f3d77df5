"""The pictures of two reports in docs/reports.md: `make screenshots` takes them anew, of models in examples/hub."""

import tempfile
from pathlib import Path

from hf_lineage import Options, check
from hf_lineage.report import html
from tests.browser import browser

ROOT = Path(__file__).parents[1]
SHOWN = {
    "report-related.png": ("fern/llama-finetune-a", "light"),
    "report-unrelated.png": ("magpie/llama-liar", "dark"),
}
WIDTH, HEIGHT = 1080, 1312
LARGEST = 300_000


if __name__ == "__main__":
    with browser() as window, tempfile.TemporaryDirectory() as folder:
        for file, (model, scheme) in SHOWN.items():
            page = Path(folder) / "report.html"
            found = check(model, options=Options(local_hub=Path("examples/hub")))
            page.write_text(html.render(found), encoding="utf-8")
            window.open(page, WIDTH, scheme)
            (ROOT / "docs" / file).write_bytes(window.picture(height=HEIGHT))
