import csv
import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqrtdk import claims, config, estimates, summary, tables
from sqrtdk.estimates import Estimate
from sqrtdk.experiments import scaling
from sqrtdk.figures import FIGURES

D_K = (1, 4, 16, 64, 256, 1024)
N_K = (16, 64)
RULES = {
    "off": {"rule": "constant", "value": 1},
    "on": {"rule": "power", "exponent": 0.5},
    "inverse": {"rule": "power", "exponent": 1},
    "quarter": {"rule": "constant", "value": 0.25},
}
LAWS = {"gaussian": {"law": "gaussian"}, "planted": {"law": "planted", "cosine": 0.5}}

Alter = Callable[[dict[str, Any]], float | None]


def metrics(d_k: int, n_k: int, scaling: str) -> dict[str, float]:
    """Numbers that behave as the real ones do: functions of sigma = scale √d_k, smooth in d_k."""
    rule = RULES[scaling]
    scale = rule["value"] if rule["rule"] == "constant" else d_k ** -float(rule["exponent"])
    sigma = scale * math.sqrt(d_k)
    share = 1 / (1 + sigma**2 / (4 * math.log(max(n_k, 2))))
    found = {
        "scale": scale,
        "logit_std": sigma,
        "entropy_nats": share * math.log(n_k),
        "entropy_normalized": share,
        "effective_keys": n_k**share,
        "max_weight": sigma / (sigma + 2),
        "grad_logits_dead_entries": sigma / (sigma + 4),
        "grad_logits_median": math.exp(-sigma / 8),
        "grad_logits_top1_share": 0.05 + 0.3 * sigma / (sigma + 9),
        "grad_q_rms": sigma,
        "grad_k_rms": 2 * sigma,
        "grad_v_rms": sigma / (sigma + 1),
    }
    return {
        k: v for k, v in found.items() if n_k > 1 or k not in ("logit_std", "entropy_normalized")
    }


def table(
    d_k: Iterable[int] = D_K,
    n_k: Iterable[int] = N_K,
    arms: Iterable[str] = ("off", "on"),
    inputs: Iterable[str] = ("gaussian",),
    seeds: int = 20,
    error: float = 0.002,
    alter: Alter = lambda row: None,
) -> pd.DataFrame:
    """A summary.csv as a data frame; `alter` may give a row another mean."""
    rows = []
    for d, n, law, arm in itertools.product(d_k, n_k, inputs, arms):
        axes = {"d_k": d, "n_k": n, "n_q": 8, "inputs": law, "dtype": "float64", "scaling": arm}
        for metric, usual in metrics(d, n, arm).items():
            changed = alter(axes | {"metric": metric})
            mean = usual if changed is None else changed
            half = abs(mean) * error if seeds > 1 else math.nan
            statistics = (seeds, mean, half, mean, mean - half, mean + half, math.nan, math.nan)
            rows.append((*axes.values(), metric, *statistics))
    return pd.DataFrame(rows, columns=[c.name for c in summary.columns(scaling.COLUMNS)])


def run(frame: pd.DataFrame, rules: dict[str, Any] = RULES) -> config.Run:
    """A run whose scale rules and input laws are those of the table."""
    arms = {name: rules[name] for name in frame["scaling"].unique()}
    laws = {name: LAWS[name] for name in frame["inputs"].unique()}
    return config.Run("mine", 50, {"scaling": {"scaling": arms, "inputs": laws}})


def judged(frame: pd.DataFrame, rules: dict[str, Any] = RULES) -> dict[str, dict[str, Any]]:
    """The ledger of a table, by claim."""
    rows = claims.ledger(run(frame, rules), {"scaling": frame})
    return {row["claim"]: row for row in rows}


def change(metric: str, new: Callable[[int], float], arm: str = "off") -> Alter:
    """Another curve for one metric of one arm."""
    return lambda row: new(row["d_k"]) if (row["metric"], row["scaling"]) == (metric, arm) else None


