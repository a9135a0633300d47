"""A layer of self-attention before training: its tokens, its projections and its scores."""

import math
from typing import Literal, NamedTuple, get_args

import numpy as np

from sqrtdk.core import random_streams
from sqrtdk.core.attention import scores
from sqrtdk.core.random_streams import Purpose
from sqrtdk.core.shapes import Float, Floats

Init = Literal["xavier_head", "xavier", "xavier_fused", "linear", "normal_02", "t5"]
Norm = Literal["layer_norm", "none"]
INITS: tuple[Init, ...] = get_args(Init)
NORMS: tuple[Norm, ...] = get_args(Norm)


class Spread(NamedTuple):
    """Standard deviations of the entries of W_q, W_k and the biases, and the law of all of them."""

    q_sd: float
    k_sd: float
    bias_sd: float
    uniform: bool


def spread(init: Init, d_model: int, d_k: int) -> Spread:
    """Return the spread of an initialisation.

    Xavier's law is uniform with variance 2/(inputs + outputs) (Glorot & Bengio 2010). `linear` is
    that of torch.nn.Linear, `xavier_fused` of torch.nn.MultiheadAttention, whose biases begin at
    0; `normal_02` of BERT and GPT-2; `t5` that of T5 (Raffel et al. 2020), which folds the scale
    into W_q.

    >>> spread("xavier_fused", 64, 16).q_sd == 128**-0.5
    True
    """
    outputs = {"xavier_head": d_k, "xavier": d_model, "xavier_fused": 3 * d_model}
    if init in outputs:
        sd = math.sqrt(2 / (d_model + outputs[init]))
        return Spread(sd, sd, 0.0, uniform=True)
    if init == "linear":
        sd = (3 * d_model) ** -0.5
        return Spread(sd, sd, sd, uniform=True)
    if init == "normal_02":
        return Spread(0.02, 0.02, 0.0, uniform=False)
    return Spread((d_model * d_k) ** -0.5, d_model**-0.5, 0.0, uniform=False)


def draw(
    d_model: int,
    d_k: int,
    n_k: int,
    *,
    embedding_sd: float,
    cosine: int,
    norm: Norm,
    init: Init,
    seed: int,
) -> Float[Floats, "n_k n_k"]:
    """Return the scores q·k of a fresh layer, each token a query and a key; cosine in per cent."""
    places = INITS.index(init), NORMS.index(norm)
    random = random_streams.stream(Purpose.INITIALISATION, seed, d_model, d_k, n_k, cosine, *places)
    share = cosine / 100
    own, common = random.standard_normal((n_k, d_model)), random.standard_normal(d_model)
    x: Floats = embedding_sd * (math.sqrt(1 - share) * own + math.sqrt(share) * common)
    if norm == "layer_norm":
        x = layer_norm(x)
    sds = spread(init, d_model, d_k)

    def entries(sd: float, *shape: int) -> Floats:
        end = math.sqrt(3) * sd
        return (
            random.uniform(-end, end, shape) if sds.uniform else sd * random.standard_normal(shape)
        )

    q = x @ entries(sds.q_sd, d_model, d_k) + entries(sds.bias_sd, d_k)
    k = x @ entries(sds.k_sd, d_model, d_k) + entries(sds.bias_sd, d_k)
    return scores(q, k)


def layer_norm(x: Float[Floats, "*shape"]) -> Float[Floats, "*shape"]:
    """Return each row shifted to mean 0 and divided by its standard deviation; of one entry, 0."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    sd = np.sqrt(np.mean(centred**2, axis=-1, keepdims=True))
    return np.asarray(centred / np.where(sd == 0, 1, sd))
