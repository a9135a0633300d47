"""Answer questions that people ask about the scale, as far as random vectors answer them."""

import math

from sqrtdk.experiments.scaling.asides import D_MODEL, HEAD
from sqrtdk.experiments.story import Asked, RunTables, head, said, short
from sqrtdk.stats.curves import crossing, last
from sqrtdk.stats.intervals import Estimate, MissingError


def _aside(run: RunTables, case: str, quantity: str) -> tuple[Estimate, float, float]:
    """Return a number of asides.csv, with the 5 % and the 95 % quantile of its draws."""
    table = run.table("asides")
    row = table[(table["case"] == case) & (table["quantity"] == quantity)]
    if row.empty:
        raise MissingError(f"asides.csv has no {case}")
    one = row.iloc[0]
    value = Estimate(float(one["mean"]), float(one["ci_low"]), float(one["ci_high"]))
    return value, float(one["q05"]), float(one["q95"])


def _logits(run: RunTables, case: str) -> str:
    return said(_aside(run, case, "spread of the logits")[0])


def variance(run: RunTables) -> str:
    """Say how much a 2 × 2 example scatters."""
    small, low, high = _aside(run, "2 × 2", "variance of the scores")
    large, low_large, high_large = _aside(run, "64 × 64", "variance of the scores")
    return (
        f"With 2 × 2 matrices one draw in ten is below {short(low, 2)} or above "
        f"{short(high, 2)} (mean {said(small)}, exact 2), so 1.6 is an ordinary draw of four "
        f"scores. With 64 × 64 nine in ten are between {short(low_large)} and "
        f"{short(high_large)} (mean {said(large)}, exact 64)."
    )


def root(run: RunTables) -> str:
    """Say what other divisors leave of the spread at the largest d_k."""
    curve = run.main().curve("unscaled", "logit_std")
    d_k, spread = last(curve)
    divisors = (
        ("√d_k", d_k**0.5),
        ("ln d_k", math.log(d_k)),
        ("d_k", d_k),
        ("the square of d_k", d_k**2),
    )
    left = [f"{short(spread.mean / by)} after {words}" for words, by in divisors if by > 0]
    return f"At d_k = {d_k} the scores spread by {said(spread)}; that is {', '.join(left)}."


def length(run: RunTables) -> str:
    """Say how the onset depends on the number of keys."""
    found = []
    for one in sorted((x for x in run.series if x.unrelated and x.n_k > 1), key=lambda x: x.n_k):
        half = crossing(one.curve("unscaled", "entropy_normalized"), 0.5)
        if half is not None:
            found.append((one.n_k, half))
    if len(found) < 2:
        raise MissingError("the run has one number of keys")
    (few, at_few), (many, at_many) = found[0], found[-1]
    return (
        f"Without the division half of the entropy is gone at d_k ≈ {said(at_few)} for {few} keys "
        f"and at {said(at_many)} for {many}: {short(many / few)} times the keys move the onset by "
        f"a factor of {short(at_many.mean / at_few.mean, 2)}, so a factor of d_k alone serves "
        "every length well."
    )


def mean_or_variance(run: RunTables) -> str:
    """Say what a mean does, and LayerNorm to it."""
    return (
        f"Entries with mean 1 and variance 1 spread the scaled scores by {_logits(run, 'mean 1')}, "
        f"the root of 1 + 1²; after LayerNorm it is {_logits(run, 'mean 1, LayerNorm')}."
    )


def initialisation(run: RunTables) -> str:
    """Say how the scores spread after usual initialisations."""
    cases = (
        "variance 1/d_model",
        "PyTorch Linear",
        "Xavier, q, k and v at once",
        "Xavier, one head",
        "He",
        "normal, 0.02",
    )
    spreads = ", ".join(f"{case}: {_logits(run, case)}" for case in cases)
    return f"Spread after √d_k, d_model = {D_MODEL}, d_k = {HEAD}: {spreads}."


def t5(run: RunTables) -> str:
    """Say that the first scores of T5 spread by 1 without a division."""
    return (
        f"With the variance of W_q divided by d_k = {HEAD} and no division, the scores spread by "
        f"{_logits(run, 'T5, no division')}; with the division and the usual variance, by "
        f"{_logits(run, 'variance 1/d_model')}."
    )


