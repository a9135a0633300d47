"""What `import sqrtdk` offers, and what it leaves alone."""

import ast
import json
import operator
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import HANG, ROOT, by_hand
from registered import BUILT

import sqrtdk
import sqrtdk as sq
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.report import dictionary
from sqrtdk.system import threads

NAMES = sorted(set(sq.__all__) - {"__version__"})
PAGE = (ROOT / "docs/library.md").read_text(encoding="utf-8")
MANY = dict.fromkeys(threads.VARIABLES, "7")

Q, K, V, G = np.random.default_rng(0).standard_normal((4, 6, 8))
LOGITS = Q @ K.T


def python(*arguments: str, folder: Path = ROOT, **variables: str) -> str:
    """Run Python with more BLAS threads in its environment, and return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env=os.environ | MANY | variables, capture_output=True, text=True, timeout=HANG,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


# No side effects


def test_importing_the_package_changes_no_variable_and_loads_nothing_heavy() -> None:
    program = (
        "import json, os, sys; before = dict(os.environ), {*sys.modules}, sys.path.copy(); "
        "import sqrtdk; dir(sqrtdk); assert before[0] == os.environ and before[2] == sys.path; "
        "new = {*sys.modules} - before[1] - sys.stdlib_module_names; print(json.dumps([*new]))"
    )
    new = {name for name in json.loads(python("-c", program)) if "." not in name}
    assert new - set(sys.stdlib_module_names) == {"sqrtdk"}


def test_the_experiments_are_known_without_loading_what_only_some_jobs_need() -> None:
    # Every start of a run and of a job knows all experiments; these take half a second together.
    heavy = ("pandas", "scipy.special", "scipy.optimize", "scipy.interpolate", "matplotlib")
    program = (
        "import json, sys; import sqrtdk.experiments.registry, sqrtdk.jobs.merge; "
        f"print(json.dumps([name for name in {heavy!r} if name in sys.modules]))"
    )
    assert json.loads(python("-c", program)) == []


# Each name is used in a fork of a process that has used none, with what most of them load.
USING = """
import os, sys
before = dict(os.environ)
import numpy, pandas, scipy.special
import sqrtdk
for name in sys.argv[1:]:
    if os.fork() == 0:
        getattr(sqrtdk, name)
        kept = {name: value for name, value in os.environ.items() if "THREADS" in name}
        same = kept == {name: before.get(name) for name in kept}
        print(name, len(kept) if same else kept, flush=True)
        os._exit(0)
    os.wait()
"""


def test_using_a_name_changes_no_variable() -> None:
    lines = python("-c", USING, *NAMES).splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    assert [line for line in lines if not line.split()[1].isdigit()] == []
    assert min(int(line.split()[1]) for line in lines) >= len(MANY)


# One thread where jobs start

# Runs in the process of the job at its end. The interpreter itself imports this module.
PROBE = """
import atexit, os
@atexit.register
def tell():
    import numpy
    a = numpy.ones((500, 500))
    a @ a
    with open(os.environ["PROBE"], "w") as file:
        print(len(os.listdir("/proc/self/task")), os.environ["OMP_NUM_THREADS"], file=file)
