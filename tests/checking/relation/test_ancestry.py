"""Licences are told along the descent of a model, and no card leads the check anywhere else."""

import datetime
import shutil

import pytest

from hf_lineage import Options, check
from hf_lineage.checking.relation.ancestry import AWAY, MANY, MOST
from hf_lineage.checking.results.policies import under
from hf_lineage.evidence.verdict import ExitCode
from hf_lineage.policy.policy import REFUSED, Policy
from hf_lineage.report import FORMATS
from tests.licences import chain, licensed
from tests.models import card, tiny_llama

TODAY = datetime.date(2026, 11, 25)


__all__ = ["chain"]


def checked(hub, model="wren/grandchild", bases=(), **more):
    return check(model, bases, Options(local_hub=hub, order_seed=0, **more))


def told(report, form="text"):
    return " ".join(FORMATS[form](report, False).split())


def behind(report):
    return report.rows[0].ancestors[1:]


def test_files_that_are_there_are_not_missed(chain):
    for file in ("LICENCE.md", "Notice"):
        (chain / "wren/grandchild" / file).write_text("x")
    report = checked(chain)
    assert [one.missing for one in report.rows[0].ancestors] == [(), ()]
    assert "does not have" not in told(report)


def test_a_file_that_the_base_has_is_missed_whatever_its_licence_asks_for(hub):
    licensed(hub / "acme/base", "license: apache-2.0\n", None, "NOTICE")
    assert "that base has a file NOTICE, and the model has none" in told(checked(hub, "fern/child"))


def test_a_base_that_nothing_of_the_model_declares_is_told(hub):
    licensed(hub / "acme/base", "license: mit\n", None, "LICENSE")
    licensed(hub / "fern/child", "license: apache-2.0\n")
    report = told(checked(hub, "fern/child", ["acme/base"]))
    assert (
        "apache-2.0 for the model, mit for the base; the two differ, read both; it asks for a copy of its text "
        "(LICENSE), which the model does not have; no file of the model declares this base"
    ) in report
    card(hub / "fern/child", "acme/base")
    assert "no file of the model" not in told(checked(hub, "fern/child", ["acme/base"]))


def test_weights_of_those_behind_are_compared_where_it_is_asked_for(chain):
    tiny_llama(chain / "otter/other", seed=5)
    licensed(chain / "fern/child", "license: mit\n", ["acme/base", "otter/other"])
    licensed(chain / "otter/other", "license: mit\n", "acme/nobody")
    base, other = behind(checked(chain, ancestors=True))
    assert (base.verdict, other.verdict) == ("RELATED", "UNRELATED"), "and what an unrelated one declares is not read"
    assert "the model is UNRELATED to it" in told(checked(chain, ancestors=True))


def test_a_circle_of_declarations_ends(chain):
    licensed(chain / "acme/base", "license: gemma\n", ["wren/grandchild", "fern/child", "acme/base"])
    assert [one.name for one in behind(checked(chain))] == ["acme/base"]


def test_few_of_many_bases_are_followed(chain):
    for number in range(12):
        shutil.copytree(chain / "acme/base", chain / f"many/base-{number}")
    licensed(chain / "fern/child", "license: mit\n", [f"many/base-{number}" for number in range(12)])
    ancestors = behind(checked(chain))
    assert [one.problem for one in ancestors] == [""] * MOST + [MANY]


def test_for_models_on_this_machine_nothing_is_asked_of_the_hub(chain, online):
    licensed(chain / "fern/child", "license: mit\n", ["acme/llama-base", "/etc", "../../etc"])
    online.requests.clear()
    ancestors = behind(checked(chain))
    assert ancestors[0].problem == AWAY
    assert all(one.problem for one in ancestors), "a card names no folder"
    assert online.requests == []


def test_what_cannot_be_read_of_one_behind_is_told_and_costs_no_verdict(chain):
    licensed(chain / "fern/child", "license: mit\n", "acme/gone")
    report = checked(chain, ancestors=True)
    assert "no licence of it was read: " in told(report)
    assert report.exit_code is ExitCode.RELATED


def test_a_card_that_cannot_be_read_declares_nothing(chain):
    (chain / "acme/base/README.md").write_text("---\nbase_model: [\n---\n")
    assert [(one.name, one.licence) for one in behind(checked(chain))] == [("acme/base", None)]


def test_on_the_hub_the_small_files_of_those_behind_are_read_and_no_weights(online, tmp_path):
    shutil.copytree("examples/hub/fern/llama-finetune-a", tmp_path / "model")
    online.publish("wren/model", card(tmp_path / "model", "fern/llama-finetune-a"))
    report = check("wren/model", options=Options(order_seed=0))
    (base,) = behind(report)
    assert (base.name, base.licence.identifier) == ("acme/llama-base", "apache-2.0")
    weights = [one for one in online.requests if "acme/llama-base" in one and "safetensors" in one]
    assert [one for one in weights if "index.json" not in one] == []


def policed(hub, model="wren/grandchild", **asked):
    return under(checked(hub, model), Policy("p.yaml", **asked), TODAY)


def test_a_policy_says_which_licences_pass_along_the_whole_descent(chain):
    assert policed(chain, licences=("mit", "apache-2.0", "gemma")).status is ExitCode.RELATED
    report = policed(chain, licences=("mit", "apache-2.0"))
    assert (report.status, report.exit_code) == (ExitCode.UNDECIDED, ExitCode.RELATED)
    assert report.rows[0].unmet == ("the policy asks for the licence mit or apache-2.0, but acme/base states gemma",)


def test_a_policy_says_whether_the_files_have_to_be_there(chain):
    report = policed(chain, licence_files=REFUSED)
    assert report.status is ExitCode.UNDECIDED
    assert report.rows[0].unmet[-1] == (
        "the policy asks for the files of licences, but the model lacks LICENSE and NOTICE of acme/base"
    )
    for file in ("LICENSE", "NOTICE"):
        (chain / "wren/grandchild" / file).write_text("x")
    assert policed(chain, licence_files=REFUSED).status is ExitCode.RELATED


@pytest.mark.parametrize(
    "licence", ["", "license: [mit, gpl-3.0]\n", "license: other\nlicense_name: ours\n", "license: m\u0456t\n"]
)
def test_what_no_card_states_or_another_one_does_not_pass(licence, chain):
    licensed(chain / "acme/base", licence)
    assert policed(chain, licences=("mit", "apache-2.0")).status is ExitCode.UNDECIDED


def test_what_cannot_be_followed_does_not_pass(chain):
    licensed(chain / "fern/child", "license: mit\n", "meta/away")
    report = policed(chain, licences=("mit", "apache-2.0"))
    assert report.rows[0].unmet == ("the policy asks for the licence mit or apache-2.0, but meta/away states none",)
