"""Configuration: what a user may write, and the one-line message for a mistake."""

import shlex
from collections.abc import Callable
from pathlib import Path

import composed_once
import pytest
import yaml
from conftest import ROOT, by_hand

from sqrtdk.config import compose as config_compose
from sqrtdk.config import errors, resolve
from sqrtdk.config import overrides as config_overrides
from sqrtdk.config import values as config_values
from sqrtdk.config.errors import ConfigError
from sqrtdk.config.limits import MOST_SEEDS, MOST_SHARD_SEEDS, MOST_SHARDS
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Key
from sqrtdk.workflow.request import compose

GRID = ("grid=smoke",)


def settings(*overrides: str, **values: object) -> dict[str, object]:
    return config_compose.compose([*GRID, *overrides], values).settings["scaling"]


def test_an_axis_takes_one_value_or_a_list() -> None:
    assert settings("d_k=16")["d_k"] == [16]
    assert settings("d_k=[64,16]")["d_k"] == [16, 64]


def test_lists_of_strings_as_snakemake_passes_them_are_numbers() -> None:
    assert settings(d_k=["16", "64"])["d_k"] == [16, 64]


def test_seeds_is_a_count_and_seed_a_choice() -> None:
    assert settings("seeds=3")["seed"] == [0, 1, 2]
    assert settings("seed=[3,5]")["seed"] == [3, 5]
    assert settings(seed=7)["seed"] == [7]


@pytest.mark.parametrize("value", [True, "on", ["on"], [True]])
def test_on_and_off_may_come_as_booleans_and_become_words(value: object) -> None:
    assert list(settings(scaling=value)["scaling"]) == ["on"]


def test_a_flat_key_applies_to_every_experiment_and_one_under_a_name_to_that_one() -> None:
    assert settings(d_k=4)["d_k"] == [4]
    assert settings(scaling={"d_k": 8, "scaling": "off"})["d_k"] == [8]


def test_a_rule_that_is_no_factor_is_left_out_where_only_factors_serve() -> None:
    some = "experiments=[scaling,precision,training]"
    run = config_compose.compose([*GRID, some, "scaling=[off,qk_norm]"], {})
    assert list(run.settings["scaling"]["scaling"]) == ["off", "qk_norm"]
    assert list(run.settings["precision"]["scaling"]) == ["off"]
    assert run.notes == (
        "scaling: qk_norm left out of precision and training, which take rules that are one "
        "factor of d_k and n_k",
    )
    with pytest.raises(errors.ConfigError, match="for precision, rules that are one factor"):
        config_compose.compose([*GRID, "precision={scaling:qk_norm}"], {})


def test_a_new_arm_is_one_entry_also_from_the_command_line() -> None:
    found = settings("scale_rules.inverse={rule:power,exponent:1}", "scaling=[on,inverse]")
    assert found["scaling"] == {
        "on": {"rule": "power", "exponent": 0.5, "multiplier": 1.0},
        "inverse": {"rule": "power", "exponent": 1, "multiplier": 1.0},
    }


def test_a_parameter_of_an_entry_can_be_overridden_alone() -> None:
    run = compose({"hydra": "inputs=planted input_laws.planted.cosine=0.8"})
    assert run.settings["scaling"]["inputs"] == {"planted": {"law": "planted", "cosine": 0.8}}


def test_a_default_is_written_out_because_numbers_depend_on_it() -> None:
    found = settings("input_laws.ball={law:sphere}", "inputs=ball", "scaling=log_n")
    assert found["inputs"] == {"ball": {"law": "sphere", "arrays": "both"}}
    assert found["scaling"] == {
        "log_n": {"rule": "log_length", "log_exponent": 1, "exponent": 0.5, "multiplier": 1.0}
    }


def test_null_is_a_value_where_a_formula_has_it() -> None:
    found = settings("scale_rules.soft_cap.cap=null", "scaling=soft_cap")
    assert found["scaling"] == {"soft_cap": {"rule": "soft_cap", "cap": None, "exponent": 0.5}}


@pytest.mark.parametrize("key", ["scaling", "inputs"])
def test_every_named_entry_can_be_run_on_the_default_grid(key: str) -> None:
    mapping = "scale_rules" if key == "scaling" else "input_laws"
    document = yaml.safe_load((ROOT / "conf/config.yaml").read_text(encoding="utf-8"))
    names = list(document[mapping])
    run = config_compose.compose([f"{key}=[{','.join(names)}]", "experiments=scaling"], {})
    assert list(run.settings["scaling"][key]) == names


