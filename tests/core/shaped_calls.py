"""Run the mathematics with every annotated shape checked; `test_shapes` starts this process.

In a process of its own, because the check has to be there before the modules are imported, and
makes each call several times slower.
"""

import itertools
import sys

import jaxtyping
import numpy as np

jaxtyping.install_import_hook(
    ["sqrtdk.core"]
    + [f"sqrtdk.experiments.{x}" for x in ("encoder_decoder.model", "training.lookup")]
    + ["sqrtdk.experiments.projections.model"],
    "beartype.beartype",
)

from sqrtdk.core import attention, gradients, kernel, metrics, scale_rules
from sqrtdk.core.adam import AdamState
from sqrtdk.experiments.encoder_decoder import model as encoder_decoder
from sqrtdk.experiments.projections import model as projections
from sqrtdk.experiments.training import lookup

# Every axis has a length of its own, so that no wrong order can pass.
CELLS, N_Q, N_K, D_K, D_V = 2, 5, 7, 3, 11
RULES = [0.5, scale_rules.QKNorm(2.0), scale_rules.SoftCap(0.5, 3.0), scale_rules.KeyNormSum()]


def arrays(dtype: str = "float64") -> tuple[np.ndarray, ...]:
    """Return q, k, v and g of some cells."""
    rng = np.random.default_rng(1)
    shapes = ((N_Q, D_K), (N_K, D_K), (N_K, D_V), (N_Q, D_V))
    return tuple(rng.standard_normal((CELLS, *shape)).astype(dtype) for shape in shapes)


def core() -> None:
    """Attention and its gradients from the definitions and the kernel, for every kind of rule."""
    masks = (None, attention.causal_mask(N_Q, N_K))
    for mask, rule, dtype in itertools.product(masks, RULES, ("float64", "longdouble", "float16")):
        q, k, v, g = arrays(dtype)
        forward = attention.attention(q, k, v, scale=rule, mask=mask)
        gradients.gradients(q, k, v, g, forward, scale=rule)
        metrics.row_metrics(forward.logits)
        metrics.logit_std(forward.logits)
        metrics.summarize_norms(metrics.row_norms(q))
    q, k, v, g = arrays()
    w = np.ones((D_K, D_V))
    attention.project(q, w)
    gradients.projection_gradients(q, w, np.ones((CELLS, N_Q, D_V)))
    # An infinity that is visible leads to the definitions, and a hidden one to zeros.
    for mask, gram, broken in itertools.product(masks, (True, False), (False, True)):
        k[0, -1] = np.inf if broken else 1.0
        kernel.Kernel(gram=gram).measure(q, k, v, g, RULES, mask=mask, dead_below=0.1)


def recurrent() -> None:
    """The encoder and every reader, forward and backward."""
    rng = np.random.default_rng(2)
    runs, length, batch, values, n = 2, 3, 5, 11, 7
    data = encoder_decoder.Sequences(
        rng.integers(0, length, (runs, length, batch)),
        rng.integers(0, values, (runs, length, batch)),
        rng.integers(0, length, (runs, batch)),
    )
    for reader in encoder_decoder.READERS:
        shapes = encoder_decoder.shapes(reader, n_keys=length, n_values=values, n=n, d_k=13)
        weights = {name: rng.standard_normal((runs, *shape)) for name, shape in shapes.items()}
        found = encoder_decoder.forward(reader, weights, data)
        _, d_logits = encoder_decoder.cross_entropy(found.logits, data.answer)
        encoder_decoder.backward(reader, weights, data, found, d_logits)
        encoder_decoder.state_jacobian(reader, weights, data)


def learned() -> None:
    """Both models of retrieval, and the optimizers."""
    rng = np.random.default_rng(3)
    runs, n_q, n_k, d_model, d_k, d_v = 2, 5, 7, 3, 13, 11
    items, noise = (
        rng.standard_normal((runs, n_k, d_model)),
        rng.standard_normal((runs, n_q, d_model)),
    )
    targets = rng.integers(0, n_k, (runs, n_q))
    batch = lookup.make_batch(
        items, rng.standard_normal((runs, n_k, d_v)), noise, targets, noise_sd=0.1
    )
    w_q, w_k = rng.standard_normal((2, runs, d_model, d_k))
    rate = np.full((runs, 1, 1), 0.1)
    for loss in lookup.LOSSES:
        for optimizer in (lookup.SgdOptimizer, lookup.AdamOptimizer):
            learner = optimizer(w_q.copy(), w_k.copy(), rate=rate)
            logits = lookup.scores(batch, learner.product)
            lookup.loss_of(logits, batch, loss)
            learner.step(lookup.loss_d_product(batch, learner.product, scale=rate, loss=loss))
    weights = projections.Weights(w_q, w_k, rng.standard_normal((runs, d_model, d_model)))
    for relation, way in itertools.product(projections.RELATIONS, projections.PROJECTIONS):
        task = projections.make_task(items, noise, targets, noise_sd=0.1, relation=relation)
        projections.gradient(weights, task, way)
        projections.loss(weights, task)
        projections.accuracy(weights, task)
    AdamState(w_q).step(w_q, w_k, np.empty_like(w_q), rate=0.1)


def wrong() -> None:
    """Call a private function with axes in the wrong order, which must be noticed."""
    x = np.ones((CELLS, N_Q, D_K))
    from sqrtdk.core import kernel_steps

    try:
        kernel_steps.product(x, x.swapaxes(1, 2), np.ones((CELLS, N_Q, N_Q)))
    except jaxtyping.TypeCheckError:
        return
    sys.exit("a wrong shape was not noticed")


if __name__ == "__main__":
    core()
    recurrent()
    learned()
    wrong()
