"""Write cases.json: the inputs of every case, and its answers from mpmath with 60 digits.

    python -m sqrtdk.known_answers.make

Needs mpmath. The formulas here are the definitions, written out number by number, and share no
code with the rest of the package.
"""

import json
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mpmath import exp, inf, isinf, isnan, log, mp, mpf, nan, nstr, sqrt, tanh

from sqrtdk.schema import Document

PATH = Path(__file__).with_name("cases.json")

DIGITS = 17
"""Significant digits that are written: a float64 is exact with as many."""

Case = dict[str, Any]
Matrix = list[list[float]]

mp.dps = 60


def case(name: str, shows: str, q: Any, k: Any, v: Any = None, **arguments: Any) -> Case:
    """Describe one case. Arrays are [heads, n, d]; a matrix is one head."""
    dtype = arguments.pop("dtype", "float64")
    arrays = {"q": _heads(q), "k": _heads(k), "v": _heads(_ramp(k) if v is None else v)}
    return {"name": name, "shows": shows, "dtype": dtype, **arrays, "arguments": arguments}


def _heads(x: Any) -> list[Matrix]:
    return x if isinstance(x[0][0], list) else [x]


def _ramp(k: Any) -> list[Matrix]:
    """Return values that distinguish the keys: key j of every head has (1, j + 1)."""
    return [[[1.0, j + 1.0] for j in range(len(head))] for head in _heads(k)]


def _column(*values: float) -> Matrix:
    return [[float(value)] for value in values]


def _drawn(seed: int, n: int, d: int, unit: int = 8) -> Matrix:
    """Draw numbers that are exact in every dtype down to float16: eighths between -2 and 2."""
    source = random.Random(seed)
    return [[source.randrange(-2 * unit, 2 * unit + 1) / unit for _ in range(d)] for _ in range(n)]


