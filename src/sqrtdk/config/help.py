"""Generate the text of `python -m sqrtdk.run --help` from the schema and conf/."""

import textwrap

from sqrtdk.config import compose, keys, overrides
from sqrtdk.config import run as config_run
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Key


def text() -> str:
    """Return the help: every key with its meaning, unit, allowed values and default."""
    lines = [
        "Measure attention with and without the scale 1/√d_k: one row per cell.",
        "",
        "  python -m sqrtdk.run [KEY=VALUE ...]              one cell, or a grid of lists",
        "  python -m sqrtdk.run --multirun KEY=V1,V2 ...     every combination",
        "",
        "  python -m sqrtdk.run d_k=64 seed=3 scaling=off",
        "  python -m sqrtdk.run d_k='[16,64]' seeds=8 out=rows.csv",
        "",
        "The same keys go to the pipeline: snakemake --config d_k='[16,64]' seeds=8",
    ]
    # Experiments that a run leaves out unless asked for have keys as well.
    asked = {one.needs_key: {"FILE": "0" * 64} for one in EXPERIMENTS.values() if one.needs_key}
    composed = {grid: compose.composed([f"grid={grid}"], asked) for grid in ("cell", "default")}
    composed["research"] = compose.composed(["grid=research"], {})
    for name, module in EXPERIMENTS.items():
        own = ("cell", "research" if module.research else "default")
        grids = {grid: composed[grid] for grid in own}
        if any(name not in run.settings for run in grids.values()):
            # Half an experiment, whose folder in conf/experiment/ is still to be written.
            continue
        lines += ["", f"Experiment {name}: {module.title}", ""]
        for key in module.config_keys:
            defaults = [f"{grid}: {_default(run, name, key)}" for grid, run in grids.items()]
            lines += _entry(key, defaults if key.name != module.needs_key else ["all: none"])
            if key.name == "seed":
                lines += _paragraph("seeds", "Short for a list: seeds=20 means seed 0 to 19.", "")
    lines += ["", "The whole run", ""]
    for word, meaning in keys.RUN_KEYS.items():
        extra = " or ".join(overrides.grids()) if word == "grid" else ""
        lines += _paragraph(word, meaning, extra)
    lines += _paragraph("out", "By hand only: CSV file to write the rows to.", "")
    lines += ["", "Options: --multirun, --cfg job (show the configuration), --hydra-help."]
    return "\n".join(lines)


def _default(run: config_run.Run, experiment: str, key: Key) -> str:
    """Return the default value of a key in the form that a user would type."""
    value = dict(run.settings[experiment])[key.name]
    if value is None:
        return "null"
    values = [str(item) for item in value] if isinstance(value, (list, dict)) else [str(value)]
    if key.name == "seed" and len(values) > 1:
        return f"{values[0]} to {values[-1]}"
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"


def _entry(key: Key, defaults: list[str]) -> list[str]:
    unit = f" Unit: {key.unit}." if key.unit else ""
    different = sorted({default.split(": ", 1)[1] for default in defaults})
    shown = different[0] if len(different) == 1 else "; ".join(defaults)
    return _paragraph(key.name, f"{key.meaning}{unit}", f"{key.allowed} (default {shown})")


def _paragraph(word: str, meaning: str, allowed: str) -> list[str]:
    body = textwrap.wrap(meaning, 74) + textwrap.wrap(allowed, 74)
    # A word that fills its column, and one that is wider, still end before the meaning begins.
    return [f"  {word:13} {body[0]}", *(" " * 16 + line for line in body[1:])]
