"""The pictures in docs/: of reports, which `make screenshots` takes anew, and the family tree of the examples."""

import tempfile
from pathlib import Path

from hf_lineage import Options, check
from hf_lineage.checking.controls import compare_beside
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.index.gathering import gather
from hf_lineage.index.tree import Tree, grow
from hf_lineage.report import controls_page, html
from hf_lineage.report.tree_page import svg
from tests.browser import browser

ROOT = Path(__file__).parents[1]
SHOWN = {
    "report-related.png": ("fern/llama-finetune-a", "light"),
    "report-unrelated.png": ("magpie/llama-liar", "dark"),
}
BESIDE = ("fern/llama-merge-a-b", ["otter/llama-independent", "magpie/llama-liar"], ["moss/llama-continued"])
"""A model, what is independent of the base, and what is related to it."""
CONTROLS = "report-controls.png"
WIDTH, HEIGHT, PHONE = 1080, 1312, 400
LARGEST = 300_000


def family_tree() -> Tree:
    """Return the tree of the models in examples/hub that have weights of their own."""
    hub = Options(local_hub=ROOT / "examples" / "hub")
    names = sorted("/".join(file.parent.parts[-2:]) for file in (ROOT / "examples/hub").glob("*/*/model.safetensors"))
    gathered = gather(names, hub)
    return grow(gathered.members, "mlp", Criteria(permutations=99), gathered.seen)


if __name__ == "__main__":
    (ROOT / "docs" / "tree.svg").write_text(svg(family_tree()), encoding="utf-8")
    with browser() as window, tempfile.TemporaryDirectory() as folder:
        for file, (model, scheme) in SHOWN.items():
            page = Path(folder) / "report.html"
            found = check(model, options=Options(local_hub=Path("examples/hub")))
            page.write_text(html.render(found), encoding="utf-8")
            window.open(page, WIDTH, scheme)
            (ROOT / "docs" / file).write_bytes(window.picture(height=HEIGHT))
        compared = compare_beside("acme/llama-base", *BESIDE, Options(local_hub=Path("examples/hub"), order_seed=0))
        page.write_text(controls_page.render(compared), encoding="utf-8")
        window.open(page, PHONE)
        (ROOT / "docs" / CONTROLS).write_bytes(window.picture(".figures"))
