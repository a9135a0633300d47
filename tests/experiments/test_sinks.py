"""Queries with nothing to attend to: gradients, the best output, cells, table and claims."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from experiments.test_lookup import batches
from oracles import D_K, D_MODEL, D_V, N_K, N_Q, assert_is_gradient, normal
from scipy import special

from sqrtdk.claims import verdicts
from sqrtdk.experiments import cells
from sqrtdk.experiments.sinks import claims, measure, model, sinks
from sqrtdk.experiments.sinks.model import ATTENTIONS, Attention, Head, Task
from sqrtdk.storage import tables

NOISE = 0.5


def task(count: int = 1, n_q: int = N_Q, noise_sd: float = NOISE) -> Task:
    matched = np.arange(n_q) % 2 == 0
    return model.make_task(
        batches(count, n_q=n_q), normal(count, n_q, D_MODEL, seed=1),
        normal(count, n_q, D_MODEL, seed=2), np.broadcast_to(matched, (count, n_q)),
        noise_sd=noise_sd,
    )  # fmt: skip


def head(attention: Attention, *, first: bool, seed: int = 0) -> Head:
    w_q, w_k = normal(2, D_MODEL + 1, D_K, seed=seed) * D_MODEL**-0.5
    start = (normal(D_MODEL + 1, seed=3), normal(D_V, seed=4)) if first else None
    made = Head(w_q, w_k, attention, start, rate=np.full((1, 1, 1), 0.01), n_k=N_K)
    # Not the start, at which two of its gradients may be small.
    made.bias += 0.7
    return made


def explicit_loss(
    attention: Attention, one: Task, w_q: Any, w_k: Any, bias: Any, item: Any, value: Any
) -> float:
    """The loss by its definition, query by query."""
    items, vectors, queries, targets = one.batch
    if item is not None:
        items, vectors = np.vstack([item, items]), np.vstack([value, vectors])
    found = []
    for query, target, matched in zip(queries, targets, one.matched, strict=True):
        logits = (query @ w_q) @ (items @ w_k).T / math.sqrt(w_q.shape[1])
        if attention.startswith("sigmoid"):
            weights = 1 / (1 + np.exp(-logits - bias))
        else:
            sink = {"softmax": 0.0, "softmax1": np.exp(bias), "sink_logit": np.exp(bias)}
            weights = np.exp(logits) / (np.sum(np.exp(logits)) + sink[attention])
        wanted = one.batch[1][target] if matched else np.zeros(D_V)
        found.append(np.sum((weights @ vectors - wanted) ** 2) / 2)
    return float(np.mean(found))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_gradients_are_finite_differences(attention: Attention, first: bool) -> None:
    made, one = head(attention, first=first), task().at(0)
    found = made.gradient(one)
    w_q, w_k = made.projections.w_q[0], made.projections.w_k[0]
    item, value = (None, None) if made.first is None else (x[0] for x in made.first)

    def loss(
        w_q: Any = w_q,
        w_k: Any = w_k,
        bias: Any = made.bias[0, 0, 0],
        item: Any = item,
        value: Any = value,
    ) -> float:
        return explicit_loss(attention, one, w_q, w_k, bias, item, value)

    assert_is_gradient(found.product[0] @ w_k, lambda w: loss(w_q=w), w_q)
    assert_is_gradient(found.product[0].T @ w_q, lambda w: loss(w_k=w), w_k)
    if model.is_learned(attention):
        assert_is_gradient(found.bias[0, 0], lambda b: loss(bias=b[0]), made.bias[0, 0])
    if first:
        assert found.item is not None
        assert found.value is not None
        assert_is_gradient(found.item[0], lambda x: loss(item=x), item)
        assert_is_gradient(found.value[0], lambda x: loss(value=x), value)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_only_what_is_learned_moves(attention: Attention) -> None:
    made = head(attention, first=True)
    assert made.first is not None
    before = made.bias.copy(), *(x.copy() for x in made.first)
    model.train(made, task(3))
    assert np.array_equal(made.bias, before[0]) != model.is_learned(attention)
    assert not np.array_equal(made.first[0], before[1])
    assert not np.array_equal(made.first[1], before[2])


def test_held_out_numbers_are_means_over_their_queries() -> None:
    made, held_out = head("sink_logit", first=True), task(2)
    found = model.measure(made, held_out)
    losses: dict[bool, list[float]] = {True: [], False: []}
    assert made.first is not None
    for library in range(2):
        one = held_out.at(library)
        for i in range(N_Q):
            alone = Task(
                one.batch._replace(queries=one.batch.queries[[i]], targets=one.batch.targets[[i]]),
                one.matched[[i]],
            )
            losses[bool(one.matched[i])].append(
                explicit_loss(
                    "sink_logit", alone, made.projections.w_q[0], made.projections.w_k[0],
                    made.bias[0, 0, 0], *(x[0] for x in made.first),
                )
            )  # fmt: skip
    for mine, kind in zip(found.loss, (True, False), strict=True):
        assert mine[0] == pytest.approx(np.mean(losses[kind]), rel=1e-12)
    kinds = found.item_weight, found.first_weight, found.sink_weight
    total = [sum(float(one[place][0]) for one in kinds) for place in range(2)]
    assert total == pytest.approx([1, 1], rel=1e-12)


def test_the_best_output_is_that_of_random_strangers() -> None:
    """The weights of Bayes' rule, with the mean over the sphere by 200 000 strangers."""
    noise_sd = 1.2
    one = task(1, n_q=8, noise_sd=noise_sd)
    found = model.posterior_losses(one, noise_sd=noise_sd, share=0.25)
    strangers = np.random.default_rng(0).standard_normal((200_000, D_MODEL))
    strangers *= math.sqrt(D_MODEL) / np.linalg.norm(strangers, axis=1, keepdims=True)
    at, losses = one.at(0), []
    for query, wanted in zip(at.batch.queries[:, :-1], at.wanted, strict=True):
        of_items = at.batch.items[:, :-1] @ query / noise_sd**2
        mean = special.logsumexp(strangers @ query / noise_sd**2) - math.log(len(strangers))
        sink = math.log(N_K * 0.75 / 0.25) + mean
        weights = np.exp(of_items - special.logsumexp([*of_items, sink]))
        losses.append(np.sum((weights @ at.batch[1] - wanted) ** 2) / 2)
    for mine, kind in zip(found, (at.matched, ~at.matched), strict=True):
        # The standard error of each mean is below 3 %: few strangers are near a query.
        assert mine == pytest.approx(np.mean(np.array(losses)[kind]), rel=0.05)


