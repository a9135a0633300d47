"""The remedies for unscaled scores: gradients, steps, cells, tables, claims and figures."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from experiments.test_lookup import batches, projections
from oracles import D_K, assert_is_gradient

from sqrtdk.claims import verdicts
from sqrtdk.core.attention import Factor, Scale, WithSink, attention, project
from sqrtdk.core.gradients import gradients, projection_gradients
from sqrtdk.core.scale_rules import QKNorm, SoftCap
from sqrtdk.experiments import cells
from sqrtdk.experiments.remedies import (
    asked,
    beside,
    claims,
    figures,
    instability,
    ladder,
    measure,
    model,
    transfer,
)
from sqrtdk.experiments.remedies.model import REMEDIES, Head, Remedy
from sqrtdk.experiments.story import RunTables
from sqrtdk.experiments.training import rates
from sqrtdk.experiments.training.lookup import Batch
from sqrtdk.figures import words
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import WholeTable
from sqrtdk.storage import tables

Arrays = tuple[np.ndarray, np.ndarray]
NORM, CAP, PLAIN, SINK = (
    Remedy(normalized=True, learned=True, multiplier=3.0),
    Remedy(learned=True, cap=2.0),
    Remedy(learned=True, exponent=0.5),
    Remedy(learned=True, exponent=0.5, sink=0.7),
)
FORMULAS = pytest.mark.parametrize(
    "remedy", [NORM, CAP, PLAIN, SINK], ids=["qk_norm", "soft_cap", "factor", "sink"]
)


def rule_of(remedy: Remedy, scale: float) -> Scale:
    """The remedy's logits by the scale rules, which share no code with it."""
    if remedy.normalized:
        return QKNorm(scale)
    if remedy.sink is not None:
        return WithSink(Factor(scale), remedy.sink)
    return SoftCap(scale, remedy.cap) if math.isfinite(remedy.cap) else scale


def explicit(batch: Batch, w_q: np.ndarray, w_k: np.ndarray, rule: Scale) -> tuple[float, Arrays]:
    """The loss and dL/dW_q, dL/dW_k through q and k themselves."""
    q, k = project(batch.queries, w_q), project(batch.items, w_k)
    _, values, _, targets = batch
    found = attention(q, k, values, scale=rule)
    apart = found.output - values[targets]
    by = gradients(q, k, values, apart / len(apart), found, scale=rule)
    loss = float(np.sum(apart * apart) / len(apart) / 2)
    return loss, (
        projection_gradients(batch.queries, w_q, by.q).w,
        projection_gradients(batch.items, w_k, by.k).w,
    )


def head_of(remedy: Remedy, *, rate: float = 0.03) -> Head:
    return Head(*projections(), [remedy], rate=np.full((1, 1, 1), rate))


def gradient_of(head: Head, batch: Batch) -> tuple[np.ndarray, np.ndarray, float]:
    made = model.forward(batch, head.products(), head.scale, head.cap)
    found = model.backward(batch, made, head.sink)
    by_q, by_k = head.d_projections(found)
    return by_q[0], by_k[0], float(found.log_scale[0, 0, 0])


@FORMULAS
def test_gradients_are_those_of_the_explicit_route_and_finite_differences(remedy: Remedy) -> None:
    batch, (w_q, w_k) = batches(1).at(0), projections()
    scale = remedy.factor(D_K)
    by_q, by_k, by_scale = gradient_of(head_of(remedy), batch)
    _, (q, k) = explicit(batch, w_q, w_k, rule_of(remedy, scale))
    # Sums of some hundred products of numbers of size 1, in another order.
    np.testing.assert_allclose(by_q, q, rtol=0, atol=1e-12 * np.abs(q).max())
    np.testing.assert_allclose(by_k, k, rtol=0, atol=1e-12 * np.abs(k).max())

    def loss(log_scale: np.ndarray) -> float:
        return explicit(batch, w_q, w_k, rule_of(remedy, scale * math.exp(log_scale[0])))[0]

    assert_is_gradient(np.array([by_scale]), loss, np.zeros(1))


