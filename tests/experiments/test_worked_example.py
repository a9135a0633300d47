"""The worked example: its digits against plain arithmetic, its page, its pictures, its settings."""

import csv
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.colors
import mpmath
import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import by_hand, snakemake
from report.test_page import check

from sqrtdk.config import compose as config_compose
from sqrtdk.config import errors as config_errors
from sqrtdk.config import resolve
from sqrtdk.experiments import cells
from sqrtdk.experiments.worked_example import figures as worked_example_figures
from sqrtdk.experiments.worked_example import matrices, plot_matrix
from sqrtdk.experiments.worked_example import measure as worked_example
from sqrtdk.figures import style
from sqrtdk.report.page import render
from sqrtdk.storage import atomic, tables

Rows = list[list[Any]]
DIGITS = Path(__file__).with_name("worked_example.csv")
ARMS = {"off": 1.0, "on": 0.5}
GRID = "grid=smoke"

# The unit roundoff of float64.
U = 2.0**-53


# The example in plain arithmetic: no NumPy, no matrix products, any type of number.


def uniforms(seed: int) -> Callable[[], float]:
    """MT19937, initialized as Matsumoto and Nishimura (2002) do it from one word."""
    words = [seed]
    for i in range(1, 624):
        words.append((1812433253 * (words[-1] ^ (words[-1] >> 30)) + i) % 2**32)
    generator = random.Random()
    # Python's generator has the same recurrence and 53-bit fractions, and another initialization.
    generator.setstate((3, (*words, 624), None))
    return generator.random


def normals(seed: int, count: int) -> list[float]:
    """Marsaglia's polar method, which gives the second number of a pair first."""
    uniform, found = uniforms(seed), []
    while len(found) < count:
        a, b = 2 * uniform() - 1, 2 * uniform() - 1
        square = a * a + b * b
        if 0 < square < 1:
            factor = math.sqrt(-2 * math.log(square) / square)
            found += [factor * b, factor * a]
    return found[:count]


def drawn(numbers: list[Any]) -> dict[str, Rows]:
    """The arrays that 60 standard normal numbers fill: x, then W_q, W_k and W_v times 1/2."""

    def fill(start: int, rows: int) -> Rows:
        return [numbers[start + 4 * i : start + 4 * i + 4] for i in range(rows)]

    found = {"x": fill(0, 3)}
    for place, name in enumerate(("W_q", "W_k", "W_v")):
        found[name] = [[g / 2 for g in row] for row in fill(12 + 16 * place, 4)]
    return found


def dot(a: list[Any], b: list[Any]) -> Any:
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return total


def product(a: Rows, b: Rows) -> Rows:
    return [[dot(row, column) for column in transposed(b)] for row in a]


def transposed(a: Rows) -> Rows:
    return [list(column) for column in zip(*a, strict=True)]


def plain(numbers: list[Any], scale: float, of: Any = math) -> dict[str, Rows]:
    """Every array of the example from its normal numbers; `of` is math or mpmath."""
    a = drawn(numbers)
    for x in "qkv":
        a[x] = product(a["x"], a[f"W_{x}"])
    a["scores"] = product(a["q"], transposed(a["k"]))
    a["sqrt_d_k"], a["scale"] = [[2]], [[scale]]
    a["logits"] = [[s * scale for s in row] for row in a["scores"]]
    shares = [[of.exp(z) for z in row] for row in a["logits"]]
    a["weights"] = [[e / sum(row) for e in row] for row in shares]
    a["weight_rows"] = [
        [-sum(p * of.log(p) for p in row), max(row), sum(row)] for row in a["weights"]
    ]
    a["output"] = product(a["weights"], a["v"])
    # L is the sum of the output, so its slope by a weight is the sum of that key's value, and by
    # a logit the softmax's Jacobian, written out, takes it.
    slopes = [sum(row) for row in a["v"]]
    a["grad_logits"] = [
        [
            sum(slopes[i] * p[i] * ((i == j) - p[j]) for i in range(3))
            for j in range(3)
        ]
        for p in a["weights"]
    ]  # fmt: skip
    a["grad_scores"] = [[scale * d for d in row] for row in a["grad_logits"]]
    a["grad_q"] = product(a["grad_scores"], a["k"])
    a["grad_k"] = product(transposed(a["grad_scores"]), a["q"])
    a["grad_v"] = [[sum(column)] * 4 for column in transposed(a["weights"])]
    return a


