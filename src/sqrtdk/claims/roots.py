"""Judge a root over seeds, such as a best exponent, from the columns of `stats.roots`."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqrtdk.claims.findings import Finding
from sqrtdk.stats.decisions import within
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.wording import format_estimate


class Root(NamedTuple):
    """A parameter, in words; the end of its grid, and the margin of a claimed value."""

    what: str
    most: float
    margin: float

    @property
    def rule(self) -> str:
        """Return when a claimed value is true; {power} is the value."""
        return (
            "True if the whole 95 % t-interval of its mean over seeds is within "
            f"{self.margin:g} of {{power}}, false if it is wholly outside, or if no seed has one "
            f"from 0 to {self.most:g}. Not measured if only some seeds have one."
        )

    def judge(self, row: Mapping[Any, Any], claimed: float, keeps: str, where: str = "") -> Finding:
        """Judge whether the root that `keeps` something is the claimed one.

        Raises MissingError if only some seeds have a root.
        """
        seeds = int(row["n_seeds"] + row["n_without"])
        if row["n_seeds"] == 0:
            text = f"no {self.what} from 0 to {self.most:g} {keeps}, in any of {seeds} seeds."
            return Finding(
                False,
                f"no best {self.what} in any of {seeds} seeds",
                _sentence(where + text),
                f"seeds with a best {self.what}",
                Estimate(0.0),
                1.0,
            )
        if row["n_without"] > 0:
            raise MissingError(
                f"{row['n_without']} of {seeds} seeds have no best {self.what} from 0 to "
                f"{self.most:g}"
            )
        best = Estimate(row["mean"], row["ci_low"], row["ci_high"], row["exact"])
        return Finding(
            within(best, claimed - self.margin, claimed + self.margin),
            f"best {self.what} {format_estimate(best)}",
            _sentence(f"{where}the {self.what} that {keeps} is {format_estimate(best)}."),
            f"best {self.what}, where {claimed:g} is claimed",
            best._replace(exact=math.nan),
            abs(self.margin - abs(best.mean - claimed)),
        )


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
