"""Measure the attention heads of a model: one call, one tidy table.

The arguments have the names and meanings of PyTorch's `scaled_dot_product_attention`. What is
measured is in `heads`; what unrelated vectors would do at the same number of keys and the same
spread of the logits is in `expected`.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sqrtdk.core import heads
from sqrtdk.core.checks import check_flag, check_name, check_number, check_whole, to_array
from sqrtdk.messages import shorten
from sqrtdk.schema import Value
from sqrtdk.theory import expected

if TYPE_CHECKING:
    import pandas as pd

LAYOUTS = ("bhnd", "bnhd")

HIDING = -1e4
"""An additive mask hides a key at this value and below: models write -inf, the smallest number of
a dtype, -1e5 or -1e4 for it, and no position bias comes near."""

COLUMNS = (
    "batch",
    "head",
    "scaling",
    *heads.HeadStatistics._fields,
    "entropy_normalized_expected",
    "entropy_normalized_deviation",
    "max_weight_expected",
    "max_weight_deviation",
)
"""Columns of the table, in order. `*_expected` is the exact mean of unrelated vectors at the
head's own σ (`logit_std`) and numbers of visible keys, without a sink; `*_deviation` is measured
minus expected."""


def measure(
    q: Any,
    k: Any,
    v: Any = None,
    *,
    scale: float | Mapping[str, float] | None = None,
    is_causal: bool = False,
    attn_mask: Any = None,
    window: int | tuple[int, int] | None = None,
    sink: Any = None,
    softcap: float | None = None,
    enable_gqa: bool = True,
    layout: str = "bhnd",
    min_keys: int = 2,
) -> "pd.DataFrame":
    """Measure every head of queries and keys: one row per batch entry, head and scale.

    Args:
        q: Queries [batch, heads, n_q, d], after any rotary embedding and before any scale. Leading
            dimensions may be left out. NumPy arrays, and arrays of PyTorch, JAX or CuPy through
            DLPack. float64 is computed in float64, anything narrower in float32; anything wider
            is refused, because digits would be lost.
        k: Keys [batch, heads, n_k, d].
        v: Values [batch, heads, n_k, d_v], for `output_rms` alone.
        scale: Factor on q·k. None is 1/√d, as in PyTorch; 0.0 is 0.0. A mapping from name to
            factor measures several.
        is_causal: Query i sees the keys 0 to i. Both are counted from their beginnings, as in
            PyTorch; give a mask where the sequences end together.
        attn_mask: Boolean (True is visible) or additive mask that broadcasts to
            [batch, heads, n_q, n_k]. An additive mask hides a key at -1e4 and below.
        window: How many keys before itself a query sees, itself not counted; a pair (before,
            after) for both sides. One number looks back alone if `is_causal`, else both ways.
        sink: Logit of an additional key without value, one number or one per head.
        softcap: Caps the scaled scores: softcap * tanh(scores / softcap), before any mask.
        enable_gqa: Let each key head serve several query heads where there are fewer of them.
        layout: "bhnd", or "bnhd" where the sequence comes before the heads.
        min_keys: Rows that see fewer keys do not count.

    Returns:
        A table with the columns `COLUMNS`; `heads.HeadStatistics` describes them.

    Raises:
        TypeError: for an argument of the wrong kind, such as integer queries.
        ValueError: for shapes that do not fit each other, or a value out of range.
    """
    check_name("layout", layout, LAYOUTS)
    min_keys = check_whole("min_keys", min_keys, least=1)
    is_causal = check_flag("is_causal", is_causal)
    enable_gqa = check_flag("enable_gqa", enable_gqa)
    queries, keys = _vectors("q", q, layout), _vectors("k", k, layout)
    values = None if v is None else _vectors("v", v, layout)
    dtype = np.result_type(queries, keys, *(() if values is None else (values,)))
    queries, keys = queries.astype(dtype, copy=False), keys.astype(dtype, copy=False)
    batch, n_heads, n_q, d = queries.shape
    n_k = keys.shape[2]
    _check_shapes(queries, keys, values, enable_gqa=enable_gqa)
    shared = n_heads // keys.shape[1]
    mask, bias = _mask(attn_mask, (batch, n_heads, n_q, n_k), is_causal=is_causal)
    sinks = _sinks(sink, n_heads)
    sides = _window(window, is_causal=is_causal)
    cap = (
        None
        if softcap is None
        else check_number("softcap", softcap, "finite numbers above 0", least=math.ulp(0.0))
    )
    rows = []
    for at, head in np.ndindex(batch, n_heads):
        visibility = heads.Visibility(
            n_q,
            n_k,
            is_causal=is_causal,
            window=sides,
            mask=None if mask is None else _of_head(mask, at, head),
            bias=None if bias is None else _of_head(bias, at, head),
        )
        own_keys = keys[at, head // shared]
        own_values = None if values is None else values[at, head // shared].astype(dtype)
        for name, factor in _scales(scale, d).items():
            found = heads.statistics(
                queries[at, head],
                own_keys,
                own_values,
                scale=factor,
                visibility=visibility,
                softcap=cap,
                sink=None if sinks is None else sinks[head],
                min_keys=min_keys,
            )
            rows.append(_row(at, head, name, found, with_sink=sinks is not None))
    # Not at the top: every start of a run loads this module, and pandas takes a third of a second.
    import pandas as pd

    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(at: int, head: int, name: str, found: heads.Head, *, with_sink: bool) -> dict[str, Value]:
    own = found.statistics
    typical = expected.unrelated(own.logit_std, found.visible_keys)
    if with_sink:
        # The sink takes weight that the exact means know nothing of.
        typical = expected.Expected(math.nan, math.nan)
    return {
        "batch": at,
        "head": head,
        "scaling": name,
        **own._asdict(),
        "entropy_normalized_expected": typical.entropy_normalized,
        "entropy_normalized_deviation": own.entropy_normalized - typical.entropy_normalized,
        "max_weight_expected": typical.max_weight,
        "max_weight_deviation": own.max_weight - typical.max_weight,
    }


def as_array(name: str, array: Any) -> np.ndarray:
    """Return an array of NumPy, PyTorch, JAX or CuPy as a NumPy array, without its gradient.

    bfloat16, which NumPy does not have, becomes float32 without loss.
    """
    if hasattr(array, "detach"):
        array = array.detach()
        if str(array.dtype) == "torch.bfloat16":
            array = array.float()
    if hasattr(array, "get") and type(array).__module__.partition(".")[0] == "cupy":
        array = array.get()
    if hasattr(array, "__dlpack__") and not isinstance(array, np.ndarray):
        try:
            return np.from_dlpack(array)
        except (BufferError, RuntimeError, TypeError, ValueError):
            # Another device, or a dtype that DLPack or NumPy does not have.
            if hasattr(array, "cpu"):
                array = array.cpu()
    found = to_array(name, array)
    return found.astype(np.float32) if found.dtype.name == "bfloat16" else found


def _vectors(name: str, array: Any, layout: str) -> np.ndarray:
    """Return q, k or v as [batch, heads, n, d] in float32 or float64."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, whose mask would be lost; give attn_mask")
    found = as_array(name, array)
    if found.dtype.kind == "f" and found.dtype.itemsize > 8:
        raise TypeError(f"{name} has dtype {found.dtype}; allowed: float64 and narrower")
    if found.dtype.kind != "f":
        raise TypeError(f"{name} has dtype {found.dtype}; allowed: floating point")
    if not 2 <= found.ndim <= 4:
        raise ValueError(f"{name} has shape {found.shape}; allowed: 2 to 4 dimensions, {layout}")
    if layout == "bnhd" and found.ndim >= 3:
        found = np.swapaxes(found, -3, -2)
    found = found.reshape((1,) * (4 - found.ndim) + found.shape)
    return found.astype(np.float32 if found.dtype.itemsize < 8 else np.float64, copy=False)


