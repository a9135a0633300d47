"""The pipeline as a person runs it: real Snakemake, on the smoke grid."""

import csv
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import inprocess
import pytest
import warm
from conftest import HANG, ROOT, SMOKE, Run, by_hand, environment, snakemake
from registered import BUILT, FIGURES

from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.storage import atomic, code_digest
from sqrtdk.workflow import code_files

TINY = ("d_k=[1,4]", "n_k=4", "n_q=3", "seeds=2")
# Which profile it reads, and that it builds the graph.
SNAKEMAKES_OWN = ("Using workflow specific profile", "Building DAG of jobs")
Snapshot = Callable[[Path], dict[str, bytes]]


def runs(folder: Path, name: str = "smoke") -> list[dict[str, str]]:
    path = folder / "results" / name / "scaling" / "runs.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def shards(folder: Path) -> set[str]:
    return {path.name for path in (folder / "results/shards/scaling").glob("*.csv")}


def table(name: str = "mine") -> str:
    return f"results/{name}/scaling/runs.csv"


def test_one_command_makes_every_file_of_the_contract(smoke: Path) -> None:
    run = smoke / "results/smoke"
    figures = [
        f"figures/{experiment}-{what}.{kind}"
        for experiment in BUILT
        for what in FIGURES[experiment]
        for kind in ("svg", "png")
    ]
    tables = [f"{name}/runs.csv" for name in BUILT]
    tables += [f"{name}/summary.csv" for name in BUILT if EXPERIMENTS[name].summarised]
    tables += ["claims.csv", "questions.csv"]
    for name in ["config.yaml", "provenance.json", "report.html", *tables, *figures]:
        assert (run / name).stat().st_size > 0, name


def test_runs_csv_is_tidy_sorted_and_complete(smoke: Path) -> None:
    raw = (smoke / "results/smoke/scaling/runs.csv").read_bytes()
    assert b"\r" not in raw
    assert raw.endswith(b"\n")
    header = raw.split(b"\n", 1)[0].decode()
    assert header == ",".join(column.name for column in scaling.COLUMNS)
    found = [(int(r["d_k"]), int(r["n_k"]), r["scaling"], int(r["seed"])) for r in runs(smoke)]
    assert found == sorted(
        (d_k, n_k, arm, seed)
        for d_k in (1, 16, 64, 1024)
        for n_k in (16, 64)
        for arm in ("off", "on")
        for seed in range(4)
    )


def test_at_one_dimension_the_two_arms_are_equal_to_the_bit(smoke: Path) -> None:
    first = [row for row in runs(smoke) if row["d_k"] == "1"]
    off, on = (
        [{**r, "scaling": ""} for r in first if r["scaling"] == arm] for arm in ("off", "on")
    )
    assert off == on
    assert len(off) == 8


def test_a_second_run_has_nothing_to_do(smoke_runs: dict[str, Any]) -> None:
    # Not in a copy, which Snakemake may find newer than what it knows.
    done = smoke_runs["again"]
    assert done.returncode == 0
    assert "Nothing to be done" in done.stderr


def test_the_first_figure_is_drawn_before_the_last_shard_is_measured(smoke: Path) -> None:
    figures = [path.stat().st_mtime_ns for path in smoke.glob("results/smoke/figures/*.svg")]
    shards = [path.stat().st_mtime_ns for path in smoke.glob("results/shards/*/*.csv")]
    assert min(figures) < max(shards)


def test_a_run_shows_how_far_it_is_and_how_long_it_will_take(smoke: Path) -> None:
    lines = (smoke / "results/smoke/logs/progress.log").read_text(encoding="utf-8").splitlines()
    jobs = lines[-1].split()[2]
    assert lines[0].startswith(f"1 of {jobs} jobs, ")
    assert lines[-1].startswith(f"{jobs} of {jobs} jobs, 100% of the work, ")
    assert all(line.endswith((" left", "estimating")) for line in lines)


