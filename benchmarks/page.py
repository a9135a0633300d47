"""Write the measured rounds as a page and a figure.

python -m benchmarks.page docs/benchmarks.csv docs/performance.png docs/performance.md
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, ScalarFormatter

from benchmarks.measure import DS, NS, Row
from sqrtdk.figures import style
from sqrtdk.storage import atomic, tables
from sqrtdk.system import command_line
from sqrtdk.system import errors as system_errors

LEAST_ROUNDS = 5


class RoundsError(system_errors.UserError):
    """Too few rounds to show the spread of a number."""


def shown(values: Sequence[float], digits: int = 3) -> str:
    """Format the median, and in brackets the extremes of the rounds. Raises RoundsError below 5.

    >>> shown([1.0, 1.25, 1.5, 1.75, 2.0])
    '1.5 (1–2)'
    """
    if len(values) < LEAST_ROUNDS:
        raise RoundsError(f"{len(values)} rounds; a figure needs {LEAST_ROUNDS} to show its spread")
    ends = (float(np.median(values)), float(np.min(values)), float(np.max(values)))
    middle, low, high = (f"{value:.{digits}g}" for value in ends)
    return f"{middle} ({low}–{high})"


class Rounds:
    """The measured table: values of a contestant by round."""

    def __init__(self, table: pd.DataFrame) -> None:
        """Take a table with the columns of `measure.Row`."""
        self.table = table
        self._race = {
            key: group.sort_values("round")["value"].to_numpy(dtype=float)
            for key, group in table[table["benchmark"] == "race"].groupby(
                ["contestant", "dtype", "n", "d"]
            )
        }

    def race(self, contestant: str, dtype: str, n: int, d: int) -> np.ndarray | None:
        """Return CPU seconds of one cell with both rules, by round."""
        return self._race.get((contestant, dtype, str(n), str(d)))

    def total(self, contestant: str, dtype: str, cases: Sequence[tuple[int, int]]) -> np.ndarray:
        """Return these seconds summed over cases; raises KeyError if one was not measured."""
        each = [self._race[contestant, dtype, str(n), str(d)] for n, d in cases]
        return np.asarray(np.sum(each, axis=0))

    def cases(self, *contestants: str, dtype: str = "float64") -> list[tuple[int, int]]:
        """Return the cases that all of these contestants ran."""
        return [
            (n, d)
            for n in NS
            for d in DS
            if all(self.race(one, dtype, n, d) is not None for one in contestants)
        ]

    def of(self, benchmark: str) -> dict[str, np.ndarray]:
        """Return values by round of every contestant of another benchmark."""
        table = self.table[self.table["benchmark"] == benchmark]
        return {
            str(name): group.sort_values("round")["value"].to_numpy(dtype=float)
            for name, group in table.groupby("contestant", sort=False)
        }


@dataclass(frozen=True)
class Target:
    """One line of the table of targets."""

    what: str
    target: str
    values: np.ndarray
    reached: bool
    """Return whether the median reaches it."""
    where: str = ""

    @property
    def found(self) -> str:
        """Return the measured value with its spread, in more digits than the target has."""
        return shown(list(self.values), 4)


def _at_most(what: str, limit: float, values: np.ndarray, where: str = "") -> Target:
    return Target(what, f"≤ {limit:g}", values, bool(np.median(values) <= limit), where)


def _at_least(what: str, limit: float, values: np.ndarray, where: str = "") -> Target:
    return Target(what, f"≥ {limit:g}", values, bool(np.median(values) >= limit), where)


def _extreme(
    rounds: Rounds, one: str, other: str, cases: Sequence[tuple[int, int]], *, largest: bool
) -> tuple[np.ndarray, str]:
    """Return the ratio of two contestants for the case with the largest or smallest median."""
    ratios = {
        case: rounds.total(one, "float64", [case]) / rounds.total(other, "float64", [case])
        for case in cases
    }
    pick = max if largest else min
    n, d = pick(ratios, key=lambda case: float(np.median(ratios[case])))
    return ratios[n, d], f"at n = {n}, d = {d}"


def targets(rounds: Rounds) -> list[Target]:
    """Return the targets of the kernel and the measured values."""
    found = []
    grid = rounds.cases("floor")
    total = rounds.total
    for dtype, limit in (("float64", 1.10), ("float32", 1.15)):
        ratio = total("kernel_direct", dtype, grid) / total("floor", dtype, grid)
        found.append(
            _at_most(f"kernel, every gradient formed / floor, grid, {dtype}", limit, ratio)
        )
    ratio = total("kernel_gram", "float64", grid) / total("floor", "float64", grid)
    found.append(_at_most("kernel with Gram matrices / floor, grid", 1.0, ratio))
    ratio = total("columns", "float64", grid) / total("kernel_gram", "float64", grid)
    found.append(_at_most("kernel and all columns / kernel, grid", 1.10, ratio))
    for what, limit, chosen in (
        ("n ≥ 64, d ≥ 256", 1.3, [(n, d) for n, d in grid if n >= 64 and d >= 256]),
        ("n = d = 64", 1.5, [(64, 64)]),
        ("n ≥ 64, d ≤ 16", 2.2, [(n, d) for n, d in grid if n >= 64 and d <= 16]),
        ("n = 16, d = 1", 3.0, [(16, 1)]),
    ):
        if set(chosen) <= set(grid) and chosen:
            worst = _extreme(rounds, "kernel_direct", "floor", chosen, largest=True)
            found.append(_at_most(f"kernel / floor, worst of {what}", limit, *worst))
    if rounds.cases("torch_batched"):
        ratio = total("torch_batched", "float64", grid)
        direct, gram = (total(name, "float64", grid) for name in ("kernel_direct", "kernel_gram"))
        found.append(_at_least("PyTorch, batched / kernel, grid", 1.6, ratio / direct))
        found.append(_at_least("PyTorch, batched / kernel with Gram, grid", 2.0, ratio / gram))
        large = [(n, d) for n, d in grid if n >= 64]
        if large:
            worst = _extreme(rounds, "torch_batched", "kernel_gram", large, largest=False)
            found.append(_at_least("PyTorch, batched / kernel, worst of n ≥ 64", 1.4, *worst))
        single = rounds.cases("torch_single")
        best = _extreme(rounds, "torch_single", "kernel_gram", single, largest=True)
        found.append(_at_least("PyTorch, cell by cell / kernel, best of n = 16", 20, *best))
    ratio = total("chapter", "float64", grid) / total("kernel_gram", "float64", grid)
    found.append(_at_least("the chapter's code / kernel, grid", 1.6, ratio))
    if (1024, 64) in rounds.cases("jacobian"):
        ratio = total("jacobian", "float64", [(1024, 64)])
        ratio = ratio / total("kernel_gram", "float64", [(1024, 64)])
        found.append(_at_least("explicit Jacobians / kernel, n = 1024, d = 64", 100, ratio))
    work = rounds.of("worker")
    for name in dict.fromkeys(name.split(":")[0] for name in work):
        ratio = work[f"{name}: job"] / work[f"{name}: random numbers and kernel"]
        found.append(_at_most(f"whole job / random numbers and kernel, {name}", 1.10, ratio))
    peaks = rounds.of("memory")
    for name, limit in (("n = d = 1024", 120), ("n = 16384", 400)):
        if name in peaks:
            found.append(_at_most(f"peak memory over imports, MiB, {name}", limit, peaks[name]))
    return found


def ratios(rounds: Rounds, one: str, other: str, dtype: str) -> dict[int, dict[int, str]]:
    """Return the ratio of two contestants by n and d: median with spread."""
    cases = rounds.cases(one, other, dtype=dtype)
    found: dict[int, dict[int, str]] = {}
    for n, d in cases:
        values = rounds.total(one, dtype, [(n, d)]) / rounds.total(other, dtype, [(n, d)])
        found.setdefault(n, {})[d] = shown(list(values))
    return found


def narrow_ratios(rounds: Rounds) -> dict[int, dict[int, str]]:
    """Return kernel over floor without 512-bit vectors, by n and d."""
    table = rounds.table
    again = Rounds(
        table[table["benchmark"] == "race, narrow"].assign(benchmark="race"),
    )
    return ratios(again, "kernel_direct", "floor", "float64")


def errors(rounds: Rounds) -> dict[str, dict[int, str]]:
    """Return the error of float32 by metric and d: median with spread over draws."""
    table = rounds.table[rounds.table["benchmark"] == "float32"]
    found: dict[str, dict[int, str]] = {}
    for (metric, d), group in table.groupby(["contestant", "d"], sort=False):
        found.setdefault(str(metric), {})[int(str(d))] = shown(
            list(group["value"].astype(float)), 2
        )
    return found


def exponents(rounds: Rounds) -> dict[str, str]:
    """Return power laws of the kernel's time, fitted in each round over the largest sizes."""
    found: dict[str, str] = {}
    grid = rounds.cases("kernel_direct")
    for n in NS:
        found |= _fit(rounds, f"time against d, n = {n}", [(n, d) for d in DS[-3:]], 1, grid)
    for d in DS:
        found |= _fit(rounds, f"time against n, d = {d}", [(n, d) for n in NS[-3:]], 0, grid)
    peaks, times = rounds.of("memory"), rounds.of("memory time")
    seeds = {"n = 64, 100 seeds": 100, "n = 64, 1000 seeds": 1000}
    found |= _grows(times, "time of a job against seeds, n = d = 64", seeds)
    found |= _grows(peaks, "peak memory against seeds, n = d = 64", seeds)
    lengths = {f"n = {n}": n for n in (1024, 4096, 16384)}
    found |= _grows(peaks, "peak memory against n, d = 64", lengths)
    return found


