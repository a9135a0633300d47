"""Tell where √d_k is not enough: queries that have a matching key."""

from sqrtdk.experiments.story import (
    Lead,
    RunTables,
    Screen,
    Told,
    over_d_k,
    said,
    short,
)
from sqrtdk.figures import chart
from sqrtdk.figures.chart import Axis, Line, Note
from sqrtdk.stats.curves import last
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import RuleKind

INPUTS = "planted"
"""The distribution in which each query has one matching key."""

RULES: tuple[tuple[RuleKind, str, str], ...] = (
    ("unscaled", "off", "no division"),
    ("scaled", "on", "÷ √d_k"),
    ("inverse", "third", "÷ d_k"),
)


def lead_match(run: RunTables) -> str:
    """Say where √d_k is not enough."""
    one = run.main(INPUTS)
    d_k, weight = last(one.curve("scaled", "max_weight"))
    return (
        f"**√d_k is not always enough.** If every query has a matching key among {one.n_k}, its "
        f"score grows like d_k itself: at d_k = {d_k}, even with √d_k, the favourite key gets "
        f"{said(weight)}. That is good at the end of learning and bad at its start."
    )


def limit(run: RunTables) -> Told:
    """Tell what a matching key does to the three rules."""
    one = run.main(INPUTS)
    weight, gradient = (one.curve("scaled", x) for x in ("max_weight", "grad_q_rms"))
    first, (end, at_end) = min(weight), last(weight)
    between = [f"{short(weight[d_k].mean)} at {d_k}" for d_k in weight if first < d_k < end]
    text = [
        f"If each query has one matching key among {one.n_k}, their score grows like d_k, not "
        "like √d_k: the terms no longer cancel. With √d_k the largest weight then rises from "
        f"{short(weight[first].mean)} at d_k = {first}"
        f"{', ' + ', '.join(between) + ',' if between else ''} to {said(at_end)} at {end}.",
        "Sharp at the end of learning is the aim: the query has found its key. Sharp at the start "
        "is the trouble, for a sharp row learns little: from d_k = "
        f"{first} to {end}, with √d_k, the gradient at the queries (root mean square) falls from "
        f"{short(gradient[first].mean)} to {short(gradient[end].mean)}.",
    ]
    drawn = []
    for arm, kind, name in RULES:
        try:
            curve = one.curve(arm, "max_weight")
        except MissingError:
            continue
        points = [(float(d_k), x.mean) for d_k, x in curve.items()]
        bars = [(float(d_k), x.low, x.high) for d_k, x in curve.items() if x.low < x.high]
        drawn.append(Line(kind, name, points, points, bars))
        if arm == "inverse":
            text.append(
                "Dividing by d_k avoids that, at a price: at "
                f"d_k = {end} the match gets {said(curve[end])}, where an equal "
                f"share is {short(1 / one.n_k)}. It is stable and, before training, hardly prefers "
                "the match."
            )
    share = 1 / one.n_k
    return Told(
        text,
        chart.draw(
            over_d_k(one), Axis("largest weight", 0, 1, [0, 0.25, 0.5, 0.75, 1]), drawn,
            title=f"Largest weight over d_k where each query has a match, {one.n_k} keys",
            notes=[Note(f"equal shares: {short(share)}", y=share)],
        ),
        f"Largest weight of a query that has one matching key (cosine "
        f"{_cosine(run)}) among {one.n_k}, by what the scores are divided by. Lines join the "
        "measured points.",
    )  # fmt: skip


def _cosine(run: RunTables) -> str:
    return short(float(run.settings["inputs"][INPUTS].get("cosine") or 0), 2)


LEAD = (Lead(50, lead_match),)

SCREENS = (Screen(80, "limit", "When √d_k is not enough", limit),)