"""


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(),
    reason="the test counts threads in /proc, which macOS does not have",
)
@pytest.mark.parametrize(
    "words",
    [
        ("sqrtdk.run", "d_k=4", "n_k=4", "n_q=2"),
        ("sqrtdk", "d_k=4", "n_k=4", "n_q=2"),
        ("sqrtdk.jobs.configure", "{folder}/in.yaml", "{folder}/out.yaml"),
        ("sqrtdk.experiments.scaling.measure", "{slab}", "{folder}/out.csv"),
    ],
    ids=lambda words: words[0],
)
def test_a_job_computes_with_one_thread_whatever_its_environment_says(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(PROBE, encoding="utf-8")
    (tmp_path / "in.yaml").write_text("name: mine\n", encoding="utf-8")
    slab = {
        "d_k": 4, "n_k": 4, "n_q": 2, "d_v": 2, "dtype": "float64", "seeds": [0, 1],
        "inputs": {"gaussian": {"law": "gaussian"}},
        "scaling": {"on": {"rule": "power", "exponent": 0.5}},
    }  # fmt: skip
    text = [word.format(folder=tmp_path, slab=json.dumps(slab)) for word in words]
    python(
        "-m", *text,
        PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT / "src")]),
        PROBE=str(tmp_path / "probe"),
    )  # fmt: skip
    assert (tmp_path / "probe").read_text(encoding="utf-8") == "1 1\n"


def test_the_pipeline_gives_its_jobs_one_thread() -> None:
    program = (
        "import os; from sqrtdk.workflow import environment; environment.prepare_jobs(); "
        f"print(*(os.environ[name] for name in {threads.VARIABLES}))"
    )
    assert set(python("-c", program).split()) == {"1"}


# The names


def test_every_listed_name_has_a_source_and_type_checkers_see_the_same() -> None:
    tree = ast.parse(Path(sqrtdk.__file__).read_text(encoding="utf-8"))
    (block,) = [x for x in tree.body if isinstance(x, ast.If) and "not" not in ast.unparse(x.test)
                and "TYPE_CHECKING" in ast.unparse(x.test)]  # fmt: skip
    seen = {
        alias.asname or alias.name: f"{line.module}.{alias.name}"
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
    assert seen == {name: f"sqrtdk.{source}" for name, source in sqrtdk._SOURCES.items()}
    assert sorted(seen) == NAMES
    assert dir(sqrtdk) == sorted(sq.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_explained_on_the_page_and_in_its_docstring(name: str) -> None:
    assert re.search(rf"^- `{name}\b.*`.* (gives|is|makes|draws) ", PAGE.replace("\n  ", " "), re.M)
    assert getattr(sq, name).__doc__


def test_the_page_explains_no_name_that_is_not_there() -> None:
    section = PAGE.split("\n## Names\n")[1].split("\n## ")[0]
    assert sorted(re.findall(r"^- `(\w+)", section, re.M)) == NAMES


def test_an_unknown_name_is_an_attribute_error_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'sqrtdk' has no attribute 'atention'"):
        operator.attrgetter("atention")(sq)


WORKS = {
    "Factor": lambda: sq.Factor(0.5).value == 0.5,
    "Kernel": lambda: sq.Kernel().measure(*(x[None] for x in (Q, K, V, G)), [0.5])[0].scale == 0.5,
    "ScaleRule": lambda: isinstance(sq.Factor(0.5), sq.ScaleRule),
    "UserError": lambda: issubclass(sq.UserError, Exception),
    "attention": lambda: sq.attention(Q, K, V, scale=0.5).output.shape == (6, 8),
    "causal_mask": lambda: sq.causal_mask(2, 2).tolist() == [[True, False], [True, True]],
    "draw_inputs": lambda: draw().q.shape == (3, 8),
    "expectations": lambda: 0 < sq.expectations(4, 8, 1.0).entropy_nats < np.log(4),
    "gradient_crossing_d_k": lambda: sq.gradient_crossing_d_k(256, "logits") > 1,
    "gradients": lambda: (
        sq.gradients(Q, K, V, G, sq.attention(Q, K, V, scale=0.5), scale=0.5).q.shape == Q.shape
    ),
    "half_entropy_d_k": lambda: np.log(256) < sq.half_entropy_d_k(256) < 2 * np.log(256),
    "logit_std": lambda: sq.logit_std(LOGITS) > 0,
    "measure": lambda: len(sq.measure(np.ones((2, 3, 4)), np.ones((2, 5, 4)))) == 2,
    "row_metrics": lambda: sq.row_metrics(LOGITS).max_weight.shape == (6,),
    "row_norms": lambda: sq.row_norms(np.array([[3.0, 4.0]])).tolist() == [5.0],
    "scale_rule": lambda: (
        sq.scale_rule({"rule": "power", "exponent": 0.5}, d_k=64, n_k=2) == sq.Factor(0.125)
    ),
    "scores": lambda: np.array_equal(sq.scores(Q, K), Q @ K.T),
    "softmax": lambda: sq.softmax(np.zeros((1, 2))).tolist() == [[0.5, 0.5]],
    "summarize_norms": lambda: sq.summarize_norms(np.ones(4)).median == 1.0,
}


def draw() -> Any:
    law = {"law": "gaussian"}
    return sq.draw_inputs(law, d_k=8, n_k=4, n_q=3, d_v=2, seed=0, dtype="float64")


@pytest.mark.parametrize("name", WORKS)
def test_each_name_does_what_the_page_says(name: str) -> None:
    assert WORKS[name]()


def test_all_other_names_read_results_and_are_tried_below() -> None:
    assert set(NAMES) - set(WORKS) == {"load_run", "read_table"}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: sq.scale_rule({"rule": "powr"}, d_k=4, n_k=4),
            "rule is 'powr'; allowed: ",
        ),
        (lambda: sq.scale_rule({}, d_k=4, n_k=4), "rule is None; allowed: "),
        (
            lambda: sq.draw_inputs(
                {"law": "normal"}, d_k=4, n_k=4, n_q=4, d_v=4, seed=0, dtype="float64"
            ),
            "law is 'normal'; allowed: gaussian",
        ),
    ],
    ids=["rule", "no rule", "law"],
)
def test_an_unknown_rule_or_law_is_named_with_those_that_exist(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        make()


def test_the_example_of_the_library_runs_and_shows_what_scaling_does() -> None:
    text = (ROOT / "docs/library.md").read_text(encoding="utf-8")
    block = text.split("What scaling does")[1].split("```python\n")[1].split("```")[0]
    without, scaled = map(float, python("-c", block).split())
    # ln 256 is 5.5; the exact means for d_k = 64 are about 0.6 and 5.1.
    assert without < 1 < 4.5 < scaled


def test_the_lines_of_the_readme_about_a_model_of_ones_own_make_a_table(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.split("## Your own model")[1].split("\n\n")[2]
    lines = [line[4:] for line in block.splitlines()]
    drawn = "q, k = np.random.default_rng(0).standard_normal((2, 3, 20, 8))"
    code = "\n".join([lines[0], f"import os; os.chdir({str(tmp_path)!r})", drawn, *lines[1:]])
    rows = [line for line in python("-c", code).splitlines() if re.match(r"\d", line)]
    assert len(rows) == 3
    with np.load(tmp_path / "qk.npz") as file:
        assert sorted(file.files) == ["layer0.k", "layer0.q"]


# Results


def test_a_finished_run_is_loaded_with_its_configuration_and_its_tables(smoke: Path) -> None:
    run = sq.load_run(smoke / "results/smoke")
    assert run.config.name == "smoke"
    assert set(run.config.settings) == set(BUILT)
    assert len(run.tables) == len([*run.folder.rglob("*.csv")])
    for name, table in run.tables.items():
        lines = (run.folder / f"{name}.csv").read_text(encoding="utf-8").splitlines()
        assert list(table.columns) == lines[0].split(",")
    runs = run.tables["scaling/runs"]
    assert runs["d_k"].drop_duplicates().tolist() == run.config.settings["scaling"]["d_k"]
    assert runs["entropy_nats"].dtype == np.float64
    assert run.tables["scaling/runs"] is runs
    with pytest.raises(KeyError, match="the tables are scaling/runs, "):
        run.tables["scaling/run"]


def test_tables_with_the_same_header_have_the_same_types() -> None:
    known: dict[tuple[str, ...], Any] = {}
    for table in dictionary.known(EXPERIMENTS).values():
        names = tuple(column.name for column in table.columns)
        types = [(column.read, column.optional) for column in table.columns]
        assert known.setdefault(names, types) == types


def test_rows_measured_by_hand_are_read_as_a_table(tmp_path: Path) -> None:
    done = by_hand(tmp_path, "d_k=4", "n_k=4", "n_q=2", "out=rows.csv")
    assert done.returncode == 0, done.stderr
    table = sq.read_table(tmp_path / "rows.csv")
    assert isinstance(table, pd.DataFrame)
    assert table["d_k"].tolist() == [4]


def test_what_is_not_a_run_or_a_table_is_a_user_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe")
    (tmp_path / "empty.csv").touch()
    for name in ("other.csv", "bytes.csv", "empty.csv", "missing.csv", "."):
        with pytest.raises(sq.UserError) as caught:
            sq.read_table(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(sq.UserError, match="is not the folder of a run"):
        sq.load_run(tmp_path)


def test_a_table_that_was_edited_is_refused(smoke: Path, tmp_path: Path) -> None:
    for name in ("questions.csv", ".questions.csv.sha256"):
        (tmp_path / name).write_bytes((smoke / "results/smoke" / name).read_bytes())
    with (tmp_path / "questions.csv").open("a", encoding="utf-8") as file:
        file.write("x")
    with pytest.raises(sq.UserError, match="was changed after it was written"):
        sq.read_table(tmp_path / "questions.csv")
