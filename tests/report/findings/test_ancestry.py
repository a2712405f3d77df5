"""Licences of bases behind a base are told in words, and what strangers wrote into cards is no markup."""

import json

import jsonschema
import pytest

from hf_lineage import Options, check
from hf_lineage.evidence.verdict import ExitCode
from hf_lineage.report import FORMATS
from hf_lineage.report.formats.json import SCHEMA
from tests.hostile import NAMES, traces
from tests.licences import chain, licensed

__all__ = ["chain"]


def checked(hub):
    return check("wren/grandchild", options=Options(local_hub=hub, order_seed=0))


def told(report):
    return " ".join(FORMATS["text"](report, False).split())


def test_the_base_of_the_base_is_told_with_what_its_licence_asks_for(chain):
    report = checked(chain)
    assert (
        "fern/child: licence as the cards state it: apache-2.0 for the model, mit for the base; the two differ, read "
        "both; it asks for a copy of its text (LICENSE), which the model does not have. This is a note, not legal "
        "advice fern/child: fern/child declares the base acme/base (nobody compared its weights); licence as its card "
        "states it: gemma; it asks for a copy of its text (LICENSE), which the model does not have; it asks for a file "
        "NOTICE, which the model does not have. This is a note, not legal advice"
    ) in told(report)
    assert report.exit_code is ExitCode.RELATED


@pytest.mark.parametrize("form", ["text", "markdown", "html", "sarif"])
@pytest.mark.few(3)
def test_names_and_licences_of_strangers_are_no_markup(form, chain):
    hostile = "".join(f"\\U{ord(c):08x}" if not c.isalnum() else c for c in "".join(NAMES))
    licensed(chain / "acme/base", f'license: "{hostile}"\nlicense_name: "{hostile}"\n')
    (chain / "acme/base/LICENSE<script>alert(1)").write_text("x")
    assert not [
        one for one in traces(FORMATS[form](checked(chain), False)) if one.startswith(("<script>a", "::", "##"))
    ]


def test_machines_get_each_of_them_with_the_base(chain):
    document = json.loads(FORMATS["json"](checked(chain), False))
    jsonschema.validate(document, json.loads(SCHEMA.read_text("utf-8")))
    base, behind = document["claims"][0]["findings"]["ancestry"]["values"]
    assert (base["model"], base["license"]["license"], base["missing_files"]) == ("fern/child", "mit", ["LICENSE"])
    assert behind == {
        "model": "acme/base", "declared_by": "fern/child", "verdict": None, "problem": "",
        "license": {"license": "gemma", "name": None, "link": None}, "missing_files": ["LICENSE", "NOTICE"],
    }  # fmt: skip