def entries(arrays: dict[str, Rows]) -> list[Any]:
    return [value for rows in arrays.values() for row in rows for value in row]


def draw_errors(numbers: list[float]) -> list[float]:
    """How far each normal number can be from the same number on another machine.

    For a pair of radius R the rounding of a² + b², relative 2u at most (contracted to a fused
    multiply-add or not), moves ln of it by 2u where ln is -R²/2; the rest are the roundings of
    log (one unit in the last place, 2u), /, *, sqrt and *. Half of what is under the root counts.
    """
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    found = []
    for radius, pair in ((math.hypot(*pair), pair) for pair in pairs):
        relative = (2 * U * 2 / radius**2 + 4 * U) / 2 + 2 * U
        # Both machines may be off.
        found += [2 * relative * abs(g) for g in pair]
    return found


# Digits


def table(seed: int = 42) -> list[tables.Row]:
    """The rows that the experiment measures."""
    return cells.measure_cells(
        worked_example.cells({"seeds": [seed, seed + 1]}), worked_example.COLUMNS
    )


def test_the_draw_is_that_of_the_legacy_generator_in_the_chapters_order() -> None:
    for seed in (0, 42, 2**32 - 1):
        expected, found = drawn(normals(seed, 60)), worked_example.draw(seed)
        assert list(found) == ["x", "W_q", "W_k", "W_v"]
        for name, array in found.items():
            # Another logarithm may round the other way: two units in the last place of f.
            np.testing.assert_allclose(array, expected[name], rtol=8 * U, atol=0)


@pytest.mark.parametrize("seed", [42, 7, 0])
@pytest.mark.parametrize("arm", ARMS)
def test_every_entry_is_that_of_plain_arithmetic(seed: int, arm: str) -> None:
    expected = plain(normals(seed, 60), ARMS[arm])
    found = [row for row in table(seed) if row["scaling"] == arm]
    assert [row["array"] for row in found] == [
        name for name in worked_example.ARRAYS for _ in entries({name: expected[name]})
    ]
    numbers = [value for name in worked_example.ARRAYS for value in entries({name: expected[name]})]
    # Sums of four products of size 1 to 10, in another order and two to three deep.
    assert [row["value"] for row in found] == pytest.approx(numbers, rel=0, abs=500 * U)


def test_thirteen_decimals_are_safe_whatever_a_machine_does_with_the_last_bits() -> None:
    numbers = normals(42, 60)
    errors = draw_errors(numbers)
    assert max(errors) < 3e-15
    for scale in ARMS.values():
        total = np.zeros(len(entries(plain(numbers, scale))))
        for place, error in enumerate(errors):
            step = np.eye(60)[place] * 1e-6
            above, below = (
                np.array(entries(plain((np.array(numbers) + sign * step).tolist(), scale)))
                for sign in (1, -1)
            )
            total += np.abs(above - below) / 2e-6 * error
        # With the 5e-14 of rounding to 13 decimals, and 300 u for the arithmetic after the draw,
        # one unit of the 13th decimal holds everywhere; of the 14th it would not.
        assert 1e-14 < total.max() < 1.5e-14
        assert total.max() + 300 * U + 0.5e-13 < 1e-13


def test_the_digits_are_the_committed_ones() -> None:
    with DIGITS.open(encoding="utf-8", newline="") as file:
        expected = {
            (arm, row["array"], row["row"], row["column"]): float(row["value"])
            for row in csv.DictReader(file)
            for arm in (ARMS if row["scaling"] == "both" else [row["scaling"]])
        }
    found = {
        (row["scaling"], row["array"], row["row"], row["column"]): row["value"]
        for row in table()
        if row["array"] not in ("sqrt_d_k", "scale")
    }
    assert found.keys() == expected.keys()
    # One unit of the last committed decimal; why it holds, the test above shows.
    assert found == pytest.approx(expected, rel=0, abs=1e-13)


