"""Tell what random vectors show: weights, scores, entropy and gradients against d_k."""

import math

import numpy as np
from markupsafe import Markup, escape
from scipy.special import ndtr

from sqrtdk.claims.findings import half_gone
from sqrtdk.experiments.scaling import play
from sqrtdk.experiments.scaling.measure import top_rows
from sqrtdk.experiments.story import (
    PAIR,
    WORDS,
    Lead,
    RunTables,
    Screen,
    Told,
    both,
    head,
    percent,
    picture,
    said,
    short,
)
from sqrtdk.figures import chart
from sqrtdk.figures.chart import Axis, Line, Note
from sqrtdk.stats import agreement
from sqrtdk.stats.curves import crossing, last
from sqrtdk.stats.intervals import Estimate, MissingError, evenly_spaced
from sqrtdk.stats.series import Series
from sqrtdk.stats.wording import format_estimate

SHARE = [0.0, 0.25, 0.5, 0.75, 1.0]

# The picture of the answer: whole matrices of weights

MATRICES = 4
"""Columns of the picture; a phone shows four side by side."""


def weights(run: RunTables) -> Told:
    """Show the weight matrices of one draw without and with √d_k, for some d_k."""
    table = run.table("weights")
    series = [x for x in run.series if x.n_k == int(table["n_k"].iloc[0])]
    series = [x for x in series if x.axes["inputs"] == table["inputs"].iloc[0]]
    if not series or series[0].n_k == 1:
        raise MissingError("the weights have no summary")
    one = series[0]
    # The last of five differs from the one before it only in degree.
    sizes = evenly_spaced([int(x) for x in sorted(set(table["d_k"]))], MATRICES + 1)[:MATRICES]
    rows = []
    for arm, kind in PAIR:
        cells = [Markup('<th scope="row">{}</th>').format(chart_words(WORDS[kind]))]
        for d_k in sizes:
            found = table[(table["d_k"] == d_k) & (table["scaling"] == one.rules[arm])]
            if found.empty:
                raise MissingError(f"the weights have no scale rule {arm}")
            matrix = found.pivot_table(index="query", columns="key", values="weight")
            largest = one.curve(arm, "max_weight")[d_k].mean
            keys = one.curve(arm, "effective_keys")[d_k].mean
            drawn = chart.matrix(
                matrix.to_numpy().tolist(), kind, f"weights at d_k = {d_k}, {WORDS[kind]}"
            )
            said = Markup('{}<span class="measure"><b>{}</b> <span>{} keys</span></span>')
            cells.append(
                Markup("<td>{}</td>").format(said.format(drawn, short(largest), short(keys)))
            )
        rows.append(Markup("<tr>{}</tr>").format(Markup("").join(cells)))
    heads = Markup("").join(
        Markup('<th scope="col"><var>d<sub>k</sub></var> = {}</th>').format(d_k) for d_k in sizes
    )
    drawn = Markup(
        '<table class="first"><caption class="hidden">Weights of one random draw</caption>'
        '<thead><tr><th scope="col"><span class="hidden">division</span></th>{}</tr></thead>'
        "<tbody>{}</tbody></table>"
    ).format(heads, Markup("").join(rows))
    caption = (
        f"One draw of random vectors, no trained model: queries (rows) and {one.n_k} keys "
        "(columns); the stronger a colour, the more of its query's attention the key gets. Below "
        f"each, the mean over {_seeds(run)} draws of the weight of a query's favourite key and of "
        "the number of keys in use (e to the entropy). At d_k = 1 the division changes nothing."
    )
    return Told([], drawn, caption)


def chart_words(text: str) -> Markup:
    """Return words with √d_k as HTML."""
    return Markup(str(escape(text)).replace("√d_k", "√<var>d<sub>k</sub></var>"))


def _seeds(run: RunTables) -> int:
    return int(run.table("summary")["n_seeds"].max())


# The sentences of the answer