@pytest.mark.parametrize("experiment", ["projections", "encoder_decoder", "score_width", "reach"])
def test_training_by_hand_gives_the_same_file(smoke: Path, tmp_path: Path, experiment: str) -> None:
    # Both seeds in one job there, the second one alone here.
    done = by_hand(tmp_path, f"experiments={experiment}", "grid=smoke", "seed=1", "out=1.csv")
    assert done.returncode == 0, done.stderr
    alone = (tmp_path / "1.csv").read_text(encoding="utf-8").splitlines()
    whole = smoke / f"results/smoke/{experiment}/runs.csv"
    header, *rows = whole.read_text(encoding="utf-8").splitlines()
    place = header.split(",").index("seed")
    of_one = [row for row in rows if row.split(",")[place] == "1"]
    assert 0 < len(of_one) < len(rows)
    assert alone == [header, *of_one]


def test_by_hand_the_same_digits_come_out(smoke: Path, tmp_path: Path) -> None:
    done = by_hand(tmp_path, "d_k=64", "seed=3", "scaling=off", "n_k=16")
    assert done.returncode == 0, done.stderr
    (row,) = csv.DictReader(done.stdout.splitlines())
    assert row in runs(smoke)


def test_by_multirun_the_same_digits_come_out(smoke: Path, tmp_path: Path) -> None:
    sweep = ("--multirun", "d_k=16,64", "seed=range(0,2)", "scaling=on,off", "out=rows.csv")
    done = by_hand(tmp_path, *sweep)
    assert done.returncode == 0, done.stderr
    printed = list(csv.DictReader(done.stdout.splitlines()))
    wanted = [
        row
        for row in runs(smoke)
        if row["d_k"] in ("16", "64") and row["n_k"] == "64" and row["seed"] in ("0", "1")
    ]
    assert sorted(map(str, printed)) == sorted(map(str, wanted))
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == wanted


def test_cores_and_shard_size_change_no_byte_of_runs_csv(smoke: Path, tmp_path: Path) -> None:
    # Of the experiments whose cells are computed in batches; training's shards are the largest.
    # The other tables and the figures are made of these, see the test of deleted files.
    names = [f"results/smoke/{one}/runs.csv" for one in ("scaling", "training")]
    done = snakemake(tmp_path, *names, "--cores", "1", *SMOKE, "shard_seeds=1")
    assert done.returncode == 0, done.stderr
    assert shards(tmp_path) != shards(smoke)
    assert [
        one for one in names if (smoke / one).read_bytes() != (tmp_path / one).read_bytes()
    ] == []


def test_snakemakes_own_report_is_made_with_captions(smoke: Path, tmp_path: Path) -> None:
    shutil.copytree(smoke, tmp_path, dirs_exist_ok=True)
    done = snakemake(tmp_path, *SMOKE, "--report", "view.zip")
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "view.zip") as view:
        page = b"".join(view.read(name) for name in view.namelist())
    for experiment in BUILT:
        for what in FIGURES[experiment]:
            caption = ROOT / f"src/sqrtdk/experiments/{experiment}/captions/{experiment}-{what}.rst"
            # docutils takes the title for the document's; the text below it is the caption.
            words = caption.read_text(encoding="utf-8").splitlines()[3].split()[:5]
            # The page holds captions as JSON.
            assert json.dumps(" ".join(words))[1:-1].encode() in page, caption


def test_growing_a_grid_computes_only_the_new_and_going_back_nothing(tmp_path: Path) -> None:
    tiny = ("--config", "name=mine", *TINY)
    assert snakemake(tmp_path, table(), *tiny).returncode == 0
    before, first = shards(tmp_path), (tmp_path / table()).read_bytes()

    more = ("--config", "name=mine", "d_k=[1,4,9]", *TINY[1:])
    assert snakemake(tmp_path, table(), *more).returncode == 0
    assert [name.split("-")[0] for name in shards(tmp_path) - before] == ["dk9"]
    assert len(runs(tmp_path, "mine")) == 12

    back = snakemake(tmp_path, table(), *tiny)
    assert "2 of 2 jobs" in back.stderr  # the configuration and the merge, no shard
    assert (tmp_path / table()).read_bytes() == first


def test_the_same_grid_under_another_name_computes_nothing(tmp_path: Path) -> None:
    assert snakemake(tmp_path, table("a"), "--config", "name=a", *TINY).returncode == 0
    before = shards(tmp_path)
    assert snakemake(tmp_path, table("b"), "--config", "name=b", *TINY).returncode == 0
    assert shards(tmp_path) == before
    assert runs(tmp_path, "a") == runs(tmp_path, "b")


