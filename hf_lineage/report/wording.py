"""What every format says in the same words: cells, sentences, limits."""

from __future__ import annotations

from collections.abc import Iterator

from hf_lineage.errors import printable
from hf_lineage.pipeline import Report, Row
from hf_lineage.verdict import SEVERITY, Evidence, Verdict

COLUMNS = ("Declared base", "Relation", "Path", "Score", "p", "Verdict")
LAYER_COLUMNS = ("Layer", "Paired with", "Cosine", "s of the base", "s of the model")

NOTHING_DECLARED = (
    "Nothing is declared: no base_model in README.md, adapter_config.json or mergekit_config.yml. Name one with --base."
)

MEANING = (
    "RELATED says that two models share weights by ancestry. It never says who came first, who owns what, or that "
    "anyone did wrong."
)

LIMITS = (
    "A low score is no proof of independence against every attacker: training against it, a rotation or reordering of "
    "the residual stream, and very heavy continued pretraining all lower it.",
    "A low but significant score can come from a shared initialisation (two runs from one seed), which is a shared "
    "ancestor here.",
    "The permutation p-value holds for training that treats all residual coordinates alike; fixed sinusoidal positions "
    "and nested (Matryoshka) training do not.",
    "A distilled model trained from fresh weights is not a descendant, however alike it behaves.",
)


def cells(row: Row) -> Iterator[tuple[str, ...]]:
    """Yield the cells of one claim: a line for each path, or a single line where nothing was measured."""
    base, relation = printable(row.claim.base, 200), printable(row.claim.relation or "-", 40)
    if not row.verdict.evidence:
        yield base, relation, "-", "-", "-", row.verdict.name
    for number, (path, found) in enumerate(row.verdict.evidence.items()):
        name = row.verdict.by_path[path].name
        first = (base, relation) if number == 0 else ("", "")
        yield *first, path, score(found), f"{found.p_value:.3g}", name


def score(found: Evidence) -> str:
    """Return the lineage score as it is printed."""
    return f"{found.comparison.score:.3f}"


def worst(report: Report) -> Row | None:
    """Return the first of the rows whose outcome is that of the report, None where nothing is declared."""
    return max(report.rows, key=lambda row: SEVERITY.index(row.verdict.exit_code), default=None)


def best(row: Row) -> Evidence | None:
    """Return the evidence of the path that decided, None where nothing was measured."""
    path = decisive(row.verdict)
    return None if path is None else row.verdict.evidence[path]


def outcome(row: Row) -> str:
    """Return what became of one claim in one sentence on one line."""
    base, found = printable(row.claim.base, 200), best(row)
    measured = "" if found is None else f" (score {score(found)}, p = {found.p_value:.3g})"
    return f"{base} is {row.verdict.name}{measured}" + (f": {reason(row)}" if row.verdict.reason else "")


def reasons(report: Report) -> Iterator[str]:
    """Yield the sentences that belong under the table: why a row is undecided, what several paths say together."""
    for row in report.rows:
        base = printable(row.claim.base, 200)
        if row.verdict.reason:
            yield f"{base}: {reason(row)}"
        if len(row.verdict.evidence) > 1:
            yield f"{base}: {row.verdict.name} over {len(row.verdict.evidence)} paths, p-values after Holm's correction"
        yield from map(printable, row.notes)
        yield from origins(row)
        yield from reading(row)
    if not report.rows:
        yield NOTHING_DECLARED
    for conflict in report.conflicts:
        yield f"Conflicting claims: {printable(conflict)}"


def origins(row: Row) -> Iterator[str]:
    """Yield whose numbers did not come from weights that were read just now."""
    for who, origin in (("the base", row.base_origin), ("the model", row.model_origin)):
        about = f"{printable(row.claim.base, 200)}: the signature of {who}"
        if origin and origin.kind == "cache":
            yield f"{about} comes from the cache of this machine, made from its weights; --recompute reads them again"
        if origin and origin.kind == "file":
            yield f"{about} was given as a file; its weights were not read"
        if origin and origin.kind == "published":
            files = ", ".join(f"{printable(file, 300)} (sha256 {sha256})" for file, sha256 in origin.files.items())
            yield (
                f"{about} is published in {printable(origin.repository, 200)}: {files}; believed because "
                f"{printable(origin.trusted, 300)}. Its weights were not read; --recompute reads them"
            )


