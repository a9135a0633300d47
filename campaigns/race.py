"""Race training against PyTorch and JAX: the lookup and the recurrent models, step for step.

    uv run --extra oracle --with jax python -m campaigns.race docs/performance-training.md

All contestants start from the same parameters, see the same batches and take the same steps of all
runs at once; before any timing, their parameters after a few steps must agree. PyTorch works on
arrays with a leading axis of runs, JAX maps one run's step over the runs (`vmap`) and compiles all
steps as one loop (`jit`, `lax.scan`). Each has one thread, and CPU time is counted. Rounds of the
contestants alternate, and a ratio is the median over rounds. Takes about two minutes.
"""

import argparse
import itertools
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from campaigns import race_models
from sqrtdk.core import adam
from sqrtdk.experiments.encoder_decoder import model, recall
from sqrtdk.experiments.training import lookup
from sqrtdk.experiments.training import measure as training
from sqrtdk.storage import atomic, provenance
from sqrtdk.system import threads

Parameters = dict[str, np.ndarray]

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
"""Value of XLA_FLAGS with which JAX uses one thread."""

ROUNDS, SECONDS = 5, 0.1
"""Rounds of a case, and about how long the first contestant trains in one."""

AIM_D_K = 256
"""The d_k from which on training aims to be faster than warm JAX; than PyTorch, at every d_k."""

PACKAGE = Path(__file__).parents[1] / "src" / "sqrtdk"

AGREE = 3
"""Steps after which the contestants' parameters are compared."""


class Case(NamedTuple):
    """One race: the words of its row, the parameters, the batches, and three ways to train.

    Each way returns the parameters after as many steps as it is asked for.
    """

    name: str
    rtol: float
    contestants: dict[str, Callable[[int], Parameters]]


# Our side


def lookup_case(d_k: int, optimizer: str, dtype: str) -> Case:
    """Return the race of the default grid's lookup at one d_k."""
    slab: Any = {
        "d_k": d_k, "n_k": 16, "batch_size": 16, "d_model": 16, "d_v": 16, "noise_sd": 0.6,
        "steps": 400, "optimizer": optimizer, "training_dtype": dtype,
    }  # fmt: skip
    rates, scale = (
        np.array(x, dtype=dtype)[:, np.newaxis, np.newaxis]
        for x in (np.repeat([1e-4, 1e-3, 1e-2], 13), np.tile([1.0, d_k**-0.5, 1 / d_k], 13))
    )
    batches = training.draw(slab, 0)[0].astype(np.dtype(dtype))
    w_q, w_k = (w.astype(dtype) for w in training.projections(slab, 0))

    def ours(steps: int) -> Parameters:
        together = training._side_by_side(slab)
        parts = []
        for start in range(0, len(rates), together):
            part = slice(start, start + together)
            found = lookup.optimizer(slab["optimizer"], w_q, w_k, rates[part])
            for step in range(steps):
                found.step(
                    lookup.loss_d_product(
                        batches.at(step % len(batches.targets)),
                        found.product,
                        scale=scale[part],
                        loss="values",
                    )
                )
            parts.append(np.array(found.product))
        return {"product": np.concatenate(parts)}

    start = {name: np.repeat(w[np.newaxis], len(rates), 0) for name, w in (("q", w_q), ("k", w_k))}
    step = race_models.Lookup(rates, scale, tuple(batches), optimizer)
    return Case(
        f"lookup, {'Adam' if optimizer == 'adam' else 'SGD'}, d_k = {d_k}, {dtype}",
        1e-9 if dtype == "float64" else 2e-2,
        {"ours": ours, **race_models.contestants(step, start, finish=race_models.product)},
    )