def test_a_smaller_grid_is_noticed_also_where_snakemakes_records_are_gone(tmp_path: Path) -> None:
    assert snakemake(tmp_path, table(), "--config", "name=mine", *TINY).returncode == 0
    shutil.rmtree(tmp_path / ".snakemake")
    smaller = ("--config", "name=mine", "d_k=4", *TINY[1:])
    assert snakemake(tmp_path, table(), *smaller).returncode == 0
    assert {row["d_k"] for row in runs(tmp_path, "mine")} == {"4"}


def test_a_dry_run_changes_nothing(tmp_path: Path, snapshot: Snapshot) -> None:
    assert snakemake(tmp_path, table(), "--config", "name=mine", *TINY).returncode == 0
    before = snapshot(tmp_path)
    dry = snakemake(tmp_path, table(), "-n", "--config", "name=mine", "d_k=9", *TINY[1:])
    assert dry.returncode == 0
    assert "measure" in dry.stdout + dry.stderr
    assert snapshot(tmp_path) == before


SIGNED = ("provenance.json", "report.html", "report.md", "ro-crate-metadata.json", "codemeta.json")
"""Files of a run that say when, where or by what they were made."""

UNMADE = ("sqrtdk.jobs.trace", "sqrtdk.report", "sqrtdk.jobs.export")
"""Modules that make these files."""


def test_whatever_is_deleted_of_a_run_is_made_again(
    smoke: Path, tmp_path: Path, snapshot: Snapshot
) -> None:
    shutil.copytree(smoke, tmp_path, dirs_exist_ok=True)
    before = snapshot(tmp_path / "results")
    # A digest belongs to its file, and the copies of the rules to the export.
    deleted = {
        name: content
        for name, content in before.items()
        if not name.endswith((".log", ".tsv", ".lock", ".sha256")) and "/workflow/" not in name
    }
    # Of each folder of shards the first, and all else that the contract names.
    firsts = {Path(name).parent: name for name in reversed(deleted)}.values()
    victims = {name for name in deleted if "shards/" not in name or name in firsts}
    assert any("shards/exact" in name for name in victims)
    assert {f"shards/{experiment}" for experiment in BUILT} < {
        str(Path(name).parent) for name in victims
    }
    digests = {str(Path(name).with_name(f".{Path(name).name}.sha256")) for name in victims}
    for name in victims | digests & before.keys():
        (tmp_path / "results" / name).unlink()

    dry = snakemake(tmp_path, "-n", "-p", *SMOKE)
    assert dry.returncode == 0, dry.stderr
    outputs = re.findall("^    output: (.*)$", dry.stdout + dry.stderr, flags=re.MULTILINE)
    planned = {name.removeprefix("results/") for line in outputs for name in line.split(", ")}
    assert victims - planned == set()

    # Here, one by one, because Snakemake takes longer for this many jobs than they do. Half of the
    # time goes into pictures: those of one experiment are drawn. The pages need them all; what is
    # in the pages has tests of its own.
    commands = [
        (module, *words)
        for module, *words in inprocess.commands(dry)
        if module not in UNMADE and (module != "sqrtdk.jobs.draw" or words[0] == "worked_example")
    ]
    inprocess.write_job_files(tmp_path, SMOKE, commands)
    for module, *words in commands:
        with inprocess.within(tmp_path, [module, *words]):
            inprocess.run_module(module)
    drawn = "smoke/figures/worked_example-"
    made = {name for name in victims if "/figures/" not in name or name.startswith(drawn)}
    made -= {f"smoke/{name}" for name in SIGNED}
    after = snapshot(tmp_path / "results")
    made |= {name for name in digests & before.keys() if name.replace("/.", "/")[:-7] in made}
    assert [name for name in sorted(made) if after.get(name) != before[name]] == []


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[: len(content) // 2],
    "a flipped bit": lambda content: content[:900] + bytes([content[900] ^ 1]) + content[901:],
    "an edited digit": lambda content: content.replace(b"0.1", b"0.2", 1),
    "an edited slab": lambda content: content.replace(b'"d_v": 64', b'"d_v": 63', 1),
    "a row twice": lambda content: b"\n".join(
        [*(lines := content.split(b"\n"))[:3], lines[2], *lines[3:]]
    ),
    "empty": lambda content: b"",
    "no text at all": lambda content: bytes(range(256)),
}


