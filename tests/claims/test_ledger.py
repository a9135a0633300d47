import csv
import itertools
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import command
from hypothesis import given, settings
from hypothesis import strategies as st
from registered import FIGURES

from sqrtdk.claims import claim as claims_claim
from sqrtdk.config import run as config_run
from sqrtdk.experiments import statements
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.experiments.related import cosines
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.jobs import judge
from sqrtdk.report import prose
from sqrtdk.stats import agreement, intervals, summary, wording
from sqrtdk.stats.intervals import Estimate
from sqrtdk.storage import atomic, tables

D_K = (1, 4, 16, 64, 256, 1024)
N_K = (16, 64)
RULES = {
    "off": {"rule": "constant", "value": 1},
    "on": {"rule": "power", "exponent": 0.5},
    "inverse": {"rule": "power", "exponent": 1},
    "inverse_64": {"rule": "power", "exponent": 1, "multiplier": 8},
    "quarter": {"rule": "constant", "value": 0.25},
}
LAWS = {
    "gaussian": {"law": "gaussian"},
    "planted": {"law": "planted", "cosine": 0.5},
    "sphere": {"law": "sphere", "arrays": "both"},
    "non_centred": {"law": "non_centred", "q_mean": 1, "k_mean": 1},
    "graded": {"law": "graded", "cosine": 0.5, "steps": 4},
}

Alter = Callable[[dict[str, Any]], float | None]


def metrics(d_k: int, n_k: int, scaling: str) -> dict[str, float]:
    """Return numbers that behave like real ones: functions of sigma = scale √d_k, smooth in d_k."""
    rule = RULES[scaling]
    scale = rule.get("value", rule.get("multiplier", 1)) * d_k ** -float(rule.get("exponent", 0))
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
        # Like a planted match, whose logit is scale d_k / 2.
        "grad_q_dead_rows": 1 / (1 + (12 / (scale * d_k)) ** 4),
        "match_weight": 1 / (1 + n_k * math.exp(-scale * d_k / 2)),
        "weight_sum_error": 1e-16,
        "output_excess": 0.0,
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


def run(frame: pd.DataFrame, rules: dict[str, Any] = RULES) -> config_run.Run:
    """Return a run whose scale rules and input laws are those of the table."""
    arms = {name: rules[name] for name in frame["scaling"].unique()}
    laws = {name: LAWS[name] for name in frame["inputs"].unique()}
    return config_run.Run("mine", 50, {"scaling": {"scaling": arms, "inputs": laws}})


def judged(frame: pd.DataFrame, rules: dict[str, Any] = RULES) -> dict[str, dict[str, Any]]:
    """Return the ledger of a table, by claim."""
    rows = judge.claims_table(run(frame, rules), {("scaling", "summary"): frame})
    return {row["claim"]: row for row in rows}


def change(metric: str, new: Callable[[int], float], arm: str = "off") -> Alter:
    """Return a change of one metric's curve for one scale rule."""
    return lambda row: new(row["d_k"]) if (row["metric"], row["scaling"]) == (metric, arm) else None


def one(frame: pd.DataFrame, **at: Any) -> pd.Series:
    """Return the single row of a table at these values."""
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
        "from_64": "true",
        # Unrelated vectors alone.
        "scores_stable": "true with a condition",
        "average": "not measured",
        "graded": "not measured",
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
        # Of what it is with scaling, a little less than 1/3 is left at d_k = 64, or than 1.
        ("from_64", change("entropy_normalized", lambda d: 30 / (30 + d)), "true"),
        ("from_64", change("entropy_normalized", lambda d: 600 / (600 + d)), "false"),
        ("scores_stable", change("logit_std", lambda d: 1 + d / 1024, arm="on"), "false"),
        # Most entries are near zero with scaling too, so that counting explains them.
        (
            "gradients_typical",
            change("grad_logits_dead_entries", lambda d: 0.95, arm="on"),
            "false",
        ),
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
    assert (row["verdict"], row["condition"]) == ("true with a condition", "fails for n_k = 64")
    assert row["answer"]
    assert row["series"] == "n_k = 16"


