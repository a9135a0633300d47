"""The recurrent model: its forward pass, and its gradients through time."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EPS, assert_is_gradient, normal

from sqrtdk.experiments.encoder_decoder import additive
from sqrtdk.experiments.encoder_decoder import model as experiments_model
from sqrtdk.experiments.encoder_decoder import symbols as model_symbols
from sqrtdk.experiments.encoder_decoder.model import READERS, Sequences

# Every dimension its own prime, as in `oracles`.
N_RUNS, LENGTH, BATCH, N, D_K, N_KEYS, N_VALUES = 2, 3, 5, 7, 11, 13, 17

SIZES = {"n_keys": N_KEYS, "n_values": N_VALUES, "n": N, "d_k": D_K}

CASES = [(reader, length) for reader, length in itertools.product(READERS, (1, LENGTH))]


def model(reader: str, n_runs: int = N_RUNS) -> experiments_model.Parameters:
    """Return parameters of size 1/√n without a zero bias, so that no gradient is a special case."""
    shapes = experiments_model.shapes(reader, **SIZES)
    return {
        name: normal(n_runs, *shape, seed=place) / math.sqrt(N)
        for place, (name, shape) in enumerate(shapes.items())
    }


def sequences(length: int = LENGTH, n_runs: int = N_RUNS, batch: int = BATCH) -> Sequences:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, N_KEYS, (n_runs, length, batch))
    values = rng.integers(0, N_VALUES, (n_runs, length, batch))
    return Sequences(keys, values, rng.integers(0, length, (n_runs, batch)))


def answer(
    reader: str, parameters: experiments_model.Parameters, data: Sequences, run: int, row: int
):
    """One answer's logits written out as sums, one sequence and one state at a time."""
    p = {name: one[run] for name, one in parameters.items()}
    state, states = np.zeros(N), []
    for key, value in zip(data.keys[run, :, row], data.values[run, :, row], strict=True):
        state = np.tanh(p["e_key"][key] + p["e_value"][value] + p["b_h"][0] + state @ p["w_h"])
        states.append(state)
    asked = data.keys[run, data.asked[run, row], row]
    if reader == "fixed":
        context = states[-1]
    else:
        query, keys = p["w_q"][asked], [state @ p["w_k"] for state in states]
        if reader == "additive":
            scores = [float(p["v_a"][0] @ np.tanh(query + key)) for key in keys]
        else:
            by = math.sqrt(D_K) if reader == "scaled_dot" else 1.0
            scores = [float(query @ key) / by for key in keys]
        weights = np.exp(scores) / np.exp(scores).sum()
        context = sum(w * state for w, state in zip(weights, states, strict=True))
    hidden = np.tanh(context @ p["w_c"] + p["e_question"][asked] + p["b_r"][0])
    return hidden @ p["w_y"] + p["b_y"][0]


@pytest.mark.parametrize(("reader", "length"), CASES)
def test_answers_are_the_definitions_written_out(reader, length):
    parameters, data = model(reader), sequences(length)
    found = experiments_model.forward(reader, parameters, data).logits
    for run, row in itertools.product(range(N_RUNS), range(BATCH)):
        # Sums of at most 17 terms below 10 in another order.
        expected = answer(reader, parameters, data, run, row)
        assert_allclose(found[run, row], expected, atol=1000 * EPS[np.float64])


def test_scores_are_divided_by_the_root_of_d_k_only_where_the_reader_says_so():
    parameters, data = model("dot"), sequences()
    dot, scaled = (
        experiments_model.forward(r, parameters, data).scores for r in ("dot", "scaled_dot")
    )
    assert_allclose(scaled * math.sqrt(D_K), dot, rtol=8 * EPS[np.float64])


