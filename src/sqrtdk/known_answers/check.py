"""Try an implementation on every case: `python -m sqrtdk.known_answers your_module:function`.

The function is called as `function(q, k, v, **arguments)` with NumPy arrays [heads, n, d] in the
dtype of the case and, of `scale`, `is_causal`, `attn_mask`, `window`, `sink`, `softcap` and
`enable_gqa`, those that the case sets. It returns the output [heads, n_q, d_v], or a mapping with
any of `QUANTITIES`.
"""

import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from sqrtdk.core.attention import attention, softmax
from sqrtdk.core.heads import Visibility
from sqrtdk.core.metrics import logit_std, row_metrics
from sqrtdk.core.shapes import Floats, Mask
from sqrtdk.schema import Document
from sqrtdk.system.errors import UserError, one_line

QUANTITIES = {
    "entropy_nats": "entropy of each row, [heads, n_q]; NaN for a row that sees no key",
    "max_weight": "largest weight of each row, [heads, n_q]; NaN for a row that sees no key",
    "output": "weights times values, [heads, n_q, d_v]; 0 for a row that sees no key",
    "max_logit": "largest logit over the visible pairs, [heads]; a sink does not count",
    "logit_std": "root mean square over rows of the sd of the logits across visible keys, [heads]",
}

ROUNDINGS = 16.0
"""Roundings of the largest logit that an answer may be off: one for each product and sum of a few
numbers, and some for exp and the sums of the softmax."""


class Result(NamedTuple):
    """The outcome of one quantity of one case.

    `error` is the largest deviation, NaN if shapes or undefined entries differ; `allowed` is the
    deviation that rounding explains.
    """

    case: str
    quantity: str
    error: float
    allowed: float

    @property
    def passed(self) -> bool:
        """Return whether rounding explains the deviation."""
        return self.error <= self.allowed


@cache
def cases() -> tuple[Document, ...]:
    """Return every case with its answers, as cases.json has them."""
    return tuple(json.loads(Path(__file__).with_name("cases.json").read_text(encoding="utf-8")))


def inputs(case: Document) -> tuple[list[np.ndarray], Document]:
    """Return q, k and v [heads, n, d] of a case in its dtype, and its keyword arguments."""
    dtype = np.dtype(ml_dtypes.bfloat16 if case["dtype"] == "bfloat16" else case["dtype"])
    arguments = dict(case["arguments"])
    if "attn_mask" in arguments:
        mask = arguments["attn_mask"]
        boolean = isinstance(mask[0][0], bool)
        arguments["attn_mask"] = np.array(mask, np.bool_) if boolean else _floats(mask)
    if "window" in arguments:
        arguments["window"] = tuple(arguments["window"])
    return [_floats(case[name]).astype(dtype) for name in ("q", "k", "v")], arguments


def _floats(values: Any) -> np.ndarray:
    # NumPy reads the words nan, inf and -inf, which JSON has no numbers for.
    return np.array(values, dtype=np.float64)


def check(function: Callable[..., Any]) -> Iterator[Result | str]:
    """Yield a result for each quantity that the function returns, or the name of a case.

    A name alone means that the function does not take one of the case's arguments. Raises
    UserError, with the case, if the function raises.
    """
    for case in cases():
        arrays, arguments = inputs(case)
        if not _takes(function, arrays, arguments):
            yield case["name"]
            continue
        try:
            found = function(*arrays, **arguments)
        except (Exception, SystemExit) as error:
            # What a function without a full signature says of an argument that it does not take.
            if isinstance(error, TypeError) and "unexpected keyword" in str(error):
                yield case["name"]
                continue
            what = f"{type(error).__name__}: {one_line(error)}"
            raise UserError(f"case {case['name']!r}: the function raised {what}") from error
        if not isinstance(found, Mapping):
            found = {"output": found}
        for quantity in QUANTITIES:
            if quantity in found:
                wanted = _floats(case["answers"][quantity])
                try:
                    given = np.asarray(found[quantity], dtype=np.float64)
                except (TypeError, ValueError):
                    # A word, ragged lists: no answer at all.
                    given = np.empty(0)
                off = _error(given, wanted)
                yield Result(case["name"], quantity, off, _allowed(case, quantity))


