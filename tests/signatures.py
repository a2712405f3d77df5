"""Signatures on the small Hub: published, and what a check makes of them."""

import hashlib
import json
import logging
from io import StringIO

from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.sources.published import FOLDER, file_name
from hf_lineage.signature.sources.store import load_signature
from tests.invoking import lineage
from tests.models import WEIGHTS

BASE, CHILD, STORE = "acme/base", "fern/child", "lib/signatures"
FILE = f"{FOLDER}/{file_name(RECIPES['robust'], 'mlp')}"


def publish(server, *arguments, model=BASE):
    """Propose what `extract --push` does, and merge it."""
    found = lineage("extract", model, "--push", *arguments)
    assert found.code == 0, found.err
    where = arguments[arguments.index("--to") + 1] if "--to" in arguments else model
    number = len(server.proposals)
    server.hub.published[where]["main"] = server.hub.published[where][f"refs/pr/{number}"]
    server.proposals[number - 1]["status"] = "merged"
    return found.out


def check(*arguments, model=CHILD):
    """What a check says, and what it says besides."""
    notes = StringIO()
    handler, logger = logging.StreamHandler(notes), logging.getLogger("hf_lineage")
    logger.addHandler(handler)
    found = lineage("check", model, "--format", "json", "--set", "permutations=199", *arguments)
    logger.removeHandler(handler)
    assert found.code in (0, 1), found
    (claim,) = json.loads(found.out)["claims"]
    return claim, found.err + notes.getvalue()


def used(*arguments, **kwargs):
    """Where the numbers of base and model came from, without a word on standard error."""
    claim, said = check(*arguments, **kwargs)
    assert said == ""
    assert claim["verdict"] == "RELATED"
    return tuple(claim["signatures"][who]["kind"] for who in ("base", "model"))


def refused(*arguments, **kwargs):
    """Why what is published was not used; the weights were, and said what they say."""
    claim, said = check(*arguments, **kwargs)
    assert claim["signatures"]["base"]["kind"] == "weights"
    assert claim["verdict"] == "RELATED"
    assert said.count("\n") == 1, said
    return said.strip()


def base_weights(hub):
    """Bytes of the base's weights that were sent, besides headers."""
    return sum(part.stop - part.start for part in hub.parts if part.file == f"{BASE}/{WEIGHTS}" and part.start)


def digest(server, name=BASE, file=FILE):
    return hashlib.sha256(server.file(name, "main", file)).hexdigest()


def trusting(own_files, *pins, **others):
    file = own_files / "config/hf-lineage/trust.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"pinned": list(pins)} | others))
    return file


def pin(server, **changes):
    signature = load_signature(server.hub.published[BASE]["main"] / FILE)
    return {"model": BASE, "commit": signature.commit, "sha256": digest(server)} | changes
