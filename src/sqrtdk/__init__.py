"""Why attention divides by the square root of d_k, measured.

`import sqrtdk as sq` offers the names in `sq.__all__`, which docs/library.md explains. Each is
imported when it is first used. Everything else in this package is internal and may move.
"""

import importlib
import sys
from typing import TYPE_CHECKING

from sqrtdk.system import threads

if TYPE_CHECKING:
    from sqrtdk.core.attention import Factor, ScaleRule, attention, causal_mask, scores, softmax
    from sqrtdk.core.gradients import gradients
    from sqrtdk.core.input_laws import draw as draw_inputs
    from sqrtdk.core.kernel import Kernel
    from sqrtdk.core.metrics import logit_std, row_metrics, row_norms, summarize_norms
    from sqrtdk.core.scale_rules import rule as scale_rule
    from sqrtdk.loading import load_run, read_table
    from sqrtdk.system.errors import UserError
    from sqrtdk.tensors.measurement import measure
    from sqrtdk.theory.expectations import expectations
    from sqrtdk.theory.thresholds import gradient_crossing_d_k, half_entropy_d_k

__version__ = "0.1.0"

__all__ = [
    "Factor",
    "Kernel",
    "ScaleRule",
    "UserError",
    "__version__",
    "attention",
    "causal_mask",
    "draw_inputs",
    "expectations",
    "gradient_crossing_d_k",
    "gradients",
    "half_entropy_d_k",
    "load_run",
    "logit_std",
    "measure",
    "read_table",
    "row_metrics",
    "row_norms",
    "scale_rule",
    "scores",
    "softmax",
    "summarize_norms",
]

_SOURCES = {
    "Factor": "core.attention.Factor",
    "Kernel": "core.kernel.Kernel",
    "ScaleRule": "core.attention.ScaleRule",
    "UserError": "system.errors.UserError",
    "attention": "core.attention.attention",
    "causal_mask": "core.attention.causal_mask",
    "draw_inputs": "core.input_laws.draw",
    "expectations": "theory.expectations.expectations",
    "gradient_crossing_d_k": "theory.thresholds.gradient_crossing_d_k",
    "gradients": "core.gradients.gradients",
    "half_entropy_d_k": "theory.thresholds.half_entropy_d_k",
    "load_run": "loading.load_run",
    "logit_std": "core.metrics.logit_std",
    "measure": "tensors.measurement.measure",
    "read_table": "loading.read_table",
    "row_metrics": "core.metrics.row_metrics",
    "row_norms": "core.metrics.row_norms",
    "scale_rule": "core.scale_rules.rule",
    "scores": "core.attention.scores",
    "softmax": "core.attention.softmax",
    "summarize_norms": "core.metrics.summarize_norms",
}
"""Module and attribute of each public name, which is imported when it is first used."""

if sys.argv[:1] == ["-m"]:
    # The interpreter imports this package on behalf of `python -m sqrtdk.…`, and will import that
    # module next, with NumPy. This is the only moment at which a job can choose its threads.
    threads.use_one()

# Type checkers would take every name for granted.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _SOURCES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, attribute = _SOURCES[name].rpartition(".")
        found = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
