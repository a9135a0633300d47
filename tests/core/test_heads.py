"""Statistics of heads, against the definitions, loops over rows, and closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqrtdk.core import heads
from sqrtdk.core.attention import attention
from sqrtdk.core.metrics import logit_std, row_metrics

N_Q, N_K, D, D_V = 11, 7, 5, 3


def draw(seed: int = 0, n_q: int = N_Q, n_k: int = N_K) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    return tuple(random.standard_normal(shape) for shape in ((n_q, D), (n_k, D), (n_k, D_V)))


def seen_by(visibility: heads.Visibility) -> np.ndarray:
    found = visibility.rows(slice(0, visibility.n_q))
    return np.ones((visibility.n_q, visibility.n_k), bool) if found is None else found


VISIBILITIES = {
    "all": heads.Visibility(N_Q, N_K),
    "causal": heads.Visibility(N_Q, N_K, is_causal=True),
    "window": heads.Visibility(N_Q, N_K, window=(2, 3)),
    "causal window": heads.Visibility(N_Q, N_K, is_causal=True, window=(1, 0)),
    "mask": heads.Visibility(N_Q, N_K, mask=np.random.default_rng(5).random((N_Q, N_K)) < 0.6),
    "one mask for all": heads.Visibility(N_Q, N_K, mask=np.arange(N_K)[None] < 5),
}


@pytest.mark.parametrize("name", VISIBILITIES)
@pytest.mark.parametrize("block", [1, 3 * N_K, 10**6])
def test_a_head_has_the_averages_of_the_definitions(
    name: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "BLOCK_ENTRIES", block)
    q, k, v = draw()
    visibility = VISIBILITIES[name]
    seen = seen_by(visibility)
    found, counts = heads.statistics(q, k, v, scale=0.7, visibility=visibility)
    logits, _, weights, output = (
        attention(q, k, v, scale=0.7, mask=seen)._replace(scores=None)[i] for i in (1, 0, 2, 3)
    )
    kept = np.count_nonzero(seen, axis=-1) >= 2
    rows = row_metrics(logits[kept])
    # The same formulas in another order of the sums.
    same = {"rel": 1e-13}
    for field in ("entropy_nats", "entropy_normalized", "effective_keys", "sum_sq_weights"):
        assert getattr(found, field) == pytest.approx(np.mean(getattr(rows, field)), **same)
    assert found.max_weight == pytest.approx(np.mean(np.max(weights[kept], axis=-1)), **same)
    assert found.jacobian_norm == pytest.approx(np.sqrt(np.mean(rows.jacobian_norm**2)), **same)
    assert found.logit_std == pytest.approx(float(logit_std(logits)), **same)
    assert found.output_rms == pytest.approx(np.sqrt(np.mean(output[kept] ** 2)), **same)
    assert found.max_logit == pytest.approx(np.max(logits), **same)
    assert found.min_logit == pytest.approx(np.min(np.where(seen, logits, np.inf)), **same)
    assert (found.max_query, found.max_key) == np.unravel_index(np.argmax(logits), logits.shape)
    assert found.rows == len(counts) == np.count_nonzero(kept)
    assert found.hidden_rows == np.count_nonzero(~seen.any(axis=-1))
    assert found.visible_keys == pytest.approx(np.mean(np.count_nonzero(seen, axis=-1)[kept]))


@pytest.mark.parametrize("name", VISIBILITIES)
def test_the_spread_is_exactly_norms_times_alignment(name: str) -> None:
    q, k, _ = draw(1)
    visibility = VISIBILITIES[name]
    found, _ = heads.statistics(q, k, scale=0.4, visibility=visibility)
    product = found.norms_std * found.alignment * found.cap_factor
    assert product == pytest.approx(found.logit_std, rel=1e-13)
    # By an explicit covariance for each row.
    squares = []
    for query, seen in zip(q, seen_by(visibility), strict=True):
        if np.count_nonzero(seen) > 1:
            covariance = np.cov(k[seen].T)
            squares.append(0.16 * (query @ query) * np.trace(covariance) / D)
    assert found.norms_std == pytest.approx(math.sqrt(np.mean(squares)), rel=1e-12)


def test_longer_vectors_change_the_norms_and_turned_ones_the_alignment() -> None:
    q, k, _ = draw(2, 40, 30)
    every = heads.Visibility(40, 30)
    plain, _ = heads.statistics(q, k, scale=1.0, visibility=every)
    longer, _ = heads.statistics(3 * q, k, scale=1.0, visibility=every)
    assert longer.norms_std == pytest.approx(3 * plain.norms_std)
    assert longer.alignment == pytest.approx(plain.alignment)
    # All queries along the direction in which the keys vary most.
    _, axes = np.linalg.eigh(np.cov(k.T))
    turned = np.linalg.norm(q, axis=-1, keepdims=True) * axes[:, -1]
    along, _ = heads.statistics(turned, k, scale=1.0, visibility=every)
    assert along.norms_std == pytest.approx(plain.norms_std)
    largest = np.linalg.eigvalsh(np.cov(k.T))[-1]
    exact = math.sqrt(D * largest / np.trace(np.cov(k.T)))
    assert along.alignment == pytest.approx(exact, rel=1e-12)


def test_a_common_shift_of_all_keys_changes_no_spread() -> None:
    q, k, _ = draw(3)
    every = heads.Visibility(N_Q, N_K, is_causal=True)
    near, _ = heads.statistics(q, k, scale=1.0, visibility=every)
    far, _ = heads.statistics(q, k + 1e6, scale=1.0, visibility=every)
    # The scores have 1e6 times the rounding; the shift itself must not count.
    assert far.logit_std == pytest.approx(near.logit_std, rel=1e-8)
    assert far.norms_std == pytest.approx(near.norms_std, rel=1e-8)


@settings(max_examples=40, deadline=None)
@given(
    junk=st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324]),
    key=st.integers(0, N_K - 1),
    in_values=st.booleans(),
)
def test_what_is_hidden_has_no_influence(junk: float, key: int, in_values: bool) -> None:
    q, k, v = draw(4)
    mask = np.ones((N_Q, N_K), bool)
    mask[:, key] = False
    visibility = heads.Visibility(N_Q, N_K, mask=mask)
    plain, _ = heads.statistics(q, k, v, scale=1.0, visibility=visibility)
    (v if in_values else k)[key] = junk
    found, _ = heads.statistics(q, k, v, scale=1.0, visibility=visibility)
    # The hidden key is one of those whose median is taken out of all.
    assert tuple(found) == pytest.approx(tuple(plain), rel=1e-12, nan_ok=True)


def test_a_broken_key_that_one_row_sees_is_not_covered_up() -> None:
    q, k, _ = draw(6)
    k[-1] = math.nan
    found, _ = heads.statistics(
        q, k, scale=1.0, visibility=heads.Visibility(N_Q, N_K, is_causal=True)
    )
    assert math.isnan(found.max_logit)
    assert math.isnan(found.entropy_nats)


def test_a_cap_narrows_the_spread_and_is_told_apart() -> None:
    q, k, _ = draw(7)
    every = heads.Visibility(N_Q, N_K)
    plain, _ = heads.statistics(q, k, scale=2.0, visibility=every)
    capped, _ = heads.statistics(q, k, scale=2.0, visibility=every, softcap=1.5)
    assert capped.alignment == pytest.approx(plain.alignment)
    assert capped.cap_factor < 1
    assert capped.max_logit == pytest.approx(1.5 * math.tanh(plain.max_logit / 1.5))
    assert plain.cap_factor == 1


def test_a_sink_is_one_more_key() -> None:
    q, k, v = draw(8)
    found, _ = heads.statistics(q, k, v, scale=1.0, visibility=heads.Visibility(N_Q, N_K), sink=0.5)
    logits = np.concatenate([q @ k.T, np.full((N_Q, 1), 0.5)], axis=-1)
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert found.sink_weight == pytest.approx(weights[:, -1].mean())
    entropy = -(weights * np.log(weights)).sum(-1)
    assert found.entropy_nats == pytest.approx(entropy.mean())
    assert found.output_rms == pytest.approx(np.sqrt(np.mean((weights[:, :-1] @ v) ** 2)))
    assert found.max_logit == pytest.approx((q @ k.T).max())


def test_without_a_row_that_counts_everything_is_undefined() -> None:
    q, k, v = draw(9)
    nothing = heads.Visibility(N_Q, N_K, mask=np.zeros((1, N_K), bool))
    found, counts = heads.statistics(q, k, v, scale=1.0, visibility=nothing)
    assert found.rows == len(counts) == 0
    assert found.hidden_rows == N_Q
    assert math.isnan(found.entropy_nats)
    assert math.isnan(found.max_logit)
    assert math.isnan(found.logit_std)
