"""Yield the layers of a model, one at a time, from a file of tensors or a run of an ONNX model."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sqrtdk.system import stdio
from sqrtdk.system.errors import UserError, one_line
from sqrtdk.tensors import files
from sqrtdk.tensors.onnx_taps import OnnxModel

ONNX = ".onnx"


class Stated(NamedTuple):
    """Statements of a file about its model; None for a missing one.

    The meanings are those of the arguments of `measurement.measure`.
    """

    scale: float | None = None
    is_causal: bool | None = None
    window: int | None = None
    softcap: float | None = None


@dataclass(frozen=True)
class Layer:
    """The heads of one layer for one input: q and k [batch, heads, n, d], and where they are from.

    `layer` is the number in the names of the tensors, or else their place, from 0. `tensor` is the
    name of the queries.
    """

    layer: int
    input: str
    tensor: str
    q: np.ndarray
    k: np.ndarray
    stated: Stated


@dataclass(frozen=True)
class Naming:
    """Where to find the tensors of a file: patterns of names, the layout, the input of an ONNX."""

    q_name: str | None = None
    k_name: str | None = None
    layout: str | None = None
    model_input: Path | None = None


def check(path: Path, naming: Naming) -> None:
    """Raise UserError for a file that `read` will refuse; reads names alone, no tensor.

    Warns of an ONNX model that adds something to its scores, which is not measured.
    """
    if path.suffix == ONNX:
        taps = OnnxModel(path).taps
        _inputs(path, naming)
        biased = sum(tap.biased for tap in taps)
        if biased:
            stdio.warn(
                f"{path}: {biased} of {len(taps)} layers add something to their scores that is not "
                "measured; if it is a mask, give is_causal or window"
            )
        return
    file = files.TensorFile(path)
    files.pairs(file, naming.q_name, naming.k_name)
    _stated(file)


def read(path: Path, naming: Naming) -> Iterator[Layer]:
    """Yield the layers of a file in order. Raises UserError, with file, tensor and place."""
    if path.suffix == ONNX:
        yield from _tapped(path, naming)
        return
    file = files.TensorFile(path)
    pairs = files.pairs(file, naming.q_name, naming.k_name)
    stated = _stated(file)
    labels = list(dict.fromkeys(pair.layer for pair in pairs))
    numbered = all(label.isdecimal() for label in labels)
    for pair in pairs:
        q, k = files.heads(file, pair, naming.layout)
        number = int(pair.layer) if numbered else labels.index(pair.layer)
        yield Layer(number, pair.input, pair.q, q, k, stated)


def _tapped(path: Path, naming: Naming) -> Iterator[Layer]:
    model = OnnxModel(path)
    _, taps = model.run(_inputs(path, naming))
    for place, (tap, (q, k)) in enumerate(zip(model.taps, taps, strict=True)):
        q, k = (array.reshape((1,) * (4 - array.ndim) + array.shape) for array in (q, k))
        yield Layer(place, "", tap.queries, q, k, Stated(scale=tap.scale))


def _inputs(path: Path, naming: Naming) -> Mapping[str, np.ndarray]:
    """Return the arrays that an ONNX model runs on, by the names of its inputs."""
    if naming.model_input is None:
        raise UserError(
            f"{path}: an ONNX model needs an input; give model_input=FILE.npz, its arrays by name"
        )
    try:
        with np.load(naming.model_input, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, AttributeError) as error:
        raise UserError(
            f"{naming.model_input} cannot be read as an .npz file: {one_line(error)}"
        ) from None


def _stated(file: files.TensorFile) -> Stated:
    def number(name: str, allowed: str, lowest: float = -math.inf) -> float | None:
        text = file.stated.get(name)
        if text is None:
            return None
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not (math.isfinite(found) and found >= lowest):
            raise UserError(f"{file.path}: its {name} is {text!r}; allowed: {allowed}")
        return found

    causal = file.stated.get("is_causal")
    if causal is not None and causal.lower() not in BOOLEANS:
        raise UserError(f"{file.path}: its is_causal is {causal!r}; allowed: true or false")
    window = number("window", "whole numbers from 0", 0)
    return Stated(
        number("scale", "finite numbers"),
        None if causal is None else BOOLEANS[causal.lower()],
        None if window is None else int(window),
        number("softcap", "finite numbers above 0", math.ulp(0.0)),
    )


BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
