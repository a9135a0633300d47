"""The experiments encoder_decoder, score_width and reach, from models to rows."""

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sqrtdk.experiments import cells
from sqrtdk.experiments.capacity import experiment as capacity
from sqrtdk.experiments.encoder_decoder import measure as encoder_decoder
from sqrtdk.experiments.encoder_decoder import model, recall
from sqrtdk.experiments.encoder_decoder.model import READERS
from sqrtdk.experiments.reach import measure as reach
from sqrtdk.experiments.score_width import experiment as score_width
from sqrtdk.storage import tables

SLAB = {
    "d_k": 16, "length": 3, "hidden": 8, "learning_rate": 0.01, "reader": ["scaled_dot"],
    "seeds": [0, 2], "steps": 40, "batch": 16, "log_every": 15,
}  # fmt: skip


def rows(**changes: object) -> list[tables.Row]:
    return cells.measure_cells(encoder_decoder.cells(SLAB | changes), encoder_decoder.COLUMNS)


def reaches(**changes: object) -> list[tables.Row]:
    slab = {name: value for name, value in SLAB.items() if name != "log_every"}
    return cells.measure_cells(reach.cells(slab | changes), reach.COLUMNS)


def pick(found: Iterable[tables.Row], **at: Any) -> list[tables.Row]:
    return [row for row in found if all(row[name] == value for name, value in at.items())]


def test_a_cell_has_a_row_for_each_logged_step() -> None:
    found = rows(reader=["fixed", "dot"])
    axes = [tuple(row[c.name] for c in encoder_decoder.COLUMNS if c.axis) for row in found]
    assert len(set(axes)) == len(axes) == 2 * 2 * 4
    assert {row["step"] for row in found} == {0, 15, 30, 40}


def test_the_metrics_are_those_of_the_held_out_sequences() -> None:
    data = recall.held_out([1], 3)
    options = {"length": 3, "d_k": 16, "n": 8, "batch": 16, "learning_rate": 0.01}
    *_, last = recall.train("scaled_dot", [1], steps=40, log_every=15, **options)
    found = model.forward("scaled_dot", last.parameters, data)
    (row,) = pick(rows(), seed=1, step=40)
    assert row["accuracy"] == np.mean(found.logits[0].argmax(-1) == data.answer[0])
    p = np.exp(found.logits[0]) / np.exp(found.logits[0]).sum(-1, keepdims=True)
    loss = -np.log(p[np.arange(len(p)), data.answer[0]]).mean()
    # Means of 128 numbers of size 1 by another formula: a few roundings each.
    assert row["loss"] == pytest.approx(loss, rel=1e-13)
    w = found.weights[0]
    assert row["entropy_nats"] == pytest.approx(-(w * np.log(w)).sum(-1).mean(), rel=1e-13)
    assert row["max_weight"] == pytest.approx(w.max(-1).mean(), rel=1e-13)
    on_it = w[np.arange(len(w)), data.asked[0]]
    assert row["asked_weight"] == pytest.approx(on_it.mean(), rel=1e-13)
    spread = np.sqrt(found.scores[0].var(axis=-1, ddof=1).mean())
    assert row["logit_std"] == pytest.approx(spread, rel=1e-13)
    assert row["grad_norm"] == last.grad_norm[0]
    assert row["unasked_accuracy"] == recall.unasked_accuracy(data.values)[0]


def test_steps_to_90_are_empty_until_the_accuracy_was_there_and_then_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accuracy = iter([[0.5, 0.9], [0.95, 0.2], [0.1, 1.0], [0.2, 0.89]])
    usual = encoder_decoder.evaluate

    def evaluate(*arguments: Any) -> dict[str, Any]:
        return usual(*arguments) | {"accuracy": np.array(next(accuracy))}

    monkeypatch.setattr(encoder_decoder, "evaluate", evaluate)
    found = rows()
    one = [(row["steps_to_90"], row["reached_90"]) for row in pick(found, seed=0)]
    assert np.isnan(one[0][0])
    assert one[0][1] == 0
    assert one[1:] == [(15, 1)] * 3
    assert [row["steps_to_90"] for row in pick(found, seed=1)] == [0] * 4


