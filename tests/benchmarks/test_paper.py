"""The items of the paper: their command, their parts on cases whose answer is known, and their committed results."""

import json
import math
import stat
import sys
from dataclasses import replace
from functools import partial
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from scipy.stats import ortho_group
from transformers import LlamaForCausalLM

from benchmarks.commands import CommandError
from benchmarks.isolated import ROOT
from benchmarks.paper import __main__ as command
from benchmarks.paper.__main__ import reproduced
from benchmarks.paper.experiment import Bench, ClaimError, Experiment, Results, Row, file_name
from benchmarks.paper.items import found, gradients, ours_adapters, ours_frames
from benchmarks.paper.items import ours_rivals as item
from benchmarks.paper.items.pairing import trace_scores
from benchmarks.paper.parts import adapters, baselines, hiding, laundering, models, scores, verdicts
from benchmarks.paper.parts.cache import Cache, key
from benchmarks.paper.parts.examples import HUB
from benchmarks.paper.parts.language import documentation
from benchmarks.paper.parts.scores import paired
from benchmarks.paper.parts.training import pairing
from benchmarks.paper.parts.verdicts import DISTILLED, INDEPENDENT, OWN_TERMS, RELATED, RIGHT, UNDECIDED, WRONG, Said
from benchmarks.rivals import RIVALS
from hf_lineage.claims.sources import read_claims
from hf_lineage.evidence import unit_comparison as framed_verdict
from hf_lineage.hub.repo import RepoRef
from tests.example_evidence import trace
from tests.long import LONG

ITEMS = ("tab:one", "tab:two")


@pytest.fixture
def run(tmp_path, monkeypatch):
    def rows(bench):
        return [Row("score", None, bench.cache.kept("models", "a", lambda: 1.0))]

    made = {item: [Experiment(item, f"what {item} is", rows, lambda rows: None)] for item in ITEMS}
    monkeypatch.setattr(command, "found", lambda: made)
    monkeypatch.setattr(command, "RESULTS", tmp_path / "committed")
    return lambda *options: CliRunner().invoke(command.main, ["--scratch", str(tmp_path / "scratch"), *options])


def written(folder):
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*.json")}


@pytest.mark.parametrize("options", [(), ("--list",), ("--list", "tab:one")])
def test_the_items_are_listed_and_none_is_run(run, tmp_path, options):
    done = run(*options)
    listed = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert (done.exit_code, listed) == (0, [[item, f"what {item} is"] for item in ITEMS])
    assert written(tmp_path) == set()
    assert len(command.listing(found()).splitlines()) == len(FILES)


def test_results_go_to_the_scratch_folder_and_over_committed_ones_only_where_asked(run, tmp_path):
    done = run("tab:one")
    assert written(tmp_path) == {"scratch/results/tab-one.json"}
    assert done.stderr.splitlines()[-1] == f"The results are in {tmp_path / 'scratch/results'}"
    assert run("tab:two", "--write").exit_code == 0
    assert written(tmp_path / "committed") == {"tab-two.json"}
    assert written(tmp_path / "scratch") == {"results/tab-one.json"}
    assert json.loads((tmp_path / "committed/tab-two.json").read_text())["item"] == "tab:two"


@pytest.mark.parametrize("other", [("--scale", "smoke"), ("--output", "here")])
def test_what_is_not_kept_is_never_written_over_them(run, tmp_path, other):
    done = run("tab:one", "--write", *other)
    assert (done.exit_code, written(tmp_path)) == (2, set())
    assert "--write is for benchmarks/results" in done.stderr


def test_a_run_says_which_item_of_how_many_it_is_at_and_what_took_its_time(run, monkeypatch):
    clock = iter(range(0, 1000, 7))
    monkeypatch.setattr("benchmarks.paper.parts.cache.time.monotonic", lambda: next(clock))
    lines = run("--all").stderr.splitlines()
    assert lines[:3] == ["tab:one, 1 of 2", "  models: 7 seconds", "tab:two, 2 of 2"]


EXPERIMENTS = [experiment for several in found().values() for experiment in several]
FILES = {item: ROOT / "benchmarks" / "results" / file_name(item) for item in found()}


@pytest.mark.parametrize(("item", "file"), FILES.items())
def test_every_item_has_its_results_in_which_a_row_that_differs_says_why(item, file):
    content = json.loads(file.read_text(encoding="utf-8"))
    assert (list(content), content["scale"]) == (["item", "scale", "command", "rows"], "lite")
    assert content["command"].startswith(f"python -m benchmarks.paper {content['item']} --scale lite")
    assert all(list(row) == ["name", "paper", "ours", "note"] for row in content["rows"])
    assert all((row["paper"], row["ours"]) != (None, None) for row in content["rows"])
    for row in committed(item).values():
        if isinstance(row.paper, int | float) and abs(row.number - row.paper) > 0.1 * abs(row.paper) + 0.02:
            assert row.note, row.name


