"""Simulate how often the rules of `exponent`, `length` and `related_exact` give a wrong verdict.

`python -m campaigns.verdicts_powers docs/verdicts-powers.md` writes the page. Best exponents and
powers are normal over seeds, with the largest standard deviation of the research grid; a seed whose
best exponent is beyond the grid has none. Deviations of the agreement test are of means of gamma
numbers, as skewed as the squares of gradients are, in standard errors of the same numbers.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pandas as pd

from campaigns.verdicts_trained import REPEATS, Case, Draw, lines, write
from sqrtdk.claims.findings import Finding
from sqrtdk.experiments.exponent import claims as exponent_claims
from sqrtdk.experiments.length import best as length_best
from sqrtdk.experiments.length import claims as length_claims
from sqrtdk.experiments.related_exact import claims as exact_claims
from sqrtdk.experiments.related_exact import gate
from sqrtdk.experiments.related_exact.measure import METRICS
from sqrtdk.stats.intervals import interval
from sqrtdk.stats.roots import root_row
from sqrtdk.stats.series import WholeTable

LENGTHS = [16, 64, 256, 1024, 4096]
"""Lengths of a simulated run of `length`."""

DRAWS = 1000
"""Queries behind a mean of the agreement test, as in the research grid."""

POINTS = 1000

SKEWNESS = dict(zip(METRICS, (1.4, 2.4, 1.4, 1.9, 1.3, 3.6, 4.9, 5.0), strict=True))
"""Third standardised moment of each metric's draws, in magnitude: mean over 40 points with a
planted match, of 2,000 queries each."""

SHAPES = 4 / np.array(list(SKEWNESS.values())) ** 2
"""Of the gamma laws with these moments."""


def best(
    judge: Callable[[WholeTable], Finding], truth: float, sd: float, most: float, criterion: str
) -> Draw:
    """Return a judge of a best exponent or power, given the true one and the end of its grid."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        found = truth + sd * rng.standard_normal(seeds)
        found[(found < 0) | (found > most)] = np.nan
        row = {"criterion": criterion, "rows": "independent", **root_row(found, math.nan)}
        row |= dict.fromkeys(("exact_first", "exact_last", "moves_half", "moves_one"), math.nan)
        return judge(WholeTable(pd.DataFrame([row]), settings={"n_k": LENGTHS}))

    return draw


def kept(last: float) -> Draw:
    """Return a judge of a rule over lengths, given how much of the selectivity it keeps."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        rows = []
        for place, n_k in enumerate(LENGTHS):
            mean = 0.4 * (1 - (1 - last) * place / (len(LENGTHS) - 1))
            values = mean + 0.05 * rng.standard_normal(seeds)
            low, high = interval(values)
            rows.append(
                {"n_k": n_k, "rows": "planted", "rule": "gap", "metric": "selectivity",
                 "mean": float(values.mean()), "ci_low": low, "ci_high": high, "exact": mean,
                 "attainable": 1.0}
            )  # fmt: skip
        return length_claims.gap(WholeTable(pd.DataFrame(rows), settings={"n_k": LENGTHS}))

    return draw


def deviations(rng: np.random.Generator, error: float) -> np.ndarray:
    """Return z of each metric at `POINTS` points, given an error in standard errors."""
    # Sums of the draws. The shares of gamma numbers in their sum do not depend on it, nor does
    # their standard deviation over the sum.
    total = rng.gamma(DRAWS * SHAPES, size=(POINTS, len(METRICS)))
    deviation = total / DRAWS - SHAPES + error * np.sqrt(SHAPES / DRAWS)
    found: np.ndarray = deviation / (total * rng.permuted(_relative_errors(), axis=0))
    return found


def agrees(error: float, noise: float = 1.0) -> Draw:
    """Return a judge of the agreement test, given an error in standard errors, and their factor.

    The number of seeds plays no part; the table is of `POINTS` points.
    """

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        z = noise * deviations(rng, error)
        table = pd.DataFrame(z, columns=METRICS).rename_axis("seed").reset_index()
        runs = table.melt("seed", var_name="expectation", value_name="z").assign(vectors="planted")
        return exact_claims.agreement(WholeTable(pd.DataFrame(list(gate.rows({}, runs)))))

    return draw


@cache
def _relative_errors() -> np.ndarray:
    """Return standard errors of the mean of draws over their sum, [POINTS, n_metrics]."""
    draws = np.random.default_rng(0).gamma(SHAPES, size=(POINTS, DRAWS, len(METRICS)))
    found: np.ndarray = draws.std(axis=1, ddof=1) / math.sqrt(DRAWS) / draws.sum(axis=1)
    return found


def exponent(truth: float, power: float) -> Draw:
    """Return a judge of the exponents' claims, which share their rule."""

    def judge(whole: WholeTable) -> Finding:
        part = exponent_claims.Part(whole.table)
        return (exponent_claims.unrelated if power == 0.5 else exponent_claims.related)(part)

    return best(judge, truth, 0.012, 1.5, "entropy")


