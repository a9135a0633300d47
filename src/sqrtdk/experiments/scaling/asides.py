"""Compute asides.csv: small measurements for questions that people ask about the scale.

Each takes a few sizes that the question itself names, whatever the grid: how much one small example
scatters, which initialisation makes the logits spread by 1, what LayerNorm does to a mean, what a
factor after the softmax or besides QK-norm changes, and what an embedding's factor √d_model is for.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from sqrtdk.core.attention import attention
from sqrtdk.core.metrics import row_metrics
from sqrtdk.schema import Column, Settings
from sqrtdk.stats import intervals
from sqrtdk.storage import tables

D_MODEL, TOKENS, HEAD = 512, 64, 64
"""Sizes of a usual small model: width, tokens, width of a head."""

MAX_SEEDS = 100
"""Maximum seeds; each draws a few small matrices."""

STREAM = 0xA51DE
"""Second entry of the generator's seed, so that the draws are not those of a cell."""

COLUMNS = (
    Column("case", "What is measured.", read=str, axis=True),
    Column("quantity", "The number of the case.", read=str, axis=True),
    Column("n_seeds", "Number of draws.", "seeds", read=int),
    Column("mean", "Mean over the draws."),
    Column("ci_low", "Lower end of its 95 % interval. Empty for one draw.", optional=True),
    Column("ci_high", "Upper end of its 95 % interval. Empty for one draw.", optional=True),
    Column("q05", "5 % quantile of the draws."),
    Column("q95", "95 % quantile of the draws."),
)

Array = np.ndarray
Case = Callable[[np.random.Generator], dict[str, float]]


def _variance(size: int) -> Case:
    """Return the sample variance of all scores of size queries and keys of size entries."""

    def case(random: np.random.Generator) -> dict[str, float]:
        q, k = random.standard_normal((2, size, size))
        return {"variance of the scores": float(np.var(q @ k.T, ddof=1))}

    return case


def _spread(logits: Array) -> float:
    """Return the standard deviation of each row's logits, pooled by the root mean square."""
    return float(np.sqrt(np.mean(np.var(logits, axis=1, ddof=1))))


def _projected(variance: float, scale: float, variance_q: float | None = None) -> Case:
    """Return the spread of the logits if entries of W have this variance and inputs 1."""

    def case(random: np.random.Generator) -> dict[str, float]:
        x = random.standard_normal((TOKENS, D_MODEL))
        w_q, w_k = random.standard_normal((2, D_MODEL, HEAD))
        q = x @ w_q * (variance if variance_q is None else variance_q) ** 0.5
        k = x @ w_k * variance**0.5
        # A token's score with itself is of another kind: its query and key share the input.
        logits = scale * q @ k.T
        return {
            "spread of the logits": _spread(logits[~np.eye(TOKENS, dtype=bool)].reshape(TOKENS, -1))
        }

    return case


def _shifted(*, normed: bool) -> Case:
    """Return the spread of the logits of vectors with mean 1, as they are or after LayerNorm."""

    def case(random: np.random.Generator) -> dict[str, float]:
        q, k = 1 + random.standard_normal((2, TOKENS, HEAD))
        if normed:
            q, k = ((a - a.mean(1, keepdims=True)) / a.std(1, keepdims=True) for a in (q, k))
        return {"spread of the logits": _spread(q @ k.T / HEAD**0.5)}

    return case


def _weights(*, normed: bool, before: float, after: float) -> Case:
    """Return what the weights are with a factor before and one after the softmax."""

    def case(random: np.random.Generator) -> dict[str, float]:
        q, k, v = random.standard_normal((3, TOKENS, HEAD))
        if normed:
            q, k = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (q, k))
        found = attention(q, k, v, scale=before)
        rows = row_metrics(found.logits)
        return {
            "largest weight": float(np.mean(rows.max_weight)),
            "entropy, share": float(np.mean(rows.entropy_nats) / np.log(TOKENS)),
            "sum of a row": float(np.mean(after * found.weights.sum(axis=1))),
        }

    return case


def _embedding(factor: float) -> Case:
    """Return the size of the sinusoidal position code next to that of an embedding."""

    def case(random: np.random.Generator) -> dict[str, float]:
        embedding = factor * random.standard_normal((TOKENS, D_MODEL)) / D_MODEL**0.5
        angle = np.arange(TOKENS)[:, None] / 10_000 ** (np.arange(0, D_MODEL, 2) / D_MODEL)
        position = np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
        ratio = np.linalg.norm(position, axis=1) / np.linalg.norm(embedding, axis=1)
        return {"position over embedding": float(np.mean(ratio))}

    return case


CASES: Mapping[str, Case] = {
    "2 × 2": _variance(2),
    "64 × 64": _variance(64),
    "variance 1/d_model": _projected(1 / D_MODEL, HEAD**-0.5),
    "PyTorch Linear": _projected(1 / (3 * D_MODEL), HEAD**-0.5),
    "Xavier, q, k and v at once": _projected(2 / (4 * D_MODEL), HEAD**-0.5),
    "Xavier, one head": _projected(2 / (D_MODEL + HEAD), HEAD**-0.5),
    "He": _projected(2 / D_MODEL, HEAD**-0.5),
    "normal, 0.02": _projected(0.02**2, HEAD**-0.5),
    "T5, no division": _projected(1 / D_MODEL, 1.0, 1 / (D_MODEL * HEAD)),
    "mean 1": _shifted(normed=False),
    "mean 1, LayerNorm": _shifted(normed=True),
    "none": _weights(normed=False, before=1.0, after=1.0),
    "before the softmax": _weights(normed=False, before=HEAD**-0.5, after=1.0),
    "after the softmax": _weights(normed=False, before=1.0, after=HEAD**-0.5),
    "QK-norm": _weights(normed=True, before=HEAD**0.5, after=1.0),
    "QK-norm and √d_k": _weights(normed=True, before=1.0, after=1.0),
    "embedding": _embedding(1.0),
    "embedding times √d_model": _embedding(D_MODEL**0.5),
}


def rows(settings: Settings) -> Iterator[tables.Row]:
    """Yield each number of each case, over the first seeds of the run."""
    seeds = settings["seed"][:MAX_SEEDS]
    for case, measure in CASES.items():
        draws = [measure(np.random.default_rng([seed, STREAM])) for seed in seeds]
        for quantity in draws[0]:
            values = np.array([draw[quantity] for draw in draws])
            low, high = intervals.interval(values)
            yield {
                "case": case,
                "quantity": quantity,
                "n_seeds": len(values),
                "mean": float(values.mean()),
                "ci_low": low,
                "ci_high": high,
                "q05": float(np.quantile(values, 0.05)),
                "q95": float(np.quantile(values, 0.95)),
            }