def one(frame: pd.DataFrame, **at: Any) -> pd.Series:
    """The one row of a table at these values."""
    for name, value in at.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1
    return frame.iloc[0]


def test_verdicts_of_a_table_like_the_real_one() -> None:
    verdicts = {name: row["verdict"] for name, row in judged(table()).items()}
    assert verdicts == {
        "scores_grow": "true",
        "saturation": "true",
        "one_hot": "true with a condition",
        "stable": "true with a condition",
        "gradients_typical": "true",
        "gradients_rms": "false",
        "from_64": "false",
        "gradients_related": "not measured",
        "inverse": "not measured",
        "half_precision": "not measured",
        "agreement": "not measured",
        "training": "not measured",
        "stability": "not measured",
        "training_twin": "not measured",
        "projections": "not measured",
        "bottleneck": "not measured",
        "capacity": "not measured",
        "score_width": "not measured",
        "reach": "not measured",
        "vanishing": "not measured",
    }


@pytest.mark.parametrize(
    ("claim", "alter", "verdict"),
    [
        ("scores_grow", change("logit_std", float), "false"),
        ("scores_grow", change("logit_std", lambda d: d**0.51), "true"),
        ("saturation", change("entropy_normalized", lambda d: 0.9), "false"),
        ("saturation", change("entropy_normalized", lambda d: 0.1), "true"),
        ("one_hot", change("max_weight", lambda d: 0.95), "true"),
        ("one_hot", change("max_weight", lambda d: 0.5), "false"),
        ("stable", change("entropy_nats", lambda d: 1 / d, arm="on"), "false"),
        ("gradients_typical", change("grad_logits_dead_entries", lambda d: 0.1), "false"),
        ("gradients_typical", change("grad_logits_median", lambda d: 2.0), "false"),
        (
            "gradients_typical",
            change("grad_logits_dead_entries", lambda d: d / (d + 200)),
            "true with a condition",
        ),
        (
            "gradients_rms",
            lambda row: (
                1 / (1 + row["d_k"])
                if row["metric"].endswith("_rms") and row["scaling"] == "off"
                else None
            ),
            "true",
        ),
        ("gradients_rms", change("grad_v_rms", lambda d: 0.01), "false"),
        ("from_64", change("entropy_normalized", lambda d: 60 / (60 + d)), "true"),
        ("from_64", change("entropy_normalized", lambda d: 600 / (600 + d)), "false"),
    ],
)
def test_a_verdict_follows_the_table(claim: str, alter: Alter, verdict: str) -> None:
    row = judged(table(alter=alter))[claim]
    assert row["verdict"] == verdict
    assert row["answer"]


def test_a_claim_that_fails_in_one_series_names_it() -> None:
    def alter(row: dict[str, Any]) -> float | None:
        wrong = row["metric"] == "entropy_normalized" and row["n_k"] == 64
        return 0.8 if wrong and row["scaling"] == "off" else None

    row = judged(table(alter=alter))["saturation"]
    assert (row["verdict"], row["condition"]) == ("true with a condition", "not for n_k = 64")
    assert row["series"] == "n_k = 16"


def test_stability_is_judged_for_related_inputs_where_there_are_some() -> None:
    both = ("gaussian", "planted")
    assert judged(table(inputs=both))["stable"]["verdict"] == "true"

    def collapse(row: dict[str, Any]) -> float | None:
        wrong = row["metric"] == "entropy_nats" and row["scaling"] == "on"
        return 1 / row["d_k"] if wrong and row["inputs"] == "planted" else None

    row = judged(table(n_k=[16], inputs=both, alter=collapse))["stable"]
    assert row["verdict"] == "true with a condition"
    assert row["condition"] == "not for n_k = 16, inputs = planted"


