"""Watching a small Hub with the real client."""

import json

import pytest

from tests.models import WEIGHTS, card, fine_tuned, tiny_llama
from tests.server import faults
from tests.watching import ALWAYS, EVERY, entries, models, watch


def test_all_that_an_author_published_is_checked_the_oldest_first_and_a_liar_is_found(hub, ledger):
    result = watch(ledger)
    assert (result.code, result.err) == (1, "")
    assert [(row[0], row[1], row[-1]) for row in result.rows] == [
        ("fern/liar", "acme/base", "UNRELATED"),
        ("fern/child", "acme/base", "RELATED"),
    ]
    assert (
        "New models: 3 (1 without a claim, 0 in error). Claims: 1 RELATED, 1 UNRELATED, 0 undecided" in result.sentences
    )
    assert models(ledger) == EVERY


def test_an_entry_says_what_was_compared_at_which_commits_and_what_came_of_it(hub, ledger):
    watch(ledger)
    plain, child, _ = entries(ledger)
    assert (plain["claims"], plain["error"]) == ([], "")
    assert child["schema_version"] == 2
    assert (child["model"], child["commit"]) == ("fern/child", hub.commit("fern/child", "main"))
    assert child["changed"] == hub.dates["fern/child"].replace(".000", "")
    (claim,) = child["claims"]
    assert (claim["base"], claim["base_commit"]) == ("acme/base", hub.commit("acme/base", "main"))
    assert (claim["verdict"], claim["relation"], claim["sources"]) == ("RELATED", "finetune", ["README.md"])
    assert claim["score"] > 0.9
    assert claim["p_value_adjusted"] <= 0.01
    assert claim["command"] == (
        f"hf-lineage check fern/child@{child['commit']} --base acme/base@{claim['base_commit']}"
    )


def test_where_nothing_is_declared_no_weights_are_opened(hub, ledger):
    assert watch(ledger, "fern/plain").code == 0
    assert not hub.parts


def test_what_a_policy_accepts_returns_0_is_told_and_opens_no_issue(hub, ledger, tmp_path):
    policy = tmp_path / "policy.yaml"
    accepted = "{base: acme/base, verdict: UNRELATED, reason: distilled, expires: %s%s}"
    policy.write_text(f"accepted: [{accepted % ('2999-01-01', '')}]")
    assert watch(ledger, "fern", "--policy", policy).error == (
        f"{policy} accepts that acme/base is UNRELATED, but does not say of which model; add model: org/name"
    )
    policy.write_text(f"accepted: [{accepted % ('2999-01-01', ', model: fern/liar')}]")
    result = watch(ledger, "fern", "--policy", policy, "--issues", tmp_path / "issues")
    assert (result.code, [*(tmp_path / "issues").iterdir()]) == (0, [])
    assert [row[-1] for row in result.rows] == ["RELATED", "UNRELATED"]
    assert "fern/liar: accepted until 2999-01-01: distilled" in result.sentences
    policy.write_text(f"accepted: [{accepted % ('2020-01-01', ', model: fern/liar')}]")
    again = watch(ledger, "fern", "--policy", policy, "--issues", tmp_path / "issues")
    assert len([*(tmp_path / "issues").iterdir()]) == 1
    assert (
        "accepts for fern/liar that acme/base is UNRELATED until 2020-01-01, and that day has passed" in again.sentences
    )


def test_a_second_run_checks_what_is_new_and_nothing_else(hub, ledger, tmp_path):
    watch(ledger)
    hub.forget()
    again = watch(ledger)
    assert (again.code, again.out) == (
        0,
        "New models: 0 (0 without a claim, 0 in error). Claims: 0 RELATED, 0 UNRELATED, 0\n  undecided, 0 in error. "
        "Models already in the ledger: 1.\n",
    )
    assert hub.requests == ["GET /api/models"]
    hub.publish("fern/new", card(fine_tuned(tmp_path / "base", tmp_path / "new", seed=3), "acme/base"))
    assert watch(ledger).code == 0
    assert models(ledger) == ["fern/plain", "fern/child", "fern/liar", "fern/new"]


def test_a_new_commit_is_checked_again(hub, ledger, tmp_path):
    watch(ledger)
    hub.publish("fern/liar", card(fine_tuned(tmp_path / "base", tmp_path / "mended"), "acme/base"))
    assert watch(ledger).code == 0
    first, second = (entry for entry in entries(ledger) if entry["model"] == "fern/liar")
    assert first["commit"] != second["commit"]
    assert [entry["claims"][0]["verdict"] for entry in (first, second)] == ["UNRELATED", "RELATED"]


