"""Measure the heads of a trained model from a file of its queries and keys.

The numbers are those of `sqrtdk.measure` for each layer of the file.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypedDict

from sqrtdk import schema
from sqrtdk.core import scale_rules
from sqrtdk.experiments.cells import Cell
from sqrtdk.experiments.tensors import gaps
from sqrtdk.schema import Column, Key
from sqrtdk.storage.tables import Row
from sqrtdk.system.errors import UserError
from sqrtdk.tensors import files, layers, measurement
from sqrtdk.tensors.layers import Layer, Naming

PATH = Key(
    "path",
    "file",
    "File of queries and keys: .safetensors, .npz, .npy, or an ONNX model with model_input.",
)

CONFIG_KEYS: tuple[Key, ...] = (
    PATH,
    Key(
        "model_input",
        "file",
        "For an ONNX model: an .npz file with its inputs, by their names.",
        axis=False,
        optional=True,
    ),
    Key(
        "q_name",
        "text",
        "Names of the queries, such as '{layer}.query'; {input} is for several inputs. Null: "
        "layer{layer}.q and the names of TransformerLens.",
        axis=False,
        optional=True,
    ),
    Key("k_name", "text", "Names of the keys, in the same way.", axis=False, optional=True),
    Key(
        "layout",
        "choice",
        "bhnd: [batch, heads, n, d]; bnhd: the sequence before the heads. Null: bnhd for names of "
        "TransformerLens, else bhnd.",
        choices=measurement.LAYOUTS,
        axis=False,
        optional=True,
    ),
    Key(
        "is_causal",
        "choice",
        "Query i sees the keys 0 to i. Null: as the file states, else off.",
        choices=("on", "off"),
        axis=False,
        optional=True,
    ),
    Key(
        "window",
        "whole",
        "How many keys before itself a query sees, and after itself if not causal. Null: as the "
        "file states, else all.",
        "keys",
        minimum=0,
        axis=False,
        optional=True,
    ),
    Key(
        "softcap",
        "number",
        "Caps the logits: softcap tanh(logit / softcap). Null: as the file states, else no cap.",
        axis=False,
        optional=True,
    ),
    Key(
        "min_keys",
        "whole",
        "Rows that see fewer keys do not count.",
        "keys",
        axis=False,
    ),
    Key(
        "model_scale",
        "number",
        "The model's own factor on q·k, for scaling=model. Null: as the file states, else 1/√d_k.",
        axis=False,
        optional=True,
    ),
    replace(
        schema.SCALING,
        meaning="Scale rule: what q·k is multiplied by before the softmax (on: 1/√d_k, off: 1, "
        "model: the model's own scale).",
    ),
)


class Options(TypedDict, total=False):
    """The keys that are not axes: how tensors are found, and what a query sees."""

    model_input: dict[str, str] | None
    q_name: str | None
    k_name: str | None
    layout: str | None
    is_causal: str | None
    window: int | None
    softcap: float | None
    min_keys: int
    model_scale: float | None


class Settings(schema.Settings, Options, total=False):
    """The values of the experiment's keys: the SHA-256 of each file by its path."""

    path: dict[str, str]


class Slab(schema.Slab, Options, total=False):
    """The work of one shard job: all layers of one file, with every scale rule."""

    path: dict[str, str]


def _metric(name: str, meaning: str, unit: str = "") -> Column:
    # A head may have no row that sees two keys, or no sink and no values.
    return Column(name, meaning, unit, optional=True)


_OVER_LENGTH = {
    "max_weight": "the largest weight",
    "entropy": "the entropy over ln(visible keys)",
}
"""What the columns about powers of ln n are about, in words."""