def test_stability_is_judged_for_related_inputs_where_there_are_some() -> None:
    both = ("gaussian", "planted")
    assert judged(table(inputs=both))["stable"]["verdict"] == "true"

    def collapse(row: dict[str, Any]) -> float | None:
        wrong = row["metric"] == "entropy_nats" and row["scaling"] == "on"
        return 1 / row["d_k"] if wrong and row["inputs"] == "planted" else None

    row = judged(table(n_k=[16], inputs=both, alter=collapse))["stable"]
    assert row["verdict"] == "true with a condition"
    assert row["condition"] == "fails for n_k = 16, inputs = planted; tried at n_k = 16 only"


def test_stability_looks_at_the_experiment_with_related_inputs_too() -> None:
    def collapse(row: dict[str, Any]) -> float | None:
        wrong = row["metric"] == "entropy_nats" and row["scaling"] == "on"
        return 1 / row["d_k"] if wrong else None

    frame, related = table(), table(n_k=[64], inputs=["planted"], alter=collapse)
    both = {"scaling": run(frame).settings["scaling"], "related": run(related).settings["scaling"]}
    found = {("scaling", "summary"): frame, ("related", "summary"): related}
    rows = judge.claims_table(config_run.Run("mine", 50, both), found)
    row = next(row for row in rows if row["claim"] == "stable")
    assert row["verdict"] == "true with a condition"
    assert row["condition"] == "fails for n_k = 64, inputs = planted"


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
        assert row["verdict"] in claims_claim.VERDICTS
        tables.check(row, [column for column in claims_claim.COLUMNS if column.read is float])
        if row["verdict"] == "not measured":
            assert row["condition"]
            said = "Undecided" if row["numbers"] else "Not measured"
            assert row["answer"] == f"{said}: {row['condition']}."
            assert math.isnan(row["value"])
        else:
            assert row["numbers"]
            assert row["quantity"]
            assert math.isfinite(row["value"])


def test_one_seed_decides_nothing() -> None:
    for row in judged(table(seeds=1)).values():
        assert row["verdict"] == "not measured"
        if row["experiment"] == "scaling" and row["claim"] != "agreement":
            assert "one seed has no interval" in row["condition"]


def test_a_single_d_k_gives_no_slope() -> None:
    row = judged(table(d_k=[64]))["scores_grow"]
    assert row["verdict"] == "not measured"
    assert "needs 4 values of it or more" in row["condition"]


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
    found = {("scaling", "summary"): frame[keep]} if any(keep) else {}
    rows = judge.claims_table(run(frame), found)
    wanted = statements.claims_of(())
    assert [row["claim"] for row in rows] == [claim.claim for claim in wanted]


WHOLE = table(d_k=(1, 16, 1024), n_k=(1, 16), error=0.1)


def test_numbers_are_those_of_the_table() -> None:
    frame = table()
    found = judged(frame)
    end = one(frame, d_k=1024, n_k=64, scaling="off", metric="entropy_normalized")
    shown = wording.format_percent(Estimate(end["mean"], end["ci_low"], end["ci_high"]))
    assert shown in found["saturation"]["answer"]
    assert shown in found["saturation"]["numbers"].split(claims_claim.SERIES_SEPARATOR)[1]
    head = one(frame, d_k=64, n_k=16, scaling="off", metric="max_weight")
    shown = wording.format_estimate(Estimate(head["mean"], head["ci_low"], head["ci_high"]))
    assert shown in found["one_hot"]["numbers"].split(claims_claim.SERIES_SEPARATOR)[0]
    dead = one(frame, d_k=64, n_k=16, scaling="on", metric="grad_logits_dead_entries")
    shown = wording.format_percent(Estimate(dead["mean"], dead["ci_low"], dead["ci_high"]))
    assert shown in found["gradients_typical"]["numbers"].split(claims_claim.SERIES_SEPARATOR)[0]


