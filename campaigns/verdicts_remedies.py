"""Simulate how often the rules of `remedies`, `sinks` and `extrapolation` give a wrong verdict.

`python -m campaigns.verdicts_remedies docs/verdicts-remedies.md` writes the table. Steps to 90 %
are log-normal over seeds, as in `verdicts_trained`; other numbers are normal, and ratios
log-normal, with the standard deviations that the research grid has at most.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from campaigns.verdicts_trained import BUDGET, REPEATS, Case, Draw, lines, steps, write
from sqrtdk.claims.findings import Finding
from sqrtdk.experiments.extrapolation import claims as length_claims
from sqrtdk.experiments.remedies import claims as remedies_claims
from sqrtdk.experiments.remedies import ladder
from sqrtdk.experiments.sinks import claims as sinks_claims
from sqrtdk.experiments.training import rates
from sqrtdk.stats.intervals import typical_ratio
from sqrtdk.stats.seed_columns import estimate_row, mean_row
from sqrtdk.stats.series import WholeTable

GRID = [0.01, 0.03, 0.1]


def _mean(
    rng: np.random.Generator, seeds: int, name: str, mean: float, sd: float, ends: str = ""
) -> dict[str, float]:
    """Return a mean over seeds and the ends of its interval, as columns of a table."""
    return mean_row(name, mean + sd * rng.standard_normal(seeds), ends=ends)


def _ratio(
    rng: np.random.Generator, seeds: int, name: str, typical: float, sd: float
) -> dict[str, float]:
    """Return a typical ratio over seeds and the ends of its interval."""
    found = typical_ratio(typical * np.exp(sd * rng.standard_normal(seeds)))
    return estimate_row(name, found)


def _judged(rows: list[dict[str, object]]) -> WholeTable:
    return WholeTable(pd.DataFrame(rows))


def replaces(ratio: float) -> Draw:
    """Return a judge of `replaces_*`, given the true ratio of steps to those with 1/√d_k."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        found = {}
        for name, typical in (("on", 20.0), ("warmup", 20.0 * ratio)):
            each = [steps(rng, slower * typical, seeds) for slower in (1.5, 1.0, 1.5)]
            near = np.stack(each, axis=1)
            there = np.where(np.isfinite(near), 1.0, 0.3)
            runs = rates.Runs(list(range(seeds)), GRID, near, there, np.zeros_like(near))
            found[name] = runs, np.ones_like(near)
        settings: Any = {"steps": BUDGET, "learning_rate": GRID}
        table = pd.DataFrame(list(ladder.rows_of(found, settings))).assign(d_k=1024)
        return remedies_claims.replaces("It", WholeTable(table[table["remedy"] == "warmup"]))

    return draw


def sensitivity(gap: float) -> Draw:
    """Return a judge of `rate_sensitivity`, given the true difference from 1/√d_k."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        row = {"d_k": 1024} | _mean(rng, seeds, "sensitivity_gap", gap, 0.45, "gap")
        return remedies_claims.sensitivity(
            _judged([row | _mean(rng, seeds, "sensitivity", 2.0, 0.45)])
        )

    return draw


def transfers(on: float, inverse: float) -> Draw:
    """Return a judge of `rate_transfer`, given the true slopes with 1/√d_k and with c/d_k."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        rows: list[dict[str, object]] = []
        for name, slope in (("on", on), ("inverse_64", inverse)):
            found = _mean(rng, seeds, "slope", slope, 0.08)
            rows += [
                {"remedy": name, "d_k": d_k, "best_rate": 0.03} | found
                for d_k in (16, 64, 256, 1024)
            ]
        return remedies_claims.transfers(_judged(rows))

    return draw


def predicts(gap: float) -> Draw:
    """Return a judge of `instability`, given the true gap of the limits in decades."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        row = {"d_k": 1024, "n_seeds": seeds, "judged": seeds, "agree_stable": 0, "missed": 0,
               "threshold": 2000.0, "limit": 0.1, "predicted_limit": 0.1}  # fmt: skip
        return remedies_claims.predicts(_judged([row | _mean(rng, seeds, "gap", gap, 0.25)]))

    return draw


def sinks(ratio: float) -> Draw:
    """Return a judge of `sink_needed`, given the true ratio of the losses."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        rows = []
        for attention in ("softmax", "sink_logit"):
            row = {"attention": attention, "first_key": "none", "edge": ""}
            row |= _ratio(rng, seeds, "sink_ratio", ratio, 0.3)
            for name in ("loss_unmatched", "loss_matched"):
                row |= _mean(rng, seeds, name, 1.0, 0.1)
            rows.append(row)
        return sinks_claims.needed(_judged(rows))

    return draw


def first_key(without: float, matched: float) -> Draw:
    """Return a judge of `first_key_sink`, given the true weights on the first key."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        row = {"attention": "softmax", "first_key": "learned", "edge": ""}
        row |= _mean(rng, seeds, "first_weight_unmatched", without, 0.15)
        row |= _mean(rng, seeds, "first_weight_matched", matched, 0.05)
        return sinks_claims.becomes_sink(
            _judged([row | _mean(rng, seeds, "first_value_rms", 0.1, 0.01)])
        )

    return draw


def sigmoid(weight: float, ratio: float) -> Draw:
    """Return a judge of `sigmoid_no_sink`, given the weight on the key and the ratio without it."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        row = {"attention": "sigmoid_bias", "first_key": "learned", "edge": ""}
        row |= _mean(rng, seeds, "first_weight_unmatched", weight, 0.15)
        return sinks_claims.sigmoid(
            _judged([row | _ratio(rng, seeds, "other_ratio", 1 / ratio, 0.3)])
        )

    return draw