def test_damaged_shards_are_named_and_made_again_and_no_other(
    tmp_path: Path, snapshot: Snapshot
) -> None:
    sizes = [1, 2, 3, 4, 5, 6, 7, 8]
    tiny = ("--config", "name=mine", "experiments=scaling", f"d_k={sizes}", *TINY[1:])
    assert snakemake(tmp_path, table(), *tiny).returncode == 0
    whole = (tmp_path / table()).read_bytes()
    before = snapshot(tmp_path / "results/shards")
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("results/shards/*/*.csv")}
    victims = sorted(tmp_path.glob("results/shards/scaling/*.csv"))[: len(DAMAGE)]
    for path, damage in zip(victims, DAMAGE.values(), strict=True):
        path.write_bytes(damage(path.read_bytes()))
        assert path.read_bytes() != before[f"scaling/{path.name}"]
    dry = snakemake(tmp_path, table(), "-n", *tiny)
    done = snakemake(tmp_path, table(), *tiny)
    assert done.returncode == 0, done.stderr
    for path in victims:
        line = f"sqrtdk: {path.relative_to(tmp_path)} is damaged; its cells are computed again"
        assert line in done.stderr
        assert line in dry.stderr
        # The damaged file is evidence; the cells are where the next one of its name is.
        assert path.with_suffix(".2.csv").read_bytes() == before[f"scaling/{path.name}"]
    assert (tmp_path / table()).read_bytes() == whole
    assert {path for path, when in written.items() if path.stat().st_mtime_ns != when} == set(
        victims
    )
    after = snakemake(tmp_path, table(), "-n", *tiny)
    assert "measure" not in after.stdout + after.stderr


def test_an_edited_table_is_named_and_nothing_is_made_of_it(
    smoke: Path, tmp_path: Path, snapshot: Snapshot
) -> None:
    shutil.copytree(smoke, tmp_path, dirs_exist_ok=True)
    edited = tmp_path / "results/smoke/scaling/runs.csv"
    whole = edited.read_bytes()
    edited.write_bytes(whole.replace(b"0.1", b"0.2", 1))
    before = snapshot(tmp_path)
    said = "sqrtdk: results/smoke/scaling/runs.csv was changed after it was written"
    # Of every file that a run writes it is noticed.
    run = tmp_path / "results/smoke"
    others = [path for path in run.rglob("[!.]*.*") if path.parent.name != "logs"]
    others.remove(edited)
    kept = {path: path.read_bytes() for path in others}
    for path, content in kept.items():
        path.write_bytes(content[:-1])
    dry = snakemake(tmp_path, "-n", *SMOKE)
    assert dry.returncode == 0
    assert said in dry.stderr
    for path, content in kept.items():
        assert f"sqrtdk: {path.relative_to(tmp_path)} was changed" in dry.stderr
        path.write_bytes(content)
    done = snakemake(tmp_path, *SMOKE)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"{said}; move it away or delete it")
    after = snapshot(tmp_path)
    # Which process had the lock last.
    assert {**after, "results/.lock": b""} == {**before, "results/.lock": b""}
    edited.unlink()
    assert snakemake(tmp_path, table("smoke"), *SMOKE).returncode == 0
    assert edited.read_bytes() == whole


def until_first_shard(process: subprocess.Popen[Any], at: Path) -> Path:
    """Wait until a run has finished a shard of scaling; return the folder of these shards."""
    folder = at / "results/shards/scaling"
    while not list(folder.glob("dk*.csv")):
        assert process.poll() is None, process.returncode
        time.sleep(0.01)
    return folder


def heeding(number: signal.Signals, *command: str) -> list[str]:
    """A command that heeds a signal, which whoever runs the tests in the background ignores."""
    # Not by preexec_fn, which forks, and libraries with threads warn of that.
    program = "import os, signal, sys; signal.signal(int(sys.argv[1]), signal.SIG_DFL); "
    program += "os.execv(sys.argv[2], sys.argv[2:])"
    return [sys.executable, "-c", program, str(int(number)), *command]


