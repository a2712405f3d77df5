"""A real browser without a window: Chromium, driven through its own driver, which has to be installed."""

import base64
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from selenium import webdriver

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars"),
)
NAMES = ("google-chrome", "chromium", "chromium-browser")
MISSING = "there is no chromedriver; on Debian: apt-get install chromium chromium-driver"
PAPER = {"A4": (8.27, 11.69), "Letter": (8.5, 11)}  # width and height in inches
_SHOWN = "document.querySelectorAll('{}').forEach(e => e.style.visibility = '{}')"


def driver_path() -> str | None:
    """Return the driver that is installed; runners of GitHub name its folder."""
    return shutil.which("chromedriver") or shutil.which("chromedriver", path=os.environ.get("CHROMEWEBDRIVER", ""))


class Browser:
    """One window whose width and colour scheme are set for each page; remembers what the page asked for."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, file: Path, width: int = 1280, scheme: str = "light", media: str = "screen") -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(file.as_uri())

    def run(self, script: str) -> Any:
        """Return what a function body in JavaScript returns on the page."""
        return self.driver.execute_script(script)

    def console(self) -> list[Any]:
        return self.driver.get_log("browser")

    def requests(self) -> list[str]:
        """Return every address the page has asked for since it was opened, itself first."""
        messages = (msgspec.json.decode(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        sent = [said["params"] for said in messages if said["method"] == "Network.requestWillBeSent"]
        own = ("chrome:", "chrome-untrusted:")  # the browser's start page may still ask for its icons
        return [each["request"]["url"] for each in sent if not each["documentURL"].startswith(own)]

    def sheets(self, paper: str = "A4") -> int:
        """Return how many sheets the page takes on paper, after it was opened with the medium `print`."""
        return len(re.findall(rb"/Type\s*/Page\b", self._printed(paper)))

    def sheets_of(self, selector: str, paper: str = "A4") -> list[int]:
        """Return the numbers of the sheets on which there is text of an element: nothing else is printed for it."""
        self.run(f"document.body.style.visibility = 'hidden'; {_SHOWN.format(selector, 'visible')}")
        every = range(1, self.sheets(paper) + 1)
        found = [sheet for sheet in every if b"/Font" in self._printed(paper, pageRanges=str(sheet))]
        self.run(f"document.body.style.visibility = ''; {_SHOWN.format(selector, '')}")
        return found

    def _printed(self, paper: str, **chosen: Any) -> bytes:
        size = dict(zip(("paperWidth", "paperHeight"), PAPER[paper], strict=True))
        return base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", size | chosen)["data"])

    def picture(self, selector: str = "html", height: float = float("inf")) -> bytes:
        """Return what an element looks like as a PNG, the whole of it or its first pixels."""
        box = self.run(
            f"const r = document.querySelector('{selector}').getBoundingClientRect(); "
            "return {x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height}"
        )
        clip = box | {"height": min(box["height"], height), "scale": 1}
        found = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        return base64.b64decode(found["data"])


@contextmanager
def browser() -> Iterator[Browser]:
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.binary_location = next(filter(None, map(shutil.which, NAMES)), "")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        # Given the driver's path, selenium looks for none and downloads none.
        driver = webdriver.Chrome(options=options, service=Service(driver_path()))
        try:
            yield Browser(driver)
        finally:
            driver.quit()