def test_each_onset_with_theory_has_the_exact_one_beside() -> None:
    frame = table(d_k=[2**i for i in range(13)], n_k=[256], inputs=["gaussian", "sphere"])
    frame["exact"] = frame["mean"]
    found = judged(frame[frame["inputs"] == "gaussian"])
    # This table has sigma / (sigma + 2) = 0.9 at d_k = 324; for 256 keys 395.29 and 8.87 are exact.
    for text in (found["one_hot"]["condition"], found["one_hot"]["numbers"]):
        assert "from d_k ≈ 324 (" in text
        assert ", exact 395)" in text
    assert ", exact 8.9)" in found["from_64"]["answer"]
    # Vectors on a sphere have exact means too, but not this theory's thresholds.
    assert "d_k ≈" in judged(frame[frame["inputs"] == "sphere"])["one_hot"]["condition"]
    assert "exact" not in judged(frame[frame["inputs"] == "sphere"])["one_hot"]["condition"]
    # Without exact values, the measurement stands alone.
    assert "exact" not in judged(table(d_k=D_K, n_k=[256]))["one_hot"]["condition"]


def test_derived_numbers_agree_with_an_independent_computation() -> None:
    frame = table(n_k=[16])
    wide = frame.pivot_table(index="d_k", columns=["metric", "scaling"], values="mean")
    found = judged(frame)
    x = np.log(np.array(D_K))
    slope = np.polyfit(x, np.log(wide["logit_std", "off"].to_numpy()), 1)[0]
    assert found["scores_grow"]["value"] == pytest.approx(slope, rel=1e-12)
    # The logit of the share is ln(4 ln n_k / d_k): a straight line in ln d_k, 0 at 4 ln n_k.
    shown = found["from_64"]["answer"].partition("half is gone at d_k ≈ ")[2]
    assert float(shown.split(" ")[0]) == pytest.approx(4 * math.log(16), rel=0.01)
    left = (wide["entropy_normalized", "off"] / wide["entropy_normalized", "on"])[64]
    assert found["from_64"]["value"] == pytest.approx(left, rel=1e-12)
    assert found["from_64"]["ci_low"] < left < found["from_64"]["ci_high"]
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
    row = judged(table(d_k=(1, 64, 1024), n_k=range(2, 110)))["saturation"]
    assert len(row["numbers"]) < 1000
    assert "104 more series" in row["numbers"]


def test_every_claim_names_a_figure_of_its_experiment() -> None:
    for claim in statements.claims():
        for experiment, figure in {claim.experiment: claim.figure, **claim.also}.items():
            known = [f"{experiment}-{what}" for what in FIGURES[experiment]]
            assert figure in known


def test_a_claim_that_another_experiment_decides_names_it_and_its_figure() -> None:
    frame = table(inputs=("gaussian", "planted"), alter=change("entropy_nats", lambda d: 2.0, "on"))
    settings = {"scaling": {x: RULES[x] for x in ("off", "on")}, "inputs": LAWS}
    for experiments, named in (
        (("related",), ("related", "related-entropy")),
        (("scaling", "related"), ("scaling", "scaling-entropy")),
    ):
        run_ = config_run.Run("mine", 50, dict.fromkeys(experiments, settings))
        found = {(name, "summary"): frame for name in experiments}
        rows = {row["claim"]: row for row in judge.claims_table(run_, found)}
        assert (rows["stable"]["experiment"], rows["stable"]["figure"]) == named
        assert rows["stable"]["verdict"] == "true"
        assert rows["scores_stable"]["experiment"] == named[0]
        assert rows["scores_stable"]["figure"] == f"{named[0]}-logit_std"
        assert rows["saturation"]["experiment"] == "scaling"
        checks = prose.checks(list(rows.values()), experiments)
        listed = "related" if len(experiments) == 1 else "'[scaling,related]'"
        assert checks["stable"] == f"experiments={listed}"
        assert checks["saturation"] == "experiments=scaling"


