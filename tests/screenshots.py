"""The pictures of pages in docs/, which `make screenshots` takes anew."""

import io
import tempfile
from pathlib import Path

from PIL import Image

from tests import example_pages
from tests.browser import browser

ROOT = Path(__file__).parents[1]
HEIGHTS = {1280: 1900, 400: 1400}  # width -> how much of a page is shown: verdict, advice, where the evidence begins
COLOURS = 256  # of a picture: all that a palette holds, at a quarter of the size
LARGEST = 120_000
SHOWN = (("related", 1280, "light"), ("related", 400, "dark"), ("five-claims", 1280, "light"))
"""Page, width of the window and colours of every picture."""


def smaller(picture: bytes) -> bytes:
    content = io.BytesIO()
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    return content.getvalue()


def picture(name: str, width: int, scheme: str) -> str:
    return f"pages/{name}-{width}-{scheme}.png"


if __name__ == "__main__":
    with browser() as window, tempfile.TemporaryDirectory() as folder:
        pages = example_pages.write(Path(folder))
        for name, width, scheme in SHOWN:
            window.open(pages[name], width, scheme)
            content = smaller(window.picture(height=HEIGHTS[width]))
            (ROOT / "docs" / picture(name, width, scheme)).write_bytes(content)