def test_stability_looks_at_the_experiment_with_related_inputs_too() -> None:
    def collapse(row: dict[str, Any]) -> float | None:
        wrong = row["metric"] == "entropy_nats" and row["scaling"] == "on"
        return 1 / row["d_k"] if wrong else None

    frame, related = table(), table(n_k=[64], inputs=["planted"], alter=collapse)
    both = {"scaling": run(frame).settings["scaling"], "related": run(related).settings["scaling"]}
    rows = claims.ledger(config.Run("mine", 50, both), {"scaling": frame, "related": related})
    row = next(row for row in rows if row["claim"] == "stable")
    assert row["verdict"] == "true with a condition"
    assert row["condition"] == "not for n_k = 64, inputs = planted"


def test_claims_about_unrelated_vectors_leave_related_inputs_out() -> None:
    row = judged(table(n_k=[16], inputs=["planted"]))["scores_grow"]
    assert row["verdict"] == "not measured"
    assert row["condition"] == "the claim is about unrelated vectors"


def test_wide_intervals_leave_a_claim_open() -> None:
    row = judged(table(alter=change("entropy_normalized", lambda d: 0.5), error=0.3))["saturation"]
    assert row["verdict"] == "not measured"
    assert "more seeds" in row["condition"]


def test_arms_are_known_by_what_they_do() -> None:
    renamed = {"plain": RULES["off"], "paper": RULES["on"]}
    frame = table()
    other = frame.replace({"scaling": {"off": "plain", "on": "paper"}})
    expected, found = judged(frame), judged(other, renamed)
    assert {k: v["verdict"] for k, v in found.items()} == {
        k: v["verdict"] for k, v in expected.items()
    }
    wrong = {"off": RULES["off"], "on": RULES["inverse"]}
    row = judged(frame, wrong)["stable"]
    assert row["verdict"] == "not measured"
    assert row["condition"] == "the run has no scale rule that divides by √d_k"


@pytest.mark.parametrize(
    "odd",
    [
        {"d_k": [64]},
        {"d_k": [1]},
        {"d_k": [2048], "n_k": [16]},
        {"arms": ["off"]},
        {"arms": ["on"]},
        {"arms": ["inverse", "quarter"]},
        {"n_k": [1]},
        {"n_k": [1, 16]},
        {"seeds": 1},
        {"error": 0.0},
        {"inputs": ["gaussian", "planted"]},
        {"d_k": [1, 2], "n_k": [2]},
        {"alter": lambda row: 0.0},
    ],
    ids=lambda odd: ", ".join(f"{name} {'zero' if name == 'alter' else odd[name]}" for name in odd),
)
def test_odd_grids_are_judged_or_say_why_not(odd: dict[str, Any]) -> None:
    for row in judged(table(**odd)).values():
        assert row["verdict"] in claims.VERDICTS
        tables.check(row, [column for column in claims.COLUMNS if column.read is float])
        if row["verdict"] == "not measured":
            assert row["condition"]
            assert row["answer"] == f"Not measured: {row['condition']}."
            assert math.isnan(row["value"])
        else:
            assert row["numbers"]
            assert row["quantity"]
            assert math.isfinite(row["value"])


def test_one_seed_is_judged_by_means_and_has_no_interval() -> None:
    found, expected = judged(table(seeds=1)), judged(table())
    assert {k: v["verdict"] for k, v in found.items()} == {
        k: v["verdict"] for k, v in expected.items()
    }
    assert all(math.isnan(row["ci_low"]) for row in found.values())


def test_a_single_d_k_gives_no_slope() -> None:
    row = judged(table(d_k=[64]))["scores_grow"]
    assert (row["verdict"], row["condition"]) == ("not measured", "a slope needs two values of d_k")