def test_a_change_without_a_commit_is_none(hub, ledger):
    watch(ledger)
    hub.dates["fern/child"] = "2026-11-20T00:00:00.000Z"
    assert watch(ledger).code == 0
    assert len(entries(ledger)) == 3


def test_a_limit_takes_the_oldest_and_leaves_the_rest_for_the_next_run(hub, ledger):
    result = watch(ledger, "fern", "--limit", "2")
    assert models(ledger) == ["fern/plain", "fern/child"]
    assert "Models left for the next run: 1." in result.sentences
    assert watch(ledger, "fern", "--limit", "2").code == 1
    assert models(ledger) == EVERY


def test_since_begins_there_even_if_the_ledger_goes_further(hub, ledger):
    for number, name in enumerate(("fern/plain", "fern/child", "fern/liar"), 10):
        hub.dates[name] = f"2026-11-{number}T00:00:00.000Z"
    watch(ledger, "fern", "--since", "2026-11-11")
    assert models(ledger) == ["fern/child", "fern/liar"]
    watch(ledger, "fern")
    assert len(models(ledger)) == 2
    watch(ledger, "fern", "--since", "2026-11-01")
    assert models(ledger) == ["fern/child", "fern/liar", "fern/plain"]


def test_one_model_by_name_does_not_stand_for_its_author(hub, ledger):
    assert watch(ledger, "fern/liar").code == 1
    watch(ledger)
    assert models(ledger) == ["fern/liar", "fern/plain", "fern/child"]


def test_a_model_that_was_renamed_goes_by_its_name_of_today(hub, ledger):
    hub.renamed["fern/former"] = "fern/child"
    assert watch(ledger, "fern/former", "fern/child").code == 0
    assert models(ledger) == ["fern/child"]
    watch(ledger, "fern/former")
    assert models(ledger) == ["fern/child"]


def test_a_model_that_cannot_be_read_is_an_entry_and_does_not_stop_the_others(hub, ledger, tmp_path):
    hub.refused["fern/child"] = (403, "GatedRepo")
    (tmp_path / "liar" / WEIGHTS).write_bytes(b"damaged")
    result = watch(ledger)
    assert result.code == 2
    assert [row[-1] for row in result.rows] == ["ERROR", "ERROR"]
    plain, child, liar = entries(ledger)
    assert plain["error"] == ""
    assert child["error"].endswith("is gated: request access on its page and set HF_TOKEN")
    assert liar["error"].startswith("fern/liar: model.safetensors")
    hub.refused.clear()
    assert watch(ledger).code == 0
    assert watch(ledger, "fern", "--again").code == 2
    assert models(ledger) == ["fern/plain", "fern/child", "fern/liar", "fern/child", "fern/liar"]
    assert entries(ledger)[3]["claims"][0]["verdict"] == "RELATED"


def test_a_file_that_cannot_be_fetched_is_an_entry(hub, ledger):
    hub.plan(faults.unavailable, "cdn/fern/child", times=ALWAYS)
    result = watch(ledger)
    assert (result.code, models(ledger)) == (2, EVERY)
    assert "503 Service Unavailable" in entries(ledger)[1]["error"]


def test_a_hub_that_is_gone_stops_the_run_and_what_was_done_is_kept(hub, ledger):
    def gone(right):
        hub.plan(faults.hung_up, times=ALWAYS)
        return faults.hung_up(right)

    hub.plan(gone, "cdn/fern/liar")
    result = watch(ledger)
    assert (result.code, models(ledger)) == (2, ["fern/plain", "fern/child"])
    assert "fern/liar cannot be fetched from the Hub" in result.sentences
    assert "Models left for the next run: 1." in result.sentences
    hub.faults.clear()
    assert watch(ledger).code == 1
    assert models(ledger) == EVERY


def test_a_repository_without_a_model_is_undecided_and_no_error(hub, ledger, tmp_path):
    (tmp_path / "data").mkdir()
    hub.publish("finch/data", card(tmp_path / "data", "acme/base"))
    result = watch(ledger, "finch")
    assert result.code == 3
    (entry,) = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert (entry["error"], [claim["verdict"] for claim in entry["claims"]]) == ("", ["UNVERIFIABLE"])


def test_a_hub_that_never_answers_is_one_line(hub, ledger):
    hub.plan(faults.hung_up, times=ALWAYS)
    assert watch(ledger).error.startswith("fern cannot be fetched from the Hub by HF_ENDPOINT ")
    assert not ledger.exists()


def test_an_author_without_models_is_said_and_the_others_are_checked(hub, ledger):
    result = watch(ledger, "nobody", "acme")
    assert (result.code, models(ledger)) == (2, ["acme/base"])
    assert "nobody has no public models on the Hub; check the name, or set HF_TOKEN" in result.sentences