def test_the_resolved_file_gives_the_same_run_again(tmp_path: Path) -> None:
    run = config_compose.compose(
        [*GRID, "seed=[1,2,9]", "scale_rules.half={rule:constant,value:0.5}", "scaling=[on,half]"],
        {"name": "again"},
    )
    path = tmp_path / "config.yaml"
    path.write_text(run.to_yaml(), encoding="utf-8")
    assert resolve.load(path) == run
    assert config_compose.compose([], yaml.safe_load(path.read_text(encoding="utf-8"))) == run


@pytest.mark.parametrize("grid", config_overrides.grids())
def test_every_grid_composes(grid: str) -> None:
    assert config_compose.compose([f"grid={grid}"], {}).settings


def test_every_experiment_has_values_in_the_grids_that_it_belongs_to() -> None:
    for name, one in EXPERIMENTS.items():
        needed = {"research"} if one.research else {"default", "large"}
        assert needed | {"cell", "smoke"} <= set(config_overrides.grids(name)), name
        assert not (one.research and "default" in config_overrides.grids(name)), name


@pytest.mark.parametrize("grid", ["default", "large", "research", "smoke"])
def test_a_grid_has_a_folder_of_its_name_unless_one_is_given(grid: str) -> None:
    assert config_compose.compose([f"grid={grid}"], {}).name == grid
    assert config_compose.compose([f"grid={grid}", "name=mine"], {}).name == "mine"
    assert config_compose.compose([f"grid={grid}"], {"name": "mine"}).name == "mine"


def test_tests_compose_as_hydra_does_without_their_cache() -> None:
    from hydra.errors import HydraException

    def composed(*overrides: str) -> object:
        try:
            return config_compose._files_with.__wrapped__("config", overrides)
        except HydraException as error:
            return str(error)

    asked = (
        *(("grid=smoke", "+d_k=4"), ("grid=smoke",), ("++scale_rules.on.exponent=0.3", "name=a")),
        *(("experiment/scaling=smoke",), ("experiment.reach.lengt=4",), ("grid=nosuch",), ("d=4",)),
    )
    # The second time all files are known.
    cached = [composed(*words) for words in asked + asked]
    with composed_once.hydra_alone():
        assert cached == 2 * [composed(*words) for words in asked]
    assert len({str(one) for one in cached}) == len(asked)


def test_one_experiment_may_have_another_grid_than_the_run() -> None:
    run = config_compose.compose(["experiment/scaling=smoke", "experiments=[scaling,reach]"], {})
    smoke = config_compose.compose(["grid=smoke", "experiments=scaling"], {})
    default = config_compose.compose(["experiments=reach"], {})
    assert run.settings == smoke.settings | default.settings


