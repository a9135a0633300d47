"""A new experiment is one folder, one folder in conf/ and one line; half of one harms no other."""

import csv
import re
import shutil
from pathlib import Path

import pytest
import warm
from conftest import HANG, ROOT, environment, snakemake
from workflow.test_pipeline import copy_project

NAME = "temperature"
LINE = "  - optional experiment/reach: ${grid}\n"


def add(root: Path) -> Path:
    """Add the toy experiment to a copy of the project, and return its folder."""
    folder = root / "src/sqrtdk/experiments" / NAME
    shutil.copytree(ROOT / "tests" / NAME, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "conf").rename(root / "conf/experiment" / NAME)
    path = root / "conf/config.yaml"
    text = path.read_text(encoding="utf-8")
    assert text.count(LINE) == 1
    path.write_text(text.replace(LINE, LINE + LINE.replace("reach", NAME)), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    copy_project(root)
    add(root)
    return root


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Path:
    root = tmp_path / "copy"
    shutil.copytree(original, root, ignore=shutil.ignore_patterns(".snakemake", "results"))
    return root


def by_hand(root: Path, *arguments: str) -> str:
    variables = environment() | {"PYTHONPATH": str(root / "src")}
    done = warm.run(root, "sqrtdk.run", *arguments, environment=variables, limit=HANG)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_an_experiment_from_one_folder_is_measured_judged_drawn_and_reported(
    original: Path,
) -> None:
    done = snakemake(original, "--config", "name=mine", f"experiments={NAME}", root=original)
    assert done.returncode == 0, done.stderr
    run = original / "results/mine"
    with (run / "claims.csv").open(encoding="utf-8", newline="") as file:
        claims = {row["claim"]: row for row in csv.DictReader(file)}
    assert claims[NAME]["verdict"] == "true"
    assert claims["saturation"]["verdict"] == "not measured"
    page = (run / "report.html").read_text(encoding="utf-8")
    for part in (
        "A higher temperature flattens the weights",
        "divides the scores",
        "temperature/runs.csv",
        "and by this number",
        'id="figure-temperature-entropy"',
    ):
        assert part in page, part
    assert "6 seeds." in page
    # By hand, the axes and the column of the toy, and its help.
    out = by_hand(original, f"experiments={NAME}", "d_k=4", "temperature=1", "seeds=2")
    assert out.splitlines()[0] == "d_k,n_k,temperature,seed,entropy"
    assert len(out.splitlines()) == 3
    assert "Experiment temperature: Entropy of the attention weights" in by_hand(original, "--help")


HALVES = {
    "no_conf": None,
    "no_figures": "figures.py",
    "no_claims": "claims.py: def (",
    "no_measure": "measure.py",
    "no_import": "experiment.py: import nothing_of_this_name",
}
"""Of each experiment, what it lacks: its part in conf/, or a file that is gone or replaced."""


def test_half_an_experiment_breaks_neither_the_help_nor_other_experiments(project: Path) -> None:
    whole, config = project / "src/sqrtdk/experiments" / NAME, project / "conf/config.yaml"
    lines = ""
    # All in one project, whose code is loaded anew: each is found and loaded by itself.
    for half, lacks in HALVES.items():
        folder = whole.with_name(half)
        shutil.copytree(whole, folder, ignore=shutil.ignore_patterns("__pycache__"))
        for path in folder.glob("[ce]*.py"):
            text = path.read_text("utf-8")
            for named in (f"experiments.{NAME}", f'    name="{NAME}"', f'        "{NAME}'):
                text = text.replace(named, named.replace(NAME, half))
            path.write_text(text, encoding="utf-8")
        caption = folder / f"captions/{NAME}-entropy.rst"
        caption.rename(caption.with_name(f"{half}-entropy.rst"))
        if lacks is None:
            continue
        shutil.copytree(project / "conf/experiment" / NAME, project / "conf/experiment" / half)
        lines += LINE.replace("reach", half)
        name, _, content = lacks.partition(": ")
        (folder / name).unlink()
        if content:
            (folder / name).write_text(content + "\n", encoding="utf-8")
    config.write_text(config.read_text("utf-8").replace(LINE, LINE + lines), encoding="utf-8")
    assert "Experiment scaling: " in by_hand(project, "--help")
    done = snakemake(project, "scaling", "-n", "--config", "grid=smoke", root=project)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    left_out = re.findall(r"experiment (\w+) is left out: (\w+)", done.stderr)
    assert left_out == [("no_import", "ModuleNotFoundError"), ("no_measure", "ImportError")]
