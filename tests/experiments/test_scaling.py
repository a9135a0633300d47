"""The scaling experiment: cells are the draws of their keys, columns those of the contract."""

import csv
import io
import math
import re

import numpy as np
import pytest
import yaml
from conftest import ROOT

from sqrtdk.core import input_laws
from sqrtdk.core.metrics import summarize_norms
from sqrtdk.experiments import cells
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.storage import planning, tables

NAMED = yaml.safe_load((ROOT / "conf/config.yaml").read_text(encoding="utf-8"))["scale_rules"]

CONTRACT = (
    "d_k n_k n_q inputs dtype scaling seed scale logit_std entropy_nats entropy_normalized "
    "effective_keys sum_sq_weights max_weight max_weight_gap jacobian_norm "
    + " ".join(
        f"grad_{x}_{what}"
        for x in ("logits", "scores", "q", "k", "v")
        for what in ("rms", "median", "q05", "q95", "dead_rows", "top1_share")
    )
    + " grad_logits_dead_entries"
).split()


def slab(**changes: object) -> dict[str, object]:
    base = {
        "d_k": 7, "n_k": 5, "n_q": 3, "d_v": 2,
        "inputs": {"gaussian": {"law": "gaussian"}},
        "dtype": "float64",
        "scaling": {
            "off": {"rule": "constant", "value": 1},
            "on": {"rule": "power", "exponent": 0.5},
        },
        "seeds": [0, 2],
    }  # fmt: skip
    return base | changes


def rows(**changes: object) -> list[tables.Row]:
    return cells.measure_cells(scaling.cells(slab(**changes)), scaling.COLUMNS)


def test_the_columns_and_their_order_are_the_contract() -> None:
    assert [column.name for column in scaling.COLUMNS] == CONTRACT
    header = next(csv.reader(io.StringIO(tables.text(rows(), scaling.COLUMNS))))
    assert header == CONTRACT


def test_every_column_says_what_it_means() -> None:
    assert all(column.meaning.endswith((".", ").")) for column in scaling.COLUMNS)


@pytest.mark.parametrize(("n_rows", "n_top", "percent"), [(64, 1, "1.56"), (256, 3, "1.17")])
def test_the_share_of_the_largest_rows_says_how_many_they_are(
    n_rows: int, n_top: int, percent: str
) -> None:
    # Rows of equal norms share equally, so that the largest ones have what their number says.
    share = summarize_norms(np.ones(n_rows)).top1_share
    assert share == pytest.approx(n_top / n_rows, rel=1e-12)
    assert f"{100 * n_top / n_rows:.2f}" == percent
    columns = {column.name: column for column in scaling.COLUMNS}
    for x in scaling.GRADIENTS:
        meaning = columns[f"grad_{x}_top1_share"].meaning
        assert re.search(rf"\b{n_top} of {n_rows}\b[^,.]*\({re.escape(percent)} %\)", meaning)
    assert scaling.top_rows(n_rows) == n_top
    assert f"largest of {n_rows} rows" in scaling.top_rows_in_words(n_rows)


def test_at_one_dimension_both_arms_are_equal_to_the_bit() -> None:
    off, on = rows(d_k=1, seeds=[0, 1])
    assert {**off, "scaling": ""} == {**on, "scaling": ""}


def test_one_key_leaves_the_entropy_at_zero_and_what_has_no_meaning_empty() -> None:
    row = rows(n_k=1)[0]
    assert row["entropy_nats"] == 0
    assert row["max_weight"] == row["effective_keys"] == 1
    assert all(math.isnan(row[name]) for name in ("logit_std", "entropy_normalized"))
    assert row["grad_q_rms"] == 0
    assert math.isnan(row["grad_q_top1_share"])


def test_a_cell_alone_has_the_digits_that_it_has_in_a_grid() -> None:
    alone = rows(scaling={"on": {"rule": "power", "exponent": 0.5}}, seeds=[1, 2])
    assert alone == [row for row in rows() if row["scaling"] == "on" and row["seed"] == 1]


def test_rows_hold_means_over_queries_of_the_plain_formulas() -> None:
    # Written again with np.linalg and an explicit Jacobian, on the same draw.
    found = rows(seeds=[1, 2])[0]
    law = {"law": "gaussian"}
    q, k, v, g = input_laws.draw(law, d_k=7, n_k=5, n_q=3, d_v=2, seed=1, dtype="float64")
    p = np.exp(q @ k.T)
    p /= p.sum(1, keepdims=True)
    jacobians = np.stack([np.diag(row) - np.outer(row, row) for row in p])
    d_logits = np.einsum("qij,qj->qi", jacobians, g @ v.T)
    norms = np.linalg.norm(d_logits @ k, axis=1) / math.sqrt(2)
    expected = {
        "scale": 1.0,
        "logit_std": math.sqrt(np.mean(np.var(q @ k.T, axis=1, ddof=1))),
        "entropy_nats": np.mean(-np.sum(p * np.log(p), axis=1)),
        "max_weight": np.mean(p.max(1)),
        "sum_sq_weights": np.mean(np.sum(p**2, axis=1)),
        "jacobian_norm": math.sqrt(np.mean(np.sum(jacobians**2, axis=(1, 2)))),
        "grad_q_rms": math.sqrt(np.mean(norms**2)),
        "grad_q_median": np.median(norms),
        "grad_k_rms": np.linalg.norm(d_logits.T @ q) / math.sqrt(2 * 5),
        "grad_v_rms": np.linalg.norm(p.T @ g) / math.sqrt(2 * 5),
        "grad_logits_dead_entries": np.mean(np.abs(d_logits) / math.sqrt(2) < 1e-3 / 5),
    }
    for name, value in expected.items():
        # A few hundred roundings at condition numbers below 100.
        assert found[name] == pytest.approx(value, rel=1e-12), name


