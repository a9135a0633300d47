"""Published formulas and their errors, implemented from their descriptions.

Each takes what a case gives and returns one quantity; `python -m sqrtdk.known_answers.elsewhere`
prints for each the case that shows it wrong, with its number and the right one. What is wrong was
reported in the public threads that are named.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sqrtdk.known_answers.check import cases, inputs, reference
from sqrtdk.schema import Document


class Formula(NamedTuple):
    """A published formula, the case that tells it from the right one, and where it was met."""

    function: Callable[..., dict[str, np.ndarray]]
    case: str
    quantity: str
    met: str


def _logits(q: np.ndarray, k: np.ndarray, arguments: Document) -> np.ndarray:
    scale = arguments.get("scale")
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    found: np.ndarray = (q @ np.swapaxes(k, -1, -2)) * factor
    return found


def _weights(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    found: np.ndarray = e / np.sum(e, axis=-1, keepdims=True)
    return found


def _visible(logits: np.ndarray, arguments: Document) -> np.ndarray:
    mask = arguments.get("attn_mask")
    if mask is None and arguments.get("is_causal"):
        mask = np.tri(*logits.shape[-2:], dtype=np.bool_)
    return np.ones(logits.shape[-2:], np.bool_) if mask is None else mask


def maximum_from_zero(q: Any, k: Any, v: Any, **arguments: Any) -> dict[str, np.ndarray]:
    """Track the largest logit in a variable that begins at 0."""
    logits = _logits(q, k, arguments)
    return {"max_logit": np.maximum(0.0, np.max(logits, axis=(-2, -1)))}


def maximum_before_mask(q: Any, k: Any, v: Any, **arguments: Any) -> dict[str, np.ndarray]:
    """Take the largest logit over all pairs, the hidden ones too."""
    return {"max_logit": np.max(_logits(q, k, arguments), axis=(-2, -1))}


def epsilon_inside_log(q: Any, k: Any, v: Any, **arguments: Any) -> dict[str, np.ndarray]:
    """Guard the logarithm with ln(p + 1e-8)."""
    p = _weights(_logits(q, k, arguments))
    return {"entropy_nats": -np.sum(p * np.log(p + 1e-8), axis=-1)}


def padding_counted(q: Any, k: Any, v: Any, **arguments: Any) -> dict[str, np.ndarray]:
    """Hide keys with -1 instead of -inf or a large number, so that they keep some weight."""
    logits = _logits(q, k, arguments)
    p = _weights(np.where(_visible(logits, arguments), logits, -1.0))
    return {"entropy_nats": -np.sum(p * np.log(p), axis=-1)}


def sink_left_out(q: Any, k: Any, v: Any, **arguments: Any) -> dict[str, np.ndarray]:
    """Compute the entropy of the softmax over the keys alone where there is a learned sink."""
    p = _weights(_logits(q, k, arguments))
    return {"entropy_nats": -np.sum(p * np.log(p), axis=-1)}


def exponential_unshifted(q: Any, k: Any, v: Any, **arguments: Any) -> dict[str, np.ndarray]:
    """Exponentiate the logits as they are."""
    with np.errstate(over="ignore", invalid="ignore"):
        e = np.exp(_logits(q, k, arguments))
        return {"max_weight": np.max(e / np.sum(e, axis=-1, keepdims=True), axis=-1)}


def zero_taken_for_missing(q: Any, k: Any, v: Any, **arguments: Any) -> dict[str, np.ndarray]:
    """Write `scale or 1/√d`, which takes 0.0 for not given."""
    scale = arguments.get("scale") or q.shape[-1] ** -0.5
    return {"max_weight": np.max(_weights((q @ np.swapaxes(k, -1, -2)) * scale), axis=-1)}


def maximum_from_log_sum(q: Any, k: Any, v: Any, **arguments: Any) -> dict[str, np.ndarray]:
    """Take the log-sum-exp that a fused kernel returns for the largest logit."""
    logits = _logits(q, k, arguments)
    top = np.max(logits, axis=-1, keepdims=True)
    lse = top[..., 0] + np.log(np.sum(np.exp(logits - top), axis=-1))
    return {"max_logit": np.max(lse, axis=-1)}


def ends_aligned(q: Any, k: Any, v: Any, **arguments: Any) -> dict[str, np.ndarray]:
    """Align the ends of both sequences where the caller means their beginnings."""
    logits = _logits(q, k, arguments)
    n_q, n_k = logits.shape[-2:]
    p = _weights(np.where(np.tri(n_q, n_k, n_k - n_q, dtype=np.bool_), logits, -np.inf))
    return {"max_weight": np.max(p, axis=-1)}


def zero_times_nan(q: Any, k: Any, v: Any, **arguments: Any) -> dict[str, np.ndarray]:
    """Multiply the weights, 0 at hidden keys, by values that are not finite there."""
    logits = _logits(q, k, arguments)
    with np.errstate(invalid="ignore"):
        return {"output": _weights(np.where(_visible(logits, arguments), logits, -np.inf)) @ v}


def half_precision_scores(q: Any, k: Any, v: Any, **arguments: Any) -> dict[str, np.ndarray]:
    """Keep q·k in the dtype of q, and scale afterwards."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = (q.astype(np.float32) @ np.swapaxes(k, -1, -2).astype(np.float32)).astype(q.dtype)
        return {"max_logit": np.max(scores * q.dtype.type(arguments["scale"]), axis=(-2, -1))}