# The input, and words that the one line must contain.
MISTAKES = [
    ("d_k=0", "d_k: 0 is not allowed; allowed: whole numbers from 1"),
    ("experiment/scaling=smoek", "experiment/scaling: 'smoek' is not allowed; allowed: cell or"),
    ("d_k=-4", "d_k: -4"),
    ("d_k=abc", "d_k: 'abc'"),
    ("d_k=''", "d_k: ''"),
    ("d_k=[]", "d_k: []"),
    ("d_k=2.5", "d_k: 2.5"),
    ("d_k=true", "d_k: True"),
    ("d_k=null", "d_k: None"),
    ("d_k=nan", "d_k: nan"),
    ("d_k=inf", "d_k: inf"),
    ("d_k=[[4]]", "d_k: [4]"),
    ("d_k={a:1}", "d_k: {'a': 1}"),
    ("d_k=[4,1e1,10]", "d_k: 10 is listed twice"),
    ("d_k=1e9", "GiB"),
    ("d_k=1e30", "GiB"),
    ("n_k=1e9", "n_k: 1000000000"),
    ("d_v=[4]", "d_v: [4]"),
    ("seeds=0", "seeds: 0"),
    ("seeds=[1]", "seeds: [1]"),
    ("seed=-1", "seed: -1"),
    ("seed=5000000000", "4294967295"),
    ("seed=1 seeds=2", "seed and seeds are both given"),
    ("scaling=half", "scaling: 'half' is not allowed; allowed: off, on"),
    ("scaling=[on,true]", "scaling: on is listed twice"),
    ("scaling=[]", "scaling: []"),
    ("inputs=gausian", "did you mean gaussian?"),
    ("dtype=float16", "float64 or float32"),
    (
        "experiments=training scaling=qk_nrm",
        # Only rules that this experiment takes.
        "allowed: off, on, inverse, inverse_64, quarter, log_n, sqrt_log_n, square_log_n, ssmax, "
        "yarn, gap, d_model, twice, ",
    ),
    ("scalin=off", "unknown key 'scalin'"),
    ("scalin=off", "did you mean scaling?"),
    ("dk=64", "did you mean d_k?"),
    ("name=../x", "name: '../x'"),
    ("name=a/b", "name: 'a/b'"),
    ("name=shards", "name: 'shards'"),
    ("name=.hidden", "name: '.hidden'"),
    ("name=''", "name: ''"),
    ("grid=smol", "did you mean smoke?"),
    ("experiments=remedies", "remedies has no values in this grid; allowed: grid=research or "),
    ("experiments=remedies d_k=16", "remedies has no values in this grid; allowed: grid=research"),
    ("grid=research experiments=scaling", "scaling has no values in this grid; allowed: grid=def"),
    ("experiments=scalings", "did you mean scaling?"),
    ("experiments=[]", "experiments: []"),
    ("experiments={}", "experiments: {}"),
    ("experiments=[[scaling]]", "experiments: ['scaling']"),
    ("d_K=4", "did you mean d_k?"),
    ("experiments=precision input_sd=1e308", "input_sd: 1e+308"),
    ("scale_rules.d_model.heads=0", "scale_rules.d_model: heads is 0"),
    ("input_laws.x={law:planted,cosine:2}", "input_laws.x: cosine is 2"),
    ("experiments=[scaling,scaling]", "scaling is listed twice"),
    ("experiment=scaling", "experiments=NAME"),
    ("experiment.scaling=3", "experiment.scaling: 3"),
    ("scaling={dk:4}", "unknown key 'dk' in scaling"),
    ("experiments=precision seeds=10000001", "allowed: whole numbers from 1 to 10000000"),
    ("shard_seeds=0", "shard_seeds: 0"),
    ("shard_seeds=1001", "whole numbers from 1 to 1000"),
    ("experiments=scaling seeds=99999 shard_seeds=1", "5,199,948 shards (13 of d_k, 4 of n_k"),
    (
        "experiments=[scaling,related] seeds=300 shard_seeds=1",
        "300 of seed; 1 seeds a shard), the run 22,800; allowed: at most 20,000 in a run",
    ),
    ("scale_rules=3", "scale_rules: 3"),
    ("scale_rules.x=3", "scale_rules.x: 3"),
    ("scale_rules.a.b={rule:power}", "a name has no dots; allowed: scale_rules.a_b='{rule:power}'"),
    ("scale_rules.a.b.c=1", "a name has no dots; allowed: scale_rules.NAME.PARAMETER=VALUE"),
    ("input_laws.a.b=1", "input_laws.a: law is missing; allowed: gaussian or "),
    ("scale_rules.x={exponent:1}", "scale_rules.x: rule is missing; allowed: constant or "),
    ("~d_k", "~d_k: nothing can be deleted; allowed: d_k=VALUE"),
    ("~grid", "~grid: nothing can be deleted; allowed: grid=VALUE"),
    ("~scale_rules.on", "~scale_rules.on: nothing can be deleted"),
    (
        "scale_rules.x=rule:power scale_rules.x=exponent:1",
        "scale_rules.x is given twice; give it once, a list for several values. A shell splits "
        "braces without quotes: scale_rules.x='{rule: power,exponent: 1}'",
    ),
    ("scale_rules.x={rule:powr}", "did you mean power?"),
    ("scale_rules.x={rule:power}", "scale_rules.x: power needs exponent"),
    ("scale_rules.x={rule:power,exponent:abc}", "scale_rules.x.exponent: 'abc'"),
    ("scale_rules.x={rule:power,exponent:1,exponen:2}", "did you mean exponent?"),
    ("scale_rules.x={rule:constant,value:0} scaling=x", "value is 0"),
    (
        "scale_rules.x={rule:power,exponent:-9999} scaling=x",
        "x: power is beyond all numbers; allowed: ",
    ),
    ("scale_rules.x={rule:power,exponent:9999} scaling=x", "the factor at d_k="),
    ("scale_rules.x={rule:power,exponent:null}", "exponent: None is not allowed; allowed: finite"),
    ("scale_rules.x={rule:power,exponent:true}", "scale_rules.x.exponent: True"),
    ("scale_rules.x={rule:power,exponent:[1]}", "scale_rules.x.exponent: [1]"),
    ("scale_rules.x={rule:power,exponent:nan}", "scale_rules.x.exponent: nan"),
    ("scale_rules.x={rule:power,exponent:1" + 400 * "0" + "}", "scale_rules.x.exponent: 1000"),
    ("scale_rules.x={rule:log_length,log_exponent:1,s:2}", "known: exponent, log_exponent, multip"),
    ("scale_rules.log_n.multiplier=0 scaling=log_n", "multiplier is 0"),
    ("scale_rules.log_n.exponent=-9999 scaling=log_n n_k=2", "scale_rules.log_n: "),
    ("scaling=log_n n_k=1", "scale_rules.log_n: n_k is 1; allowed: from 2"),
    ("scale_rules.d_model.heads=2.5 scaling=d_model", "heads is 2.5; allowed: whole numbers"),
    ("scale_rules.d_model.heads=1e308 scaling=d_model", "the factor at d_k="),
    ("scale_rules.x={rule:integer_sqrt,exponent:1}", "unknown key 'exponent' in scale_rules.x"),
    ("scale_rules.x={rule:qk_norm}", "scale_rules.x: qk_norm needs scale"),
    ("scale_rules.qk_norm.scale=-1 scaling=qk_norm", "scale is -1"),
    ("scale_rules.qk_norm.scale=null", "scale_rules.qk_norm.scale: None"),
    ("scale_rules.x={rule:soft_cap}", "scale_rules.x: soft_cap needs cap"),
    ("scale_rules.soft_cap.cap=abc", "cap: 'abc' is not allowed; allowed: finite numbers or null"),
    ("scale_rules.soft_cap.cap=0 scaling=soft_cap", "cap is 0; allowed: finite numbers above 0"),
    ("scale_rules.soft_cap.exponent=9999 scaling=soft_cap", "factor is 0.0"),
    (
        "scale_rules.soft_cap.exponent=-9999 scaling=soft_cap",
        "soft_cap is beyond all numbers; allowed: ",
    ),
    ("input_laws.x={law:gauss}", "did you mean gaussian?"),
    ("input_laws.x={law:planted}", "input_laws.x: planted needs cosine"),
    ("input_laws.planted.cosin=0.5", "did you mean cosine?"),
    ("input_laws.planted.cosine=0.8.1", "input_laws.planted.cosine: '0.8.1'"),
    ("input_laws.planted.cosine=1.5 inputs=planted", "cosine is 1.5; allowed: numbers from -1 to"),
    ("input_laws.student_t.df=2 inputs=student_t", "df is 2; allowed: finite numbers above 2"),
    ("input_laws.sphere.arrays=v", "arrays: 'v' is not allowed; allowed: q or k or both"),
    ("input_laws.sphere.arrays=[q,k]", "input_laws.sphere.arrays: ['q', 'k']"),
    ("input_laws.sphere.radius=2", "unknown key 'radius' in input_laws.sphere"),
    ("input_laws.non_centred.q_mean=1e300 inputs=non_centred", "q_mean is 1e+300; allowed: numb"),
    (
        "experiments=scaling input_laws.non_centred.q_mean=200 inputs=non_centred "
        "dtype=[float64,float32]",
        "input_laws.non_centred: q_mean is 200; allowed in float32: numbers from -100 to 100 (q_m",
    ),
    ("d_k=16,64", "a sweep needs --multirun"),
    ("d_k", "'d_k' is not an override"),
    ("=4", "unknown key ''"),
    ("d_k=[4", "is not an override"),
    ("d_k=4 d_k=8", "d_k is given twice"),
]


