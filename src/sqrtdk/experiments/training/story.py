"""Tell what training makes of it: steps to 90 %, the noise of the gradient, smaller weights."""

import math

import pandas as pd
from markupsafe import Markup

from sqrtdk.experiments.story import WORDS, Lead, RunTables, Screen, Told, said, short
from sqrtdk.figures import chart
from sqrtdk.figures.chart import Axis, Line, Note
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import inverse_rule, scaled_rule, unscaled_rule

Arms = tuple[str, str]


def arms(run: RunTables) -> Arms:
    """Return the names of the rules without a factor and with 1/√d_k. Raises MissingError."""
    rules = run.settings["scaling"]
    unscaled, scaled = unscaled_rule(rules), scaled_rule(rules)
    if unscaled is None or scaled is None:
        raise MissingError("training lacks a rule without a factor, or one that divides by √d_k")
    return unscaled, scaled


def _best(run: RunTables, loss: str) -> pd.DataFrame:
    """Return the best rates with one optimizer, gradient descent if the run has it."""
    table = run.table("rates")
    table = table[(table["best"] == 1) & (table["loss"] == loss)]
    optimizer = "sgd" if "sgd" in set(table["optimizer"]) else None
    table = table[table["optimizer"] == optimizer] if optimizer else table
    table = table[table["n_k"] == table["n_k"].min()]
    if table.empty or table.duplicated(["d_k", "scaling"]).any():
        raise MissingError(f"the run has no training with loss = {loss}")
    found: pd.DataFrame = table.sort_values("d_k")
    return found


def _steps(table: pd.DataFrame, arm: str, d_k: int) -> Estimate:
    row = table[(table["scaling"] == arm) & (table["d_k"] == d_k)]
    if row.empty:
        raise MissingError(f"no training with the rule {arm} at d_k = {d_k}")
    return Estimate(*(float(row[x].iloc[0]) for x in (
        "crossfit_steps", "crossfit_low", "crossfit_high")))  # fmt: skip


def _said(steps: Estimate, budget: int) -> str:
    """Say a number of steps; one beyond the steps trained only as a bound."""
    if not math.isfinite(steps.mean):
        return f"more than {budget}"
    ends = [f"{x:.0f}" if math.isfinite(x) else f"more than {budget}" for x in steps[1:3]]
    known = not math.isnan(steps.low)
    return f"{steps.mean:.0f} ({ends[0]} to {ends[1]})" if known else f"{steps.mean:.0f}"


def _ratio(table: pd.DataFrame, arm: str, d_k: int) -> Estimate:
    row = table[(table["scaling"] == arm) & (table["d_k"] == d_k)].iloc[0]
    if row["ratio_least"] != row["ratio_most"] or not math.isfinite(row["ratio_most"]):
        raise MissingError("some runs never reached 90 %, so their ratio is only bounded")
    return Estimate(*(float(row[x]) for x in ("ratio_least", "ratio_low", "ratio_high")))


def lead_training(run: RunTables) -> str:
    """Say how much slower training is, from raw steps."""
    unscaled, scaled = arms(run)
    table = _best(run, "values")
    d_k, budget = int(table["d_k"].max()), int(table["steps"].max())
    return (
        f"**Learning can get slower.** One head that learns to find an item among "
        f"{int(table['n_k'].iloc[0])} keys, with squared error, takes "
        f"{_said(_steps(table, unscaled, d_k), budget)} steps at d_k = {d_k}, and "
        f"{_said(_steps(table, scaled, d_k), budget)} with √d_k. Smaller weights at the start do "
        "as well."
    )


def _steps_chart(run: RunTables, loss: str, *, rings: bool) -> Markup:
    unscaled, scaled = arms(run)
    table = _best(run, loss)
    budget = float(table["steps"].max())
    drawn = []
    for arm, kind in ((unscaled, "off"), (scaled, "on")):
        rows = table[table["scaling"] == arm]
        points, bars = [], []
        for row in rows.to_dict("records"):
            at = float(row["d_k"])
            points.append((at, max(min(float(row["crossfit_steps"]), budget), 1.0)))
            low, high = float(row["crossfit_low"]), float(row["crossfit_high"])
            if low < high:
                bars.append((at, max(low, 1.0), min(high, budget)))
        drawn.append(Line(kind, WORDS[kind], points, points, bars))
    if rings:
        twins = run.table("twins")
        optimizer = table["optimizer"].iloc[0]
        twins = twins[(twins["loss"] == loss) & (twins["optimizer"] == optimizer)]
        found = twins.groupby("d_k")["twin_steps_to_90"].median()
        points = [(float(str(d_k)), float(x)) for d_k, x in found.items() if math.isfinite(x)]
        drawn.append(Line("ring", "rings: small\nfirst weights", (), points))
    sizes = sorted({float(x) for x in table["d_k"]})
    y = Axis("steps to 90 %", 1, 10 ** math.ceil(math.log10(budget)), [1, 10, 100, 1000], log=True)
    y = Axis(y.label, y.low, y.high, [x for x in y.ticks if x <= y.high], log=True)
    return chart.draw(
        chart.sizes("d_k, numbers per vector", sizes), y, drawn,
        title=f"Steps to 90 % accuracy over d_k, loss of the {loss}",
        notes=[Note(f"{budget:.0f} steps trained", y=budget)],
    )  # fmt: skip


