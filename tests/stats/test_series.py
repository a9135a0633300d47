"""Series: how rows are grouped, and how scale rules are recognized."""

import pandas as pd
import pytest
from claims.test_ledger import LAWS, RULES, table

from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import scaled_rule, series_of

SETTINGS = {"scaling": {name: RULES[name] for name in ("off", "on")}, "inputs": LAWS}


def test_a_series_is_everything_but_d_k_and_the_scale_rule() -> None:
    found = series_of(SETTINGS, table(d_k=(1, 4), inputs=("gaussian", "planted")))
    assert [one.label for one in found] == [
        f"n_k = {n_k}, inputs = {law}" for n_k in (16, 64) for law in ("gaussian", "planted")
    ]
    assert [one.unrelated for one in found] == [True, False] * 2
    assert list(found[0].curve("scaled", "logit_std")) == [1, 4]


def test_an_axis_of_one_value_is_not_in_a_label_unless_the_inputs_are_related() -> None:
    assert [one.label for one in series_of(SETTINGS, table())] == ["n_k = 16", "n_k = 64"]
    (related,) = series_of(SETTINGS, table(n_k=[16], inputs=["planted"]))
    assert related.label == "n_k = 16, inputs = planted"


def test_arms_are_known_by_what_they_do() -> None:
    assert scaled_rule({"paper": RULES["on"], "on": RULES["inverse"]}) == "paper"
    assert scaled_rule({"other": RULES["on"], "on": RULES["on"]}) == "on"
    assert scaled_rule({"off": RULES["off"], "quarter": RULES["quarter"]}) is None
    # 8/d_k divides by d_k too, and is another rule.
    settings = {"scaling": {"big": RULES["inverse_64"]}, "inputs": LAWS}
    (one,) = series_of(settings, table(n_k=[16], arms=["inverse_64"]).replace("inverse_64", "big"))
    assert list(one.curve("inverse_64", "logit_std")) == [1, 4, 16, 64, 256, 1024]
    with pytest.raises(MissingError, match="no scale rule that divides by d_k"):
        one.curve("inverse", "logit_std")


def test_what_a_series_lacks_is_said() -> None:
    (one,) = series_of(SETTINGS, table(n_k=[16]))
    with pytest.raises(MissingError, match="no scale rule that divides by d_k"):
        one.curve("inverse", "logit_std")
    with pytest.raises(MissingError, match="the table has no colour"):
        one.curve("scaled", "colour")
    (single,) = series_of(SETTINGS, table(n_k=[1]))
    with pytest.raises(MissingError, match="a single key always has weight 1"):
        single.curve("scaled", "max_weight")


def test_a_series_is_of_unrelated_vectors_where_its_law_says_so() -> None:
    laws = {
        "mine": {"law": "planted", "cosine": 0.1},
        "sphere": {"law": "sphere", "arrays": "both"},
        "shifted": {"law": "non_centred", "q_mean": 1, "k_mean": 1},
    }
    found = series_of(SETTINGS | {"inputs": laws}, table(n_k=[16], inputs=tuple(laws)))
    assert {one.axes["inputs"]: one.unrelated for one in found} == {
        "mine": False,
        "sphere": True,
        "shifted": False,
    }


def test_a_ratio_has_the_paired_interval_where_there_is_one() -> None:
    frame = table(n_k=[16])
    (alone,) = series_of(SETTINGS, frame)
    row = {"n_k": 16, "n_q": 8, "inputs": "gaussian", "dtype": "float64", "metric": "grad_q_rms"}
    arms = {"over": "off", "under": "on", "n_seeds": 20}
    ends = {"ratio": 2.0, "ci_low": 1.9, "ci_high": 2.1}
    paired = pd.DataFrame([{"d_k": 4} | row | arms | ends])
    (one,) = series_of(SETTINGS, frame, paired)
    assert one.ratio("grad_q_rms")[4][:3] == (2.0, 1.9, 2.1)
    # Elsewhere the ends of both arms' intervals.
    assert one.ratio("grad_q_rms")[16] == alone.ratio("grad_q_rms")[16]
    assert one.ratio("grad_k_rms") == alone.ratio("grad_k_rms")