def test_a_grid_of_small_d_k_denies_nothing() -> None:
    row = judged(table(d_k=[1, 2, 4]))["one_hot"]
    assert row["verdict"] == "not measured"
    assert "larger d_k may differ" in row["condition"]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_no_table_makes_the_ledger_fail(data: st.DataObject) -> None:
    frame = WHOLE.copy()
    keep = data.draw(st.lists(st.booleans(), min_size=len(frame), max_size=len(frame)))
    low = data.draw(st.sampled_from([0.0, 0.5, 3.0]))
    frame["ci_low"] = frame["mean"] - low * frame["mean"].abs()
    rows = claims.ledger(run(frame), {"scaling": frame[keep]} if any(keep) else {})
    assert [row["claim"] for row in rows] == [claim.claim for claim in claims.CLAIMS]


WHOLE = table(d_k=(1, 16, 1024), n_k=(1, 16), error=0.1)


def test_numbers_are_those_of_the_table() -> None:
    frame = table()
    found = judged(frame)
    end = one(frame, d_k=1024, n_k=64, scaling="off", metric="entropy_normalized")
    shown = estimates.percent(Estimate(end["mean"], end["ci_low"], end["ci_high"]))
    assert shown in found["saturation"]["answer"]
    assert shown in found["saturation"]["numbers"].split(claims.BETWEEN)[1]
    head = one(frame, d_k=64, n_k=16, scaling="off", metric="max_weight")
    shown = estimates.estimate(Estimate(head["mean"], head["ci_low"], head["ci_high"]))
    assert shown in found["one_hot"]["numbers"].split(claims.BETWEEN)[0]
    dead = one(frame, d_k=64, n_k=16, scaling="on", metric="grad_logits_dead_entries")
    shown = estimates.percent(Estimate(dead["mean"], dead["ci_low"], dead["ci_high"]))
    assert shown in found["gradients_typical"]["numbers"].split(claims.BETWEEN)[0]


def test_derived_numbers_agree_with_an_independent_computation() -> None:
    frame = table(n_k=[16])
    wide = frame.pivot_table(index="d_k", columns=["metric", "scaling"], values="mean")
    found = judged(frame)
    x = np.log(np.array(D_K))
    slope = np.polyfit(x, np.log(wide["logit_std", "off"].to_numpy()), 1)[0]
    assert found["scores_grow"]["value"] == pytest.approx(slope, rel=1e-12)
    # The logit of the share is ln(4 ln n_k / d_k): a straight line in ln d_k, 0 at 4 ln n_k.
    crossing = 4 * math.log(16)
    assert found["from_64"]["value"] == pytest.approx(crossing, rel=1e-12)
    assert found["from_64"]["ci_low"] < crossing < found["from_64"]["ci_high"]
    on = wide["entropy_nats", "on"]
    assert found["stable"]["value"] == pytest.approx(1 - on.min() / on.max(), abs=1e-15)
    ratios = [wide[f"grad_{x}_rms", "off"] / wide[f"grad_{x}_rms", "on"] for x in "qkv"]
    assert found["gradients_rms"]["value"] == pytest.approx(max(r[1024] for r in ratios), rel=1e-12)


def test_exact_values_are_shown_where_the_table_has_them() -> None:
    frame = table(n_k=[16])
    frame["exact"] = frame["mean"]
    assert "exact" in judged(frame)["saturation"]["answer"]
    assert "exact" not in judged(table(n_k=[16]))["saturation"]["answer"]


def test_text_stays_short_for_hundreds_of_series() -> None:
    row = judged(table(d_k=(1, 64, 1024), n_k=range(2, 202)))["saturation"]
    assert len(row["numbers"]) < 1000
    assert "196 more series" in row["numbers"]


def test_every_claim_names_a_figure_of_its_experiment() -> None:
    for claim in claims.CLAIMS:
        assert claim.figure in [f"{claim.experiment}-{what}" for what in FIGURES[claim.experiment]]


def test_a_run_without_the_experiment_measures_nothing() -> None:
    rows = claims.ledger(config.Run("mine", 50, {}), {})
    assert {row["verdict"] for row in rows} == {"not measured"}


