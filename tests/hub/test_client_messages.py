"""What the Hub's client logs while it works for us is translated, and at any other time it is left alone."""

import logging
import threading
from dataclasses import replace

import pytest

from hf_lineage.hub import client
from hf_lineage.hub.client import translated_messages
from tests.invoking import process
from tests.server import faults
from tests.server.client import remote

LOGGER = logging.getLogger("huggingface_hub.utils._http")
ADVICE = "You are sending unauthenticated requests to the HF Hub. Please set a HF_TOKEN to enable higher rate limits."
REAL = "Could not reach the Hub (timed out).\nUsing cached commit hash for 'a/b'. ::error::x"


@pytest.mark.parametrize("source", client.SOURCES)
def test_a_real_warning_is_one_line_and_advice_is_none(source, caplog):
    logger = logging.getLogger(f"huggingface_hub.{source}")
    with translated_messages():
        for message in (ADVICE, "HTTP Error 503 thrown while requesting GET x", "Retrying in 1s [Retry 1/5].", REAL):
            logger.warning(message)
    assert caplog.messages == [
        "the client of the Hub says: Could not reach the Hub (timed out). Using cached commit hash for 'a/b'. "
        r":\x3aerror:\x3ax"
    ]


def test_before_and_afterwards_the_client_says_what_it_says(caplog):
    LOGGER.warning(ADVICE)
    with translated_messages(), translated_messages():
        pass
    LOGGER.warning("%s", REAL)
    assert caplog.messages == [ADVICE, REAL]


def test_another_request_that_ends_earlier_changes_nothing(caplog):
    with translated_messages():
        other = threading.Thread(target=lambda: client.ask("a/b", lambda: None))
        other.start()
        other.join()
        LOGGER.warning(ADVICE)
    assert caplog.messages == []


def test_the_client_has_a_logger_of_each_of_these_names():
    import huggingface_hub.file_download
    import huggingface_hub.hf_api

    modules = ("_snapshot_download", "file_download", "hf_api", "utils._http")
    assert modules == client.SOURCES
    for module in (huggingface_hub.file_download, huggingface_hub.hf_api):
        assert module.logger.name.removeprefix("huggingface_hub.") in client.SOURCES


def test_nothing_of_the_client_reaches_standard_error(served, tmp_path):
    """The advice that the Hub sends with an answer, and a temporary failure that the client repeats itself."""
    advising = {"X-HF-Warning": f"unauthenticated; {ADVICE}"}
    served.plan(lambda right: replace(right, headers={**right.headers, **advising}), "GET hub/api/models/fern")
    served.plan(faults.unavailable, "HEAD hub/fern")
    result = process("check", "fern/llama-finetune-a", env=remote(served, tmp_path / "home"))
    assert (result.code, result.err) == (0, "")
    assert not [fault for fault in served.faults if fault.left]
