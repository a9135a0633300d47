"""What trained models compute at multiples of their own scale, as measured once.

Two of the models are large and one comes by hand only, so a run does not measure them again: the
table is `rescaled.csv` of this folder, made of `python -m sqrtdk.models.rescale MODEL TABLE.csv`
for each model (docs/models.md). A run has the rows of the models among its files, and no others: a
file counts as a model if it has its name, such as `minilm.safetensors`, and its d_k.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePath

import pandas as pd

from sqrtdk.experiments.tensors.measure import Settings
from sqrtdk.models import rescale
from sqrtdk.storage import frames
from sqrtdk.storage.tables import Row, TableError

MEASURED = Path(__file__).with_name("rescaled.csv")

SHA256 = "9c94169f9456b593384208f42fbf39c582539367db463e85f98ddfdbac9e0c87"
"""Of the table, so that this code, and with it what is derived from it, changes with the table."""

COLUMNS = rescale.COLUMNS


def rows(settings: Settings, heads: pd.DataFrame) -> Iterator[Row]:
    """Yield the measured rows of the models among the run's files. Raises as `measured`."""
    names = heads["path"].map(lambda path: PurePath(str(path)).stem)
    there = set(zip(names, heads["d_k"], strict=True))
    return (row for row in measured() if (row["model"], row["d_k"]) in there)


def measured() -> Iterator[Row]:
    """Yield the rows of all models. Raises TableError for a table that was changed."""
    if hashlib.sha256(MEASURED.read_bytes()).hexdigest() != SHA256:
        raise TableError(f"{MEASURED} is not the table that was measured")
    for row in frames.read(MEASURED, COLUMNS).to_dict("records"):
        yield {str(name): value for name, value in row.items()}
