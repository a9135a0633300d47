"""The ledger: each sentence of the chapter with a verdict that the summary tables decide.

A claim is judged series by series (a series is everything but d_k and the scale rule) by a rule
that stands beside it in words. Nothing here is written by hand but the sentences and the rules:
other tables give other verdicts. Where a run cannot decide, the verdict is "not measured" and the
reason is said.
"""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from sqrtdk import (
    commands,
    config,
    contrasts,
    judges,
    judges_recall,
    learning,
    rates,
    summary,
    tables,
    twins,
    widths,
)
from sqrtdk.estimates import (
    MissingError,
)
from sqrtdk.experiments import scaling
from sqrtdk.experiments.encoder_decoder import SOLVED
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.judges import (
    FACTOR,
    HEAD,
    LARGE,
    ONE_HOT,
    SLOPE_TOLERANCE,
    STABLE,
    Reading,
    Subject,
    few,
)
from sqrtdk.keys import Column
from sqrtdk.series import Whole, series_of

TRUE = "true"
CONDITIONAL = "true with a condition"
FALSE = "false"
NOT_MEASURED = "not measured"
VERDICTS = (TRUE, CONDITIONAL, FALSE, NOT_MEASURED)

BETWEEN = " | "
"""Stands between two series of `numbers`: no number, name or word of ours contains it."""

COLUMNS = (
    Column("claim", "Short name of the claim.", read=str, axis=True),
    Column("experiment", "Experiment whose tables decide.", read=str),
    Column("sentence", "What the chapter says.", read=str),
    Column("verdict", f"One of: {', '.join(VERDICTS)}.", read=str),
    Column(
        "condition",
        "Where the sentence holds, or why it was not measured. Empty when it holds, or fails, "
        "everywhere.",
        read=str,
        optional=True,
    ),
    Column("answer", "What was found, in a sentence.", read=str),
    Column(
        "series",
        "The series whose numbers stand in `answer`: one in the middle of the grid that agrees "
        "with the verdict. Empty when not measured, or where the whole table is judged.",
        read=str,
        optional=True,
    ),
    Column(
        "quantity",
        "What `value` is, in the series that is closest to another verdict. Empty when not "
        "measured, like the three columns after it.",
        read=str,
        optional=True,
    ),
    Column("value", "The number that decides.", optional=True),
    Column("ci_low", "Lower end of its interval. Empty where there is none.", optional=True),
    Column(
        "ci_high",
        "Upper end of its interval. Empty where there is none or no bound.",
        optional=True,
    ),
    Column(
        "numbers",
        f"The measured numbers of each series, with intervals; {BETWEEN.strip()} between series.",
        read=str,
    ),
    Column("rule", "How the verdict follows from the table.", read=str),
    Column("figure", "Figure that shows it: a file of figures/, without its ending.", read=str),
)


@dataclass(frozen=True)
class Claim:
    """A sentence and how it is judged.

    `subjects` makes what is judged of an experiment's settings and summary. `also` names
    experiments of the same shape whose subjects count too, where a run has them.
    `table` is the table of the experiment that decides; the subjects of another one than the
    summary are made of that one.
    `caveat` is what a run has to say that has no related inputs, and so cannot see the claim fail.
    The claim about training has one always: no run of it has other initial weights.
    """

    claim: str
    sentence: str
    rule: str
    figure: str
    judge: Callable[[Any], Reading]
    vectors: Literal["unrelated", "related"] | None = None
    caveat: str = ""
    experiment: str = "scaling"
    also: tuple[str, ...] = ()
    subjects: Callable[[Mapping[str, Any], pd.DataFrame], Sequence[Subject]] | None = None
    table: str = "summary"


_END = (
    f"at the grid's largest d_k. Where it is not: false if that d_k is {LARGE} or more, else not "
    "measured."
)

_LATE = f"With a condition where it begins above d_k = {HEAD}."

