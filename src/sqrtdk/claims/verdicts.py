"""Judge statements about attention, the chapter's and ours, from the tables of a run.

A claim is judged series by series (a series is everything but d_k and the scale rule) with a rule
that is stated in words before any number. Only the sentences and the rules are written by hand:
other tables give other verdicts. If a run cannot decide, the verdict is "not measured", with the
reason. More seeds of the same truth decide open verdicts, but do not reverse decided ones.
docs/verdicts.md has the simulated error rates.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from sqrtdk.claims import findings as claims_findings
from sqrtdk.claims.claim import CONDITIONAL, FALSE, NOT_MEASURED, SERIES_SEPARATOR, TRUE, Claim
from sqrtdk.claims.findings import WHOLE, Evidence, Finding, abbreviate
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import Series
from sqrtdk.storage import tables

# From the table to the verdict


def judge(
    claim: Claim, own: Sequence[Evidence], also: Mapping[str, Sequence[Evidence]] | None = None
) -> tables.Row:
    """Return one row of claims.csv, from the evidence of the claim's own experiment and of others.

    `also` has the evidence of other experiments by name. If only they gave a finding, the row names
    the first that did, and its figure.

    Never raises for a grid that is too small; the row says so.
    """
    findings: list[tuple[Evidence, Finding]] = []
    lacking: dict[str, list[Evidence]] = {}
    others = also or {}
    everything = [*own, *(one for some in others.values() for one in some)]
    about = [x for x in everything if claim.vectors in (None, _kind(x))]
    for one in about:
        try:
            findings.append((one, claim.judge(one)))
        except MissingError as reason:
            lacking.setdefault(str(reason), []).append(one)
    if everything and not about:
        lacking = {f"the claim is about {claim.vectors} vectors": everything}
    verdict, condition = _verdict(claim, findings, lacking)
    sources = {claim.experiment: (own, claim.figure)}
    sources |= {name: (some, claim.also[name]) for name, some in others.items()}
    judged = [one for one, _ in findings]
    gave = [name for name, (some, _) in sources.items() if _any_of(some, judged)]
    experiment = gave[0] if gave else claim.experiment
    base: tables.Row = {
        "claim": claim.claim,
        "experiment": experiment,
        "sentence": claim.sentence,
        "verdict": verdict,
        "condition": condition,
        "rule": claim.rule,
        "figure": sources[experiment][1],
        "source": claim.source,
    }
    texts = abbreviate([_said(one, finding.number) for one, finding in findings], "series", WHOLE)
    if findings:
        texts += _lacking(lacking)
    base["numbers"] = SERIES_SEPARATOR.join(texts)
    if verdict == NOT_MEASURED:
        empty: tables.Row = {
            "series": "",
            "quantity": "",
            "value": math.nan,
            "ci_low": math.nan,
            "ci_high": math.nan,
        }
        said = "Undecided" if findings else "Not measured"
        return base | empty | {"answer": f"{said}: {condition}."}
    wanted = verdict != FALSE
    agreeing = [pair for pair in findings if pair[1].holds is wanted]
    # The claim's own grid and unrelated inputs come first, so that answers are comparable.
    mine = [pair for pair in agreeing if _any_of([pair[0]], own)] or agreeing
    agreeing = [pair for pair in mine if pair[0].unrelated] or mine
    shown_series, shown = agreeing[len(agreeing) // 2]
    closest_series, closest = min(findings, key=lambda pair: pair[1].distance)
    answer, label = shown.answer, shown_series.label
    if claim.answers_all and len(findings) > 1:
        each = "; ".join(f"{finding.number} ({one.label})" for one, finding in findings)
        answer, label = f"{answer} All series: {each}.", ""
    return base | {
        "answer": answer,
        "series": label,
        "quantity": f"{closest.quantity}{_place(closest_series, closest, verdict)}",
        "value": closest.value.mean,
        "ci_low": closest.value.low,
        "ci_high": closest.value.high if math.isfinite(closest.value.high) else math.nan,
    }


def _place(one: Evidence, finding: Finding, verdict: str) -> str:
    """Return the series of a number in parentheses, and its own verdict if that is another one."""
    state = "" if finding.holds is (verdict != FALSE) else STATES[finding.holds]
    named = ", ".join(filter(None, [one.label, state]))
    return f" ({named})" if named else ""


STATES = {True: "where it holds", False: "where it fails", None: "undecided"}
"""The verdict on a series, in words."""


def _verdict(
    claim: Claim, findings: list[tuple[Evidence, Finding]], lacking: Mapping[str, list[Evidence]]
) -> tuple[str, str]:
    """Return the verdict of all series together, and the condition or the reason.

    An open series may turn out either way, so nothing is false while one is open or holds. A series
    that could not be measured does not change the verdict of the others, but is named.
    """
    by = {
        state: [one for one, finding in findings if finding.holds is state]
        for state in (True, False, None)
    }
    fails = [f"fails for {_labels(by[False])}"] if by[False] else []
    undecided = [f"undecided for {_labels(by[None])}"] if by[None] else []
    if not by[True] and by[None]:
        alone = all(math.isnan(finding.value.low) for _, finding in findings)
        wide = (
            "one seed has no interval, and decides nothing"
            if alone
            else "the intervals are too wide to decide; more seeds make them narrower"
        )
        return NOT_MEASURED, "; ".join([*(fails and [*fails, *undecided]), wide, *lacking])
    if not by[True] and not by[False]:
        return NOT_MEASURED, "; ".join(lacking or [claim.lacking or absent(claim.experiment)])
    unmeasured = _lacking(lacking)
    if not by[True]:
        return FALSE, "; ".join(unmeasured)
    others = [*fails, *undecided, *unmeasured]
    parts = [*others, *_conditions(findings, bool(others))]
    parts += _limits(claim, [one for one, _ in findings])
    return (CONDITIONAL, "; ".join(parts)) if parts else (TRUE, "")


def _conditions(findings: Iterable[tuple[Evidence, Finding]], others: bool) -> list[str]:
    """Return the conditions of the series that hold, each once.

    `others` says that the claim does not hold for some series. A condition after those, without a
    verb of its own, would read as one of their failure; one that begins with "the" is a sentence.
    """
    by: dict[str, list[Evidence]] = {}
    for one, finding in findings:
        if finding.holds:
            by.setdefault(finding.condition, []).append(one)
    if len(by) == 1:
        bare = not others or all(text.startswith("the ") for text in by)
        return [text if bare else f"where it holds, {text}" for text in by if text]
    verb = "holds for " if others else ""
    texts = [f"{verb}{_labels(series)}: {text}" for text, series in by.items() if text]
    return abbreviate(texts, "series", WHOLE)


def _limits(claim: Claim, judged: Sequence[Evidence]) -> list[str]:
    """Return the limits of a run for the claim: inputs, sizes and types that it lacks."""
    kinds = {_kind(one) for one in judged}
    missing = [kind for kind in claim.about if kind not in kinds]
    parts = [
        f"for {' and '.join(sorted(kinds))} vectors; that of {kind} ones is not known"
        for kind in missing
    ]
    series = [one for one in judged if isinstance(one, (Series, claims_findings.Grading))]
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


def _any_of(some: Sequence[Evidence], known: Sequence[Evidence]) -> bool:
    """Return whether one of some parts of the evidence is among others, itself and not its like."""
    return any(one is other for one in some for other in known)


def _kind(one: Evidence) -> str:
    return "unrelated" if one.unrelated else "related"


def _lacking(lacking: Mapping[str, list[Evidence]]) -> list[str]:
    """Return which series could not be measured, and why."""
    return [
        " ".join(filter(None, ["not measured", f"for {_labels(ones)}" * bool(_labels(ones))]))
        + f": {reason}"
        for reason, ones in lacking.items()
    ]


def _said(one: Evidence, text: str) -> str:
    return f"{one.label}: {text}" if one.label else text


def _labels(series: Iterable[Evidence]) -> str:
    names = [one.label for one in series]
    if len(names) > 1:
        names = [f"({name})" if "," in name else name for name in names]
    return " and ".join(abbreviate(names, "series", WHOLE))