# Cells and table

SLAB: Any = {
    "d_k": 11, "n_k": 7, "batch_size": 6, "d_model": 13, "d_v": 3, "noise_sd": 0.5, "steps": 6,
    "attention": list(ATTENTIONS), "first_key": ["none", "learned"], "learning_rate": [0.01, 0.1],
    "seeds": [0, 2],
}  # fmt: skip


def rows(**changes: Any) -> list[tables.Row]:
    return cells.measure_cells(measure.cells(SLAB | changes), measure.COLUMNS)


def test_no_digit_depends_on_how_the_grid_is_cut() -> None:
    whole = rows()
    assert len(whole) == 5 * 2 * 2 * 2
    part = rows(seeds=[1, 2], learning_rate=[0.1], attention=["sink_logit"], first_key=["learned"])
    wanted = {"attention": "sink_logit", "first_key": "learned", "learning_rate": 0.1, "seed": 1}
    kept = [row for row in whole if all(row[name] == value for name, value in wanted.items())]
    assert tables.text(part, measure.COLUMNS) == tables.text(kept, measure.COLUMNS)


def test_half_of_the_queries_have_no_match() -> None:
    drawn = measure.draw(SLAB, 0, 500, "")
    # 3000 queries: a standard error of 0.9 %.
    assert np.mean(drawn.matched) == pytest.approx(0.5, abs=0.04)
    lengths = np.mean(np.sum(drawn.batch.queries[..., :-1] ** 2, axis=-1) / 13, where=drawn.matched)
    others = np.mean(np.sum(drawn.batch.queries[..., :-1] ** 2, axis=-1) / 13, where=~drawn.matched)
    # Both are items or strangers of mean square 1 plus noise of variance 1/4.
    assert [lengths, others] == pytest.approx([1.25, 1.25], rel=0.05)
    held_out = measure.draw_held_out(SLAB, 0)
    assert np.mean(held_out.matched) == 0.5


def frame(seeds: int = 8, **losses: float) -> pd.DataFrame:
    """runs.csv in which the unmatched losses and the weights on a first key are given."""
    rng, found = np.random.default_rng(0), []
    for attention in ATTENTIONS:
        for first in ("none", "learned"):
            for rate, worse in ((0.01, 1.0), (0.03, 2.0)):
                for seed in range(seeds):
                    loss = losses.get(f"{attention}_{first}", 1.0) * worse
                    row = dict.fromkeys((one.name for one in measure.COLUMNS), 0.5)
                    row |= {"loss_unmatched": loss * math.exp(0.05 * rng.standard_normal()),
                            "first_weight_matched": 0.1 + 0.01 * rng.standard_normal(),
                            "first_weight_unmatched": losses.get(attention, 0.1)
                            + 0.01 * rng.standard_normal()}  # fmt: skip
                    axes = {"d_k": 64, "n_k": 16, "batch_size": 32, "attention": attention,
                            "first_key": first, "learning_rate": rate, "seed": seed}  # fmt: skip
                    found.append(row | axes)
    return pd.DataFrame(found)


@pytest.mark.parametrize(
    ("claim", "losses", "verdict"),
    [
        ("sink_needed", {"softmax_none": 4.0}, "true"),
        ("sink_needed", {"softmax_none": 1.2}, "false"),
        ("first_key_sink", {"softmax": 0.9}, "true"),
        ("first_key_sink", {"softmax": 0.2}, "false"),
        ("sigmoid_no_sink", {}, "true"),
        ("sigmoid_no_sink", {"sigmoid_bias": 0.9}, "false"),
        ("sigmoid_no_sink", {"sigmoid_bias_none": 4.0}, "false"),
    ],
)
def test_claims_follow_the_table(claim: str, losses: dict[str, float], verdict: str) -> None:
    found = pd.DataFrame(list(sinks.rows({}, frame(**losses))))
    assert set(found["rate_first"]) == {0.01}
    one = next(x for x in claims.CLAIMS if x.claim == claim)
    assert one.evidence is not None
    row = verdicts.judge(one, one.evidence({}, found))
    # The better rate is the lowest of the two, which is a condition.
    assert row["verdict"].startswith(verdict), row
