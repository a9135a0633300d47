"""Trained associative retrieval: gradients, the QK product, optimizers and equivalent runs."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from oracles import D_K, D_MODEL, D_V, N_K, N_Q, assert_is_gradient, normal

from sqrtdk.core.attention import attention, project
from sqrtdk.core.gradients import gradients, projection_gradients
from sqrtdk.experiments.training import equivalence, lookup, loop
from sqrtdk.experiments.training.lookup import (
    LOSSES,
    AdamOptimizer,
    Batch,
    Loss,
    Optimizer,
    SgdOptimizer,
)
from sqrtdk.experiments.training.loop import LogPoint

STEPS = 30


def batches(count: int, *, n_q: int = N_Q, seed: int = 0) -> Batch:
    rng = np.random.default_rng([seed, count, n_q])
    return lookup.make_batch(
        rng.standard_normal((count, N_K, D_MODEL)),
        rng.standard_normal((count, N_K, D_V)),
        rng.standard_normal((count, n_q, D_MODEL)),
        rng.integers(0, N_K, (count, n_q)),
        noise_sd=0.5,
    )


def projections(d_k: int = D_K, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    w_q, w_k = normal(2, D_MODEL, d_k, seed=seed) * D_MODEL**-0.5
    return w_q, w_k


def factor(value: float, count: int = 1) -> np.ndarray:
    return np.full((count, 1, 1), value)


def explicit_loss(
    batch: Batch, w_q: np.ndarray, w_k: np.ndarray, *, scale: float, loss: Loss
) -> float:
    """The loss by the chapter's own formulas, row by row."""
    found = attention(
        project(batch.queries, w_q), project(batch.items, w_k), batch.values, scale=scale
    )
    rows = range(len(batch.targets))
    if loss == "weights":
        at = [found.logits[i, batch.targets[i]] for i in rows]
        return float(np.mean(np.logaddexp.reduce(found.logits, axis=1) - at))
    apart = [found.output[i] - batch.values[batch.targets[i]] for i in rows]
    return float(np.mean([x @ x for x in apart])) / 2


def explicit_gradients(
    batch: Batch, w_q: np.ndarray, w_k: np.ndarray, *, scale: float, loss: Loss
) -> tuple[np.ndarray, np.ndarray]:
    """dL/dW_q and dL/dW_k through q and k, by the modules that the other experiments use."""
    q, k = project(batch.queries, w_q), project(batch.items, w_k)
    forward = attention(q, k, batch.values, scale=scale)
    n_q = len(batch.targets)
    if loss == "values":
        d_output = (forward.output - batch.values[batch.targets]) / n_q
        found = gradients(q, k, batch.values, d_output, forward, scale=scale)
        d_q, d_k = found.q, found.k
    else:
        d_scores = scale * (forward.weights - np.eye(N_K)[batch.targets]) / n_q
        d_q, d_k = d_scores @ k, d_scores.T @ q
    return (
        projection_gradients(batch.queries, w_q, d_q).w,
        projection_gradients(batch.items, w_k, d_k).w,
    )


def test_an_exact_query_is_answered_with_its_value_by_sharp_weights() -> None:
    items, values = np.eye(2), np.array([[1.0], [3.0]])
    batch = lookup.make_batch(items, values, np.ones((1, 2)), np.array([1]), noise_sd=0.0)
    assert batch.queries.tolist() == [[0.0, math.sqrt(2)]]
    logits = lookup.scores(batch, np.eye(2))
    np.testing.assert_allclose(logits, [[0.0, 2.0]], rtol=1e-15)
    weight = math.exp(2) / (1 + math.exp(2))
    # Output 1 + 2 w against 3: half of (2 - 2 w)².
    assert lookup.loss_of(logits, batch, "values") == pytest.approx(2 * (1 - weight) ** 2)
    assert lookup.loss_of(logits, batch, "weights") == pytest.approx(-math.log(weight))


