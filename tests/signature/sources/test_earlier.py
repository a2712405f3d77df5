"""A signature by an earlier recipe serves where the weights of a base are not to be had, and verifies nothing."""

import json
from dataclasses import asdict

import jsonschema
import pytest

from hf_lineage.report.json import SCHEMA
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.sources.published import FOLDER, file_name
from tests.conftest import LAYERS
from tests.models import WEIGHTS, card, tiny_llama
from tests.running import lineage
from tests.server import faults
from tests.signatures import BASE, CHILD, FILE, base_weights, check, digest, publish

FIRST = f"{FOLDER}/{file_name(RECIPES['robust-1'], 'mlp')}"
WHY = (
    "measured by the earlier recipe robust-1, the only one by which a signature of the base is published: it does not "
    "weigh dead units, so that how much is inherited is not known"
)


@pytest.fixture(autouse=True)
def nothing_cached(without_cache):
    """What is published is all there is: our own cache would come before it."""


@pytest.fixture
def earlier(server):
    """The base publishes a signature by the first version of the recipe, and none by the second."""
    publish(server, "--recipe", "robust-1")
    return server


def checked(*arguments, model=CHILD):
    """The whole report, valid by its schema."""
    report = json.loads(lineage("check", model, "--format", "json", *arguments).out)
    jsonschema.validate(report, json.loads(SCHEMA.read_text()))
    return report


def refuse_weights(server):
    """Let the Hub refuse the weights of the base, and nothing else of it."""
    server.hub.plan(faults.gated, f"{BASE}/resolve/{server.hub.commit(BASE, 'main')}/{WEIGHTS}", times=10**6)


class TestWhereWeightsCanBeHad:
    def test_the_weights_are_read_by_the_recipe_that_was_asked_for(self, earlier):
        claim, said = check()
        assert (claim["kind"], claim["signatures"]["base"]["kind"], said) == ("related", "weights", "")
        assert claim["recipe"] == asdict(RECIPES["robust"])

    def test_they_are_not_downloaded_if_the_user_forbids_it(self, earlier):
        earlier.hub.forget()
        report = checked("--published")
        (claim,) = report["claims"]
        assert (claim["verdict"], claim["kind"], claim["verified"], claim["reason"]) == (
            "RELATED", "unmeasured", False, WHY,
        )  # fmt: skip
        assert list(claim["signatures"]["base"]["files"]) == [FIRST]
        assert (report["exit_code"], base_weights(earlier.hub)) == (3, 0)

    def test_the_report_names_both_recipes(self, earlier):
        report = checked("--published")
        assert report["recipe"] == asdict(RECIPES["robust"])
        assert report["claims"][0]["recipe"] == asdict(RECIPES["robust-1"])

    def test_the_numbers_are_those_of_the_earlier_recipe(self, earlier):
        (claim,), (same,) = (
            checked(*arguments, "--budget", "full", "--order-seed", "1")["claims"]
            for arguments in (("--published",), ("--recipe", "robust-1"))
        )
        assert same["verified"]
        numbers = ("score", "p_value_adjusted", "inherited", "layers")
        assert [claim["paths"][0][name] for name in numbers] == [same["paths"][0][name] for name in numbers]

    def test_no_more_layers_of_the_model_are_read_than_by_that_recipe(self, earlier):
        read = [
            len(checked(*arguments, "--budget", "quick", "--order-seed", "1")["claims"][0]["paths"][0]["layers"])
            for arguments in (("--published",), ("--recipe", "robust-1"))
        ]
        assert read[0] == read[1] < LAYERS

    def test_with_one_by_the_recipe_itself_nothing_is_missing(self, earlier):
        publish(earlier)
        claim, said = check("--published")
        assert (claim["kind"], list(claim["signatures"]["base"]["files"]), said) == ("related", [FILE], "")

    def test_without_any_the_claim_cannot_be_verified(self, server):
        server.hub.forget()
        (claim,) = checked("--published")["claims"]
        assert (claim["verdict"], claim["reason"]) == (
            "UNVERIFIABLE",
            f"{BASE}: no signature of it that can be trusted is published, and --published forbids to download its "
            "weights; leave --published out",
        )
        assert base_weights(server.hub) == 0

    def test_one_that_is_not_trusted_is_not_used(self, server):
        server.account = "mallory"
        publish(server, "--recipe", "robust-1")
        (claim,) = checked("--published")["claims"]
        assert claim["verdict"] == "UNVERIFIABLE"

    def test_an_unrelated_model_stays_unrelated(self, earlier, tmp_path):
        other = tiny_llama(tmp_path / "other", seed=1, layers=LAYERS, width=64)
        earlier.hub.publish("fern/other", card(other, BASE))
        (claim,) = checked("--published", model="fern/other")["claims"]
        assert claim["verdict"] == "UNRELATED"