def test_a_closed_terminal_ends_a_run_that_has_nowhere_to_say_so() -> None:
    program = (
        "import os, signal, time; from sqrtdk.system import interrupts; interrupts.install(); "
        "os.close(2); os.kill(os.getpid(), signal.SIGHUP); signal.pause()"
    )
    done = subprocess.run(heeding(signal.SIGHUP, sys.executable, "-c", program), timeout=HANG)
    assert done.returncode == 128 + signal.SIGHUP


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_ends_at_once_with_one_line(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile")]
    arguments = ("--config", "grid=smoke", "name=smoke", "experiments=scaling", "seeds=400")
    process = subprocess.Popen(
        heeding(number, *command, *arguments), cwd=tmp_path, env=environment(),
        start_new_session=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    until_first_shard(process, tmp_path)
    os.killpg(process.pid, number)
    # Snakemake alone would wait for its jobs, if not for ever, and then exit with 1.
    _, said = process.communicate(timeout=HANG)
    assert process.returncode == 128 + number
    assert said.splitlines()[-1].startswith("sqrtdk: stopped by ")
    assert "Traceback" not in said


def test_a_failing_cell_is_named_and_the_rest_is_finished(tmp_path: Path) -> None:
    copy_project(tmp_path)
    # What a configuration can ask for does not fail, so the code does.
    size = "    n_k, d_v = arrays.v.shape[1:]\n"
    fault = "    if any(getattr(rule, 'value', 0) == 7 for rule in rules):\n"
    fault += "        raise OverflowError('too large')\n"
    edit(tmp_path, "experiments/scaling/measure.py", size, fault + size)
    rule = "hydra=scale_rules.big={rule:constant,value:7}"
    done = snakemake(
        tmp_path, table(), "--config", "name=mine", "d_k=[1,4]", "n_k=2", "n_q=2",
        "seeds=1", "scaling=[off,big]", rule, root=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    *_, head, first, second = done.stderr.splitlines()
    assert head.startswith("sqrtdk: 2 failed, as listed here")
    at = "n_k=2 n_q=2 inputs=gaussian dtype=float64 scaling=big seed=0: OverflowError: "
    assert all(f"d_k={d_k} {at}" in first + second for d_k in (1, 4))
    assert "Traceback" not in done.stderr
    assert not (tmp_path / table()).exists()


def test_a_killed_run_goes_on_with_the_same_command(smoke: Path, tmp_path: Path) -> None:
    # The shards of one experiment, so that few jobs are processes of their own.
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), table("smoke")]
    process = subprocess.Popen(
        [*command, *SMOKE],
        cwd=tmp_path,
        env=environment(),
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    folder = until_first_shard(process, tmp_path)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("dk*.csv")}
    assert 0 < len(kept) < 8
    done = snakemake(tmp_path, table("smoke"), *SMOKE)
    assert done.returncode == 0, done.stderr
    assert runs(tmp_path) == runs(smoke)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_a_second_run_at_the_same_time_is_refused_and_a_dry_run_is_not(tmp_path: Path) -> None:
    # Half files: of the run at work while there is one, and of a killed one after it.
    half = [
        tmp_path / "results" / folder / f".any.csv.x1y2{atomic.PARTIAL}"
        for folder in ("shards/scaling", "mine/scaling", "benchmarks")
    ]
    for path in half:
        path.parent.mkdir(parents=True)
        path.touch()
    with (tmp_path / "results/.lock").open("a+") as lock:
        lock.write("4711\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = snakemake(tmp_path, table(), "--config", "name=mine", *TINY)
        assert done.returncode == 1
        (line,) = [x for x in done.stderr.splitlines() if not x.startswith(SNAKEMAKES_OWN)]
        assert line.startswith("sqrtdk: another run is at work in results/ (process 4711)")
        assert not shards(tmp_path)
        assert snakemake(tmp_path, "-n", "--config", "name=mine", *TINY).returncode == 0
        assert all(path.exists() for path in half)
    assert snakemake(tmp_path, table(), "--config", "name=mine", *TINY).returncode == 0
    assert not any(path.exists() for path in half)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config", "d_k=0"], "d_k: 0 is not allowed"),
        (["--config", "scalin=off"], "did you mean scaling?"),
        (["--config", "name=../x"], "name: '../x' is not allowed"),
        (["--config", "d_k=4", "d_k=8"], "d_k is given twice"),
        (["--config", "hydra=d_k='4"], "balanced quotes"),
        (["--config", "d.k=4"], "must start with a valid identifier"),
        (["--config", "d_k"], "'d_k' is not allowed; allowed: KEY=VALUE"),
        (["--cofig", "d_k=4"], "unrecognized arguments: --cofig; did you mean --config?"),
        (["--config", "d_k=#"], "'d_k=#' has a comment as its value"),
        (["--configfile", "missing.yaml"], "No such file or directory: 'missing.yaml'"),
        (["--configfile", "broken.yaml"], "broken.yaml: line 1: expected"),
        (["--configfile", "."], "Is a directory: '.'"),
        (["--configfile", "latin.yaml"], "can't decode byte"),
        (["results/shards/scaling/x.csv"], "is not a shard of this configuration"),
        (["--configfile", "twice.yaml"], "d_k is given twice"),
        (["scalng"], "unknown target 'scalng'; known: all, scaling, "),
        (["scalng"], "did you mean scaling?"),
    ],
)
def test_a_mistake_is_answered_with_one_line_before_any_job(
    tmp_path: Path, snapshot: Snapshot, arguments: list[str], said: str
) -> None:
    (tmp_path / "broken.yaml").write_text("d_k: [1", encoding="utf-8")
    (tmp_path / "twice.yaml").write_text("d_k: 1\nd_k: 2\n", encoding="utf-8")
    (tmp_path / "latin.yaml").write_bytes("name: \u00e4".encode("latin-1"))
    before = snapshot(tmp_path)
    done = snakemake(tmp_path, *arguments)
    assert done.returncode != 0
    (line,) = [x for x in done.stderr.splitlines() if not x.startswith(SNAKEMAKES_OWN)]
    assert line.startswith("sqrtdk: ")
    assert said in line
    assert snapshot(tmp_path) == before


