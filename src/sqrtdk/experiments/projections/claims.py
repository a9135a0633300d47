"""Judge the claim about the need for each projection."""

from typing import NamedTuple

import pandas as pd

from sqrtdk.claims import findings
from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding
from sqrtdk.experiments.encoder_decoder.judging import SETTLED, adds_little
from sqrtdk.experiments.encoder_decoder.measure import GAIN, LEARNT_ACCURACY
from sqrtdk.experiments.projections.model import PROJECTIONS
from sqrtdk.stats.curves import is_beyond
from sqrtdk.stats.decisions import all_known, any_known
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import WholeTable
from sqrtdk.stats.summary import last_step
from sqrtdk.stats.wording import format_percent

# Projections


class _Head(NamedTuple):
    """A head with some projections, at the learning rate with the best accuracy.

    `answers` is whether it answers at some rate, `fails` whether it fails at every rate, and
    `settled` whether the second half of its training added little.
    """

    accuracy: Estimate
    weight: Estimate
    answers: bool | None
    fails: bool | None
    settled: bool | None

    @property
    def text(self) -> str:
        """Return its accuracy and weight, in words."""
        weight = format_percent(self.weight)
        return f"{format_percent(self.accuracy)} with {weight} of the weight on the item"


def _heads(table: pd.DataFrame) -> dict[str, _Head]:
    found = {}
    for name, rows in table.groupby("projections", sort=True):
        by: dict[str, dict[float, Estimate]] = {}
        for row in rows.to_dict("records"):
            value = Estimate(row["mean"], row["ci_low"], row["ci_high"])
            by.setdefault(row["metric"], {})[row["learning_rate"]] = value
        accuracy = by["accuracy"]
        best = max(accuracy, key=lambda rate: accuracy[rate].mean)
        gain = by.get(GAIN.name, {}).get(best)
        found[str(name)] = _Head(
            accuracy[best],
            by["asked_weight"][best],
            any_known(is_beyond(one, LEARNT_ACCURACY, above=True) for one in accuracy.values()),
            all_known(is_beyond(one, LEARNT_ACCURACY, above=False) for one in accuracy.values()),
            adds_little(gain),
        )
    return found


def projections(whole: WholeTable) -> Finding:
    """Judge whether a head without a projection of its own fails. Raises MissingError."""
    table = last_step(whole.table)
    steps = int(table["step"].max())
    turned = table[table["relation"] == "turned"]
    if turned.empty:
        raise MissingError("the run has no relation turned, in which the projections differ")
    heads = _heads(turned)
    lacking = [name for name in PROJECTIONS if name not in heads]
    if lacking:
        raise MissingError(f"the run has no projections {' and no '.join(lacking)}")
    separate, *others = (heads[name] for name in PROJECTIONS)
    if separate.answers is not True:
        raise MissingError(
            f"after {steps} training steps the head with three projections does not surely answer "
            f"either: {separate.text}"
        )
    if any(one.fails and one.settled is False for one in others):
        raise MissingError(f"a head is still learning after {steps} training steps")
    holds = all_known(
        False if one.answers else all_known((one.fails, one.settled or None)) for one in others
    )
    shared, identity = others
    same = _heads(rest) if len(rest := table[table["relation"] == "same"]) else {}
    able = {name: same[name].text for name in PROJECTIONS[1:] if name in same}
    conditions = [
        "if the query and the answer differ from their item",
        *(
            [f"if they do not, {' and '.join(f'{n} answers {t}' for n, t in able.items())}"]
            if able
            else []
        ),
    ]
    verb = "needs" if holds else "does not need" if holds is False else "may need"
    return Finding(
        holds,
        f"right answers: separate {separate.text}; shared_qk {shared.text}; identity_v "
        f"{identity.text}",
        f"Each of the three {verb} its own projection: after {steps} training steps the head with "
        f"W_q, W_k and W_v answers {format_percent(separate.accuracy)} of turned queries "
        f"correctly; with W_q = W_k it is {format_percent(shared.accuracy)}, with "
        f"{format_percent(shared.weight)} of the weight on the requested item; with W_v = I it is "
        f"{format_percent(identity.accuracy)}.",
        "accuracy with W_q = W_k"
        if shared.accuracy.mean > identity.accuracy.mean
        else "accuracy with W_v = I",
        max(shared.accuracy, identity.accuracy),
        abs(max(shared.accuracy, identity.accuracy).mean - LEARNT_ACCURACY),
        "; ".join(conditions),
    )


CLAIMS = (
    Claim(
        "projections",
        "Queries, keys and values each need their own projection.",
        "The task is associative retrieval. A query is its item turned by a right angle, and the "
        "answer is the item turned the other way. True if, after training, the head with three "
        f"projections has an accuracy surely above {LEARNT_ACCURACY} at some learning rate, and "
        "both the head with W_q = W_k and the head with W_v = I are surely below it at every rate "
        f"and gain surely less than {100 * SETTLED:.0f} percentage points in the second half of "
        "the training, at their best rate. False if one of the two answers at some rate. Not "
        "measured if the head with three projections does not answer, or the others are still "
        "improving.",
        "projections-accuracy",
        projections,
        evidence=findings.parts("d_k", "n_k", "batch_size"),
    ),
)