def test_a_run_without_the_experiment_measures_nothing() -> None:
    rows = judge.claims_table(config_run.Run("mine", 50, {}), {})
    assert {row["verdict"] for row in rows} == {"not measured"}


def test_the_command_writes_the_columns_of_the_schema(tmp_path: Path) -> None:
    frame = table()
    full = {"d_k": list(D_K), "n_k": list(N_K), "n_q": [8], "d_v": 8, "dtype": ["float64"]}
    chosen = {
        "scaling": {"off": RULES["off"], "on": RULES["on"]},
        "inputs": {"gaussian": LAWS["gaussian"]},
    }
    whole = config_run.Run("mine", 50, {"scaling": full | chosen | {"seed": list(range(20))}})
    (tmp_path / "config.yaml").write_text(whole.to_yaml(), encoding="utf-8")
    path = tmp_path / "scaling" / "summary.csv"
    rows = [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]
    atomic.write_atomically(path, tables.text(rows, summary.columns(scaling.COLUMNS)))
    out = tmp_path / "claims.csv"
    for _ in range(2):
        done = command(tmp_path, "sqrtdk.jobs.judge", tmp_path / "config.yaml", path, out)
        assert done.returncode == 0, done.stderr
    with out.open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == [column.name for column in claims_claim.COLUMNS]
    expected = judged(frame)
    assert {row["claim"]: row["verdict"] for row in found} == {
        name: row["verdict"] for name, row in expected.items()
    }


def related(
    alter: Alter = lambda row: None,
    arms: Iterable[str] = ("off", "on", "inverse", "inverse_64"),
    inputs: Iterable[str] = ("gaussian", "planted"),
    **grid: Any,
) -> dict[str, dict[str, Any]]:
    """The ledger of a run with related inputs and the rules that divide by d_k."""
    frame = table(arms=arms, inputs=inputs, alter=alter, **grid)
    rules = {name: RULES[name] for name in frame["scaling"].unique()}
    laws = {name: LAWS[name] for name in frame["inputs"].unique()}
    one = config_run.Run("mine", 50, {"related": {"scaling": rules, "inputs": laws}})
    return {row["claim"]: row for row in judge.claims_table(one, {("related", "summary"): frame})}


def test_a_scale_that_makes_all_weights_equal_is_stable_and_no_better_for_that() -> None:
    found = related()["inverse"]
    assert found["verdict"] == "false"
    assert "it selects nothing" in found["answer"]
    # 1 / (1 + n_k exp(-1/2)) at every d_k, and at n_k = 16 closest to 1/2.
    assert found["value"] == pytest.approx(1 / (1 + 16 * math.exp(-0.5)))
    assert "with 8/d_k, equal to 1/√d_k at d_k = 64," in found["answer"]
    assert "inputs = planted" in found["series"]
    assert "inputs = gaussian" not in found["quantity"]


def test_a_scale_that_is_stable_and_finds_the_match_is_true() -> None:
    finds = change("match_weight", lambda d: 0.9, arm="inverse")
    assert related(finds)["inverse"]["verdict"] == "true"

    def falling(row: dict[str, Any]) -> float | None:
        fell = row["metric"] == "entropy_nats" and row["scaling"] == "inverse"
        return 2 / row["d_k"] if fell else finds(row)

    assert related(falling)["inverse"]["verdict"] == "false"


def test_a_match_that_is_not_found_up_to_a_small_d_k_is_not_denied() -> None:
    row = related(d_k=(1, 4, 16, 64))["inverse"]
    assert row["verdict"] == "not measured"
    assert "larger d_k may differ" in row["condition"] or "needs 4 values" in row["condition"]


def test_claims_about_a_match_leave_out_inputs_without_one() -> None:
    found = related(inputs=("gaussian", "non_centred"))
    for claim in ("inverse", "gradients_related"):
        row = found[claim]
        assert row["verdict"] == "not measured"
        assert row["condition"] == "no input law of the run gives queries a matching key"


SMALL = (16, 64)