def lead_weights(run: RunTables) -> str:
    """Say what happens to the favourite key where the picture has few keys."""
    fit = [x for x in run.series if x.unrelated and x.n_k > 1]
    if not fit:
        raise MissingError("the run has no unrelated vectors with several keys")
    small = min(fit, key=lambda x: x.n_k)
    d_k = head(small.curve("unscaled", "max_weight"))
    off, on = both(small, "max_weight", d_k)
    return (
        "**Attention splits one unit of attention among the keys; with longer vectors it stops "
        f"splitting.** Among {small.n_k} keys and {d_k} numbers per vector, the favourite key "
        f"gets {said(off)} of it, and {said(on)} if the scores are divided "
        f"by √{d_k} = {short(math.sqrt(d_k), 3)}."
    )


def lead_cause(run: RunTables) -> str:
    """Say why: the spread of the scores."""
    one = run.main()
    d_k = head(one.curve("unscaled", "logit_std"))
    off, on = both(one, "logit_std", d_k)
    return (
        "**A score adds up d_k products, so scores spread by √d_k, and the softmax turns a lead "
        f"into a landslide.** At d_k = {d_k} they spread by {said(off)}; the "
        f"division brings that back to {said(on)}."
    )


def lead_gradients(run: RunTables) -> str:
    """Say what that does to gradients: the two opposite stories."""
    one = run.main()
    d_k, ratio = _head_of(one, "grad_q_rms")
    dead, kept = both(one, "grad_logits_dead_entries", d_k)
    return (
        "**Then most gradients get close to zero, but not on average.** With "
        f"{one.n_k} keys, {percent(dead)} of the gradient's entries at the scores are "
        f"near zero, {percent(kept)} with √d_k; yet few queries get so much that the root "
        f"mean square at the queries is {said(ratio)} times as large without the "
        "division."
    )


def _head_of(series: Series, metric: str) -> tuple[int, Estimate]:
    ratios = series.ratio(metric)
    d_k = head(ratios)
    return d_k, ratios[d_k]


# Screens


def why(run: RunTables) -> Told:
    """Tell why scores spread by √d_k."""
    one = run.main()
    off = one.curve("unscaled", "logit_std")
    d_k, (end, at_end) = head(off), last(off)
    on = one.curve("scaled", "logit_std")
    return Told(
        [
            "A score is a dot product: it adds d_k products $q_i k_i$. If query and key have "
            "nothing to do with each other, each product has mean 0 and variance 1, variances of "
            "independent terms add, and so",
            r"$$\operatorname{Var}(q \cdot k) = "
            r"\sum_{i=1}^{d_k} \operatorname{Var}(q_i k_i) = d_k$$",
            "and the standard deviation, the spread of the scores, is $\\sqrt{d_k}$.",
            f"Measured: the scores spread by {said(off[d_k])} at d_k = {d_k} and by "
            f"{said(at_end)} at {end}; divided by √d_k, by "
            f"{said(on[d_k])} and {said(on[end])}.",
        ],
        picture(
            run, one, [("logit_std", "")], _powers(one, "logit_std", "spread of the scores"),
            title=f"Spread of the scores over d_k, {one.n_k} keys",
        ),
        f"Standard deviation of a query's scores over {one.n_k} keys. Points are measured, the "
        "line is exact.",
    )  # fmt: skip


def _powers(series: Series, metric: str, label: str) -> Axis:
    values = [
        point.mean for arm, _ in PAIR for point in series.curve(arm, metric).values()
        if point.mean > 0
    ]  # fmt: skip
    low, high = 2.0 ** math.floor(math.log2(min(values))), 2.0 ** math.ceil(math.log2(max(values)))
    if low == high:
        high *= 2
    return Axis(label, low, high, chart.powers(low, high, 2), log=True)


