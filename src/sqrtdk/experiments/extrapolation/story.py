"""Tell in a sentence what happens beyond the trained length."""

from sqrtdk.experiments.story import Lead, RunTables, said
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import scaled_rule


def lead_length(run: RunTables) -> str:
    """Say what weight on the match remains at the most keys, without and with ln n."""
    table = run.table("lengths")
    table = table[(table["d_k"] == table["d_k"].max()) & (table["multiplier"] == "fixed")]
    if table.empty:
        raise MissingError("the run has no rule with a fixed multiplier")
    most, n_k = int(table["n_asked"].max()), int(table["n_k"].iloc[0])
    table = table[table["n_asked"] == most].drop_duplicates("scaling").set_index("scaling")

    def weight(name: str | None) -> str:
        if name not in table.index:
            raise MissingError(f"the run has no rule {name}")
        row = table.loc[name]
        ends = (float(row[f"match_weight{end}"]) for end in ("", "_low", "_high"))
        return said(Estimate(*ends))

    return (
        f"**Beyond the trained length the scale should grow.** A head trained with {n_k} keys and "
        f"asked at {most} keeps a weight of {weight(scaled_rule(run.settings['scaling']))} on the "
        f"match with √d_k, and of {weight('ssmax')} with a factor that grows with "
        "ln\N{NO-BREAK SPACE}n."
    )


LEAD = (Lead(72, lead_length),)