def committed(item):
    return {row.name: row for row in Results.read(FILES[item]).rows}


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: f"{one.item}, {one.title}")
def test_a_claim_holds_for_what_is_committed_and_fails_for_other_figures(experiment):
    rows = committed(experiment.item)
    experiment.claim(rows)
    wrong = product(rows, [0.0, 0.5, 1.0, 99.0, "W: 0 factorizations"])
    with pytest.raises(ClaimError):
        list(map(experiment.claim, (rows | {name: replace(rows[name], ours=value)} for name, value in wrong)))


def test_results_are_rounded_written_and_read(tmp_path):
    rows = [Row("a|b", 1.0, 0.123456, "why"), Row("c", None, float("inf"))]
    file = Results("tab:x", "lite", "python", rows).write(tmp_path)
    assert file.name == "tab-x.json"
    read = Results.read(file)
    assert [row.ours for row in read.rows] == [0.1235, None]
    assert "| a\\|b | 1 | 0.1235 | why |" in read.markdown
    assert "| c | – | – |  |" in read.markdown


def test_the_interval_of_a_rate_draws_whole_bases_and_not_pairs():
    family, configuration = adapters.Family("Llama", 32), ours_adapters.CONFIGURATIONS[0]
    low, high = (trace(observed=observed) for observed in (-1.0, 2.0))
    pairs = [
        adapters.Pair(family, configuration, 1, own, base, "UNRELATED", False, high if own == 0 else low)
        for own, base in permutations(range(10), 2)
    ]
    found = adapters.rate(20 * pairs, 0.01)
    assert (found.share, found.pairs, found.low) == (pytest.approx(0.1), 1800, 0)
    assert found.high > 0.25  # of as many pairs by themselves the interval would end at 0.115


def test_there_are_as_many_bases_and_false_pairs_as_the_claims_and_thresholds_need():
    rows = committed("ours:adapters")
    pairs = rows["false pairs rejected at 0.01"].note.split(" pairs")[0]
    found = [row.note.partition(" of ")[2].partition(";")[0] for name, row in rows.items() if name.endswith(": found")]
    assert int(pairs) >= 1300
    assert rows[ours_adapters.WRONG].number <= 2
    assert sum(map(int, found)) >= 15 * 4 * 3
    rows = committed("ours:frames")
    assert framed_verdict.CALIBRATION == "benchmarks/results/ours-frames.json"
    assert rows[ours_frames.PAIRS].number == framed_verdict.PAIRS > 1000
    assert rows[ours_frames.LARGEST].number <= framed_verdict.LARGEST < framed_verdict.CALIBRATED / 1.5


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("paper")


@pytest.mark.parametrize(
    ("item", "experiments"),
    [pytest.param(*each, id=each[0], marks=[] if each[0] == "tab:survival" else [LONG]) for each in found().items()],
)
def test_the_claim_of_an_item_holds_on_a_small_scale(item, experiments, scratch):
    torch.set_num_threads(1)
    bench = Bench("smoke", Cache(scratch), scratch / "figures")
    timed = item == "tab:gpt2-latency"  # times say nothing on a machine with other work: here they are only taken
    assert reproduced(item, experiments, bench, scratch) or timed
    assert Results.read(scratch / file_name(item)).rows


SHAPE = models.Shape(inputs=6, width=12, hidden=20, layers=3)
INPUTS = torch.randn(64, 6, generator=torch.Generator().manual_seed(3))


@pytest.fixture(scope="module")
def pair():
    """Two untrained networks with biases that matter."""
    random = torch.Generator().manual_seed(5)
    networks, biases = models.initial(SHAPE, [1, 2]), ("b_in", "b_out")
    return networks.changed(lambda bias: 0.1 * torch.randn(bias.shape, generator=random), only=biases)


def test_networks_side_by_side_say_what_each_says_alone(pair):
    together = models.outputs(pair, INPUTS)
    for number, network in enumerate(pair):
        assert torch.allclose(models.outputs(network, INPUTS)[0], together[number], atol=1e-6)
    assert torch.equal(models.joined(list(pair)).weights["w_in"], pair.weights["w_in"])


@pytest.mark.parametrize("name", ["P", "D_m", "D_s", "PD"])
def test_laundering_moves_weights_but_neither_function_nor_score(pair, name):
    edited = laundering.laundered(pair, name, 0, INPUTS)
    assert not torch.allclose(edited.weights["w_in"], pair.weights["w_in"])
    assert torch.allclose(models.outputs(edited, INPUTS), models.outputs(pair, INPUTS), atol=1e-4)
    clean, disguised = (scores.signature(networks[0].blocks) for networks in (pair, edited))
    assert scores.score(clean, disguised) == pytest.approx(1, abs=1e-6)
    blocks = zip(pair[0].blocks, edited[0].blocks, strict=True)
    assert not any(torch.equal(before, after) for (before, _), (after, _) in blocks)