def test_the_fixed_vector_has_no_attention_and_takes_no_notice_of_d_k() -> None:
    narrow, wide = (rows(reader=["fixed"], d_k=d_k) for d_k in (2, 64))
    for one, other in zip(narrow, wide, strict=True):
        assert np.isnan(one["entropy_nats"])
        assert np.isnan(one["asked_weight"])
        assert one["loss"] == other["loss"]


def test_one_pair_has_no_spread_of_scores_and_all_of_the_weight() -> None:
    for row in rows(length=1, reader=list(READERS[1:])):
        assert np.isnan(row["logit_std"])
        assert row["max_weight"] == row["asked_weight"] == 1
        assert row["unasked_accuracy"] == 1


def test_rows_do_not_depend_on_how_seeds_are_cut_into_shards() -> None:
    whole = rows(seeds=[0, 3], reader=list(READERS))
    parts = [row for seed in range(3) for row in rows(seeds=[seed, seed + 1], reader=list(READERS))]
    order = tables.axes_of(encoder_decoder.COLUMNS)
    text = [tables.text(sorted(x, key=order), encoder_decoder.COLUMNS) for x in (whole, parts)]
    assert text[0] == text[1]


def test_rates_that_are_trained_together_give_the_rows_of_single_rates() -> None:
    together = rows(learning_rate=[0.01, 0.03], reader=["fixed"], seeds=[0, 3])
    alone = [
        row
        for rate in (0.01, 0.03)
        for row in rows(learning_rate=rate, reader=["fixed"], seeds=[0, 3])
    ]
    text = [tables.text(found, encoder_decoder.COLUMNS) for found in (together, alone)]
    assert text[0] == text[1]


def test_checks_between_rows_find_the_step_that_a_row_at_each_check_finds() -> None:
    training = {"steps": 40, "reader": ["scaled_dot"], "length": 1, "learning_rate": 0.03}
    fine = rows(log_every=2, seeds=[0, 3], **training)
    coarse = rows(log_every=15, check_every=2, seeds=[0, 3], **training)
    end = {row["seed"]: row for row in fine if row["step"] == 40}
    # The seeds reach it at different steps, none of which has a row of the coarse run.
    reached = {row["steps_to_90"] for row in end.values()}
    assert len(reached) > 1
    assert not any(step % 15 == 0 for step in reached)
    for row in coarse:
        if row["step"] == 40:
            assert row["steps_to_90"] == end[row["seed"]]["steps_to_90"]
    # Checks change nothing else: the last row is the same to the bit.
    same = ("accuracy", "loss", "grad_norm", "entropy_nats", "reached_90")
    assert all(
        row[name] == end[row["seed"]][name] for row in coarse if row["step"] == 40 for name in same
    )


@pytest.mark.parametrize("reader", READERS)
def test_float32_training_is_float64_training_with_more_rounding(reader: str) -> None:
    found, exact = (
        rows(steps=4, log_every=4, reader=[reader], training_dtype=dtype)
        for dtype in ("float32", "float64")
    )
    for one, other in zip(found, exact, strict=True):
        # Single precision has 2^-24 = 6e-8; sums over 16 hidden units, 4 states and 4 steps of
        # Adam, which divides by gradients that may be small, magnify it.
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
        assert one["loss"] != other["loss"]
    assert recall.initial(reader, [0], length=3, n=4, d_k=5, dtype="float32")[0].dtype == "float32"


@pytest.mark.parametrize("experiment", [score_width.EXPERIMENT, capacity.EXPERIMENT])
def test_a_grid_of_its_own_measures_the_same_cells(experiment: Any) -> None:
    assert experiment.columns == encoder_decoder.COLUMNS
    assert experiment.cells is encoder_decoder.cells


