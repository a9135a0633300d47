"""Judge statements about attention, the chapter's and ours, from the tables of a run.

A claim is judged series by series (a series is everything but d_k and the scale rule) by a rule
that is stated in words before any number. Only the sentences and the rules are written by hand:
other tables give other verdicts. If a run cannot decide, the verdict is "not measured", with the
reason. More seeds of the same truth decide what was open, and do not turn a verdict round;
docs/verdicts.md has the simulated error rates.
"""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from sqrtdk import (
    commands,
    config,
    contrasts,
    cosines,
    decisions,
    judges,
    judges_recall,
    learning,
    rates,
    summary,
    tables,
    twins,
    widths,
)
from sqrtdk.estimates import MissingError
from sqrtdk.experiments import scaling
from sqrtdk.experiments.encoder_decoder import SOLVED
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.judges import (
    FACTOR,
    HEAD,
    LARGE,
    LOSS,
    ONE_HOT,
    SELECTS,
    SLOPE_TOLERANCE,
    STABLE,
    Reading,
    Subject,
    few,
)
from sqrtdk.keys import Column
from sqrtdk.series import Series, Whole, series_of

TRUE = "true"
CONDITIONAL = "true with a condition"
FALSE = "false"
NOT_MEASURED = "not measured"
VERDICTS = (TRUE, CONDITIONAL, FALSE, NOT_MEASURED)

BETWEEN = " | "
"""Separates two series of `numbers`: no number, name or word of ours contains it."""