def _check_shapes(q: np.ndarray, k: np.ndarray, v: np.ndarray | None, *, enable_gqa: bool) -> None:
    """Refuse shapes that do not fit each other, and empty axes. Raises ValueError."""
    if 0 in q.shape or 0 in k.shape:
        raise ValueError(f"q {q.shape} and k {k.shape} must not be empty")
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(f"q {q.shape} and k {k.shape} must agree in batch and dimension")
    if v is not None and 0 in v.shape:
        raise ValueError(f"v {v.shape} must not be empty")
    if v is not None and v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v {v.shape} and k {k.shape} must agree in batch, heads and length")
    if q.shape[1] != k.shape[1] and not (enable_gqa and q.shape[1] % k.shape[1] == 0):
        allowed = "a multiple of the heads of k" if enable_gqa else "as many as k has"
        raise ValueError(f"q has {q.shape[1]} heads and k has {k.shape[1]}; allowed: {allowed}")


def _scales(scale: float | Mapping[str, float] | None, d: int) -> dict[str, float]:
    if scale is None:
        return {"on": 1 / math.sqrt(d)}
    if isinstance(scale, Mapping):
        if not scale:
            raise ValueError("scale is an empty mapping; allowed: names with a number each")
        wrong = next((name for name in scale if not isinstance(name, str)), None)
        if wrong is not None:
            raise TypeError(f"scale has the name {wrong!r}; allowed: text")
        return {name: check_number(f"scale[{name!r}]", value) for name, value in scale.items()}
    return {"given": check_number("scale", scale)}