@FORMULAS
def test_gradients_are_those_of_autograd(remedy: Remedy) -> None:
    torch = pytest.importorskip("torch", reason="the optional extra `oracle` is not installed")
    batch = batches(1).at(0)
    w_q, w_k = (torch.tensor(w, requires_grad=True) for w in projections())
    log_scale = torch.zeros((), dtype=torch.float64, requires_grad=True)
    items, values, queries, targets = (torch.tensor(x) for x in batch)
    q, k = queries @ w_q, items @ w_k
    if remedy.normalized:
        q, k = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
    logits = remedy.factor(D_K) * torch.exp(log_scale) * q @ k.T
    if math.isfinite(remedy.cap):
        logits = remedy.cap * torch.tanh(logits / remedy.cap)
    if remedy.sink is not None:
        sink = torch.full((len(logits), 1), remedy.sink, dtype=torch.float64)
        logits, values = torch.cat([logits, sink], -1), torch.cat([values, 0 * values[:1]])
    error = torch.softmax(logits, -1) @ values - values[targets]
    ((error**2).sum(-1).mean() / 2).backward()
    found = gradient_of(head_of(remedy), batch)
    for mine, theirs in zip(found, (w_q.grad, w_k.grad, log_scale.grad), strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=0, atol=1e-12)


class PaperAdamW:
    """Algorithm 2 of Loshchilov and Hutter 2019, line by line."""

    def __init__(self, decay: float) -> None:
        self.decay, self.t, self.m, self.v = decay, 0, 0.0, 0.0

    def step(self, w: Any, gradient: Any, rate: float) -> Any:
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        m, v = self.m / (1 - 0.9**self.t), self.v / (1 - 0.999**self.t)
        return w - rate * self.decay * w - rate * m / (np.sqrt(v) + 1e-8)


CHANGED = {
    "off": Remedy(),
    "warmup": Remedy(warmup=4),
    "adamw": Remedy(decay=0.5),
    "clipping": Remedy(clip=0.05),
    "temperature": Remedy(learned=True),
    "soft_cap": Remedy(cap=3.0),
    "qk_clip": Remedy(qk_clip=2.0),
    "qk_norm_8": Remedy(normalized=True, learned=True, multiplier=8.0),
}
"""Remedies that change every step of a few on the small task."""


@pytest.mark.parametrize("name", CHANGED)
def test_steps_are_those_of_the_published_algorithms(name: str) -> None:
    remedy, rate, steps = CHANGED[name], 0.03, 6
    library, held_out = batches(steps), batches(2, seed=1)
    head = head_of(remedy, rate=rate)
    model.train(head, library, held_out, level=0.9)
    w_q, w_k = projections()
    adam_q, adam_k, adam_s = PaperAdamW(remedy.decay), PaperAdamW(remedy.decay), PaperAdamW(0.0)
    log_scale, start = 0.0, remedy.factor(D_K)
    for step in range(steps):
        batch = library.at(step)
        rule = rule_of(remedy, start * math.exp(log_scale))
        _, (by_q, by_k) = explicit(batch, w_q, w_k, rule)
        norm = math.sqrt(np.sum(by_q**2) + np.sum(by_k**2))
        assert name != "clipping" or norm > remedy.clip
        shrink = min(1.0, remedy.clip / norm)
        largest = attention(
            project(batch.queries, w_q), project(batch.items, w_k), batch.values, scale=rule
        ).logits.max()
        if remedy.learned:
            h = 1e-5
            ends = [
                explicit(batch, w_q, w_k, rule_of(remedy, start * math.exp(log_scale + x)))[0]
                for x in (h, -h)
            ]
            log_scale = adam_s.step(log_scale, (ends[0] - ends[1]) / (2 * h), model.SCALE_RATE)
        now = rate * min(1.0, (step + 1) / remedy.warmup)
        w_q, w_k = adam_q.step(w_q, shrink * by_q, now), adam_k.step(w_k, shrink * by_k, now)
        if largest > remedy.qk_clip:
            w_q, w_k = (w * math.sqrt(remedy.qk_clip / largest) for w in (w_q, w_k))
    # Adam divides by the size of a gradient's entry, so a rounding of 1e-16 may become 1e-10; the
    # slope of the scale is a finite difference, with an error of 1e-9.
    atol = 1e-7 if remedy.learned else 1e-9
    np.testing.assert_allclose(head.w_q[0], w_q, rtol=0, atol=atol)
    np.testing.assert_allclose(head.w_k[0], w_k, rtol=0, atol=atol)
    assert float(head.log_scale[0, 0, 0]) == pytest.approx(log_scale, abs=1e-7)
    plain = head_of(Remedy(), rate=rate)
    model.train(plain, library, held_out, level=0.9)
    assert (name == "off") == np.array_equal(plain.w_q, head.w_q)