CLAIMS = (
    Claim(
        "scores_grow",
        "The dot products of unrelated vectors grow as √d_k.",
        "True where the slope of ln logit_std on ln d_k, without scaling, lies with its whole "
        f"interval within {SLOPE_TOLERANCE} of 1/2; false where it lies wholly outside.",
        "scaling-logit_std",
        judges.scores_grow,
        vectors="unrelated",
    ),
    Claim(
        "saturation",
        "Large d_k saturates the softmax.",
        f"True where entropy_normalized without scaling is below 1/2 {_END} {_LATE}",
        "scaling-entropy",
        judges.saturation,
    ),
    Claim(
        "one_hot",
        "Without scaling the attention weights become nearly one-hot.",
        f"True where max_weight without scaling is above {ONE_HOT} {_END} {_LATE}",
        "scaling-max_weight",
        judges.one_hot,
    ),
    Claim(
        "stable",
        "Dividing by √d_k keeps the softmax stable, regardless of d_k.",
        "True where the largest and the smallest entropy_nats over d_k, with 1/√d_k, differ by "
        f"less than {100 * STABLE:.0f} % of the largest; false where by more. With a condition "
        "where a run has only inputs that are unrelated.",
        "scaling-entropy",
        judges.stable,
        caveat="for unrelated vectors; this run has no related ones",
        also=("related",),
    ),
    Claim(
        "gradients_typical",
        "Without scaling the gradients are close to zero for most positions.",
        "True where, without scaling, more than half of the entries of the gradient with respect "
        "to the logits are below 1e-3/n_k and the median row norm is below that with scaling, both "
        f"{_END} {_LATE}",
        "scaling-dead_entries",
        judges.gradients_typical,
    ),
    Claim(
        "gradients_rms",
        "Without scaling the gradients that reach q, k and v vanish.",
        "True where the root mean squares of the gradients with respect to q, k and v are all "
        "smaller without scaling than with it at the grid's largest d_k; false where one is larger "
        "there.",
        "scaling-gradients",
        judges.gradients_rms,
        vectors="unrelated",
    ),
    Claim(
        "gradients_related",
        "Where queries and keys are related, the gradients that reach them vanish.",
        "True where the root mean squares of the gradients with respect to q and k are both "
        "smaller without scaling than with it at some d_k above 1; false where one is larger at "
        "all of them.",
        "related-gradients",
        judges.gradients_matched,
        vectors="related",
        experiment="related",
    ),
    Claim(
        "from_64",
        "Scaling matters from d_k = 64 on.",
        "True where half of the entropy is lost without scaling between d_k = "
        f"{HEAD // FACTOR} and {HEAD * FACTOR}; false where it is lost elsewhere. Interpolated "
        "between two values of the grid, linear in ln d_k.",
        "scaling-onset",
        judges.from_64,
        vectors="unrelated",
    ),
    Claim(
        "inverse",
        "Dividing by d_k keeps the softmax stable for related vectors too.",
        "True where, for an input law of related vectors, the largest and the smallest "
        f"entropy_nats over d_k, with 1/d_k, differ by less than {100 * STABLE:.0f} % of the "
        "largest; false where by more.",
        "related-entropy",
        judges.stable_inverse,
        vectors="related",
        experiment="related",
    ),
    Claim(
        "half_precision",
        "In half precision the scale belongs before the score product.",
        "True where, at some size, fewer float16 scores overflow with the scale before the "
        "product than after it; false where at none. Only sizes where some overflow and the scale "
        "is not 1 count. The condition says which they are.",
        "precision-errors",
        judges.half_precision,
        experiment="precision",
        subjects=lambda _, table: [Whole(table)],
    ),
    Claim(
        "agreement",
        "Measurement and theory agree.",
        f"True where the root mean square of z is between {summary.RMS_Z[0]} and "
        f"{summary.RMS_Z[1]} and the largest |z| below {summary.MAX_ABS_Z}; false elsewhere. z is "
        "the deviation in standard errors, brought from Student's t to the normal scale. Every "
        f"float64 mean with an exact value and at least {summary.GATED_SEEDS} seeds counts, once "
        "where metrics or arms of one draw have the same |z|. The rule cannot see errors far below "
        "the standard error of every mean, nor errors in what has no exact value: medians, "
        "quantiles, shares, other input laws, and rules that look at q and k.",
        "scaling-entropy",
        judges.agreement,
        subjects=lambda _, table: [Whole(table)],
    ),
    Claim(
        "training",
        "Scaling helps training.",
        "The ratio is the median over seeds of the steps to 90 % held-out accuracy without scaling "
        "over those with 1/√d_k. Half of the seeds choose the best learning rate of each arm, the "
        "other half are reported at it, and the other way round. A run that does not get there "
        "bounds the ratio of its seed by the steps trained; of the interval the outer bounds "
        "count. At the grid's largest d_k: true where both are above 1; where both are below 1, or "
        f"both are 1, false if that d_k is {LARGE} or more, else not measured; undecided "
        "elsewhere. Not measured where that d_k is 1, a chosen rate there is at the edge of the "
        "grid, fewer than six seeds give no interval, or too few runs get to 90 % to bound the "
        f"ratio. With a condition where the ratio is below {learning.MUCH}, or may be.",
        "training-steps",
        learning.scaling_helps,
        caveat="for initial weights that give q and k entries of variance 1; smaller ones do "
        "without it",
        experiment="training",
        subjects=learning.comparisons,
        table="rates",
    ),
    Claim(
        "stability",
        "Scaling matters for training stability at large d_k.",
        "The window of learning rates is the number of decades of rates at which a run ends at 90 "
        "% accuracy or more. Compared is, seed by seed, how much wider it is with 1/√d_k than "
        "without scaling, at the grid's largest d_k. True where the whole interval of the mean is "
        f"above {learning.WIDER:.2f} decades, a factor of 2; where it is below, false if that d_k "
        f"is {LARGE} or more, else not measured; undecided elsewhere. Not measured where the "
        "window that would have to be the narrower one reaches an end of the grid.",
        "training-rates",
        learning.stability,
        experiment="training",
        subjects=learning.comparisons,
        table="rates",
    ),
    Claim(
        "training_twin",
        "What scaling does for training, smaller initial weights do without it.",
        "True where every run with 1/√d_k and its twin without a scale, from weights divided by "
        "the fourth root of d_k and at a rescaled learning rate, reach 90 % at the same step, or "
        "neither does, and their losses "
        f"never differ by more than {100 * learning.SAME} %, which leaves room for rounding; false "
        "elsewhere.",
        "training-steps",
        learning.same_run,
        experiment="training",
        subjects=lambda _, table: [Whole(table)],
        table="twins",
    ),
    Claim(
        "projections",
        "Queries, keys and values each need their own projection.",
        "The task is a lookup in which a query is its item turned by a right angle, and the answer "
        "is the item turned the other way round. True where, after training, the head with three "
        f"projections answers with an accuracy surely above {SOLVED} at some learning rate, and "
        "both the head with W_q = W_k and the head with W_v = I are surely below at every one, "
        "with surely less than "
        f"{100 * judges_recall.SETTLED:.0f} percentage points gained in the second half of the "
        "training at their best. False where one of the two answers at some rate. Not measured "
        "where the head with three projections does not answer, or the others are still rising.",
        "projections-accuracy",
        judges_recall.projections,
        experiment="projections",
        subjects=judges_recall.parts("d_k", "n_k", "batch_size"),
    ),
    Claim(
        "bottleneck",
        "Attention removes the bottleneck of the fixed-size vector.",
        "True where, at the longest source and after training, the accuracy of the fixed vector is "
        f"below {SOLVED} and that of some attention above it. False where the fixed vector is "
        f"above it at length = {judges_recall.LONG} or more, or where every attention is below it "
        "although its training has settled (above the most frequent value, and with surely less "
        f"than {100 * judges_recall.SETTLED:.0f} percentage points gained in its second half). The "
        "condition says whether the fixed vector has settled too, so that its size is what it "
        "lacks, or may only not be trained yet.",
        "encoder_decoder-length",
        judges_recall.bottleneck,
        experiment="encoder_decoder",
        subjects=judges_recall.parts("hidden", "d_k", "learning_rate"),
    ),
    Claim(
        "capacity",
        "More training does not help a fixed vector that is too small.",
        "After training, at one source length. A size answers where its accuracy is surely above "
        f"{SOLVED} at some learning rate, and fails where it is surely below at all of them. It "
        "has settled where, at its best rate, the second half of the training steps adds surely "
        f"less than {100 * judges_recall.SETTLED:.0f} percentage points, and it is surely above "
        "chance; it is still rising where the second half adds surely more. True where the "
        "smallest size fails and has settled and a larger one answers; false where all sizes fail "
        "and have settled, so that size changes nothing. Not measured where the smallest size "
        "answers or is still rising, or where none answers and some have not settled.",
        "capacity-hidden",
        judges_recall.capacity,
        experiment="capacity",
        subjects=judges_recall.parts("length"),
    ),
    Claim(
        "score_width",
        "As the score width grows, dot attention without scaling falls behind; additive and scaled "
        "dot attention do not.",
        "Compared are steps to an accuracy of "
        f"{SOLVED}, seed by seed. Half of the seeds choose each reader's learning rate at each "
        "d_k, the other half are reported at it, and the other way round. A seed that does not "
        "get there bounds its ratio by the steps trained. A reader keeps up where the whole "
        "interval of the median ratio of its steps to those at the smallest d_k is below "
        f"{FACTOR}; it is behind where the whole interval is above {FACTOR}. True where additive "
        "and scaled dot attention keep up at every d_k and, at the largest, unscaled dot attention "
        "is behind itself and, by the same margin, behind scaled dot attention. False where "
        "additive or scaled dot attention is behind at some d_k; or where the largest d_k is "
        f"{LARGE} or more and unscaled dot attention is surely not behind. Else not measured, "
        "and with fewer than six seeds, which give no interval.",
        "score_width-d_k",
        judges_recall.score_width,
        experiment="score_width",
        subjects=judges_recall.parts("length", "hidden"),
        table="widths",
    ),
    Claim(
        "reach",
        "Attention reaches any distance directly.",
        "True where, over the largest distance, the norm of the derivative of the answer by a "
        "state falls to no less than 1/10 with every attention, before and after training, and "
        "below 1/10 with the fixed vector before training; false where it falls below with some "
        "attention.",
        "reach-distance",
        judges_recall.reach,
        experiment="reach",
        subjects=judges_recall.parts(*judges_recall.REACH),
    ),
    Claim(
        "vanishing",
        "The fixed vector fails because the gradient does not reach far back.",
        "Within reach are the distances at which, after training, the norm of the derivative is "
        "surely more than 1/100 of that at distance 0, beyond it those at which it is surely less. "
        "True where the fixed vector answers those within reach with an accuracy above "
        f"{SOLVED} and some are beyond; false where it is below at all of those within reach, "
        "although training has settled (its second half added surely less than "
        f"{100 * judges_recall.SETTLED:.0f} percentage points to the accuracy over all distances, "
        "and the nearest is answered surely more often than by chance). "
        "Not measured where training has not settled, where it is above at some of them and below "
        "at others, or answers every distance.",
        "reach-distance",
        judges_recall.vanishing,
        experiment="reach",
        subjects=judges_recall.parts(*judges_recall.REACH),
    ),
)

