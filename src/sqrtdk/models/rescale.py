"""Measure what a trained model computes when its scale is multiplied by a number.

    python -m sqrtdk.models.rescale gemma rescaled.csv

Each model does one small task at each of `FACTORS` times its own scale 1/√d_k. √d_k times it is no
scale at all, and 1/√d_k times it is 1/d_k; these two are measured as well.
"""

import difflib
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sqrtdk.messages import nearest
from sqrtdk.models import reactions, sources
from sqrtdk.schema import Column
from sqrtdk.stats import intervals
from sqrtdk.stats.intervals import Estimate
from sqrtdk.storage import atomic, tables
from sqrtdk.system import command_line, stdio
from sqrtdk.system.errors import UserError
from sqrtdk.tensors.onnx_taps import OnnxModel

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)

COLUMNS: tuple[Column, ...] = (
    Column("model", "Name of the model, as python -m sqrtdk.models takes it.", read=str, axis=True),
    Column("factor", "What the model's own scale 1/√d_k is multiplied by.", axis=True),
    Column("d_k", "Dimension of each query and key vector.", "dimensions", read=int),
    Column("task", "What is counted, or averaged if it is a loss.", read=str),
    Column("kind", "share: the value counts things that are right; loss: nats, a mean.", read=str),
    Column("things", "Number of things that the value counts or averages.", read=int),
    Column("value", "The measured value."),
    Column(
        "worse",
        "Share: things right at the model's own scale and wrong here, over those right there. "
        "Loss: nats added to the model's own.",
    ),
    Column(
        "ci_low",
        "Lower end of its 95 % interval: exact binomial for a share, paired t for a loss, as if "
        "the things were independent.",
    ),
    Column("ci_high", "Upper end of its interval."),
)


class Task(NamedTuple):
    """The results of a model: the error of each thing at a factor, 0 or 1, or nats for a loss."""

    name: str
    kind: str
    errors: Callable[[float], np.ndarray]


def _rxnmapper() -> Task:
    own = [reactions.map_atoms(text).reactant for text in reactions.REACTIONS.values()]

    def moved(factor: float) -> np.ndarray:
        found = [
            reactions.map_atoms(text, temperature=factor).reactant
            for text in reactions.REACTIONS.values()
        ]
        other: np.ndarray = np.concatenate(found) != np.concatenate(own)
        return other

    return Task("atoms mapped as at the model's own scale", "share", moved)


def _gemma() -> Task:
    decoder, ids = sources.gemma()

    def losses(factor: float) -> np.ndarray:
        return np.concatenate([decoder.losses(tokens, temperature=factor) for tokens in ids])

    return Task("nats per token", "loss", losses)


def _minilm() -> Task:
    encoder, tokenize = sources.minilm()
    texts = [
        (place, sentence)
        for place, passage in enumerate(sources.PASSAGES)
        for sentence in sentences(passage)
    ]
    ids = [tokenize(sentence) for _, sentence in texts]
    passages = np.array([place for place, _ in texts])

    def missed(factor: float) -> np.ndarray:
        means = [encoder.forward(tokens, temperature=factor).hidden.mean(axis=0) for tokens in ids]
        vectors = np.array([mean / np.linalg.norm(mean) for mean in means])
        cosines = vectors @ vectors.T
        np.fill_diagonal(cosines, -math.inf)
        wrong: np.ndarray = passages[cosines.argmax(axis=1)] != passages
        return wrong

    name = "sentences whose nearest other sentence is of the same passage"
    return Task(name, "share", missed)


def sentences(passage: str) -> list[str]:
    """Split a passage at the ends of its sentences.

    >>> sentences("One. Two.")
    ['One.', 'Two.']
    """
    return [f"{part.strip(' .')}." for part in passage.split(". ")]


def _recogniser() -> Task:
    model = OnnxModel(sources.recogniser())

    def misread(factor: float) -> np.ndarray:
        changed = model.rescaled(factor)
        wrong = []
        for line in sources.LINES:
            read = sources.read_line(changed, sources.picture(line))
            match = difflib.SequenceMatcher(None, line, read, autojunk=False)
            missed = np.ones(len(line), np.bool_)
            for block in match.get_matching_blocks():
                missed[block.a : block.a + block.size] = False
            wrong.append(missed)
        return np.concatenate(wrong)

    return Task("characters read", "share", misread)


TASKS: dict[str, Callable[[], Task]] = {
    "minilm": _minilm,
    "rxnmapper": _rxnmapper,
    "recogniser": _recogniser,
    "gemma": _gemma,
}


def rows(model: str) -> Iterator[tables.Row]:
    """Yield a row for each factor, in ascending order. Raises UserError without its package."""
    task, d_k = TASKS[model](), sources.SOURCES[model].d_k
    own = task.errors(1.0)
    for factor in sorted({*FACTORS, d_k**0.5, d_k**-0.5}):
        errors = task.errors(factor)
        worse = _worse(task.kind, own, errors)
        yield {
            "model": model,
            "factor": factor,
            "d_k": d_k,
            "task": task.name,
            "kind": task.kind,
            "things": len(own),
            "value": float(errors.mean() if task.kind == "loss" else np.count_nonzero(errors == 0)),
            "worse": worse.mean,
            "ci_low": worse.low,
            "ci_high": worse.high,
        }


def _worse(kind: str, own: np.ndarray, errors: np.ndarray) -> Estimate:
    if kind == "share":
        right = own == 0
        return intervals.exact_share(int(np.count_nonzero(errors[right])), int(right.sum()))
    added = (errors - own).astype(np.float64)
    return Estimate(float(added.mean()), *intervals.interval(added))


def main() -> None:
    """Write the table of one model. Raises UserError."""
    model, path = sys.argv[1], Path(sys.argv[2])
    if model not in TASKS:
        hint = nearest(model, TASKS)
        raise UserError(f"model {model!r} is not allowed; allowed: {', '.join(TASKS)}{hint}")
    if path.suffix != ".csv" or not path.absolute().parent.is_dir():
        raise UserError(f"{path}: allowed: a file that ends in .csv, in a folder that exists")
    found = list(rows(model))
    atomic.write_atomically(path, tables.text(found, COLUMNS))
    stdio.say(f"{path}: {found[0]['task']} of {model} at {len(found)} factors")


if __name__ == "__main__":
    command_line.run(main, "MODEL", "TABLE.csv")
