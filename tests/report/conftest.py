"""Fixtures for the tests that open pages in a real browser: one window for all of them, and the checker of pages."""

import os

import pytest

from tests.browser import MISSING, browser, driver_path
from tests.whole import axe


@pytest.fixture(scope="session")
def window():
    if driver_path() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING)
    with browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def checker():
    """The script that looks for what keeps people from reading a page."""
    return axe()