class TestRefusedWeights:
    def test_without_a_signature_there_is_nothing_to_compare(self, server):
        refuse_weights(server)
        (claim,) = checked()["claims"]
        assert (claim["verdict"], claim["reason"]) == (
            "UNVERIFIABLE", f"{BASE} is gated: ask for access on its page and set HF_TOKEN",
        )  # fmt: skip

    def test_the_earlier_signature_is_used_and_says_so(self, earlier):
        refuse_weights(earlier)
        (claim,) = checked()["claims"]
        assert (claim["kind"], claim["verified"], claim["reason"]) == ("unmeasured", False, WHY)
        assert claim["recipe"]["version"] == 1

    def test_one_by_the_recipe_itself_verifies_the_claim(self, published):
        whole = ("--budget", "full", "--order-seed", "1")
        expected = check(*whole)[0]["paths"][0]["score"]
        refuse_weights(published)
        claim, said = check(*whole)
        assert (claim["kind"], claim["paths"][0]["score"], said) == ("related", expected, "")
        assert claim["signatures"]["base"]["files"] == {FILE: digest(published)}

    def test_recompute_reads_the_weights_or_nothing(self, published):
        refuse_weights(published)
        (claim,) = checked("--recompute")["claims"]
        assert claim["verdict"] == "UNVERIFIABLE"

    @pytest.mark.parametrize("file", [WEIGHTS, "config.json"])
    def test_the_files_must_still_be_those_that_it_was_made_from(self, published, file):
        published.push(BASE, "main", {file: published.file(BASE, "main", file) + b"\n"})
        refuse_weights(published)
        (claim,) = checked()["claims"]
        assert claim["verdict"] == "UNVERIFIABLE"


class TestOthers:
    def test_parents_of_a_merge_are_not_verified_together_either(self, earlier, tmp_path):
        declared = b"---\nbase_model: [acme/base, acme/second]\nbase_model_relation: merge\n---\n"
        earlier.hub.publish("acme/second", earlier.hub.published[CHILD]["main"])
        earlier.push(CHILD, "main", {"README.md": declared})
        publish(earlier, "--recipe", "robust-1", model="acme/second")
        claims = checked("--published")["claims"]
        assert [claim["kind"] for claim in claims] == ["unmeasured", "unmeasured"]

    def test_a_stored_candidate_is_by_one_recipe_and_cannot_be_measured_by_another(self, earlier, tmp_path):
        for recipe, kind in (("robust", None), ("robust-1", "unmeasured")):
            file = tmp_path / f"{recipe}.lineage.safetensors"
            assert lineage("extract", CHILD, "--recipe", recipe, "-o", file).code == 0
            (claim,) = checked("--published", "--base", BASE, model=str(file))["claims"]
            assert claim["kind"] == kind
            assert kind or "is by robust; give the candidate's weights" in claim["reason"]

    def test_the_record_beside_a_card_names_the_recipe_and_how_to_measure_again(self, earlier):
        assert lineage("annotate", CHILD, "--published", "--write").code == 0
        (claim,) = json.loads(earlier.file(CHILD, "main", "lineage/claims.json"))["claims"]
        assert (claim["recipe"]["version"], claim["kind"], claim["verified"]) == (1, "unmeasured", False)
        assert "--published" in claim["command"].split()
        assert "Up to date already" in lineage("annotate", CHILD, "--published", "--write").out

    def test_several_versions_are_tried_the_latest_first(self):
        assert [recipe.version for recipe in RECIPES["robust"].earlier] == [1]
        assert RECIPES["robust-1"].earlier == RECIPES["paper"].earlier == ()

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            (
                "--recompute",
                "--recompute reads the weights, and --published forbids to download them; give one",
            ),
            ("--exact", "no signature of --exact is published; leave --published or --exact out"),
        ],
    )
    def test_what_contradicts_it_is_refused(self, option, message):
        outcome = lineage("check", CHILD, "--published", option)
        assert (outcome.code, outcome.err.strip()) == (2, f"hf-lineage: {message}")