COLUMNS = (
    Column("claim", "Short name of the claim.", read=str, axis=True),
    Column("experiment", "Experiment whose tables decide.", read=str),
    Column("sentence", "The statement that is judged.", read=str),
    Column("verdict", f"One of: {', '.join(VERDICTS)}.", read=str),
    Column(
        "condition",
        "Where the statement holds, or why it was not measured. Empty when it holds, or fails, "
        "everywhere.",
        read=str,
        optional=True,
    ),
    Column("answer", "What was found, in a sentence.", read=str),
    Column(
        "series",
        "The series whose numbers are in `answer`: one in the middle of the grid that agrees "
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
    Column("source", "Whose statement it is: chapter, or ours.", read=str),
)


@dataclass(frozen=True)
class Claim:
    """A statement and how it is judged.

    `source` says whose statement it is: the chapter's, in its words as far as they are quoted, or
    ours. `vectors` restricts it to one kind of queries and keys; `about` are the kinds that an
    unconditional "true" has to rest on. `subjects` makes what is judged from an experiment's
    settings and table. `also` names experiments of the same shape whose subjects count too, where
    a run has them. `table` is the table of the experiment that decides. `lacking` is the reason
    where the experiment has nothing to judge. `caveat` is a condition that no run can remove.
    """

    claim: str
    sentence: str
    rule: str
    figure: str
    judge: Callable[[Any], Reading]
    source: Literal["chapter", "ours"] = "chapter"
    vectors: Literal["unrelated", "related"] | None = None
    about: tuple[Literal["unrelated", "related"], ...] = ()
    caveat: str = ""
    experiment: str = "scaling"
    also: tuple[str, ...] = ()
    subjects: Callable[[Mapping[str, Any], pd.DataFrame], Sequence[Subject]] | None = None
    lacking: str = ""
    table: str = "summary"


_END = (
    f"at the run's largest d_k. A run whose largest d_k is below {LARGE} cannot make it false, and "
    "makes it true with a condition only."
)

_LATE = f"Also with a condition if that begins only above d_k = {HEAD}."

_FAR = (
    f"True needs {decisions.SIZES} values of d_k or more that span a factor of {decisions.SPAN} "
    f"and end at {LARGE} or more"
)

CLAIMS = (
    Claim(
        "average",
        "The weights of a query sum to 1, and its output is an average of the values.",
        "True if, in every cell, the weights of all queries sum to 1 and all outputs lie within "
        f"the range of the values, up to rounding: {judges.ROUNDING} n_k eps. False otherwise.",
        "related-entropy",
        judges.average,
        experiment="related",
        subjects=lambda _, table: [Whole(table)],
    ),
    Claim(
        "graded",
        "A key that is only tangentially related makes a small contribution.",
        f"Judged at d_k = {HEAD}, or the next larger d_k of the run, with 1/√d_k, for the key "
        "whose cosine is closest to half of the match's. True if more than half of the queries "
        "give it at least an equal share, 1/n_k, and if its mean weight is above that of unrelated "
        "keys and below that of the match; false if one of these surely fails. With a condition "
        "if it is no longer heard at larger d_k.",
        "related-cosines",
        judges.graded,
        experiment="related",
        subjects=judges.gradings,
        lacking="no input law of the run gives queries several related keys",
        table="cosines",
    ),
    Claim(
        "scores_grow",
        "The dot products of unrelated vectors grow as √d_k.",
        "True if the slope of ln logit_std on ln d_k, without scaling, lies with its whole "
        f"interval within {SLOPE_TOLERANCE} of 1/2; false if it lies wholly outside. "
        f"{_FAR}, and so does false.",
        "scaling-logit_std",
        judges.scores_grow,
        vectors="unrelated",
    ),
    Claim(
        "scores_stable",
        "Divided by √d_k, the scores stay in a stable range.",
        "True if the largest and the smallest logit_std over d_k, with 1/√d_k, differ by surely "
        f"less than {100 * STABLE:.0f} % of the largest; false if surely by more. {_FAR}. With a "
        "condition where a run has only unrelated or only related vectors.",
        "scaling-logit_std",
        judges.scores_stable,
        about=("unrelated", "related"),
        also=("related",),
    ),
    Claim(
        "saturation",
        "Large d_k saturates the softmax.",
        f"True if entropy_normalized without scaling is surely below 1/2 {_END} {_LATE}",
        "scaling-entropy",
        judges.saturation,
        about=("unrelated",),
    ),
    Claim(
        "one_hot",
        "Without scaling the attention weights become nearly one-hot.",
        f"True if max_weight without scaling is surely above {ONE_HOT} {_END} {_LATE}",
        "scaling-max_weight",
        judges.one_hot,
        about=("unrelated",),
    ),
    Claim(
        "gradients_typical",
        "Without scaling there are near-zero gradients for most positions.",
        "A position is one entry of the gradient at the logits, near zero below 0.001/n_k. True if "
        "more than half of them are near zero without scaling, fewer than half with it, and the "
        "median row norm is smaller without it than with it, which counting zeros alone does not "
        f"show; all three surely, and {_END} {_LATE}",
        "scaling-dead_entries",
        judges.gradients_typical,
        about=("unrelated",),
    ),
    Claim(
        "stable",
        "Dividing by √d_k keeps the softmax stable, regardless of d_k.",
        "True if the largest and the smallest entropy_nats over d_k, with 1/√d_k, differ by surely "
        f"less than {100 * STABLE:.0f} % of the largest; false if surely by more. {_FAR}. With a "
        "condition where a run has only unrelated or only related vectors.",
        "scaling-entropy",
        judges.stable,
        about=("unrelated", "related"),
        also=("related",),
    ),
    Claim(
        "from_64",
        "Scaling matters a great deal at the large d_k values used in real Transformers (often 64 "
        "or more).",
        "True if, at every d_k of the run that is 64 or more, entropy_normalized without scaling "
        f"is surely less than {LOSS:g} of that with it; false if surely more at one of them. A run "
        f"whose largest d_k is below {LARGE} cannot make it false, and makes it true with a "
        "condition only. What scaling does to training is judged apart.",
        "scaling-entropy",
        judges.from_64,
        vectors="unrelated",
    ),
    Claim(
        "gradients_rms",
        "Without scaling the gradients that reach q, k and v vanish on average too.",
        "True if the root mean squares of the gradients at q, k and v are all surely smaller "
        "without scaling than with it at the run's largest d_k; false if one is surely larger. A "
        f"run whose largest d_k is below {LARGE} cannot make it false, and makes it true with a "
        "condition only.",
        "scaling-gradients",
        judges.gradients_rms,
        source="ours",
        vectors="unrelated",
    ),
    Claim(
        "gradients_related",
        "If every query has a matching key, gradients vanish with √d_k too, only at larger d_k.",
        "True if at the run's largest d_k surely more than half of the queries have a gradient "
        "below 0.001, without scaling and with 1/√d_k, and at some d_k surely more than half "
        "without scaling, but fewer with it; false if one of these surely fails. A run whose "
        f"largest d_k is below {LARGE} cannot make it false, and makes it true with a condition "
        "only.",
        "related-gradients",
        judges.gradients_matched,
        source="ours",
        experiment="related",
        subjects=judges.matched,
        lacking="no input law of the run gives queries a matching key",
    ),
    Claim(
        "inverse",
        "Dividing by d_k keeps attention stable for related vectors, and it still finds the match.",
        "Two things are asked of 1/d_k, where each query has a match: the largest and the smallest "
        f"entropy_nats over d_k differ by less than {100 * STABLE:.0f} % of the largest, and at "
        f"the largest d_k the match has a weight above {SELECTS:g}, more than all other keys "
        f"together. True if both surely hold, false if one surely fails. {_FAR}; a weight that is "
        f"too small makes it false only from d_k = {LARGE} on.",
        "related-entropy",
        judges.inverse,
        source="ours",
        experiment="related",
        subjects=judges.matched,
        lacking="no input law of the run gives queries a matching key",
    ),
    Claim(
        "half_precision",
        "In half precision the scale belongs before the score product.",
        "True if, at some size, surely fewer float16 scores overflow with the scale before the "
        "product than after it; false if at none. Only sizes where some overflow and the scale "
        "is not 1 count. The condition says which they are, and for which kernels.",
        "precision-errors",
        judges.half_precision,
        source="ours",
        experiment="precision",
        subjects=lambda _, table: [Whole(table)],
    ),
    Claim(
        "agreement",
        "Measurement and theory agree.",
        f"True if the root mean square of z is between {summary.RMS_Z[0]} and "
        f"{summary.RMS_Z[1]} and the largest |z| below {summary.MAX_ABS_Z}; false otherwise. z is "
        "the deviation in standard errors, brought from Student's t to the normal scale. Every "
        f"float64 mean with an exact value and at least {summary.GATED_SEEDS} seeds counts, once "
        "where metrics or arms of one draw have the same |z|. The rule cannot see errors far below "
        "the standard error of every mean, nor errors in what has no exact value: medians, "
        "quantiles, shares, other input laws, and rules that look at q and k.",
        "scaling-entropy",
        judges.agreement,
        source="ours",
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
        source="ours",
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
        source="ours",
        experiment="reach",
        subjects=judges_recall.parts(*judges_recall.REACH),
    ),
)

SCHEMAS: dict[str, tuple[Column, ...]] = {
    "contrasts": contrasts.columns(scaling.COLUMNS),
    "cosines": cosines.COLUMNS,
    "rates": rates.COLUMNS,
    "twins": twins.COLUMNS,
    "widths": widths.COLUMNS,
}
"""The tables that decide a claim, besides the summaries."""


# From the table to the ledger


def judge(claim: Claim, own: Sequence[Subject], also: Sequence[Subject] = ()) -> tables.Row:
    """Return one row of the ledger, from the subjects of the claim's own experiment and of others.

    Never raises for a grid that is too small: the row says so.
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
        "source": claim.source,
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
    """Return the verdict of all series together, and the condition or the reason.

    What is open may turn out either way, so nothing is false while another series may still hold.
    """
    by = {
        state: [one for one, reading in readings if reading.holds is state]
        for state in (True, False, None)
    }
    fails = [f"not for {_labels(by[False])}"] if by[False] else []
    undecided = [f"undecided for {_labels(by[None])}"] if by[None] else []
    if not by[True] and by[None]:
        alone = all(math.isnan(reading.value.low) for _, reading in readings)
        wide = (
            "one seed has no interval, and decides nothing"
            if alone
            else "the intervals are too wide to decide; more seeds make them narrower"
        )
        return NOT_MEASURED, "; ".join([wide, *(fails and [*fails, *undecided]), *lacking])
    if not by[True] and not by[False]:
        return NOT_MEASURED, "; ".join(lacking or [claim.lacking or absent(claim.experiment)])
    if not by[True]:
        return FALSE, ""
    parts = [*fails, *undecided, *_conditions(readings)]
    parts += _limits(claim, [one for one, _ in readings])
    return (CONDITIONAL, "; ".join(parts)) if parts else (TRUE, "")


def _conditions(readings: Iterable[tuple[Subject, Reading]]) -> list[str]:
    """Return the conditions of the series that hold; what all of them share is said once."""
    holding = [(one, reading.condition) for one, reading in readings if reading.holds]
    if len({condition for _, condition in holding}) == 1:
        return list(filter(None, [holding[0][1]]))
    return few([_said(one, condition) for one, condition in holding if condition], "series")


def _limits(claim: Claim, judged: Sequence[Subject]) -> list[str]:
    """Return what the run cannot know of the claim: inputs, sizes and types that it lacks."""
    kinds = {"unrelated" if one.unrelated else "related" for one in judged}
    missing = [kind for kind in claim.about if kind not in kinds]
    parts = [
        f"for {' and '.join(sorted(kinds))} vectors; that of {kind} ones is not known"
        for kind in missing
    ]
    series = [one for one in judged if isinstance(one, (Series, judges.Grading))]
    sizes = {one.n_k for one in series}
    if len(sizes) == 1:
        parts.append(f"tried at n_k = {sizes.pop()} only")
    types = {one.axes["dtype"] for one in series if isinstance(one, Series)}
    if types == {"float32"}:
        parts.append("as computed in float32")
    return [*parts, *filter(None, [claim.caveat])]


def absent(experiment: str) -> str:
    """Return the reason of a claim whose experiment a run does not have."""
    return f"the run has no experiment {experiment}"


def _said(one: Subject, text: str) -> str:
    return f"{one.label}: {text}" if one.label else text


def _labels(series: Iterable[Subject]) -> str:
    names = [one.label for one in series]
    if len(names) > 1:
        names = [f"({name})" if "," in name else name for name in names]
    return " and ".join(few(names, "series"))


def ledger(
    run: config.Run,
    summaries: Mapping[str, pd.DataFrame],
    others: Mapping[tuple[str, str], pd.DataFrame] | None = None,
) -> list[tables.Row]:
    """Return one row per claim; a claim without its experiment is not measured.

    `others` are the tables that decide besides the summaries, by experiment and name.
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
        if (claim.experiment, claim.table) not in found:
            claim = replace(claim, lacking="")
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
    """Judge the run of the config named first from the tables after it, into the last path.

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