def recurrent_case(reader: str, d_k: int, dtype: str) -> Case:
    """Return the race of one reader of `score_width`, eight seeds together."""
    seeds, length, n, batch, rate = range(recall.CHUNK // 8), 8, 32, 32, 0.003
    flat, _ = recall.initial(reader, seeds, length=length, n=n, d_k=d_k, dtype=dtype)
    shapes = model.shapes(reader, n_keys=length, n_values=recall.N_VALUES, n=n, d_k=d_k)
    stream = recall.batches(seeds, length=length, batch=batch, held=False)
    drawn = [next(stream) for _ in range(recall.CHUNK)]

    def ours(steps: int) -> Parameters:
        now = flat.copy()
        parameters, gradient = adam.views(now, shapes), np.empty_like(now)
        into, state = adam.views(gradient, shapes), adam.AdamState(now)
        scratch = np.empty_like(now)
        for step in range(steps):
            data = drawn[step % len(drawn)]
            found = model.forward(reader, parameters, data)
            d_logits = model.logit_gradient(found.logits, data.answer)
            for name, one in model.backward(reader, parameters, data, found, d_logits).items():
                into[name][...] = one
            state.step(now, gradient, scratch, rate=rate)
        return parameters

    start = {name: one.copy() for name, one in adam.views(flat, shapes).items()}
    data = tuple(np.stack([one[place] for one in drawn]) for place in range(3))
    step = race_models.Recurrent(reader, rate, data)
    return Case(
        f"recurrent, {reader}, d_k = {d_k}, {dtype}",
        1e-6 if dtype == "float64" else 2e-2,
        {"ours": ours, **race_models.contestants(step, start)},
    )


def cases() -> Iterator[Case]:
    """Yield the races."""
    for dtype, optimizer in itertools.product(("float64", "float32"), ("sgd", "adam")):
        for d_k in (16, 64, 256, 1024):
            yield lookup_case(d_k, optimizer, dtype)
    yield recurrent_case("fixed", 64, "float64")
    for dtype in ("float64", "float32"):
        for reader, d_k in itertools.product(("scaled_dot", "additive"), (64, 256, 1024)):
            yield recurrent_case(reader, d_k, dtype)


# The race


class Result(NamedTuple):
    """CPU seconds of one step, by contestant, and of its first call beyond its steps.

    A ratio is the median over rounds, with the least and the most.
    """

    step_s: dict[str, float]
    ratio: dict[str, tuple[float, float, float]]
    first_s: dict[str, float]


def _cpu(train: Callable[[int], Parameters], steps: int) -> float:
    start = time.process_time()
    train(steps)
    return time.process_time() - start


def agree(case: Case) -> None:
    """Stop with a line if the contestants do not train the same thing."""
    found = {name: train(AGREE) for name, train in case.contestants.items()}
    for name, parameters in found.items():
        for key, one in found["ours"].items():
            # Adam's first steps have the size of the rate whatever the gradient, so a gradient of
            # rounding size may go either way; a few entries may.
            close = np.isclose(parameters[key], one, rtol=case.rtol, atol=case.rtol)
            if np.mean(close) < 0.99:
                sys.exit(f"{case.name}: {name} differs from ours in {key}")


def race(case: Case) -> Result:
    """Time all contestants, one after the other, several times."""
    agree(case)
    steps = max(2, math.ceil(SECONDS / (_cpu(case.contestants["ours"], 4) / 4)))
    # The first call with this number of steps compiles.
    first = {name: _cpu(train, steps) for name, train in case.contestants.items()}
    rounds: list[dict[str, float]] = [
        {name: _cpu(train, steps) for name, train in case.contestants.items()}
        for _ in range(ROUNDS)
    ]
    usual = {name: statistics.median(one[name] for one in rounds) for name in first}
    return Result(
        {name: value / steps for name, value in usual.items()},
        {name: _spread([one[name] / one["ours"] for one in rounds]) for name in first},
        {name: max(0.0, first[name] - usual[name]) for name in first},
    )


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    return statistics.median(values), min(values), max(values)


def missed(found: Sequence[tuple[str, Result]]) -> list[str]:
    """Return where the aim is missed: the names of the races, and the peer's ratio."""
    return [
        f"{name} ({peer} {one.ratio[peer][0]:.2f})"
        for name, one in found
        for peer in one.ratio
        if one.ratio[peer][0] < 1
        and (peer == "PyTorch" or int(name.partition("d_k = ")[2].partition(",")[0]) >= AIM_D_K)
    ]


def page(found: Sequence[tuple[str, Result]], versions: str) -> str:
    """Return the page: a row for each race."""
    names = list(found[0][1].ratio)
    peers = [name for name in names if name != "ours"]
    head = ["race", "ours, ms a step", *peers]
    head += ["JAX with compiling, 400 steps", "compiling, s"] if "JAX" in peers else []
    rows = []
    for name, one in found:
        cells = [name, f"{1000 * one.step_s['ours']:.2f}"]
        for peer in peers:
            middle, low, high = one.ratio[peer]
            cells.append(f"{middle:.2f} ({low:.2f}–{high:.2f})")
        if "JAX" in peers:
            whole = one.first_s["JAX"] / (400 * one.step_s["ours"])
            cells += [f"{one.ratio['JAX'][0] + whole:.2f}", f"{one.first_s['JAX']:.1f}"]
        rows.append(cells)
    lines = [f"| {' | '.join(cells)} |" for cells in [head, ["---:"] * len(head), *rows]]
    lines[1] = lines[1].replace("---:", "---", 1)
    return "\n".join(
        [
            "# Training against PyTorch and JAX",
            "",
            "`uv run --extra oracle --with jax python -m campaigns.race "
            "docs/performance-training.md` writes this page. Entries are the CPU time of a "
            "contestant over ours, so above 1 ours is faster: 39 runs of the lookup, or 8 seeds "
            "of a recurrent model, each step of all of them at once, on one thread. JAX is "
            "measured warm; the next column adds the compiling of one shape, as a run of 400 "
            f"steps has it. Medians of {ROUNDS} rounds, with the least and the most.",
            "",
            "The aim is to be faster than PyTorch everywhere, and than warm JAX from d_k = "
            f"{AIM_D_K} on. It is missed by: {', '.join(missed(found)) or 'none'}.",
            "",
            *lines,
            "",
            f"{versions} Load average over one minute at the end: {os.getloadavg()[0]:.2f}. Code: "
            f"{provenance.revision(PACKAGE)['commit'][:7]}.",
            "",
        ]
    )


def main() -> None:
    """Race, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, nargs="?")
    target = parser.parse_args().page
    if os.environ.get("XLA_FLAGS") != ONE_THREAD:
        # The libraries read these variables when they are loaded.
        threads.use_one()
        os.environ["XLA_FLAGS"] = ONE_THREAD
        os.execv(sys.executable, [sys.executable, "-m", "campaigns.race", *sys.argv[1:]])
    found = []
    for case in cases():
        one = race(case)
        found.append((case.name, one))
        said = ", ".join(f"{name} {ratio[0]:.2f}" for name, ratio in one.ratio.items())
        print(f"{case.name}: {1000 * one.step_s['ours']:.2f} ms a step; {said}", flush=True)
    text = page(found, race_models.versions())
    if target is None:
        print(text)
    else:
        atomic.write_atomically(target, text)


if __name__ == "__main__":
    main()