def test_the_gate_stops_an_edit_that_moves_the_function_or_a_logit(pair):
    with pytest.raises(laundering.FunctionError, match="moved by"):
        laundering.preserved(models.outputs(pair[0], INPUTS), models.outputs(pair[1], INPUTS))
    with pytest.raises(laundering.FunctionError):
        laundering.preserved(torch.zeros(1), torch.tensor([math.nan]))
    model = LlamaForCausalLM.from_pretrained(HUB / "acme" / "llama-base").double().eval()
    with pytest.raises(laundering.FunctionError, match="moved by"):
        hiding.moved(model, lambda model: model.lm_head.weight.data.mul_(1.001), torch.arange(48).view(2, 24))


def test_an_uncentred_signature_is_of_the_product_itself(pair):
    exact = scores.signature(pair[0].blocks)
    products = torch.stack([w_out @ w_in for w_in, w_out in pair[0].blocks])
    assert np.allclose(scores.uncentred(exact).sketch, products, atol=1e-5)
    shares = products.diagonal(dim1=1, dim2=2).sum(1).abs() / products.norm(dim=(1, 2))
    assert scores.trace_score(exact) == pytest.approx(float(shares.mean()), rel=1e-4)


def test_metrics_of_scores_that_can_be_counted():
    pairs = ([3, 2], [1, 0]), ([1, 0], [1, 0]), ([0, 2], [1])
    assert [scores.auroc(*pair) for pair in pairs] == [1, 0.5, 0.5]
    assert (scores.gap_z([2, 4], [0, 2]), scores.gap_z([1, 1], [0, 0])) == (pytest.approx(2), math.inf)
    assert scores.spearman([1, 5, 9], [0, 0.5, 1]) == 1


def test_the_cache_keeps_values_by_what_they_depend_on(tmp_path):
    made = iter([{"weights": torch.arange(3), "scores": [1.5]}])
    for _ in range(2):
        value = Cache(tmp_path).kept("things", [SHAPE, "a", range(3)], made.__next__)
    assert (value["scores"], value["weights"].tolist()) == ([1.5], [0, 1, 2])
    assert key([SHAPE, "a"]) != key([SHAPE, "b"])
    with pytest.raises(TypeError, match="cannot be part"):
        key(object())


def test_held_out_text_shares_no_paragraph_with_the_training_text():
    corpus = documentation()
    training, held_out = (bytes(text.tolist()).decode().split("\n\n") for text in (corpus.training, corpus.held_out))
    long = {part for part in held_out if len(part) > 60}
    assert (bool(long), long & set(training)) == (True, set())


def test_a_pairing_is_that_of_the_products_written_out():
    random = torch.Generator().manual_seed(0)
    blocks = [(torch.randn(5, 4, generator=random), torch.randn(4, 5, generator=random)) for _ in range(3)]
    products = [[(w_out @ w_in).double() for w_in, _ in blocks] for _, w_out in blocks]
    expected = [[float(product.trace().abs() / product.norm()) for product in row] for row in products]
    found = pairing(blocks)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-5)
    assert found.signs.tolist() == [float(products[i][i].trace().sign()) for i in range(3)]


def test_identical_partners_find_each_other_and_strangers_do_not():
    turns = [torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(seed))).Q for seed in range(3)]
    scores = trace_scores(turns, [turn.T for turn in turns])
    assert np.diagonal(scores) == pytest.approx(8**0.5)
    assert paired(scores).accuracy == paired(scores).auc == 1
    random = torch.Generator().manual_seed(0)
    readers = [torch.randn(64, 16, generator=random) for _ in range(6)]
    assert pairing([(reader, -reader.mT) for reader in readers]).accuracy == 1
    assert pairing([(reader, readers[(n + 1) % 6].mT) for n, reader in enumerate(readers)]).accuracy == 0
    # A scaled orthogonal Jacobian does not deviate.
    assert gradients.deviation(3 * turns[0] - torch.eye(8)) == pytest.approx(0, abs=1e-6)
    assert gradients.deviation(torch.diag(torch.tensor([1.0, -1.0]))) == pytest.approx(0.5**0.5)


@pytest.mark.parametrize("method", baselines.METHODS.values())
def test_to_every_rival_a_model_is_most_like_itself(pair, method):
    one, other = (baselines.arrays(network.blocks) for network in pair)
    itself, stranger = method(one, one), method(one, other)
    assert itself == pytest.approx(1 if itself > 0.5 else 0, abs=1e-5)
    assert stranger < itself


RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2000, 5))