def snakefiles() -> str:
    """The text of all rules."""
    files = (ROOT / "Snakefile", *sorted((ROOT / "rules").glob("*.smk")))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def commands() -> list[str]:
    """The package's modules that the shell commands of the rules run, in their order."""
    return re.findall(r"python -m (sqrtdk[\w.]*)", snakefiles())


def modules() -> list[str]:
    """The same, and all modules that jobs load by their names."""
    found = ["sqrtdk.report.__main__" if one == "sqrtdk.report" else one for one in commands()]
    for path in sorted((ROOT / "src/sqrtdk/experiments").glob("*/*.py")):
        if path.stem != "__init__":
            found.append(f"sqrtdk.experiments.{path.parent.name}.{path.stem}")
    return found


# The commands of jobs are loaded first of all, each in a fork of a process with the libraries. Of
# modules that jobs load later, it is enough to see what each one imports while it is loaded.
IMPORTS = """
import builtins, gc, importlib, importlib.util, json, os, sys
for name in sys.argv[1].split():
    importlib.import_module(name)
is_own = lambda name: name.split(".")[0] == "sqrtdk"
assert not [name for name in sys.modules if is_own(name)]
gc.freeze()
commands = sys.argv[2].split()
for module in commands:
    sys.stdout.flush()
    if os.fork() == 0:
        importlib.import_module(module)
        own = [m for name, m in sys.modules.items() if is_own(name)]
        print(json.dumps({module: sorted(m.__file__ for m in own)}), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, module

named, statement, call = {}, builtins.__import__, importlib.import_module

def note(*names):
    # Of the module that is being loaded, whichever function of which module it calls.
    frame = sys._getframe(2)
    loads = lambda at: at.f_code.co_name == "<module>" and is_own(at.f_globals["__name__"])
    while frame and not loads(frame):
        frame = frame.f_back
    if frame:
        named.setdefault(frame.f_globals["__name__"], set()).update(filter(is_own, names))

def noted_statement(name, globals=None, locals=None, fromlist=(), level=0):
    found = statement(name, globals, locals, fromlist, level)
    if globals and is_own(globals["__name__"]):
        whole = importlib.util.resolve_name("." * level + name, globals["__package__"])
        note(whole, *(f"{whole}.{part}" for part in fromlist or ()))
    return found

def noted_call(name, package=None):
    note(name)
    return call(name, package)

builtins.__import__, importlib.import_module = noted_statement, noted_call
for module in sys.argv[3:]:
    call(module)
for module in sys.argv[3:]:
    found, todo = set(), [module]
    while todo:
        # What a statement names may be something in a module.
        if (name := todo.pop()) in sys.modules and name not in found:
            found.add(name)
            todo += [*named.get(name, ()), *filter(None, [name.rpartition(".")[0]])]
    print(json.dumps({module: sorted(sys.modules[name].__file__ for name in found)}))
"""


