"""Judge the claims about related vectors."""

import numpy as np
import pandas as pd

from sqrtdk.claims import findings
from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import (
    CHAPTER_D_K,
    FACTOR,
    FAR,
    ROUNDING,
    SELECTS,
    SMALL_GRID,
    STABLE,
    Finding,
    Grading,
    beginning,
    is_later,
    join,
    less,
    steadiness,
)
from sqrtdk.experiments.related import cosines
from sqrtdk.schema import Document, Settings
from sqrtdk.stats.curves import Curve, crossing, last, relative_range
from sqrtdk.stats.decisions import MIN_DECISIVE_D_K, all_known, beyond, need_large, up_to
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import RuleKind, Series, WholeTable, scaled_rule, series_of, unscaled_rule
from sqrtdk.stats.wording import format_estimate, format_number, format_percent


def matched(settings: Settings, table: pd.DataFrame) -> list[Series]:
    """Return the series of the input laws that give each query a matching key."""
    return [
        one
        for one in series_of(settings, table)
        if cosines.cosines_of(settings["inputs"][one.axes["inputs"]], one.n_k)
    ]


def gradients_matched(series: Series) -> Finding:
    """Judge the share of queries without a gradient, with and without scaling, if each has a match.

    A share is bounded, so one seed cannot dominate it, unlike a mean of norms. Raises MissingError
    if the grid ends before both have vanished, or begins after it.
    """
    shares = {kind: series.curve(kind, "grad_q_dead_rows") for kind in ("unscaled", "scaled")}
    common = sorted(shares["unscaled"].keys() & shares["scaled"].keys())
    if not common:
        raise MissingError("the rules without and with scaling have no d_k in common")
    off, on = ({d_k: curve[d_k] for d_k in common} for curve in shares.values())
    d_k, end = last(on)
    first, second = crossing(off, 0.5), crossing(on, 0.5)
    vanished = all_known(beyond(last(x)[1], 0.5, above=True) for x in (off, on))
    if vanished is False:
        raise MissingError(
            f"not up to d_k = {d_k}, where {format_percent(last(off)[1])} of the queries have no "
            f"gradient without √d_k and {format_percent(end)} with it"
        )
    if vanished and all(next(iter(x.values())).low > 0.5 for x in (off, on)):
        raise MissingError(f"from d_k = {common[0]}, the smallest, on, gradients vanish with both")
    holds = all_known((vanished, is_later(off, on)))
    verb = {True: "saturates", False: "does not saturate", None: "may saturate"}[holds]
    at = CHAPTER_D_K if CHAPTER_D_K in common else common[0]
    try:
        rms = series.ratio("grad_q_rms").get(at)
    except MissingError:
        rms = None
    beside = (
        f" At d_k = {at} the root mean square without scaling is {format_estimate(rms, ' times')} "
        "that with it."
        if rms
        else ""
    )
    where = (
        f" More than half of the queries get a gradient below 0.001 {beginning(first, off)} "
        f"without scaling, and {beginning(second, on)} with it."
        if holds
        else f" At d_k = {d_k} {format_percent(last(off)[1])} of the queries get a gradient below "
        f"0.001 without scaling, and {format_percent(end)} with it."
    )
    return Finding(
        holds,
        f"gradient below 0.001 at d_k = {d_k}: {format_percent(last(off)[1])} of the queries "
        f"without scaling, {format_percent(end)} with it"
        + (
            f"; half of them {beginning(first, off)}, and {beginning(second, on)} with it"
            * bool(holds)
        ),
        f"A match {verb} the softmax without and with √d_k.{where}{beside}",
        f"share of queries without a gradient with √d_k at d_k = {d_k}",
        end,
        abs(end.mean - 0.5),
        up_to(on),
    )


# Related vectors: the keys that attention selects


