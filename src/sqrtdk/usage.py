"""The text of `python -m sqrtdk.run --help`, generated from the schema and conf/."""

import textwrap

import yaml

from sqrtdk import config
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.keys import Key


def text() -> str:
    """Every key with its meaning, unit, allowed values and default."""
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
    for name, module in EXPERIMENTS.items():
        defaults = {grid: _block(grid, name) for grid in ("cell", "default")}
        lines += ["", f"Experiment {name}: {(module.__doc__ or '').strip().splitlines()[0]}", ""]
        for key in module.KEYS:
            lines += _entry(key, [f"{g}: {_default(d, key)}" for g, d in defaults.items()])
            if key.name == "seed":
                lines += _paragraph("seeds", "Short for a list: seeds=20 means seed 0 to 19.", "")
    lines += ["", "The whole run", ""]
    for word, meaning in config.RUN_KEYS.items():
        extra = " or ".join(config.grids()) if word == "grid" else ""
        lines += _paragraph(word, meaning, extra)
    lines += _paragraph("out", "By hand only: CSV file to write the rows to.", "")
    lines += ["", "Options: --multirun, --cfg job (show the configuration), --hydra-help."]
    return "\n".join(lines)


def _block(grid: str, experiment: str) -> dict[str, object]:
    """An experiment's values in one grid: its own file, and the grid's on top."""
    block: dict[str, object] = {}
    for name in (f"experiment/{experiment}", f"grid/{grid}"):
        path = config.CONF / f"{name}.yaml"
        block |= (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get(experiment, {})
    return block


def _default(block: dict[str, object], key: Key) -> object:
    seeds = f"0 to {int(str(block['seeds'])) - 1}" if "seeds" in block else None
    return block.get(key.name, seeds if key.name == "seed" else None)


def _entry(key: Key, defaults: list[str]) -> list[str]:
    unit = f" Unit: {key.unit}." if key.unit else ""
    different = sorted({default.split(": ", 1)[1] for default in defaults})
    shown = different[0] if len(different) == 1 else "; ".join(defaults)
    return _paragraph(key.name, f"{key.meaning}{unit}", f"{key.allowed} (default {shown})")


def _paragraph(word: str, meaning: str, allowed: str) -> list[str]:
    body = textwrap.wrap(meaning, 74) + textwrap.wrap(allowed, 74)
    return [f"  {word:14}{body[0]}", *(" " * 16 + line for line in body[1:])]
