"""Judge the claim about temperature."""

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding
from sqrtdk.stats.decisions import beyond
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import WholeTable
from sqrtdk.stats.wording import format_estimate


def flattens(whole: WholeTable) -> Finding:
    """Judge whether the entropy is higher at the highest temperature than at the lowest."""
    table = whole.table[whole.table["d_k"] == whole.table["d_k"].max()]
    low, high = (
        Estimate(*table.loc[table["temperature"] == end, ["mean", "ci_low", "ci_high"]].iloc[0])
        for end in (table["temperature"].min(), table["temperature"].max())
    )
    if table["temperature"].nunique() == 1:
        raise MissingError("the run has one temperature")
    gained = Estimate(high.mean - low.mean, high.low - low.high, high.high - low.low)
    text = f"the entropy rises from {format_estimate(low)} to {format_estimate(high)} nats"
    return Finding(
        beyond(gained, 0.0, above=True),
        text,
        f"A higher temperature flattens the weights: {text}.",
        "entropy gained from the lowest to the highest temperature",
        gained,
        abs(gained.mean),
    )


CLAIMS = (
    Claim(
        "temperature",
        "A higher temperature flattens the weights.",
        "True if, at the largest d_k, the entropy is surely higher at the highest temperature than "
        "at the lowest; false if surely lower.",
        "temperature-entropy",
        flattens,
        source="ours",
        evidence=lambda _, table: [WholeTable(table)],
    ),
)