@pytest.mark.parametrize("seeds", [2, 20])
@pytest.mark.parametrize("arms", [("off", "on"), ("off", "on", "inverse", "inverse_64")])
def test_a_grid_of_d_k_16_and_64_says_nothing_unconditional(
    arms: tuple[str, ...], seeds: int
) -> None:
    frame = table(d_k=SMALL, inputs=("gaussian", "planted"), arms=arms, seeds=seeds)
    rules = {name: RULES[name] for name in arms}
    laws = {name: LAWS[name] for name in ("gaussian", "planted")}
    settings = {"scaling": rules, "inputs": laws}
    run = config_run.Run("mine", 50, {"scaling": settings, "related": settings})
    found = {("scaling", "summary"): frame, ("related", "summary"): frame}
    rows = judge.claims_table(run, found)
    found = {row["claim"]: row for row in rows}
    # What the weights sum to is no question of d_k.
    assert {row["claim"] for row in rows if row["verdict"] in ("true", "false")} == {"average"}
    for claim in ("scores_grow", "scores_stable", "stable", "inverse", "gradients_related"):
        assert found[claim]["verdict"] == "not measured", claim
    for claim in ("saturation", "gradients_typical", "from_64"):
        assert found[claim]["verdict"] == "true with a condition"
        assert "tried up to d_k = 64 only" in found[claim]["condition"]


def test_one_example_refutes_regardless_on_any_grid() -> None:
    def collapse(row: dict[str, Any]) -> float | None:
        wrong = (row["metric"], row["scaling"]) == ("entropy_nats", "on")
        return 1 / row["d_k"] if wrong else None

    assert judged(table(d_k=SMALL, alter=collapse))["stable"]["verdict"] == "false"


@pytest.mark.parametrize(
    ("grid", "condition"),
    [
        ({"n_k": [64]}, "tried at n_k = 64 only"),
        ({"inputs": ["planted"]}, "for related vectors; that of unrelated ones is not known"),
        ({"d_k": [1, 4, 16, 64, 256]}, "tried up to d_k = 256 only"),
        ({"d_k": [256, 512, 1024, 4096]}, "tried from d_k = 256 on only"),
    ],
)
def test_a_true_verdict_says_what_the_grid_did_not_try(
    grid: dict[str, Any], condition: str
) -> None:
    assert judged(table())["saturation"]["verdict"] == "true"
    row = judged(table(**grid))["saturation"]
    assert (row["verdict"], row["condition"]) == ("true with a condition", condition)


def test_float32_alone_is_said() -> None:
    frame = table()
    row = judged(frame.assign(dtype="float32"))["saturation"]
    assert row["condition"] == "as computed in float32"
    both = pd.concat([frame, frame.assign(dtype="float32")], ignore_index=True)
    assert judged(both)["saturation"]["verdict"] == "true"


def test_stability_tried_with_related_vectors_alone_is_not_known_for_others() -> None:
    row = judged(table(inputs=["planted"]))["stable"]
    assert row["verdict"] == "true with a condition"
    assert row["condition"] == "for related vectors; that of unrelated ones is not known"


def test_nothing_is_false_while_a_series_may_still_hold() -> None:
    # For 16 keys the entropy surely stays; for 64 it is open.
    def alter(row: dict[str, Any]) -> float | None:
        if (row["metric"], row["scaling"]) != ("entropy_normalized", "off"):
            return None
        return 0.9 if row["n_k"] == 16 else 0.5

    row = judged(table(alter=alter))["saturation"]
    assert row["verdict"] == "not measured"
    assert "fails for n_k = 16; undecided for n_k = 64" in row["condition"]