def test_the_committed_digits_are_those_of_many_digits() -> None:
    with mpmath.workdps(40):
        numbers = [mpmath.mpf(g) for g in normals(42, 60)]
        exact = {arm: plain(numbers, mpmath.mpf(scale), mpmath) for arm, scale in ARMS.items()}
    with DIGITS.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    for arm in ("off", "on"):
        mine = [row for row in lines if row["scaling"] in (arm, "both")]
        values = {
            name: rows for name, rows in exact[arm].items() if name not in ("sqrt_d_k", "scale")
        }
        order = sorted(mine, key=lambda row: list(values).index(row["array"]))
        for row, value in zip(order, entries(values), strict=True):
            # Half a unit of the last place, and what another machine's draw moves.
            assert abs(mpmath.mpf(row["value"]) - value) < 0.5e-13 + 1.5e-14, row


def test_the_gradients_are_slopes_of_the_sum_of_the_output() -> None:
    numbers = normals(42, 60)
    for scale in ARMS.values():
        a = plain(numbers, scale)

        def loss(start: str, arrays: dict[str, Rows], scale: float = scale) -> float:
            q, k, v = arrays["q"], arrays["k"], arrays["v"]
            scores = arrays["scores"] if start == "scores" else product(q, transposed(k))
            logits = [[s * scale for s in row] for row in scores]
            shares = arrays["logits"] if start == "logits" else logits
            e = [[math.exp(z) for z in row] for row in shares]
            weights = [[one / sum(row) for one in row] for row in e]
            return float(sum(entries({"output": product(weights, v)})))

        found = worked_example.arrays(42, scale)
        for name in ("logits", "scores", "q", "k", "v"):
            for (i, j), slope in np.ndenumerate(found[f"grad_{name}"]):
                ends = []
                for h in (1e-5, -1e-5):
                    moved = {x: [list(row) for row in rows] for x, rows in a.items()}
                    moved[name][i][j] += h
                    ends.append(loss(name, moved))
                # Truncation h² f'''/6 and rounding u |L|/h are both below 1e-10.
                assert slope == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=0, abs=2e-10)


def test_both_arms_share_everything_before_the_scale() -> None:
    for row, other in zip(
        *([r for r in table() if r["scaling"] == arm] for arm in ARMS), strict=True
    ):
        if row["step"] <= list(worked_example.ARRAYS).index("scores") + 1:
            assert row | {"scaling": "on"} == other
    assert {row["value"] for row in table() if row["array"] == "sqrt_d_k"} == {2.0}


def test_rows_and_columns_have_names_and_a_token_has_one_everywhere() -> None:
    names = {(row["array"], row["row"], row["column"]) for row in table()}
    assert ("q", "token 2", "dim 4") in names
    assert ("scores", "token 3", "key 1") in names
    assert ("W_q", "dim 4", "dim 1") in names
    assert ("weight_rows", "token 1", "entropy_nats") in names


# Settings


def compose(*overrides: str, **values: Any) -> dict[str, dict[str, Any]]:
    return config_compose.compose([GRID, *overrides], values).settings


def test_keys_for_all_experiments_leave_the_example_alone() -> None:
    for values in (
        {"seeds": 8}, {"seed": 3}, {"d_k": [16]}, {"scaling": "off"}, {"n_k": 4, "seeds": 1},
    ):  # fmt: skip
        assert compose(**values)["worked_example"] == {"seed": [42]}
    changed = compose("scale_rules.on.exponent=1")
    assert changed["worked_example"] == {"seed": [42]}


def test_under_its_name_its_seed_may_be_another() -> None:
    assert compose(worked_example={"seed": 7}, seeds=8)["worked_example"] == {"seed": [7]}
    assert compose("worked_example={seed: 7}")["worked_example"] == {"seed": [7]}
    with pytest.raises(config_errors.ConfigError, match="unknown key 'd_k' in worked_example"):
        compose(worked_example={"d_k": 7})


@pytest.mark.parametrize("key", ["seed", "seeds"])
def test_a_key_that_only_the_example_has_is_refused_with_the_way_to_change_it(key: str) -> None:
    said = f"{key}: worked_example is an example.*worked_example='{{{key}: 8}}' changes"
    with pytest.raises(config_errors.ConfigError, match=said):
        compose(experiments="worked_example", **{key: 8})


@pytest.mark.parametrize("others", [{}, {"experiments": "worked_example"}])
def test_its_configuration_comes_back_from_a_file(tmp_path: Path, others: dict[str, str]) -> None:
    run = config_compose.compose([GRID], {"worked_example": {"seed": [3, 9]}, **others})
    (tmp_path / "config.yaml").write_text(run.to_yaml(), encoding="utf-8")
    assert resolve.load(tmp_path / "config.yaml") == run
    assert config_compose.compose([], yaml.safe_load(run.to_yaml())) == run