def inverse(series: Series) -> Finding:
    """Judge the range of the entropy over d_k with 1/d_k, and the weight of the match."""
    entropy, weight = (series.curve("inverse", x) for x in ("entropy_nats", "match_weight"))
    moved, stays = steadiness(entropy)
    d_k, end = last(weight)
    selects = beyond(end, SELECTS, above=True)
    holds = all_known((stays, selects))
    if selects is False:
        need_large(weight, f"the match has the weight {format_number(end.mean)}")
    over = f"d_k = {min(entropy)} to {max(entropy)}"
    beside = []
    others: tuple[tuple[RuleKind, str], ...] = (
        ("inverse_64", "8/d_k, equal to 1/√d_k at d_k = 64,"),
        ("scaled", "1/√d_k"),
    )
    for kind, name in others:
        try:
            range_of = relative_range(series.curve(kind, "entropy_nats"))
            chosen = series.curve(kind, "match_weight")[d_k]
        except (MissingError, KeyError):
            continue
        beside.append(f"with {name} {format_estimate(chosen)} and {format_percent(range_of)}")
    also = f" For comparison, weight and difference: {'; '.join(beside)}." if beside else ""
    there = "is stable" if stays else "is not stable"
    finds = "finds the match" if selects else "selects nothing"
    joint = "and" if stays is selects else "but"
    equal = format_number(1 / series.n_k)
    return Finding(
        holds,
        f"weight of the match {format_estimate(end)} at d_k = {d_k} (equal share {equal}), range "
        f"of the entropy {format_percent(moved)} over {over}",
        f"Divided by d_k, attention {there}, {joint} it {finds}: at d_k = {d_k} the match has the "
        f"weight {format_estimate(end)}, and equal shares are {equal}. Over {over} the highest and "
        f"the lowest entropy differ by {format_percent(moved)} of the highest.{also}",
        f"weight of the match with 1/d_k at d_k = {d_k}",
        end,
        abs(SELECTS - end.mean),
    )


def gradings(settings: Settings, table: pd.DataFrame) -> list[Grading]:
    """Return the contents of cosines.csv for each input law with several related keys."""
    rules = settings["scaling"]
    kinds = {"unscaled": unscaled_rule(rules), "scaled": scaled_rule(rules)}
    axes = ["n_k", "n_q", "inputs", "dtype"]
    varying = [x for x in axes if x in ("n_k", "inputs") or len(table[x].unique()) > 1]
    result = []
    for at, frame in table.groupby(axes, sort=True):
        values: Document = dict(zip(axes, at, strict=True))
        if frame.loc[frame["cosine"] > 0, "cosine"].nunique() < 2:
            continue
        curves: dict[tuple[str, str, float], Curve] = {}
        for row in frame.sort_values("d_k").to_dict("records"):
            for kind, name in kinds.items():
                if row["scaling"] == name:
                    curve = curves.setdefault((kind, row["metric"], row["cosine"]), {})
                    curve[row["d_k"]] = Estimate(row["mean"], row["ci_low"], row["ci_high"])
        label = ", ".join(f"{name} = {values[name]}" for name in varying)
        result.append(Grading(label, values["n_k"], curves))
    return result


def graded(one: Grading) -> Finding:
    """Judge the weight of a key with half of the match's cosine, at the chapter's d_k."""
    found = sorted({cosine for kind, _, cosine in one.curves if kind == "scaled"})
    if not found:
        raise MissingError("the run has no scale rule that divides by √d_k")
    if 0.0 not in found:
        raise MissingError("every key is related to the query")
    match = found[-1]
    some = min(found[1:-1], key=lambda cosine: abs(cosine - match / 2))
    heard = one.curve("scaled", "heard", some)
    sizes = [d_k for d_k in heard if d_k >= CHAPTER_D_K]
    if not sizes:
        raise MissingError(f"the run has no d_k of {CHAPTER_D_K} or more")
    at = sizes[0]
    best, weight, none = (one.curve("scaled", "weight", x)[at] for x in (match, some, 0.0))
    holds = all_known(
        (
            beyond(heard[at], 0.5, above=True),
            less(weight, best),
            less(none, weight),
        )
    )
    try:
        off = one.curve("unscaled", "heard", some)[at]
        without = f"without scaling {format_percent(off)}"
    except (MissingError, KeyError):
        without = ""
    ends = {d_k: heard[d_k] for d_k in sizes}
    lost = [d_k for d_k in sizes if beyond(heard[d_k], 0.5, above=True) is not True]
    until = crossing(ends, 0.5) if lost else None
    verb = "make" if holds else "do not make"
    return Finding(
        holds,
        f"at d_k = {at} cosine {some:g} gets {format_estimate(weight)}, the match ({match:g}) "
        f"{format_estimate(best)}, an unrelated key {format_estimate(none)}; "
        f"{format_percent(heard[at])} of the queries give it an equal share or "
        f"more{f', {without}' if without else ''}",
        f"Keys that are related a little {verb} a small contribution: at d_k = {at}, with 1/√d_k, "
        f"a key of cosine {some:g} gets the weight {format_estimate(weight)}, between the match of "
        f"cosine {match:g} with {format_estimate(best)} and unrelated keys with "
        f"{format_estimate(none)}. {format_percent(heard[at])} of the queries give it at least an "
        "equal share, 1/n_k" + (f"; {without}." if without else "."),
        f"share of queries that give a key of cosine {some:g} an equal share at d_k = {at}",
        heard[at],
        abs(heard[at].mean - 0.5),
        join(
            f"tried from d_k = {at} on only" if at > FACTOR * CHAPTER_D_K else "",
            f"up to d_k ≈ {format_estimate(until)}" if until else "",
            f"not surely at d_k = {lost[0]}" if lost and not until else "",
            up_to(heard),
        ),
    )


