"""What an index knows of the base of an adapter: every sentence fits, and no name leaves its line."""

import json
from dataclasses import replace

from hf_lineage.checking.results.claim_result import NAMED, Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.judging.adapter_verdict import judge_trace
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.index.search.catalogue_test import FOLDER, AdapterBases, Group, Judged
from hf_lineage.index.storage.shard import Entry
from hf_lineage.report.single.bases import FORMATS, untested
from tests.example_evidence import trace
from tests.pages import HOSTILE

CLAIM = Claim("org/base", None, NAMED)


def entry(name):
    return Entry(name, "c0ffee", "mlp", 96, 6, "robust")


def bases(name="org/base", near=2, observed=4.0):
    tested = (
        Judged(Group(entry(name), tuple(entry(f"near/{number}") for number in range(near))),
               Row(CLAIM, judge_trace(trace(observed), Criteria()))),
        Judged(Group(entry(f"x/{name}"), ()), Row(CLAIM, Verdict(Code.NO_BASE, f"{name} is gone"))),
    )  # fmt: skip
    return AdapterBases(name, None, "", f"{name}: a LoRA adapter", (96,), tested, tests=2, fitting=9, untested=3, of=20)


def words(*results):
    return " ".join(FORMATS["text"](results, None).split())


def test_a_base_is_told_with_those_near_it():
    shown = words(bases())
    assert "Made with org/base or with a near relative of it; the trace does not say which one; near/0, near/1" in shown
    assert "x/org/base: org/base is gone" in shown
    assert "9 of 20 models in the index have a stream 96 wide, as the adapter needs" in shown
    assert "each for those near it: 1; not tested: 4 (--top); p is corrected for 2" in shown


def test_folders_of_an_index_were_not_tested_and_each_has_the_command_that_tests_it():
    folders = (Judged(Group(entry("./base"), (entry("./ft"),)), Row(CLAIM, Verdict(Code.UNSUPPORTED, FOLDER))),)
    result = replace(bases(), tested=folders, untested=0)
    shown = " ".join(FORMATS["text"]([result], "hf-lineage check ./lora --base {}".format).split())
    assert (
        "hf-lineage never opens folders that an index names; `hf-lineage check ./lora --base ./base` tests it" in shown
    )
    assert "each for those near it: 0; not tested: 2 No base was found: a model that was not tested may be it" in shown
    assert json.loads(FORMATS["json"]([result], None))["adapters"][0]["untested"] == 2


def test_nobody_is_told_to_have_trained_on_a_base_of_which_a_weak_trace_shows():
    shown = words(bases(observed=2.0))
    assert (
        "org/base: the adapter shows a trace of this base, but a weak one: the effect is 5.2 standard deviations"
        in shown
    )
    assert "Trained on" not in shown


def test_who_was_not_tested_is_named_up_to_five_and_then_counted_and_stays_in_its_line():
    one, seven, hostile = (Group(entry("a"), tuple(map(entry, near))) for near in (["a/b"], "1234567", [HOSTILE]))
    assert untested(Group(entry("a"), ())) == ""
    assert untested(one) == "a/b is near it by its keys, and was not tested"
    assert untested(seven).startswith("1, 2, 3, 4, 5 and 2 more are near it by their keys")
    assert untested(hostile).isprintable()


def test_p_is_corrected_for_all_that_were_tested():
    first, second = json.loads(FORMATS["json"]([bases()], None))["adapters"][0]["tested"]
    assert first["p_value_adjusted"] == 2 * 0.001
    assert (first["code"], second["p_value_adjusted"], second["code"]) == ("adapter", None, "no-base")
    assert [one["model"] for one in first["near"]] == ["near/0", "near/1"]


def test_an_adapter_that_cannot_be_tested_has_its_reason():
    shown = words(AdapterBases("org/x", None, "a/b", "it has no weights"))
    assert shown == "org/x (a/b) it has no weights No known model was tested"


def test_no_line_is_longer_than_80_columns_and_no_name_leaves_it():
    shown = FORMATS["text"]([bases(HOSTILE)], None)
    assert all(len(line) <= 80 or "mmmm" in line for line in shown.splitlines()[1:])
    assert all(line.isprintable() for line in shown.splitlines())
