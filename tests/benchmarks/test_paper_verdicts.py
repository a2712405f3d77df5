"""What rival tools print and what it means."""

import stat
import sys
from functools import partial
from pathlib import Path

import pytest

from benchmarks.commands import CommandError
from benchmarks.isolated import ROOT
from benchmarks.paper.experiment import Bench, ClaimError, Results, Row
from benchmarks.paper.items import ours_rivals as item
from benchmarks.paper.parts import folders, verdicts
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.verdicts import DISTILLED, INDEPENDENT, OWN_TERMS, RELATED, RIGHT, UNDECIDED, WRONG, Said
from benchmarks.rivals import RIVALS
from hf_lineage.claims.sources import read_claims
from hf_lineage.hub.repo import RepoRef

MODELDNA, _ = RIVALS
DISTILLATION_COUNTS = frozenset({RELATED, DISTILLED})


def recorded(name):
    """What a tool printed, less what is not read and is long."""
    return (ROOT / "tests" / "data" / "rivals" / f"{name}.json").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rows():
    """What is committed."""
    return {row.name: row for row in Results.read(ROOT / "benchmarks/results/ours-rivals.json").rows}


class TestWhatIsPrinted:
    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("fine-tune", Said("FINE_TUNE", True, "probability 0.9985")),
            ("liar", Said("SAME_FAMILY_UNRESOLVED", None, "probability 0.8609")),
            ("two-layers-less", Said("NO_MATCH", None, "no probability: layer count mismatch")),
        ],
    )
    def test_modeldna_is_read(self, name, said):
        assert verdicts.modeldna(recorded(f"modeldna-{name}")) == said

    @pytest.mark.parametrize(
        ("name", "words", "related", "scores"),
        [
            ("liar", "Confirmed Match", True, ("1.0000", "0.6361")),
            ("two-layers-less", "High-Confidence Match", True, ("0.8899", "0.8899")),
            ("another-architecture", "Not Matched", False, ("0.5821", "0.5821")),
        ],
    )
    def test_provenance_kit_is_read(self, name, words, related, scores):
        figures = "pipeline score {}, identity score of the weights {}".format(*scores)
        assert verdicts.provenancekit(recorded(f"provenancekit-{name}")) == Said(words, related, figures)

    def test_a_decision_that_compared_no_weights_is_none(self):
        output = recorded("provenancekit-another-architecture").replace("Not Matched", "Not Matched (metadata only)")
        assert verdicts.provenancekit(output).related is None

    @pytest.mark.parametrize("rival", RIVALS)
    @pytest.mark.parametrize("output", ["", "error: no such folder", "{}", '{"verdict": "FINE_TUNE", "scores": 1}'])
    def test_what_is_no_verdict_is_an_error(self, rival, output):
        with pytest.raises(CommandError, match="no verdict can be read"):
            verdicts.READERS[rival.command](output)


@pytest.mark.parametrize(
    ("related", "truth", "lineage", "standing"),
    [
        (True, RELATED, {RELATED}, RIGHT),
        (False, RELATED, {RELATED}, WRONG),
        (None, RELATED, {RELATED}, UNDECIDED),
        (False, INDEPENDENT, {RELATED}, RIGHT),
        (True, INDEPENDENT, DISTILLATION_COUNTS, WRONG),
        (True, DISTILLED, {RELATED}, WRONG),
        (True, DISTILLED, DISTILLATION_COUNTS, OWN_TERMS),
        (False, DISTILLED, DISTILLATION_COUNTS, RIGHT),
    ],
)
def test_a_verdict_is_wrong_only_where_it_is_so_by_our_definition_and_by_its_own(related, truth, lineage, standing):
    assert Said("", related, "").standing(truth, frozenset(lineage)) == standing


class TestACommand:
    @pytest.fixture
    def place(self, tmp_path):
        """An environment in which `modeldna` prints its arguments, and fails where one of them is `bad`."""
        command = tmp_path / "bin" / "modeldna"
        command.parent.mkdir()
        code = (
            f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\nsys.exit('no weights' if 'bad' in sys.argv else 0)\n"
        )
        command.write_text(code, encoding="utf-8")
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
        return tmp_path

    def test_that_fails_is_an_error_and_no_verdict(self, place):
        with pytest.raises(CommandError, match=r"modeldna==.* ended with exit code 1: no weights"):
            verdicts.printed(MODELDNA, place, place, Path("bad"), Path("base"))


class TestEnvironments:
    def test_nothing_is_installed_at_the_smallest_scale(self, tmp_path):
        bench = Bench("smoke", Cache(tmp_path), tmp_path)
        assert [item.place(rival, bench) for rival in RIVALS] == [None, None]
        assert not list(tmp_path.iterdir())


def those(rows, tool, standing):
    """The pairs on which a tool stands like this."""
    return [pair for pair in item.PAIRS if item.stood(rows[f"{pair.name}: {tool}"]) == standing]


class TestTheItem:
    def test_its_pairs_are_all_claims_of_the_hub_and_more(self):
        declared = {
            (f"{folder.parent.name}/{folder.name}", claim.base)
            for folder in folders.HUB.glob("*/*")
            if (folder / "config.json").exists()
            for claim in read_claims(RepoRef("", folder)).claims
        }
        assert len(declared) > 10
        assert declared < {(pair.suspect, pair.reference) for pair in item.PAIRS}

    def test_the_claim_fails_where_we_err_and_not_where_others_do(self, rows):
        item.holds(rows)
        liar = f"{item.LIAR} beside {item.LLAMA}"
        rival = f"{liar}: {item.NAMES['provenancekit']}"
        item.holds({**rows, rival: Row(rival, None, "Not Matched", "right")})
        with pytest.raises(ClaimError, match="llama-liar beside acme/llama-base is unrelated, hf-lineage says RELATED"):
            item.holds({**rows, f"{liar}: hf-lineage": Row("", None, "RELATED", "wrong; score 1")})

    def test_the_readme_says_below_the_table_what_stands_in_it(self, rows):
        """Ours never errs and never abstains; modelDNA never errs, and abstains on the unrelated."""
        ours, modeldna, kit = (partial(those, rows, name) for name in (item.OURS.name, *item.NAMES.values()))
        assert not ours(WRONG)
        assert not ours(UNDECIDED)
        assert not modeldna(WRONG)
        assert {pair for pair in item.PAIRS if pair.truth != RELATED} <= set(modeldna(UNDECIDED))
        assert [pair.truth for pair in kit(OWN_TERMS)] == [DISTILLED]