@pytest.mark.parametrize(("given", "said"), MISTAKES)
def test_a_mistake_in_hydra_grammar_is_answered_with_one_line(given: str, said: str) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        config_compose.compose(shlex.split(given, posix=False), {})
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"d_k": "16,64"}, "d_k: '16,64'"),
        ({"d_k": "1_000"}, "d_k: '1_000'"),
        ({"d_k": "0x10"}, "d_k: '0x10'"),
        ({"d_k": ["16", "x"]}, "d_k: 'x'"),
        ({"d_k": "٣"}, "d_k: '٣'"),
        ({"d_k": "9" * 200}, "..."),
        ({"name": "a\nb"}, "name: 'a\\nb'"),
        ({"name": True}, "name: True"),
        ({"name": 2.5}, "name: 2.5"),
        ({"name": "Shards"}, "name: 'Shards'"),
        ({"name": "<script>"}, "name: '<script>'"),
        ({"grid": ["smoke"]}, "grid: ['smoke']"),
        ({"hydra": "d_k='4"}, 'hydra: "d_k=\'4" is not allowed; allowed: balanced quotes'),
        ({"hydra": ["d_k=4"]}, "hydra: ['d_k=4']"),
        ({"hydra": "d_k=4", "d_k": 8}, "d_k is given twice"),
        ({"experiment": {"scaling": []}}, "experiment.scaling: []"),
        ({"experiment": 5}, "experiment: 5"),
        ({"scaling": {"seed": 1, "seeds": 3}}, "seed and seeds are both given"),
        ({"scale_rules": {"a b": {"rule": "power", "exponent": 1}}}, "scale_rules: 'a b'"),
        ({1: 4}, "unknown key '1'"),
    ],
)
def test_a_mistake_in_plain_values_is_answered_with_one_line(
    values: dict[str, object], said: str
) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        compose(values)
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_the_memory_message_names_what_it_would_need_and_what_is_free() -> None:
    with pytest.raises(errors.ConfigError, match=r"needs [\d,.]+ GiB, [\d,.]+ GiB are free"):
        config_compose.compose(["d_k=1e9"], {})


