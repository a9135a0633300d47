"""Simulate how often the rules of the claims about training give a wrong verdict.

For each rule, runs whose truth is known are drawn, judged by the code that judges a real run, and
counted. `python -m campaigns.verdicts_trained docs/verdicts-trained.md` writes the table; the same
command writes the same bytes. Steps to 90 % are log-normal over seeds with a standard deviation of
0.25 (about a quarter); accuracies, and logarithms of gradients, are normal with the standard
deviations of measured runs; numbers of scores that overflow are binomial, as those of runs are.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from sqrtdk.claims.findings import Finding
from sqrtdk.experiments.capacity import claims as capacity_claims
from sqrtdk.experiments.precision import claims as precision_claims
from sqrtdk.experiments.precision import measure as precision_measure
from sqrtdk.experiments.projections import claims as projections_claims
from sqrtdk.experiments.reach import claims as reach_claims
from sqrtdk.experiments.score_width import claims as score_width_claims
from sqrtdk.experiments.score_width import widths
from sqrtdk.experiments.training import claims as training_claims
from sqrtdk.experiments.training import rates
from sqrtdk.stats import summary
from sqrtdk.stats.intervals import Estimate, MissingError, interval, median, share_interval
from sqrtdk.stats.series import WholeTable

SEEDS = (5, 6, 12, 20, 40, 80)
REPEATS = 100
SPREAD = 0.25
BUDGET = 400

RULES = {"off": {"rule": "constant", "value": 1}, "on": {"rule": "power", "exponent": 0.5}}
GRID = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]

Draw = Callable[[np.random.Generator, int], Finding]
"""Judge one simulated run of this many seeds."""


class Case(NamedTuple):
    """A truth, its right verdict, and a function that judges a simulated run."""

    claim: str
    truth: str
    right: str
    draw: Draw


# Steps


def steps(rng: np.random.Generator, typical: float, seeds: int) -> np.ndarray:
    """Return steps to 90 % of some seeds; infinite beyond the budget."""
    drawn = np.round(typical * np.exp(SPREAD * rng.standard_normal(seeds)))
    return np.where(drawn <= BUDGET, np.maximum(drawn, 1.0), np.inf)


def _runs(found: np.ndarray, grid: Sequence[float]) -> rates.Runs:
    """Return runs of steps [n_seeds, n_rates]."""
    there = np.isfinite(found)
    seeds = list(range(len(found)))
    return rates.Runs(seeds, list(grid), found, np.where(there, 1.0, 0.3), np.zeros_like(found))


def training(off: Sequence[float], on: Sequence[float]) -> Draw:
    """Return a judge of `training`, given typical steps at each rate of the grid except its ends.

    At the ends no run reaches 90 %.
    """
    settings = {"steps": BUDGET, "learning_rate": GRID, "scaling": RULES}
    task = {"d_k": 1024, "n_k": 16, "batch_size": 16, "optimizer": "sgd", "loss": "values"}

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        found = {}
        for scaling, typical in (("off", off), ("on", on)):
            ends = np.full(seeds, np.inf)
            inside = [steps(rng, one, seeds) for one in typical]
            found[scaling] = _runs(np.stack([ends, *inside, ends], axis=1), GRID)
        table = pd.DataFrame([task | row for row in rates.rows_of(found, settings)])
        return training_claims.scaling_helps(training_claims.comparisons(settings, table)[0])

    return draw


def on_own_seeds(off: Sequence[float], on: Sequence[float]) -> Draw:
    """Return the former judge of `training`: rates chosen and reported on the same seeds."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        best = []
        for typical in (off, on):
            runs = [steps(rng, one, seeds) for one in typical]
            best.append(pd.Series(min(runs, key=median)))
        row = rates.compare(best[0], best[1], BUDGET)
        ratio = training_claims.Ratio(
            *(row[f"ratio_{end}"] for end in training_claims.Ratio._fields)
        )
        return training_claims.scaling_helps(
            training_claims.Comparison("", {1024: ratio}, frozenset())
        )

    return draw


def score_width(additive: float, dot: float) -> Draw:
    """Return a judge of `score_width`, given the true ratios of steps at d_k = 1024 and 16."""
    grid = [0.003, 0.01, 0.03]
    truth = {"additive": additive, "scaled_dot": 1.0, "dot": dot}

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        found = {}
        for reader, ratio in truth.items():
            for d_k in (16, 1024):
                typical = 60 * (ratio if d_k > 16 else 1.0)
                each = [steps(rng, slower * typical, seeds) for slower in (1.5, 1.0, 1.5)]
                found[reader, d_k] = _runs(np.stack(each, axis=1), grid)
        settings = {"steps": BUDGET, "learning_rate": grid}
        return score_width_claims.score_width(
            WholeTable(pd.DataFrame(widths.rows_of(found, settings)))
        )

    return draw