# Cells

SLAB: dict[str, Any] = {
    "d_k": 11, "n_k": 7, "batch_size": 5, "d_model": 13, "d_v": 3, "noise_sd": 0.5, "steps": 8,
    "remedy": list(REMEDIES), "learning_rate": [0.01, 0.1], "seeds": [0, 2],
}  # fmt: skip


def rows(**changes: Any) -> list[tables.Row]:
    return cells.measure_cells(measure.cells(SLAB | changes), measure.COLUMNS)


def as_text(found: list[tables.Row], **at: Any) -> list[str]:
    kept = [row for row in found if all(row[name] == value for name, value in at.items())]
    assert kept
    order = sorted(kept, key=tables.axes_of(measure.COLUMNS))
    return tables.text(order, measure.COLUMNS).splitlines()[1:]


def test_no_digit_depends_on_how_the_grid_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows()
    assert len(whole) == 2 * 2 * len(REMEDIES)
    part = rows(seeds=[1, 2], learning_rate=[0.1], remedy=["qk_norm_8", "soft_cap", "clipping"])
    for name in ("qk_norm_8", "soft_cap", "clipping"):
        at = {"seed": 1, "learning_rate": 0.1, "remedy": name}
        assert as_text(part, remedy=name) == as_text(whole, **at)
    monkeypatch.setattr(measure.training, "ENTRIES", 1)
    assert as_text(rows()) == as_text(whole)


def test_plain_arms_are_those_of_the_experiment_training() -> None:
    training = measure.training
    rules = {
        "off": {"rule": "constant", "value": 1}, "on": {"rule": "power", "exponent": 0.5},
    }  # fmt: skip
    names = ("d_k", "n_k", "batch_size", "d_model", "d_v", "noise_sd", "steps", "learning_rate")
    slab = {name: SLAB[name] for name in names}
    slab |= {"optimizer": "adam", "loss": "values", "scaling": rules, "seeds": [0, 1]}
    found = cells.measure_cells(training.cells(slab), training.COLUMNS)
    ends = {(r["scaling"], r["learning_rate"]): r for r in found if r["step"] == SLAB["steps"]}
    mine = rows(remedy=list(rules), seeds=[0, 1])
    assert len(mine) == len(ends)
    for row in mine:
        other = ends[row["remedy"], row["learning_rate"]]
        for name in ("accuracy", "held_out_loss", "entropy_nats", "steps_to_90"):
            # The same operations, but for the place at which the scale multiplies.
            assert row[name] == pytest.approx(other[name], rel=1e-9, nan_ok=True), name


