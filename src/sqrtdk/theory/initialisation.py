"""Compute the exact spread of the logits of a layer of self-attention that is not yet trained.

Queries are x W_q + b_q and keys x W_k + b_k for the same tokens x [n, d_model]; all entries of the
projections and biases are independent with mean 0, whatever their laws. Given the tokens, a query
q_i and the difference of a key from the mean key are independent up to the tokens, so that

    E (q_i (k_j - k̄))² = d_k (v_q |x_i|² + v_b) v_k |x_j - x̄|²

with the variances v_q and v_k of the entries of W_q and W_k and v_b of b_q (b_k shifts all logits
of a query alike). The mean over queries of the variance across keys is therefore
d_k v_k mean_i(v_q |x_i|² + v_b) T with T = Σ_j |x_j - x̄|²/(n - 1), and only the tokens' lengths and
cosines are left to average over.
"""

import math

import scipy  # its modules load at first use, because the start of a run needs none of them


def mean_correlation(correlation: float, count: int) -> float:
    """Return the expected sample correlation of `count` pairs from a bivariate normal law.

    Hotelling 1953. It is nearer to 0 than `correlation` by about ρ (1 - ρ²)/(2 count).

    >>> mean_correlation(1.0, 7), mean_correlation(0.0, 7)
    (1.0, 0.0)
    """
    nu = count - 1
    if abs(correlation) == 1 or correlation == 0:
        return correlation
    ratio = math.exp(2 * (math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2)))
    series = float(scipy.special.hyp2f1(0.5, 0.5, (nu + 2) / 2, correlation**2))
    return 2 * correlation / nu * ratio * series


def logit_sd(
    d_model: int,
    d_k: int,
    n_k: int,
    *,
    q_variance: float,
    k_variance: float,
    bias_variance: float,
    scale: float,
    is_normalized: bool,
    embedding_sd: float,
    correlation: float,
) -> float:
    """Return the root of the mean square of the logits' standard deviation across n_k keys.

    The entries of a token are normal with mean 0 and standard deviation `embedding_sd`, those of
    two tokens have this `correlation`. With LayerNorm (`is_normalized`, without epsilon) |x_i|² is
    d_model and T is d_model (1 - r), r the `mean_correlation` of d_model entries. Without it
    |x_i|² and T are sums of chi-squares, and E mean_i |x_i|² T = τ⁴ (1 - ρ) d_model
    (d_model + 2 (1 - ρ)/n_k), with the variance τ² and the correlation ρ. Raises ValueError for
    fewer than two keys and a correlation outside of 0 to 1.

    >>> sizes = {"q_variance": 1 / 512, "k_variance": 1 / 512, "bias_variance": 0}
    >>> tokens = {"is_normalized": True, "embedding_sd": 0.02, "correlation": 0}
    >>> round(logit_sd(512, 64, 16, scale=0.125, **sizes, **tokens), 12)
    1.0
    """
    if n_k < 2:
        raise ValueError(f"a spread across keys needs n_k >= 2, got {n_k}")
    if not 0 <= correlation <= 1:
        raise ValueError(f"correlation must be between 0 and 1, got {correlation}")
    apart = 1 - correlation
    if is_normalized:
        # One entry has no spread to divide by.
        spread = d_model * (1 - mean_correlation(correlation, d_model)) if d_model > 1 else 0.0
        length_spread = d_model * spread
    else:
        spread = embedding_sd**2 * d_model * apart
        length_spread = embedding_sd**4 * d_model * apart * (d_model + 2 * apart / n_k)
    square = d_k * k_variance * (q_variance * length_spread + bias_variance * spread)
    return scale * math.sqrt(square)
