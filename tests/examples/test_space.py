"""The Space in a real browser, against a Hub on this machine."""

import os
import re
import subprocess

import pytest
import yaml
from huggingface_hub import SpaceCardData
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from hf_lineage import __version__
from tests import hostile
from tests.browser import MISSING, browser, driver_path
from tests.examples import spaces
from tests.github import ROOT
from tests.models import SMALL, tiny_llama
from tests.server import serving
from tests.server.client import remote

SPACES = sorted((ROOT / "examples").glob("*/requirements.txt"))
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if "==" in line)
READY = "Running on local URL"


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    model = tiny_llama(tmp_path_factory.mktemp("hub") / "hostile")
    (model / "README.md").write_text(hostile.card((*hostile.NAMES, "{{value}}${window.hacked=1}")), encoding="utf-8")
    with serving() as running:
        for name, folder in SMALL.items():
            running.publish(name, folder)
        running.publish("fern/hostile", model)
        yield running


@pytest.fixture(scope="module")
def space(hub, tmp_path_factory):
    room = tmp_path_factory.mktemp("space")
    files = {"LINEAGE_CACHE": str(room), "GRADIO_TEMP_DIR": str(room / "uploads")}
    env = remote(hub, room, HF_TOKEN="hf_averysecrettoken", **files)
    with spaces.running("space/app.py", READY, env, room / "log") as server:
        yield server


@pytest.fixture(scope="module")
def window(space):
    if driver_path() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING)
    with browser() as opened:
        yield Window(space.url, opened)


class Window:
    """A browser that shows the Space."""

    def __init__(self, url, opened):
        self.url, self.browser, self.driver = url, opened, opened.driver

    def until(self, condition):
        return WebDriverWait(self.driver, spaces.SECONDS).until(condition)

    def open(self, query):
        """Open the Space with names in its address, and wait until they are in their fields."""
        self.driver.get_log("performance")
        self.driver.get(f"{self.url}/?{query}")
        self.until(lambda driver: driver.find_elements(By.CSS_SELECTOR, "#model input, #model textarea"))
        expected = [part.partition("=")[2] for part in query.split("&")]
        self.until(lambda driver: [name for name in self.names() if name] == expected)

    def names(self):
        return [
            self.driver.find_element(By.CSS_SELECTOR, f"#{name} input, #{name} textarea").get_attribute("value")
            for name in ("model", "base")
        ]

    def press(self, selector):
        """Press the button, and return the first element that the answer has of this kind."""
        self.driver.find_element(By.ID, "check").click()
        return self.until(lambda driver: next(iter(driver.find_elements(By.CSS_SELECTOR, selector)), None))

    def report(self):
        """The text and the classes of the report in its frame."""
        self.driver.switch_to.frame(self.press("#report iframe"))
        body = self.driver.find_element(By.TAG_NAME, "body")
        text = body.text
        self.driver.switch_to.default_content()
        return text


@spaces.needed
class TestInABrowser:
    def test_two_named_models_become_the_page_about_them(self, window, hub):
        window.open("model=fern/llama-finetune-a&base=acme/llama-base")
        text = window.report()
        assert "fern/llama-finetune-a" in text
        assert re.search(r"\bRELATED\n", text)
        assert hub.tokens <= {""}, "the token of the Space is no visitor's"
        assert [url for url in window.browser.requests() if not url.startswith((window.url, "data:", "about:"))] == []

    def test_hostile_names_are_text_in_a_frame_without_rights(self, window):
        window.open("model=fern/hostile")
        text = window.report()
        assert "{{value}}${window.hacked=1}" in text
        frame = window.driver.find_element(By.CSS_SELECTOR, "#report iframe")
        assert frame.get_attribute("sandbox") == ""
        assert window.browser.run("return [window.hacked, document.querySelectorAll('#report script').length]") == [
            None,
            0,
        ]

    def test_what_is_no_model_is_said_in_words(self, window):
        window.open("model=<img/src=x>")
        assert "is no name of the Hub" in window.press("#report [role=alert]").text


@spaces.needed
class TestStrangers:
    """Who asks the Space without a browser."""

    @pytest.mark.parametrize(
        "path", ["upload", "process_recording", "run/checked", "call/checked", "component_server", "vibe-code"]
    )
    def test_nothing_but_the_form_takes_a_body_and_no_file_is_kept(self, space, path):
        assert spaces.ask(space, f"/gradio_api/{path}", **spaces.UPLOAD)[0] == 404
        assert spaces.kept(space.log.parent / "uploads") == []

    def test_the_form_is_read_up_to_a_limit(self, space):
        """The first lines are answered, although the 200 MB that they speak of never come."""
        assert spaces.ask(space, "/gradio_api/queue/join", length=200 * 10**6)[0] == 413
        assert spaces.ask(space, "/gradio_api/queue/join", b" " * 10**5)[0] == 413

    def test_a_form_that_is_none_is_answered_without_a_word_of_it(self, space):
        answer = spaces.ask(space, "/gradio_api/queue/join", b'{"secret words": 1}')
        assert answer == (422, b'{"error": "this cannot be answered"}')

    def test_the_results_of_so_many_visitors_are_kept_and_of_no_more(self):
        """Whoever never fetches them would have Gradio keep some of them for ever."""
        script = (
            "import app; q = app.demo._queue\n"
            "for kept in (q.pending_messages_per_session, q.pending_event_ids_session):\n"
            "    for number in range(1000): kept[str(number)] = set()\n"
            "    print(len(kept))"
        )
        done = subprocess.run(
            [spaces.gradio(), "-c", script], cwd=ROOT / "examples/space", capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == ["200", "200"]


@pytest.mark.parametrize("file", SPACES, ids=lambda file: file.parent.name)
class TestFiles:
    def test_the_front_matter_is_what_the_hub_takes(self, file):
        front = yaml.safe_load((file.parent / "README.md").read_text("utf-8").split("---\n")[1])
        assert SpaceCardData(**front).to_dict() == front
        assert front["sdk"] == "gradio"
        assert (file.parent / front["app_file"]).exists()
        assert len(front["short_description"]) <= 60
        assert {front["colorFrom"], front["colorTo"]} <= {
            "red",
            "yellow",
            "green",
            "blue",
            "indigo",
            "purple",
            "pink",
            "gray",
        }

    def test_what_it_installs_is_pinned_to_what_it_is_tested_with(self, file):
        front = yaml.safe_load((file.parent / "README.md").read_text("utf-8").split("---\n")[1])
        lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("#")]
        pins = dict(line.split("==") for line in lines if "==" in line)
        assert [line for line in lines if "==" not in line] == [
            f"hf-lineage @ https://github.com/hf-lineage/hf-lineage/archive/refs/tags/v{__version__}.tar.gz"
        ]
        assert front["sdk_version"] == PINS["gradio"]
        assert pins == {name: PINS[name] for name in pins}


def test_there_are_two_spaces():
    assert [file.parent.name for file in SPACES] == ["space", "webhook"]
