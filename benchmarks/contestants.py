"""The compared implementations: each computes the same quantities of the same cells, for two rules.

Quantities: entropy, largest weight, Σp² and the norm of the softmax Jacobian of every query, and
the norms of the rows of every gradient (logits, scores, q, k, v). A contestant takes a `Case` and
returns a function without arguments. Only that function is timed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sqrtdk.core import gradients, input_laws, kernel, kernel_sizes, metrics
from sqrtdk.core.attention import Factor, attention, scores, shift_by_row_max
from sqrtdk.core.input_laws import Array, Inputs
from sqrtdk.experiments.scaling import measure as scaling

Run = Callable[[], object]

LAW = {"law": "gaussian"}


@dataclass(frozen=True)
class Case:
    """Cells of n queries, n keys and d = d_k = d_v dimensions, as many as a batch of the kernel."""

    n: int
    d: int
    dtype: str

    @property
    def cells(self) -> int:
        """Return the number of cells of a batch."""
        return int(kernel_sizes.batch_size(self.n, self.n, self.d, self.d))

    @property
    def scales(self) -> tuple[float, float]:
        """Return the factors without scaling and with it."""
        return 1.0, self.d**-0.5

    def draw(self) -> Inputs:
        """Draw the batch like the experiments."""
        one = partial(
            input_laws.draw, LAW, d_k=self.d, n_k=self.n, n_q=self.n, d_v=self.d, dtype=self.dtype
        )
        draws = [one(seed=seed) for seed in range(self.cells)]
        return Inputs(*(np.stack(arrays) for arrays in zip(*draws, strict=True)))


def floor(case: Case) -> Run:
    """Compute only the matrix products, into existing arrays, and the exponentials."""
    q, k, v, g = case.draw()
    # Realistic exponents, because the cost of exp may change when it underflows.
    logits = shift_by_row_max(scores(q, k) * np.asarray(case.scales[1], case.dtype))
    weights = np.empty_like(logits)
    d_q, d_v = np.empty_like(q), np.empty_like(v)
    one_dimension = case.d == 1

    def products(x: Array, y: Array) -> None:
        if one_dimension:
            np.multiply(x, y.swapaxes(-1, -2), out=weights)
        else:
            np.matmul(x, y.swapaxes(-1, -2), out=weights)

    def run() -> None:
        products(q, k)
        products(g, v)
        for _ in case.scales:
            np.exp(logits, out=weights)
            np.matmul(weights, k, out=d_q)
            np.matmul(weights.swapaxes(-1, -2), q, out=d_q)
            np.matmul(weights.swapaxes(-1, -2), g, out=d_v)

    return run


def random_floor(case: Case) -> Run:
    """Draw the same number of random numbers from one stream, in double precision, and cast."""
    stream = np.random.Generator(np.random.Philox(0))
    shape = (case.cells, 4 * case.n, case.d)
    return lambda: stream.standard_normal(shape).astype(case.dtype, copy=False)


def random_numbers(case: Case) -> Run:
    """Draw the batch like the experiments: a stream for each array of each cell."""
    return case.draw


def kernel_gram(case: Case) -> Run:
    """Run the kernel, with the share of dead entries."""
    return _kernel(case, gram=True)


def kernel_direct(case: Case) -> Run:
    """Run the kernel with every gradient formed."""
    return _kernel(case, gram=False)


def _kernel(case: Case, *, gram: bool) -> Run:
    core, arrays = kernel.Kernel(gram=gram), case.draw()
    rules = [Factor(scale) for scale in case.scales]
    below = 1e-3 / case.n * math.sqrt(case.d)
    return lambda: core.measure(*arrays, rules, dead_below=below)


def columns(case: Case) -> Run:
    """Run the kernel and compute all columns of runs.csv: quantiles, dead rows, top shares."""
    core, arrays = kernel.Kernel(), case.draw()
    rules = [Factor(scale) for scale in case.scales]
    return lambda: scaling.measure(core, arrays, rules)


def readable(case: Case) -> Run:
    """Run the definitions of `core` (attention, gradients, metrics), rule by rule."""
    q, k, v, g = case.draw()

    def run() -> None:
        for scale in case.scales:
            forward = attention(q, k, v, scale=scale)
            backward = gradients.gradients(q, k, v, g, forward, scale=scale)
            metrics.row_metrics(forward.logits)
            for x in backward:
                metrics.row_norms(x)

    return run


def chapter(case: Case) -> Run:
    """Run NumPy code as a chapter on attention writes it: cell by cell and rule by rule."""

    def backward(weights: Array, d_weights: Array) -> Array:
        np.sum(-weights * np.log(weights + 1e-12), axis=-1)
        weights.max(axis=-1)
        square = np.sum(weights**2, axis=-1)
        np.sqrt(np.maximum(square - 2 * np.sum(weights**3, axis=-1) + square**2, 0))
        mean = np.sum(weights * d_weights, axis=-1, keepdims=True)
        d_logits: Array = weights * (d_weights - mean)
        return d_logits

    return _cell_by_cell(case, backward)


def jacobian(case: Case) -> Run:
    """Form the derivative of softmax as a matrix for each query."""

    def backward(weights: Array, d_weights: Array) -> Array:
        d_logits = np.empty_like(weights)
        for row, p in enumerate(weights):
            matrix = np.diag(p) - np.outer(p, p)
            np.linalg.norm(matrix)
            d_logits[row] = matrix @ d_weights[row]
        return d_logits

    return _cell_by_cell(case, backward)


def _cell_by_cell(case: Case, backward: Callable[[Array, Array], Array]) -> Run:
    """Run each cell in the plain way, with the given backward pass of the softmax."""
    q, k, v, g = case.draw()

    def run() -> None:
        for cell in range(case.cells):
            for scale in case.scales:
                logits = q[cell] @ k[cell].T * scale
                weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
                weights /= weights.sum(axis=-1, keepdims=True)
                d_logits = backward(weights, g[cell] @ v[cell].T)
                d_scores = d_logits * scale
                for x in (
                    d_logits, d_scores, d_scores @ k[cell], d_scores.T @ q[cell],
                    weights.T @ g[cell],
                ):  # fmt: skip
                    np.linalg.norm(x, axis=-1)

    return run


def forward_readable(case: Case) -> Run:
    """Compute only the output, with 1/√d_k, using `core.attention`."""
    q, k, v, _ = case.draw()
    return lambda: attention(q, k, v, scale=case.scales[1]).output


def torch_batched(case: Case) -> Run:
    """Run PyTorch's autograd on the whole batch, with one thread."""
    import torch

    torch.set_num_threads(1)
    q, k, v, g = (torch.from_numpy(array) for array in case.draw())
    return lambda: _torch(q, k, v, g, case.scales)


