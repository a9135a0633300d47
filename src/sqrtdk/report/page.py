"""What the page shows: read from a run's folder, put into words and compact tables."""

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from sqrtdk import claims, config, estimates, examples, summary
from sqrtdk.estimates import Estimate
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.figures import FIGURES
from sqrtdk.keys import Column
from sqrtdk.report import svg

HERE = Path(__file__).resolve().parent

LEAD = ("saturation", "stable", "gradients_rms", "from_64")
"""The claims whose findings open the page: what the scale does, and where the slogan is wrong."""

HEADLINES = {
    "scaling": (
        "logit_std",
        "entropy_normalized",
        "effective_keys",
        "max_weight",
        "grad_logits_dead_entries",
        "grad_logits_median",
        "grad_q_rms",
    ),
    "related": ("entropy_normalized", "max_weight", "grad_logits_dead_entries", "grad_q_rms"),
}
"""The metrics that the page tabulates; of an experiment without an entry, the first six."""

LARGEST = 1_500_000
"""Bytes of a drawing in the page. A larger one, of a grid with dozens of panels, is a picture."""

ROWS, CELLS = 16, 30
"""Values of d_k, and columns, that a table of the page shows at most; summary.csv has all."""

NBSP = "\u00a0"

SINGLE_DRAWS = {"scaling-weights": "scaling/weights.csv"}
"""Figures of one draw, and the table that says which; all others show means over seeds."""


class Caption(NamedTuple):
    """A figure's words: a title and paragraphs."""

    title: str
    paragraphs: list[str]


class Figure(NamedTuple):
    """A figure of the page. `files` are the links to it by format."""

    stem: str
    caption: Caption
    note: str
    picture: Markup
    files: dict[str, str]


class Cell(NamedTuple):
    """One number of a table: the mean, and beneath it the interval and the exact value."""

    mean: str
    interval: str
    exact: str


class Table(NamedTuple):
    """A metric by d_k (rows) and by series and arm (columns)."""

    name: str
    meaning: str
    unit: str
    series: list[str]
    arms: list[str]
    rows: list[tuple[int, list[Cell | None]]]
    left_out: str


class File(NamedTuple):
    """A file beside the page. `rows` is empty for what is no table."""

    path: str
    rows: str
    size: str


class Schema(NamedTuple):
    """The dictionary of one table or of the configuration."""

    name: str
    note: str
    entries: list[tuple[str, str, str]]


def render(folder: Path) -> str:
    """The whole page of the run in a folder."""
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["prose"] = prose
    return environment.get_template("page.html.j2").render(context(folder))


def context(folder: Path) -> dict[str, Any]:
    """Everything that the template names."""
    yaml_text = (folder / "config.yaml").read_text(encoding="utf-8")
    settings = yaml.safe_load(yaml_text)
    experiments = [name for name in settings["experiments"] if name in EXPERIMENTS]
    summaries = {
        name: read_summary(path)
        for name in experiments
        if (path := folder / name / "summary.csv").is_file()
    }
    ledger = _read_rows(folder / "claims.csv")
    record = folder / "provenance.json"
    provenance = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}
    pictures = figures(folder, experiments, summaries)
    return {
        "css": Markup((HERE / "page.css").read_text(encoding="utf-8")),
        "name": settings["name"],
        "settings": settings,
        "experiments": {name: _first_line(EXPERIMENTS[name].__doc__) for name in experiments},
        "methods": [x for x in experiments if (HERE / f"method-{x}.html.j2").is_file()],
        "facts": {name: facts(settings.get(name, {})) for name in experiments},
        "lead": lead(ledger),
        "tally": tally(ledger),
        "claims": ledger,
        "verdicts": {verdict: verdict.replace(" ", "-") for verdict in claims.VERDICTS},
        "figures": pictures,
        "stems": {figure.stem: figure.caption.title for figure in pictures},
        "tables": {name: pivots(name, table) for name, table in summaries.items()},
        "files": files(folder),
        "dictionary": dictionary(folder, experiments),
        "configuration": yaml_text,
        "provenance": flat(provenance),
        "command": provenance.get("command", ""),
        "code": provenance.get("code", {}),
        "date": provenance.get("time_utc", "")[:10],
        "version": provenance.get("sqrtdk", ""),
    }


def prose(text: str) -> Markup:
    """Text as the page sets it: d_k as an italic d with its index, numbers and units unbroken.

    >>> print(prose("ln n_k < 3"))
    ln <var>n<sub>k</sub></var> &lt; 3
    """
    joined = re.sub(r" (?=[%=≈])|(?<=[=≈]) ", NBSP, text)
    joined = re.sub(r"\(-?[\d.e-]+ to -?[\d.e-]+\)", lambda m: m[0].replace(" ", NBSP), joined)
    letters = r"(?<![\w-])([dn])_([kqv])(?![\w-])"
    return Markup(re.sub(letters, r"<var>\1<sub>\2</sub></var>", str(escape(joined))))


