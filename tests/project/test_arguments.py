"""Every argument of every public function answers a wrong value with one line that names it."""

import inspect
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sqrtdk as sq
from sqrtdk.core import input_laws, scale_rules
from sqrtdk.core.checks import parameters_of

RAGGED = [[1.0], [1.0, 2.0]]
HUGE = 10**400
NO_NUMBER = (None, "4", b"4", True, [1.0], RAGGED, {}, 1j, np.ones(2), math.nan, math.inf)
WRONG: dict[str, tuple[Any, ...]] = {
    "array": (None, "x", True, 3, RAGGED, {}, np.ones((2, 2), np.int8), 1j),
    "mask": ("x", 3, RAGGED, np.ones((3, 3))),
    "whole": (*NO_NUMBER, 4.5, 4.0, -1, HUGE, -HUGE),
    "number": (*NO_NUMBER, HUGE, -HUGE, Fraction(HUGE, 3)),
    "name": (None, "zz", 5, True, ["logits"], np.ones(2), RAGGED),
    "flag": (None, "no", 0, 1.0, np.ones(2)),
    "entry": (None, "power", [], 5, {}, {"rule": "zz"}, {"law": "zz"}),
    "path": (None, 5, True, ["x"], b"x"),
    "stages": (None, "four", 4, (1, 2, 3, 4), np.ones((4, 2, 2))),
    "rules": (None, 0.5, "x", b"x", ["x"], [None], [HUGE]),
}
"""Values that an argument of a kind must not take."""

Q, K, V, G = np.random.default_rng(0).standard_normal((4, 3, 4))
SIZES: dict[str, Any] = {"d_k": 4, "n_k": 4, "n_q": 4, "d_v": 4, "seed": 0, "dtype": "float64"}
CELL = {name: array[np.newaxis] for name, array in zip("qkvg", (Q, K, V, G), strict=True)}
FORWARD = sq.attention(Q, K, V, scale=0.5)
GIVEN: dict[str, dict[str, tuple[Any, str]]] = {
    "attention": {
        "q": (Q, "array"), "k": (K, "array"), "v": (V, "array"),
        "scale": (0.5, "number"), "mask": (None, "mask"),
    },
    "scores": {"q": (Q, "array"), "k": (K, "array")},
    "softmax": {"logits": (Q, "array"), "mask": (None, "mask"), "sink": (0.0, "number")},
    "causal_mask": {"n_q": (3, "whole"), "n_k": (3, "whole")},
    "gradients": {
        "q": (Q, "array"), "k": (K, "array"), "v": (V, "array"), "d_output": (G, "array"),
        "forward": (FORWARD, "stages"), "scale": (0.5, "number"),
    },
    "row_metrics": {"logits": (Q, "array"), "mask": (None, "mask")},
    "logit_std": {"logits": (Q, "array"), "mask": (None, "mask")},
    "row_norms": {"x": (Q, "array")},
    "summarize_norms": {"norms": (abs(Q), "array"), "dead_below": (0.1, "number")},
    "Kernel": {"gram": (True, "flag")},
    "Kernel.measure": {
        **{name: (array, "array") for name, array in CELL.items()},
        "rules": ([0.5], "rules"), "mask": (None, "mask"), "dead_below": (0.1, "number"),
    },
    "measure": {
        "q": (Q, "array"), "k": (K, "array"), "v": (V, "array"), "scale": (0.5, "number"),
        "is_causal": (False, "flag"), "attn_mask": (None, "mask"), "window": (2, "whole"),
        "sink": (0.0, "number"), "softcap": (1.0, "number"), "enable_gqa": (True, "flag"),
        "layout": ("bhnd", "name"), "min_keys": (2, "whole"),
    },
    "Factor": {"value": (0.5, "number")},
    "scale_rule": {
        "entry": ({"rule": "integer_sqrt"}, "entry"), "d_k": (4, "number"), "n_k": (4, "whole"),
    },
    "draw_inputs": {
        "entry": ({"law": "gaussian"}, "entry"),
        **{name: (value, "whole") for name, value in SIZES.items() if name != "dtype"},
        "dtype": ("float64", "name"),
    },
    "expectations": {"n_k": (4, "whole"), "d_k": (4, "number"), "scale": (0.5, "number")},
    "half_entropy_d_k": {"n_k": (4, "whole")},
    "gradient_crossing_d_k": {"n_k": (4, "whole"), "gradient": ("logits", "name")},
    "load_run": {"folder": ("x", "path")},
    "read_table": {"path": ("x", "path")},
}  # fmt: skip
"""A right value of each argument, and the argument's kind."""

TAKEN: dict[tuple[str, str], tuple[Any, ...]] = {
    ("measure", "scale"): (None, {}),
    ("measure", "sink"): (None, [1.0], HUGE, -HUGE),
    ("measure", "softcap"): (None,),
    ("measure", "window"): (None, HUGE),
    ("measure", "v"): (None,),
    ("measure", "attn_mask"): (np.ones((3, 3)),),
    ("softmax", "sink"): (None,),
}
"""Values that an argument takes although others of its kind do not."""

ARGUMENTS = [(name, argument) for name, given in GIVEN.items() for argument in given]