def test_the_command_writes_the_columns_of_the_schema(tmp_path: Path) -> None:
    frame = table()
    full = {"d_k": list(D_K), "n_k": list(N_K), "n_q": [8], "d_v": 8, "dtype": ["float64"]}
    chosen = {
        "scaling": {"off": RULES["off"], "on": RULES["on"]},
        "inputs": {"gaussian": LAWS["gaussian"]},
    }
    whole = config.Run("mine", 50, {"scaling": full | chosen | {"seed": list(range(20))}})
    (tmp_path / "config.yaml").write_text(whole.to_yaml(), encoding="utf-8")
    path = tmp_path / "scaling" / "summary.csv"
    rows = [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]
    tables.write_atomically(path, tables.text(rows, summary.columns(scaling.COLUMNS)))
    out = tmp_path / "claims.csv"
    command = [sys.executable, "-m", "sqrtdk.claims", str(tmp_path / "config.yaml"), str(path)]
    for _ in range(2):
        subprocess.run([*command, str(out)], check=True)
    with out.open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == [column.name for column in claims.COLUMNS]
    expected = judged(frame)
    assert {row["claim"]: row["verdict"] for row in found} == {
        name: row["verdict"] for name, row in expected.items()
    }


def related(alter: Alter = lambda row: None) -> dict[str, dict[str, Any]]:
    """The ledger of a run with related inputs and the rule that divides by d_k."""
    frame = table(arms=("off", "on", "inverse"), inputs=("gaussian", "planted"), alter=alter)
    arms = {name: RULES[name] for name in frame["scaling"].unique()}
    one = config.Run("mine", 50, {"related": {"scaling": arms, "inputs": LAWS}})
    return {row["claim"]: row for row in claims.ledger(one, {"related": frame})}


def test_dividing_by_d_k_is_judged_by_related_inputs_alone() -> None:
    def falling(row: dict[str, Any]) -> float | None:
        fell = row["metric"] == "entropy_nats" and row["scaling"] == "inverse"
        return 2 / row["d_k"] if fell and row["inputs"] == "planted" else None

    assert related(falling)["inverse"]["verdict"] == "false"
    found = related()["inverse"]
    assert found["verdict"] == "true"
    assert "inputs = planted" in found["series"]
    assert "inputs = gaussian" not in found["quantity"]


def with_z(z: Iterable[float], seeds: int = 20) -> pd.DataFrame:
    frame = table(seeds=seeds)
    # Apart by more than `summary.SAME_Z`, because equal ones of one draw would count once.
    apart = 1e-5 * np.arange(len(frame))
    frame["z"] = np.array(list(itertools.islice(itertools.cycle(z), len(frame)))) + apart
    return frame


@pytest.mark.parametrize(
    ("z", "verdict"),
    [
        ([1.0, -1.0], "true"),
        ([0.1, -0.1], "false"),
        ([2.0, -2.0], "false"),
        ([1.0] * 100 + [9.0], "false"),
        ([math.nan], "not measured"),
    ],
)
def test_agreement_is_the_gate_over_z(z: list[float], verdict: str) -> None:
    assert judged(with_z(z))["agreement"]["verdict"] == verdict


def test_agreement_needs_enough_seeds() -> None:
    found = judged(with_z([1.0, -1.0], seeds=summary.GATED_SEEDS - 1))["agreement"]
    assert found["verdict"] == "not measured"
    assert "at least 20 seeds" in found["condition"]


def test_agreement_gives_the_number_that_decided_and_says_what_is_left_out() -> None:
    found = judged(with_z([1.0] * 100 + [9.0], seeds=1000))["agreement"]
    assert (found["quantity"], found["value"]) == ("largest |z|", pytest.approx(9.0, rel=0.02))
    found = judged(with_z([2.0, -2.0], seeds=1000))["agreement"]
    assert found["quantity"] == "root mean square of z"
    assert found["value"] == pytest.approx(2.0, rel=0.01)
    for word in ("float64", "cannot see", "no exact value"):
        assert word in found["rule"]