def stability(gap: float) -> Draw:
    """Return a judge of `stability`, given the true mean gap of the windows in decades.

    Windows are whole steps of half a decade, as on a grid of rates 1, 3, 10.
    """

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        windows = np.round(2 * (gap + 0.3 * rng.standard_normal(seeds))) / 2
        value = _estimate(windows)
        none = Estimate(0.0)
        at = training_claims.Windows(none, none, value, unscaled_open=False, scaled_open=False)
        none_lost = {"": (0, 0, seeds)}
        one = training_claims.Comparison("", {}, frozenset(), {1024: at}, diverged=none_lost)
        return training_claims.stability(one)

    return draw


# Accuracies


def _estimate(values: np.ndarray) -> Estimate:
    return Estimate(float(np.mean(values)), *interval(values))


def _metric(rng: np.random.Generator, seeds: int, mean: float, sd: float) -> dict[str, float]:
    values = mean + sd * rng.standard_normal(seeds)
    low, high = interval(values)
    return {"mean": float(np.mean(values)), "ci_low": low, "ci_high": high}


def capacity(small: tuple[float, float], large: float) -> Draw:
    """Return a judge of `capacity`: accuracy and gain of a small vector, accuracy of a large."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        table = []
        for hidden, (accuracy, gain) in ((8, small), (64, (large, 0.0))):
            for rate in (0.001, 0.003, 0.01):
                lower = 0.0 if rate == 0.003 else 0.1
                metrics = {
                    "accuracy": (accuracy - lower, 0.05), "accuracy_gain": (gain, 0.05),
                    "unasked_accuracy": (0.43, 0.005),
                }  # fmt: skip
                for metric, (mean, sd) in metrics.items():
                    at = {"reader": "fixed", "length": 4, "hidden": hidden, "learning_rate": rate,
                          "step": 8000, "metric": metric}  # fmt: skip
                    table.append(at | _metric(rng, seeds, mean, sd))
        return capacity_claims.capacity(WholeTable(pd.DataFrame(table)))

    return draw


def projections(shared: float, gain: float) -> Draw:
    """Return a judge of `projections`, given the accuracy of W_q = W_k and its remaining gain."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        table = []
        heads = {"separate": (0.99, 0.0), "shared_qk": (shared, gain), "identity_v": (0.7, 0.0)}
        for name, (accuracy, more) in heads.items():
            metrics = {"accuracy": (accuracy, 0.03), "accuracy_gain": (more, 0.03),
                       "asked_weight": (0.1, 0.01)}  # fmt: skip
            for metric, (mean, sd) in metrics.items():
                at = {"relation": "turned", "projections": name, "learning_rate": 0.01,
                      "step": 2000, "metric": metric}  # fmt: skip
                table.append(at | _metric(rng, seeds, mean, sd))
        return projections_claims.projections(WholeTable(pd.DataFrame(table)))

    return draw


# Gradients over a distance, and half precision


