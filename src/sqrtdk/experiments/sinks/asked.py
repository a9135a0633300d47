"""Answer a question that people ask: why models attend to the first token."""

from sqrtdk.experiments.story import Asked, RunTables
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.wording import format_percent


def first_token(run: RunTables) -> str:
    """Say how much weight goes to a first key with softmax, a sink logit and sigmoids."""
    table = run.table("sinks")
    d_k = table["d_k"].max()
    table = table[(table["d_k"] == d_k) & (table["first_key"] == "learned")]
    table = table.drop_duplicates("attention").set_index("attention")
    words = {
        "softmax": "with softmax",
        "sink_logit": "with a learned sink logit",
        "sigmoid_bias": "with sigmoids of a learned constant",
    }
    column = "first_weight_unmatched"
    texts = [
        f"{format_percent(Estimate(*table.loc[name, [column, f'{column}_low', f'{column}_high']]))}"
        f" {text}"
        for name, text in words.items()
        if name in table.index
    ]
    if not texts:
        raise MissingError("the run has no first key")
    return (
        f"In a head trained at d_k = {d_k} queries without a match put {', '.join(texts)} on a key "
        "that all of them share."
    )


ASKED = (
    Asked(
        212,
        "first-token",
        "Why do models attend to the first token?",
        "Softmax weights sum to 1, so a query with nothing to attend to must put its weight "
        "somewhere, and a key that every query sees, with a small value, is the cheapest place.",
        first_token,
        "claim-first_key_sink",
    ),
)
