"""What every error of the Hub's client becomes."""

import json

import pytest
from huggingface_hub import errors
from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

from hf_lineage.errors import BranchMovedError, CheckpointError, LineageError, NetworkError, RepositoryError
from hf_lineage.hub import client
from hf_lineage.hub import errors as errors_module

REQUEST = httpx.Request("GET", "https://huggingface.co/api/models/fern/child")
CDN = "https://cdn.example/x"
MALFORMED = "m: this answer did not come from a Hub ({}); check HF_ENDPOINT and proxies, or run again later"
UNFETCHED = "m cannot be fetched from the Hub ({}); check the connection and try again"
REFUSED = (
    "m: the Hub refuses the change ({}): the branch does not exist, pull requests are disabled, or the account may not "
    "write there; check the permissions of HF_TOKEN"
)


def because(error, cause):
    error.__cause__ = cause
    return error


def answered(status, kind=errors.HfHubHTTPError):
    """An error with an answer, as the client raises it: some lines, and an address with a signature.

    The client puts empty lines before what the Hub says of 403 and 429.
    """
    text = f"\n\n{status} for url {CDN}?Signature=secret\nand more"
    return kind(text, response=httpx.Response(status, request=REQUEST))


GATED = "m is gated: request access on its page and set HF_TOKEN"
OIDC = (
    "m: the token for HF_OIDC_RESOURCE cannot be obtained (none here); give the job `permissions: id-token: write`, "
    "make it a trusted publisher on the Hub, or unset HF_OIDC_RESOURCE"
)
OFFLINE = "in the cache, or not completely, and HF_HUB_OFFLINE forbids requests; unset it, or download the model"
TOKEN = f"m: the Hub does not accept the token (401 for url {CDN}); correct HF_TOKEN or log in"
INVALID = because(ValueError("Invalid metadata.\n- is it odd? yes"), answered(400, errors.BadRequestError))
NO_CARD = "m: the Hub refuses README.md: Invalid metadata. - is it odd? yes; correct it and run again"
ACCOUNT = "m: writing needs an account; run `hf auth login` or set HF_TOKEN"
NO_REVISION = "m has no such revision on the Hub; check the part after the @"
PRIVATE = "m is not on the Hub, or is private; check the name, or set HF_TOKEN"

EITHER = [
    (errors.OIDCError("none here"), NetworkError, OIDC),
    (errors.HFValidationError("a@b"), RepositoryError, "m cannot be read from the Hub (a@b); check its name"),
    (httpx.InvalidURL("no port"), NetworkError, "m: the Hub has no valid address (no port); check HF_ENDPOINT"),
    (httpx.UnsupportedProtocol("ftp"), NetworkError, "m: the Hub has no valid address (ftp); check HF_ENDPOINT"),
    *(
        (error, NetworkError, MALFORMED.format(f"{type(error).__name__}: {reason}"))
        for error, reason in (
            (errors.FileMetadataError("no ETag"), "no ETag"), (KeyError("sha"), "'sha'"),
            (AttributeError("no id"), "no id"), (AssertionError(), "AssertionError"), (RecursionError("deep"), "deep"),
            (json.JSONDecodeError("no", "<", 0), "no: line 1 column 1 (char 0)"),
        )
    ),
]  # fmt: skip
READING = [
    (errors.OfflineModeIsEnabled("off"), RepositoryError, f"m is not {OFFLINE}"),
    (answered(403, errors.GatedRepoError), RepositoryError, GATED),
    (answered(404, errors.RevisionNotFoundError), RepositoryError, NO_REVISION),
    (answered(401, errors.RepositoryNotFoundError), RepositoryError, PRIVATE),
    (answered(401), RepositoryError, TOKEN),
    *((answered(status), NetworkError, UNFETCHED.format(f"{status} for url {CDN}")) for status in (408, 429, 500, 507)),
    *(
        (answered(status), RepositoryError, f"m cannot be read from the Hub ({status} for url {CDN}); check its name")
        for status in (400, 403, 404, 451)
    ),
    (ConnectionError("cut"), NetworkError, UNFETCHED.format("cut")),
    (OSError(28, "No space left on device"), NetworkError, UNFETCHED.format("[Errno 28] No space left on device")),
    (httpx.ConnectError("refused"), NetworkError, UNFETCHED.format("refused")),
    (httpx.ReadTimeout(""), NetworkError, UNFETCHED.format("ReadTimeout")),
    (client.UnfinishedError("half"), NetworkError, UNFETCHED.format("half")),
    (errors.LocalEntryNotFoundError("none"), NetworkError, UNFETCHED.format("none")),
    (because(errors.LocalEntryNotFoundError("none"), answered(403, errors.GatedRepoError)), RepositoryError, GATED),
    *EITHER,
]
WRITING = [
    (
        errors.OfflineModeIsEnabled("off"),
        RepositoryError,
        "m: nothing can be written, because HF_HUB_OFFLINE forbids requests; unset it",
    ),
    (errors.LocalTokenNotFoundError("none"), RepositoryError, ACCOUNT),
    (answered(412), BranchMovedError, "m: the branch changed during the check; run again"),
    *((answered(status), RepositoryError, REFUSED.format(status)) for status in (401, 403, 404)),
    (answered(403, errors.GatedRepoError), RepositoryError, REFUSED.format(403)),
    *(
        (answered(status), NetworkError, f"m: the Hub answers {status} ({status} for url {CDN}); run again later")
        for status in (400, 429, 500)
    ),
    (INVALID, RepositoryError, NO_CARD),
    (because(RuntimeError("x"), OSError("cut")), NetworkError, "m: the upload failed (cut); run again"),
    (RuntimeError("broken"), NetworkError, "m: the upload failed (broken); run again"),
    (httpx.ConnectError("refused"), NetworkError, "m: the Hub cannot be reached (refused); run again"),
    (OSError("cut"), NetworkError, "m: the Hub cannot be reached (cut); run again"),
    *EITHER,
]
UNLISTED = "m cannot be found on the Hub, because HF_HUB_OFFLINE forbids requests; unset it"
LISTING = [(errors.OfflineModeIsEnabled("off"), RepositoryError, UNLISTED), *READING[1:]]
EXAMPLES = {"reading": READING, "listing": LISTING, "writing": WRITING}


@pytest.mark.parametrize(
    ("request_", "error", "stands", "message"),
    [(request, *example) for request, examples in EXAMPLES.items() for example in examples],
    ids=lambda value: f"{type(value).__name__}" if isinstance(value, Exception) else "",
)
def test_an_error_of_the_client_becomes_one_line_of_ours(request_, error, stands, message):
    with pytest.raises(LineageError) as found, errors_module.translate_errors("m", request_):
        raise error
    assert (type(found.value), str(found.value)) == (stands, message)
    assert found.value.__suppress_context__


def test_what_is_none_of_the_clients_errors_passes_and_endpoint_and_proxy_are_named(monkeypatch):
    for error in (CheckpointError("damaged"), RepositoryError("gone"), MemoryError("no memory")):
        for request in EXAMPLES:
            with pytest.raises(type(error)) as passed, errors_module.translate_errors("m", request):
                raise error
            assert passed.value is error
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "https://me:secret@mirror.example")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@proxy.example")
    by = "by HF_ENDPOINT mirror.example and HTTPS_PROXY (cut);"
    for request, told in (
        ("reading", f"m cannot be fetched from the Hub {by} check the connection and try again"),
        ("writing", f"m: the Hub cannot be reached {by} run again"),
    ):
        with pytest.raises(LineageError) as raised, errors_module.translate_errors("m", request):
            raise ConnectionError("cut")
        assert str(raised.value) == told