def torch_single(case: Case) -> Run:
    """Run PyTorch's autograd cell by cell, with one thread."""
    import torch

    torch.set_num_threads(1)
    q, k, v, g = (torch.from_numpy(array) for array in case.draw())

    def run() -> None:
        for cell in range(case.cells):
            _torch(q[cell], k[cell], v[cell], g[cell], case.scales)

    return run


def _torch(q: Any, k: Any, v: Any, g: Any, scales: tuple[float, ...]) -> None:
    import torch

    for scale in scales:
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        scores = leaves[0] @ leaves[1].transpose(-1, -2)
        logits = scores * scale
        weights = torch.softmax(logits, dim=-1)
        with torch.no_grad():
            torch.special.entr(weights).sum(dim=-1)
            weights.amax(dim=-1)
            square = (weights * weights).sum(dim=-1)
            cube = (weights * weights * weights).sum(dim=-1)
            (square - 2 * cube + square * square).clamp(min=0).sqrt()
        loss = (weights @ leaves[2] * g).sum()
        for x in torch.autograd.grad(loss, [logits, scores, *leaves]):
            torch.linalg.vector_norm(x, dim=-1)


def torch_forward(case: Case) -> Run:
    """Run PyTorch's scaled_dot_product_attention, forward only, with one thread."""
    import torch

    torch.set_num_threads(1)
    q, k, v, _ = (torch.from_numpy(array) for array in case.draw())

    def run() -> object:
        with torch.no_grad():
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return run


def jax_batched(case: Case) -> Run:
    """Run compiled JAX with gradients vectorized over the batch; XLA chooses its threads."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def loss(logits: Any, v: Any, g: Any) -> Any:
        return jnp.sum((jax.nn.softmax(logits) @ v) * g)

    def all_of(q: Any, k: Any, v: Any, g: Any) -> Any:
        found = []
        for scale in case.scales:
            logits = q @ jnp.swapaxes(k, -1, -2) * scale
            weights = jax.nn.softmax(logits)
            square = jnp.sum(weights**2, -1)
            found += [jnp.sum(jax.scipy.special.entr(weights), -1), jnp.max(weights, -1), square]
            found.append(jnp.sqrt(jnp.maximum(square - 2 * jnp.sum(weights**3, -1) + square**2, 0)))
            d_logits, d_v = jax.grad(loss, argnums=(0, 1))(logits, v, g)
            d_scores = d_logits * scale
            each = (d_logits, d_scores, d_scores @ k, jnp.swapaxes(d_scores, -1, -2) @ q, d_v)
            found += [jnp.linalg.norm(x, axis=-1) for x in each]
        return found

    compiled = jax.jit(all_of)
    arrays = [jnp.asarray(array) for array in case.draw()]
    return lambda: jax.block_until_ready(compiled(*arrays))
