"""The benchmarks: every contestant runs, and the page shows no number without its spread."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from benchmarks import contestants, measure, page, slabs
from benchmarks.contestants import Case
from sqrtdk.core.attention import attention
from sqrtdk.core.gradients import gradients
from sqrtdk.workflow import code_files

CASE = Case(48, 3, "float64")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [*measure.EVERYWHERE, "jacobian", "forward_readable"])
def test_every_contestant_runs(name, dtype):
    getattr(contestants, name)(Case(48, 3, dtype))()
    getattr(contestants, name)(Case(48, 1, dtype))()


@pytest.mark.parametrize("name", ["torch_batched", "torch_single", "torch_forward"])
def test_every_contestant_of_pytorch_runs(name):
    pytest.importorskip("torch")
    getattr(contestants, name)(CASE)()


def test_the_cells_of_a_batch_are_those_of_the_experiments():
    batch = CASE.draw()
    assert batch.q.shape == (CASE.cells, 48, 3)
    q, k, v, g = (array[1] for array in batch)
    forward = attention(q, k, v, scale=CASE.scales[1])
    backward = gradients(q, k, v, g, forward, scale=CASE.scales[1])
    core, rules = contestants.kernel.Kernel(), [contestants.Factor(s) for s in CASE.scales]
    _, on = core.measure(*batch, rules)
    # About ten roundings in another order.
    assert_allclose(on.norms["q"][1], np.linalg.norm(backward.q, axis=-1), rtol=1e-13)


def test_a_round_of_a_race_is_a_row_of_every_entrant():
    rows = list(measure.race([CASE], rounds=2))
    assert {row.round for row in rows} == {0, 1}
    names = measure.entrants(CASE)
    assert [row.contestant for row in rows] == 2 * names
    assert all(row.value > 0 for row in rows if row.contestant != "floor")


def test_the_race_without_wide_vectors_is_a_race_of_its_own(monkeypatch):
    wide = {"SIMD Extensions": {"found": ["X86_V3", "X86_V4"]}}
    monkeypatch.setattr(measure.np, "show_config", lambda mode: wide)
    said = {}

    def child(command):
        said["command"] = command
        said["off"] = measure.os.environ["NPY_DISABLE_CPU_FEATURES"]
        return 0.0, '"race, narrow",floor,float64,16,1,0,0.5,s\n'

    monkeypatch.setattr(measure, "child", child)
    (row,) = measure.narrow(5, few=False)
    assert (row.benchmark, row.contestant, row.value) == ("race, narrow", "floor", 0.5)
    assert said["off"] == "X86_V4"
    assert "narrow-child" in said["command"]
    monkeypatch.setattr(measure.np, "show_config", lambda mode: {})
    assert list(measure.narrow(5, few=False)) == []


def test_no_process_of_the_benchmarks_has_more_than_one_blas_thread():
    # NumPy starts them when it loads. The tests themselves load it through conftest, hence a child.
    for module in ("measure", "slabs", "contestants"):
        program = f"import benchmarks.{module}, psutil; print(psutil.Process().num_threads())"
        _, printed = measure.child([measure.sys.executable, "-c", program])
        assert printed == "1\n"


def test_the_parts_are_those_that_the_workflow_asks_for():
    assert tuple(measure.PARTS) == code_files.PARTS


def test_memory_is_that_of_the_slab_beyond_the_imports():
    small, large = (
        next(iter(measure.memory({"one": slabs.slab(n, 4, seeds=1)}, rounds=1))) for n in (8, 700)
    )
    # Four arrays of 128 × 700 scores alone are 2.7 MiB.
    assert small.value < 2 < large.value < 60


def test_float32_is_off_by_more_where_rows_are_saturated():
    found = list(measure.single([1, 1024], rounds=1))
    of = {(row.contestant, row.d): row.value for row in found}
    # Logits of size 3 are rounded at 6e-8 of that, and such errors average out; at d_k = 1024 they
    # are of size 100, in the exponent.
    assert of["entropy_nats", 1] < 1e-6 < of["grad_q_median", 1024] < 1e-2


def test_a_process_that_fails_says_why():
    with pytest.raises(RuntimeError, match="No module named"):
        measure.child([measure.sys.executable, "-m", "no_module_of_this_name"])


def rounds(n_rounds=5):
    """Return times that grow as n² (d + 16), at a fixed ratio for every contestant."""
    rng = np.random.default_rng(0)
    rows = []
    names = [*page.LINES, "random_floor", "torch_forward", "forward_readable"]
    for place, name in enumerate(names):
        for dtype, n, d in itertools.product(page.DTYPES, measure.NS, measure.DS):
            for number in range(n_rounds):
                seconds = 1e-9 * n * n * (d + 16) * (1 + place) * (1 + 0.1 * rng.random())
                rows.append(("race", name, dtype, n, d, number, seconds, "s"))
    for number in range(n_rounds):
        for name in slabs.MEMORY:
            rows.append(("memory", name, "float64", 64, 64, number, 100 + number, "MiB"))
            rows.append(("memory time", name, "float64", 64, 64, number, 1.0, "s"))
        for name in slabs.WORKERS:
            rows.append(("worker", f"{name}: job", "float64", 64, 64, number, 1.05, "s"))
            bare = f"{name}: random numbers and kernel"
            rows.append(("worker", bare, "float64", 64, 64, number, 1.0, "s"))
        for d in measure.DS:
            rows.append(("float32", "entropy_nats", "float32", 256, d, number, 1e-7, "relative"))
        for kind in ("primitive", "primitive, narrow"):
            for name in ("np.exp", "np.multiply", "np.vecdot"):
                rows.append((kind, name, "float64", "", "", number, 1.0, "ns"))
        rows += [
            ("race, narrow", name, "float64", n, 1, number, 1.0, "s")
            for name in measure.NARROW
            for n in measure.NS
        ]
        rows.append(("start", "python alone", "", "", "", number, 0.01, "s"))
        rows.append(("whole", "run: CPU", "", "", "", number, 80.0, "s"))
    return page.Rounds(pd.DataFrame(rows, columns=measure.Row._fields).astype(str))


RECORD = {
    "rounds": 5,
    "loads": [0.1, 1.5],
    "machine": {
        "cpu": "a processor", "architecture": "x", "cores": 2, "memory_gib": 8, "system": "a system"
    },
    "blas": {"name": "a blas", "version": "1", "kernel": "a kernel"},
    "versions": {"numpy": "2"},
    "code": {"0123abc": ["float64", "memory"]},
}  # fmt: skip


def test_the_page_has_every_section_and_no_number_without_its_spread():
    text = page.page(rounds(), RECORD, "performance.png")
    for word in ("a processor", "a kernel", "0.1 to 1.5", "0123abc", "PyTorch", "Memory"):
        assert word in text
    cells = [
        cell.strip()
        for line in text.splitlines()
        if line.startswith("| n = ")
        for cell in line.split("|")[2:-1]
    ]
    assert len(cells) > 100
    assert all(re.fullmatch(r"[\d.e-]+ \([\d.e-]+–[\d.e-]+\)", cell) for cell in cells if cell)


def test_targets_are_reached_by_the_median():
    found = {target.what: target for target in page.targets(rounds())}
    jacobian = found["explicit Jacobians / kernel, n = 1024, d = 64"]
    assert not jacobian.reached
    assert found["peak memory over imports, MiB, n = d = 1024"].reached
    assert found["whole job / random numbers and kernel, n = 256, d_k = 64"].reached
    # Of two contestants whose times have a fixed ratio.
    place = {name: number for number, name in enumerate(page.LINES, start=1)}
    ratio = place["kernel_direct"] / place["floor"]
    grid = found["kernel, every gradient formed / floor, grid, float64"]
    # Each round is up to 10 % slower than the fixed ratio says, on either side.
    assert np.median(grid.values) == pytest.approx(ratio, rel=0.1)


def test_a_fit_finds_the_exponent():
    found = page.exponents(rounds())
    # Times of n² (d + 16), off by up to 10 % at each of three sizes a factor 16 apart.
    assert float(found["time against n, d = 64"].split()[0]) == pytest.approx(2, abs=0.05)
    assert float(found["time against d, n = 64"].split()[0]) == pytest.approx(0.98, abs=0.05)


def test_fewer_than_five_rounds_make_no_page():
    with pytest.raises(page.RoundsError, match="4 rounds"):
        page.page(rounds(4), RECORD, "performance.png")


def test_the_figure_has_a_panel_for_each_length():
    figure = page.draw(rounds())
    assert [axes.get_title(loc="left") for axes in figure.axes] == [f"n = {n}" for n in measure.NS]