def reach(attention: float, fixed: float) -> Draw:
    """Return a judge of `reach`, given log₁₀ of the share that the readers keep over 7 pairs."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        table = []
        for stage in ("initial", "trained"):
            kept = {"additive": attention, "dot": attention, "scaled_dot": attention,
                    "fixed": fixed}  # fmt: skip
            for reader, log10 in kept.items():
                for distance, mean in ((0, 0.0), (7, log10)):
                    at = {"stage": stage, "reader": reader, "distance": distance,
                          "metric": "relative_log10_norm"}  # fmt: skip
                    table.append(at | _metric(rng, seeds, mean, 0.06 * (distance > 0)))
        return reach_claims.reach(WholeTable(pd.DataFrame(table)))

    return draw


def half_precision(after: float, before: float) -> Draw:
    """Return a judge of `half_precision`, given the chances that a score overflows.

    There are 64 queries and 64 keys, as in the default grid.
    """
    judged = ("scale", "overflow_share")
    schema = [x for x in precision_measure.COLUMNS if x.axis or x.name in judged]
    axes = {"d_k": 1024, "n_k": 64, "n_q": 64, "inputs": "gaussian", "input_sd": 16}

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        rows = [
            axes | {"precision": "float16", "order": order, "scaling": "on", "seed": seed,
                    "scale": 1 / 32, "overflow_share": count / 64**2}
            for order, chance in (("after", after), ("before", before))
            for seed, count in enumerate(rng.binomial(64**2, chance, seeds).tolist())
        ]  # fmt: skip
        runs = pd.DataFrame(rows)[[column.name for column in schema]]
        table = pd.DataFrame(summary.summarize(runs, schema, {}))
        return precision_claims.half_precision(WholeTable(table))

    return draw


OFF_ONE = (300.0, 40.0, 300.0, 300.0, 300.0)
ON_FIVE = (40.0,) * 5


def _slower(times: float) -> tuple[float, ...]:
    return tuple(times * x for x in OFF_ONE)


CASES: tuple[Case, ...] = (
    Case("training", "ratio 1; one good rate without, five with scaling", "either",
         training(OFF_ONE, ON_FIVE)),
    Case("training", "the same, rates chosen and reported on the same seeds", "either",
         on_own_seeds(OFF_ONE, ON_FIVE)),
    Case("training", "ratio 1.5", "true", training(_slower(1.5), ON_FIVE)),
    Case("training", "ratio 6", "true", training(_slower(6), ON_FIVE)),
    Case("training", "ratio 0.5", "false", training(_slower(0.5), ON_FIVE)),
    Case("stability", "windows do not differ", "false", stability(0.0)),
    Case("stability", "by 0.3 decades, the margin", "either", stability(training_claims.WIDER)),
    Case("stability", "by 1 decade", "true", stability(1.0)),
    Case("score_width", "additive 1.0 times the steps, dot 8 times", "true", score_width(1.0, 8.0)),
    Case("score_width", "additive 1.2 times, dot 8 times", "true", score_width(1.2, 8.0)),
    Case("score_width", "additive 1.5 times, dot 8 times", "true", score_width(1.5, 8.0)),
    Case("score_width", "additive 2 times, the margin", "either", score_width(2.0, 8.0)),
    Case("score_width", "additive 4 times", "false", score_width(4.0, 8.0)),
    Case("score_width", "dot 1.0 times", "false", score_width(1.0, 1.0)),
    Case("capacity", "small 0.37, gains nothing; large 0.97", "true", capacity((0.37, 0.0), 0.97)),
    Case("capacity", "small 0.53, gains 0.12; large 0.97", "undecided",
         capacity((0.53, 0.12), 0.97)),
    Case("capacity", "both 0.4, gain nothing", "false", capacity((0.4, 0.0), 0.4)),
    Case("projections", "W_q = W_k 0.65, gains nothing", "true", projections(0.65, 0.0)),
    Case("projections", "W_q = W_k 0.65, gains 0.15", "undecided", projections(0.65, 0.15)),
    Case("projections", "W_q = W_k 0.98", "false", projections(0.98, 0.0)),
    Case("reach", "attention keeps all, the fixed vector 0.04", "true", reach(0.0, -1.4)),
    Case("reach", "attention keeps 0.1, the margin", "either", reach(-1.0, -1.4)),
    Case("reach", "attention keeps 0.04", "false", reach(-1.4, -1.4)),
    Case("reach", "all keep all", "undecided", reach(0.0, 0.0)),
    Case("half_precision", "1 in 100 overflow after, none before", "true",
         half_precision(1e-2, 0.0)),
    Case("half_precision", "3 in 1,000 after, none before", "true", half_precision(3e-3, 0.0)),
    Case("half_precision", "1 in 10,000 after, none before", "undecided",
         half_precision(1e-4, 0.0)),
    Case("half_precision", "1 in 100 after and before, the margin", "either",
         half_precision(1e-2, 1e-2)),
    Case("half_precision", "none after, 1 in 100 before", "false", half_precision(0.0, 1e-2)),
)  # fmt: skip


def verdict(draw: Draw, rng: np.random.Generator, seeds: int) -> str:
    """Return the verdict on one simulated run."""
    try:
        return {True: "true", False: "false", None: "undecided"}[draw(rng, seeds).holds]
    except MissingError:
        return "undecided"


def shares(
    case: Case, seeds: int, repeats: int = REPEATS, *, cases: Sequence[Case] = CASES
) -> dict[str, float]:
    """Return how often each verdict is given."""
    place = cases.index(case)
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence((place, seeds))))
    counts = Counter(verdict(case.draw, rng, seeds) for _ in range(repeats))
    return {name: counts[name] / repeats for name in ("true", "false", "undecided")}


def lines(cases: Sequence[Case], counts: Sequence[int] = SEEDS) -> Iterator[str]:
    """Yield the lines of the table, with a column for each number of seeds."""
    yield "| claim | truth | right | " + " | ".join(f"{n} seeds" for n in counts) + " |"
    yield "|---" * (3 + len(counts)) + "|"
    for case in cases:
        found = (shares(case, seeds, cases=cases) for seeds in counts)
        numbers = (f"{100 * one['true']:.0f} / {100 * one['false']:.0f}" for one in found)
        yield f"| {case.claim} | {case.truth} | {case.right} | " + " | ".join(numbers) + " |"


def write(page: Iterable[str]) -> None:
    """Write the lines of a page to the file that the command names."""
    Path(sys.argv[1]).write_text("\n".join(page) + "\n", encoding="utf-8")


def about_reach() -> Iterator[str]:
    """Yield what the rates of `reach` at its margin should be, and what they are."""
    case = next(x for x in CASES if x.claim == "reach" and x.right == "either")
    found = np.mean([shares(case, seeds)["false"] for seeds in SEEDS])
    one, several = 0.025, 1 - 0.975**6
    yield (
        "At its margin, `reach` has six numbers at the threshold (three readers, before and after "
        f'training), and each makes it false in {100 * one:.1f} % of runs. "False" is therefore '
        f"expected in {100 * several:.0f} % of them. All columns together have "
        f"{100 * found:.0f} %; a column of {REPEATS} runs has a standard error of "
        f"{100 * (several * (1 - several) / REPEATS) ** 0.5:.1f} percentage points. With "
        "readers that keep all of the norm, as those of the default run do, no run is false."
    )


def about_half_precision() -> Iterator[str]:
    """Yield which shares of overflowing scores a number of seeds can decide."""

    def end(seeds: int) -> float:
        return share_interval(np.zeros(seeds), counted=64**2, independent=64)[1]

    needed = next(seeds for seeds in range(100, 10_000, 10) if end(seeds) < 1e-4)
    yield (
        f"The interval of a share without a single overflow ends at {end(20):.4f} with 20 seeds "
        f"and at {end(40):.4f} with 40, because rows and not scores count as independent. So "
        "`half_precision` does not decide sizes where fewer scores overflow: 1 in 10,000 would "
        f"need about {needed} seeds. Larger sizes, where more overflow, decide it. If as many "
        "overflow in both orders, both verdicts are rare: the end of one interval is compared "
        "with the end of the other, which is stricter than an interval of the difference. For two "
        "normal numbers of equal errors a wrong verdict has a chance of 0.3 % at each such size, "
        "and any size can make the claim true."
    )


def page() -> Iterator[str]:
    """Yield the lines of docs/verdicts-trained.md."""
    yield "# Error rates of the verdicts about training and half precision"
    yield ""
    yield (
        "`python -m campaigns.verdicts_trained docs/verdicts-trained.md` writes this page. It "
        f"draws {REPEATS} runs for each truth and number of seeds and judges them with the code "
        "that judges a real run. Each entry is the percentage of runs with the verdict true / "
        "false. The other runs are undecided or not measured. A good rule has few wrong verdicts "
        "at every number of seeds, and more right ones with more seeds. At the margin of a rule, "
        "either verdict is right, and most runs should stay undecided. The other claims are in "
        "[verdicts.md](verdicts.md), the intervals in [statistics.md](statistics.md)."
    )
    yield ""
    yield from lines(CASES)
    yield ""
    yield (
        "The second row shows a rule that chooses and reports rates on the same seeds. If one "
        "scale rule has five equally good rates and the other has one, the best of the five looks "
        "faster than it is. That rule then says too often that scaling helps."
    )
    yield ""
    yield (
        "`bottleneck` and `vanishing` use the same two conditions as `capacity`: a whole interval "
        "beyond 90 %, and a gain below 5 percentage points in the second half of the training. "
        "The rows of `capacity` apply to them too."
    )
    yield ""
    yield from about_reach()
    yield ""
    yield from about_half_precision()
    yield ""
    yield (
        "`training_twin` has no error rate over seeds. In exact arithmetic the two runs of a pair "
        "are the same run, at every seed. So a pair tests the code and its rounding, not a sample, "
        f"and one pair that differs by more than {100 * training_claims.SAME_LOSS_RTOL} % makes "
        "the claim false."
    )


if __name__ == "__main__":
    write(page())