def test_what_a_rule_lists_is_what_its_module_imports() -> None:
    # The interpreter's own word, against the closure that `code_digest` reads from the source.
    jobs = [one for one in modules() if not one.startswith("sqrtdk.experiments.")]
    others = [one for one in modules() if one not in jobs]
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, " ".join(warm.LOADED), " ".join(jobs), *others],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    imported = {}
    for line in done.stdout.splitlines():
        imported |= json.loads(line)
    assert list(imported) == list(dict.fromkeys(modules()))
    # The registry loads every experiment, which `Workflow.code` adds of those that a job is about.
    experiments = {
        str(path)
        for name in EXPERIMENTS
        for path in code_digest.closure(f"sqrtdk.experiments.{name}.experiment")
    }
    registry = str(code_digest.PACKAGE / "experiments/registry.py")
    for module, files in imported.items():
        listed = {str(path) for path in code_digest.closure(module)}
        assert listed | (experiments if registry in listed else set()) == set(files), module


def test_every_rule_that_runs_a_module_lists_its_code() -> None:
    rules = [
        rule
        for rule in re.split(r"\n *rule\b", snakefiles())
        if re.search(r"python -m sqrtdk", rule)
    ]
    assert len(rules) == len(commands())
    for rule, module in zip(rules, commands(), strict=True):
        code = re.search(r"^ +code=(.*),$", rule, re.MULTILINE)
        if module == "sqrtdk.jobs.shards":
            # A shard's address has the code's digest.
            assert code is None
            continue
        assert code is not None, rule
        job = module.removeprefix("sqrtdk.jobs.")
        known = {"derive": "flow.derived_code", "sqrtdk.report": "flow.prose()"}
        known["draw"] = "flow.drawing_code(experiment)"
        listed = known.get(job) or code[1]
        assert code[1] == listed
        assert job in known or f'"{job}"' in listed or f'code("{module}")' == listed, rule