@pytest.mark.parametrize(("reader", "length"), CASES)
def test_gradients_of_all_parameters_are_finite_differences(reader, length):
    parameters, data = model(reader), sequences(length)
    d_logits = normal(N_RUNS, BATCH, N_VALUES, seed=99)
    found = experiments_model.forward(reader, parameters, data)
    gradients = experiments_model.backward(reader, parameters, data, found, d_logits)
    assert gradients.keys() == parameters.keys()
    for name, value in parameters.items():

        def loss(x: np.ndarray, name: str = name) -> float:
            changed = experiments_model.forward(reader, parameters | {name: x}, data).logits
            return float(np.vdot(d_logits, changed))

        assert_is_gradient(gradients[name], loss, value)
    # With one state there is nothing to choose, and no state before it.
    inert = {"w_h", "w_q", "w_k", "v_a"} if length == 1 else set()
    assert {name for name, one in gradients.items() if not one.any()} == inert & gradients.keys()


@pytest.mark.parametrize("reader", READERS)
def test_gradients_agree_with_pytorch(reader):
    torch = pytest.importorskip("torch", reason="the optional extra `oracle` is not installed")
    parameters, data = model(reader), sequences()
    leaves = {name: torch.tensor(one, requires_grad=True) for name, one in parameters.items()}
    losses = []
    for run in range(N_RUNS):
        p = {name: leaf[run] for name, leaf in leaves.items()}
        keys, values = (torch.tensor(one[run]) for one in (data.keys, data.values))
        states = [torch.zeros(BATCH, N, dtype=torch.float64)]
        for t in range(LENGTH):
            into = p["e_key"][keys[t]] + p["e_value"][values[t]] + p["b_h"]
            states.append(torch.tanh(into + states[-1] @ p["w_h"]))
        stack = torch.stack(states[1:], dim=1)
        question = torch.tensor(data.question[run])
        if reader == "fixed":
            context = states[-1]
        else:
            query, key = p["w_q"][question][:, None], stack @ p["w_k"]
            if reader == "additive":
                scores = (torch.tanh(query + key) * p["v_a"]).sum(-1)
            else:
                scores = (query * key).sum(-1) * (D_K**-0.5 if reader == "scaled_dot" else 1.0)
            context = (torch.softmax(scores, dim=-1)[..., None] * stack).sum(1)
        hidden = torch.tanh(context @ p["w_c"] + p["e_question"][question] + p["b_r"])
        logits = hidden @ p["w_y"] + p["b_y"]
        target = torch.tensor(data.answer[run])
        losses.append(torch.nn.functional.cross_entropy(logits, target))
    sum(losses).backward()
    found = experiments_model.forward(reader, parameters, data)
    loss, d_logits = experiments_model.cross_entropy(found.logits, data.answer)
    # Sums of at most 17 terms of size 1 in another order, through a few layers.
    atol = 1000 * EPS[np.float64]
    assert_allclose(loss, [float(one.detach()) for one in losses], atol=atol)
    for name, one in experiments_model.backward(reader, parameters, data, found, d_logits).items():
        assert_allclose(one, leaves[name].grad.numpy(), atol=atol, err_msg=name)


def test_cross_entropy_and_its_gradient_do_not_overflow():
    logits = np.array([[[0.0, 800.0, 0.0], [0.0, 0.0, 0.0]]])
    loss, d_logits = experiments_model.cross_entropy(logits, np.array([[0, 2]]))
    assert_allclose(loss, [(800 + math.log(3)) / 2], rtol=4 * EPS[np.float64])
    assert_allclose(d_logits[0, 0], [-0.5, 0.5, 0])
    assert_allclose(d_logits[0, 1], [1 / 6, 1 / 6, -1 / 3])


def perturbed(
    reader: str,
    parameters: experiments_model.Parameters,
    data: Sequences,
    t: int,
    change: np.ndarray,
) -> np.ndarray:
    """Logits with something added to the states at time t, which all later states then see."""
    states = experiments_model.encode(parameters, data)
    states[:, t] += change
    for later in range(t + 1, states.shape[1]):
        runs = np.arange(len(states))[:, None]
        into = parameters["e_key"][runs, data.keys[:, later]] + parameters["b_h"]
        into = into + parameters["e_value"][runs, data.values[:, later]]
        states[:, later] = np.tanh(into + states[:, later - 1] @ parameters["w_h"])
    return experiments_model.read_out(reader, parameters, states, data.question).logits