def power(truth: float) -> Draw:
    """Return a judge of `length_log`; `length_root` and `length_entropy` share its rule."""
    return best(length_claims.power, truth, 0.06, 2.5, length_best.SHARE)


CASES: tuple[Case, ...] = (
    Case("exponent_unrelated", "0.5", "true", exponent(0.5, 0.5)),
    Case("exponent_unrelated", "0.6, the margin", "either", exponent(0.6, 0.5)),
    Case("exponent_unrelated", "0.7", "false", exponent(0.7, 0.5)),
    Case("exponent_related", "1", "true", exponent(1.0, 1.0)),
    Case("exponent_related", "0.9, the margin", "either", exponent(0.9, 1.0)),
    Case("exponent_related", "0.75", "false", exponent(0.75, 1.0)),
    Case("exponent_related", "1.7, beyond the grid", "false", exponent(1.7, 1.0)),
    Case("exponent_related", "1.5, its end", "false", exponent(1.5, 1.0)),
    Case("length_log", "1", "true", power(1.0)),
    Case("length_log", "1.25, the margin", "either", power(1.25)),
    Case("length_log", "0.5", "false", power(0.5)),
    Case("length_gap", "keeps 0.95", "true", kept(0.95)),
    Case("length_gap", "keeps 0.75, the margin", "either", kept(0.75)),
    Case("length_gap", "keeps 0.5", "false", kept(0.5)),
    Case("agreement_related", "no error", "true", agrees(0.0)),
    Case("agreement_related", "0.5 standard errors", "either", agrees(0.5)),
    Case("agreement_related", "0.8 standard errors", "false", agrees(0.8)),
    Case("agreement_related", "errors 1.3 times too small", "false", agrees(0.0, 1.3)),
)


