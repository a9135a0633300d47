"""Commands as users type them: a mistake gives the same message by hand and in the pipeline."""

import csv
import errno
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from config.test_hints import corrected
from config.test_mistakes import FILE
from conftest import ROOT, Run, environment, snakemake
from hypothesis import example, given
from hypothesis import strategies as st

import sqrtdk
from sqrtdk import cli
from sqrtdk.config import run as config_run
from sqrtdk.config import yaml_reader
from sqrtdk.config.compose import composed
from sqrtdk.config.errors import ConfigError
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.jobs import measure as measure_job
from sqrtdk.known_answers import __main__ as known_answers_command
from sqrtdk.models import __main__ as models_command
from sqrtdk.report import __main__ as report_command
from sqrtdk.system.errors import UserError
from sqrtdk.workflow import arguments
from sqrtdk.workflow.request import compose

RULE = "rules that are one factor of d_k and n_k"

TAKERS = "precision, training and initialisation"
"""The experiments of the smoke grid that take such rules only."""
DECIMAL = "numbers in decimal digits without leading zeros"


@pytest.fixture
def hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Function: what `python -m sqrtdk.run` says to standard error, and its exit code."""

    def give(*words: str) -> tuple[str, int]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
        monkeypatch.setattr(sys, "argv", [cli.__file__, *words])
        code = 0
        try:
            cli.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        return capsys.readouterr().err, code

    return give


def pipeline(*words: str) -> config_run.Run:
    """Read `snakemake --config WORDS` as Snakemake and the Snakefile do. Raises UserError."""
    from snakemake.cli import parse_config

    given = ["--config", *words]
    try:
        values = parse_config(list(words))
    except ValueError:
        raise UserError(arguments.command_error(given) or "") from None
    return compose(values, arguments=given)


def refused(*words: str) -> str:
    with pytest.raises(UserError) as caught:
        pipeline(*words)
    return str(caught.value)


# Words that both commands take, and the line that both print.
SAME = [
    ("experiments=training scaling=qk_norm steps=4", f"scaling: 'qk_norm' * for training, {RULE}"),
    ("experiments=training scaling=[on,soft_cap]", f"scaling: 'soft_cap' * for training, {RULE}"),
    ("experiments=precision scaling=key_norm_sum", f"'key_norm_sum' * for precision, {RULE}"),
    ("experiments=training training='{scaling: qk_norm}'", f"'qk_norm' * for training, {RULE}"),
    ("experiments=scaling training='{steps: 4}'", "training: {'steps': 4} * experiments=training"),
    ("experiments=scaling reach='{length: 4}'", "reach: {'length': 4} * the run builds scaling"),
    ("experiments=scaling steps=4", "steps: none of the run's experiments has it: scaling"),
    ("experiments=training training.steps=10", "training.steps: 10 * training='{steps: 10}'"),
    ("training.stepz=10", "unknown key 'stepz' in training * did you mean training='{steps: 10}'?"),
    ("scaling.d_k=[4,8]", "scaling.d_k: [4, 8] * scaling='{d_k: [4,8]}'"),
    ("scaling.inputs=planted", "scaling.inputs: 'planted' * scaling='{inputs: planted}'"),
    ("experiment.reach.length=4", "experiment.reach.length: 4 * reach='{length: 4}'"),
    (
        "experiments=training training.steps=10 training.d_k=4",
        "training.steps: 10 * training='{steps: 10, d_k: 4}'",
    ),
    ("experiments=training training.scaling=qk_norm", f"'qk_norm' * for training, {RULE}"),
    ("training.steps=x", "steps: 'x' * whole numbers"),
    ("training.steps.x=4", "training.steps has no keys of its own * training='{steps: VALUE}'"),
    ("d_k.x=4", "d_k.x: d_k has no keys of its own; allowed: d_k=VALUE"),
    ("grid.x=smoke", "grid.x: grid has no keys of its own"),
    ("trainin.steps=10", "unknown key 'trainin' * did you mean training='{steps: 10}'?"),
    ("experiments=worked_example seed=3", "seed: * worked_example='{seed: 3}'"),
    ("experiment.trainin.steps=4", "'trainin' * did you mean training='{steps: 4}'?"),
    ("experiment.d_k.x=4", "d_k has no keys of its own; allowed: d_k=VALUE"),
    ("scale_rules.on.exponnt=1", "exponnt"),
    *((f"d_k={x}", f"d_k: '{x}' * {DECIMAL}") for x in ("010", "0x10", "1_000", "1:30", "0b1")),
    *((f"d_k=[4,{x}]", f"d_k: '{x}' * {DECIMAL}") for x in ("010", "0x10", "1_000", "1:30")),
    *((f"scaling='{{d_k: {x}}}'", f"'{x}' * {DECIMAL}") for x in ("010", "0x10", "1_000", "1:30")),
    ("scale_rules='{x: {rule: constant, value: 010}}'", f"scale_rules: '010' * {DECIMAL}"),
    ("scale_rules='{x: {rule: constant, value: 1_0}}'", f"scale_rules: '1_0' * {DECIMAL}"),
    ("input_laws='{x: {law: planted, cosine: 0_0.5}}'", f"input_laws: '0_0.5' * {DECIMAL}"),
    ("seeds=08", f"seeds: '08' * {DECIMAL}"),
    ("d_k='\"010\"'", "d_k: '010' * whole numbers from 1"),
    ("name=007", "name: '007' * name='\"007\"' on a command line"),
    ("name=1_000", "name: '1_000' * name='\"1_000\"' on a command line"),
    ("scale_rules='{007x: {rule: integer_sqrt}}'", "scale_rules: '007x' * the first a letter"),
    ("scale_rules='{nan: {rule: integer_sqrt}}'", "scale_rules: * which are values"),
    ("input_laws='{None: {law: sphere}}'", "input_laws: 'None' * which are values"),
    (
        "scale_rules='{x: {rule: constant, value: 1e200}}' scaling=x",
        "scale_rules.x: the factor at d_k=* is 1e+200 (value=1e+200); allowed: from 1e-15 to 1e+15",
    ),
    ("scale_rules='{x: {rule: constant, value: 1e-320}}' scaling=x", "(value=1e-320)"),
    ("scale_rules='{x: {rule: power, exponent: -1000}}' scaling=x", "(exponent=-1000 * at d_k="),
    ("scale_rules='{x: {rule: power, exponent: 1000}}' scaling=x d_k=64", "is 0.0 (exponent=1000 "),
    ("scale_rules='{x: {rule: qk_norm, scale: 1e300}}' scaling=x", "the scale at * (scale=1e+300)"),
    ("scale_rules='{x: {rule: soft_cap, cap: 1e-300}}' scaling=x", "the cap at * cap=1e-300"),
    ("scale_rules='{x: {rule: d_model, heads: 1e300}}' scaling=x", "(heads=1e+300)"),
    ("input_laws='{x: {law: non_centred, q_mean: 1e300, k_mean: 0}}'", "(q_mean=1e+300 k_mean=0)"),
    ("input_laws='{x: {law: student_t, df: 1e-320}}'", "df is 1e-320"),
    ("experiments=training learning_rate=1e300", "learning_rate: 1e+300 * from 1e-15 to 1e+15"),
    ("experiments=training noise_sd=1e-320", "noise_sd: 1e-320 * from 1e-15 to 1e+15"),
    ("grid=smok", "grid: 'smok' * did you mean smoke?"),
]  # fmt: skip


def says(line: str, words: str) -> bool:
    """Return whether a line has the parts between the stars, in this order."""
    for part in words.split("*"):
        _, found, line = line.partition(part.strip())
        if not found:
            return False
    return True


@pytest.mark.parametrize(("typed", "words"), SAME)
def test_a_mistake_gets_the_same_answer_by_hand_and_in_the_pipeline(
    hand: Any, typed: str, words: str
) -> None:
    given = shlex.split(typed)
    line = refused(*given)
    assert says(line, words), line
    assert "\n" not in line
    said, code = hand(*given)
    assert code == 2
    assert said.count("\n") == 1
    assert said.startswith("sqrtdk: ")
    assert says(said, words), said
    # What either suggests is taken. By hand, a mended name may need its experiment as well.
    if better := corrected(given, line):
        assert pipeline(*better)
    if "did you mean" not in said and (better := corrected(given, said)):
        assert cli.read(better).runs


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("d_k=010", f"d_k: '010' * {DECIMAL}"),
        ("d_k=[4,1_000]", f"d_k: '1_000' * {DECIMAL}"),
        ("scaling={d_k:0x10}", f"'0x10' * {DECIMAL}"),
        ("training={scaling:qk_norm}", f"for training, {RULE}"),
        ("training.steps=10", "training='{steps: 10}'"),
        ("seed=range(5,0)", "a sweep needs --multirun"),
        ("d_k=choice()", "empty choice"),
    ],
)
def test_a_mistake_gets_the_same_answer_inside_hydras_grammar(typed: str, words: str) -> None:
    line = refused(f"hydra={typed}")
    assert says(line, words), line


@pytest.mark.parametrize(
    "text",
    [
        "d_k: 010", "d_k: [4, 0x10]", "scaling: {d_k: 1_000}", "d_k: 1:30", "name: 007", "d_k: 08",
        "scale_rules: {x: {rule: constant, value: 1_0.5}}", "d_k: .5_0",
    ],
)  # fmt: skip
def test_a_number_that_reads_as_another_one_is_refused_in_a_file_too(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=DECIMAL):
        yaml_reader.read_config(path)


@pytest.mark.parametrize("value", ["1e1", "10.0", "1.0e1", "10"])
def test_a_number_is_taken_in_every_usual_way_everywhere(hand: Any, value: str) -> None:
    for word in (f"d_k={value}", f"d_k=[{value}]", f"hydra=d_k={value}"):
        found = pipeline("grid=smoke", "experiments=scaling", word)
        assert found.settings["scaling"]["d_k"] == [10]
    rule = f"scale_rules={{x: {{rule: constant, value: {value}}}}}"
    found = pipeline("grid=smoke", "experiments=scaling", rule, "scaling=x")
    assert found.settings["scaling"]["scaling"]["x"]["value"] == 10
    said, code = hand(f"d_k={value}", "n_k=4", "n_q=2", "d_v=2", rule, "scaling=x", "out=rows.csv")
    assert (said, code) == ("", 0)
    with Path("rows.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["d_k"], row["scale"]) == ("10", "10.0")


@pytest.mark.parametrize("name", ["007", "1_000", "0x10", "1.5", "2030-01-02", "1e3", "null"])
def test_a_name_that_looks_like_a_number_works_in_the_way_that_the_answer_says(
    hand: Any, name: str
) -> None:
    assert pipeline(f'name="{name}"').name == name
    assert hand(f'name="{name}"', "d_k=4", "n_k=4", "n_q=2") == ("", 0)


@pytest.mark.parametrize("key", ["yes", "true", "No", "FALSE"])
def test_a_name_that_yaml_reads_as_on_or_off_is_not_taken_for_it(tmp_path: Path, key: str) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(f"scale_rules: {{{key}: {{rule: integer_sqrt}}}}", encoding="utf-8")
    with pytest.raises(ConfigError, match=f"{key} is not allowed as a key"):
        yaml_reader.read_config(path)


def test_a_date_is_a_word_in_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text("name: 2030-01-02", encoding="utf-8")
    assert yaml_reader.read_config(path) == {"name": "2030-01-02"}


PIECES = [
    *(
        "a",
        "b c",
        "1",
        "0.5",
        "010",
        "1e-3",
        "on",
        "yes",
        "2030-01-02",
        "-",
        ".",
        "+",
        "/",
        "_",
        " ",
    ),
    *(": ", ":", "- ", ", ", ",", "[", "]", "{", "}", "'", "''", " #", "#"),
    *("\n", "\n  ", "\n- ", "a: ", "\nb: ", "\nb: {c: 1, ", "key:\n  x: ", "[" * 60),
]
"""Parts of texts, good and bad, with everything that is read in C."""


@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
@example("a: 010")
@example("a: [1, 2]\na: 3")
@example("a:\n  b: 'on'\n  c: on\n  d: 2030-01-02\n  e: null\n")
# The loader in C refuses this one alone.
@example("- [1:]")
def test_a_file_that_is_read_in_c_has_the_value_or_the_message_of_the_other_loader(
    text: str,
) -> None:
    assert yaml_reader.PLAIN.fullmatch(text)

    def read() -> object:
        try:
            return yaml_reader.read_text(text)
        except ConfigError as error:
            return str(error)

    fast = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_reader, "FastLoader", None)
        slow = read()
    # NaN and 1 == 1.0 == True apart.
    assert repr(fast) == repr(slow)


def test_a_rule_that_serves_some_is_left_out_of_the_others_which_is_said() -> None:
    found = pipeline("grid=smoke", "scaling=[off,on,qk_norm]")
    assert list(found.settings["related"]["scaling"]) == ["off", "on", "qk_norm"]
    assert list(found.settings["training"]["scaling"]) == ["off", "on"]
    assert found.notes == (f"scaling: qk_norm left out of {TAKERS}, which take {RULE}",)


def test_an_experiment_that_can_take_no_rule_asked_for_is_not_built_which_is_said() -> None:
    found = pipeline("grid=smoke", "scaling=qk_norm")
    assert not {"precision", "training"} & found.settings.keys()
    assert found.notes == (f"scaling: {TAKERS} not built: take {RULE}",)
    own = pipeline("grid=smoke", "scaling=qk_norm", "training={scaling: on}")
    assert list(own.settings["training"]["scaling"]) == ["on"]


def test_an_experiment_that_was_asked_for_is_not_left_out_but_refused() -> None:
    for asked in ("experiments=[scaling,training]", "training={steps: 4}"):
        assert says(refused("grid=smoke", "scaling=qk_norm", asked), f"for training, {RULE}")


def test_what_a_file_says_of_an_experiment_that_is_not_built_is_noted() -> None:
    found = compose({"experiments": "scaling", "training": {"steps": 4}, "grid": "smoke"})
    assert found.notes == ("training: not built, so its settings have no effect",)


def test_an_example_that_keeps_its_seed_says_so() -> None:
    assert "worked_example='{seed: 3}'" in pipeline("grid=smoke", "seed=3").notes[0]
    assert pipeline("grid=smoke", "seeds=3").notes == ()


@pytest.mark.parametrize(
    "sweep", ["seed=range(5,0)", "d_k=range(1,1)", "d_k=shuffle(range(5,0))", "d_k=glob(*)",
    "scaling=glob(*)", "d_k=interval(1,4)", "n_k=sort(range(3,3))",
    "seed=range(0,inf)", "seed=range(0,nan)", "seed=range(0,5,0)", "seed=range(0,1000000000)"],
)  # fmt: skip
def test_a_sweep_of_nothing_or_without_end_is_refused(hand: Any, sweep: str) -> None:
    said, code = hand("--multirun", sweep, "out=o.csv")
    assert code == 2
    key, _, text = sweep.partition("=")
    assert says(said, f"sqrtdk: {key}: '{text}' is not allowed; allowed: * {key}='[...]'"), said
    assert not Path("o.csv").exists()


# Standard streams


CLOSED = [">&-", "2>&-", "<&-", ">&- 2>&- <&-"]


@pytest.mark.parametrize("closed", CLOSED)
def test_a_file_is_written_whatever_standard_streams_are_closed(
    tmp_path: Path, closed: str
) -> None:
    python = shlex.quote(sys.executable)
    line = f"{python} -m sqrtdk.run d_k=4 n_k=4 n_q=2 d_v=2 out=o.csv {closed}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len((tmp_path / "o.csv").read_text(encoding="utf-8").splitlines()) == 2


def test_a_job_writes_its_shard_and_nothing_else_where_streams_are_closed(tmp_path: Path) -> None:
    line = shlex.join([sys.executable, "-m", "sqrtdk.jobs.measure", "worked_example"])
    given = shlex.quote('{"seeds": [42, 43]}')
    done = subprocess.run(
        ["bash", "-c", f"{line} {given} shard.csv >&- 2>&- <&-"], cwd=tmp_path, env=environment()
    )
    assert done.returncode == 0
    assert (tmp_path / "shard.csv").read_text(encoding="utf-8").startswith('# {"seeds"')


def test_a_reader_that_leaves_early_does_not_keep_the_file_from_being_written(
    tmp_path: Path,
) -> None:
    python = shlex.quote(sys.executable)
    # More than a pipe holds, so that the second write finds no reader.
    line = f"{python} -m sqrtdk.run d_k=2 n_k=2 n_q=2 d_v=1 seeds=400 out=o.csv | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=tmp_path, env=environment(),
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("d_k,n_k,")
    assert len((tmp_path / "o.csv").read_text(encoding="utf-8").splitlines()) == 401


@pytest.mark.skipif(
    not os.path.exists("/dev/full"),
    reason="a device that is always full makes the fault, and macOS has none",
)
def test_a_full_standard_output_is_said_and_the_file_is_written(tmp_path: Path) -> None:
    line = f"{shlex.quote(sys.executable)} -m sqrtdk.run d_k=2 n_k=2 n_q=2 out=o.csv > /dev/full"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "sqrtdk: cannot write to standard output: No space left on device\n"
    assert len((tmp_path / "o.csv").read_text(encoding="utf-8").splitlines()) == 2


def test_the_pipeline_runs_without_standard_streams(tmp_path: Path) -> None:
    target = "results/mine/worked_example/runs.csv"
    pipeline = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile")]
    given = ["--config", "name=mine", "experiments=worked_example"]
    command = shlex.join([*pipeline, target, *given])
    done = subprocess.run(
        ["bash", "-c", f"{command} >&- 2>&- <&-"], cwd=tmp_path,
        env=environment() | {"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.returncode == 0
    assert (tmp_path / target).exists()


def test_what_cannot_be_written_is_found_before_anything_is_measured(
    hand: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "measure", lambda run: pytest.fail("it was measured"))
    (tmp_path / "file").touch()
    places = ["file/x.csv", "nowhere/x.csv", "/dev/full", *["/proc/x.csv"] * on_linux]
    for place in places:
        said, code = hand("d_k=4", f"out={place}")
        assert (code, said.count("\n")) == (2, 1)
        assert says(said, f"sqrtdk: out: '{place}' is not allowed; allowed: ")
    monkeypatch.setattr(os, "fsync", full)
    said, code = hand("d_k=4", "out=x.csv")
    assert says(said, "out: 'x.csv' * a file that can be written (No space left on device)")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    monkeypatch.setattr("builtins.print", full)
    assert hand("d_k=4")[1] == 2


def full(*words: object, **options: object) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


on_linux = Path("/proc/self").exists()


def test_ctrl_c_ends_a_command_with_one_line(hand: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(run: config_run.Run) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "measure", interrupted)
    stopped = ("sqrtdk: stopped by Ctrl-C; no file is half written\n", 130)
    assert hand("d_k=4", "out=x.csv") == stopped
    assert not Path("x.csv").exists()


def test_closed_standard_output_needs_a_file(tmp_path: Path) -> None:
    line = f"{shlex.quote(sys.executable)} -m sqrtdk.run d_k=4 n_k=4 n_q=2 d_v=2 >&-"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("sqrtdk: standard output is closed; allowed: out=FILE.csv")


def test_a_link_is_written_through(hand: Any, tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(tmp_path / "rows.csv")
    assert hand("d_k=4", "n_k=4", "n_q=2", "d_v=2", "out=link.csv") == ("", 0)
    assert (tmp_path / "link.csv").is_symlink()
    assert len((tmp_path / "rows.csv").read_text(encoding="utf-8").splitlines()) == 2


# Names of the command itself


def test_help_and_version_are_those_of_the_project(
    hand: Any, in_process: Callable[..., Run], capsys: pytest.CaptureFixture[str]
) -> None:
    assert hand("--version") == ("", 0)
    for module in (known_answers_command, models_command, report_command, measure_job):
        done = in_process(module, "--version")
        assert (done.returncode, done.stdout) == (0, f"sqrtdk {sqrtdk.__version__}\n")
        done = in_process(module, "--help")
        assert done.returncode == 0
        assert says(done.stdout, "usage: python -m sqrtdk")
        assert (module.__doc__ or "").strip() in done.stdout


# Large requests


def test_thousands_of_rules_may_be_defined_and_a_hundred_used() -> None:
    rules = {f"r{i}": {"rule": "constant", "value": i + 1} for i in range(3000)}
    found = compose({"grid": "smoke", "scale_rules": rules, "scaling": ["r1", "r2999"]})
    assert list(found.settings["scaling"]["scaling"]) == ["r1", "r2999"]
    with pytest.raises(ConfigError, match=r"^scaling: 3000 names; allowed: at most 100$"):
        compose({"grid": "smoke", "scale_rules": rules, "scaling": list(rules)})
    with pytest.raises(ConfigError) as caught:
        compose({"grid": "smoke", "scale_rules": rules, "scaling": "r9999"})
    assert len(str(caught.value)) < 1000


def test_seeds_with_gaps_are_counted_as_the_shards_that_they_take() -> None:
    with pytest.raises(ConfigError, match=r"scaling: the grid has 24,008 shards"):
        compose({"grid": "smoke", "experiments": "scaling", "seed": list(range(0, 6002, 2))})


def test_a_list_that_no_job_can_be_told_is_refused_first() -> None:
    rates = [1e-3 * (1 + i / 1e5) for i in range(10_000)]
    with pytest.raises(ConfigError, match=r"^learning_rate: 10,000 values are too many"):
        compose({"grid": "smoke", "experiments": "training", "learning_rate": rates})


# The order of words


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ("--config grid=smoke scaling", "scaling --config grid=smoke"),
        ("-n --config grid=smoke scaling training", "scaling training -n --config grid=smoke"),
        ("-C grid=smoke scaling d_k=4", "scaling -C grid=smoke d_k=4"),
        ("--cores 1 --configfile my.yaml scaling", "scaling --cores 1 --configfile my.yaml"),
        ("-q scaling --config d_k=4", "scaling -q --config d_k=4"),
        ("--set-threads scaling", "scaling"),
    ],
)
def test_a_target_after_an_option_is_answered_with_the_right_command(
    given: str, right: str
) -> None:
    said = arguments.command_error(shlex.split(given))
    assert said is not None
    assert says(said, "'scaling' * targets go first: ")
    assert said.endswith(f"snakemake {right}")


@pytest.mark.parametrize("given", ["scaling --config grid=smoke", "-n scaling -c 1", "--quiet all"])
def test_a_right_order_is_no_mistake(given: str) -> None:
    assert arguments.command_error(shlex.split(given)) is None


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        *((f"{option} {value}", "whole numbers from 1") for option in ("--cores", "--jobs")
          for value in ("0", "-1", "abc", "1.5")),
        ("-c0", "-c: '0' * whole numbers from 1, or all"),
        ("-j abc", "-j: 'abc' * whole numbers from 1"),
        ("--max-threads 0", "--max-threads: '0' * whole numbers from 1"),
        ("--config d_k", "--config: 'd_k' * KEY=VALUE"),
        ("--config grid=smoke scalng", "'scalng' * KEY=VALUE; did you mean the target scaling"),
        ("--resources x", "--resources: 'x' * NAME=NUMBER"),
        ("--resources mem=", "--resources: 'mem=' * NAME=NUMBER"),
        ("--default-resources x", "'x' * NAME=VALUE"),
        ("--set-threads x", "'x' * RULE=NUMBER"),
        ("--set-threads measure_shard=0", "'measure_shard=0' * RULE=NUMBER"),
        ("--set-resources x:y", "'x:y' * RULE:NAME=VALUE"),
        ("--set-scatter x=y", "'x=y' * NAME=NUMBER"),
        ("--set-resource-scopes x=y", "'x=y' * NAME=local"),
        ("--groups x", "'x' * RULE=GROUP"),
        ("--group-components x=y", "'x=y' * GROUP=NUMBER"),
        ("--consider-ancient x", "'x' * RULE=INPUT"),
        ("--target-jobs nosuch", "'nosuch' * RULE:WILDCARD=VALUE"),
    ],
)  # fmt: skip
def test_a_wrong_value_of_an_option_of_snakemake_is_named(given: str, allowed: str) -> None:
    said = arguments.command_error(shlex.split(given))
    assert said is not None
    assert says(said, allowed), said


@pytest.mark.parametrize("target", EXPERIMENTS)
def test_a_target_that_another_grid_builds_is_named_with_a_grid_that_has_it(target: str) -> None:
    said = arguments.unknown_target(target, ["all", "related", "sinks"])
    form = re.search(rf"allowed: {target} --config grid=(\w+)( path=VALUE)?( or |$)", said)
    assert form is not None, said
    assert "did you mean" not in said
    path = {"path": FILE} if form[2] else {}
    assert target in composed([], {"grid": form[1]} | path).settings


@pytest.mark.parametrize(
    "given",
    ["--cores all", "-c2 -n", "--jobs 4", "-j4", "--set-threads measure_shard=2", "-j unlimited",
     "--set-resources 'measure_shard:mem_mb=2 * 3'", "--set-threads base64//bWVhcz0y"],
)  # fmt: skip
def test_a_right_value_of_an_option_is_no_mistake(given: str) -> None:
    assert arguments.wrong_value(shlex.split(given)) is None


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ("--omit-from merg", "--omit-from: 'merg' is for no rule * did you mean merge?"),
        ("-O nosuch", "-O: 'nosuch' is for no rule of this run (--list-rules)"),
        ("--allowed-rules merge nosuch", "--allowed-rules: 'nosuch'"),
        ("--set-resources nosuch:mem_mb=1", "'nosuch:mem_mb=1' is for no rule"),
        ("--groups merge=a nosuch=a", "--groups: 'nosuch=a'"),
        ("--batch nosuch=1/2", "--batch: 'nosuch=1/2'"),
        ("--consider-ancient nosuch=0", "'nosuch=0'"),
        ("--preemptible-rules nosuch", "'nosuch'"),
        ("--cache nosuch", "'nosuch'"),
        ("--workflow-profile nosuch", "--workflow-profile: 'nosuch' does not exist"),
    ],
)
def test_a_rule_or_profile_that_snakemake_would_ignore_is_named(given: str, allowed: str) -> None:
    said = arguments.ignored_value(shlex.split(given), ["merge", "all"], [str(ROOT)])
    assert said is not None
    assert says(said, allowed), said


@pytest.mark.parametrize(
    "given",
    ["--workflow-profile none nosuch", "--allowed-rules=merge results/x",
     "--workflow-profile default", "--workflow-profile profiles/default",
     f"--workflow-profile {ROOT}/profiles/default", "--batch merge=1/2",
     "--omit-from results/a.csv",
     "--set-threads merge=2 all=1", "--set-threads base64//bWVyZ2U9Mg==", "--groups merge=nosuch"],
)  # fmt: skip
def test_rules_and_profiles_that_are_there_are_no_mistake(given: str) -> None:
    assert arguments.ignored_value(shlex.split(given), ["merge", "all"], [str(ROOT)]) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("--config grid=smoke scaling", "sqrtdk: 'scaling' * targets go first: * scaling"),
        ("-q scaling", "sqrtdk: 'scaling' * targets go first"),
        ("--config training.steps=10", "sqrtdk: training.steps: 10 * training='{steps: 10}'"),
        ("--config scale_rules.on.exponent=0.3", "scale_rules='{on: {exponent: 0.3}}'"),
        ("d_k=4", "sqrtdk: 'd_k=4' is a key, not a target; allowed: --config d_k=4"),
        ("--cores 1 ''", "sqrtdk: '' is an empty word"),
        ("--resources mem=1 scaling", "sqrtdk: 'scaling' * first: * scaling * --resources mem=1"),
        ("--set-threads measure_shard=x", "sqrtdk: --set-threads: 'measure_shard=x' * RULE=NUMBER"),
        ("--list-changes nosuch", "sqrtdk: --list-changes: 'nosuch' * code, input or params"),
        ("--max-jobs-per-timespan x", "sqrtdk: Invalid max jobs per timespan * x"),
        ("--default-resources mem_mb=abc", "sqrtdk: Resource 'mem_mb' * 'abc'"),
        ("--set-threads mege=2", "sqrtdk: --set-threads: 'mege=2' * did you mean merge?"),
        ("--report", "sqrtdk: * is missing; --report needs a finished run"),
    ],
)
def test_snakemake_itself_answers_so(tmp_path: Path, given: str, words: str) -> None:
    small = [] if "--config" in given else ["--config", "experiments=worked_example"]
    done = snakemake(tmp_path, "-n", *shlex.split(given), *small)
    assert done.returncode != 0
    # A plan of the jobs comes before an error of a value that Snakemake reads late.
    text = re.sub(r"Job stats:\n.*\ntotal +\d+\n", "", done.stderr, flags=re.DOTALL)
    before = ("Using work", "Building D", "Creating report")
    lines = [x for x in text.splitlines() if x and not x.startswith(before)]
    assert len(lines) == 1, done.stderr
    assert says(lines[0], words), lines