def _takes(function: Callable[..., Any], arrays: Sequence[np.ndarray], arguments: Document) -> bool:
    """Return whether a function takes these arguments, as far as its signature says."""
    try:
        inspect.signature(function).bind(*arrays, **arguments)
    except TypeError:
        return False
    except ValueError:
        # Some functions that are written in C have no signature.
        pass
    return True


def _error(found: np.ndarray, wanted: np.ndarray) -> float:
    undefined = np.isnan(wanted)
    if found.shape != wanted.shape or np.any(np.isnan(found) != undefined):
        return math.nan
    return float(np.max(np.abs(found - wanted)[~undefined], initial=0.0))


def _allowed(case: Document, quantity: str) -> float:
    """Return the deviation that rounding explains.

    A logit z is known to about eps times the sum of the |products| that make it. The entropy of n
    keys then moves by at most ln n times as much and a weight by less; the output by the weights'
    change times the largest value.
    """
    (q, k, v), arguments = inputs(case)
    eps = np.finfo(np.float64 if q.dtype == np.float64 else np.float32).eps
    scale = arguments.get("scale", q.shape[-1] ** -0.5)
    q, k, v = (np.where(np.isfinite(x), x, 0).astype(np.float64) for x in (q, k, v))
    shared = len(q) // len(k)
    sizes = np.abs(q) @ np.swapaxes(np.repeat(np.minimum(np.abs(k), 1e100), shared, axis=0), -1, -2)
    hidden = np.abs(np.repeat(k, shared, axis=0)).max(axis=-1) >= 1e100
    largest = abs(float(scale)) * float(np.max(np.where(hidden[:, np.newaxis, :], 0, sizes)))
    of_logits = ROUNDINGS * float(eps) * max(1.0, largest)
    factor = {
        "entropy_nats": 1 + math.log(k.shape[-2]),
        "output": max(1.0, float(np.max(np.abs(v)))),
    }
    return float(of_logits * factor.get(quantity, 1.0))


def reference(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    attn_mask: np.ndarray | None = None,
    window: tuple[int, int] | None = None,
    sink: float | None = None,
    softcap: float | None = None,
    enable_gqa: bool = False,
) -> dict[str, np.ndarray]:
    """Answer a case with this package's readable definitions."""
    wide: type[np.floating[Any]] = np.float64 if q.dtype == np.float64 else np.float32
    q, k, v = (x.astype(wide) for x in (q, k, v))
    k, v = (np.repeat(x, len(q) // len(x), axis=0) for x in (k, v))
    n_q, n_k = q.shape[1], k.shape[1]
    mask = attn_mask
    bias: Floats = np.zeros((), wide)
    if attn_mask is not None and attn_mask.dtype != np.bool_:
        mask = attn_mask > -np.inf
        bias = np.where(mask, attn_mask, 0).astype(wide)
    visible: Mask = np.ones((n_q, n_k), np.bool_)
    seen = Visibility(n_q, n_k, is_causal, window, mask).rows(slice(0, n_q))
    if seen is not None:
        visible = seen
    # Remove keys that no query sees, so that their NaN does not spread.
    used = np.expand_dims(np.any(visible, axis=0), 1)
    k, v = np.where(used, k, 0), np.where(used, v, 0)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    logits: Floats = attention(q, k, v, scale=factor).logits
    if softcap is not None:
        logits = softcap * np.tanh(logits / softcap)
    masked = np.where(visible, logits + bias, -np.inf)
    full = masked
    if sink is not None:
        full = np.concatenate([masked, np.full((*masked.shape[:-1], 1), sink, wide)], axis=-1)
    rows = row_metrics(full)
    return {
        "entropy_nats": rows.entropy_nats,
        "max_weight": rows.max_weight,
        "output": softmax(full)[..., :n_k] @ v,
        "max_logit": np.max(masked, axis=(-2, -1)),
        "logit_std": logit_std(masked),
    }
