"""The precision experiment: half-precision arithmetic like that of hardware, and its error."""

import math

import ml_dtypes
import numpy as np
import pytest

from sqrtdk.core.attention import softmax
from sqrtdk.core.input_laws import draw
from sqrtdk.experiments import cells
from sqrtdk.experiments.precision import measure as precision
from sqrtdk.storage import tables


def rows(**changes: object) -> list[tables.Row]:
    slab = {
        "d_k": 64, "n_k": 7, "n_q": 5,
        "inputs": {"gaussian": {"law": "gaussian"}},
        "input_sd": [1], "precision": ["float16"], "order": ["before", "after"],
        "scaling": {"on": {"rule": "power", "exponent": 0.5}},
        "seeds": [0, 1],
    }  # fmt: skip
    return cells.measure_cells(precision.cells(slab | changes), precision.COLUMNS)


def test_a_score_above_the_largest_half_overflows_and_scaling_first_prevents_it() -> None:
    # 1024 products of 16 x 16 sum to 262144; the largest float16 is 65504.
    q = k = np.full((1, 1024), 16.0)
    options = {"scale": 1 / 32, "precision": "float16"}
    after = precision.half_logits(q, k, order="after", **options)
    before = precision.half_logits(q, k, order="before", **options)
    assert after.item() == math.inf
    assert before.item() == 8192.0


def test_bfloat16_has_the_range_of_float32() -> None:
    q = k = np.full((1, 1024), 16.0)
    assert precision.half_logits(q, k, scale=1.0, precision="bfloat16", order="after") == 262144.0


def test_products_are_summed_in_float32_and_rounded_once() -> None:
    # 1 + 2^-11 is no float16, and 1024 such products would lose their sum if it were kept in half.
    q = np.ones((1, 1024))
    k = np.ones((1, 1024))
    k[0, 0] = 2.0
    logits = precision.half_logits(q, k, scale=1.0, precision="float16", order="after")
    assert logits.item() == np.float16(1025.0)


@pytest.mark.parametrize(
    ("name", "half"), [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)]
)
def test_logits_are_the_roundings_written_out_one_by_one(name: str, half: type) -> None:
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((3, 5)), rng.standard_normal((2, 5))
    found = precision.half_logits(q, k, scale=0.3, precision=name, order="before")
    for i in range(3):
        for j in range(2):
            total = np.float32(0)
            for a, b in zip(q[i] * 0.3, k[j], strict=True):
                total += np.float32(half(a)) * np.float32(half(b))
            # The order of a float32 sum may move its last bits, and with them one rounding.
            one_rounding = float(ml_dtypes.finfo(half).eps)
            assert found[i, j] == pytest.approx(float(half(total)), rel=one_rounding)


def test_the_error_is_the_total_variation_distance_to_float64() -> None:
    (row, _) = rows()
    law = {"law": "gaussian"}
    q, k, _, _ = draw(law, d_k=64, n_k=7, n_q=5, d_v=1, seed=0, dtype="float64")
    logits = precision.half_logits(q, k, scale=0.125, precision="float16", order="before")
    distance = np.abs(softmax(logits) - softmax(q @ k.T / 8)).sum(axis=1) / 2
    # The same operations but for the order of one multiplication: a few roundings of float64.
    assert row["weight_error"] == pytest.approx(distance.mean(), rel=1e-10)
    # Logits of size 1 are off by half a unit in the last place, 2^-11 relative; weights likewise.
    assert 1e-6 < row["weight_error"] < 2**-10


def test_a_broken_row_is_counted_and_never_nan() -> None:
    before, after = rows(d_k=4096, input_sd=[64], seeds=[0, 1])
    assert after["overflow_share"] > 0.5
    assert after["broken_rows"] == 1.0
    assert after["weight_error"] == after["max_weight_error"] == 1.0
    assert before["overflow_share"] == 0


def test_all_combinations_of_a_slab_are_measured() -> None:
    found = rows(input_sd=[1, 16], precision=["float16", "bfloat16"], seeds=[0, 3])
    axes = [tuple(row[c.name] for c in precision.COLUMNS if c.axis) for row in found]
    assert len(set(axes)) == 2 * 2 * 2 * 3