def average(whole: WholeTable) -> Finding:
    """Judge how far sums of weights are from 1, and outputs outside the range of the values."""
    table = whole.table[whole.table["metric"].isin(["weight_sum_error", "output_excess"])]
    if table.empty:
        raise MissingError("the table has no weight_sum_error")
    eps = table["dtype"].map(lambda dtype: float(np.finfo(dtype).eps))
    # The mean over seeds of errors that are never negative bounds each by n_seeds times itself.
    over = table["mean"] / (eps * table["n_k"])
    worst = float(over.max())
    sums, excess = (
        float(table.loc[table["metric"] == metric, "mean"].max())
        for metric in ("weight_sum_error", "output_excess")
    )
    holds = worst <= ROUNDING
    cells = len(table) // 2
    return Finding(
        holds,
        f"over {cells} combinations of sizes, input laws and scale rules the weights miss a sum of "
        f"1 by at most {format_number(sums)}, and outputs leave the range of the values by at most "
        f"{format_number(excess)}",
        f"{'All' if holds else 'Not all'} outputs are averages of the values: over {cells} "
        "combinations of sizes, input laws and scale rules the weights of a query miss a sum of 1 "
        f"by at most {format_number(sums)}{', which is rounding' if holds else ''}, and outputs "
        f"leave the range of the values by at most {format_number(excess)}.",
        "largest error over n_k eps",
        Estimate(worst),
        abs(ROUNDING - worst),
    )


CLAIMS = (
    Claim(
        "average",
        "The weights of a query sum to 1, and its output is an average of the values.",
        "True if, in every cell, the weights of all queries sum to 1 and all outputs are within "
        f"the range of the values, up to a rounding error of {findings.ROUNDING} n_k eps. False "
        "otherwise.",
        "related-entropy",
        average,
        evidence=lambda _, table: [WholeTable(table)],
    ),
    Claim(
        "graded",
        "A key that is only tangentially related makes a small contribution.",
        f"The test is at d_k = {CHAPTER_D_K}, or the next larger d_k of the run, with 1/√d_k, for "
        "the key whose cosine is closest to half of the match's. True if surely more than half of "
        "the queries give this key at least an equal share, 1/n_k, and its mean weight is above "
        "that of unrelated keys and below that of the match; false if one of these surely fails. "
        "There is a condition if most queries give it less than an equal share at larger d_k.",
        "related-cosines",
        graded,
        evidence=gradings,
        lacking="no input law of the run gives queries several related keys",
        table="cosines",
    ),
    Claim(
        "gradients_related",
        "If every query has a matching key, gradients vanish with √d_k too, only at larger d_k.",
        "A query's gradient vanishes if it is below 0.001. True if at the run's largest d_k surely "
        "more than half of them vanish, without scaling and with 1/√d_k, and at some d_k surely "
        "more than half without scaling, but fewer with it; false if surely at none. Not measured "
        "if at the largest d_k surely fewer than half vanish without scaling or with it, because "
        "larger d_k may differ, or if at the smallest surely more than half vanish with both. "
        f"{SMALL_GRID}",
        "related-gradients",
        gradients_matched,
        source="ours",
        evidence=matched,
        lacking="no input law of the run gives queries a matching key",
    ),
    Claim(
        "inverse",
        "Dividing by d_k keeps attention stable for related vectors, and it still finds the match.",
        "The test has two parts, with 1/d_k and a match for each query. The largest and the "
        f"smallest entropy_nats over d_k differ by less than {100 * STABLE:.0f} % of the largest, "
        f"and at the largest d_k the match has a weight above {SELECTS:g}, more than all other "
        f"keys together. True if both surely hold, false if one surely fails. True {FAR}; false "
        f"because of the weight needs a d_k of {MIN_DECISIVE_D_K} or more.",
        "related-entropy",
        inverse,
        source="ours",
        evidence=matched,
        lacking="no input law of the run gives queries a matching key",
    ),
)
