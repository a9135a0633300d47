"""Independent reference implementations and small helpers for several test files.

Every dimension is a different prime, so that a transposed or mixed-up axis cannot pass.
"""

from collections.abc import Callable

import mpmath
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

BATCH, HEADS, N_Q, N_K, D_K, D_V, D_MODEL = 2, 3, 5, 7, 11, 13, 17
EPS = {np.float32: 2.0**-23, np.float64: 2.0**-52}

# The first call of a NumPy function on a busy machine can take longer than Hypothesis' 200 ms.
property_test = settings(deadline=None, max_examples=50)


def normal(*shape: int, seed: int = 0, dtype: type = np.float64) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def random_mask(*shape: int, seed: int = 0) -> np.ndarray:
    """Return a mask that shows about half of the keys, at least one per query."""
    mask = np.random.default_rng([seed, *shape]).random(shape) < 0.5
    mask[..., 3] = True
    return mask


def mask_with_a_blind_query(*shape: int) -> np.ndarray:
    """Return a mask like `random_mask` in which the second query sees no key."""
    mask = random_mask(*shape)
    mask[..., 1, :] = False
    return mask


def logit_rows(dtype: type = np.float64) -> st.SearchStrategy[np.ndarray]:
    """Generate logits up to 1e4 of 1 to 5 queries and 1 to 7 keys.

    All are multiples of 1/8, so differences and shifts by integers are exact, even in float32.
    """
    shapes = st.tuples(st.integers(1, N_Q), st.integers(1, N_K))
    eighths = st.integers(-80_000, 80_000).map(lambda i: i / 8)
    return shapes.flatmap(lambda shape: arrays(dtype, shape, elements=eighths))


def directional_derivative(
    f: Callable[[np.ndarray], float], x: np.ndarray, direction: np.ndarray
) -> float:
    """Central difference; 1e-5 balances truncation (h²) against rounding (eps/h)."""
    h = 1e-5
    return float((f(x + h * direction) - f(x - h * direction)) / (2 * h))


def assert_is_gradient(
    gradient: np.ndarray, f: Callable[[np.ndarray], float], x: np.ndarray
) -> None:
    """Compare with finite differences of f along random unit directions."""
    assert gradient.shape == x.shape
    for seed in range(5):
        direction = normal(*x.shape, seed=100 + seed)
        direction /= np.linalg.norm(direction)
        expected = directional_derivative(f, x, direction)
        # Truncation h² f''' and rounding eps |L|/h both stay below 1e-9; a slope along a random
        # direction, |gradient|/sqrt(size), is at least 0.1 for the losses in use.
        slope = float(np.vdot(gradient, direction))
        assert abs(slope - expected) < 1e-9 * (1 + np.linalg.norm(gradient))


def exact_weights(row: np.ndarray) -> list[mpmath.mpf]:
    """Compute the softmax of one row at the working precision of mpmath."""
    e = [mpmath.exp(mpmath.mpf(float(logit))) for logit in row]
    total = mpmath.fsum(e)
    return [x / total for x in e]


def digits_for(row: np.ndarray) -> int:
    """Return enough digits to compute 1 - max p and its square literally, with 40 to spare."""
    return 40 + int(2 * np.ptp(row.astype(np.float64)) / np.log(10))


def exact_row_metrics(row: np.ndarray) -> dict[str, mpmath.mpf]:
    """Compute `RowMetrics` literally from the definitions, with enough digits for cancellation."""
    with mpmath.workdps(digits_for(row)):
        p = exact_weights(row)
        entropy = -mpmath.fsum(x * mpmath.log(x) for x in p)
        jacobian = [(x if i == j else 0) - x * y for i, x in enumerate(p) for j, y in enumerate(p)]
        return {
            "entropy_nats": entropy,
            "entropy_normalized": entropy / mpmath.log(len(p)),
            "effective_keys": mpmath.exp(entropy),
            "sum_sq_weights": mpmath.fsum(x**2 for x in p),
            "max_weight": max(p),
            "max_weight_gap": 1 - max(p),
            "jacobian_norm": mpmath.sqrt(mpmath.fsum(x**2 for x in jacobian)),
        }