# Tables as matrices


def rows_as_text(seed: int = 42) -> list[dict[str, str]]:
    text = tables.text(table(seed), worked_example.COLUMNS)
    return list(csv.DictReader(text.splitlines()))


def test_matrices_have_the_entries_where_their_names_say() -> None:
    found = matrices.matrices_of(rows_as_text())
    expected = worked_example.arrays(42, 0.5)
    for name in ("q", "scores", "grad_q"):
        assert found[name, "on"].entries == expected[name].tolist()
    assert found["scores", "on"].rows == ["token 1", "token 2", "token 3"]
    assert found["scores", "on"].columns == ["key 1", "key 2", "key 3"]


def test_of_several_seeds_the_lowest_is_shown() -> None:
    rows = rows_as_text(9) + rows_as_text(3)
    assert matrices.matrices_of(rows) == matrices.matrices_of(rows_as_text(3))


def luminance(rgb: tuple[float, ...]) -> float:
    """Relative luminance of sRGB as WCAG 2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return dot([0.2126, 0.7152, 0.0722], linear)


@pytest.mark.parametrize(("ink", "paper"), [(style.INK, "#fdfdfb"), ("#e6e4df", "#141618")])
def test_digits_are_readable_on_every_tint_in_the_light_and_in_the_dark(
    ink: str, paper: str
) -> None:
    css = (
        Path(worked_example_figures.__file__).parents[2] / "report/templates/page.css"
    ).read_text(encoding="utf-8")
    assert f"--paper: {paper}; --ink: {ink}" in css
    text, ground = map(matplotlib.colors.to_rgb, (ink, paper))
    for value in np.linspace(-1, 1, 41):
        shown = matrices.entry(float(value), 1.0)
        tint = matplotlib.colors.to_rgb(shown.color)
        mixed = [
            shown.opacity * a + (1 - shown.opacity) * b for a, b in zip(tint, ground, strict=True)
        ]
        low, high = sorted((luminance(text), luminance(tuple(mixed))))
        assert (high + 0.05) / (low + 0.05) >= 4.5, value


# The page


def page(folder: Path, seed: int = 42) -> str:
    """A report from the example's table and configuration alone."""
    run = config_compose.compose(
        [GRID], {"worked_example": {"seed": seed}, "experiments": "worked_example"}
    )
    atomic.write_atomically(folder / "config.yaml", run.to_yaml())
    text = tables.text(table(seed), worked_example.COLUMNS)
    atomic.write_atomically(folder / "worked_example/runs.csv", text)
    return render(folder)


def shown_tables(text: str) -> dict[str, Rows]:
    """The digits of every matrix of the page, by the id of its caption."""
    found = {}
    for name, body in re.findall(r'<caption id="matrix-([\w-]+)">(.*?)</table>', text, re.DOTALL):
        rows = re.findall(r'<tr><th scope="row">.*?</tr>', body, re.DOTALL)
        found[name] = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in rows]
    return found


@pytest.mark.parametrize("seed", [42, 7, 0])
def test_the_section_renders_from_the_table_alone_and_shows_every_array(
    tmp_path: Path, seed: int
) -> None:
    text = page(tmp_path, seed)
    check(text)
    shown = shown_tables(text)
    shared = ["x", "W_q", "W_k", "W_v", "q", "k", "v", "scores"]
    pairs = ["logits", "weights", "weight_rows", "output", "grad_logits", "grad_scores", "grad_q"]
    assert set(shown) == {f"{name}-on" for name in shared} | {
        f"{name}-{arm}" for name in pairs for arm in ARMS
    }
    numbers = normals(seed, 60)
    for name, digits in shown.items():
        array, _, arm = name.rpartition("-")
        exact = plain(numbers, ARMS[arm])[array]
        assert digits == [[f"{x:.4f}".replace("-", "−") for x in row] for row in exact], name


