"""Series: the summary table at one combination of sizes, input law and dtype, over d_k.

A scale rule of a series is recognized by what it does, not by its name. Nothing here judges a
number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict, cast

import pandas as pd

from sqrtdk.core.input_laws import law_of
from sqrtdk.schema import Entries, Entry, Settings, Value
from sqrtdk.stats.curves import Curve, ratio
from sqrtdk.stats.intervals import Estimate, MissingError

RuleKind = Literal["unscaled", "scaled", "inverse", "inverse_64"]
"""The effect of a scale rule, independent of its name; see `_KINDS`."""


class SeriesAxes(TypedDict):
    """The axes of a series, which is a curve over d_k."""

    n_k: int
    n_q: int
    inputs: str
    dtype: str


@dataclass(frozen=True)
class Series:
    """All measurements at one (n_k, n_q, inputs, dtype), over d_k and scale rules."""

    label: str
    axes: SeriesAxes
    unrelated: bool
    rules: Mapping[str, str | None]
    curves: Mapping[tuple[str, str], Curve]
    contrasts: Mapping[tuple[str, str, str], Curve] = field(default_factory=dict)
    """Paired ratios by metric and the names of the rules over and under the line."""
    exact: bool = False
    """Whether `theory.expectations`, and so `theory.thresholds`, hold for its input law."""

    @property
    def n_k(self) -> int:
        """Return the number of keys."""
        return int(self.axes["n_k"])

    def curve(self, kind: RuleKind, metric: str) -> Curve:
        """Return one metric of one scale rule against d_k. Raises MissingError."""
        name = self.rules[kind]
        if name is None:
            raise MissingError(f"the run has no scale rule {_KINDS[kind].words}")
        if self.n_k == 1:
            raise MissingError("a single key always has weight 1")
        if (name, metric) not in self.curves:
            raise MissingError(f"the table has no {metric}")
        return self.curves[name, metric]

    def ratio(self, metric: str) -> Curve:
        """Return unscaled over scaled, with paired intervals.

        If contrasts.csv has no such ratio, as for a metric that is 0, the interval's ends are from
        both separate intervals and wider than 95 %. Raises MissingError.
        """
        found = ratio(self.curve("unscaled", metric), self.curve("scaled", metric))
        rules = str(self.rules["unscaled"]), str(self.rules["scaled"])
        paired = self.contrasts.get((metric, *rules), {})
        found = {d_k: paired.get(d_k, point) for d_k, point in found.items()}
        if not found:
            raise MissingError(f"{metric} is zero with scaling")
        return found


class _Kind(NamedTuple):
    exponent: float
    name: str
    words: str
    multiplier: float = 1.0


# A rule is recognized by what it does, because a run may give it any name.
_KINDS = {
    "unscaled": _Kind(0.0, "off", "that leaves the scores as they are"),
    "scaled": _Kind(0.5, "on", "that divides by √d_k"),
    "inverse": _Kind(1.0, "inverse", "that divides by d_k"),
    "inverse_64": _Kind(1.0, "inverse_64", "that multiplies by 8/d_k", 8.0),
}


class WholeTable(NamedTuple):
    """All rows of one experiment's summary, for a claim that is not about curves over d_k."""

    table: pd.DataFrame
    label: str = ""
    unrelated: bool = True
    settings: Settings = Settings()
    """The experiment's settings, for values that are in no column of the table."""


def series_of(
    settings: Settings, table: pd.DataFrame, contrasts: pd.DataFrame | None = None
) -> list[Series]:
    """Return the series of an experiment's summary, in the order of the table's axes.

    `contrasts` is its contrasts.csv, the source of the paired intervals of ratios.
    """
    rules = {kind: _rule_name(settings["scaling"], wanted) for kind, wanted in _KINDS.items()}
    axes = ["n_k", "n_q", "inputs", "dtype"]
    varying = [axis for axis in axes if axis == "n_k" or len(table[axis].unique()) > 1]
    paired: dict[tuple[Any, ...], dict[tuple[str, str, str], Curve]] = {}
    for row in [] if contrasts is None else contrasts.to_dict("records"):
        there = paired.setdefault(tuple(row[axis] for axis in axes), {})
        curve = there.setdefault((row["metric"], row["over"], row["under"]), {})
        curve[row["d_k"]] = Estimate(row["ratio"], row["ci_low"], row["ci_high"])
    result = []
    for values, frame in table.groupby(axes, sort=True):
        names = dict(zip(axes, values, strict=True))
        at = cast(SeriesAxes, names)
        curves: dict[tuple[str, str], Curve] = {}
        for row in frame.sort_values("d_k").to_dict("records"):
            curve = curves.setdefault((row["scaling"], row["metric"]), {})
            curve[row["d_k"]] = Estimate(*(row[x] for x in ("mean", "ci_low", "ci_high", "exact")))
        law = law_of(settings["inputs"].get(at["inputs"], {}))
        unrelated = law is not None and law.unrelated
        named = [axis for axis in axes if axis in varying or (axis == "inputs" and not unrelated)]
        label = ", ".join(f"{axis} = {names[axis]}" for axis in named)
        exact = law is not None and law.exact
        ratios = paired.get(tuple(values), {})
        result.append(Series(label, at, unrelated, rules, curves, ratios, exact))
    return result


def scaled_rule(rules: Entries) -> str | None:
    """Return the name of the scale rule that divides by √d_k, or None without one."""
    return _rule_name(rules, _KINDS["scaled"])


def unscaled_rule(rules: Entries) -> str | None:
    """Return the name of the scale rule that leaves the scores unchanged, or None without one."""
    return _rule_name(rules, _KINDS["unscaled"])


def inverse_rule(rules: Entries) -> str | None:
    """Return the name of the scale rule that divides by d_k, or None without one."""
    return _rule_name(rules, _KINDS["inverse"])


def _number(value: Value | None) -> float:
    """Return a parameter that is always a number, as a checked configuration has it."""
    return float(cast(float, value))


def _rule_name(rules: Entries, wanted: _Kind) -> str | None:
    """Return the name of the scale rule that is the factor multiplier * d_k^-exponent."""

    def power(rule: Entry) -> tuple[float, float] | None:
        if rule["rule"] == "power":
            return _number(rule.get("multiplier", 1.0)), _number(rule["exponent"])
        return (_number(rule["value"]), 0.0) if rule["rule"] == "constant" else None

    expected = (wanted.multiplier, wanted.exponent)
    found = [name for name, rule in rules.items() if power(rule) == expected]
    return wanted.name if wanted.name in found else next(iter(found), None)