def test_the_gain_is_what_the_second_half_of_the_steps_added() -> None:
    found = rows(steps=40, log_every=10, seeds=[0, 1], reader=["scaled_dot"])
    accuracy = {row["step"]: row["accuracy"] for row in found}
    gain = {row["step"]: row["accuracy_gain"] for row in found}
    assert math.isnan(gain[0])
    assert gain[40] == accuracy[40] - accuracy[20]
    # Half of 30 was not logged: the one before it counts.
    assert gain[30] == accuracy[30] - accuracy[10]
    assert gain[10] == accuracy[10] - accuracy[0]


@pytest.mark.parametrize(("steps", "known"), [(6, True), (7, True), (1, False)])
def test_reach_says_what_the_second_half_added_to_all_distances(steps: int, known: bool) -> None:
    training = {"d_k": 5, "n": 9, "batch": 4, "learning_rate": 0.05}
    (found,) = reach.measure("scaled_dot", [3], length=4, steps=steps, **training)
    gains = {row["stage"]: row["accuracy_gain"] for row in found}
    assert math.isnan(gains["initial"])
    assert math.isnan(gains["trained"]) is not known
    if known:
        (half,) = reach.measure("scaled_dot", [3], length=4, steps=steps // 2, **training)
        means = [
            np.mean([row["accuracy"] for row in rows_ if row["stage"] == "trained"])
            for rows_ in (found, half)
        ]
        assert gains["trained"] == pytest.approx(means[0] - means[1], abs=1e-12)


def test_without_scaling_scores_grow_as_the_root_of_d_k() -> None:
    found = {
        (reader, d_k): pick(rows(d_k=d_k, reader=[reader], length=16, seeds=[0, 4]), step=0)
        for reader in ("dot", "scaled_dot")
        for d_k in (16, 256)
    }
    size = {at: np.mean([row["logit_std"] for row in one]) for at, one in found.items()}
    # Means of 4 seeds: each scatters by about 10 %.
    assert size["dot", 256] / size["dot", 16] == pytest.approx(4, rel=0.3)
    assert size["scaled_dot", 256] / size["scaled_dot", 16] == pytest.approx(1, rel=0.3)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("experiment", "sizes"),
    [
        *itertools.product(
            (encoder_decoder, reach),
            (
                # The states, the weights and score layers, and the symbols are most of it.
                {"length": 24, "hidden": 64, "batch": 32},
                {"length": 4, "hidden": 16, "d_k": 1024, "batch": 8},
                {"length": 64, "hidden": 4, "batch": 32},
            ),
        ),
        # A product with ones and zeros would be several times all else here.
        (encoder_decoder, {"length": 300, "hidden": 4, "batch": 64}),
    ],
    ids=lambda x: f"length={x['length']}" if isinstance(x, dict) else x.__name__.split(".")[-1],
)
def test_memory_bounds_what_the_seeds_trained_together_take(
    experiment: Any, sizes: dict[str, int], reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tracemalloc

    seeds = [0, encoder_decoder.SEEDS_PER_BATCH]
    # A step beyond one chunk, where the next one is drawn.
    monkeypatch.setattr(recall, "CHUNK", 2)
    slab = SLAB | sizes | {"reader": [reader], "steps": 3, "log_every": 3, "seeds": seeds}
    if experiment is reach:
        del slab["log_every"]
    tracemalloc.start()
    cells.measure_cells(experiment.cells(slab), experiment.COLUMNS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # As in `test_scaling`: not far below, because the estimate refuses a run before it starts;
    # above there is room, because not all arrays are alive at once.
    assert 0.5 < experiment.memory(slab) / peak < 2


def test_memory_of_float32_training_is_half_but_for_its_symbols(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import tracemalloc

    monkeypatch.setattr(recall, "CHUNK", 2)
    sizes = {"length": 4, "hidden": 16, "d_k": 1024, "batch": 8, "steps": 3, "log_every": 3}
    slab = SLAB | sizes | {"reader": ["additive"], "training_dtype": "float32", "seeds": [0, 8]}
    tracemalloc.start()
    cells.measure_cells(encoder_decoder.cells(slab), encoder_decoder.COLUMNS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 < encoder_decoder.memory(slab) / peak < 2
    assert encoder_decoder.memory(slab) < 0.6 * encoder_decoder.memory(
        slab | {"training_dtype": "float64"}
    )


def test_score_layers_take_memory_only_with_a_reader_that_has_them() -> None:
    def need(reader: str, d_k: int) -> int:
        return encoder_decoder.memory(SLAB | {"reader": [reader], "d_k": d_k})

    assert need("fixed", 1024) == need("fixed", 1)
    assert need("fixed", 1024) < need("dot", 1024) < need("additive", 1024)


# Reach


def test_the_jacobian_of_float32_training_is_computed_in_float64() -> None:
    single, double = (
        pick(reaches(length=4, training_dtype=dtype), stage="initial")
        for dtype in ("float32", "float64")
    )
    for one, other in zip(single, double, strict=True):
        # The parameters are rounded, 6e-8 each; products of up to four of them follow.
        assert one["jacobian_norm"] == pytest.approx(other["jacobian_norm"], rel=1e-5)
        assert float(np.float32(one["jacobian_norm"])) != one["jacobian_norm"]


def test_reach_has_a_row_for_each_distance_before_and_after_training() -> None:
    found = reaches(length=4)
    assert len(found) == 2 * 2 * 4
    assert [row["distance"] for row in pick(found, seed=0, stage="trained")] == [0, 1, 2, 3]
    for row in found:
        assert row["log10_jacobian_norm"] == pytest.approx(
            np.log10(row["jacobian_norm"]), abs=1e-14
        )
    for row in pick(found, distance=0):
        assert row["relative_log10_norm"] == 0


def test_distance_0_is_the_last_state() -> None:
    # The head sees the last state alone: its derivative by hand, without the way through time.
    data = recall.held_out([0], 4)
    _, parameters = recall.initial("fixed", [0], length=4, n=8, d_k=16)
    found = model.forward("fixed", parameters, data)
    slope = 1 - found.hidden[0] ** 2
    jacobian = np.einsum("nm,bm,mv->bnv", parameters["w_c"][0], slope, parameters["w_y"][0])
    (row,) = pick(reaches(length=4, reader=["fixed"]), seed=0, stage="initial", distance=0)
    # Sums of 64 products of size 1 in another order.
    assert row["jacobian_norm"] == pytest.approx(
        np.sqrt(np.mean(np.sum(jacobian**2, axis=(1, 2)))), rel=1e-13
    )


def test_the_accuracy_at_a_distance_is_that_of_questions_about_the_pair_there() -> None:
    data = recall.held_out([0], 3)
    options = {"length": 3, "d_k": 16, "n": 8, "batch": 16, "learning_rate": 0.01}
    *_, last = recall.train("scaled_dot", [0], steps=40, log_every=40, **options)
    found = reaches()
    for distance in range(3):
        asked = data._replace(asked=np.full_like(data.asked, 2 - distance))
        answers = model.forward("scaled_dot", last.parameters, asked).logits.argmax(-1)
        (row,) = pick(found, seed=0, stage="trained", distance=distance)
        assert row["accuracy"] == np.mean(answers == asked.answer)


def test_before_training_the_fixed_vector_loses_reach_exponentially_and_attention_none() -> None:
    found = reaches(length=32, hidden=32, reader=["fixed", "additive"], steps=1, seeds=[0, 3])
    start = pick(found, stage="initial")
    fixed, additive = (
        np.mean(
            [[row["relative_log10_norm"] for row in pick(start, reader=reader, seed=seed)]
             for seed in range(3)], axis=0,
        )
        for reader in ("fixed", "additive")
    )  # fmt: skip
    slope = np.polyfit(np.arange(32), fixed, 1)[0]
    # A state forgets a factor √(E (1 - h²)²), about 0.6, a step: -0.2 decades.
    assert -0.25 < slope < -0.15
    # A straight line: the largest deviation of three seeds' mean is below half a decade of six.
    assert np.abs(fixed - slope * np.arange(32)).max() < 0.5
    assert np.abs(additive).max() < 0.3


def test_a_norm_of_0_has_no_logarithm() -> None:
    assert np.isnan(reach._log10(0.0))
    assert_allclose(reach._log10(0.01), -2)
