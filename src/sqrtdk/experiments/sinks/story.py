"""Tell in a sentence where the weight of a query with nothing to attend to goes."""

from sqrtdk.experiments.story import Lead, RunTables, percent, said
from sqrtdk.stats.intervals import Estimate, MissingError


def lead_sinks(run: RunTables) -> str:
    """Say how much weight goes to a first key, and what a sink is worth."""
    table = run.table("sinks")
    table = table[table["d_k"] == table["d_k"].max()]
    table = table.drop_duplicates(["attention", "first_key"])
    table = table.set_index(["attention", "first_key"])

    def number(attention: str, first_key: str, name: str) -> Estimate:
        if (attention, first_key) not in table.index:
            raise MissingError(f"the run has no {attention} with first_key = {first_key}")
        row = table.loc[(attention, first_key)]
        return Estimate(*(float(row[f"{name}{end}"]) for end in ("", "_low", "_high")))

    weight = number("softmax", "learned", "first_weight_unmatched")
    ratio = number("softmax", "none", "sink_ratio")
    return (
        "**Softmax needs somewhere to put its weight.** A query with nothing to attend to puts "
        f"{percent(weight)} of it on a key that all queries share. Without such a key its loss is "
        f"{said(ratio)} times that with a learned sink logit."
    )


LEAD = (Lead(71, lead_sinks),)