def landslide(run: RunTables) -> Told:
    """Tell that only the spread counts: all d_k on one curve."""
    one = run.main()
    spreads = one.curve("unscaled", "logit_std")
    kept = one.curve("unscaled", "entropy_normalized")
    keys = one.curve("unscaled", "effective_keys")
    d_k = head(keys)
    lead = spreads[d_k].mean
    points = [(spreads[x].mean, kept[x].mean) for x in spreads if x in kept]
    on_spread = one.curve("scaled", "logit_std")
    on_kept = one.curve("scaled", "entropy_normalized")
    scaled = [(on_spread[x].mean, on_kept[x].mean) for x in on_spread if x in on_kept]
    ends = [x for x, _ in (*points, *scaled)]
    x_axis = Axis(
        "spread of the scores after the division",
        2.0 ** math.floor(math.log2(min(ends))), 2.0 ** math.ceil(math.log2(max(ends))),
        chart.powers(min(ends) * 0.9, max(ends), 2), log=True,
    )  # fmt: skip
    marked = [x for x in (1, 16, 64) if x in spreads]
    notes = [Note(f"d_k = {x}", x=spreads[x].mean) for x in marked[1:]]
    return Told(
        [
            "The softmax raises e to the power of each score and divides by the sum. A lead of "
            f"{short(lead, 2)} over another key, as large as the spread at d_k = {d_k}, becomes a "
            f"factor of e^{lead:.0f} ≈ {_factor(lead)}. So what counts is "
            f"the spread: by the time it is {short(lead, 2)}, {one.n_k} keys have shrunk to "
            f"{said(keys[d_k])} that are still heard.",
            "The division does nothing but move the spread back to 1. Scores of equal spread give "
            "nearly the same weights at every d_k; the figure “One curve for every d_k” below "
            "shows it for many spreads.",
        ],
        chart.draw(
            x_axis, Axis("entropy left", 0, 1, SHARE, percent=True),
            [
                Line("off", f"{WORDS['off']}", points, points),
                Line("on", "", (), scaled),
            ],
            title=f"Entropy against the spread of the scores, {one.n_k} keys", notes=notes,
        ),
        f"Entropy of the weights, as a share of that of {one.n_k} equal weights. Each orange "
        "point is a d_k; with √d_k all of them are the blue points near a spread of 1.",
    )  # fmt: skip


def _factor(lead: float) -> str:
    value = math.exp(round(lead))
    return f"{round(value, -3):,.0f}" if 1e4 > value > 1e3 else short(value, 2)


def threshold(run: RunTables) -> Told:
    """Tell where the entropy goes: gradually, long before 64."""
    one = run.main()
    off, on = (one.curve(arm, "entropy_normalized") for arm, _ in PAIR)
    d_k, (end, at_end) = head(off), last(off)
    half = half_gone(one, off)
    text = [f"At d_k = {d_k}, {percent(off[d_k])} of it is left; at {end}, {percent(at_end)}."]
    notes = [Note(str(d_k), x=float(d_k))]
    if half is not None:
        text.insert(0, f"Half of the possible entropy is gone at d_k ≈ {format_estimate(half)}.")
        notes.insert(0, Note(f"half gone: {short(half.mean, 2)}", x=half.mean))
    text.append(f"With √d_k, {percent(on[d_k])} is left at {d_k} and {percent(on[end])} at {end}.")
    return Told(
        [
            " ".join(text),
            "The chapter names 64, the usual width of a head. Nothing special happens there: the "
            "loss of entropy begins at once, and 64 is far down the slope.",
        ],
        picture(
            run, one, [("entropy_normalized", "")],
            Axis("entropy left", 0, 1, SHARE, percent=True),
            title=f"Entropy of the weights over d_k, {one.n_k} keys", notes=notes,
        ),
        f"Entropy of the weights of {one.n_k} keys, as a share of that of equal weights. Points "
        "are measured, the line is exact.",
    )  # fmt: skip