def _mask(
    attn_mask: Any, shape: tuple[int, ...], *, is_causal: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the boolean mask and the bias of an `attn_mask`, each in four dimensions."""
    if attn_mask is None:
        return None, None
    if is_causal:
        raise ValueError("attn_mask and is_causal are both given; allowed: one of them")
    if isinstance(attn_mask, np.ma.MaskedArray):
        raise TypeError("attn_mask is a masked array, whose mask would be lost; give numbers")
    given = as_array("attn_mask", attn_mask)
    if given.dtype.kind not in "bf":
        raise TypeError(f"attn_mask has dtype {given.dtype}; allowed: boolean or floating point")
    try:
        fits = np.broadcast_shapes(given.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"attn_mask {given.shape} does not broadcast to {shape}")
    given = given.reshape((1,) * (4 - given.ndim) + given.shape)
    if given.dtype == np.bool_:
        return given, None
    if np.any(np.isnan(given) | (given == np.inf)):
        raise ValueError("attn_mask holds nan or inf; allowed: finite numbers, and -inf to hide")
    visible = ~(given <= HIDING)
    return visible, np.where(visible, given, 0)


def _of_head(array: np.ndarray, batch: int, head: int) -> np.ndarray:
    found: np.ndarray = array[batch if len(array) > 1 else 0, head if array.shape[1] > 1 else 0]
    return found


def _sinks(sink: Any, n_heads: int) -> list[float] | None:
    if sink is None:
        return None
    given = np.atleast_1d(as_array("sink", sink))
    if given.dtype.kind not in "iuf":
        raise TypeError(f"sink is {shorten(sink)}; allowed: one number or one per head")
    found = given.astype(np.float64)
    if found.shape not in ((1,), (n_heads,)):
        raise ValueError(f"sink has shape {found.shape}; allowed: one number or one per head")
    if np.any(np.isnan(found) | (found == np.inf)):
        raise ValueError(f"sink is {shorten(sink)}; allowed: numbers, or -inf for none")
    return list(np.broadcast_to(found, n_heads).tolist())


def _window(window: Any, *, is_causal: bool) -> tuple[int, int] | None:
    if window is None:
        return None
    pair = isinstance(window, (tuple, list))
    sides = tuple(window) if pair else (window, 0 if is_causal else window)
    if len(sides) != 2 or not all(_is_whole(side) and side >= 0 for side in sides):
        raise ValueError(
            f"window is {shorten(window)}; allowed: a whole number from 0, or a pair of them"
        )
    # No sequence is longer, and NumPy's indices end at 2**63.
    before, after = (min(int(side), 2**31) for side in sides)
    return before, after


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
