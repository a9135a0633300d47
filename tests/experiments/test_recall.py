"""The recall task and training on it."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sqrtdk.experiments.encoder_decoder import model, recall
from sqrtdk.experiments.encoder_decoder.model import READERS

TRAINING = {"length": 3, "d_k": 11, "n": 7, "batch": 5, "learning_rate": 0.01, "log_every": 2}


def test_a_sequence_has_one_pair_for_each_of_its_keys_and_asks_about_one_of_them() -> None:
    data = next(recall.batches([0, 5], length=7, batch=11, held=False))
    assert data.keys.shape == data.values.shape == (2, 7, 11)
    assert_array_equal(
        np.sort(data.keys, axis=1), np.broadcast_to(np.arange(7)[:, None], (2, 7, 11))
    )
    runs, rows = np.ogrid[:2, :11]
    assert_array_equal(data.answer, data.values[runs, data.asked, rows])
    assert_array_equal(data.question, data.keys[runs, data.asked, rows])


def test_symbols_and_questions_are_uniform() -> None:
    data = recall.held_out(range(20), 4)
    # 2560 questions and first keys: four standard errors of a share of 1/4 are 0.034.
    for drawn, count in ((data.asked, 4), (data.keys[:, 0], 4), (data.values[:, 0], 8)):
        shares = np.bincount(drawn.ravel(), minlength=count) / drawn.size
        assert len(shares) == count
        assert np.abs(shares - 1 / count).max() < 0.034


def test_a_seed_has_its_own_stream_whatever_stands_beside_it() -> None:
    alone = [next(recall.batches([seed], length=3, batch=2, held=False)) for seed in (3, 8)]
    both = next(recall.batches([3, 8], length=3, batch=2, held=False))
    for run, one in enumerate(alone):
        for mine, theirs in zip(one, both, strict=True):
            assert_array_equal(mine[0], theirs[run])
    assert not np.array_equal(alone[0].values, alone[1].values)


def test_runs_with_one_seed_see_the_same_sequences() -> None:
    once = next(recall.batches([3, 8], length=3, batch=2, held=False))
    twice = next(recall.batches([8, 3, 8], length=3, batch=2, held=False))
    for mine, theirs in zip(once, twice, strict=True):
        assert_array_equal(mine[[1, 0, 1]], theirs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_learning_rate_of_each_run_trains_to_the_bits_of_one_rate(dtype: str) -> None:
    setting = TRAINING | {"training_dtype": dtype}
    rates = np.array([0.01, 0.003])
    *_, both = recall.train("dot", [4, 4], steps=9, **setting | {"learning_rate": rates})
    for run, rate in enumerate(rates.tolist()):
        *_, one = recall.train("dot", [4], steps=9, **setting | {"learning_rate": rate})
        for name, value in one.parameters.items():
            assert_array_equal(value[0], both.parameters[name][run], err_msg=name)


def test_batches_go_on_beyond_one_draw_and_never_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(count: int) -> list[np.ndarray]:
        found = recall.batches([0], length=5, batch=7, held=False)
        return [one.values for one in itertools.islice(found, count)]

    whole = first(9)
    monkeypatch.setattr(recall, "CHUNK", 4)
    for one, same in zip(whole, first(9), strict=True):
        assert_array_equal(one, same)
    assert len({one.tobytes() for one in whole}) == 9


def test_held_out_sequences_are_not_those_of_the_training() -> None:
    held = recall.held_out([0], 16)
    trained = next(recall.batches([0], length=16, batch=recall.HELD_OUT, held=False))
    assert not (held.values == trained.values).all(axis=1).any()


def test_unasked_accuracy_is_the_expected_share_of_the_most_frequent_value() -> None:
    # Two values are the same in one of eight cases: (1/8) 1 + (7/8) 1/2.
    values = recall.held_out(range(40), 2).values
    found = recall.unasked_accuracy(values)
    # 5120 sequences: a standard error of (1/2) √(7/64 / 5120) = 0.0023.
    assert found.mean() == pytest.approx(9 / 16, abs=4 * 0.0023)


def test_initial_entries_have_the_variance_that_the_docstring_says() -> None:
    _, parameters = recall.initial("additive", range(50), length=16, n=32, d_k=64)
    variance = {name: float(np.var(one)) for name, one in parameters.items()}
    expected = {
        "e_key": 1 / 2, "e_value": 1 / 2, "w_h": 1 / 32, "b_h": 0, "w_q": 1, "w_k": 1 / 32,
        "v_a": 1 / 64, "w_c": 1 / 32, "e_question": 1, "b_r": 0, "w_y": 1 / 32, "b_y": 0,
    }  # fmt: skip
    assert variance.keys() == expected.keys()
    for name, one in variance.items():
        # Of at least 3200 normal entries: four standard errors, 4 √(2/3200), are 10 %.
        assert one == pytest.approx(expected[name], rel=0.1), name


def test_all_readers_of_a_seed_start_from_the_same_encoder_and_head() -> None:
    sizes = {"length": 3, "n": 7, "d_k": 11}
    found = {reader: recall.initial(reader, [4], **sizes)[1] for reader in READERS}
    for reader in READERS:
        for name in found["fixed"]:
            assert_array_equal(found[reader][name], found["fixed"][name])
    assert_array_equal(found["dot"]["w_q"], found["scaled_dot"]["w_q"])


@pytest.mark.parametrize("reader", READERS)
def test_a_seed_trains_to_the_same_bits_whatever_is_trained_beside_it(reader: str) -> None:
    def end(seeds: list[int]) -> recall.Moment:
        *_, last = recall.train(reader, seeds, steps=12, **TRAINING)
        return last

    together = end([0, 1, 2])
    for run, seed in enumerate((0, 1, 2)):
        alone = end([seed])
        assert alone.grad_norm[0] == together.grad_norm[run]
        for name, one in alone.parameters.items():
            assert_array_equal(one[0], together.parameters[name][run], err_msg=name)


def test_the_logged_steps_are_the_first_every_nth_and_the_last() -> None:
    moments = recall.train("fixed", [0], steps=5, **TRAINING)
    assert [moment.step for moment in moments] == [0, 2, 4, 5]


def test_the_first_step_moves_every_parameter_with_a_gradient_by_the_learning_rate() -> None:
    moments = recall.train("scaled_dot", [0], steps=1, **TRAINING | {"log_every": 1})
    before = {name: one.copy() for name, one in next(moments).parameters.items()}
    after = next(moments).parameters
    for name, one in before.items():
        moved = np.abs(after[name] - one)
        # m̂/√v̂ is the sign of the gradient at first; ε takes 1e-8 over the gradient's size off it.
        assert np.all((moved == 0) | (np.abs(moved - 0.01) < 1e-4)), name
        assert moved.any(), name


def test_training_lowers_the_loss() -> None:
    moments = recall.train("scaled_dot", [0], steps=60, **TRAINING | {"log_every": 60})
    data = recall.held_out([0], 3)
    losses = [
        model.cross_entropy(model.forward("scaled_dot", one.parameters, data).logits, data.answer)[
            0
        ].item()
        for one in moments
    ]
    assert losses[1] < losses[0] - 0.2
    assert losses[0] == pytest.approx(math.log(8), abs=0.5)