def test_a_condition_after_a_series_that_fails_says_where_it_holds() -> None:
    # From d_k = 256 on for 16 keys, from 1024 on for 256, and nowhere for 64.
    begins = {16: 256, 64: math.inf, 256: 1024}

    def alter(row: dict[str, Any]) -> float | None:
        if (row["metric"], row["scaling"]) != ("entropy_normalized", "off"):
            return None
        return 0.2 if row["d_k"] >= begins[row["n_k"]] else 0.9

    alone = judged(table(n_k=[16], alter=alter))["saturation"]["condition"]
    assert alone.startswith("from d_k ≈ ")
    two = judged(table(n_k=[16, 64], alter=alter))["saturation"]["condition"]
    assert two == f"fails for n_k = 64; where it holds, {alone.partition(';')[0]}"
    three = judged(table(n_k=[16, 64, 256], alter=alter))["saturation"]["condition"]
    assert re.fullmatch(
        r"fails for n_k = 64; holds for n_k = 16: from d_k ≈ [^;]+ on; "
        r"holds for n_k = 256: from d_k ≈ [^;]+ on",
        three,
    )


def test_the_chapters_statements_are_told_from_ours() -> None:
    # Those beyond the chapter are in no run of it.
    chapter = [one for one in statements.claims() if not EXPERIMENTS[one.experiment].research]
    ours = {claim.claim for claim in chapter if claim.source == "ours"}
    assert ours == {
        "gradients_rms",
        "gradients_related",
        "inverse",
        "half_precision",
        "agreement",
        "training_twin",
        "vanishing",
        "trained_sigma",
        "model_needs_scale",
    }
    assert claims_claim.COLUMNS[-1].name == "source"


def test_64_is_a_size_at_which_scaling_matters_and_no_threshold() -> None:
    found = judged(table())["from_64"]
    assert found["verdict"] == "true"
    assert "(often 64 or more)" in found["sentence"]
    assert "There is no threshold at 64: half is gone at" in found["answer"]
    assert judged(table(d_k=[1, 4, 16]))["from_64"]["verdict"] == "not measured"


def test_most_entries_near_zero_are_partly_counted() -> None:
    answer = judged(table(n_k=[256]))["gradients_typical"]["answer"]
    # 254 of 256.
    assert "99.2 % of its entries are zero" in answer
    assert "As a whole, the median row is smaller" in answer


def test_weights_that_miss_a_sum_of_1_are_no_average() -> None:
    assert related()["average"]["verdict"] == "true"
    found = related(lambda row: 1e-9 if row["metric"] == "weight_sum_error" else None)["average"]
    assert found["verdict"] == "false"
    found = related(lambda row: 1e-9 if row["metric"] == "output_excess" else None)["average"]
    assert found["verdict"] == "false"


def by_cosine(
    heard: Callable[[int], float] = lambda d: 0.9,
    weight: float = 0.02,
    d_k: Iterable[int] = (16, 64, 256, 1024),
    half: float = 0.01,
    cosines_: tuple[float, ...] = (0.0, 0.125, 0.25, 0.375, 0.5),
) -> dict[str, Any]:
    """The claim about tangentially related keys; `weight` and `heard` of cosine 0.25."""
    rows = []
    for d, arm, cosine in itertools.product(d_k, ("off", "on"), cosines_):
        at = {"d_k": d, "n_k": 256, "n_q": 8, "inputs": "graded", "dtype": "float64"}
        of_cosine = {0.0: 0.003, 0.25: weight, 0.5: 0.15}.get(cosine, 0.05)
        share = heard(d) if cosine == 0.25 and arm == "on" else 0.1
        for metric, mean, error in (("heard", share, half), ("weight", of_cosine, half / 10)):
            ends = {"n_seeds": 20, "mean": mean, "ci_low": mean - error, "ci_high": mean + error}
            rows.append(at | {"scaling": arm, "cosine": cosine, "metric": metric} | ends)
    frame = pd.DataFrame(rows, columns=[column.name for column in cosines.COLUMNS])
    rules = {name: RULES[name] for name in ("off", "on")}
    run = config_run.Run("mine", 50, {"related": {"scaling": rules, "inputs": LAWS}})
    ledger = judge.claims_table(run, {("related", "cosines"): frame})
    return {row["claim"]: row for row in ledger}["graded"]


