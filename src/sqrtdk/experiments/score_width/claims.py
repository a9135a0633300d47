"""Judge the claim about the width of scores."""

from typing import NamedTuple

import pandas as pd

from sqrtdk.claims import findings
from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import FACTOR, Finding
from sqrtdk.experiments.encoder_decoder.judging import need
from sqrtdk.experiments.encoder_decoder.measure import LEARNT_ACCURACY
from sqrtdk.experiments.training.claims import Ratio
from sqrtdk.stats.decisions import MIN_DECISIVE_D_K, all_known
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import WholeTable
from sqrtdk.stats.wording import format_estimate

# Score width


class _Point(NamedTuple):
    """A reader at one d_k, at learning rates that were chosen on other seeds.

    `own` is the ratio of its steps to those at the smallest d_k, `scaled` the ratio to those of
    scaled dot attention.
    """

    seeds: int
    reached: int
    steps: Estimate
    budget: int
    accuracy: float
    own: Ratio
    scaled: Ratio
    edge: bool

    @property
    def text(self) -> str:
        """Return its steps, or its final accuracy, in words."""
        if self.steps.mean <= self.budget:
            return f"takes {format_estimate(self.steps)} steps"
        return (
            f"needs more than {self.budget} steps ({self.reached} of {self.seeds} seeds reach it, "
            f"final accuracy {100 * self.accuracy:.0f} %)"
        )


def _points(table: pd.DataFrame) -> dict[str, dict[int, _Point]]:
    """Return the rows of widths.csv by reader and d_k."""
    found: dict[str, dict[int, _Point]] = {}
    for row in table.sort_values("d_k").to_dict("records"):
        own, scaled = (
            Ratio(*(row[f"{name}_{end}"] for end in Ratio._fields)) for name in ("own", "scaled")
        )
        steps = Estimate(row["crossfit_steps"], row["crossfit_low"], row["crossfit_high"])
        found.setdefault(row["reader"], {})[int(row["d_k"])] = _Point(
            row["n_seeds"], row["reached"], steps, row["steps"], row["accuracy"], own, scaled,
            row["edge"] not in ("", "only"),
        )  # fmt: skip
    return found


def score_width(whole: WholeTable) -> Finding:
    """Judge whether unscaled dot attention falls behind with d_k while the others keep up.

    Both are judged against the same margin, so that no true ratio can be called both: more seeds
    only narrow the interval around it.
    """
    points = _points(whole.table)
    need(points, "additive", "dot", "scaled_dot")
    dot, scaled = points["dot"], points["scaled_dot"]
    sizes = sorted(dot)
    if len(sizes) < 2:
        raise MissingError("the run has one d_k; a comparison needs two")
    small, large = sizes[0], sizes[-1]
    behind = {d_k: dot[d_k].scaled.beyond(FACTOR, above=True) for d_k in sizes}
    grown = all_known((behind[large], dot[large].own.beyond(FACTOR, above=True)))
    keeps = {
        (name, d_k): points[name][d_k].own.beyond(FACTOR, above=False)
        for name in ("additive", "scaled_dot")
        for d_k in sizes[1:]
    }
    keep = all_known(keeps.values())
    if keep is not False and grown is not True and large < MIN_DECISIVE_D_K:
        raise MissingError(
            f"at d_k = {large}, the largest, it is not certain that unscaled dot attention is "
            "behind; larger d_k may differ"
        )
    holds = all_known((grown, keep))
    lost = [(d_k, name) for (name, d_k), state in keeps.items() if state is False]
    lag = ""
    if lost:
        at, name = max(lost)
        lag = f" Attention with {name} scores does not keep up: at d_k = {at} it "
        lag += f"{points[name][at].text}."
    first = next((d for d in sizes if all(behind[x] is True for x in sizes if x >= d)), None)
    edges = [
        f"{name} at d_k = {d_k}"
        for name, curve in points.items()
        for d_k, point in curve.items()
        if point.edge
    ]
    conditions = [
        *([f"from d_k = {first} on"] if first else []),
        f"in {dot[large].budget} steps, each at learning rates that were chosen on other seeds",
        *([f"a chosen rate is at the edge of the grid for {', '.join(edges)}"] if edges else []),
    ]
    shown = "; ".join(
        f"{name} {curve[small].text} at d_k = {small}, and {curve[large].text} at d_k = {large}, "
        f"{curve[large].own.text(' times')} as many"
        for name, curve in points.items()
    )
    end = dot[large].own
    verb = "falls" if grown else "does not fall" if grown is False else "does not surely fall"
    return Finding(
        holds,
        f"to an accuracy of {LEARNT_ACCURACY}: {shown}",
        f"Unscaled dot attention {verb} behind as d_k grows. To reach an accuracy of "
        f"{LEARNT_ACCURACY} at d_k = {large}, it {dot[large].text}, scaled dot attention "
        f"{scaled[large].text}, and additive attention {points['additive'][large].text}.{lag}",
        f"steps of unscaled dot attention at d_k = {large} over those at d_k = {small}",
        end.bound,
        max(0.0, min(abs(end.least - FACTOR), abs(end.most - FACTOR))),
        ", ".join(conditions),
    )


CLAIMS = (
    Claim(
        "score_width",
        "As the score width grows, dot attention without scaling falls behind; additive and scaled "
        "dot attention do not.",
        f"The test compares steps to an accuracy of {LEARNT_ACCURACY}, seed by seed. Half of the "
        "seeds choose each reader's learning rate at each d_k, the other half are reported at it, "
        "and vice versa. If a seed does not reach the accuracy, the steps trained bound its ratio. "
        "A reader keeps up if the whole interval of the typical ratio (Hodges-Lehmann) of its "
        f"steps to those at the smallest d_k is below {FACTOR}, and falls behind if the whole "
        f"interval is above {FACTOR}. True if additive and scaled dot attention keep up at every "
        "d_k and, at the largest d_k, unscaled dot attention falls behind itself and, by the same "
        "margin, behind scaled dot attention. False if additive or scaled dot attention falls "
        f"behind at some d_k, or if the largest d_k is {MIN_DECISIVE_D_K} or more and unscaled dot "
        "attention surely does not fall behind. Not measured otherwise, or with fewer than six "
        "seeds, which give no interval.",
        "score_width-d_k",
        score_width,
        evidence=findings.parts("length", "hidden"),
        table="widths",
    ),
)