def cases() -> Iterator[Case]:
    """Yield every case, without its answers."""
    one = _column(1.0)
    yield case("one key", "a single key has weight 1 and entropy 0", one, one)
    yield case("two equal keys", "entropy ln 2", one, _column(1, 1))
    yield case("weights 1/4 and 3/4", "logits 0 and ln 3", one, _column(0, math.log(3)), scale=1.0)
    yield case("equal keys", "entropy ln n", one, _column(*[0.5] * 7), scale=1.0)
    yield case(
        "vector and unit vectors",
        "weights 1/(1 + e) and e/(1 + e)",
        [[0.0, 1.0]],
        [[1.0, 0.0], [0.0, 1.0]],
        scale=1.0,
    )
    q, k = _drawn(1, 3, 5), _drawn(2, 7, 5)
    yield case("default scale", "no scale given means 1/√d", q, k)
    yield case("scale 1/√d", "the same factor, given", q, k, scale=5**-0.5)
    yield case("scale 0", "0 is a factor, not a missing one: equal weights", q, k, scale=0.0)
    yield case("scale 1", "no scaling", q, k, scale=1.0)
    yield case("negative scale", "the order of the keys is reversed", q, k, scale=-0.75)
    yield case("tiny scale", "nearly equal weights", q, k, scale=1e-12)
    yield case("head dimension 1", "√1 is 1", _column(1.5), _column(-1, 0.5, 2))
    yield case(
        "padded head dimension",
        "zeros added to q and k change the default scale unless it is given",
        [[*row, 0.0, 0.0, 0.0] for row in q],
        [[*row, 0.0, 0.0, 0.0] for row in k],
        scale=5**-0.5,
    )
    yield case(
        "negative logits", "the largest logit is below 0", one, _column(-7, -9, -30), scale=1.0
    )
    yield case(
        "very negative logits",
        "a maximum that starts at 0 gives an empty softmax",
        one,
        _column(-900, -901, -905),
        scale=1.0,
    )
    yield case(
        "logits of 1e4",
        "exp overflows without the shift",
        one,
        _column(1e4, 1e4 - 2, 9e3),
        scale=1.0,
    )
    yield case("logit gap of 40", "1 - max weight is below eps", one, _column(40, 0, 0), scale=1.0)
    yield case(
        "logit gap of 400", "squares of weights underflow", one, _column(400, 0, 1), scale=1.0
    )
    yield case("logit gap of 1000", "the row is one-hot", one, _column(1000, 0, -1), scale=1.0)
    yield case("near tie", "entropy near ln 2", one, _column(50, 50 + 2**-20, 0), scale=1.0)
    yield case(
        "common shift", "softmax does not see it", one, _column(1003, 1001, 1000.5), scale=1.0
    )
    yield case(
        "large q and k",
        "scores of 2.5e9 and a gap of 1",
        _column(50000),
        _column(50000, 49999.99998),
        scale=1.0,
    )

    yield case(
        "causal square",
        "query i sees keys 0 to i",
        _drawn(3, 5, 4),
        _drawn(4, 5, 4),
        is_causal=True,
    )
    yield case(
        "causal, more keys",
        "beginnings are aligned: the last keys are seen by nobody",
        _drawn(5, 3, 4),
        _drawn(6, 5, 4),
        is_causal=True,
    )
    yield case(
        "causal, more queries",
        "late queries see all keys",
        _drawn(7, 5, 4),
        _drawn(8, 3, 4),
        is_causal=True,
    )
    seen = [[True, False, True, True], [False, True, True, False], [True, True, True, True]]
    q, k = _drawn(9, 3, 4), _drawn(10, 4, 4)
    yield case("boolean mask", "True is visible", q, k, attn_mask=seen)
    yield case(
        "mask that hides the largest",
        "the maximum is over visible keys",
        one,
        _column(1, 30, 2),
        scale=1.0,
        attn_mask=[[True, False, True]],
    )
    yield case(
        "additive mask",
        "-inf hides, 0 shows",
        q,
        k,
        attn_mask=[[0.0 if x else -math.inf for x in row] for row in seen],
    )
    yield case(
        "position bias",
        "an additive mask that hides nothing",
        q,
        k,
        attn_mask=[[-0.5 * abs(i - j) for j in range(4)] for i in range(3)],
    )
    none = [[False] * 4, [True, False, False, False], [True] * 4]
    yield case("row that sees nothing", "weights and output 0, no entropy", q, k, attn_mask=none)
    yield case(
        "padding",
        "two keys of padding are hidden from all",
        q,
        k,
        attn_mask=[[True, True, False, False]] * 3,
    )
    packed = [[i // 2 == j // 2 for j in range(4)] for i in range(4)]
    yield case(
        "packed sequences", "two sequences of 2 in one row", _drawn(11, 4, 4), k, attn_mask=packed
    )
    broken = [list(row) for row in k]
    broken[1] = [math.nan] * 4
    hidden = [[j != 1 for j in range(4)]] * 3
    yield case(
        "NaN in a hidden key", "what is hidden has no influence", q, broken, attn_mask=hidden
    )
    values = [list(row) for row in _ramp(k)[0]]
    values[1] = [math.nan, math.inf]
    yield case(
        "NaN in a hidden value", "0 · NaN is not in the output", q, k, values, attn_mask=hidden
    )
    broken = [list(row) for row in k]
    broken[1] = [math.inf, -math.inf, 1e300, 0.0]
    yield case("infinity in a hidden key", "the same", q, broken, attn_mask=hidden)

    q, k = _drawn(12, 6, 3), _drawn(13, 6, 3)
    yield case(
        "window, causal",
        "a query sees itself and 2 keys before",
        q,
        k,
        is_causal=True,
        window=[2, 0],
    )
    yield case("window, both sides", "1 key before and 2 after", q, k, window=[1, 2])
    yield case("window of 0", "each query sees its own key", q, k, window=[0, 0])
    yield case("sink of 0", "one more key with logit 0 and no value", q, k, sink=0.0)
    yield case("large sink", "nearly all weight is on the sink", q, k, sink=12.0)
    yield case("sink and causal", "the sink is always visible", q, k, sink=1.0, is_causal=True)
    yield case(
        "soft-cap", "2 tanh(z / 2), before the mask", q, k, scale=1.0, softcap=2.0, is_causal=True
    )
    yield case(
        "soft-cap far out",
        "logits of 1e4 capped at 50",
        one,
        _column(1e4, 9e3, 0),
        scale=1.0,
        softcap=50.0,
    )
    heads_q = [_drawn(20 + i, 3, 4) for i in range(4)]
    heads_k = [_drawn(30 + i, 5, 4) for i in range(2)]
    yield case(
        "grouped queries",
        "heads 0 and 1 use key head 0, heads 2 and 3 key head 1",
        heads_q,
        heads_k,
        enable_gqa=True,
    )
    yield case("one key head", "multi-query attention", heads_q, heads_k[:1], enable_gqa=True)
    yield case("two heads", "each on its own", heads_q[:2], heads_k)
    q, k = _drawn(14, 4, 16), _drawn(15, 9, 16)
    yield case("float32", "sums of a float32 implementation", q, k, scale=1.0, dtype="float32")
    yield case("float16", "products in float32 or better", q, k, scale=1.0, dtype="float16")
    yield case("bfloat16", "products in float32 or better", q, k, scale=1.0, dtype="bfloat16")
    yield case(
        "float16, scores beyond 65504",
        "q·k overflows float16 and not float32",
        [[256.0] * 4],
        [[256.0] * 4, [255.75] * 4, [255.0] * 4],
        scale=2.0**-8,
        dtype="float16",
    )
    yield case(
        "300 equal keys",
        "1/300, which a count in float16 loses",
        one,
        _column(*[0.0] * 300),
        dtype="float16",
    )


def answers(given: Case) -> Document:
    """Return the exact answers of a case, by the definitions, as numbers of 60 digits."""
    q, k, v, arguments = given["q"], given["k"], given["v"], given["arguments"]
    shared = len(q) // len(k)
    found: dict[str, list[Any]] = {
        name: [] for name in ("entropy_nats", "max_weight", "output", "max_logit", "logit_std")
    }
    for head, queries in enumerate(q):
        rows = [
            _row(row, i, k[head // shared], v[head // shared], arguments)
            for i, row in enumerate(queries)
        ]
        for name in ("entropy_nats", "max_weight", "output"):
            found[name].append([row[name] for row in rows])
        logits = [z for row in rows for z in row["logits"]]
        found["max_logit"].append(max(logits) if logits else nan)
        variances = [_variance(row["logits"]) for row in rows if len(row["logits"]) > 1]
        mean = sum(variances) / len(variances) if variances else nan
        found["logit_std"].append(sqrt(mean))
    return found


def _row(q: list[float], i: int, k: Matrix, v: Matrix, arguments: Case) -> Document:
    scale = 1 / sqrt(mpf(len(q))) if arguments.get("scale") is None else mpf(arguments["scale"])
    cap, window, mask = (arguments.get(name) for name in ("softcap", "window", "attn_mask"))
    logits, values = [], []
    for j, key in enumerate(k):
        visible = not (arguments.get("is_causal") and j > i)
        if window is not None:
            visible = visible and i - window[0] <= j <= i + window[1]
        bias = mpf(0)
        if mask is not None:
            entry = mask[i][j]
            visible = visible and (entry if isinstance(entry, bool) else entry > -math.inf)
            bias = bias if isinstance(entry, bool) or not visible else mpf(entry)
        if visible:
            z = scale * sum(mpf(a) * mpf(b) for a, b in zip(q, key, strict=True))
            logits.append((z if cap is None else cap * tanh(z / cap)) + bias)
            values.append(v[j])
    terms = list(logits)
    if arguments.get("sink") is not None:
        terms.append(mpf(arguments["sink"]))
    if not terms:
        zero = [mpf(0)] * len(v[0])
        return {"logits": [], "entropy_nats": nan, "max_weight": nan, "output": zero}
    total = sum(exp(z) for z in terms)
    weights = [exp(z) / total for z in terms]
    return {
        "logits": logits,
        # ln p written as z - ln Z, because p itself may be too small for a logarithm.
        "entropy_nats": sum(p * (log(total) - z) for p, z in zip(weights, terms, strict=True)),
        "max_weight": max(weights),
        "output": [
            sum((p * mpf(row[c]) for p, row in zip(weights, values, strict=False)), mpf(0))
            for c in range(len(v[0]))
        ],
    }


def _variance(values: list[Any]) -> Any:
    mean = sum(values) / len(values)
    return sum((z - mean) ** 2 for z in values) / (len(values) - 1)


def _plain(value: Any) -> Any:
    """Return numbers as JSON has them; what it lacks as words."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, mpf):
        if isnan(value) or isinf(value):
            return "nan" if isnan(value) else "inf" if value == inf else "-inf"
        return float(nstr(value, DIGITS))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def text(dump: Callable[[Any], str] = json.dumps) -> str:
    """Return the file's text: one case a line."""
    lines = [dump(_plain(given | {"answers": answers(given)})) for given in cases()]
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