@pytest.mark.parametrize(
    ("grid", "verdict", "condition"),
    [
        ({}, "true with a condition", "tried at n_k = 256 only"),
        ({"heard": lambda d: 0.3}, "false", ""),
        # Less than unrelated keys, or more than the match: no small contribution.
        ({"weight": 0.0002}, "false", ""),
        ({"weight": 0.2}, "false", ""),
        ({"half": 0.5}, "not measured", "too wide"),
        (
            {"heard": lambda d: 0.9 if d < 1024 else 0.1},
            "true with a condition",
            "up to d_k ≈ 633 (256 to 1024)",
        ),
        ({"d_k": (16, 64)}, "true with a condition", "tried up to d_k = 64 only"),
        ({"d_k": (16, 32)}, "not measured", "the run has no d_k of 64 or more"),
        ({"cosines_": (0.0, 0.5)}, "not measured", "no input law of the run"),
    ],
)
def test_a_tangentially_related_key_is_heard_a_little_or_it_is_not_true(
    grid: dict[str, Any], verdict: str, condition: str
) -> None:
    row = by_cosine(**grid)
    assert row["verdict"] == verdict
    assert condition in row["condition"]


def with_z(z: Iterable[float], seeds: int = 20) -> pd.DataFrame:
    frame = table(seeds=seeds)
    # Apart by more than `agreement.SAME_Z`, because equal ones of one draw would count once.
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
    found = judged(with_z([1.0, -1.0], seeds=agreement.MIN_TESTED_SEEDS - 1))["agreement"]
    assert found["verdict"] == "not measured"
    assert "at least 20 seeds" in found["condition"]


def test_agreement_gives_the_number_that_decided_and_says_what_is_left_out() -> None:
    found = judged(with_z([1.0] * 100 + [9.0], seeds=1000))["agreement"]
    assert (found["quantity"], found["value"]) == ("largest |z|", pytest.approx(9.0, rel=0.02))
    found = judged(with_z([2.0, -2.0], seeds=1000))["agreement"]
    assert found["quantity"] == "root mean square of z"
    assert found["value"] == pytest.approx(2.0, rel=0.01)
    for word in ("float64", "cannot detect", "without an exact value"):
        assert word in found["rule"]


def shares(off: Callable[[int], float], on: Callable[[int], float], **grid: Any) -> dict[str, Any]:
    """Judge the claim about gradients of related vectors, from the share of queries without one."""

    def alter(row: dict[str, Any]) -> float | None:
        arms = {"off": off, "on": on}
        dead = row["metric"] == "grad_q_dead_rows" and row["scaling"] in arms
        return arms[row["scaling"]](row["d_k"]) if dead else None

    return related(alter, ("off", "on"), ("planted",), **grid)["gradients_related"]


@pytest.mark.parametrize(
    ("off", "on", "verdict"),
    [
        (lambda d: d / (d + 60), lambda d: d / (d + 500), "true"),
        # Not up to the end of the grid with scaling, or with both: larger d_k may differ.
        (lambda d: d / (d + 60), lambda d: 0.1, "not measured"),
        (lambda d: 0.1, lambda d: 0.1, "not measured"),
        # No later with scaling; with both from the smallest d_k on.
        (lambda d: d / (d + 60), lambda d: d / (d + 60), "false"),
        (lambda d: 0.8, lambda d: 0.9, "not measured"),
    ],
)
def test_a_match_saturates_both_arms_and_scaling_moves_where(
    off: Callable[[int], float], on: Callable[[int], float], verdict: str
) -> None:
    assert shares(off, on)["verdict"] == verdict