ODD = {"id": "fern/x\n::error::owned\u202e", "sha": "0" * 40, "lastModified": "2026-11-30T00:00:00.000Z"}


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_what_can_be_no_model_is_said_on_one_line_and_left_out(hub, ledger, form):
    hub.odd = [ODD]
    result = watch(ledger, "fern", "--format", form)
    assert (result.code, models(ledger)) == (2, EVERY)
    assert "cannot be a model; it is left out" in result.sentences
    assert all(line.isprintable() for line in result.out.splitlines())


def test_hostile_cards_reach_nothing_unescaped(hub, ledger, tmp_path):
    names = ["x`|</td><script>", "::error::x\n::error::y", "\u202eedoc", "a" * 5000, "@team", "acme/base"]
    hub.publish("fern/odd", card(tiny_llama(tmp_path / "odd", seed=2), names))
    result = watch(ledger, "fern/odd", "--format", "markdown", "--issues", tmp_path / "issues")
    assert result.code == 1
    (issue,) = (tmp_path / "issues").iterdir()
    for text in (result.out, issue.read_text(), ledger.read_text()):
        assert all(line.isprintable() for line in text.splitlines())
        assert len(text) < 20_000
        assert not [line for line in text.splitlines() if line.startswith("::")]
    assert "<script>" not in result.out
    assert "@team" not in result.out


def test_a_dry_run_lists_what_would_be_checked_and_changes_nothing(hub, ledger, tmp_path):
    watch(ledger, "fern/plain")
    hub.forget()
    result = watch(ledger, "fern", "--dry-run")
    assert (result.code, [row[0] for row in result.rows]) == (0, ["fern/child", "fern/liar"])
    assert hub.requests == ["GET /api/models"]
    assert models(ledger) == ["fern/plain"]
    listed = json.loads(watch(ledger, "fern", "--dry-run", "--format", "json").out)
    assert [each["model"] for each in listed["to_check"]] == ["fern/child", "fern/liar"]


def test_json_has_the_new_entries_as_the_ledger_has_them(hub, ledger):
    watch(ledger, "fern", "--limit", "2")
    result = json.loads(watch(ledger, "fern", "--format", "json").out)
    assert result["entries"] == entries(ledger)[2:]
    assert (result["exit_code"], result["left"]) == (1, 0)
    assert result["counts"] == {"RELATED": 0, "UNRELATED": 1, "undecided": 0, "in error": 0}


def test_an_issue_is_written_for_what_the_ledger_last_saw_contradicted_whenever_it_is_asked_for(hub, ledger, tmp_path):
    watch(ledger)
    assert watch(ledger, "fern", "--issues", tmp_path / "issues").code == 0
    commit = hub.commit("fern/liar", "main")
    (issue,) = (tmp_path / "issues").iterdir()
    assert issue.name == f"fern--liar--{commit}.md"
    lines = issue.read_text().splitlines()
    assert lines[:2] == [f"Lineage contradicted: fern/liar @ {commit[:12]}", ""]
    base = hub.commit("acme/base", "main")
    assert f"    hf-lineage check fern/liar@{commit} --base acme/base@{base}" in lines
    hub.publish("fern/liar", card(fine_tuned(tmp_path / "base", tmp_path / "mended"), "acme/base"))
    watch(ledger, "fern", "--issues", tmp_path / "later")
    assert not list((tmp_path / "later").iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fern@main"], "fern@main is not an author or a model on the Hub; check the name"),
        (["../etc"], "../etc is not an author or a model on the Hub; check the name"),
        (["fern", "--null", "no/such"], "no/such is not on the Hub, or is private"),
        (["fern", "--local-hub", "gone"], "gone is not a folder, so it cannot be a local hub; check --local-hub"),
        (["fern", "--limit", "0"], "'--limit': 0 is not in the range x>=1"),
        (["fern", "--since", "yesterday"], "'--since': 'yesterday' does not match the format"),
        (["fern", "--set", "alpha=7"], "alpha must lie between"),
    ],
    ids=str,
)
def test_what_would_be_wrong_with_every_model_is_one_line_and_no_entry(hub, ledger, arguments, message):
    assert message in watch(ledger, *arguments).error
    assert not ledger.exists()


def test_bases_may_be_in_a_local_hub_and_watched_models_are_those_of_the_hub(hub, ledger, tmp_path):
    tiny_llama(tmp_path / "here/acme/base", seed=1)
    tiny_llama(tmp_path / "here/fern/liar", seed=3)
    result = watch(ledger, "fern/liar", "--local-hub", tmp_path / "here")
    assert result.code == 0
    assert result.err == f"hf-lineage: fern/liar is watched on the Hub; {tmp_path}/here is searched only for bases\n"
