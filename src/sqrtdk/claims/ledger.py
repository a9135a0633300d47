"""Judge statements about attention, the chapter's and ours, from the tables of a run.

A claim is judged series by series (a series is everything but d_k and the scale rule) with a rule
that is stated in words before any number. Only the sentences and the rules are written by hand:
other tables give other verdicts. If a run cannot decide, the verdict is "not measured", with the
reason. More seeds of the same truth decide open verdicts, but do not reverse decided ones.
docs/verdicts.md has the simulated error rates.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from sqrtdk.claims import readings as claims_readings
from sqrtdk.claims.claim import BETWEEN, CONDITIONAL, FALSE, NOT_MEASURED, TRUE, Claim
from sqrtdk.claims.readings import Reading, Subject, few
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import Series
from sqrtdk.storage import tables

# From the table to the ledger


def judge(claim: Claim, own: Sequence[Subject], also: Sequence[Subject] = ()) -> tables.Row:
    """Return one row of the ledger, from the subjects of the claim's own experiment and of others.

    Never raises for a grid that is too small; the row says so.
    """
    readings: list[tuple[Subject, Reading]] = []
    lacking: dict[str, list[Subject]] = {}
    for one in (*own, *also):
        try:
            if claim.vectors is not None and one.unrelated != (claim.vectors == "unrelated"):
                raise MissingError(f"the claim is about {claim.vectors} vectors")
            readings.append((one, claim.judge(one)))
        except MissingError as reason:
            lacking.setdefault(str(reason), []).append(one)
    verdict, condition = _verdict(claim, readings, lacking)
    base = {
        "claim": claim.claim,
        "experiment": claim.experiment,
        "sentence": claim.sentence,
        "verdict": verdict,
        "condition": condition,
        "rule": claim.rule,
        "figure": claim.figure,
        "source": claim.source,
    }
    texts = few([_said(one, reading.number) for one, reading in readings], "series")
    if readings:
        texts += [f"{_labels(ones)}: not measured, {reason}" for reason, ones in lacking.items()]
    base["numbers"] = BETWEEN.join(texts)
    if verdict == NOT_MEASURED:
        empty = {
            "series": "",
            "quantity": "",
            "value": math.nan,
            "ci_low": math.nan,
            "ci_high": math.nan,
        }
        return base | empty | {"answer": f"Not measured: {condition}."}
    wanted = verdict != FALSE
    agreeing = [pair for pair in readings if pair[1].holds is wanted]
    # The claim's own grid and unrelated inputs come first, so that answers are comparable.
    mine = [pair for pair in agreeing if any(pair[0] is one for one in own)] or agreeing
    agreeing = [pair for pair in mine if pair[0].unrelated] or mine
    shown_series, shown = agreeing[len(agreeing) // 2]
    closest_series, closest = min(readings, key=lambda pair: pair[1].distance)
    return base | {
        "answer": shown.answer,
        "series": shown_series.label,
        "quantity": closest.quantity + (f" ({closest_series.label})" * bool(closest_series.label)),
        "value": closest.value.mean,
        "ci_low": closest.value.low,
        "ci_high": closest.value.high if math.isfinite(closest.value.high) else math.nan,
    }


def _verdict(
    claim: Claim, readings: list[tuple[Subject, Reading]], lacking: Mapping[str, list[Subject]]
) -> tuple[str, str]:
    """Return the verdict of all series together, and the condition or the reason.

    An open series may turn out either way, so nothing is false while one is open or holds.
    """
    by = {
        state: [one for one, reading in readings if reading.holds is state]
        for state in (True, False, None)
    }
    fails = [f"not for {_labels(by[False])}"] if by[False] else []
    undecided = [f"undecided for {_labels(by[None])}"] if by[None] else []
    if not by[True] and by[None]:
        alone = all(math.isnan(reading.value.low) for _, reading in readings)
        wide = (
            "one seed has no interval, and decides nothing"
            if alone
            else "the intervals are too wide to decide; more seeds make them narrower"
        )
        return NOT_MEASURED, "; ".join([wide, *(fails and [*fails, *undecided]), *lacking])
    if not by[True] and not by[False]:
        return NOT_MEASURED, "; ".join(lacking or [claim.lacking or absent(claim.experiment)])
    if not by[True]:
        return FALSE, ""
    parts = [*fails, *undecided, *_conditions(readings)]
    parts += _limits(claim, [one for one, _ in readings])
    return (CONDITIONAL, "; ".join(parts)) if parts else (TRUE, "")


def _conditions(readings: Iterable[tuple[Subject, Reading]]) -> list[str]:
    """Return the conditions of the series that hold; a shared condition appears once."""
    holding = [(one, reading.condition) for one, reading in readings if reading.holds]
    if len({condition for _, condition in holding}) == 1:
        return list(filter(None, [holding[0][1]]))
    return few([_said(one, condition) for one, condition in holding if condition], "series")


def _limits(claim: Claim, judged: Sequence[Subject]) -> list[str]:
    """Return the limits of a run for the claim: inputs, sizes and types that it lacks."""
    kinds = {"unrelated" if one.unrelated else "related" for one in judged}
    missing = [kind for kind in claim.about if kind not in kinds]
    parts = [
        f"for {' and '.join(sorted(kinds))} vectors; that of {kind} ones is not known"
        for kind in missing
    ]
    series = [one for one in judged if isinstance(one, (Series, claims_readings.Grading))]
    sizes = {one.n_k for one in series}
    if len(sizes) == 1:
        parts.append(f"tried at n_k = {sizes.pop()} only")
    types = {one.axes["dtype"] for one in series if isinstance(one, Series)}
    if types == {"float32"}:
        parts.append("as computed in float32")
    return [*parts, *filter(None, [claim.caveat])]


def absent(experiment: str) -> str:
    """Return the reason for a claim whose experiment a run does not have."""
    return f"the run has no experiment {experiment}"


def _said(one: Subject, text: str) -> str:
    return f"{one.label}: {text}" if one.label else text


def _labels(series: Iterable[Subject]) -> str:
    names = [one.label for one in series]
    if len(names) > 1:
        names = [f"({name})" if "," in name else name for name in names]
    return " and ".join(few(names, "series"))