@pytest.mark.parametrize(
    "arguments",
    [
        ["--config", "d_k=4", "d_k=8"],
        ["-C", "d_k=4", "--cores", "1", "--config", "d_k=8"],
        ["--config=d_k=4", "d_k=8"],
    ],
)
def test_a_key_given_twice_to_snakemake_is_refused(arguments: list[str]) -> None:
    with pytest.raises(errors.ConfigError, match="d_k is given twice"):
        compose({"d_k": 8}, arguments=arguments)


def test_braces_that_a_shell_has_split_are_put_together_again() -> None:
    # bash's words for hydra=scale_rules.x={rule:power,exponent:1} and two more.
    for given, meant in (
        ("hydra=scale_rules.x=rule:power hydra=scale_rules.x=exponent:1",
         "hydra='scale_rules.x={rule:power,exponent:1}'"),
        ("scale_rules={x:rule:power} scale_rules={x:exponent:1}",
         "scale_rules='{x: {rule: power,exponent: 1}}'"),
        ("training=steps:4 training=seeds:4", "training='{steps: 4,seeds: 4}'"),
    ):  # fmt: skip
        with pytest.raises(errors.ConfigError) as caught:
            compose({}, arguments=["--config", *given.split()])
        assert str(caught.value).endswith(f"A shell splits braces without quotes: {meant}")
        compose({}, arguments=["--config", *shlex.split(meant)])


def test_the_entry_on_is_changed_from_a_command_line_too() -> None:
    # YAML reads the key as a boolean.
    given = ["--config", "scale_rules={on: {exponent: 0.25}}", "scaling=on", "grid=smoke"]
    found = compose({}, arguments=given).settings["scaling"]["scaling"]
    assert found == {"on": {"rule": "power", "exponent": 0.25, "multiplier": 1.0}}