SCHEMAS: dict[str, tuple[Column, ...]] = {
    "contrasts": contrasts.columns(scaling.COLUMNS),
    "rates": rates.COLUMNS,
    "twins": twins.COLUMNS,
    "widths": widths.COLUMNS,
}
"""The tables that decide a claim beside the summaries."""


# From the table to the ledger


def judge(claim: Claim, own: Sequence[Subject], also: Sequence[Subject] = ()) -> tables.Row:
    """One row of the ledger, by the subjects of the claim's own experiment and of others.

    Never raises for a grid that is too small: it says so.
    """
    readings: list[tuple[Subject, Reading]] = []
    lacking: dict[str, list[Subject]] = {}
    for one in (*own, *also):
        try:
            if claim.vectors is not None and one.unrelated != (claim.vectors == "unrelated"):
                raise MissingError(f"the claim is about {claim.vectors} vectors")
            readings.append((one, claim.judge(one)))
        except MissingError as reason:
            lacking.setdefault(str(reason), []).append(one)
    verdict, condition = _verdict(claim, readings, lacking)
    base = {
        "claim": claim.claim,
        "experiment": claim.experiment,
        "sentence": claim.sentence,
        "verdict": verdict,
        "condition": condition,
        "rule": claim.rule,
        "figure": claim.figure,
    }
    texts = few([_said(one, reading.number) for one, reading in readings], "series")
    if readings:
        texts += [f"{_labels(ones)}: not measured, {reason}" for reason, ones in lacking.items()]
    base["numbers"] = BETWEEN.join(texts)
    if verdict == NOT_MEASURED:
        empty = {
            "series": "",
            "quantity": "",
            "value": math.nan,
            "ci_low": math.nan,
            "ci_high": math.nan,
        }
        return base | empty | {"answer": f"Not measured: {condition}."}
    wanted = verdict != FALSE
    agreeing = [pair for pair in readings if pair[1].holds is wanted]
    # The claim's own grid and unrelated inputs first: they make the answers comparable.
    mine = [pair for pair in agreeing if any(pair[0] is one for one in own)] or agreeing
    agreeing = [pair for pair in mine if pair[0].unrelated] or mine
    shown_series, shown = agreeing[len(agreeing) // 2]
    closest_series, closest = min(readings, key=lambda pair: pair[1].distance)
    return base | {
        "answer": shown.answer,
        "series": shown_series.label,
        "quantity": closest.quantity + (f" ({closest_series.label})" * bool(closest_series.label)),
        "value": closest.value.mean,
        "ci_low": closest.value.low,
        "ci_high": closest.value.high if math.isfinite(closest.value.high) else math.nan,
    }


def _verdict(
    claim: Claim, readings: list[tuple[Subject, Reading]], lacking: Mapping[str, list[Subject]]
) -> tuple[str, str]:
    """The verdict of all series together, and the condition or the reason."""
    by = {
        state: [one for one, reading in readings if reading.holds is state]
        for state in (True, False, None)
    }
    if not by[True] and not by[False]:
        wide = ["the intervals are too wide to decide; more seeds make them narrower"]
        nothing = [absent(claim.experiment)]
        return NOT_MEASURED, "; ".join([*(wide if readings else []), *lacking] or nothing)
    undecided = [f"undecided for {_labels(by[None])}"] if by[None] else []
    if not by[True]:
        return FALSE, "; ".join(undecided)
    parts = [f"not for {_labels(by[False])}"] if by[False] else []
    parts += undecided
    parts += few(
        [_said(one, r.condition) for one, r in readings if r.holds and r.condition], "series"
    )
    if claim.caveat and all(one.unrelated for one, _ in readings):
        parts.append(claim.caveat)
    return (CONDITIONAL, "; ".join(parts)) if parts else (TRUE, "")


def absent(experiment: str) -> str:
    """The reason of a claim whose experiment a run does not have."""
    return f"the run has no experiment {experiment}"


def _said(one: Subject, text: str) -> str:
    return f"{one.label}: {text}" if one.label else text


def _labels(series: Iterable[Subject]) -> str:
    return " and ".join(few([one.label for one in series], "series"))


def ledger(
    run: config.Run,
    summaries: Mapping[str, pd.DataFrame],
    others: Mapping[tuple[str, str], pd.DataFrame] | None = None,
) -> list[tables.Row]:
    """One row per claim, in the chapter's order; a claim without its experiment is not measured.

    `others` are the tables that decide beside the summaries, by experiment and name.
    """
    found = {(name, "summary"): table for name, table in summaries.items()} | dict(others or {})
    result = []
    for claim in CLAIMS:
        own, *also = (
            _subjects(claim, run.settings[name], found, name)
            if (name, claim.table) in found
            else []
            for name in (claim.experiment, *claim.also)
        )
        result.append(judge(claim, own, [one for found in also for one in found]))
    return result


def _subjects(
    claim: Claim,
    settings: Mapping[str, Any],
    found: Mapping[tuple[str, str], pd.DataFrame],
    experiment: str,
) -> Sequence[Subject]:
    """Return what a claim is judged by, of one experiment's tables."""
    table = found[experiment, claim.table]
    if claim.subjects is not None:
        return claim.subjects(settings, table)
    return series_of(settings, table, found.get((experiment, "contrasts")))


def main() -> None:
    """Judge the run of the config named first by the tables after it, into the last path.

    A table's experiment is the folder that it is in.
    """
    configuration, *paths, out = map(Path, sys.argv[1:])
    for path in paths:
        kinds = ("summary", *SCHEMAS)
        if path.parent.name not in EXPERIMENTS or path.stem not in kinds:
            allowed = f"EXPERIMENT/TABLE.csv, of the tables {' or '.join(kinds)}"
            raise config.refuse("table", str(path), allowed)
    summaries = {
        path.parent.name: summary.read(path, summary.columns(EXPERIMENTS[path.parent.name].COLUMNS))
        for path in paths
        if path.stem == "summary"
    }
    others = {
        (path.parent.name, path.stem): summary.read(path, SCHEMAS[path.stem])
        for path in paths
        if path.stem != "summary"
    }
    rows = ledger(config.load(configuration), summaries, others)
    tables.write_guarded(out, tables.text(rows, COLUMNS))


if __name__ == "__main__":
    commands.run(main, "CONFIG", "TABLE...", "CLAIMS.csv")