def slows(run: RunTables) -> Told:
    """Tell how many steps training takes."""
    unscaled, scaled = arms(run)
    table = _best(run, "values")
    first, end = int(table["d_k"].min()), int(table["d_k"].max())
    budget, seeds = int(table["steps"].max()), int(table["n_seeds"].max())
    off = [_said(_steps(table, unscaled, d_k), budget) for d_k in (first, end)]
    on = [_said(_steps(table, scaled, d_k), budget) for d_k in (first, end)]
    n_k = int(table["n_k"].iloc[0])
    try:
        factor = f" Seed by seed, that is {said(_ratio(table, unscaled, end))} times as many."
    except MissingError:
        factor = ""
    optimizer = {"sgd": "gradient descent", "adam": "Adam"}[str(table["optimizer"].iloc[0])]
    return Told(
        [
            f"We trained one attention head to find an item among {n_k} ({optimizer}, squared "
            f"error of the output, each rule at its best learning rate, {seeds} seeds). Without "
            "the division the steps to 90 % accuracy go from "
            f"{off[0]} at d_k = {first} to {off[1]} at {end}; with it from {on[0]} to {on[1]}."
            f"{factor}{_inverse(run, table, end, budget)}",
            "A saturated softmax passes a gradient only for the rare queries that waver between "
            "two keys, so the mean gradient drowns in the noise of the batch."
            + _noise(run, unscaled, scaled, end),
        ],
        _steps_chart(run, "values", rings=False),
        f"Median steps until 90 % of held-out queries find their item among {n_k}. Bars are 95 % "
        f"intervals of the median over {seeds} seeds.",
    )


def _inverse(run: RunTables, table: pd.DataFrame, d_k: int, budget: int) -> str:
    """Say how fast the rule that divides by d_k learns, if the run has it."""
    name = inverse_rule(run.settings["scaling"])
    if name is None:
        return ""
    steps = _said(_steps(table, name, d_k), budget)
    return f" Divided by d_k it takes {steps} there: a head that is trained can make up for it."


def _noise(run: RunTables, unscaled: str, scaled: str, d_k: int) -> str:
    table = run.table("summary")
    table = table[
        (table["metric"] == "grad_snr") & (table["step"] == 0) & (table["d_k"] == d_k)
        & (table["loss"] == "values")
    ]  # fmt: skip
    found = []
    for arm in (unscaled, scaled):
        rows = table[table["scaling"] == arm]
        if rows.empty:
            return ""
        found.append(Estimate(*(float(rows[x].iloc[0]) for x in ("mean", "ci_low", "ci_high"))))
    return (
        f" The ratio of the two in one batch's gradient, squared, at the first step and d_k = "
        f"{d_k}, is {said(found[0])} without the division and {said(found[1])} with it."
    )


def smaller(run: RunTables) -> Told:
    """Tell that the size of the first scores is all that matters."""
    unscaled, _ = arms(run)
    twins = run.table("twins")
    same = int((twins["steps_to_90"] == twins["twin_steps_to_90"]).sum())
    worst = float(twins["difference"].max())
    text = [
        "Leave out the division, but start with query and key weights divided by the fourth root "
        "of d_k, and adapt the learning rate: then the scores are those with √d_k. "
        f"{same} of {len(twins)} pairs of runs reach 90 % at the same step, and their losses "
        f"differ by at most {short(worst, 2)} of the loss, which is rounding. Large first scores "
        "hurt, however they arise.",
    ]
    picture = _steps_chart(run, "values", rings=True)
    try:
        other, table = _best(run, "weights"), _best(run, "values")
        end = int(table["d_k"].max())
        text.append(
            "How much they hurt depends on the loss. With cross-entropy on the attention weights "
            f"in place of squared error on the output, the factor at d_k = {end} is "
            f"{said(_ratio(other, unscaled, end))}, not {said(_ratio(table, unscaled, end))}."
        )
    except MissingError:
        pass
    return Told(
        text,
        picture,
        "The same plot with rings: no division, but smaller weights at the start. They fall on the "
        "blue points.",
    )


LEAD = (Lead(40, lead_training),)

SCREENS = (
    Screen(60, "training", "Learning can slow down", slows),
    Screen(70, "first-scores", "Large first scores hurt, however they arise", smaller),
)