def _fit(
    rounds: Rounds,
    what: str,
    cases: Sequence[tuple[int, int]],
    along: int,
    grid: Sequence[tuple[int, int]],
) -> dict[str, str]:
    if not set(cases) <= set(grid):
        return {}
    x = np.log([case[along] for case in cases])
    each = np.array([rounds.total("kernel_direct", "float64", [case]) for case in cases])
    return {what: shown(list(np.polyfit(x, np.log(each), 1)[0]))}


def _grows(values: Mapping[str, np.ndarray], what: str, sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the exponent of a measured quantity in a size, fitted in each round."""
    if not set(sizes) <= set(values):
        return {}
    x = np.log(list(sizes.values()))
    each = np.array([values[name] for name in sizes])
    return {what: shown(list(np.polyfit(x, np.log(each), 1)[0]), 2)}


KERNEL, CHAPTER = style.FIXED["on"], style.FIXED["off"]

LOOKS = {
    "torch_single": ("PyTorch, cell by cell", style.CYCLE[1], "^", "--"),
    "torch_batched": ("PyTorch autograd, batched", style.CYCLE[1], "^", "-"),
    "jax_batched": ("JAX, batched", style.CYCLE[2], "v", "-"),
    "jacobian": ("explicit Jacobians", style.INK, "P", ""),
    "chapter": ("the chapter's code", CHAPTER, "s", "-"),
    "readable": ("the readable formulas", CHAPTER, "s", "--"),
    "columns": ("kernel and all columns", KERNEL, "o", ":"),
    "kernel_direct": ("kernel, gradients formed", KERNEL, "o", "--"),
    "kernel_gram": ("kernel", KERNEL, "o", "-"),
    "random_numbers": ("its random numbers", style.CYCLE[0], "d", ":"),
    "floor": ("floor: products and exp", style.INK, "", "-"),
}
"""Name, colour, marker and line of each contestant: one colour for each code."""

LINES = {name: look[0] for name, look in LOOKS.items()}


def draw(rounds: Rounds) -> Figure:
    """Draw time against d at each n, as a multiple of the floor."""
    ns = [n for n in NS if any(case[0] == n for case in rounds.cases("floor"))]
    with style.context():
        figure = Figure(figsize=(2.6 * len(ns) + 1.2, 4.4), layout="constrained")
        axes = figure.subplots(1, len(ns), sharey=True, squeeze=False)[0]
        handles = {}
        for name, (label, color, marker, line_style) in LOOKS.items():
            for axis, n in zip(axes, ns, strict=True):
                cases = [case for case in rounds.cases(name, "floor") if case[0] == n]
                if not cases:
                    continue
                each = [
                    rounds.total(name, "float64", [case]) / rounds.total("floor", "float64", [case])
                    for case in cases
                ]
                ds, middle = [d for _, d in cases], np.median(each, axis=1)
                (line,) = axis.plot(
                    ds, middle, color=color, marker=marker, linestyle=line_style, markersize=4
                )
                low, high = np.min(each, axis=1), np.max(each, axis=1)
                axis.fill_between(ds, low, high, color=color, alpha=0.15, linewidth=0)
                handles[label] = line
        for axis, n in zip(axes, ns, strict=True):
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_title(f"n = {n}")
            axis.set_xlabel("d = d_k = d_v")
            axis.set_xticks(DS, labels=[str(d) for d in DS])
            axis.xaxis.set_minor_locator(NullLocator())
            axis.yaxis.set_major_formatter(ScalarFormatter())
        axes[0].set_ylabel("CPU time / floor")
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=min(4, len(ns) + 1)
        )
    return figure


def page(rounds: Rounds, record: Mapping[str, Any], figure: str) -> str:
    """Return the page as Markdown. Raises RoundsError below 5 rounds."""
    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        keep_trailing_newline=True,
    )
    grid = rounds.cases("floor")
    seconds = {
        LINES[name]: shown(list(rounds.total(name, "float64", grid)))
        for name in LINES
        if set(rounds.cases(name)) == set(grid)
    }
    return environment.get_template("performance.md.j2").render(
        record=record,
        figure=figure,
        targets=targets(rounds),
        grid=seconds,
        n_cases=len(grid),
        direct={dtype: ratios(rounds, "kernel_direct", "floor", dtype) for dtype in DTYPES},
        gram=ratios(rounds, "kernel_gram", "floor", "float64"),
        torch=ratios(rounds, "torch_batched", "kernel_gram", "float64"),
        single=ratios(rounds, "torch_single", "kernel_gram", "float64"),
        forward=ratios(rounds, "torch_forward", "forward_readable", "float64"),
        jax=ratios(rounds, "jax_batched", "kernel_gram", "float64"),
        exponents=exponents(rounds),
        primitives={
            kind: {name: shown(list(v)) for name, v in rounds.of(kind).items()}
            for kind in ("primitive", "primitive, narrow")
        },
        narrow=narrow_ratios(rounds),
        ds=DS,
        float32=errors(rounds),
        memory={name: shown(list(v)) for name, v in rounds.of("memory").items()},
        memory_time={name: shown(list(v)) for name, v in rounds.of("memory time").items()},
        workers={name: shown(list(v)) for name, v in rounds.of("worker").items()},
        starts={name: shown(list(v)) for name, v in rounds.of("start").items()},
        whole={name: shown(list(v)) for name, v in rounds.of("whole").items()},
    )


DTYPES = ("float64", "float32")


def read(path: Path) -> pd.DataFrame:
    """Read a table of rounds as text. Raises TableError for other content."""
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except ValueError as error:
        raise tables.TableError(f"{path} cannot be read: {system_errors.one_line(error)}") from None
    if list(table.columns) != list(Row._fields):
        raise tables.TableError(f"{path} is not a table of rounds")
    return table


def main() -> None:
    """Write the table, the figure and the page of some tables of rounds."""
    *sources, whole, picture, text = map(Path, sys.argv[1:])
    table = pd.concat(map(read, sources))
    rounds = Rounds(table)
    records = [tables.read_record(source.with_suffix(".json")) for source in sources]
    loads = [record[when][0] for record in records for when in ("load", "load after")]
    code: dict[str, list[str]] = {}
    for source, one in zip(sources, records, strict=True):
        code.setdefault(str(one["code"]["revision"]), []).append(source.stem)
    record = records[0] | {"loads": [min(loads), max(loads)], "code": code}
    written = page(rounds, record, picture.name)
    atomic.write_atomically(whole, table.to_csv(index=False, lineterminator="\n"))
    drawn = BytesIO()
    draw(rounds).savefig(drawn, format="png", dpi=130, metadata={"Software": None})
    atomic.write_atomically(picture, drawn.getvalue())
    atomic.write_atomically(text, written)


if __name__ == "__main__":
    command_line.run(main, "ROUNDS.csv", "ROUNDS.csv...", "TABLE.csv", "FIGURE.png", "PAGE.md")
