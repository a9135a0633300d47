"""Compute sigma.csv: σ of a fresh layer's logits, measured and exact, and the entropy it leaves."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.core import scale_rules
from sqrtdk.experiments.initialisation.measure import CONFIG_KEYS, Settings
from sqrtdk.experiments.initialisation.model import spread
from sqrtdk.schema import Column
from sqrtdk.stats.intervals import Estimate, MissingError, paired_ratio, statistics
from sqrtdk.stats.series import scaled_rule, unscaled_rule
from sqrtdk.storage import tables
from sqrtdk.theory.fixed_sigma import weight_means
from sqrtdk.theory.initialisation import logit_sd

AXES = tuple(key for key in CONFIG_KEYS if key is not schema.SEED)

OWN = {"t5": "unscaled"}
"""The scale that an initialisation is made for, where it is not 1/√d_k."""

COLUMNS = (
    *(schema.axis_column(key) for key in AXES),
    Column("own_scale", "1 if the initialisation is made for this scale rule, else 0.", read=int),
    Column("n_seeds", "Number of seeds: the sample size.", "seeds", read=int),
    Column("mean", "Measured σ: quadratic mean over seeds of logit_std."),
    Column("ci_low", "Lower end of its 95 % interval. Empty for one seed.", optional=True),
    Column("ci_high", "Upper end.", optional=True),
    Column(
        "exact", "σ of theory.initialisation: the root of the expected square. Empty for one key.",
        optional=True,
    ),
    Column("z", "Deviation of the mean square in standard errors.", optional=True),
    Column(
        "size_ratio",
        "σ over σ at the smallest embedding_sd, from the same draws. Empty if that is 0.",
        optional=True,
    ),
    Column("size_low", "Lower end of its 95 % interval.", optional=True),
    Column("size_high", "Upper end.", optional=True),
    Column("entropy", "Measured entropy over ln n_k, mean over seeds.", optional=True),
    Column("entropy_low", "Lower end of its 95 % interval. Empty for one seed.", optional=True),
    Column("entropy_high", "Upper end.", optional=True),
    Column(
        "entropy_unrelated",
        "Exact entropy over ln n_k of n_k independent normal logits of the exact σ.",
        optional=True,
    ),
)  # fmt: skip


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of sigma.csv for a run's runs.csv."""
    names = [key.name for key in AXES]
    rules = settings["scaling"]
    own = {"scaled": scaled_rule(rules), "unscaled": unscaled_rule(rules)}
    smallest: dict[tuple[Any, ...], np.ndarray] = {}
    for values, cells in runs.sort_values("seed", kind="stable").groupby(names, sort=True):
        at: dict[str, Any] = dict(zip(names, values, strict=True))
        n_k = int(at["n_k"])
        exact = _exact(at, rules[at["scaling"]]) if n_k > 1 else np.nan
        stds = cells["logit_std"].to_numpy(float)
        sigma = statistics(stds, pool="rms", exact=exact)
        entropies = cells["entropy_normalized"].dropna().to_numpy(float)
        entropy = statistics(entropies) if len(entropies) else {}
        # Groups come in rising order of the axes, so that the smallest embeddings are the first.
        other = tuple(value for name, value in at.items() if name != "embedding_sd")
        ratio = _ratio(stds, smallest.setdefault(other, stds))
        yield at | {
            "own_scale": int(at["scaling"] == own[OWN.get(at["init"], "scaled")]),
            **{
                name: sigma[name] for name in ("n_seeds", "mean", "ci_low", "ci_high", "exact", "z")
            },
            **{f"size_{end}": x for end, x in zip(("ratio", "low", "high"), ratio, strict=False)},
            "entropy": entropy.get("mean", np.nan),
            "entropy_low": entropy.get("ci_low", np.nan),
            "entropy_high": entropy.get("ci_high", np.nan),
            "entropy_unrelated": _unrelated(round(exact, 12), n_k) if n_k > 1 else np.nan,
        }


@cache
def _unrelated(sigma: float, n_k: int) -> float:
    """Return the entropy over ln n_k; many rows have the same σ."""
    entropy = weight_means(np.array([sigma]), n_k)[0, 1]
    return float(entropy / np.log(n_k))


def _ratio(over: np.ndarray, under: np.ndarray) -> Estimate:
    try:
        return paired_ratio(over, under, pool="rms")
    except MissingError:
        return Estimate(np.nan)


def _exact(at: dict[str, Any], rule: schema.Entry) -> float:
    sizes = {name: int(at[name]) for name in ("d_model", "d_k", "n_k")}
    factor = scale_rules.factor(rule, d_k=sizes["d_k"], n_k=sizes["n_k"])
    assert factor is not None  # an experiment of plain factors
    sds = spread(at["init"], sizes["d_model"], sizes["d_k"])
    return logit_sd(
        **sizes,
        q_variance=sds.q_sd**2,
        k_variance=sds.k_sd**2,
        bias_variance=sds.bias_sd**2,
        scale=factor,
        is_normalized=at["norm"] == "layer_norm",
        embedding_sd=float(at["embedding_sd"]),
        correlation=int(at["cosine_percent"]) / 100,
    )