def test_every_number_of_its_sentences_follows_from_the_table(tmp_path: Path) -> None:
    text = page(tmp_path)
    section = text.partition('<div id="example"')[2].partition("</section>")[0]
    prose = re.sub(r"<table.*?</table>", "", section, flags=re.DOTALL)
    said = set(re.findall(r"−?\d+\.\d{4}", prose))
    on, off = (plain(normals(42, 60), ARMS[arm]) for arm in ("on", "off"))
    rows = {"on": on["weight_rows"], "off": off["weight_rows"]}
    known = [x for arrays in (on, off) for x in entries(arrays)] + [math.log(3)]
    for place in (0, 1):
        columns = [[row[place] for row in rows[arm]] for arm in ("off", "on")]
        known += [sum(column) / 3 for column in columns]
        known += [abs(a - b) for a, b in zip(*columns, strict=True)]
    known += [math.sqrt(sum(x * x for x in entries({"": a["grad_q"]})) / 12) for a in (on, off)]
    assert said <= {f"{x:.4f}".replace("-", "−") for x in known}
    assert len(said) > 25


def words(text: str) -> str:
    section = text.partition('<div id="example"')[2].partition("</section>")[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", section).replace("&nbsp;", " "))


def test_the_page_says_how_little_scaling_changes_and_where_it_does(tmp_path: Path) -> None:
    said = words(page(tmp_path / "a"))
    assert (
        "scaling matters little at dk = 4: even without it, no token attends to one key alone"
        in said
    )
    assert "the largest weight is 0.7048" in said
    assert "higher by 0.0071 to 0.2337 nats. Its average is 1.0235 instead of 0.8705" in said
    assert "lower by 0.0288 to 0.1796. Its average is 0.4762 instead of 0.5981" in said
    assert "the difference is 14 % of ln 3" in said
    assert "The gradient is not smaller without scaling" in said
    other = words(page(tmp_path / "b", seed=0))
    assert "scaling matters even at dk = 4: without it, token 1 gives 0.9648 of its weight" in other
    assert "matters little" not in other


def test_a_row_is_said_in_words_with_its_numbers(tmp_path: Path) -> None:
    said = words(page(tmp_path)).replace("\N{NBSP}", " ")
    assert "its weights are 0.3324 on token 1, 0.5416 on token 2 and 0.1260 on token 3. " in said
    assert "Without scaling, they are 0.2632, 0.6990, 0.0378." in said
    assert "For token 1 and key 2: 0.1902 × 0.5202 + (−0.4855) × (−1.3236) + " in said
    assert "0.3324 × (−1.2493) + 0.5416 × (−0.7237) + 0.1260 × 0.7926 = −0.7074." in said


def test_products_of_the_shown_digits_are_right_to_their_rounding(tmp_path: Path) -> None:
    # Four products of numbers below 2, each off by half of the last decimal.
    sums = re.findall(r'<span class="sum">(.*?)</span>', page(tmp_path))
    assert len(sums) == 3
    for line in sums:
        left, _, right = re.sub(r"&nbsp;|\s", "", line).replace("−", "-").rstrip(".").partition("=")
        terms = [re.findall(r"-?\d+\.\d+", term) for term in left.split("+")]
        total = math.fsum(float(a) * float(b) for a, b in terms)
        assert total == pytest.approx(float(right), abs=4 * 2 * 2 * 0.5e-4)


def test_a_page_of_several_seeds_shows_the_first_and_says_so(tmp_path: Path) -> None:
    values = {"worked_example": {"seed": [3, 9]}, "experiments": "worked_example"}
    atomic.write_atomically(
        tmp_path / "config.yaml", config_compose.compose([GRID], values).to_yaml()
    )
    rows = sorted(table(3) + table(9), key=tables.axes_of(worked_example.COLUMNS))
    text = tables.text(rows, worked_example.COLUMNS)
    atomic.write_atomically(tmp_path / "worked_example/runs.csv", text)
    both = render(tmp_path)
    assert "drawn with seed 3 (the first of 2 in the table)" in words(both)
    assert shown_tables(both) == shown_tables(page(tmp_path, 3))


def test_the_page_of_a_run_without_it_does_not_name_it(tmp_path: Path) -> None:
    run = config_compose.compose([GRID], {"experiments": "precision"})
    atomic.write_atomically(tmp_path / "config.yaml", run.to_yaml())
    assert 'id="example"' not in render(tmp_path)
    # An earlier run of this name left its table.
    atomic.write_atomically(
        tmp_path / "worked_example/runs.csv", tables.text(table(), worked_example.COLUMNS)
    )
    assert 'id="example"' not in render(tmp_path)


# The figures

DIGIT = r"−?\d\.\d{4}"


@pytest.mark.parametrize("what", worked_example_figures.BUILD)
def test_a_figure_prints_the_digits_of_the_table_in_their_cells(what: str) -> None:
    with style.context():
        figure = worked_example_figures.BUILD[what]({"runs": pd.DataFrame(table())})
    shown = [tuple(t.get_text() for t in axes.texts) for axes in figure.axes]
    arrays = {
        "projections": ["x", "W_q", "q", "W_k", "k", "W_v", "v"],
        "attention": ["scores", *2 * ["logits", "weights", "entropy", "output"]],
        "gradients": 2 * ["grad_logits", "grad_scores", "grad_q"],
    }[what]
    assert len(shown) == len(arrays)
    for place, (axes, texts, name) in enumerate(zip(figure.axes, shown, arrays, strict=True)):
        arm = "off" if place <= len(arrays) // 2 - (what == "gradients") else "on"
        exact = plain(normals(42, 60), ARMS[arm])
        rows = [[r[0]] for r in exact["weight_rows"]] if name == "entropy" else exact[name]
        digits = [t for t in texts if re.fullmatch(DIGIT, t)]
        assert digits == [f"{x:.4f}".replace("-", "−") for x in entries({"": rows})], name
        places = [t.get_position() for t in axes.texts if t.get_text() in digits]
        # Each in its own cell, and the digits of a column end at one place.
        assert len({(int(x), int(y)) for x, y in places}) == len(places)
        assert {round(x % 1, 9) for x, _ in places} == {0.93}


@pytest.mark.parametrize("what", worked_example_figures.BUILD)
def test_nothing_of_a_figure_overlaps_or_leaves_it(what: str) -> None:
    with style.context():
        figure = worked_example_figures.BUILD[what]({"runs": pd.DataFrame(table())})
        figure.draw_without_rendering()
    texts = [t for t in (*figure.texts, *(t for a in figure.axes for t in a.texts)) if t.get_text()]
    boxes = [t.get_window_extent() for t in texts]
    whole = figure.bbox
    for place, (text, box) in enumerate(zip(texts, boxes, strict=True)):
        assert whole.x0 <= box.x0
        assert box.x1 <= whole.x1
        assert whole.y0 <= box.y0
        assert box.y1 <= whole.y1
        for other, rest in zip(texts[:place], boxes[:place], strict=True):
            assert not box.overlaps(rest), (text.get_text(), other.get_text())
    digits = [box for t, box in zip(texts, boxes, strict=True) if re.fullmatch(DIGIT, t.get_text())]
    assert max(box.width for box in digits) < plot_matrix.CELL[0] * figure.dpi


# The workflow


def test_one_command_makes_its_table_and_figures_whatever_the_sweeps_are(tmp_path: Path) -> None:
    changes = ["seeds=1", "d_k=[16]", "scaling=off", "grid=smoke", "name=mine"]
    done = snakemake(tmp_path, "worked_example", "--config", *changes)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "results/mine"
    assert (run / "worked_example/runs.csv").read_text(encoding="utf-8") == tables.text(
        table(), worked_example.COLUMNS
    )
    assert sorted(path.name for path in (run / "figures").glob("[!.]*")) == sorted(
        f"worked_example-{what}.{kind}"
        for what in worked_example_figures.BUILD
        for kind in ("png", "svg")
    )
    assert not (run / "worked_example/summary.csv").exists()


def test_alone_and_with_another_seed_it_has_a_report(tmp_path: Path) -> None:
    changes = ["experiments=worked_example", "worked_example={seed: 7}", "name=mine"]
    done = snakemake(tmp_path, "--config", *changes)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "results/mine"
    assert (run / "worked_example/runs.csv").read_text(encoding="utf-8") == tables.text(
        table(7), worked_example.COLUMNS
    )
    text = (run / "report.html").read_text(encoding="utf-8")
    check(text)
    assert shown_tables(text) == shown_tables(page(tmp_path / "alone", 7))
    for what in worked_example_figures.BUILD:
        assert f'id="figure-worked_example-{what}"' in text


def test_by_hand_the_same_rows_come_out(tmp_path: Path) -> None:
    done = by_hand(tmp_path, "experiments=worked_example")
    assert done.returncode == 0, done.stderr
    assert done.stdout == tables.text(table(), worked_example.COLUMNS)
    refused = by_hand(tmp_path, "experiments=worked_example", "seed=7")
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    assert "worked_example='{seed: 7}' changes" in refused.stderr
