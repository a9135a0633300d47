"""The lookup with three projections, and the experiment that removes one of them."""

from typing import Any

import numpy as np
import pytest

from sqrtdk.config import compose, errors
from sqrtdk.experiments import cells
from sqrtdk.experiments.projections import measure as projections
from sqrtdk.experiments.projections import model
from sqrtdk.storage import tables

SLAB: dict[str, Any] = {
    "d_k": 5, "n_k": 7, "batch_size": 3, "d_model": 4, "noise_sd": 0.3, "steps": 20,
    "relation": "turned", "projections": list(model.PROJECTIONS), "learning_rate": [0.01],
    "seeds": [0, 2],
}  # fmt: skip


def rows(**changes: Any) -> list[tables.Row]:
    return cells.measure_cells(projections.cells(SLAB | changes), projections.COLUMNS)


def setting(relation: str = "turned", runs: int = 2) -> tuple[model.Task, model.Weights]:
    rng = np.random.default_rng(0)
    task = model.make_task(
        rng.standard_normal((runs, 7, 4)), rng.standard_normal((runs, 3, 4)),
        rng.integers(0, 7, (runs, 3)), noise_sd=0.3, relation=relation,
    )  # fmt: skip
    shapes = ((4, 5), (4, 5), (4, 4))
    return task, model.Weights(*(rng.standard_normal((runs, *shape)) / 2 for shape in shapes))


def test_a_turned_item_shares_nothing_with_the_item_and_turns_back() -> None:
    x = np.random.default_rng(0).standard_normal((11, 6))
    np.testing.assert_allclose(np.sum(x * model.turn(x), axis=-1), 0, atol=1e-14)
    np.testing.assert_array_equal(model.turn(model.turn(x), back=True), x)
    np.testing.assert_array_equal(np.abs(model.turn(x)).sum(), np.abs(x).sum())


def test_a_query_looks_like_its_item_only_where_it_is_the_same() -> None:
    for relation, match in (("same", 1.0), ("turned", 0.0)):
        task, _ = setting(relation)
        quiet = model.make_task(
            task.items, np.zeros_like(task.queries), task.targets, noise_sd=1.0, relation=relation
        )
        asked = np.take_along_axis(quiet.items, quiet.targets[..., None], axis=-2)
        # Items have length √d_model = 2.
        for other in (quiet.queries, model.wanted(quiet)):
            np.testing.assert_allclose(np.sum(other * asked, axis=-1), 4 * match, atol=1e-12)


@pytest.mark.parametrize("which", model.PROJECTIONS)
def test_gradients_are_those_of_finite_differences(which: model.Projections) -> None:
    task, weights = setting()
    rng = np.random.default_rng(1)
    steps = [rng.standard_normal(w.shape) for w in weights]
    if which == "shared_qk":
        weights, steps[1] = weights._replace(w_k=weights.w_q), steps[0]
    if which == "identity_v":
        steps[2] *= 0
    h = 1e-6

    def moved(sign: float) -> np.ndarray:
        there = (w + sign * h * d for w, d in zip(weights, steps, strict=True))
        return model.loss(model.Weights(*there), task)

    slope = (moved(1) - moved(-1)) / (2 * h)
    found = model.gradient(weights, task, which)
    pairs = [np.sum(g * d, axis=(-2, -1)) for g, d in zip(found, steps, strict=True)]
    # The gradient of one matrix is given for both, and counts once.
    total = pairs[0] + pairs[2] + (0 if which == "shared_qk" else pairs[1])
    # Central differences are wrong by h² and by rounding over h: about 1e-9.
    np.testing.assert_allclose(total, slope, rtol=1e-6, atol=1e-8)


def test_no_shared_projection_prefers_the_item_of_a_turned_query() -> None:
    rng = np.random.default_rng(2)
    items = rng.standard_normal((200_000, 6))
    w = rng.standard_normal((6, 5))
    own = np.sum((model.turn(items) @ w) * (items @ w), axis=-1)
    # The mean is a trace that is 0; five standard errors of the sample.
    assert abs(np.mean(own)) < 5 * np.std(own) / np.sqrt(len(own))
    turned = np.stack([model.turn(one) for one in np.eye(6)])
    assert abs(np.trace(turned @ w @ w.T)) < 1e-12


def test_what_is_left_out_stays_left_out() -> None:
    slab = SLAB | {"d_model": 4}
    shared = projections.initial(slab, [0, 1], "shared_qk")
    np.testing.assert_array_equal(shared.w_q, shared.w_k)
    task, _ = setting()
    found = model.gradient(shared, task, "shared_qk")
    np.testing.assert_array_equal(found.w_q, found.w_k)
    identity = projections.initial(slab, [0, 1], "identity_v")
    np.testing.assert_array_equal(identity.w_v, [np.eye(4)] * 2)
    assert not model.gradient(identity, task, "identity_v").w_v.any()
    for name in ("shared_qk", "identity_v"):
        other = projections.initial(slab, [0, 1], name)
        np.testing.assert_array_equal(other.w_q, projections.initial(slab, [0, 1], "separate").w_q)


def test_each_head_has_a_row_for_each_logged_step_and_no_digit_depends_on_its_neighbours() -> None:
    found = rows()
    assert {row["step"] for row in found} == {0, 8, 10, 16, 20}
    alone = rows(seeds=[1, 2], projections=["shared_qk"])
    same = [r for r in found if r["seed"] == 1 and r["projections"] == "shared_qk"]
    # As text, because empty cells are NaN.
    assert list(map(str, alone)) == list(map(str, same))
    both = rows(seeds=[1, 2], projections=["shared_qk"], learning_rate=[0.03, 0.01])
    assert list(map(str, both[len(alone) :])) == list(map(str, alone))
    assert both[0]["learning_rate"] == 0.03


def test_the_gain_is_that_of_the_second_half() -> None:
    of = {row["step"]: row for row in rows(projections=["separate"], seeds=[0, 1])}
    assert np.isnan(of[0]["accuracy_gain"])
    assert of[20]["accuracy_gain"] == of[20]["accuracy"] - of[10]["accuracy"]
    assert of[16]["accuracy_gain"] == of[16]["accuracy"] - of[8]["accuracy"]


def test_three_projections_find_turned_items_and_a_shared_one_does_not() -> None:
    sizes = {"d_k": 16, "n_k": 8, "batch_size": 8, "d_model": 8, "steps": 600}
    found = rows(**sizes, learning_rate=[0.02], projections=["separate", "shared_qk"], seeds=[0, 2])
    ends = {
        name: np.mean([r["asked_weight"] for r in found
                       if r["projections"] == name and r["step"] == 600])
        for name in ("separate", "shared_qk")
    }  # fmt: skip
    assert ends["separate"] > 0.8
    # An equal share is 1/8.
    assert ends["shared_qk"] < 0.2


def test_memory_covers_what_is_drawn() -> None:
    task, held = projections.draw(SLAB, 0)
    arrays = [*task, *held]
    assert projections.memory(SLAB) > sum(array.nbytes for array in arrays)
    for name in ("d_k", "n_k", "batch_size", "d_model", "steps"):
        assert projections.memory(SLAB | {name: 10 * SLAB[name]}) > projections.memory(SLAB)


def test_a_wrong_projection_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(errors.ConfigError, match="allowed: separate or shared_qk or identity_v"):
        compose.compose(["grid=smoke", "experiments=projections", "projections=shared"], {})