COLUMNS: tuple[Column, ...] = (
    replace(schema.axis_column(PATH), read=str),
    Column("layer", "Number of the layer in the names of its tensors.", read=int, axis=True),
    Column("input", "Input of the model, where the file has several.", read=str, axis=True),
    Column("batch", "Entry of the batch, from 0.", read=int, axis=True),
    Column("head", "Query head, from 0.", read=int, axis=True),
    replace(schema.axis_column(CONFIG_KEYS[-1]), meaning="Scale rule of the factor on q·k."),
    Column("tensor", "Name of the queries in the file.", read=str),
    Column("d_k", "Dimension of each query and key vector.", "dimensions", read=int),
    Column("scale", "Factor that q·k is multiplied by."),
    Column("rows", "Queries that count: those that see at least min_keys keys.", read=int),
    Column("hidden_rows", "Queries that see no key.", read=int),
    _metric("visible_keys", "Number of keys that a query sees, mean over queries.", "keys"),
    _metric(
        "logit_std",
        "σ: root mean square over queries of the standard deviation across a query's visible keys.",
    ),
    _metric(
        "norms_std",
        "σ of vectors with the same lengths and unrelated directions. "
        "logit_std = norms_std · alignment · cap_factor.",
    ),
    _metric("alignment", "σ before any soft-cap over norms_std: above 1, directions add to σ."),
    _metric("cap_factor", "σ after over before the soft-cap."),
    _metric("max_logit", "Largest logit over all visible pairs."),
    _metric("min_logit", "Smallest logit over all visible pairs."),
    Column("max_query", "Query of the largest logit, from 0; -1 without one.", read=int),
    Column("max_key", "Key of the largest logit, from 0; -1 without one.", read=int),
    _metric("entropy_nats", "Entropy of the weights, mean over queries.", "nats"),
    _metric("entropy_normalized", "Entropy over ln of the visible keys, mean over queries."),
    _metric("effective_keys", "exp(entropy), mean over queries.", "keys"),
    _metric("sum_sq_weights", "Σp², mean over queries."),
    _metric("max_weight", "Largest weight, mean over queries."),
    _metric("max_weight_gap", "1 - largest weight, without cancellation, mean over queries."),
    _metric("jacobian_norm", "Norm of the softmax Jacobian, root mean square over queries."),
    _metric("sink_weight", "Weight on an attention sink; files have none."),
    _metric("saturated_rows", "Share of queries with a largest weight above 0.99.", "share"),
    _metric("dead_rows", "Share of queries whose softmax Jacobian is below 0.01.", "share"),
    _metric("output_rms", "Root mean square of the output; empty, because files have no values."),
    _metric(
        "entropy_normalized_expected",
        "Mean of entropy_normalized for unrelated vectors at the same σ and visible keys, exact.",
    ),
    _metric("entropy_normalized_deviation", "entropy_normalized minus its expected value."),
    _metric(
        "max_weight_expected",
        "Mean of max_weight for unrelated vectors at the same σ and visible keys, exact.",
    ),
    _metric("max_weight_deviation", "max_weight minus its expected value."),
    _metric(
        "gap_scale",
        "Factor on the logits at which the competitors of a query's largest logit together weigh "
        "as much as it, median over the longer half of some queries. Empty unless causal, without "
        "a window, and as long in queries as in keys.",
    ),
    _metric(
        "gap_power",
        "Power of ln(visible keys) that this factor follows over queries of 16 keys or more; about "
        "1/2 for unrelated vectors. Empty like gap_scale.",
    ),
    *(
        _metric(
            f"power_{name}",
            f"Power of ln(visible keys) on the logits under which {words} has no slope over "
            f"ln(visible keys), for the same queries. Empty like gap_scale, or if none from 0 to "
            f"{gaps.MOST:g} does.",
        )
        for name, words in _OVER_LENGTH.items()
    ),
    *(
        _metric(
            f"{name}_log_{end}",
            f"{words[0].upper()}{words[1:]}: the longer half of the same queries over the shorter "
            f"half, with the factor (ln(visible keys) / ln {gaps.FEWEST_KEYS})^{power:g} on the "
            "logits. Empty like gap_scale.",
        )
        for name, words in _OVER_LENGTH.items()
        for end, power in gaps.POWERS.items()
    ),
)


def naming(settings: Options) -> Naming:
    """Return how the tensors of the files are found."""
    model_input = next(iter(settings["model_input"] or ()), None)
    return Naming(
        settings["q_name"],
        settings["k_name"],
        settings["layout"],
        None if model_input is None else Path(model_input),
    )


def refuse(settings: Settings) -> None:
    """Raise UserError for files whose names or formats cannot be measured."""
    for path in settings["path"]:
        layers.check(Path(path), naming(settings))


def cells(slab: Slab) -> Iterator[Cell]:
    """Yield the layers of one file, one after the other."""
    ((path, digest),) = slab["path"].items()
    for name, known in ((path, digest), *(slab["model_input"] or {}).items()):
        found = files.content_digest(Path(name))
        if found != known:
            raise UserError(f"{name} has SHA-256 {found}; this job is for the one with {known}")
    for layer in layers.read(Path(path), naming(slab)):
        axes: Row = {"path": path, "layer": layer.layer, "input": layer.input}
        yield axes, partial(measure, layer, slab)


def measure(layer: Layer, slab: Slab) -> list[Row]:
    """Return a row for each batch entry, head and scale rule of a layer."""
    d_k, n_k = layer.q.shape[-1], layer.k.shape[-2]
    own, stated = slab["model_scale"], layer.stated
    scales = {}
    for name, rule in slab["scaling"].items():
        scale = scale_rules.factor(rule, d_k=d_k, n_k=n_k)
        if rule["rule"] == "stated":
            scale = next(x for x in (own, stated.scale, scale) if x is not None)
        if scale is None:
            raise ValueError(f"{name} is not one factor of d_k and n_k")
        scales[name] = scale
    causal = stated.is_causal if slab["is_causal"] is None else slab["is_causal"] == "on"
    table = measurement.measure(
        layer.q,
        layer.k,
        scale=scales,
        is_causal=bool(causal),
        window=stated.window if slab["window"] is None else slab["window"],
        softcap=slab["softcap"] or stated.softcap,
        min_keys=slab["min_keys"],
    )
    window = slab["window"] is None and stated.window is None
    found: list[Row] = []
    for row in table.assign(tensor=layer.tensor, d_k=d_k).to_dict("records"):
        gap = gaps.of_head(
            layer,
            int(row["batch"]),
            int(row["head"]),
            scale=scales[str(row["scaling"])],
            causal=bool(causal) and window,
            softcap=slab["softcap"] or stated.softcap,
        )
        found.append({str(name): value for name, value in row.items()} | gap._asdict())
    return found