@pytest.mark.parametrize("measure", [baselines.svcca, baselines.cka])
def test_representations_that_differ_by_a_rotation_are_the_same(measure):
    turned = 3 * X @ ortho_group.rvs(5, random_state=1) + 7
    assert measure(X, turned) == pytest.approx(1, abs=1e-6)
    assert measure(X, RANDOM.standard_normal((2000, 5))) < 0.1
    # Of white features one half is shared: ‖YᵀX‖² = 2 n² by ‖XᵀX‖ ‖YᵀY‖ = 2 n² √2.
    white = np.linalg.qr(X - X.mean(axis=0))[0]
    assert baselines.cka(white[:, :4], white[:, 2:4]) == pytest.approx(2 / (2 * 2**0.5), abs=1e-6)


MODELDNA, _ = RIVALS
DISTILLATION_COUNTS = frozenset({RELATED, DISTILLED})


def recorded(name):
    """What a tool printed, less what is not read and is long."""
    return (ROOT / "tests" / "data" / "rivals" / f"{name}.json").read_text(encoding="utf-8")


SCORED = "pipeline score {}, identity score of the weights {}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("modeldna-fine-tune", Said("FINE_TUNE", True, "probability 0.9985")),
        ("modeldna-liar", Said("SAME_FAMILY_UNRESOLVED", None, "probability 0.8609")),
        ("modeldna-two-layers-less", Said("NO_MATCH", None, "no probability: layer count mismatch")),
        ("provenancekit-liar", Said("Confirmed Match", True, SCORED.format("1.0000", "0.6361"))),
        ("provenancekit-two-layers-less", Said("High-Confidence Match", True, SCORED.format("0.8899", "0.8899"))),
        ("provenancekit-another-architecture", Said("Not Matched", False, SCORED.format("0.5821", "0.5821"))),
    ],
)
def test_what_a_rival_prints_is_read(name, said):
    assert verdicts.READERS[name.partition("-")[0]](recorded(name)) == said


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("output", ["", "error: no such folder", "{}", '{"verdict": "FINE_TUNE", "scores": 1}'])
def test_what_is_no_verdict_is_an_error_and_a_decision_without_weights_is_none(rival, output):
    metadata = recorded("provenancekit-another-architecture").replace("Not Matched", "Not Matched (metadata only)")
    assert verdicts.provenancekit(metadata).related is None
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


def test_a_command_that_fails_is_an_error_and_no_verdict(tmp_path):
    (command := tmp_path / "bin" / "modeldna").parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\nsys.exit('no weights')\n", "utf-8")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(CommandError, match=r"modeldna==.* ended with exit code 1: no weights"):
        verdicts.printed(MODELDNA, tmp_path, tmp_path, Path("bad"), Path("base"))


def test_nothing_is_installed_at_the_smallest_scale(tmp_path):
    bench = Bench("smoke", Cache(tmp_path), tmp_path)
    assert [item.place(rival, bench) for rival in RIVALS] == [None, None]
    assert not list(tmp_path.iterdir())


def test_its_pairs_are_all_claims_of_the_hub_and_more():
    claims = {file.parent: read_claims(RepoRef("", file.parent)).claims for file in HUB.glob("*/*/config.json")}
    declared = {(folder.relative_to(HUB).as_posix(), claim.base) for folder, of in claims.items() for claim in of}
    assert len(declared) > 10
    assert declared < {(pair.suspect, pair.reference) for pair in item.PAIRS}


def test_the_claim_fails_where_we_err_and_not_where_others_do():
    rows = committed("ours:rivals")
    item.holds(rows)
    liar = f"{item.LIAR} beside {item.LLAMA}"
    rival = f"{liar}: {item.NAMES['provenancekit']}"
    item.holds({**rows, rival: Row(rival, None, "Not Matched", "right")})
    with pytest.raises(ClaimError, match="llama-liar beside acme/llama-base is unrelated, hf-lineage says RELATED"):
        item.holds({**rows, f"{liar}: hf-lineage": Row("", None, "RELATED", "wrong; score 1")})


def test_the_readme_says_below_the_table_what_stands_in_it():
    """Ours never errs and never abstains; modelDNA never errs, and abstains on the unrelated."""
    rows = committed("ours:rivals")

    def those(tool, standing):
        return [pair for pair in item.PAIRS if item.stood(rows[f"{pair.name}: {tool}"]) == standing]

    ours, modeldna, kit = (partial(those, name) for name in (item.OURS.name, *item.NAMES.values()))
    assert (ours(WRONG), ours(UNDECIDED), modeldna(WRONG)) == ([], [], [])
    assert {pair for pair in item.PAIRS if pair.truth != RELATED} <= set(modeldna(UNDECIDED))
    assert [pair.truth for pair in kit(OWN_TERMS)] == [DISTILLED]
