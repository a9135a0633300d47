"""`snakemake compare`: two runs on one page and in one table."""

import csv
import io
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import snakemake

from sqrtdk.compare import changes, curves, page, sides
from sqrtdk.config import errors
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.storage import guards, tables
from sqrtdk.workflow import comparison


@pytest.fixture(scope="module")
def run(smoke: Path) -> sides.Side:
    """The session's smoke run, with two experiments."""
    found = sides.read(smoke / "results/smoke")
    kept = {name: path for name, path in found.runs.items() if name in ("scaling", "capacity")}
    return replace(found, runs=kept)


@pytest.fixture(scope="module")
def other(run: sides.Side, tmp_path_factory: pytest.TempPathFactory) -> sides.Side:
    """The same run with larger weights at d_k = 16, a further seed, and another configuration."""
    table = run.read("scaling")
    there = table["d_k"] == 16
    # Not the same addition for all seeds, or the interval would have no width.
    table.loc[there, "max_weight"] += 0.1 + 0.001 * table.loc[there, "seed"]
    more = table[(table["seed"] == 0) & there].assign(seed=7)
    rows = [*table.to_dict("records"), *more.to_dict("records")]
    path = tmp_path_factory.mktemp("other") / "runs.csv"
    columns = changes.EXPERIMENTS["scaling"].columns
    path.write_text(tables.text(rows, columns), encoding="utf-8")
    verdicts = {name: dict(row) for name, row in run.verdicts.items()}
    verdicts["scores_grow"]["verdict"] = "false"
    rules = {**run.config["scale_rules"], "on": {"rule": "power", "exponent": 0.4}}
    return replace(
        run,
        name="other",
        runs=dict(run.runs) | {"scaling": path},
        config=dict(run.config) | {"scale_rules": rules},
        verdicts=verdicts,
    )


@pytest.fixture(scope="module")
def compared(run: sides.Side, other: sides.Side) -> page.Comparison:
    return page.compare(run, other)


def test_a_run_does_not_differ_from_itself(run: sides.Side) -> None:
    found = page.compare(run, replace(run, name="again"))
    assert {row["outcome"] for row in found.rows} == {"same"}
    assert "The configurations are the same." in found.page
    assert "No verdict flipped." in found.page


def test_only_what_changed_is_reported(compared: page.Comparison) -> None:
    changed = [row for row in compared.rows if row["outcome"] != "same"]
    assert changed
    assert {(row["experiment"], row["metric"], row["d_k"]) for row in changed} == {
        ("scaling", "max_weight", 16)
    }
    for row in changed:
        # The mean of 0.1, 0.101, 0.102 and 0.103, of the seeds that both runs have, without seed 7.
        assert row["change"] == pytest.approx(0.1015, rel=1e-9)
        assert (row["n_first"], row["n_second"], row["pairing"]) == (4, 4, "paired")
        # Student's t with three degrees of freedom is 3.18245; the error is 0.001 √(5/3) / 2.
        half = (float(row["ci_high"]) - float(row["ci_low"])) / 2
        assert half == pytest.approx(3.18245 * 0.001 * (5 / 3) ** 0.5 / 2, rel=1e-5)


def test_the_page_names_what_changed_and_the_verdicts_that_flipped(
    compared: page.Comparison, run: sides.Side
) -> None:
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", compared.page))
    assert "scale_rules.on.exponent 0.5 0.4" in text
    assert "1 verdict differs." in text
    assert run.verdicts["scores_grow"]["sentence"] in text
    # The experiments that are compared, each with its curves or why not.
    assert compared.page.count('<img class="plot"') == 2


def test_the_page_needs_nothing_from_outside(compared: page.Comparison) -> None:
    assert "<script" not in compared.page
    links = re.findall(r'(?:href|src)="([^"#][^"]*)"', compared.page)
    # A picture inside of the page asks nobody.
    assert {link for link in links if not link.startswith("data:")} == {"compare.csv"}
    ids = re.findall(r' id="([^"]*)"', compared.page)
    assert len(ids) == len(set(ids))


def test_the_table_has_the_columns_that_it_documents(compared: page.Comparison) -> None:
    text = tables.text(compared.rows, changes.COLUMNS)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == [column.name for column in changes.COLUMNS]
    assert len(rows) == len(compared.rows)