def test_alignment_is_the_mean_cosine_of_a_query_and_its_key() -> None:
    (row,) = rows(remedy=["off"], learning_rate=[0.01], seeds=[0, 1])
    _, held_out = measure.draw(SLAB, 0)
    w_q, w_k = measure.training.projections(SLAB, 0)
    cosines, logits = [], []
    for i in range(len(held_out.targets)):
        library = held_out.at(i)
        q, k = library.queries @ w_q, library.items @ w_k
        logits.append((q @ k.T).max())
        for one, target in zip(q, library.targets, strict=True):
            cosines.append(one @ k[target] / np.linalg.norm(one) / np.linalg.norm(k[target]))
    assert row["start_alignment"] == pytest.approx(np.mean(cosines), rel=1e-9)
    assert row["start_max_logit"] == pytest.approx(max(logits), rel=1e-12)


def test_a_run_that_diverges_says_so_and_the_others_go_on() -> None:
    found = rows(remedy=["off", "on"], learning_rate=[0.01, 1e200], seeds=[0, 1])
    by = {(row["remedy"], row["learning_rate"]): row for row in found}
    assert by["off", 1e200]["diverged"] == 1
    assert math.isnan(by["off", 1e200]["held_out_loss"])
    assert by["on", 0.01]["diverged"] == 0


# Tables


def test_sensitivity_is_the_expected_loss_above_the_best_rate() -> None:
    # Rates a decade apart: the integral of the loss over them is (2 + 4)/2 + (4 + 1)/2, over two
    # decades; the best rate is the last.
    found = ladder.sensitivity(np.array([[2.0, 4.0, 1.0]] * 2), [0.01, 0.1, 1.0])
    np.testing.assert_allclose(found, [5.5 / 2 - 1.0] * 2)
    # The best rate is that of the other half of the seeds.
    crossed = ladder.sensitivity(np.array([[0.0, 2.0], [4.0, 1.0]]), [0.1, 1.0])
    np.testing.assert_allclose(crossed, [1.0 - 2.0, 2.5 - 4.0])


def test_the_loss_of_equal_weights_is_that_of_random_values() -> None:
    values = np.random.default_rng(0).standard_normal((20_000, 7, 3))
    apart = values.mean(axis=1) - values[:, 0]
    # 20 000 draws of a loss with a standard deviation of about 1: a standard error of 0.7 %.
    expected = np.mean(np.sum(apart**2, axis=-1)) / 2
    assert ladder.equal_weights_loss(3, 7) == pytest.approx(expected, rel=0.03)


def table_of(steps: dict[str, Any], seeds: int = 8, budget: int = 400) -> pd.DataFrame:
    """ladder.csv at d_k = 1024 of runs with these steps by remedy, at the middle of three rates."""
    # At the margin, one draw in twenty is decided; this is not one of them.
    rng, found = np.random.default_rng(1), {}
    for name, typical in steps.items():
        drawn = np.round(typical * np.exp(0.2 * rng.standard_normal((seeds, 1))))
        near = np.concatenate([3 * drawn, drawn, 3 * drawn], axis=1)
        runs = rates.Runs(
            list(range(seeds)), [0.01, 0.03, 0.1], np.where(near <= budget, near, np.inf),
            np.ones_like(near), np.zeros_like(near),
        )  # fmt: skip
        found[name] = runs, near / 1000
    settings: Any = {"steps": budget, "learning_rate": [0.01, 0.03, 0.1]}
    frame = pd.DataFrame(list(ladder.rows_of(found, settings)))
    return frame.assign(d_k=1024)


@pytest.mark.parametrize(
    ("steps", "verdict"),
    [(10, "true"), (5, "true"), (60, "false"), (1000, "not measured"), (20, "not measured")],
)
def test_a_remedy_replaces_the_scale_if_it_is_surely_not_much_slower(
    steps: float, verdict: str
) -> None:
    table = table_of({"on": 10, "warmup": steps})
    claim = next(one for one in claims.CLAIMS if one.claim == "replaces_warmup")
    assert claim.evidence is not None
    row = verdicts.judge(claim, claim.evidence({}, table))
    assert row["verdict"] == verdict, row["condition"]
    small = verdicts.judge(claim, claim.evidence({}, table.assign(d_k=64)))
    assert small["verdict"] == "not measured"


