"""Write the tables of docs/models.md from a run of the experiment `tensors` on all models.

    python -m campaigns.models results/models

docs/models.md has the commands that make the run. `docs/models.csv` keeps the numbers.
"""

import argparse
import itertools
from pathlib import Path, PurePath

import pandas as pd
from scipy.stats import binom

import sqrtdk as sq
from sqrtdk.experiments.tensors import claims, rescaled
from sqrtdk.models.sources import SOURCES
from sqrtdk.stats import intervals
from sqrtdk.stats.decisions import beyond

DOCS = Path(__file__).resolve().parents[1] / "docs"

PROTOTYPE = {
    ("minilm", "on"): (2.02, 0.633, 0.316),
    ("minilm", "off"): (11.45, 0.097, 0.845),
    ("rxnmapper", "on"): (3.34, 0.498, 0.429),
    ("rxnmapper", "off"): (18.9, 0.096, 0.858),
    ("recogniser", "on"): (1.40, 0.891, 0.052),
    ("recogniser", "off"): (5.43, 0.563, 0.282),
    ("gemma", "on"): (2.25, 0.491, 0.460),
    ("gemma", "off"): (36.0, 0.016, 0.972),
    ("gemma", "inverse"): (0.14, 0.997, 0.026),
}
"""σ, entropy over ln n and largest weight of an independent prototype, on other inputs."""

NUMBERS = {
    "logit_std": "σ",
    "entropy_normalized": "entropy / ln n",
    "max_weight": "largest weight",
}


def summarize(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row per model and scale rule: means over all (input, head) pairs, and σ's range."""
    runs = runs.assign(model=[PurePath(path).stem for path in runs["path"]])
    groups = runs.groupby(["model", "scaling"], sort=True)
    found = groups[list(NUMBERS)].mean()
    for name in ("median", "min", "max"):
        found[f"sigma_{name}"] = groups["logit_std"].agg(name)
    shares = groups[["alignment", "saturated_rows", "dead_rows"]].mean()
    sizes = groups["d_k"].first().to_frame().assign(pairs=groups.size())
    return sizes.join(found).join(shares).reset_index()


def heads_table(table: pd.DataFrame) -> list[str]:
    """Return the lines of the table of σ, entropy and largest weight, the prototype in brackets."""
    lines = [
        "| model | d_k | pairs | scaling | σ mean | σ median (range) | entropy / ln n | "
        "largest weight | alignment | saturated | dead |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    order = {name: place for place, name in enumerate(SOURCES)}
    rules = {name: place for place, name in enumerate(("on", "off", "inverse"))}
    rows = sorted(
        table.to_dict("records"), key=lambda row: (order[row["model"]], rules[row["scaling"]])
    )
    for row in rows:
        known = PROTOTYPE.get((row["model"], row["scaling"]), (None,) * len(NUMBERS))
        sigma, entropy, weight = (
            f"{row[name]:#.3g}" + ("" if other is None else f" ({other:g})")
            for name, other in zip(NUMBERS, known, strict=True)
        )
        span = f"{row['sigma_median']:.3g} ({row['sigma_min']:.2g} to {row['sigma_max']:.3g})"
        cells = [
            row["model"], row["d_k"], row["pairs"], row["scaling"], sigma, span, entropy, weight,
            f"{row['alignment']:.2f}", f"{100 * row['saturated_rows']:.1f} %",
            f"{100 * row['dead_rows']:.1f} %",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def rescaled_table() -> list[str]:
    """Return the lines of the table of what models compute at multiples of their own scale."""
    table = pd.DataFrame(rescaled.measured())
    lines = ["| model | task | times its own scale: value |", "|---|---|---|"]
    for model, found in table.groupby("model", sort=False):
        first = found.iloc[0]
        digits = "{:.2f}" if first["kind"] == "loss" else "{:.0f}"
        values = ", ".join(
            f"{_factor(row['factor'], row['d_k'])}: {digits.format(row['value'])}"
            for row in found.to_dict("records")
        )
        of = f"{first['task']}, {'mean over' if first['kind'] == 'loss' else 'of'} "
        lines.append(f"| {model} | {of}{first['things']} | {values} |")
    return lines


def _factor(factor: float, d_k: int) -> str:
    for name, value in (("1/√d_k (1/d_k)", d_k**-0.5), ("√d_k (none)", d_k**0.5)):
        if abs(factor - value) < 1e-9 * value:
            return name
    return f"**{factor:g}**" if factor == 1 else f"{factor:g}"


def rates_table() -> list[str]:
    """Return the lines of the table of how often a claim about a share is decided, in percent."""
    shares = {"trained_sigma": (0.5, 0.8, 0.9, 0.97, 1.0), "model_needs_scale": (0, 0.03, 0.1, 0.3)}
    cases = {
        "trained_sigma": (claims.MOST, (16, 72, 96)),
        "model_needs_scale": (claims.LOST["share"], (19, 70, 148)),
    }
    lines = ["| claim | heads or things | share in truth | true (%) | false (%) |"]
    lines.append("|---|---|---|---|---|")
    for claim, (level, counts) in cases.items():
        for count, share in itertools.product(counts, shares[claim]):
            decided = {True: 0.0, False: 0.0, None: 0.0}
            for events in range(count + 1):
                held = beyond(intervals.exact_share(events, count), level, above=True)
                decided[held] += float(binom.pmf(events, count, share))
            rates = f"{100 * decided[True]:.1f} | {100 * decided[False]:.1f}"
            lines.append(f"| {claim} | {count} | {share:g} | {rates} |")
    return lines


def page(text: str, table: pd.DataFrame) -> str:
    """Return the page with its tables written anew, each between its pair of markers."""
    blocks = {"heads": heads_table(table), "rescaled": rescaled_table(), "rates": rates_table()}
    for name, lines in blocks.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, _, rest = text.partition(start)
        _, _, tail = rest.partition(end)
        text = head + start + "\n".join(lines) + "\n" + end + tail
    return text


def main() -> None:
    """Write docs/models.csv and the tables of docs/models.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    run = sq.load_run(parser.parse_args().run)
    table = summarize(run.tables["tensors/runs"])
    table.to_csv(DOCS / "models.csv", index=False, lineterminator="\n")
    path = DOCS / "models.md"
    path.write_text(page(path.read_text(encoding="utf-8"), table), encoding="utf-8")


if __name__ == "__main__":
    main()
