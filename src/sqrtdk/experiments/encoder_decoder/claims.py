"""Judge the claim about the fixed vector."""

from sqrtdk.claims import findings
from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding
from sqrtdk.experiments.encoder_decoder.judging import (
    SETTLED,
    curves_of,
    is_settled,
    need,
    why,
)
from sqrtdk.experiments.encoder_decoder.measure import GAIN, LEARNT_ACCURACY, UNASKED
from sqrtdk.experiments.encoder_decoder.model import READERS
from sqrtdk.stats.curves import is_beyond
from sqrtdk.stats.decisions import all_known, any_known
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import WholeTable
from sqrtdk.stats.summary import last_step
from sqrtdk.stats.wording import format_percent

MIN_DECISIVE_LENGTH = 16
"""Source length at which a fixed vector must fail; a grid that ends below cannot refute it."""


# Source length


def bottleneck(whole: WholeTable) -> Finding:
    """Judge whether the fixed vector fails at the longest source, and attention does not."""
    table = last_step(whole.table)
    curves = curves_of(table, "accuracy", "length")
    unasked = curves_of(table, UNASKED.name, "length")
    need(curves, "fixed")
    attention = {name: curve for name, curve in curves.items() if name != "fixed"}
    if not attention:
        raise MissingError("the run has no reader with attention")
    fixed, longest, steps = curves["fixed"], max(curves["fixed"]), int(table["step"].max())
    end = fixed[longest]
    fails = is_beyond(end, LEARNT_ACCURACY, above=False)
    if fails is False and longest < MIN_DECISIVE_LENGTH:
        raise MissingError(
            f"the fixed vector answers {format_percent(end)} at length = {longest}, the longest; "
            "longer sources may differ"
        )
    solved = {
        name: is_beyond(curve[longest], LEARNT_ACCURACY, above=True)
        for name, curve in attention.items()
    }
    gains = curves_of(table, GAIN.name, "length")
    chance = unasked["fixed"][longest]
    if any_known(solved.values()) is False and not all(
        is_settled(gains.get(name, {}).get(longest), curve[longest], chance.high)
        for name, curve in attention.items()
    ):
        raise MissingError(
            f"no reader with attention answers at length = {longest} after {steps} training steps, "
            "and more training may change that"
        )
    holds = all_known((fails, any_known(solved.values())))
    best = max(attention, key=lambda name: (attention[name][longest].mean, READERS.index(name)))
    short = [
        length for length, value in fixed.items() if is_beyond(value, LEARNT_ACCURACY, above=True)
    ]
    without = [name for name, state in solved.items() if state is False]
    unsure = [name for name, state in solved.items() if state is None]
    gain = gains.get("fixed", {}).get(longest)
    conditions = [
        f"after {steps} training steps",
        *([why(end, gain, chance)] if fails else []),
        *([f"the fixed vector answers up to length = {max(short)}"] if short else []),
        *([f"not with {' and '.join(without)}"] if holds and without else []),
        *([f"undecided with {' and '.join(unsure)}"] if holds and unsure else []),
    ]
    text = ", ".join(f"{name} {format_percent(curve[longest])}" for name, curve in curves.items())
    verb = "removes" if holds else "does not remove"
    return Finding(
        holds,
        f"right answers at length = {longest}: {text}; the most frequent value "
        f"{format_percent(chance)}",
        f"Attention {verb} the bottleneck: at length = {longest}, after {steps} training steps, "
        f"the fixed vector answers {format_percent(end)} correctly, always answering with the most "
        f"frequent value of the sequence gives {format_percent(chance)}, and {best} attention "
        f"answers {format_percent(attention[best][longest])}.",
        f"accuracy of the fixed vector at length = {longest}",
        end,
        abs(end.mean - LEARNT_ACCURACY),
        "; ".join(conditions),
    )


CLAIMS = (
    Claim(
        "bottleneck",
        "Attention removes the bottleneck of the fixed-size vector.",
        "True if, at the longest source and after training, the accuracy of the fixed vector is "
        f"surely below {LEARNT_ACCURACY} and that of some reader with attention above. False if "
        f"the fixed vector is above at length = {MIN_DECISIVE_LENGTH} or more, or if every reader "
        "with attention is below and its training has settled: above the most frequent value, and "
        f"surely less than {100 * SETTLED:.0f} percentage points gained in the second half. The "
        "condition says whether the training of the fixed vector has settled, too. If not, more "
        "training may help it.",
        "encoder_decoder-length",
        bottleneck,
        evidence=findings.parts("hidden", "d_k", "learning_rate"),
    ),
)