def page() -> Iterator[str]:
    """Yield the lines of docs/verdicts-powers.md."""
    yield "# Error rates of the verdicts about powers of d_k and of log n"
    yield ""
    yield (
        "`python -m campaigns.verdicts_powers docs/verdicts-powers.md` writes this page, in the "
        f"same way as [verdicts-trained.md](verdicts-trained.md): {REPEATS} runs for each truth "
        "and number of seeds, judged by the code that judges a real run. Each entry is the "
        "percentage of runs with the verdict true / false; the others are undecided or not "
        "measured. `exponent_match` shares the rule of `exponent_related`; `length_root`, "
        "`length_entropy` and `length_log_entropy` that of `length_log`; `length_ssmax`, "
        "`length_yarn`, `length_gap_entropy`, `length_ssmax_entropy` and `length_yarn_entropy` "
        "that of `length_gap`. The "
        f"agreement test has {POINTS} points of {DRAWS} queries in every column, and decides "
        "without an interval."
    )
    yield ""
    yield from lines(CASES)
    yield ""
    yield (
        "What was fixed when: the margins (0.1 for an exponent of d_k, 0.25 for a power of log n, "
        "25 % for a selectivity that is kept) and the bounds of the agreement test were set before "
        "the research grid was run. Changed after its first run: a law without a best power in any "
        "seed is false and no longer not measured. `length_ssmax` is about planted rows, for which "
        "the rule was made. `length_entropy` was added, because the best power for the share of "
        "the entropy of unrelated keys differs from that for their selectivity. After the numbers "
        "of later runs were seen, `length_entropy` was judged for all laws of rows and no longer "
        "for unrelated keys only, and `length_log_entropy`, `length_yarn` and "
        "the claims about the entropy under named rules were added, with the rules and margins "
        "that there were."
    )
    yield ""
    yield (
        "Changed after later runs: the selectivity of planted rows is the weight of the match over "
        "its limit at an infinite factor, the exact probability that the match has the largest "
        "score. The rules before judged the weight itself. Its limit falls from 0.98 at 16 keys to "
        "0.34 at 100,000, by more than the margin of 25 %, so that `length_ssmax`, and planted "
        "rows in `length_log` and `length_gap`, failed under every factor: the length of the grid "
        "decided, not the rule. Of the share both outcomes are possible: under no factor it falls "
        "by 99.7 % (exact), under log n by 5.6 %, under SSMax by 2.2 %. With it `length_ssmax` "
        "went from false to true with a condition, planted rows of `length_log` from failing to "
        "holding, and those of `length_gap` from failing to undecided, near the margin (an exact "
        "range of 26 %), so that this claim is not measured. The verdicts of the other laws of "
        "rows are as before. The verdicts about a power now name the range of lengths, because one "
        "power does not hold at every length, and say whether the claimed power itself keeps the "
        "selectivity to 25 %; this does not decide, because for unrelated keys it is at the margin "
        "(24.7 %). The gap-counting scale was the median of 64 rows or more, the same for all "
        "seeds, with an error of 5 to 12 % that no interval had; now its error is about 0.5 %. A "
        "planted row has 16 matches in turn, because with one match in each row `length_ssmax` is "
        "undecided."
    )
    yield ""
    yield (
        "The grid of `exponent` first had 64 and 256 keys, where the exponent for a match is "
        "within its margin. After its numbers were seen, 1024 and 4096 were added, where it is "
        "not. The rule of an exponent is as before. A condition now says that it falls if its "
        "whole interval at the largest n_k is below that at the smallest, as a level exponent's "
        "is in about 0.3 % of runs (two intervals of 95 % and equal width), or that the run has "
        "one n_k only."
    )
    yield ""
    yield (
        "The first run of the agreement test had values of one dimension. The root mean squares of "
        "z were within the bounds (0.96 to 1.15), but one |z| of 24,000 was 6.2, of the gradient "
        "at a point on the sphere with two keys, so that the claim failed for the sphere. With "
        "60,000 queries at that point instead of 400, z is 1.4 at most: the squares there have a "
        "skewness of 15 to 22, and the mean of 400 is not normal. The values now have 16 "
        "dimensions, and the squares a skewness of 4 to 7. The bounds are as before; the root mean "
        "squares were 0.96 to 1.10 then, and the largest |z| 5.7, of the gradient at a point with "
        "a planted match. Of normal numbers that would be one in 10,000 tables. But where a mean "
        "of skewed squares is low, its standard error, which is of the same squares, is low too."
    )
    yield ""
    rng = np.random.default_rng(0)
    z = np.concatenate([deviations(rng, 0.0) for _ in range(100)])[:, -3:]
    rms = np.sqrt(np.mean(z**2, axis=0))
    yield (
        "Those points had 2 to 24 keys of 2 to 32 dimensions, and means of 400 queries. After "
        "those numbers were seen, the sizes became log-uniform, up to 128 keys of 64 dimensions, "
        "and from 4 dimensions on: with two, |q|² is exponential, and the largest |z| of a trial "
        "with them was 5.9, in two dimensions. The queries became 1,000: in the simulation below "
        "400 reject 8 % of tables without an error, 1,000 reject 1 %. The bounds are as before. "
        "Now the root mean squares are 0.96 to 1.05 and the largest |z| is 4.6. The simulation has "
        "the skewness of each metric with a planted match, up to "
        f"{max(SKEWNESS.values()):g} in magnitude, and standard errors of the same draws. Without "
        "an error the root mean square of z of the three squares of gradients is "
        f"{min(rms):.2f} to {max(rms):.2f} there."
    )
    yield ""
    yield (
        "The best exponent of a seed is a root, whose mean over seeds is not exactly the root of "
        "the mean curve. On the research grid the mean over seeds is within 0.006 of the exact "
        "root for exponents of d_k and within 0.02 for powers of log n (1.9 standard errors, of "
        "planted rows), far below the margins. The planted rows of its 12 seeds lie low by "
        "chance: at 64 keys and the factor 1, their weight of the match is 2.6 standard errors "
        "below the exact one, and that of 600 other seeds 1.4 above it."
    )


if __name__ == "__main__":
    write(page())
