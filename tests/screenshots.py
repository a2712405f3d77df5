"""The pictures in docs/: of every kind of page, which `make screenshots` takes anew, and a family tree."""

import io
import tempfile
from pathlib import Path

from PIL import Image

from hf_lineage import Options
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.index.building.model_list import gather
from hf_lineage.index.tree.tree import Tree, grow
from hf_lineage.report.tree.formats import svg
from tests import example_pages
from tests.browser import browser

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pages"
HEIGHTS = {1280: 1900, 400: 1400}
"""Width of a window -> how much of a page is shown: its verdict, what to do next, and where the evidence begins."""
SCHEMES = ("light", "dark")
COLOURS = 256
"""Of a picture: all that a palette holds, at a quarter of the size."""
LARGEST = 120_000
SHOWN = tuple(
    f"pages/{name}-{width}-{scheme}.png" for name in example_pages.MODELS for width in HEIGHTS for scheme in SCHEMES
)
"""Every picture, as the documentation names it."""


def family_tree() -> Tree:
    """Return the tree of the models in examples/hub that have weights of their own."""
    hub = Options(local_hub=ROOT / "examples" / "hub")
    names = sorted("/".join(file.parent.parts[-2:]) for file in (ROOT / "examples/hub").glob("*/*/model.safetensors"))
    gathered = gather(names, hub)
    return grow(gathered.members, "mlp", Criteria(permutations=99), gathered.seen)


def smaller(picture: bytes) -> bytes:
    """Return a PNG with a palette of its own."""
    content = io.BytesIO()
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    return content.getvalue()


if __name__ == "__main__":
    (ROOT / "docs" / "tree.svg").write_text(svg(family_tree()), encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    with browser() as window, tempfile.TemporaryDirectory() as folder:
        for name, file in example_pages.write(Path(folder)).items():
            for width, height in HEIGHTS.items():
                for scheme in SCHEMES:
                    window.open(file, width, scheme)
                    picture = smaller(window.picture(height=height))
                    (PICTURES / f"{name}-{width}-{scheme}.png").write_bytes(picture)