def test_seeds_in_common_are_the_only_ones_that_are_paired(run: sides.Side) -> None:
    table = run.read("scaling")
    found = changes.compare("scaling", table, table.assign(seed=table["seed"] + 100))
    assert {row["pairing"] for row in found.rows} == {"independent"}
    assert not [row for row in found.rows if row["outcome"] == "differs"]


def test_cells_of_one_run_alone_are_counted(run: sides.Side) -> None:
    table = run.read("scaling")
    found = changes.compare("scaling", table[table["d_k"] > 1], table[table["scaling"] == "on"])
    cells = {(at.d_k, at.n_k, at.scaling) for at in table.itertuples()}
    first = {at for at in cells if at[0] > 1}
    second = {at for at in cells if at[2] == "on"}
    assert (found.only_first, found.only_second) == (len(first - second), len(second - first))


def test_the_reference_is_a_side(run: sides.Side) -> None:
    found = page.compare(run, sides.reference())
    assert {row["outcome"] for row in found.rows} == {"same"}
    assert len(found.rows) == 32 // 2 * 40
    assert "reference has no verdicts" in found.page


@pytest.mark.parametrize("name", [x for x, one in EXPERIMENTS.items() if one.summarised])
def test_every_experiment_is_drawn_against_a_number(name: str) -> None:
    columns = EXPERIMENTS[name].columns
    axes = {c.name: 1 if c.read in (int, float) else "one" for c in columns if c.axis}
    metrics = [c.name for c in columns if not c.axis]
    shown = curves.view(EXPERIMENTS[name], [axes | {"metric": x, "outcome": ""} for x in metrics])
    assert shown is not None
    assert shown.x.read in (int, float)


def test_runs_without_a_common_experiment_are_refused_in_one_line(run: sides.Side) -> None:
    first, second = (replace(run, runs={x: run.runs[x]}) for x in ("scaling", "capacity"))
    with pytest.raises(errors.ConfigError, match=r"^runs: no experiment is in both: .*capacity$"):
        page.compare(first, second)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["mine"], "runs: ['mine'] is not allowed; allowed: runs='[default,reference]': two of"),
        ("default", "runs: 'default' is not allowed; allowed: runs="),
        (["default", "mine", "reference"], "is not allowed; allowed: runs="),
        (["default", "mien"], "default, mine, reference; did you mean mine?"),
        (["mine", "mine"], "runs: ['mine', 'mine'] is not allowed; allowed: two different runs"),
        (None, "runs: None is not allowed"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    tmp_path: Path, value: object, message: str
) -> None:
    for name in ("default", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").touch()
    with pytest.raises(errors.ConfigError) as error:
        comparison.chosen(value, tmp_path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_command_compares_runs_and_leaves_them_as_they_are(
    smoke: Path, tmp_path: Path, snapshot: Callable[[Path], dict[str, bytes]]
) -> None:
    for name in ("one", "two"):
        for part in ("capacity", "."):
            target = tmp_path / "results" / name / part
            target.mkdir(parents=True, exist_ok=True)
            for file in (smoke / "results/smoke" / part).iterdir():
                if file.is_file():
                    shutil.copy(file, target)
    before = snapshot(tmp_path)
    done = snakemake(tmp_path, "compare", "--config", "runs=[one,two]")
    assert done.returncode == 0, done.stderr
    after = snapshot(tmp_path)
    made = {name: text for name, text in after.items() if name not in before}
    assert {name: after[name] for name in before} == before
    folder = "results/compare/one..two/"
    assert {f"{folder}compare.csv", f"{folder}compare.html"} <= set(made)
    again = snakemake(tmp_path, "compare", "--config", "runs=[one,two]")
    assert "Nothing to be done" in again.stderr
    # A changed table is named, before anything is compared.
    (tmp_path / "results/two/claims.csv").write_text("claim\n", encoding="utf-8")
    refused = snakemake(tmp_path, "compare", "--config", "runs=[one,two]")
    assert refused.returncode == 1
    assert f"results/two/claims.csv {guards.CHANGED}" in refused.stderr


def test_the_command_without_runs_says_which_there_are(tmp_path: Path) -> None:
    done = snakemake(tmp_path, "compare", "--cores", "1")
    assert done.returncode == 1
    assert "sqrtdk: compare: runs is missing; allowed: --config runs=" in done.stderr
    assert "Traceback" not in done.stderr