FORMULAS = (
    Formula(maximum_from_zero, "negative logits", "max_logit", "Megatron-LM, issue 7382"),
    Formula(
        maximum_before_mask,
        "mask that hides the largest",
        "max_logit",
        "asked for in torchtitan, issue 4243",
    ),
    Formula(epsilon_inside_log, "logit gap of 40", "entropy_nats", "torch-module-monitor 0.1.0"),
    Formula(padding_counted, "padding", "entropy_nats", "masks as small numbers"),
    Formula(sink_left_out, "sink of 0", "entropy_nats", "llm-internal-medicine, pull request 28"),
    Formula(exponential_unshifted, "logits of 1e4", "max_weight", "the textbook formula"),
    Formula(zero_taken_for_missing, "scale 0", "max_weight", "`scale or default`"),
    Formula(maximum_from_log_sum, "two equal keys", "max_logit", "flash-attention, issue 2357"),
    Formula(ends_aligned, "causal, more keys", "max_weight", "alignment of `is_causal`"),
    Formula(zero_times_nan, "NaN in a hidden value", "output", "PyTorch, issue 101967"),
    Formula(
        half_precision_scores,
        "float16, scores beyond 65504",
        "max_logit",
        "products stored in half precision",
    ),
)


def rows() -> list[tuple[str, str, str, float, float, str]]:
    """Return for each formula: name, case, quantity, its number, the right one, where met.

    The numbers are those of the entry where the two differ most.
    """
    by_name = {case["name"]: case for case in cases()}
    found = []
    for formula in FORMULAS:
        (q, k, v), arguments = inputs(by_name[formula.case])
        theirs = np.asarray(formula.function(q, k, v, **arguments)[formula.quantity], np.float64)
        right = np.asarray(reference(q, k, v, **arguments)[formula.quantity], np.float64)
        off = np.abs(theirs - right)
        at = int(np.argmax(np.where(np.isnan(off), math.inf, off)))
        name = formula.function.__name__.replace("_", " ")
        found.append(
            (
                name,
                formula.case,
                formula.quantity,
                float(theirs.flat[at]),
                float(right.flat[at]),
                formula.met,
            )
        )
    return found


def table() -> str:
    """Return the table of docs/known-answers.md."""
    lines = [
        "| formula | case | quantity | it gives | right | met in |",
        "|---|---|---|---|---|---|",
    ]
    for name, case, quantity, theirs, right, met in rows():
        lines.append(f"| {name} | {case} | {quantity} | {theirs:.6g} | {right:.6g} | {met} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
