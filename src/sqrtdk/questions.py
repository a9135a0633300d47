"""The chapter's concept check, answered from what the run measured.

Sentences are fixed and every number in them comes from a table of the run. What follows from the
numbers is said only where they carry it, by the same lines as in `claims`; a question whose tables
a run lacks says so.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from sqrtdk import (
    claims,
    commands,
    config,
    contrasts,
    distances,
    judges,
    judges_recall,
    summary,
    tables,
)
from sqrtdk.estimates import Estimate, MissingError, estimate, last, past, percent
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.experiments.scaling import top_rows, top_rows_in_words
from sqrtdk.keys import Column
from sqrtdk.series import Series, scaled_arm, series_of

COLUMNS = (
    Column("question", "A question of the chapter's concept check.", read=str, axis=True),
    Column("answer", "The answer, with numbers of this run.", read=str),
    Column("figure", "Figure that shows it: a file of figures/, without its ending.", read=str),
)


def stand_for(series: Sequence[Series]) -> str:
    """What query, key and value stand for, by a query that has a match among the keys."""
    matched = next((one for one in series if one.axes["inputs"] == "planted"), None)
    alike = [one for one in series if one.unrelated and matched and one.n_k == matched.n_k]
    if matched is None or not alike:
        raise MissingError("the run has no planted match beside unrelated vectors")
    found, chance = (one.curve("scaled", "max_weight") for one in (matched, alike[0]))
    common = found.keys() & chance.keys()
    if not common:
        raise MissingError("the planted match and the unrelated vectors have no d_k in common")
    d_k = max(common)
    text = (
        "A query says what is looked for, a key what a position offers, and a value what is "
        "handed over; the weight is how well query and key match. Measured: among "
        f"{matched.n_k} keys, a query without a match gives its best key a weight of "
        f"{estimate(chance[d_k])}; a query with one planted match gives {estimate(found[d_k])}, "
        f"at d_k = {d_k} with scaling."
    )
    nearly = past(found[d_k], judges.ONE_HOT, above=True)
    return text + (" The output is then nearly that key's value." if nearly else "")


def why_divide(series: Sequence[Series]) -> str:
    """Why the scores are divided by √d_k: the chain of causes, at one combination of sizes."""
    unrelated = [one for one in series if one.unrelated]
    if not unrelated:
        raise MissingError("the run has no unrelated vectors")
    one = unrelated[len(unrelated) // 2]
    grow, full, typical, kept = (
        judge(one)
        for judge in (
            judges.scores_grow,
            judges.saturation,
            judges.gradients_typical,
            judges.stable,
        )
    )
    share = "grad_logits_top1_share"
    (d_k, top), (_, beside) = (last(one.curve(arm, share)) for arm in ("unscaled", "scaled"))
    rows = top_rows_in_words(one.axes["n_q"])
    verb = "holds" if top_rows(one.axes["n_q"]) == 1 else "hold"
    few = past(last(one.ratio(share))[1], 1.0, above=True)
    return " ".join(
        (
            f"Without scaling the scores grow as d_k to the power {estimate(grow.value)}"
            f"{', so that the softmax saturates:' if full.holds else ';'} at d_k = {d_k}, "
            f"{percent(full.value)} of its largest entropy is left ({one.label}).",
            f"{'The typical gradient then vanishes:' if typical.holds else 'Then'} "
            f"{percent(typical.value)} of the gradient's entries are below 1e-3/n_k, and "
            f"{'a few rows carry the rest: ' if few else ''}on average {rows} {verb} "
            f"{percent(top)} of the square, {percent(beside)} with scaling.",
            f"{'Dividing by √d_k keeps the softmax as it was:' if kept.holds else 'With 1/√d_k'} "
            f"the entropy moves by {percent(kept.value)} of its largest value over all d_k.",
        )
    )


def long_range(table: pd.DataFrame, scaled: str | None) -> str:
    """How attention relates distant positions."""
    kept = table[table["scaling"] == scaled].set_index("quarter")
    if not {1, distances.QUARTERS} <= set(kept.index):
        raise MissingError("the run has no scaled weights over a sequence of several positions")
    near, far = (
        Estimate(*map(float, kept.loc[quarter, ["relative_weight", "ci_low", "ci_high"]]))
        for quarter in (1, distances.QUARTERS)
    )
    equal = all(one.low <= 1 <= one.high for one in (near, far))
    return (
        "Every position is one step away from every other, and the gradient that reaches a "
        "position is its weight. Measured: keys in the nearest quarter of the sequence get "
        f"{estimate(near)} times an equal share, keys in the farthest {estimate(far)} times, at "
        f"n_k = {kept['n_k'].iloc[0]} and d_k = {kept['d_k'].iloc[0]}. "
        + ("The weight depends on the match, not on the distance. " if equal else "")
        + "The price is that the order of positions is lost, unless the inputs carry it."
    )


def beside_recurrence(table: pd.DataFrame) -> str:
    """The reach of attention and that of a recurrent network's last state; empty if not judged."""
    found = []
    for part in judges_recall.parts(*judges_recall.REACH)({}, table):
        try:
            found.append(judges_recall.reach(part))
        except MissingError:
            continue
    return f" Beside a recurrent network: {found[-1].number}." if found else ""


def rows(run: config.Run, folder: Path) -> list[tables.Row]:
    """The questions with their answers, from the tables of a run's folder."""

    def table_of(experiment: str) -> pd.DataFrame:
        if experiment not in run.settings:
            raise MissingError(claims.absent(experiment))
        schema = summary.columns(EXPERIMENTS[experiment].COLUMNS)
        return summary.read(folder / experiment / "summary.csv", schema)

    def series(experiment: str) -> list[Series]:
        table, path = table_of(experiment), folder / experiment / "contrasts.csv"
        schema = contrasts.columns(EXPERIMENTS[experiment].COLUMNS)
        paired = summary.read(path, schema) if path.is_file() else None
        return series_of(run.settings[experiment], table, paired)

    def of_distances() -> str:
        if "scaling" not in run.settings:
            raise MissingError(claims.absent("scaling"))
        table = summary.read(folder / "scaling/distances.csv", distances.COLUMNS)
        text = long_range(table, scaled_arm(run.settings["scaling"]["scaling"]))
        return text + (beside_recurrence(table_of("reach")) if "reach" in run.settings else "")

    asked: tuple[tuple[str, Callable[[], str], str], ...] = (
        (
            "What do query, key and value stand for?",
            lambda: stand_for(series("related")),
            "related-entropy",
        ),
        (
            "Why are the scores divided by √d_k?",
            lambda: why_divide(series("scaling")),
            "scaling-entropy",
        ),
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
    tables.write_guarded(Path(sys.argv[2]), tables.text(found, COLUMNS))


if __name__ == "__main__":
    commands.run(main, "CONFIG", "QUESTIONS.csv")