def test_the_jacobian_of_a_saturated_row_does_not_underflow() -> None:
    # At a match of cosine 1/2 the logit of the match is near 512, the others within 100 of 0.
    planted = {"planted": {"law": "planted", "cosine": 0.5}}
    off, _ = rows(d_k=1024, n_k=16, n_q=1, inputs=planted, seeds=[0, 1])
    assert 0 < off["jacobian_norm"] < 1e-100
    # Three, four, five.
    assert scaling._rms(np.array([3e-200, 4e-200])) == pytest.approx(5e-200 / 2**0.5, abs=0)


def test_float32_is_the_same_draw_cast() -> None:
    single, double = rows(dtype="float32")[0], rows()[0]
    assert single["dtype"] == "float32"
    # Entropy near ln 5 at logits of a few units: float32 rounds at 6e-8 times their size.
    assert single["entropy_nats"] == pytest.approx(double["entropy_nats"], rel=1e-5)
    assert single["entropy_nats"] != double["entropy_nats"]


def test_streams_differ_by_array_seed_and_size_and_repeat_by_key() -> None:
    base = {"d_k": 3, "n_k": 5, "n_q": 2, "d_v": 7, "seed": 0}
    variants = [base] + [base | {name: 11} for name in base]
    firsts = [
        input_laws.stream(array, **sizes).standard_normal()
        for array in ("q", "k", "v", "g")
        for sizes in variants
    ]
    assert len(set(firsts)) == len(firsts)
    assert input_laws.stream("q", **base).standard_normal() == firsts[0]


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("d_k", [1, 7])
def test_every_named_scale_rule_makes_a_row_in_either_dtype(name: str, d_k: int) -> None:
    for dtype in ("float64", "float32"):
        (row,) = rows(d_k=d_k, dtype=dtype, scaling={name: NAMED[name]}, seeds=[0, 1])
        assert row["scaling"] == name
        assert row["scale"] > 0
        assert type(row["scale"]) is float


def test_the_row_of_a_rule_that_looks_at_norms_holds_the_plain_formulas() -> None:
    # Written again with unit vectors, whose gradient goes through an explicit projection.
    (found,) = rows(seeds=[1, 2], scaling={"qk_norm": {"rule": "qk_norm", "scale": 3}})
    law = {"law": "gaussian"}
    q, k, v, g = input_laws.draw(law, d_k=7, n_k=5, n_q=3, d_v=2, seed=1, dtype="float64")
    q_norm, k_norm = np.linalg.norm(q, axis=1), np.linalg.norm(k, axis=1)
    unit_q, unit_k = q / q_norm[:, np.newaxis], k / k_norm[:, np.newaxis]
    p = np.exp(3 * unit_q @ unit_k.T)
    p /= p.sum(1, keepdims=True)
    d_logits = np.stack(
        [(np.diag(row) - np.outer(row, row)) @ d_p for row, d_p in zip(p, g @ v.T, strict=True)]
    )
    across = [np.eye(7) - np.outer(unit, unit) for unit in unit_q]
    d_q = np.stack(
        [a @ (3 * d @ unit_k) / n for a, d, n in zip(across, d_logits, q_norm, strict=True)]
    )
    factor = 3 / np.outer(q_norm, k_norm)
    expected = {
        "scale": factor.mean(),
        "logit_std": math.sqrt(np.mean(np.var(3 * unit_q @ unit_k.T, axis=1, ddof=1))),
        "grad_logits_rms": np.linalg.norm(d_logits) / math.sqrt(2 * 3),
        "grad_scores_rms": np.linalg.norm(d_logits * factor) / math.sqrt(2 * 3),
        "grad_q_rms": np.linalg.norm(d_q) / math.sqrt(2 * 3),
    }
    for name, value in expected.items():
        # A few hundred roundings at condition numbers below 100.
        assert found[name] == pytest.approx(value, rel=1e-12), name


def test_the_scale_of_a_cap_is_the_factor_before_it() -> None:
    (row,) = rows(scaling={"cap": {"rule": "soft_cap", "cap": 1, "exponent": 0.5}}, seeds=[0, 1])
    assert row["scale"] == 7**-0.5


@pytest.mark.parametrize("rule", ["on", "qk_norm", "soft_cap", "key_norm_sum"])
def test_memory_bounds_what_a_cell_takes(rule: str) -> None:
    import tracemalloc

    sizes = slab(d_k=512, n_k=384, n_q=256, d_v=64, scaling={rule: NAMED[rule]})
    tracemalloc.start()
    cells.measure_cells(scaling.cells(sizes | {"seeds": [0, 1]}), scaling.COLUMNS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The estimate refuses a run before it starts, so it must not be far below the truth; above
    # it there is room, because the arrays of the metrics are not all alive at once.
    assert 0.5 < scaling.memory(sizes) / peak < 2


def test_slabs_are_every_combination_of_axes_but_seed_and_scaling() -> None:
    found = list(planning.slabs({"d_k": [1, 2], "n_k": [3], "d_v": 4, "scaling": {}, "seed": [0]}))
    assert found == [
        {"d_k": 1, "n_k": 3, "d_v": 4, "scaling": {}},
        {"d_k": 2, "n_k": 3, "d_v": 4, "scaling": {}},
    ]