@pytest.mark.parametrize("loss", LOSSES)
def test_loss_and_gradients_are_those_of_the_explicit_route(loss: Loss) -> None:
    batch, (w_q, w_k), scale = batches(1).at(0), projections(), 0.7
    logits = scale * lookup.scores(batch, w_q @ w_k.T)
    expected = explicit_loss(batch, w_q, w_k, scale=scale, loss=loss)
    # Sums of some hundred products of numbers of size 1, in another order: a few hundred roundings.
    assert lookup.loss_of(logits, batch, loss) == pytest.approx(expected, rel=1e-13)
    d_product = lookup.loss_d_product(batch, w_q @ w_k.T, scale=factor(scale), loss=loss)[0]
    by_q, by_k = explicit_gradients(batch, w_q, w_k, scale=scale, loss=loss)
    np.testing.assert_allclose(d_product @ w_k, by_q, rtol=0, atol=1e-13 * np.abs(by_q).max())
    np.testing.assert_allclose(d_product.T @ w_q, by_k, rtol=0, atol=1e-13 * np.abs(by_k).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_explicit_gradients_are_finite_differences(loss: Loss) -> None:
    batch, (w_q, w_k), scale = batches(1).at(0), projections(), 0.7
    by_q, by_k = explicit_gradients(batch, w_q, w_k, scale=scale, loss=loss)
    assert_is_gradient(by_q, lambda w: explicit_loss(batch, w, w_k, scale=scale, loss=loss), w_q)
    assert_is_gradient(by_k, lambda w: explicit_loss(batch, w_q, w, scale=scale, loss=loss), w_k)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_those_of_autograd(loss: Loss) -> None:
    torch = pytest.importorskip("torch", reason="the optional extra `oracle` is not installed")
    batch, scale = batches(1).at(0), 0.7
    w_q, w_k = (torch.tensor(w, requires_grad=True) for w in projections())
    items, values, queries, targets = (torch.tensor(x) for x in batch)
    logits = scale * (queries @ w_q) @ (items @ w_k).T
    if loss == "values":
        error = torch.softmax(logits, -1) @ values - values[targets]
        found = (error**2).sum(-1).mean() / 2
    else:
        found = torch.nn.functional.cross_entropy(logits, targets)
    found.backward()
    expected = explicit_gradients(
        batch, w_q.detach().numpy(), w_k.detach().numpy(), scale=scale, loss=loss
    )
    for mine, theirs in zip(expected, (w_q.grad, w_k.grad), strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=0, atol=1e-13)


# Optimizers

Step = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


def explicit_run(
    w_q: np.ndarray, w_k: np.ndarray, *, scale: float, loss: Loss, steps: list[Step]
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Train the projections themselves; each of the two steps maps (w, gradient, t) to the new w.

    Also the losses of the batches before each step.
    """
    losses = []
    data = batches(STEPS)
    for t in range(STEPS):
        batch = data.at(t)
        losses.append(explicit_loss(batch, w_q, w_k, scale=scale, loss=loss))
        by_q, by_k = explicit_gradients(batch, w_q, w_k, scale=scale, loss=loss)
        w_q, w_k = steps[0](w_q, by_q, t + 1), steps[1](w_k, by_k, t + 1)
    return w_q, w_k, losses


def descent(rate: float) -> Step:
    return lambda w, gradient, t: w - rate * gradient


class PaperAdam:
    """Algorithm 1 of Kingma and Ba, line by line."""

    def __init__(self, rate: float, epsilon: float = 1e-8) -> None:
        self.rate, self.epsilon, self.m, self.v = rate, epsilon, 0.0, 0.0

    def __call__(self, w: np.ndarray, gradient: np.ndarray, t: int) -> np.ndarray:
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        m_hat, v_hat = self.m / (1 - 0.9**t), self.v / (1 - 0.999**t)
        return w - self.rate * m_hat / (np.sqrt(v_hat) + self.epsilon)


def fast_run(optimizer: Optimizer, *, scale: float | np.ndarray, loss: Loss) -> Optimizer:
    data = batches(STEPS)
    scales = scale if isinstance(scale, np.ndarray) else factor(scale)
    for t in range(STEPS):
        d_product = lookup.loss_d_product(data.at(t), optimizer.product, scale=scales, loss=loss)
        optimizer.step(d_product)
    return optimizer


@pytest.mark.parametrize("loss", LOSSES)
def test_descent_by_products_is_descent_on_the_projections(loss: Loss) -> None:
    w_q, w_k = projections()
    rate, scale = 0.05, 0.5
    fast = fast_run(SgdOptimizer(w_q, w_k, rate=factor(rate)), scale=scale, loss=loss)
    assert isinstance(fast, SgdOptimizer)
    new_q, new_k, _ = explicit_run(
        w_q, w_k, scale=scale, loss=loss, steps=[descent(rate), descent(rate)]
    )
    # 30 steps, each a contraction or nearly so, of about a hundred roundings of 1e-16.
    for mine, expected in (
        (fast.product, new_q @ new_k.T), (fast.of_q, new_q @ new_q.T), (fast.of_k, new_k @ new_k.T)
    ):  # fmt: skip
        np.testing.assert_allclose(mine[0], expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    # The run went somewhere, so that standing still would not pass.
    assert np.abs(new_q @ new_k.T - w_q @ w_k.T).max() > 0.1


@pytest.mark.parametrize("loss", LOSSES)
def test_adam_is_the_papers_algorithm(loss: Loss) -> None:
    w_q, w_k = projections()
    rate, scale = 0.01, 0.5
    fast = fast_run(AdamOptimizer(w_q, w_k, rate=factor(rate)), scale=scale, loss=loss)
    assert isinstance(fast, AdamOptimizer)
    new_q, new_k, _ = explicit_run(
        w_q, w_k, scale=scale, loss=loss, steps=[PaperAdam(rate), PaperAdam(rate)]
    )
    # Adam divides by the size of a gradient's entry: a rounding of 1e-16 of a sum of 1 is 1e-10 of
    # an entry of 1e-6, and no entry here is smaller.
    np.testing.assert_allclose(fast.w_q[0], new_q, rtol=0, atol=1e-10)
    np.testing.assert_allclose(fast.w_k[0], new_k, rtol=0, atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_norms_are_those_of_the_explicit_gradients(loss: Loss) -> None:
    batch, (w_q, w_k) = batches(1).at(0), projections()
    d_product = lookup.loss_d_product(batch, w_q @ w_k.T, scale=factor(0.7), loss=loss)
    expected = [
        np.linalg.norm(x) for x in explicit_gradients(batch, w_q, w_k, scale=0.7, loss=loss)
    ]
    for optimizer in (
        SgdOptimizer(w_q, w_k, rate=factor(0.1)),
        AdamOptimizer(w_q, w_k, rate=factor(0.1)),
    ):
        np.testing.assert_allclose(np.ravel(optimizer.norms(d_product)), expected, rtol=1e-12)


# The same run without scaling


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("d_k", [11, 64, 1024])
def test_descent_without_a_scale_from_smaller_weights_is_the_same_run(d_k: int, loss: Loss) -> None:
    w_q, w_k = projections(d_k)
    rate, scale, root = 0.05, d_k**-0.5, d_k**-0.25
    one = explicit_run(w_q, w_k, scale=scale, loss=loss, steps=[descent(rate)] * 2)
    slow = descent(rate * d_k**-0.5)
    other = explicit_run(root * w_q, root * w_k, scale=1.0, loss=loss, steps=[slow] * 2)
    np.testing.assert_allclose(other[2], one[2], rtol=1e-12)
    np.testing.assert_allclose(other[0], root * one[0], rtol=0, atol=1e-12)
    # At the rate that was not rescaled it is another run.
    wrong = explicit_run(root * w_q, root * w_k, scale=1.0, loss=loss, steps=[descent(rate)] * 2)
    assert max(abs(a - b) for a, b in zip(wrong[2], one[2], strict=True)) > 1e-2


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_twins_are_the_same_run(optimizer: str, loss: Loss) -> None:
    # At d_k = 256 the fourth root is 4, and a factor of two rounds nothing.
    w_q, w_k = projections(256)
    rate, scale = 0.02, 256**-0.5
    made: dict[str, type[SgdOptimizer] | type[AdamOptimizer]] = {
        "sgd": SgdOptimizer,
        "adam": AdamOptimizer,
    }
    one = fast_run(made[optimizer](w_q, w_k, rate=factor(rate)), scale=scale, loss=loss)
    pair = equivalence.pair_optimizer(w_q, w_k, rate=rate, factor=scale, optimizer=optimizer)
    both = fast_run(pair, scale=np.array([scale, 1.0])[:, None, None], loss=loss)
    np.testing.assert_array_equal(both.product[0], one.product[0])
    np.testing.assert_array_equal(both.product[1] * 16, one.product[0])


def test_the_twin_of_adam_needs_its_own_rate() -> None:
    w_q, w_k = projections(256)
    one = fast_run(AdamOptimizer(w_q, w_k, rate=factor(0.02)), scale=256**-0.5, loss="values")
    same_rate = AdamOptimizer(w_q / 4, w_k / 4, rate=factor(0.02), epsilon=1e-8 * 4)
    other = fast_run(same_rate, scale=1.0, loss="values")
    assert np.abs(other.product * 16 - one.product).max() > 0.1


# Training


def trained(
    cls: type[SgdOptimizer] | type[AdamOptimizer],
    rates: list[float],
    scales: list[float],
    loss: Loss = "values",
) -> list[LogPoint]:
    w_q, w_k = projections()
    with np.errstate(over="ignore", invalid="ignore"):
        return loop.train(
            cls(w_q, w_k, rate=np.array(rates)[:, None, None]),
            batches(STEPS + 1),
            batches(3, n_q=19),
            scale=np.array(scales)[:, None, None],
            loss=loss,
            logged=[0, 7, STEPS],
            level=0.5,
        )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("cls", [SgdOptimizer, AdamOptimizer])
def test_no_bit_of_a_run_depends_on_its_neighbours(
    cls: type[SgdOptimizer] | type[AdamOptimizer], loss: Loss
) -> None:
    rates, scales = [1e-3, 0.1, 30.0, 0.01, 1e300], [1.0, 0.3, 1.0, 0.1, 1.0]
    together = trained(cls, rates, scales, loss)
    for place in range(len(rates)):
        alone = trained(cls, rates[place : place + 1], scales[place : place + 1], loss)
        for mine, theirs in zip(together, alone, strict=True):
            for name in LogPoint._fields[1:]:
                np.testing.assert_array_equal(
                    getattr(mine, name)[place], getattr(theirs, name)[0], err_msg=name
                )


def test_a_run_that_diverges_says_so_and_has_no_numbers() -> None:
    first, middle, last = trained(SgdOptimizer, [0.05, 1e200], [0.3, 1.0], "weights")
    assert first.diverged.tolist() == [0, 0]
    assert middle.diverged.tolist() == last.diverged.tolist() == [0, 1]
    for name in ("loss", "accuracy", "entropy_nats", "max_weight", "grad_w_q_norm"):
        assert np.isfinite(getattr(last, name)[0])
        assert np.isnan(getattr(last, name)[1])


def start(size: float, scale: float) -> LogPoint:
    """Return the measurements for projections of a size, before any step."""
    w_q, w_k = (size * w for w in projections())
    with np.errstate(over="ignore", invalid="ignore"):
        (point,) = loop.train(
            SgdOptimizer(w_q, w_k, rate=factor(0.1)), batches(1), batches(3, n_q=19),
            scale=factor(scale), loss="weights", logged=[0], level=0.5,
        )  # fmt: skip
    return point


MEASURED = ("loss", "accuracy", "entropy_nats", "max_weight", "grad_w_q_norm", "grad_w_k_norm")


def test_scores_that_overflow_have_diverged_though_the_cross_matrix_is_finite() -> None:
    w_q, w_k = projections()
    assert np.isfinite(5e153 * w_q @ (5e153 * w_k).T).all()
    point = start(5e153, 1e-300)
    assert point.diverged == 1
    assert np.isnan([getattr(point, name) for name in MEASURED]).all()


def test_what_a_scale_takes_beyond_the_largest_float_is_empty_and_no_divergence() -> None:
    point = start(1e100, 1e150)
    assert point.diverged == 0
    assert point.accuracy == start(1.0, 1.0).accuracy
    for name in ("loss", "entropy_nats", "max_weight"):
        assert np.isnan(getattr(point, name)), name


def test_the_step_of_the_level_is_the_first_and_stays() -> None:
    w_q, w_k = projections()
    at_each = loop.train(
        SgdOptimizer(w_q, w_k, rate=factor(0.1)), batches(STEPS + 1), batches(3, n_q=19),
        scale=factor(0.3), loss="weights", logged=range(STEPS + 1), level=0.5,
    )  # fmt: skip
    accuracy = np.array([point.accuracy[0] for point in at_each])
    first = int(np.argmax(accuracy >= 0.5))
    assert 0 < first < STEPS
    found = np.array([point.steps_to_level[0] for point in at_each])
    assert np.isnan(found[:first]).all()
    assert (found[first:] == first).all()


@pytest.mark.parametrize("libraries", [1, 3, 16])
def test_a_run_is_at_the_level_at_the_same_step_with_rows_and_without(libraries: int) -> None:
    # Without a row, a run that answers the first libraries wrongly is not asked the others.
    w_q, w_k = projections()
    rates = np.array([0.02, 0.1, 0.3, 1e300])[:, None, None]
    found = []
    for logged in (range(STEPS + 1), [0, STEPS]):
        with np.errstate(over="ignore", invalid="ignore"):
            *_, last = loop.train(
                SgdOptimizer(w_q, w_k, rate=rates), batches(STEPS + 1),
                batches(libraries, n_q=19), scale=np.full((4, 1, 1), 0.3), loss="weights",
                logged=logged, level=0.45,
            )  # fmt: skip
        found.append(last.steps_to_level)
    np.testing.assert_array_equal(*found)
    assert len(set(found[0][:3])) == 3
    assert np.isnan(found[0][3])


def test_held_out_numbers_are_means_over_its_queries() -> None:
    (first, *_) = trained(AdamOptimizer, [0.01], [0.3])
    w_q, w_k = projections()
    held_out = batches(3, n_q=19)
    losses, hits, top = [], [], []
    for i in range(3):
        batch = held_out.at(i)
        losses.append(explicit_loss(batch, w_q, w_k, scale=0.3, loss="values"))
        q, k = project(batch.queries, w_q), project(batch.items, w_k)
        weights = attention(q, k, batch.values, scale=0.3).weights
        hits += (weights.argmax(axis=1) == batch.targets).tolist()
        top += weights.max(axis=1).tolist()
    assert first.loss[0] == pytest.approx(np.mean(losses), rel=1e-12)
    assert first.accuracy[0] == pytest.approx(np.mean(hits), rel=1e-15)
    assert first.max_weight[0] == pytest.approx(np.mean(top), rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_runs_with_data_of_their_own_are_those_of_runs_alone(loss: Loss) -> None:
    starts = [projections(seed=seed) for seed in range(2)]
    data = [batches(STEPS + 1, seed=seed) for seed in range(2)]
    asked = [batches(3, n_q=19, seed=seed) for seed in range(2)]

    def trained_on(runs: list[int]) -> list[LogPoint]:
        w_q, w_k = (np.stack([starts[run][which] for run in runs]) for which in range(2))
        return loop.train(
            AdamOptimizer(w_q, w_k, rate=np.full((len(runs), 1, 1), 0.02)),
            lookup.stack([data[run] for run in runs], axis=1),
            lookup.stack([asked[run] for run in runs], axis=0),
            scale=factor(0.3, len(runs)), loss=loss, logged=[0, 7, STEPS], level=0.4,
        )  # fmt: skip

    both = trained_on([0, 1])
    for run in range(2):
        for mine, theirs in zip(both, trained_on([run]), strict=True):
            for name in LogPoint._fields[1:]:
                np.testing.assert_array_equal(getattr(mine, name)[run], getattr(theirs, name)[0])
    # A run alone shares its data with nobody: the usual case.
    w_q, w_k = starts[1]
    usual = loop.train(
        AdamOptimizer(w_q, w_k, rate=factor(0.02)), data[1], asked[1],
        scale=factor(0.3), loss=loss, logged=[0, 7, STEPS], level=0.4,
    )  # fmt: skip
    for mine, theirs in zip(both, usual, strict=True):
        assert mine.loss[1] == pytest.approx(theirs.loss[0], rel=1e-12)
        assert mine.steps_to_level[1] == theirs.steps_to_level[0] or np.isnan(theirs.steps_to_level)
    assert not np.isnan(both[-1].steps_to_level).any()


# Signal and noise


def test_signal_is_the_mean_product_of_different_batches() -> None:
    data, (w_q, w_k) = batches(13), projections()
    by_w = [
        np.stack(explicit_gradients(data.at(i), w_q, w_k, scale=0.7, loss="values")).ravel()
        for i in range(13)
    ]
    pairs = [by_w[i] @ by_w[j] for i in range(13) for j in range(13) if i != j]
    signal = float(np.mean(pairs))
    noise = float(np.mean([g @ g for g in by_w])) - signal
    d_product = lookup.loss_d_product(data, w_q @ w_k.T, scale=factor(0.7), loss="values")
    found = lookup.signal_to_noise(d_product, w_q, w_k)
    # The signal is a difference of sums that are 13 times as large.
    assert found == pytest.approx(math.sqrt(signal / noise), rel=1e-11)


def test_pure_noise_has_no_signal_and_a_constant_no_noise() -> None:
    w_q, w_k = projections()
    noise = normal(400, D_MODEL, D_MODEL)
    # The square of the mean of 400 is 1/400 of the noise's; without the correction it would show.
    assert lookup.signal_to_noise(noise, w_q, w_k) < 0.02
    assert lookup.signal_to_noise(noise + 10, w_q, w_k) > 5