def test_the_best_rate_is_interpolated_and_its_slope_is_that_of_its_logarithm() -> None:
    logs = np.log([0.01, 0.03, 0.1, 0.3])
    # Steps whose logarithm is a parabola of ln rate, lowest at rates 0.02 / d_k^(1/4).
    sizes = [16, 64, 256]
    best = []
    for d_k in sizes:
        lowest = math.log(0.08) - 0.25 * math.log(d_k / 16)
        steps = 10 * np.exp(0.3 * (logs - lowest) ** 2)
        runs = rates.Runs([0], np.exp(logs).tolist(), steps[np.newaxis], steps, steps)
        best.append(transfer.best_rates(runs, 400))
        # Where the lowest rate of the grid is not at an end, a parabola is exact.
        assert best[-1][0] == pytest.approx(lowest, abs=1e-9)
    slope = transfer.slopes(np.stack(best, axis=1), sizes)
    np.testing.assert_allclose(slope, [-0.25])


def runs_table(exponent: float, *, fails_at: float) -> pd.DataFrame:
    """runs.csv of one remedy whose largest logit is rate² d_k^exponent, and fails from one on."""
    found = []
    for d_k in (16, 64, 256, 1024):
        for rate in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0):
            for seed in range(6):
                logit = 1000 * rate**2 * d_k**exponent * (1 + 0.01 * seed)
                loss = 10.0 if logit > fails_at else 0.1
                found.append(
                    {"n_k": 16, "batch_size": 16, "remedy": "off", "d_k": d_k, "seed": seed,
                     "learning_rate": rate, "max_logit": logit, "held_out_loss": loss}
                )  # fmt: skip
    return pd.DataFrame(found)


@pytest.mark.parametrize("exponent", [0.0, 0.5])
def test_a_limit_is_predicted_from_logits_that_grow_as_a_power(exponent: float) -> None:
    fails_at = 2000.0
    settings: Any = {"d_v": 16}
    (row,) = instability.rows(settings, runs_table(exponent, fails_at=fails_at))
    assert row["separated"] == 1
    assert row["judged"] == 6
    expected = math.sqrt(fails_at / 1000 / 1024**exponent)
    # The threshold is known between two logits of the grid, and the limit between two rates.
    assert abs(math.log10(row["predicted_limit"] / expected)) < 0.25
    assert abs(math.log10(row["limit"] / expected)) < 0.25
    claim = next(one for one in claims.CLAIMS if one.claim == "instability")
    found = verdicts.judge(claim, [WholeTable(pd.DataFrame([row]), "remedy = off")])
    assert found["verdict"] == "true"
    # That nothing changes with d_k is right only if logits do not grow with it.
    assert (abs(row["gap_same"]) < 0.1) == (exponent == 0)


def test_people_are_told_of_limits_and_best_rates_with_the_numbers_of_a_run() -> None:
    settings: Any = {"d_v": 16}
    (row,) = instability.rows(settings, runs_table(0.5, fails_at=2000.0))
    rows = [
        {**row, "remedy": name, **more}
        for name, more in (
            ("on", {"limit": 0.25, "predicted_limit": 0.125}),
            ("soft_cap", {"judged": 0, "missed": 6}),
            ("qk_norm_8", {"judged": 0, "agree_stable": 6}),
        )
    ]
    slopes = [
        {"remedy": "off", "d_k": d_k, "best_rate": 4 / d_k, "slope": -1.0, "slope_low": -1.0,
         "slope_high": -1.0}
        for d_k in (16, 64)
    ]  # fmt: skip
    made = {"instability": pd.DataFrame(rows), "transfer": pd.DataFrame(slopes)}
    run: Any = SimpleNamespace(table=made.__getitem__)
    told = asked.predicted(run)
    assert "at d_k = 1024 from these learning rates on: 0.250 with 1/√d_k (predicted 0.125)" in told
    assert "with a soft cap only one of both limits is on the grid" in told
    assert "none fails with QK-norm, as predicted" in told
    assert "without a scale from 0.250 at 16 to 0.0625 at 64" in asked.transferred(run)
    made |= {name: table[:0] for name, table in made.items()}
    for answer in (asked.predicted, asked.transferred):
        with pytest.raises(MissingError):
            answer(run)