def test_the_code_of_a_job_is_that_of_all_modules_that_it_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for names in (("sqrtdk.jobs.draw",), ("sqrtdk.jobs.draw", "sqrtdk.experiments.reach.figures")):
        text = Path(code_files.code(*names)).read_text(encoding="utf-8")
        assert text.splitlines() == [code_digest.digest(name) for name in names]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project whose modules a test may edit, with a finished tiny run beside it."""
    root = tmp_path_factory.mktemp("project")
    copy_project(root)
    assert run_project(root).returncode == 0
    return root


def copy_project(root: Path) -> None:
    """Copy what a run needs, so that a test may edit it; with bytecode, which has the old times."""
    for name in ("src", "conf", "profiles", "envs", "rules"):
        shutil.copytree(ROOT / name, root / name)
    for name in ("Snakefile", "CITATION.cff"):
        shutil.copy(ROOT / name, root / name)


def run_project(root: Path, *arguments: str, target: str = "scaling") -> Run:
    return snakemake(root, target, *arguments, "--config", "name=mine", *TINY, root=root)


SUMMARIZED = {
    *("measure_shard", "merge", "contrasts", "exact_table", "summarize", "derive", "draw_scaling"),
}


DEPENDING = {
    "report/page.py": set(),
    "experiments/scaling/figures.py": {"draw_scaling"},
    "experiments/scaling/crossings.py": {"derive", "draw_scaling"},
    "theory/expectations.py": SUMMARIZED - {"measure_shard", "merge", "contrasts"}
    | {"exact_shard"},
    "experiments/cells.py": SUMMARIZED,
}
"""Modules, and the rules of `scaling` that run again once they were edited."""


def test_an_edited_module_runs_again_exactly_what_depends_on_it(
    project: Path, tmp_path: Path
) -> None:
    stamps = project / ".snakemake/sqrtdk/code"
    shutil.copytree(stamps, tmp_path / "code")
    found = {}
    for edited in DEPENDING:
        edit(project, edited, "", "EDITED = 1\n")
        found[edited] = planned(project)
        # Back to what the finished run is of, which is cheaper than to run it again.
        edit(project, edited, "EDITED = 1\n", "")
        shutil.rmtree(stamps)
        shutil.copytree(tmp_path / "code", stamps)
    assert found == DEPENDING


def test_edited_docstrings_comments_and_errors_run_nothing_again(project: Path) -> None:
    for module in (
        "experiments/cells",
        "experiments/scaling/crossings",
        "core/scale_rules",
        "storage/tables",
        "theory/points",
    ):
        edit(project, f"{module}.py", '"""', '"""Edited. ')
        edit(project, f"{module}.py", "", "# edited\n")
    edit(project, "system/disk.py", "of {} is full", "of {} has no room")
    edit(project, "system/errors.py", "is not JSON", "is no JSON")
    edit(
        project, "storage/shard_files.py", "does not match its digest", "is not that of its digest"
    )
    edit(
        project,
        "jobs/measure.py",
        "the first seed and the one after",
        "the first seed and one after",
    )
    edit(project, "jobs/merge.py", "two shards disagree", "some shards disagree")
    assert planned(project) == set()


def test_an_edited_meaning_of_a_column_or_key_measures_nothing_again(project: Path) -> None:
    edit(project, "schema.py", "Number of keys that", "How many keys")
    edit(
        project, "experiments/scaling/measure.py", "Largest weight of a", "The largest weight of a"
    )
    rules = SUMMARIZED - {"measure_shard"} | {"write_config"}
    assert planned(project) == rules
    # The shards that there are serve, and the next test finds tables of this code.
    assert run_project(project, target=f"results/mine/{CROSSINGS}").returncode == 0


CROSSINGS = "scaling/crossings.csv"


def test_code_that_comes_back_is_noticed_without_snakemakes_records(project: Path) -> None:
    # The table alone: drawing takes ten times as long.
    target = f"results/mine/{CROSSINGS}"
    edit(project, "experiments/scaling/crossings.py", "", "BACK = 1\n")
    assert run_project(project, target=target).returncode == 0
    edit(project, "experiments/scaling/crossings.py", "BACK = 1\n", "")
    assert planned(project, target) == {"derive"}
    assert run_project(project, target=target).returncode == 0
    shutil.rmtree(project / ".snakemake")
    assert "measure_shard" not in planned(project, target)


def edit(root: Path, module: str, old: str, new: str) -> None:
    """Replace the first place of a text in a module of a copy; the empty text is its end."""
    path = root / "src/sqrtdk" / module
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1) if old else text + new, encoding="utf-8")


def planned(root: Path, target: str = "scaling") -> set[str]:
    """The rules of the jobs that a dry run of a copy lists, its targets aside."""
    dry = run_project(root, "-n", target=target)
    assert dry.returncode == 0, dry.stderr
    lines = map(str.split, (dry.stdout + dry.stderr).splitlines())
    found = {line[0] for line in lines if len(line) == 2 and line[1].isdigit()}
    return found - {"total", "scaling"}


def test_the_python_of_jobs_asks_for_forks_in_these_tests(tmp_path: Path) -> None:
    # Otherwise all of this works too, and takes twice as long.
    (tmp_path / "probe.py").write_text(
        "import shutil\nfrom sqrtdk.workflow import environment\nenvironment.prepare_jobs()\n"
        "print(shutil.which('python'))\n",
        encoding="utf-8",
    )
    done = warm.run(tmp_path, "probe", environment=environment(), limit=HANG)
    assert done.returncode == 0, done.stderr
    assert b"job.py" in Path(done.stdout.strip()).read_bytes()
