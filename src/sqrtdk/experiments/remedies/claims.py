"""Judge the claims about remedies from ladder.csv, transfer.csv and instability.csv."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import FACTOR, Finding
from sqrtdk.experiments.remedies.ladder import MEASURE
from sqrtdk.experiments.training.claims import Ratio
from sqrtdk.schema import Settings
from sqrtdk.stats.decisions import MIN_DECISIVE_D_K, all_known, beyond, need_far, within
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.seed_columns import estimate_of
from sqrtdk.stats.series import WholeTable
from sqrtdk.stats.wording import format_estimate, format_number

MAX_SLOPE = 0.125
"""A best rate whose slope over ln d_k is smaller transfers: over a factor of 64 it changes by less
than 64^(1/8) = 1.7, about half of a step of a grid of 1, 3, 10."""

MAX_GAP = 0.5
"""Decades by which a predicted limit may miss: one step of a grid of 1, 3, 10."""


def _at_largest(whole: WholeTable) -> Mapping[str, Any]:
    table = whole.table
    return dict(table[table["d_k"] == table["d_k"].max()].to_dict("records")[0])


def replaces(name: str, whole: WholeTable) -> Finding:
    """Judge whether a remedy without a scale is at most `FACTOR` times slower than 1/√d_k."""
    row = _at_largest(whole)
    d_k = int(row["d_k"])
    if math.isnan(row["ratio_least"]):
        raise MissingError(f"the run has no remedy {MEASURE}")
    ratio = Ratio(*(row[f"ratio_{end}"] for end in Ratio._fields))
    if ratio.least == math.inf or (ratio.least, ratio.most) == (0.0, math.inf):
        raise MissingError(f"at d_k = {d_k} too few runs reach 90 %")
    holds = ratio.beyond(FACTOR, above=False)
    if row["edge"] and holds is not True:
        raise MissingError(f"a best learning rate is at the edge of the grid at d_k = {d_k}")
    if d_k < MIN_DECISIVE_D_K:
        raise MissingError(
            f"the ratio is {ratio.text()} at d_k = {d_k}, the largest; larger d_k may differ"
        )
    steps = Estimate(row["crossfit_steps"], row["crossfit_low"], row["crossfit_high"])
    verb = {True: "replaces", False: "does not replace", None: "may replace"}[holds]
    took = (
        f"more than {row['steps']}"
        if math.isinf(steps.mean)
        else f"{steps.mean:g}"
        if steps.low == steps.high
        else format_estimate(steps)
    )
    return Finding(
        holds,
        f"{ratio.text(' times')} the steps of 1/√d_k at d_k = {d_k}",
        f"{name} {verb} 1/√d_k. At d_k = {d_k} the steps to 90 % accuracy are {took}, "
        f"{ratio.text(' times')} those with 1/√d_k, each at its best learning rate.",
        f"steps to 90 % over those of 1/√d_k at d_k = {d_k}",
        ratio.bound,
        max(0.0, min(abs(ratio.least - FACTOR), abs(ratio.most - FACTOR))),
    )


def sensitivity(whole: WholeTable) -> Finding:
    """Judge whether a remedy's learning-rate sensitivity is below that of 1/√d_k."""
    row = _at_largest(whole)
    d_k = int(row["d_k"])
    if math.isnan(row["sensitivity_gap"]):
        raise MissingError(f"the run has no remedy {MEASURE}")
    gap = estimate_of(row, "sensitivity_gap", ends="gap")
    own = estimate_of(row, "sensitivity")
    holds = beyond(gap, 0.0, above=False)
    if holds is not True and d_k < MIN_DECISIVE_D_K:
        raise MissingError(f"d_k = {d_k} is the largest; larger d_k may differ")
    verb = {True: "lowers", False: "does not lower", None: "may lower"}[holds]
    other = own.mean - gap.mean
    return Finding(
        holds,
        f"expected loss above the best {format_estimate(own)}, with 1/√d_k {format_number(other)}",
        f"QK-norm {verb} the sensitivity to the learning rate: at d_k = {d_k} the expected loss "
        f"above that of the best rate is {format_estimate(own)}, and {format_number(other)} with "
        "1/√d_k.",
        f"sensitivity minus that of 1/√d_k at d_k = {d_k}",
        gap,
        abs(gap.mean),
        f"tried up to d_k = {d_k} only" if d_k < MIN_DECISIVE_D_K else "",
    )


