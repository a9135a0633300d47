"""Judge the claim about half precision."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding, abbreviate
from sqrtdk.schema import Document
from sqrtdk.stats.decisions import any_known, beyond
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import WholeTable
from sqrtdk.stats.wording import format_percent


class _Orders(NamedTuple):
    """The share of float16 scores that overflow, with either order, in one row of the grid."""

    d_k: int
    input_sd: int
    after: Estimate
    before: Estimate

    @property
    def saved(self) -> Estimate:
        """Return the share that overflows after the product but not before it."""
        (a, a_low, a_high, _), (b, b_low, b_high, _) = self.after, self.before
        return Estimate(a - b, a_low - b_high, a_high - b_low)


def half_precision(whole: WholeTable) -> Finding:
    """Judge whether fewer scores overflow float16 with the scale before the product than after."""
    found = _orders(whole.table, "float16")
    if not found:
        raise MissingError("the run does not have float16 in both orders with a scale other than 1")
    overflowing = [one for one in found if max(one.after.mean, one.before.mean) > 0]
    if not overflowing:
        raise MissingError("no float16 score overflows; larger inputs or a larger d_k may")
    states = [beyond(one.saved, 0.0, above=True) for one in overflowing]
    holds = any_known(states)
    deciding = [one for one, state in zip(overflowing, states, strict=True) if state is holds]
    worst = max(deciding, key=lambda one: (one.after.mean, one.d_k))
    at = f"at d_k = {worst.d_k} and inputs of standard deviation {worst.input_sd}"
    text = (
        f"{format_percent(worst.after)} of the scores overflow with the scale after, "
        f"{format_percent(worst.before)} before"
    )
    return Finding(
        holds,
        f"{text}, {at}",
        f"The order {'matters' if holds else 'does not matter'} in float16: {at}, {text} the "
        "product.",
        f"share of float16 scores that overflow with the scale after the product and not before, "
        f"at d_k = {worst.d_k} and inputs of standard deviation {worst.input_sd}",
        worst.saved,
        abs(worst.saved.mean),
        _where(found, _orders(whole.table, "bfloat16")),
    )


def _where(float16: Sequence[_Orders], bfloat16: Sequence[_Orders]) -> str:
    """Say for which kernels and sizes the order matters, and where no score overflows."""
    sizes: dict[int, list[int]] = {one.input_sd: [] for one in float16}
    for one in float16:
        if max(one.after.mean, one.before.mean) > 0:
            sizes[one.input_sd].append(one.d_k)
    some = [f"input_sd = {sd} from d_k = {min(at)} on" for sd, at in sorted(sizes.items()) if at]
    none = [f"at input_sd = {sd}" for sd, at in sorted(sizes.items()) if not at]
    if bfloat16 and all(one.after.mean == one.before.mean == 0 for one in bfloat16):
        none.append("in bfloat16")
    text = (
        "for kernels that store the product in half precision; kernels that keep it in float32 "
        "never overflow; float16 scores overflow at "
        f"{' and '.join(abbreviate(some, 'sizes'))}"
    )
    return text + (f"; none overflow {' and '.join(abbreviate(none, 'sizes'))}" if none else "")


def _orders(table: pd.DataFrame, precision: str) -> list[_Orders]:
    """Return both orders of each row of the grid, except rows with a scale of 1."""
    found = []
    axes = ["d_k", "n_k", "n_q", "inputs", "input_sd", "scaling"]
    for at, frame in table[table["precision"] == precision].groupby(axes):
        share = {
            row["order"]: Estimate(row["mean"], row["ci_low"], row["ci_high"])
            for row in frame[frame["metric"] == "overflow_share"].to_dict("records")
        }
        scale = frame.loc[frame["metric"] == "scale", "mean"]
        if len(share) == 2 and not (scale == 1).any():
            sizes: Document = dict(zip(axes, at, strict=True))
            found.append(_Orders(sizes["d_k"], sizes["input_sd"], share["after"], share["before"]))
    return found


CLAIMS = (
    Claim(
        "half_precision",
        "In half precision the scale should be applied before the score product.",
        "True if, at some size, surely fewer float16 scores overflow with the scale before the "
        "product than after it; false if at none. Only sizes where some overflow and the scale "
        "is not 1 count. The condition lists these sizes and the kind of kernel.",
        "precision-errors",
        half_precision,
        source="ours",
        evidence=lambda _, table: [WholeTable(table)],
    ),
)