@pytest.mark.parametrize(("reader", "length"), CASES)
def test_the_jacobian_by_each_state_is_a_finite_difference(reader, length):
    parameters, data = model(reader), sequences(length)
    norms = experiments_model.state_jacobian(reader, parameters, data)
    assert norms.shape == (N_RUNS, length, BATCH)
    h = 1e-5
    for t in range(length):
        columns = []
        for unit in range(N):
            change = h * (np.arange(N) == unit)
            ends = [perturbed(reader, parameters, data, t, sign * change) for sign in (1, -1)]
            columns.append((ends[0] - ends[1]) / (2 * h))
        expected = np.sqrt(np.sum(np.square(columns), axis=(0, -1)))
        # Truncation h² and rounding eps/h of 7 x 17 derivatives of size 1.
        assert_allclose(norms[:, t], expected, atol=1e-9)


@pytest.mark.parametrize("few", [0, model_symbols.ONE_HOT_MAX])
def test_sums_by_symbol_are_those_of_a_loop(few, monkeypatch):
    monkeypatch.setattr(model_symbols, "ONE_HOT_MAX", few)
    symbols, rows = sequences().keys, normal(N_RUNS, LENGTH * BATCH, N)
    expected = np.zeros((N_RUNS, N_KEYS + 1, N))
    for run, row in np.ndindex(N_RUNS, LENGTH * BATCH):
        expected[run, symbols[run].flat[row]] += rows[run, row]
    # One symbol more than occurs. Sums of at most 15 numbers of size 1 in another order.
    found = model_symbols.by_symbol(symbols, rows, N_KEYS + 1)
    assert_allclose(found, expected, atol=100 * EPS[np.float64])


@pytest.mark.parametrize("few", [0, model_symbols.ONE_HOT_MAX])
@pytest.mark.parametrize("reader", READERS)
def test_a_run_does_not_depend_on_the_runs_beside_it(reader, few, monkeypatch):
    monkeypatch.setattr(model_symbols, "ONE_HOT_MAX", few)
    # Small blocks, so that the additive score is cut as it is at large widths.
    monkeypatch.setattr(additive, "BLOCK", BATCH * D_K)
    parameters, data = model(reader, n_runs=3), sequences(n_runs=3)

    def gradients(runs: slice) -> experiments_model.Parameters:
        mine = {name: one[runs] for name, one in parameters.items()}
        part = Sequences(*(one[runs] for one in data))
        found = experiments_model.forward(reader, mine, part)
        _, d_logits = experiments_model.cross_entropy(found.logits, part.answer)
        return experiments_model.backward(reader, mine, part, found, d_logits)

    together = gradients(slice(0, 3))
    for run in range(3):
        for name, alone in gradients(slice(run, run + 1)).items():
            assert_array_equal(together[name][run], alone[0], err_msg=name)


def test_blocks_of_the_additive_score_change_nothing_but_the_order_of_a_sum(monkeypatch):
    parameters, data = model("additive"), sequences()
    d_logits = normal(N_RUNS, BATCH, N_VALUES)

    def gradients() -> experiments_model.Parameters:
        found = experiments_model.forward("additive", parameters, data)
        return experiments_model.backward("additive", parameters, data, found, d_logits)

    whole = gradients()
    monkeypatch.setattr(additive, "BLOCK", 1)
    for name, cut in gradients().items():
        assert_allclose(cut, whole[name], atol=100 * EPS[np.float64], err_msg=name)


def test_another_reader_is_refused():
    with pytest.raises(ValueError, match="reader is 'last'; allowed: fixed or additive or dot"):
        experiments_model.forward("last", model("fixed"), sequences())