def reading(row: Row) -> Iterator[str]:
    """Yield which depths are compared, how much was read, where it was not all, and what came over the network."""
    for path, found in row.verdict.evidence.items():
        ours, theirs = map(len, found.layers)
        if found.looks == 1 and ours != theirs:
            yield (
                f"{printable(row.claim.base, 200)}: along {path} the base has {ours} layers and the model {theirs}; "
                f"the score is that of the {min(ours, theirs)} that are paired"
            )
    read = max((len(found.layers[1]) for found in row.verdict.evidence.values()), default=0)
    if row.layers is not None and 0 < read < row.layers:
        looks = next(iter(row.verdict.evidence.values())).looks
        yield (
            f"{printable(row.claim.base, 200)}: decided after {read} of {row.layers} layers, at one of {looks} looks, "
            "for which p is corrected; --budget full reads them all"
        )
    for name, moved in row.traffic.items():
        yield (
            f"{printable(name, 200)}: {moved.moved / 1e6:.1f} of {moved.stored / 1e6:.1f} MB "
            f"({moved.moved / max(moved.stored, 1):.1%}) came over the network, in {moved.requests} requests"
        )


def reason(row: Row) -> str:
    """Return why a row is undecided, without the name of the base in front; empty if the evidence speaks for itself."""
    return printable(row.verdict.reason).removeprefix(f"{printable(row.claim.base, 200)}: ")


def decisive(verdict: Verdict) -> str | None:
    """Return the path that decided, None where nothing was measured.

    It has the highest score of those that say by themselves what all of them say together.
    """
    paths = [path for path, single in verdict.by_path.items() if single.name == verdict.name] or list(verdict.evidence)
    return max(paths, key=lambda path: verdict.evidence[path].comparison.score, default=None)


def settings(report: Report) -> str:
    """Return the recipe and the test in one sentence: what has to be the same for a number to come out again."""
    recipe, options = report.options.recipe, report.options
    probes = "exact" if recipe.probes is None else f"{recipe.probes} probes"
    return (
        f"Recipe {recipe.name}, {probes}; {options.permutations} permutations of at most {recipe.coordinates} "
        f"coordinates (seed {options.seed}); alpha {options.alpha:g}."
    )


def null_sentences(found: Evidence) -> Iterator[str]:
    """Yield what the score of one path was held against."""
    null = found.permutation
    error = found.comparison.standard_error
    yield f"score {found.comparison.score:.4f}" + (f", standard error of the sketch {error:.1g}" if error else "")
    yield (
        f"permutation null: {null.observed:.4f} on {null.coordinates} coordinates, {len(null.scores)} relabellings "
        f"reach {null.scores.min():.4f} to {null.scores.max():.4f}, p = {null.p_value:.3g}"
        + (f", {found.p_value:.3g} after Holm" if found.p_value != null.p_value else "")
    )
    if found.empirical is not None:
        known = found.empirical
        yield (
            f"empirical null: {len(known.scores)} independent models reach {known.threshold:.2g}, "
            f"p = {known.p_value(found.comparison.score):.3g} (never below {1 / (len(known.scores) + 1):.2g}); "
            f"{printable(known.source)}"
        )


def layer_rows(found: Evidence) -> Iterator[tuple[int, int, float, float, float]]:
    """Yield for each layer of the base: its number, its partner's, their cosine, and the concentration of both."""
    comparison = found.comparison
    (ours, theirs), (base, suspect) = comparison.concentration, found.layers
    for row, partner, cosine in zip(*comparison.pairs, comparison.by_layer, strict=True):
        yield base[row], suspect[partner], float(cosine), float(ours[row]), float(theirs[partner])