def test_a_grid_that_ends_before_a_gradient_vanishes_leaves_that_input_law_open() -> None:
    def alter(row: dict[str, Any]) -> float | None:
        if row["metric"] != "grad_q_dead_rows" or row["scaling"] not in ("off", "on"):
            return None
        middle = {"off": 60, "on": 3250 if row["inputs"] == "graded" else 500}[row["scaling"]]
        return row["d_k"] / (row["d_k"] + middle)

    def condition(largest: int) -> str:
        sizes = (16, 64, 256, 1024, largest)
        found = related(alter, ("off", "on"), ("planted", "graded"), n_k=(16, 256), d_k=sizes)
        assert found["gradients_related"]["verdict"].startswith("true")
        return str(found["gradients_related"]["condition"])

    assert condition(8192) == ""
    short = condition(2048)
    assert "fails" not in short
    assert (
        "not measured for (n_k = 16, inputs = graded) and (n_k = 256, inputs = graded): " in short
    )
    assert "not up to d_k = 2048" in short


def test_where_both_arms_saturate_is_said() -> None:
    found = shares(lambda d: d / (d + 60), lambda d: d / (d + 500))
    assert "A match saturates the softmax without and with √d_k." in found["answer"]
    off, on = (float(x) for x in re.findall(r"from d_k ≈ ([\d.]+)", found["answer"]))
    # Linear in ln d_k between 16 and 64, and between 256 and 1024.
    assert off == pytest.approx(60, rel=0.05)
    assert on == pytest.approx(500, rel=0.05)


def test_no_single_seed_carries_the_gradients_of_related_vectors() -> None:
    runs = [0.2] * 19 + [1.0]
    numbers = intervals.statistics(np.array(runs))
    assert numbers["ci_high"] < 0.5
    found = shares(lambda d: 0.9, lambda d: numbers["mean"])
    assert found["verdict"] == "not measured"
    assert "24.00 % (23.95 to 24.05) with it" in found["condition"]
    # A seed whose gradient is 1e128 times as large changes a mean of norms, and not a share.
    assert "grad_q_rms" not in found["quantity"]


def test_a_late_saturation_is_a_condition_as_its_rule_says() -> None:
    row = judged(table(alter=change("entropy_normalized", lambda d: 200 / (200 + d))))["saturation"]
    assert row["verdict"] == "true with a condition"
    assert "a condition if this starts only above d_k = 64." in row["rule"]


def test_a_range_across_the_line_leaves_stability_open() -> None:
    # From 1 to 0.92 the entropy moves by 8 %; with intervals of 4 % up to 15 %.
    alter = change("entropy_nats", lambda d: 0.92 if d == 1024 else 1.0, arm="on")
    narrow, wide = (judged(table(alter=alter, error=error))["stable"] for error in (0.002, 0.04))
    assert narrow["verdict"] == "true with a condition"
    assert narrow["ci_low"] < narrow["value"] < narrow["ci_high"]
    assert wide["verdict"] == "not measured"
    assert "more seeds" in wide["condition"]


@pytest.mark.parametrize(("left", "verdict"), [(0.45, "true"), (0.55, "false")])
def test_the_effect_at_64_is_certain_only_with_its_whole_interval(
    left: float, verdict: str
) -> None:
    def flat(error: float) -> dict[str, Any]:
        alter = change("entropy_normalized", lambda d: left)
        alike = change("entropy_normalized", lambda d: 1.0, arm="on")
        both = table(alter=lambda row: alter(row) or alike(row), error=error)
        return judged(both)["from_64"]

    assert flat(0.01)["verdict"] == verdict
    assert flat(0.3)["verdict"] == "not measured"
    assert "more seeds" in flat(0.3)["condition"]


def test_an_effect_that_is_not_at_every_size_from_64_on_is_not_said_to_be() -> None:
    alter = change("entropy_normalized", lambda d: 0.1 if d < 1024 else 0.9)
    assert judged(table(alter=alter))["from_64"]["verdict"] == "false"


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
    one = config_run.Run("mine", 50, {"precision": {"scaling": RULES, "inputs": LAWS}})
    ledger = judge.claims_table(one, {("precision", "summary"): pd.DataFrame(rows)})
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
        "for kernels that store the product in half precision; kernels that keep it in float32 "
        "never overflow; float16 scores overflow at input_sd = 16 from d_k = 1024 on; "
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