def ratios(by_d_k: dict[int, tuple[float, float, float]]) -> dict[str, Any]:
    """The claim about gradients of related vectors, by mean and interval of unscaled q and k."""
    frame = table(d_k=by_d_k, n_k=[16], inputs=["planted"])
    numbers = ["mean", "ci_low", "ci_high"]
    for x in ("grad_q_rms", "grad_k_rms"):
        for d_k, values in by_d_k.items():
            at = (frame["metric"] == x) & (frame["d_k"] == d_k)
            frame.loc[at & (frame["scaling"] == "off"), numbers] = values
            one = (1.0, math.nan, math.nan) if math.isnan(values[1]) else (1.0, 1.0, 1.0)
            frame.loc[at & (frame["scaling"] == "on"), numbers] = one
    rules = {name: RULES[name] for name in ("off", "on")}
    one_run = config.Run("mine", 50, {"related": {"scaling": rules, "inputs": LAWS}})
    rows = claims.ledger(one_run, {"related": frame})
    return {row["claim"]: row for row in rows}["gradients_related"]


def test_gradients_of_related_vectors_with_one_seed_are_judged_by_the_means() -> None:
    nan = math.nan
    found = ratios({4: (2.0, nan, nan), 16: (1e-3, nan, nan), 64: (1e-50, nan, nan)})
    assert found["verdict"] == "true"
    assert found["value"] == pytest.approx(1e-50, abs=0)
    assert "at d_k = 64" in found["answer"]


@pytest.mark.parametrize(
    ("by_d_k", "verdict"),
    [
        ({4: (2.0, 1.9, 2.1), 16: (3.0, 2.9, 3.1)}, "false"),
        ({4: (2.0, 1.9, 2.1), 16: (0.5, 0.4, 0.6)}, "true"),
        # At one d_k it may be smaller, so that it is not larger at all of them.
        ({4: (2.0, 1.9, 2.1), 16: (3.0, 0.5, 5.5)}, "not measured"),
    ],
)
def test_gradients_of_related_vectors_fail_only_where_they_are_larger_at_every_d_k(
    by_d_k: dict[int, tuple[float, float, float]], verdict: str
) -> None:
    assert ratios(by_d_k)["verdict"] == verdict


def test_a_late_saturation_is_a_condition_as_its_rule_says() -> None:
    row = judged(table(alter=change("entropy_normalized", lambda d: 200 / (200 + d))))["saturation"]
    assert row["verdict"] == "true with a condition"
    assert "With a condition where it begins above d_k = 64." in row["rule"]


def test_a_range_across_the_line_leaves_stability_open() -> None:
    # From 1 to 0.92 the entropy moves by 8 %; with intervals of 4 % up to 15 %.
    alter = change("entropy_nats", lambda d: 0.92 if d == 1024 else 1.0, arm="on")
    narrow, wide = (judged(table(alter=alter, error=error))["stable"] for error in (0.002, 0.04))
    assert narrow["verdict"] == "true with a condition"
    assert narrow["ci_low"] < narrow["value"] < narrow["ci_high"]
    assert wide["verdict"] == "not measured"
    assert "more seeds" in wide["condition"]


@pytest.mark.parametrize(("share", "d_k"), [(0.45, (16, 64)), (0.55, (64, 256))])
def test_an_onset_outside_the_grid_is_certain_only_with_its_whole_interval(
    share: float, d_k: tuple[int, ...]
) -> None:
    def flat(error: float) -> dict[str, Any]:
        alter = change("entropy_normalized", lambda d: share)
        return judged(table(d_k=d_k, n_k=[16], alter=alter, error=error))["from_64"]

    assert flat(0.01)["verdict"] == "false"
    assert flat(0.3)["verdict"] == "not measured"
    assert "more seeds" in flat(0.3)["condition"]