def function(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(sq, name.partition(".")[0])
    return found().measure if name == "Kernel.measure" else found


def test_every_argument_of_every_public_function_is_tried() -> None:
    assert set(GIVEN) == {*sq.__all__, "Kernel.measure"} - {"__version__", "ScaleRule", "UserError"}
    for name, given in GIVEN.items():
        assert list(inspect.signature(function(name)).parameters) == list(given), name


def refuse(call: Callable[[], Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    message = str(caught.value)
    assert re.search(said, message), message
    assert re.search("allowed: |must |broadcast|differ in", message), message
    assert len(message.splitlines()) == 1
    assert len(message) < 300


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_a_wrong_value_is_refused_in_one_line_that_names_the_argument(
    name: str, argument: str
) -> None:
    usual = {word: value for word, (value, _) in GIVEN[name].items()}
    kind = GIVEN[name][argument][1]
    said = {"entry": "entry|rule|law", "rules": "rules|scale", "mask": "mask"}.get(kind, argument)
    said = "scale" if name == "Factor" else said
    taken = [repr(value) for value in TAKEN.get((name, argument), ())]
    for value in WRONG[kind]:
        if repr(value) not in taken:
            refuse(lambda value=value: function(name)(**usual | {argument: value}), said)


FORMULAS = [
    *(("rule", name, formula) for name, formula in scale_rules.RULES.items()),
    *(("law", name, formula) for name, formula in input_laws.FORMULAS.items()),
]
RIGHT: dict[str, Any] = {
    "cap": 2.0, "trained": 4.0, "heads": 4, "df": 5, "steps": 1, "arrays": "q",
}  # fmt: skip


def right(formula: Callable[..., Any]) -> dict[str, Any]:
    return {parameter: RIGHT.get(parameter, 0.5) for parameter in parameters_of(formula)}


@pytest.mark.parametrize(("word", "name", "formula"), FORMULAS)
def test_a_wrong_parameter_of_a_formula_is_refused_in_one_line(
    word: str, name: str, formula: Callable[..., Any]
) -> None:
    def make(**parameters: Any) -> Any:
        entry = {word: name} | right(formula) | parameters
        if word == "rule":
            return sq.scale_rule(entry, d_k=4, n_k=4)
        return sq.draw_inputs(entry, **SIZES)

    make()
    refuse(lambda: make(zz=1), f"^the parameter of {name} is 'zz'; allowed: ")
    for parameter in right(formula):
        for value in WRONG["name" if parameter == "arrays" else "number"]:
            if not (parameter == "cap" and value is None):
                refuse(lambda p=parameter, v=value: make(**{p: v}), f"^{parameter} is ")


def test_a_misspelt_name_is_answered_with_the_nearest_one() -> None:
    power = {"rule": "power"}
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: sq.scale_rule({"rule": "powr"}, d_k=4, n_k=4), "power"),
        (lambda: sq.scale_rule(power | {"exponnt": "1"}, d_k=4, n_k=4), "exponent"),
        (lambda: sq.draw_inputs({"law": "gausian"}, **SIZES), "gaussian"),
        (lambda: sq.draw_inputs({"law": "gaussian"}, **SIZES | {"dtype": "float46"}), "float64"),
        (lambda: function("gradient_crossing_d_k")(16, "score"), "scores"),
        (lambda: sq.measure(Q, K, layout="bhn"), "bhnd"),
    ]
    for call, near in calls:
        with pytest.raises(ValueError, match=rf"; did you mean {near}\?$"):
            call()
    with pytest.raises(ValueError, match=r"^power needs exponent$"):
        sq.scale_rule(power, d_k=4, n_k=4)


@pytest.mark.parametrize("size", ["d_k", "n_k", "n_q", "d_v"])
def test_nothing_is_drawn_of_size_0(size: str) -> None:
    refuse(
        lambda: sq.draw_inputs({"law": "gaussian"}, **SIZES | {size: 0}),
        f"^{size} is 0; allowed: whole numbers from 1 ",
    )


def test_a_scale_beyond_all_numbers_is_refused_and_a_large_one_is_not() -> None:
    entry = {"rule": "power", "exponent": -1e300}
    refuse(lambda: sq.scale_rule(entry, d_k=4, n_k=4), "^power is beyond all numbers; allowed: ")
    # The square of this scale is infinite.
    assert function("Kernel.measure")(**CELL, rules=[1e300])[0].scale == 1e300
    assert len(sq.measure(Q, K, scale=1e300)) == 1


def test_negative_norms_are_refused() -> None:
    refuse(lambda: sq.summarize_norms(np.array([1.0, -2.0])), r"^norms has -2\.0; allowed: ")


@pytest.mark.parametrize("name", scale_rules.RULES)
def test_gradients_at_another_scale_than_the_forward_step_are_refused(name: str) -> None:
    rule = sq.scale_rule({"rule": name} | right(scale_rules.RULES[name]), d_k=4, n_k=3)
    for dtype in (np.float64, np.float32, np.float16):
        # Logits in float32 differ from those in float64 by rounding alone, which is no mistake.
        q, k, v = (array.astype(dtype) for array in (Q, K, V))
        forward = sq.attention(q, k, v, scale=rule, mask=sq.causal_mask(3, 3))
        sq.gradients(q.astype(float), k.astype(float), v, G, forward, scale=rule)
        refuse(
            lambda forward=forward: sq.gradients(Q, K, V, G, forward, scale=7.0),
            r"^forward\.logits has \S+ where Factor\(value=7\.0\) gives ",
        )