def transfers(whole: WholeTable) -> Finding:
    """Judge whether the best rate transfers over d_k with c/d_k, and not with 1/√d_k."""
    table = whole.table
    found = {}
    for name in ("on", "inverse_64"):
        rows = table[table["remedy"] == name]
        if rows.empty or rows["slope"].isna().any():
            raise MissingError(f"the run has no slope of the best rate with {name}")
        first = rows.iloc[0]
        found[name] = Estimate(first["slope"], first["slope_low"], first["slope_high"])
        need_far({int(d_k): Estimate(0.0) for d_k in rows["d_k"]})
    states = {name: within(one, -MAX_SLOPE, MAX_SLOPE) for name, one in found.items()}
    moves = None if states["on"] is None else not states["on"]
    holds = all_known((states["inverse_64"], moves))
    words = {True: "transfers", False: "does not transfer", None: "may transfer"}
    on, inverse = found["on"], found["inverse_64"]
    ends = table[(table["remedy"] == "on")].sort_values("d_k")[["d_k", "best_rate"]]
    return Finding(
        holds,
        f"slope of ln best rate over ln d_k {format_estimate(inverse)} with c/d_k and "
        f"{format_estimate(on)} with 1/√d_k",
        f"Over d_k the best learning rate {words[states['inverse_64']]} with c/d_k and "
        f"{words[states['on']]} with 1/√d_k: the slopes of its logarithm over that of d_k are "
        f"{format_estimate(inverse)} and {format_estimate(on)}. With 1/√d_k it goes from "
        f"{format_number(ends['best_rate'].iloc[0])} at d_k = {ends['d_k'].iloc[0]} to "
        f"{format_number(ends['best_rate'].iloc[-1])} at {ends['d_k'].iloc[-1]}.",
        "slope of ln best rate over ln d_k with 1/√d_k",
        on,
        min(abs(abs(one.mean) - MAX_SLOPE) for one in found.values()),
    )


def predicts(whole: WholeTable) -> Finding:
    """Judge whether the limit of the learning rate is predicted to within `MAX_GAP` decades."""
    row = whole.table.to_dict("records")[0]
    d_k, seeds = int(row["d_k"]), int(row["n_seeds"])
    judged, stable = int(row["judged"]), int(row["agree_stable"])
    if d_k < MIN_DECISIVE_D_K:
        raise MissingError(f"the largest d_k is {d_k}; larger d_k may differ")
    level = format_number(row["threshold"])
    if stable == seeds:
        return Finding(
            True,
            f"no limit on the grid, as predicted, in {seeds} of {seeds} seeds",
            f"The largest logit predicts that no rate of the grid fails at d_k = {d_k}, and none "
            "does.",
            f"seeds without a limit at d_k = {d_k}",
            Estimate(float(stable)),
            math.inf,
        )
    missed = int(row["missed"])
    if 2 * missed > seeds:
        return Finding(
            False,
            f"only one of both limits is on the grid in {missed} of {seeds} seeds",
            f"The largest logit of smaller heads does not predict where training fails at d_k = "
            f"{d_k}: in {missed} of {seeds} seeds only one of the measured and the predicted limit "
            "is on the grid.",
            f"seeds with one limit at d_k = {d_k}",
            Estimate(float(missed)),
            missed - seeds / 2,
        )
    if 2 * judged <= seeds:
        raise MissingError(
            f"{judged} of {seeds} seeds have a measured and a predicted limit on the grid"
        )
    gap = estimate_of(row, "gap")
    holds = within(gap, -MAX_GAP, MAX_GAP)
    verb = {True: "predicts", False: "does not predict", None: "may predict"}[holds]
    measured, predicted = (format_number(row[x]) for x in ("limit", "predicted_limit"))
    left = f" ({judged} of {seeds} seeds have both on the grid)" if judged < seeds else ""
    return Finding(
        holds,
        f"fails from a rate of {measured} on, predicted {predicted}, {format_estimate(gap)} "
        f"decades apart{left}",
        f"The largest logit of smaller heads {verb} where training fails at d_k = {d_k}: from a "
        f"learning rate of {measured} on, {predicted} predicted, where the extended largest logit "
        f"crosses {level}{left}.",
        f"decades of the predicted over the measured limit at d_k = {d_k}",
        gap,
        abs(abs(gap.mean) - MAX_GAP),
    )


