"""A report as a whole, and a policy on it, which counts where whoever checks asks for it."""

import datetime
import os
from dataclasses import replace
from pathlib import Path

import pytest

from hf_lineage import Options
from hf_lineage.checking.report import FILE, OWN, Combination, Report, apply_policy, find_policy, read_policy
from hf_lineage.checking.result import NAMED
from hf_lineage.errors import CheckpointError, OptionError
from hf_lineage.evidence.merge import Blend, BlendPlace, Share, Shares
from hf_lineage.evidence.relation import Derivation, Means
from hf_lineage.evidence.verdict import Code, ExitCode
from hf_lineage.hub.repo import RepoRef
from hf_lineage.policy import LARGEST, Policy, Waiver
from tests.pages import HOSTILE, measured, report, row

TODAY = datetime.date(2026, 11, 22)
LATER, PAST = datetime.date(2027, 1, 1), datetime.date(2026, 1, 1)
NONE = row("org/base", mlp=measured(score=0.005, p=0.5, share=0.0))
SOME = row("org/base", mlp=measured(share=0.3))
MOST = row("org/base", mlp=measured())


def plain(*rows):
    return Report("org/model", None, rows, (), Options())


def test_a_report_has_its_time_and_the_code_of_its_worst_row_and_is_one_line():
    before = datetime.datetime.now(datetime.UTC)
    assert before <= plain().checked_at <= datetime.datetime.now(datetime.UTC)
    assert plain().command == "check"
    good, bad = row(mlp=measured()), row("org/other", mlp=measured(score=0.0, p=0.5))
    codes = [plain(*rows).exit_code for rows in ((good,), (good, bad), ())]
    assert codes == [ExitCode.VERIFIED, ExitCode.UNRELATED, ExitCode.UNDECIDED]
    other = row("a/b", mlp=measured(score=0.01, p=0.4, share=0.0))
    assert repr(plain(*[other] * 7)).endswith(f"{', '.join(['a/b is UNRELATED'] * 5)} and 2 more>")
    assert "\n" not in repr(plain(row(HOSTILE, mlp=measured())))
    with pytest.raises(OptionError, match=r"there is no format 'pdf'; the formats are text, json, markdown"):
        plain().to_format("pdf")


def test_a_parent_that_gave_a_part_and_is_not_named_is_undeclared():
    """A share alone makes nobody a parent."""
    share, both = Share(0.5, 0.49, 0.51, {}, detected=True), (BlendPlace.BLEND, BlendPlace.BLEND)
    others = [(made, made) for made in BlendPlace if made not in (BlendPlace.BLEND, BlendPlace.SHARED)]
    cases = [(both, (True, False), ("b",)), (both, (True, True), ()), *((made, (False, False), ()) for made in others)]
    for made, named, undeclared in cases:
        blend = Blend(Shares((share, share), 0.0), {}, 1.0, 1.0, made)
        assert Combination(("a", "b"), blend, named).undeclared == undeclared


def waiving(kind=Code.UNRELATED, expires=LATER, **more):
    return Policy("p.yaml", (Waiver("org/base", kind, "distilled", expires),), **more)


def here(folder, text=None):
    if text is not None:
        (folder / FILE).write_text(text)
    return lambda: RepoRef("here", folder)


def test_an_accepted_finding_returns_0_and_stays_what_it_is_until_it_expires():
    judged = apply_policy(report(NONE), waiving(), TODAY)
    assert (judged.status, judged.exit_code) == (ExitCode.VERIFIED, ExitCode.UNRELATED)
    assert (judged.rows[0].verdict, judged.rows[0].waiver) == (NONE.verdict, waiving().accepted[0])
    assert judged.notes == ()
    judged = apply_policy(report(NONE), waiving(expires=PAST), TODAY)
    said = "p.yaml accepts that org/base is UNRELATED until 2026-01-01, and that day has passed; this check found the"
    assert (judged.status, judged.rows[0].waiver, judged.notes) == (ExitCode.UNRELATED, None, (f"{said} same again",))
    for kind in (Code.INCONCLUSIVE, Code.PART, Code.DAMAGED):
        judged = apply_policy(report(NONE), waiving(kind), TODAY)
        said = f"p.yaml accepts that org/base is {kind.label}, but this check did not find it; remove the entry if it"
        assert (judged.status, judged.notes) == (ExitCode.UNRELATED, (f"{said} is settled",))
    other = replace(NONE, claim=replace(NONE.claim, base="org/other"))
    assert apply_policy(report(NONE, other), waiving(), TODAY).status is ExitCode.UNRELATED, "one claim hides no other"


def test_what_fails_is_said_by_the_policy():
    for rows, policy, status in (
        ([SOME], waiving(Code.PART), ExitCode.VERIFIED),
        ([SOME], Policy(), ExitCode.UNDECIDED),
        ([SOME], Policy(fail_on="unrelated"), ExitCode.VERIFIED),
        ([NONE], Policy(fail_on="never"), ExitCode.VERIFIED),
        ([], Policy(fail_on="unrelated"), ExitCode.VERIFIED),
    ):
        assert apply_policy(report(*rows), policy, TODAY).status is status