def embeddings(run: RunTables) -> str:
    """Say how large a position code is next to an embedding."""
    plain, _, _ = _aside(run, "embedding", "position over embedding")
    times, _, _ = _aside(run, "embedding times √d_model", "position over embedding")
    return (
        f"At d_model = {D_MODEL} the sinusoidal position code is {said(plain)} times as long as "
        f"an embedding of variance 1/d_model, and {said(times)} times after the factor."
    )


def after(run: RunTables) -> str:
    """Say what a factor after the softmax does, and one besides QK-norm."""

    def of(case: str, quantity: str = "largest weight") -> str:
        return said(_aside(run, case, quantity)[0])

    total, _, _ = _aside(run, "after the softmax", "sum of a row")
    return (
        f"With 64 keys the largest weight is {of('before the softmax')} with the division before "
        f"the softmax, and {of('none')} without. Divided after it, the favourite still has "
        f"{of('after the softmax')} of its row, and the row sums to {short(total.mean)}. QK-norm "
        f"times √d_k gives {of('QK-norm')}; dividing that by √d_k as well gives "
        f"{of('QK-norm and √d_k')}, nearly an equal share of {short(1 / 64)}."
    )


def learnt(run: RunTables) -> str:
    """Say what a learned factor would have to reach."""
    one = run.main()
    curve = one.curve("unscaled", "logit_std")
    d_k = head(curve)
    return (
        f"At d_k = {d_k} a learned factor that starts at 1 starts with scores that spread by "
        f"{said(curve[d_k])}, where {said(one.curve('unscaled', 'effective_keys')[d_k])} of "
        f"{one.n_k} keys are in use; started at 1/√d_k it is "
        f"{said(one.curve('scaled', 'effective_keys')[d_k])}."
    )


ASKED = (
    Asked(
        10,
        "variance",
        "Why is the variance of q·k equal to d_k, and why does my 2 × 2 example give 1.6?",
        r"If the entries are independent with mean 0 and variance 1, then $\operatorname{E}[q_i "
        r"k_i] = 0$ and $\operatorname{Var}(q_i k_i) = \operatorname{E}[q_i^2] \operatorname{E}"
        r"[k_i^2] = 1$, and the variances of the d_k terms add. That is the variance over all "
        "draws; four scores of one draw are a small sample of it.",
        variance,
        "why",
    ),
    Asked(
        20,
        "root",
        "Why a root, and not log d_k, d_k or its square?",
        "Because the standard deviation of a sum of d_k independent terms is √d_k. Dividing by "
        "less leaves growth, dividing by more makes all scores alike.",
        root,
        "threshold",
    ),
    Asked(
        50,
        "length",
        "Sequence length or head size: which one matters?",
        "The division is about d_k. The number of keys matters only through its logarithm: more "
        "keys have a larger leader, 2 ln n_k in the limit.",
        length,
        "threshold",
    ),
    Asked(
        60,
        "mean-or-variance",
        "Is it the mean or the variance, and what does LayerNorm do to it?",
        "The softmax ignores a common shift of a row, so the mean of the scores does nothing; "
        "their variance does. A mean in the entries of q makes q longer and so adds variance. "
        "LayerNorm removes the mean and sets the variance to 1, before the projections.",
        mean_or_variance,
        "limit",
    ),
    Asked(
        70,
        "initialisation",
        "Which initialisation makes the variance 1?",
        "One that gives the entries of W_q and W_k variance 1/d_model, if the inputs have variance "
        "1. Others multiply the spread by their variance times d_model.",
        initialisation,
        "first-scores",
    ),
    Asked(
        100,
        "t5",
        "T5 divides by nothing. Is that a bug?",
        "No: its initial W_q has the factor 1/√d_k inside. Only the size of the first scores "
        "counts, and the learning rate has to fit.",
        t5,
        "first-scores",
    ),
    Asked(
        110,
        "learned",
        "Can the scale be learned?",
        "Yes, and W_q and W_k already can: a factor is a common size of theirs. What is not "
        "learned is the start, where a saturated softmax passes little gradient.",
        learnt,
        "first-scores",
    ),
    Asked(
        140,
        "embeddings",
        "Why are embeddings multiplied by √d_model?",
        "It is the inverse case: entries of variance 1/d_model become entries of variance 1, so "
        "that the position code that is added does not drown them.",
        embeddings,
        "why",
    ),
    Asked(
        150,
        "after",
        "Can one divide after the softmax, or use QK-norm and √d_k together?",
        "After the softmax a factor only makes the output smaller; the weights stay one-hot. "
        "QK-norm already fixes the size of the scores, so the division comes on top and flattens.",
        after,
        "landslide",
    ),
)
