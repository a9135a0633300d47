"""Answer a question that people ask: where the scale goes in half precision."""

from sqrtdk.experiments.story import Asked, RunTables, percent
from sqrtdk.stats.intervals import Estimate, MissingError


def order(run: RunTables) -> str:
    """Say how many scores overflow with the scale after and before the product."""
    table = run.table("summary")
    table = table[(table["metric"] == "overflow_share") & (table["precision"] == "float16")]
    d_k, input_sd = table["d_k"].max(), table["input_sd"].max()
    shares = {}
    for order_ in ("after", "before"):
        row = table[
            (table["d_k"] == d_k) & (table["input_sd"] == input_sd) & (table["order"] == order_)
        ]
        if len(row) != 1:
            raise MissingError("the run does not have both orders in float16")
        shares[order_] = Estimate(*(float(row[x].iloc[0]) for x in ("mean", "ci_low", "ci_high")))
    return (
        f"In float16 at d_k = {d_k} and entries of standard deviation {input_sd:g}, "
        f"{percent(shares['after'])} of the scores overflow if the product is scaled, and "
        f"{percent(shares['before'])} if q is."
    )


ASKED = (
    Asked(
        80,
        "order",
        "Scale q or the scores?",
        "In exact arithmetic it is the same, and q is the smaller array. In half precision scaling "
        "q first keeps the product from overflowing; kernels that add up in single precision have "
        "no such trouble.",
        order,
        "claim-half_precision",
    ),
)
