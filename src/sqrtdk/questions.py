"""The chapter's concept check, answered from what the run measured.

Sentences are fixed; every number in them comes from a table of the run, and a question whose
tables a run lacks says so.
"""

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from sqrtdk import claims, config, distances, summary, tables
from sqrtdk.claims import Series
from sqrtdk.estimates import Estimate, MissingError, estimate
from sqrtdk.experiments import related
from sqrtdk.keys import Column

COLUMNS = (
    Column("question", "A question of the chapter's concept check.", read=str, axis=True),
    Column("answer", "The answer, with numbers of this run.", read=str),
    Column("figure", "Figure that shows it: a file of figures/, without its ending.", read=str),
)

Ledger = Mapping[str, Mapping[str, str]]


def stand_for(series: Sequence[Series]) -> str:
    """What query, key and value stand for, by a query that has a match among the keys."""
    matched = next((one for one in series if one.axes["inputs"] == "planted"), None)
    alike = [one for one in series if one.unrelated and matched and one.n_k == matched.n_k]
    if matched is None or not alike:
        raise MissingError("the run has no planted match beside unrelated vectors")
    found, chance = (one.curve("scaled", "max_weight") for one in (matched, alike[0]))
    d_k = max(found.keys() & chance.keys())
    return (
        "A query says what is looked for, a key what a position offers, and a value what is "
        "handed over; the weight is how well query and key match. Measured: among "
        f"{matched.n_k} keys, a query without a match gives its best key a weight of "
        f"{estimate(chance[d_k])}; a query with one planted match gives {estimate(found[d_k])}, "
        f"at d_k = {d_k} with scaling. The output is then nearly that key's value."
    )


def why_divide(ledger: Ledger) -> str:
    """Why the scores are divided by √d_k."""
    wanted = ("scores_grow", "saturation", "stable", "gradients_rms")
    rows = [ledger[name] for name in wanted if name in ledger]
    measured = [row for row in rows if row["verdict"] != claims.NOT_MEASURED]
    if not measured:
        raise MissingError("the run has not both scale rules over several d_k")
    return " ".join(row["answer"] for row in measured)


def long_range(table: pd.DataFrame, scaled: str | None) -> str:
    """How attention relates distant positions."""
    kept = table[table["scaling"] == scaled].set_index("quarter")
    if not {1, distances.QUARTERS} <= set(kept.index):
        raise MissingError("the run has no scaled weights over a sequence of several positions")
    near, far = (
        Estimate(*map(float, kept.loc[quarter, ["relative_weight", "ci_low", "ci_high"]]))
        for quarter in (1, distances.QUARTERS)
    )
    return (
        "Every position is one step away from every other: the weight depends on the match, not on "
        "the distance, and the gradient that reaches a position is its weight. Measured: keys in "
        f"the nearest quarter of the sequence get {estimate(near)} times an equal share, keys in "
        f"the farthest {estimate(far)} times, at n_k = {kept['n_k'].iloc[0]} and "
        f"d_k = {kept['d_k'].iloc[0]}. The price is that the order of positions is lost, unless "
        "the inputs carry it."
    )


def rows(run: config.Run, folder: Path) -> list[tables.Row]:
    """The questions with their answers, from the tables of a run's folder."""

    def of_related() -> str:
        if "related" not in run.settings:
            raise MissingError("the run has no experiment related")
        table = summary.read(folder / "related/summary.csv", summary.columns(related.COLUMNS))
        return stand_for(claims.series_of(run.settings["related"], table))

    def of_claims() -> str:
        with (folder / "claims.csv").open(encoding="utf-8", newline="") as file:
            return why_divide({row["claim"]: row for row in csv.DictReader(file)})

    def of_distances() -> str:
        if "scaling" not in run.settings:
            raise MissingError("the run has no experiment scaling")
        table = summary.read(folder / "scaling/distances.csv", distances.COLUMNS)
        return long_range(table, claims.scaled_arm(run.settings["scaling"]["scaling"]))

    asked = (
        ("What do query, key and value stand for?", of_related, "related-entropy"),
        ("Why are the scores divided by √d_k?", of_claims, "scaling-entropy"),
        ("How does attention solve long-range dependency?", of_distances, "scaling-weights"),
    )
    result = []
    for question, answer, figure in asked:
        try:
            text = answer()
        except MissingError as reason:
            text = f"Not measured: {reason}."
        result.append({"question": question, "answer": text, "figure": figure})
    return result


def main() -> None:
    """Answer the questions of the run whose config is named first, into the second path."""
    path = Path(sys.argv[1])
    found = rows(config.load(path), path.parent)
    tables.write_atomically(Path(sys.argv[2]), tables.text(found, COLUMNS))


if __name__ == "__main__":
    main()