@pytest.mark.parametrize(
    ("states", "level"), [([0, 0, 1, 1], 0.02), ([0, 1, 0, 1], 0.2), ([0, 0, 0, 0], math.inf),
                          ([1, 1, 1, 1], 0.0)]
)  # fmt: skip
def test_a_limit_is_where_runs_fail_for_good(states: list[int], level: float) -> None:
    rates_ = np.array([0.004, 0.01, 0.04, 1.0])
    found = math.exp(instability.limit(np.array(states, dtype=float), 0.5, rates_))
    assert found == pytest.approx(level)


def test_the_prototypes_numbers_are_those_of_known_remedies_and_marked() -> None:
    assert {name for name, _ in ladder.PROTOTYPE} <= set(REMEDIES)
    column = next(one for one in ladder.COLUMNS if one.name == "prototype_steps")
    assert "prototype" in column.meaning
    assert column.optional


def test_the_prototypes_steps_stand_beside_those_of_a_run(tmp_path: Path) -> None:
    found = table_of({"on": 10, "warmup": 60, "soft_cap": 1000})
    sizes = {"n_k": 16, "batch_size": 16}
    text = tables.text(
        [
            dict.fromkeys((one.name for one in ladder.COLUMNS), math.nan) | row | sizes
            for row in found.to_dict("records")
        ],
        ladder.COLUMNS,
    )
    (tmp_path / "remedies").mkdir()
    (tmp_path / "remedies/ladder.csv").write_text(text, encoding="utf-8")
    (table,) = beside.tables(RunTables("remedies", tmp_path, {}))
    ((_, lines),) = table.blocks
    shown = {size: [cell.mean if cell else "" for cell in cells] for size, cells in lines}
    assert table.arms == ["d_k = 1024, this run", "d_k = 1024, prototype"]
    assert shown["warm-up (warmup)"][1] == "214"
    assert shown["1/√d_k (on)"][1] == "9.5"
    assert shown["soft cap (soft_cap)"] == ["more than 400", ""]
    assert "prototype" in table.meaning


def test_a_size_that_the_prototype_did_not_try_has_no_column_for_it(tmp_path: Path) -> None:
    sizes = {"n_k": 16, "batch_size": 16, "d_k": 256}
    rows = [
        dict.fromkeys((one.name for one in ladder.COLUMNS), math.nan) | row | sizes
        for row in table_of({"on": 10}).to_dict("records")
    ]
    (tmp_path / "remedies").mkdir()
    text = tables.text(rows, ladder.COLUMNS)
    (tmp_path / "remedies/ladder.csv").write_text(text, encoding="utf-8")
    (table,) = beside.tables(RunTables("remedies", tmp_path, {}))
    assert table.arms == ["d_k = 256"]


def test_the_figure_of_losses_names_what_ends_far_above_the_least() -> None:
    table = pd.DataFrame({"remedy": ["on", "on", "off", "adamw"], "mean": [0.5, 0.1, 0.2, 0.7]})
    said = figures._says_ends(table)
    assert said.endswith("above the least loss of all, 0.10: AdamW 7.0 times it.")
    assert figures._says_ends(table[:3]) == "At its best rate each ends at most 2.0 times the best."


def test_every_remedy_has_one_look_and_words() -> None:
    looks = figures.looks_of(pd.DataFrame({"remedy": sorted(REMEDIES)}))
    # Two lines of one colour differ in their stroke, so that no marker has to be made out.
    assert len({(one.color, one.dashed) for one in looks.values()}) == len(REMEDIES)
    assert set(words.REMEDIES) == set(REMEDIES)