def test_a_key_that_stands_twice_in_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text("scaling:\n  d_k: 4\n  d_k: 8\n", encoding="utf-8")
    with pytest.raises(errors.ConfigError, match="d_k is given twice"):
        compose({"scaling": {"d_k": 8}}, [path])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["d_k=0"], "sqrtdk: d_k: 0 is not allowed"),
        (["scalin=off"], "did you mean scaling?"),
        (["d_k=4", "d_k=8"], "d_k is given twice"),
        (["grid=smol"], "did you mean smoke?"),
        (["d_k='4"], "is not an override"),
        (["hydra.no=1"], "Hydra's own settings cannot be overridden here"),
        (["--config-dir=/tmp"], "option: '--config-dir=/tmp' is not allowed"),
        (["out=/"], "out: '/' is not allowed"),
        (["--multirun", "d_k=range(1,10,0)"], "a range of finite numbers"),
        (["--multirun", "d_k=1,2", "out=a.csv,b.csv"], "out='\"a.csv,b.csv\"'"),
        (["out=mine.txt"], "a new file, or one that this command wrote"),
        (["out=results/x/scaling/runs.csv"], "a new file, or one that this command wrote"),
    ],
)
def test_the_command_by_hand_ends_with_one_line_and_exit_code_2(
    tmp_path: Path,
    snapshot: Callable[[Path], dict[str, bytes]],
    arguments: list[str],
    said: str,
) -> None:
    (tmp_path / "mine.txt").write_text("my notes", encoding="utf-8")
    (tmp_path / "results/x/scaling").mkdir(parents=True)
    (tmp_path / "results/x/config.yaml").touch()
    before = snapshot(tmp_path)
    done = by_hand(tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    # Nothing is measured before all of it is checked.
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        (["d_k=4,0"], "d_k: 0 is not allowed"),
        (["d_k=4,4"], "the sweep has the cell d_k=4 n_k=64"),
        (["experiments=scaling,precision"], "a sweep takes one, because each has its own columns"),
    ],
)
def test_a_sweep_that_goes_wrong_on_its_way_says_so_and_writes_no_table(
    tmp_path: Path, sweep: list[str], said: str
) -> None:
    done = by_hand(tmp_path, "--multirun", *sweep, "out=rows.csv")
    assert done.returncode == 2
    assert said in done.stderr
    # Nothing is measured before all of it is checked.
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_the_configuration_can_be_shown_as_the_help_says(tmp_path: Path) -> None:
    done = by_hand(tmp_path, "--cfg", "job", "d_k=8")
    assert done.returncode == 0
    assert yaml.safe_load(done.stdout)["d_k"] == 8


def test_out_may_be_written_again_by_the_same_command(tmp_path: Path) -> None:
    for _ in range(2):
        assert by_hand(tmp_path, "n_k=4", "out=rows.csv").returncode == 0
    assert len((tmp_path / "rows.csv").read_text(encoding="utf-8").splitlines()) == 2


def test_help_names_every_key_with_its_meaning_and_default(tmp_path: Path) -> None:
    done = by_hand(tmp_path, "--help")
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    for experiment in EXPERIMENTS.values():
        for key in experiment.config_keys:
            assert f"{key.name} {key.meaning}" in text
    assert "whole numbers from 1, one or a list (default cell: 64; default: [1, 2, 4" in text


@pytest.mark.parametrize(
    ("given", "read"), [(0.5, 0.5), (3, 3.0), ("1e-3", 1e-3), ("2.5", 2.5), (".5", 0.5)]
)
def test_a_number_above_0_may_be_written_in_any_usual_way(given: object, read: float) -> None:
    key = Key("rate", "number", "A rate.")
    value = config_values.check_value(key, [given], {})
    assert value == [read]
    assert type(value[0]) is float


@pytest.mark.parametrize(
    "given", [0, -1.0, True, "1_000", "0x10", "nan", "inf", float("nan"), 1e999, "1e999", "x", None]
)
def test_what_is_no_number_above_0_is_refused_in_one_line(given: object) -> None:
    with pytest.raises(ConfigError) as refused:
        config_values.check_value(Key("rate", "number", "A rate."), [given], {})
    assert str(refused.value).startswith("rate: ")
    assert str(refused.value).endswith("allowed: finite numbers above 0, one or a list")


def test_the_pages_name_the_limits_that_hold() -> None:
    scaling, reliability = (
        (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        for page in ("scaling", "reliability")
    )
    assert f"a run has at most {MOST_SEEDS:,} of them" in scaling
    assert f"a shard holds `shard_seeds`, at most {MOST_SHARD_SEEDS:,}" in scaling
    assert (
        f"has at most {MOST_SHARD_SEEDS:,} seeds, a run at most {MOST_SHARDS:,} sh" in reliability
    )