def _only(*names: str) -> Callable[[Settings, pd.DataFrame], Sequence[WholeTable]]:
    """Return a function that makes one part for each of the remedies that a table has."""

    def parts(settings: Settings, table: pd.DataFrame) -> list[WholeTable]:
        found = [(name, table[table["remedy"] == name]) for name in names]
        labels = len(names) > 1
        return [
            WholeTable(rows, f"remedy = {name}" if labels else "", settings=settings)
            for name, rows in found
            if len(rows)
        ]

    return parts


QK_NORM = ("qk_norm_1", "qk_norm_8", "qk_norm_32")

_NAMES = {
    "warmup": ("Warm-up of the learning rate", ("warmup",)),
    "adamw": ("AdamW's weight decay", ("adamw",)),
    "clipping": ("Gradient clipping", ("clipping",)),
    "temperature": ("A learned temperature", ("temperature",)),
    "soft_cap": ("A soft cap on the logits", ("soft_cap",)),
    "qk_clip": ("QK-clip", ("qk_clip",)),
    "qk_norm": ("QK-norm with a learned scale", QK_NORM),
}

_REPLACES = (
    "The ratio is the typical one over seeds (Hodges-Lehmann) of the steps to 90 % held-out "
    "accuracy with the remedy and without a scale, to those with 1/√d_k, at the run's largest d_k. "
    "Half of the seeds choose the learning rate of each, the other half are reported at it, and "
    "vice versa. If a run does not reach 90 %, the steps trained bound its ratio. This is a test "
    f"of non-inferiority with a margin of {FACTOR}: true if the whole interval is below {FACTOR}, "
    "false if it is above, open otherwise. Not measured if that d_k is below "
    f"{MIN_DECISIVE_D_K}, with fewer than six seeds, or if it is not true and a chosen rate is at "
    "the edge of the grid."
)

CLAIMS = (
    *(
        Claim(
            f"replaces_{name}",
            f"{words} replaces 1/√d_k.",
            _REPLACES,
            "remedies-steps",
            partial(replaces, words),
            source="ours",
            evidence=_only(*names),
            table="ladder",
        )
        for name, (words, names) in _NAMES.items()
    ),
    Claim(
        "rate_sensitivity",
        "QK-norm makes training less sensitive to the learning rate than 1/√d_k.",
        "Learning-rate sensitivity (Wortsman et al. 2023) is the expected final loss above that of "
        "the best rate, over the logarithms of the rates of the grid; a loss counts as at most "
        "that of equal weights. True if, at the run's largest d_k, the whole interval of the mean "
        "difference from 1/√d_k, seed by seed, is below 0, false if it is above. Not measured "
        f"unless true or that d_k is {MIN_DECISIVE_D_K} or more.",
        "remedies-loss",
        sensitivity,
        source="ours",
        evidence=_only(*QK_NORM),
        table="ladder",
    ),
    Claim(
        "rate_transfer",
        "The best learning rate transfers over d_k with c/d_k, not with 1/√d_k.",
        "The slope is that of the logarithm of the best rate over that of d_k, mean over seeds. A "
        f"rate transfers if the whole interval is between -{MAX_SLOPE} and {MAX_SLOPE}, and does "
        "not if it is wholly outside. True if it transfers with c/d_k and does not with 1/√d_k, "
        "false if one of the two is surely otherwise. The grid must span a factor of 64 in d_k.",
        "remedies-transfer",
        transfers,
        source="ours",
        evidence=lambda settings, table: [WholeTable(table, settings=settings)],
        table="transfer",
    ),
    Claim(
        "instability",
        "The largest logit of small heads predicts the learning rate at which a large one fails.",
        "A run fails if it ends with a loss above that of equal weights. The threshold is the "
        "logit that best separates failed runs of all smaller d_k from the others. For each rate, "
        "ln(largest logit) over ln(d_k) of the smaller heads is extended to the largest d_k; the "
        "predicted limit is the rate at which it crosses the threshold. True for a remedy if the "
        "whole interval of the decades between predicted and measured limit, seed by seed, is "
        f"within ±{MAX_GAP}, or if no rate fails in any seed, as predicted; false if the interval "
        "is wholly outside, or if most seeds have only one of both limits on the grid. Not "
        f"measured if fewer than half have both, or the largest d_k is below {MIN_DECISIVE_D_K}.",
        "remedies-logits",
        predicts,
        source="ours",
        evidence=lambda settings, table: [
            WholeTable(table[table["remedy"] == name], f"remedy = {name}", settings=settings)
            for name in sorted(set(table["remedy"]))
        ],
        table="instability",
    ),
)
