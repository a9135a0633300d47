"""Minimal runs: what a run lacks is left out of its figures, tables and report."""

import re
import warnings
from pathlib import Path

import pandas as pd
import pytest
from inprocess import build
from matplotlib.backends.backend_agg import FigureCanvasAgg
from registered import FIGURES

from sqrtdk.experiments import schemas
from sqrtdk.experiments.base import load
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.figures import style
from sqrtdk.stats import summary
from sqrtdk.storage import atomic, frames, tables
from sqrtdk.theory import exact_table

RUNS = {
    # As the how-to has it: nothing has an exact value. The other experiments have no such inputs.
    "related_alone": (
        "experiments=[scaling,related,precision]", "n_q=2", "d_v=2", "seed=3", "name=007x",
        "hydra=inputs=planted input_laws.planted.cosine=0.8", "d_k=[1,16]", "n_k=[1,4]",
    ),
    # No factor among the rules, half the digits, one size.
    "no_factor": (
        "experiments=[scaling,related]", "scaling=[qk_norm,soft_cap]", "n_q=2", "d_v=2", "d_k=16",
        "n_k=4", "dtype=float32", "seeds=2", "name=true",
    ),
    # Nothing to compare and nothing to attend to.
    "one_of_everything": (
        "scaling=off", "reader=fixed", "d_k=1", "n_k=1", "n_q=1", "d_v=1", "seeds=1", "length=1",
        "hidden=1", "steps=1", "log_every=1", "learning_rate=0.1", "batch=1", "batch_size=1",
        "d_model=1", "input_sd=1", "precision=float16", "order=after", "optimizer=sgd",
        "loss=values", "name=one",
    ),
    # Every gradient is zero, and nothing but the arm without a scale.
    "saturated": (
        "experiments=[scaling,related]", "hydra=inputs=planted input_laws.planted.cosine=1",
        "scaling=off", "d_k=4096", "n_k=4", "n_q=2", "d_v=2", "seeds=2", "name=dead",
    ),
}  # fmt: skip


@pytest.mark.parametrize("given", RUNS.values(), ids=RUNS)
def test_every_figure_and_the_report_are_made_of_a_run_that_lacks_something(
    tmp_path: Path, given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The PNG files are a third of the time, and nobody looks at them here. They have the contents
    # of the SVG files, so one run, of all experiments, shows that they can be made.
    monkeypatch.setattr(style, "_dpi", lambda figure: 10.0)
    if "name=one" not in given:
        monkeypatch.setattr(FigureCanvasAgg, "print_png", lambda canvas, path: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folder = build(tmp_path, "--config", *given)
    page = (folder / "report.html").read_text(encoding="utf-8")
    made = {path.parent.name for path in folder.glob("*/runs.csv")}
    assert made
    for experiment in made:
        for what in FIGURES[experiment]:
            drawn = (folder / f"figures/{experiment}-{what}.svg").read_text(encoding="utf-8")
            # A line or, of a figure with nothing to show, the reason.
            assert "<path" in drawn or "Nothing to show" in drawn
            assert f"{experiment}-{what}" in page
        if EXPERIMENTS[experiment].summarised:
            schema = summary.columns(EXPERIMENTS[experiment].columns)
            assert len(frames.read(folder / experiment / "summary.csv", schema))
    assert not re.search(r"\bnan\b", page.split("<main", 1)[-1].replace("-nan", ""))


@pytest.mark.parametrize("name", [name for name, x in EXPERIMENTS.items() if x.research])
def test_figures_of_research_are_drawn_of_one_value_of_an_axis(name: str, smoke: Path) -> None:
    experiment, folder = EXPERIMENTS[name], smoke / "results/smoke" / name
    found = {
        one: frames.read(folder / f"{one}.csv", schemas.columns(experiment, one))
        for one in experiment.drawn_from
    }
    # What a run of one value has in its tables, up to the seeds.
    for key in (key for key in experiment.measure.CONFIG_KEYS if key.axis):
        values = {x for table in found.values() if key.name in table for x in table[key.name]}
        some = sorted(values) if len(values) > 1 else []
        # Code differs by name; one size stands for the others, for time.
        for value in some if key.kind in ("choice", "name") else some[:1]:
            part = {
                one: table[table[key.name] == value] if key.name in table else table
                for one, table in found.items()
            }
            for draw in load(name, "figures").BUILD.values():
                with style.context(), warnings.catch_warnings():
                    warnings.simplefilter("error")
                    assert draw(part).get_children(), (key.name, value)


def test_a_table_without_rows_has_the_types_of_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "exact.csv"
    atomic.write_atomically(path, tables.text([], exact_table.COLUMNS))
    empty = frames.read(path, exact_table.COLUMNS)
    assert empty.empty
    row = {"d_k": 1.0, "n_k": 2, "n_q": 3, "inputs": "gaussian", "scaling": "on",
           "metric": "entropy_nats", "exact": 0.5}  # fmt: skip
    atomic.write_atomically(path, tables.text([row], exact_table.COLUMNS))
    full = frames.read(path, exact_table.COLUMNS)
    assert empty.dtypes.to_dict() == full.dtypes.to_dict()
    assert empty.merge(full, on=["d_k", "n_k", "scaling"]).empty
    assert pd.concat([empty, full])["n_k"].tolist() == [2]


def test_numbers_beyond_the_table_are_named(tmp_path: Path) -> None:
    path = tmp_path / "exact.csv"
    header = "d_k,n_k,n_q,inputs,scaling,metric,exact"
    path.write_text(f"{header}\n1,{10**30},1,gaussian,on,x,1\n", encoding="utf-8")
    with pytest.raises(tables.TableError, match=r"exact\.csv cannot be read as its table"):
        frames.read(path, exact_table.COLUMNS)