# The run in words


def facts(block: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The axes of an experiment in a few words each."""
    shown = []
    for key, value in block.items():
        values = value if isinstance(value, list) else [value]
        few = ", ".join(map(str, values))
        if len(values) > 6 and all(isinstance(x, int) for x in values):
            few = f"{len(values)} values from {min(values)} to {max(values)}"
        elif len(values) > 6:
            few = f"{len(values)} values"
        shown.append((key, few))
    return shown


def lead(ledger: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The findings that open the page, and the series that their numbers are of."""
    rows = {row["claim"]: row for row in ledger}
    opening = [rows[claim] for claim in LEAD if claim in rows]
    measured = [row for row in opening if row["verdict"] != claims.NOT_MEASURED]
    reasons = dict.fromkeys(
        row["condition"] for row in opening if row["verdict"] == claims.NOT_MEASURED
    )
    series = list(dict.fromkeys(row["series"] for row in measured if row["series"]))
    return {
        # What was found stands before the colon, its numbers after it.
        "sentences": [row["answer"].partition(": ") for row in measured],
        "series": " and ".join(series),
        "reasons": [] if measured else list(reasons),
    }


def tally(ledger: Sequence[Mapping[str, str]]) -> list[tuple[str, int]]:
    """How many claims have each verdict."""
    counts = [(v, sum(row["verdict"] == v for row in ledger)) for v in claims.VERDICTS]
    return [(verdict, count) for verdict, count in counts if count]


# Figures


def figures(
    folder: Path, experiments: Iterable[str], summaries: Mapping[str, pd.DataFrame]
) -> list[Figure]:
    """The run's figures that exist, in the report's order."""
    result = []
    for experiment in experiments:
        for what in FIGURES.get(experiment, ()):
            stem = f"{experiment}-{what}"
            path = folder / "figures" / f"{stem}.svg"
            if not path.is_file():
                continue
            caption = read_caption(HERE / "captions" / f"{stem}.rst", stem)
            note = _note(folder, stem, summaries.get(experiment))
            description = " ".join([*caption.paragraphs, note])
            words = {"title": caption.title, "description": description}
            image = path.with_suffix(".png")
            if path.stat().st_size > LARGEST and image.is_file():
                picture = svg.raster(image.read_bytes(), **words)
            else:
                picture = svg.inline(path.read_text(encoding="utf-8"), prefix=stem, **words)
            beside = {
                ending: f"figures/{stem}.{ending}"
                for ending in ("svg", "png")
                if path.with_suffix(f".{ending}").is_file()
            }
            result.append(Figure(stem, caption, note, picture, beside))
    return result


def read_caption(path: Path, stem: str) -> Caption:
    """A caption file: a title, a line of =, and paragraphs. Without one, the figure's name."""
    if not path.is_file():
        return Caption(stem.replace("-", ": ", 1).replace("_", " "), [])
    title, _, *body = [*path.read_text(encoding="utf-8").splitlines(), ""]
    blocks = re.split(r"\n\s*\n", "\n".join(body).strip())
    paragraphs = [" ".join(block.split()).replace("``", "") for block in blocks]
    return Caption(title.strip().replace("``", ""), [text for text in paragraphs if text])


def _note(folder: Path, stem: str, table: pd.DataFrame | None) -> str:
    """What the band of a figure is, and how many seeds it rests on."""
    single = folder / SINGLE_DRAWS.get(stem, "")
    if single.is_file():
        row = next(iter(_read_rows(single)), {})
        return f"One draw, seed {row['seed']}: not an average." if "seed" in row else ""
    if table is None or "n_seeds" not in table or table.empty:
        return ""
    low, high = int(table["n_seeds"].min()), int(table["n_seeds"].max())
    if high == 1:
        return "One seed: there is no interval."
    seeds = f"{high} seeds" if low == high else f"{low} to {high} seeds"
    return f"Lines are means over {seeds}, bands their 95 % t-intervals with the seed as unit."


# Tables


def read_summary(path: Path) -> pd.DataFrame:
    """A summary as it is on disk, also one of another version: columns that it lacks are empty."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    for column in summary.STATISTICS:
        if column.name not in frame:
            frame[column.name] = ""
        if column.read is not str:
            frame[column.name] = pd.to_numeric(frame[column.name])
    if "d_k" in frame:
        frame["d_k"] = frame["d_k"].astype(int)
    return frame


def pivots(experiment: str, table: pd.DataFrame) -> list[Table]:
    """The headline metrics that the table has, each by d_k, series and scale rule.

    None where an experiment does not sweep these two.
    """
    if not {"d_k", "scaling"} <= set(table.columns):
        return []
    columns = {column.name: column for column in EXPERIMENTS[experiment].COLUMNS}
    present = set(table["metric"])
    names = [
        name
        for name in HEADLINES.get(experiment, [c for c in columns if c in present][:6])
        if name in present
    ]
    return [_pivot(columns[name], table[table["metric"] == name]) for name in names]


def _pivot(column: Column, table: pd.DataFrame) -> Table:
    axes = [name for name in table.columns[: list(table.columns).index("metric")] if name != "d_k"]
    where = [name for name in axes if name != "scaling"]
    varying = [name for name in where if name == "n_k" or len(set(table[name])) > 1]
    groups = list(dict.fromkeys(table[where].itertuples(index=False, name=None)))
    groups.sort(key=lambda group: [(len(x), x) if x.isdigit() else (0, x) for x in group])
    arms = sorted(set(table["scaling"]))
    sizes = sorted(set(table["d_k"]))
    shown_sizes = examples.spread(sizes, ROWS)
    shown_arms = arms[:CELLS]
    kept = examples.spread(list(range(len(groups))), max(1, CELLS // len(shown_arms)))
    shown = [groups[place] for place in kept]
    cells = {
        (row["d_k"], tuple(row[x] for x in where), row["scaling"]): _cell(row)
        for row in table.to_dict("records")
    }
    counts = (
        (len(shown_sizes), len(sizes), "values of d_k"),
        (len(shown), len(groups), "series"),
        (len(shown_arms), len(arms), "scale rules"),
    )
    return Table(
        column.name,
        column.meaning,
        column.unit,
        [_label(dict(zip(where, group, strict=True)), varying) for group in shown],
        shown_arms,
        [
            (size, [cells.get((size, group, arm)) for group in shown for arm in shown_arms])
            for size in shown_sizes
        ],
        ", ".join(f"{some} of {all_} {what}" for some, all_, what in counts if some < all_),
    )


def _label(group: Mapping[str, str], varying: Iterable[str]) -> str:
    return ", ".join(f"{name} = {group[name]}" for name in varying)


def _cell(row: Mapping[Any, Any]) -> Cell:
    value = Estimate(*(float(row[x]) for x in ("mean", "ci_low", "ci_high")))
    mean, _, interval = estimates.estimate(value).partition(" ")
    exact = float(row["exact"])
    return Cell(mean, interval, "" if math.isnan(exact) else f"exact {estimates.number(exact, 4)}")


# Files and words around them


def files(folder: Path) -> list[File]:
    """Every file of the run that a reader may want, with its size; the page is not one."""
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".csv", ".json", ".yaml") and not path.name.startswith(".")
    ]
    return [
        File(path.relative_to(folder).as_posix(), _rows(path), _size(path.stat().st_size))
        for path in found
        if path.relative_to(folder).parts[0] != "logs"
    ]


def _rows(path: Path) -> str:
    if path.suffix != ".csv":
        return ""
    with path.open("rb") as file:
        return str(sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(2**20), b"")) - 1)


def _size(count: int) -> str:
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{estimates.number(count / scale, 2)} {unit}"
    return f"{count} bytes"


def dictionary(folder: Path, experiments: Iterable[str]) -> list[Schema]:
    """What every key and every column means, from the definitions that the code itself uses."""
    result = [
        Schema(
            "config.yaml",
            "Keys of the whole run.",
            [(name, "", meaning) for name, meaning in config.RUN_KEYS.items()],
        )
    ]
    for name in experiments:
        module = EXPERIMENTS[name]
        keys = [(key.name, key.unit, f"{key.meaning} ({key.allowed})") for key in module.KEYS]
        result += [
            Schema(f"config.yaml, {name}", "Keys of the experiment.", keys),
            Schema(f"{name}/runs.csv", "One row per cell.", _columns(module.COLUMNS)),
            Schema(
                f"{name}/summary.csv",
                "One row per combination of axes and metric. The axes of runs.csv without the "
                "seed come first.",
                _columns(summary.STATISTICS),
            ),
        ]
    if (folder / "scaling" / "weights.csv").is_file():
        note = "Weights of a few cells, the first queries and keys."
        result.append(Schema("scaling/weights.csv", note, _columns(examples.COLUMNS)))
    result.append(Schema("claims.csv", "One row per claim.", _columns(claims.COLUMNS)))
    return result


def _columns(columns: Iterable[Column]) -> list[tuple[str, str, str]]:
    return [(column.name, column.unit, column.meaning) for column in columns]


def flat(record: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """A nested record as lines: the path of each value in words, and the value.

    >>> flat({"blas": {"kernel": "Haswell"}, "changed": None})
    [('blas, kernel', 'Haswell'), ('changed', 'unknown')]
    """
    lines = []
    for key, value in record.items():
        name = f"{prefix}{str(key).replace('_', ' ') if '/' not in str(key) else key}"
        if isinstance(value, Mapping):
            lines += flat(value, f"{name}, ")
        else:
            words = {True: "yes", False: "no", None: "unknown"}
            known = value is None or isinstance(value, bool)
            lines.append((name, words[value] if known else str(value)))
    return lines


def _read_rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _first_line(text: str | None) -> str:
    return (text or "").strip().splitlines()[0] if text else ""