LONGEST = {"multiplier": "fixed", "n_k": 16, "n_asked": 4096, "edge": "", "best_match_weight": 0.9}


def disperses(kept: float) -> Draw:
    """Return a judge of `dispersion`, given the true ratio of the weights on the match."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        row = LONGEST | _ratio(rng, seeds, "kept", kept, 0.15)
        return length_claims.disperses(
            _judged([row | _mean(rng, seeds, "match_weight", 0.3, 0.04)])
        )

    return draw


def keeps(weight: float, ratio: float) -> Draw:
    """Return a judge of `length_scale`, given the weight on the match and the ratio of losses."""

    def draw(rng: np.random.Generator, seeds: int) -> Finding:
        row = LONGEST | _ratio(rng, seeds, "loss_ratio", ratio, 0.2)
        row |= _mean(rng, seeds, "match_weight", weight, 0.06)
        return length_claims.keeps(_judged([row | _mean(rng, seeds, "held_out_loss", 2.0, 0.4)]))

    return draw


CASES: tuple[Case, ...] = (
    Case("replaces", "ratio 0.5", "true", replaces(0.5)),
    Case("replaces", "ratio 1", "true", replaces(1.0)),
    Case("replaces", "ratio 2, the margin", "either", replaces(2.0)),
    Case("replaces", "ratio 4", "false", replaces(4.0)),
    Case("rate_sensitivity", "lower by 0.5", "true", sensitivity(-0.5)),
    Case("rate_sensitivity", "the same, the margin", "either", sensitivity(0.0)),
    Case("rate_sensitivity", "higher by 0.5", "false", sensitivity(0.5)),
    Case("rate_transfer", "slopes -0.25 and 0", "true", transfers(-0.25, 0.0)),
    Case("rate_transfer", "slopes -0.125 and 0, the margin", "either", transfers(-0.125, 0.0)),
    Case("rate_transfer", "slopes 0 and 0", "false", transfers(0.0, 0.0)),
    Case("instability", "0 decades apart", "true", predicts(0.0)),
    Case("instability", "0.5 decades, the margin", "either", predicts(0.5)),
    Case("instability", "1 decade", "false", predicts(1.0)),
    Case("sink_needed", "ratio 4", "true", sinks(4.0)),
    Case("sink_needed", "ratio 2, the margin", "either", sinks(2.0)),
    Case("sink_needed", "ratio 1", "false", sinks(1.0)),
    Case("first_key_sink", "weights 0.8 and 0.1", "true", first_key(0.8, 0.1)),
    Case("first_key_sink", "weights 0.5 and 0.1, the margin", "either", first_key(0.5, 0.1)),
    Case("first_key_sink", "weights 0.2 and 0.1", "false", first_key(0.2, 0.1)),
    Case("sigmoid_no_sink", "weight 0.1, ratio 1", "true", sigmoid(0.1, 1.0)),
    Case("sigmoid_no_sink", "weight 0.1, ratio 2, the margin", "either", sigmoid(0.1, 2.0)),
    Case("sigmoid_no_sink", "weight 0.8, ratio 1", "false", sigmoid(0.8, 1.0)),
    Case("dispersion", "keeps 0.3", "true", disperses(0.3)),
    Case("dispersion", "keeps 0.5, the margin", "either", disperses(0.5)),
    Case("dispersion", "keeps 0.9", "false", disperses(0.9)),
    Case("length_scale", "weight 0.7, loss ratio 0.6", "true", keeps(0.7, 0.6)),
    Case("length_scale", "weight 0.5, loss ratio 0.6, the margin", "either", keeps(0.5, 0.6)),
    Case("length_scale", "weight 0.3, loss ratio 1", "false", keeps(0.3, 1.0)),
)


def page() -> Iterator[str]:
    """Yield the lines of docs/verdicts-remedies.md."""
    same = [f"`{x.claim}`" for x in remedies_claims.CLAIMS if x.claim.startswith("replaces_")]
    yield "# Error rates of the verdicts about remedies, sinks and length"
    yield ""
    yield (
        "`python -m campaigns.verdicts_remedies docs/verdicts-remedies.md` writes this page, in "
        f"the same way as [verdicts-trained.md](verdicts-trained.md): {REPEATS} runs for each "
        "truth and number of seeds, judged by the code that judges a real run. Each entry is the "
        "percentage of runs with the verdict true / false; the others are undecided or not "
        f"measured. `replaces` stands for the {len(same)} claims {', '.join(same[:-1])} and "
        f"{same[-1]}."
    )
    yield ""
    yield from lines(CASES)
    yield ""
    yield (
        "Five seeds give no interval of a ratio, so claims that rest on one need six. The margins "
        "were set before the research grid was run, after trials with one or two seeds: a factor "
        "of 2 for steps and losses (that of `score_width`), more than half of the weight for a "
        "sink or a match, 1/8 for the slope of the best rate over the logarithm of d_k, half a "
        "decade for a predicted learning rate."
    )


if __name__ == "__main__":
    write(page())