def test_an_onset_without_a_bound_decides_nothing() -> None:
    # The curve crosses between 4 and 16, its lower end before the grid and its upper after it.
    alter = change("entropy_normalized", lambda d: 0.55 if d < 16 else 0.45)
    assert judged(table(n_k=[16], alter=alter, error=0.01))["from_64"]["verdict"] == "false"
    assert judged(table(n_k=[16], alter=alter, error=0.4))["from_64"]["verdict"] == "not measured"


Share = float | tuple[float, float, float]


def half_precision(
    after: Share, before: Share, scale: float = 0.25, bfloat16: bool = False
) -> dict[str, Any]:
    axes = {"n_k": 8, "n_q": 8, "inputs": "gaussian"}
    rows = []
    kinds = ("float16", "bfloat16") if bfloat16 else ("float16",)
    grid = itertools.product((16, 1024), (1, 16), kinds, (("after", after), ("before", before)))
    for d_k, sd, kind, (order, share) in grid:
        overflows = d_k == 1024 and sd == 16 and kind == "float16"
        mean, low, high = share if isinstance(share, tuple) else (share,) * 3
        for metric, values in (
            ("overflow_share", (mean, low, high) if overflows else (0.0, 0.0, 0.0)),
            ("scale", (scale,) * 3),
        ):
            at = {"d_k": d_k, **axes, "input_sd": sd, "precision": kind, "order": order}
            numbers = dict(zip(("mean", "ci_low", "ci_high"), values, strict=True))
            rest = {"n_seeds": 5, "sd": 0.0, "median": mean, "exact": math.nan, "z": math.nan}
            rows.append(at | {"scaling": "on", "metric": metric} | numbers | rest)
    one = config.Run("mine", 50, {"precision": {"scaling": RULES, "inputs": LAWS}})
    ledger = claims.ledger(one, {"precision": pd.DataFrame(rows)})
    return {row["claim"]: row for row in ledger}["half_precision"]


def test_half_precision_is_judged_where_most_scores_overflow() -> None:
    found = half_precision(after=0.5, before=0.0)
    assert found["verdict"] == "true with a condition"
    assert "at d_k = 1024 and inputs of standard deviation 16" in found["answer"]
    assert half_precision(after=0.5, before=0.5)["verdict"] == "false"
    assert half_precision(after=0.2, before=0.5)["verdict"] == "false"


def test_half_precision_says_where_scores_overflow() -> None:
    found = half_precision(after=0.5, before=0.0, bfloat16=True)
    assert found["condition"] == (
        "where float16 scores overflow, at input_sd = 16 from d_k = 1024 on; "
        "none overflow at input_sd = 1 and in bfloat16"
    )


def test_half_precision_needs_an_overflow_and_a_scale_that_is_not_1() -> None:
    for found, reason in (
        (half_precision(after=0.0, before=0.0), "no float16 score overflows"),
        (half_precision(after=0.5, before=0.5, scale=1.0), "a scale other than 1"),
    ):
        assert found["verdict"] == "not measured"
        assert reason in found["condition"]


def test_half_precision_compares_intervals() -> None:
    near = half_precision(after=(0.5, 0.3, 0.7), before=(0.4, 0.2, 0.6))
    assert near["verdict"] == "not measured"
    assert "more seeds" in near["condition"]
    apart = half_precision(after=(0.5, 0.45, 0.55), before=(0.4, 0.35, 0.44))
    assert apart["verdict"] == "true with a condition"
    assert apart["value"] == pytest.approx(0.1)
    assert apart["ci_low"] == pytest.approx(0.01)


def test_a_claim_about_a_whole_table_has_no_label() -> None:
    found = half_precision(after=0.5, before=0.0)
    assert found["series"] == ""
    assert found["numbers"].startswith("50.0 %")