def test_a_relation_that_is_asked_for_has_to_be_declared_and_to_be_seen():
    policy = Policy("p.yaml", relations=("quantized",), fail_on="unrelated")
    judged = apply_policy(report(MOST), policy, TODAY)
    assert judged.status is ExitCode.UNDECIDED
    assert judged.rows[0].unmet == ("the policy asks for the relation quantized, but the claim declares finetune",)

    class Trained(Derivation):
        means = (Means.DENSE,)
        words = "changed in full"

    declared = replace(MOST, claim=replace(MOST.claim, relation="quantized"))
    assert apply_policy(report(declared), policy, TODAY).status is ExitCode.VERIFIED
    seen = apply_policy(report(replace(declared, derivation=Trained(()))), policy, TODAY)
    assert seen.rows[0].unmet == ("the policy asks for the relation quantized, but the weights show changed in full",)
    named = replace(MOST, claim=replace(MOST.claim, sources=NAMED, relation=None))
    assert apply_policy(report(named), policy, TODAY).status is ExitCode.VERIFIED
    judged = apply_policy(report(), policy, TODAY)
    said = "p.yaml asks for the relation quantized, but the model declares no base"
    assert (judged.status, judged.notes) == (ExitCode.UNDECIDED, (said,))


def test_the_policy_of_a_folder_counts_if_it_is_asked_for_and_never_that_of_the_hub(tmp_path):
    """Who publishes a model would gain by accepting that its claim is contradicted."""
    locate = here(tmp_path, "fail-on: never")
    assert find_policy(None, None, locate) is None
    assert find_policy(OWN, None, locate) == Policy(FILE, fail_on="never")
    judged = apply_policy(replace(report(NONE), source=locate()), None, TODAY)
    said = "lineage.yaml of the model was not read because the publisher of the model wrote it; if you are the"
    assert (judged.status, judged.policy) == (ExitCode.UNRELATED, None)
    assert judged.notes == (f"{said} publisher, add --policy own",)
    published = RepoRef("org/model", tmp_path, "0" * 40, remote="org/model")
    with pytest.raises(
        OptionError, match="on the Hub the publisher of the model wrote the file, so name a file of yours"
    ):
        find_policy(OWN, None, lambda: published)
    assert apply_policy(replace(report(NONE), source=published), None, TODAY).notes == ()


def test_of_the_hub_only_what_names_its_model_is_accepted(tmp_path):
    """A file that accepts one model's claim would accept that of any other that declares the same base."""
    published = RepoRef("fern/liar", tmp_path, "0" * 40, remote="fern/liar")
    judged = apply_policy(replace(report(NONE, model="fern/liar@v2"), source=published), waiving(), TODAY)
    assert judged.status is ExitCode.UNRELATED
    assert judged.notes == (
        "p.yaml accepts that org/base is UNRELATED, but does not say of which model on the Hub; add model: org/name",
    )
    (accepted,) = waiving().accepted
    named = Policy("p.yaml", (replace(accepted, model="fern/liar"),))
    judged = apply_policy(replace(report(NONE, model="fern/liar@v2"), source=published), named, TODAY)
    assert (judged.status, judged.notes) == (ExitCode.VERIFIED, ())
    other = replace(report(NONE, model="moss/liar"), source=replace(published, name="moss/liar", remote="moss/liar"))
    assert apply_policy(other, named, TODAY).status is ExitCode.UNRELATED


def test_a_policy_is_that_of_the_folder_or_of_a_file_and_the_user_goes_before_it(tmp_path):
    assert find_policy(OWN, None, here(tmp_path)) is None
    assert find_policy(OWN, "never", here(tmp_path)) == Policy(fail_on="never")
    (tmp_path / "part").mkdir()
    here(tmp_path / "part", "fail-on: never")
    assert find_policy(OWN, None, lambda: RepoRef("here", tmp_path, subfolder="part")) is None
    file = tmp_path / "part" / FILE
    assert find_policy(str(file), None, here(tmp_path)) == Policy(str(file), fail_on="never")
    assert find_policy(OWN, "undecided", here(tmp_path / "part")).fail_on == "undecided"


def test_what_is_no_file_no_text_large_or_a_link_out_of_the_folder_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "absent", "", "a\0b"):
        with pytest.raises(OptionError, match="is not a file; name one"):
            read_policy(tmp_path / name if name else tmp_path)
    for content, said in ((b"\xff\xfe", "is not UTF-8 text"), (b"#" * (LARGEST + 1), "is larger than 64 KiB")):
        (tmp_path / "p").write_bytes(content)
        with pytest.raises(OptionError, match=said):
            read_policy(tmp_path / "p")
    (tmp_path / "secret").write_text("fail-on: never")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / FILE).symlink_to(Path("..") / "secret")
    with pytest.raises(CheckpointError, match="is a link out of the model's folder"):
        find_policy(OWN, None, here(tmp_path / "model"))
    (tmp_path / FILE).mkdir()
    assert apply_policy(replace(report(NONE), source=here(tmp_path)()), None, TODAY).notes == ()