def gradients(run: RunTables) -> Told:
    """Tell both stories of the gradient: the typical query and the root mean square."""
    one = run.main()
    rms = one.ratio("grad_q_rms")
    far = 1024 if 1024 in rms else last(rms)[0]
    typical, kept = both(one, "grad_q_median", far)
    off, on = both(one, "grad_q_rms", far)
    since = crossing(one.ratio("grad_q_median"), 1.0)
    after = (
        f" From d_k ≈ {said(since)} on, the median query gets less without the division; below, "
        "it gets more."
        if since is not None
        else ""
    )
    values = [*one.curve("unscaled", "grad_q_rms").values()]
    top = 10.0 ** math.ceil(math.log10(max(x.mean for x in values)))
    axis = Axis("gradient at the queries", 1e-3, top, chart.powers(1e-3, top), log=True)
    share = one.curve("unscaled", "grad_logits_top1_share")
    end, strongest = last(share)
    n_q = int(one.axes["n_q"])
    return Told(
        [
            "“Without the division the gradients vanish” is half of the truth. At d_k = "
            f"{far}, the norm of the gradient at the median query is "
            f"{short(typical.mean)} without it and {short(kept.mean)} with it. Yet its root mean "
            f"square over all queries is {said(off)} without it and "
            f"{said(on)} with it.{after}",
            "Both are true, because few queries have nearly all of it: those that waver between "
            f"two keys. At d_k = {end} the strongest {_queries(n_q)} {percent(strongest)} of the "
            f"squared gradient; an equal share would be {percent(Estimate(top_rows(n_q) / n_q))}.",
            "“Gradient” here is that of a random loss: the output times random numbers, added up. "
            "Training comes next.",
        ],
        picture(
            run, one, [("grad_q_rms", "rms"), ("grad_q_median", "median")], axis,
            title=f"Gradient at the queries over d_k, {one.n_k} keys", area=True,
        ),
        f"Norm of the gradient at a query, {one.n_k} keys: root mean square (rms, solid) and "
        "median (dashed). In the shaded gap few queries have it all.",
    )  # fmt: skip


def _queries(n_q: int) -> str:
    rows = top_rows(n_q)
    return f"query of {n_q} holds" if rows == 1 else f"{rows} of {n_q} queries hold"


BINS = 17
"""Bins of the deviations, from 0 to 4.25 standard errors."""


def known(run: RunTables) -> Told:
    """Tell how the numbers are checked: their deviations from the exact values."""
    table = run.table("summary")
    gate = agreement.agreement_test(table)
    if gate is None:
        raise MissingError("no mean has an exact value and enough seeds")
    found = np.concatenate(agreement.deviations(table))
    edges = np.linspace(0, 0.25 * BINS, BINS + 1)
    counts, _ = np.histogram(np.minimum(found, edges[-1] - 1e-9), edges)
    # A standard normal deviation is this often in each bin.
    expected = len(found) * 2 * np.diff(ndtr(edges))
    top = float(max(counts.max(), expected.max()))
    step = 10.0 ** math.floor(math.log10(top))
    ticks = [step * i for i in range(math.ceil(top / step) + 1)]
    bell = list(zip(((edges[:-1] + edges[1:]) / 2).tolist(), expected.tolist(), strict=True))
    outline = [(float(x), float(n)) for i, n in enumerate(counts) for x in edges[i : i + 2]]
    return Told(
        [
            f"For {gate.points} of our means theory has an exact value, from an integral, not from "
            f"a sample. They miss it by {short(gate.rms_z)} standard errors in root mean "
            f"square; chance alone would give 1. The worst misses by "
            f"{short(gate.max_abs_z, 2)}.",
            "Where it ends: exact values exist for independent vectors only, not for medians, "
            "shares, matching keys or anything trained. The vectors are random and the tasks are "
            "toys with one head; training has few seeds. What a language model does is another "
            "measurement. The [limits](#limits) are listed, and [any claim](#reproduce) can be "
            "checked in minutes.",
        ],
        chart.draw(
            Axis("deviation from the exact value, standard errors", 0, float(edges[-1]),
                 [0, 1, 2, 3, 4]),
            Axis("number of means", 0, ticks[-1], ticks),
            [
                Line("on", "measured", outline),
                Line("plain", "chance", bell, dashed=True),
            ],
            title="Deviations of measured means from exact values",
        ),
        f"Deviations of {gate.points} means at {gate.draws} combinations of sizes. The dashed "
        "line is what chance alone gives.",
    )  # fmt: skip


LEAD = (Lead(10, lead_weights), Lead(20, lead_cause), Lead(60, lead_gradients))

SCREENS = (
    Screen(0, "weights", "", weights),
    Screen(10, "play", "How many keys are still heard?", play.tell),
    Screen(20, "why", "Because d_k random terms add up", why),
    Screen(30, "landslide", "The softmax turns a lead into a landslide", landslide),
    Screen(40, "threshold", "There is no magic 64", threshold),
    Screen(50, "gradients", "Gradients: most get nothing, a few get a lot", gradients),
    Screen(100, "known", "How we know, and where it ends", known),
)
