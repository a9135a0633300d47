"""Training with AdamW, warm-up and a cosine schedule, of a transformer or a recurrent network."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from sqrtdk.core import adam
from sqrtdk.core.attention import ScaleRule
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.transformer import data, model, recurrent
from sqrtdk.experiments.transformer.data import Task
from sqrtdk.experiments.transformer.model import Attended, Parameters, Sequences, Sizes

MEAN, SQUARE, EPSILON = 0.9, 0.95, 1e-8
"""Constants of AdamW, as for language models (Wortsman et al. 2023)."""

DECAY = 0.1
"""Weight decay of the matrices: each step takes this times the learning rate off them."""

WARM_UP = 0.1
"""Share of the steps in which the learning rate rises from 0 on."""

FLOOR = 0.1
"""The last learning rate over the largest."""


class Found(NamedTuple):
    """The outputs of a forward pass, and the attention of its layers; none if recurrent."""

    logits: Floats
    attended: list[Attended]


class Reader(Protocol):
    """A model that can be trained."""

    shapes: dict[str, tuple[int, int]]

    def initial(self, seeds: Sequence[int], task: Task, parameters: Parameters) -> None:
        """Write the parameters of each seed before training."""

    def forward(self, parameters: Parameters, sequences: Sequences) -> Found:
        """Compute the outputs."""

    def gradient(self, parameters: Parameters, sequences: Sequences, into: Parameters) -> Floats:
        """Write the gradient of the loss with respect to all parameters; return the loss."""


class Transformer:
    """The causal transformer with one scale rule."""

    def __init__(self, sizes: Sizes, rule: ScaleRule) -> None:
        """Keep the sizes and the rule."""
        self.sizes, self.rule = sizes, rule
        self.shapes = model.shapes(sizes)

    def initial(self, seeds: Sequence[int], task: Task, parameters: Parameters) -> None:
        """Draw the parameters: as many scale rules as there are begin with the same ones."""
        for run, seed in enumerate(seeds):
            random = data.stream("transformer", task=task, seed=seed)
            for name, shape in self.shapes.items():
                sd = model.deviation(name, shape, len(self.sizes.symbols))
                drawn = random.standard_normal(shape)
                parameters[name][run] = 1 if math.isnan(sd) else sd * drawn

    def forward(self, parameters: Parameters, sequences: Sequences) -> Found:
        """Compute the outputs."""
        found = model.forward(parameters, sequences, self.sizes, self.rule)
        return Found(found.logits, [layer.attended for layer in found.layers])

    def gradient(self, parameters: Parameters, sequences: Sequences, into: Parameters) -> Floats:
        """Write the gradient of the loss and return the loss."""
        found = model.forward(parameters, sequences, self.sizes, self.rule)
        loss, d_logits = model.cross_entropy(found.logits, _flat(sequences))
        model.backward(parameters, sequences, self.sizes, self.rule, found, d_logits, into)
        return loss


class Recurrent:
    """The gated recurrent network with about as many parameters as the transformer."""

    def __init__(self, sizes: Sizes) -> None:
        """Choose the number of units."""
        self.sizes, self.hidden = sizes, recurrent.same_size(sizes)
        self.shapes = recurrent.shapes(sizes, self.hidden)

    def initial(self, seeds: Sequence[int], task: Task, parameters: Parameters) -> None:
        """Draw the parameters, with variance 1 over the rows that a matrix sums; biases are 0."""
        for run, seed in enumerate(seeds):
            random = data.stream("gru", task=task, seed=seed)
            for name, shape in self.shapes.items():
                kinds = len(self.sizes.symbols)
                sd = {"b": 0.0, "e": kinds**-0.5}.get(name[0], shape[0] ** -0.5)
                sd *= 0.1 if name == "w_y" else 1.0
                parameters[name][run] = sd * random.standard_normal(shape)

    def forward(self, parameters: Parameters, sequences: Sequences) -> Found:
        """Compute the outputs."""
        return Found(recurrent.forward(parameters, sequences).logits, [])

    def gradient(self, parameters: Parameters, sequences: Sequences, into: Parameters) -> Floats:
        """Write the gradient of the loss and return the loss."""
        found = recurrent.forward(parameters, sequences)
        loss, d_logits = model.cross_entropy(found.logits, _flat(sequences))
        recurrent.backward(parameters, sequences, found, d_logits, into)
        return loss


def _flat(sequences: Sequences) -> np.ndarray:
    return sequences.targets.reshape(len(sequences.targets), -1)


def rate_at(step: int, steps: int, rate: float) -> float:
    """Return the learning rate of a step, counted from 0: linear warm-up, then half a cosine.

    >>> [round(rate_at(step, 21, 1.0), 3) for step in (0, 1, 2, 11, 20)]
    [0.5, 1.0, 1.0, 0.55, 0.1]
    """
    warm = max(1, round(WARM_UP * steps))
    if step < warm:
        return rate * (step + 1) / warm
    share = (step - warm) / max(1, steps - 1 - warm)
    return rate * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * share)) / 2)


class AdamW:
    """AdamW (Loshchilov & Hutter 2019) on one array [n_runs, count] of float32."""

    def __init__(self, w: Floats, decayed: Floats) -> None:
        """Set the moments to 0; `decayed` [count] is 1 for weights that decay and 0 for others."""
        self.w, self.decayed, self.steps = w, decayed, 0
        self.mean, self.square, self.scratch = (np.zeros_like(w) for _ in range(3))

    def step(self, gradient: Floats, rate: float) -> None:
        """Update the weights in place. Overwrites the gradient."""
        self.steps += 1
        self.mean *= MEAN
        np.multiply(gradient, 1 - MEAN, out=self.scratch)
        self.mean += self.scratch
        np.square(gradient, out=gradient)
        gradient *= 1 - SQUARE
        self.square *= SQUARE
        self.square += gradient
        # Root of the corrected square, then the corrected mean over it.
        np.multiply(self.square, 1 / (1 - SQUARE**self.steps), out=self.scratch)
        np.sqrt(self.scratch, out=self.scratch)
        self.scratch += EPSILON
        np.divide(self.mean, self.scratch, out=self.scratch)
        self.scratch *= rate / (1 - MEAN**self.steps)
        self.w *= 1 - rate * DECAY * self.decayed
        self.w -= self.scratch


class Moment(NamedTuple):
    """Training at one step: the parameters, which later steps change in place."""

    step: int
    parameters: Parameters


def train(
    reader: Reader,
    task: Task,
    seeds: Sequence[int],
    *,
    n_tokens: int,
    batch: int,
    steps: int,
    rate: float,
    is_logged: Callable[[int], bool],
) -> Iterator[Moment]:
    """Train one run a seed, in float32; yield the steps that are logged and the last one."""
    count = sum(rows * columns for rows, columns in reader.shapes.values())
    flat, gradient = np.empty((2, len(seeds), count), np.float32)
    parameters, into = adam.views(flat, reader.shapes), adam.views(gradient, reader.shapes)
    reader.initial(seeds, task, parameters)
    matrices = {name: np.full(shape, name[0] == "w") for name, shape in reader.shapes.items()}
    decayed = np.concatenate([one.ravel() for one in matrices.values()]).astype(np.float32)
    optimizer = AdamW(flat, decayed)
    drawn = data.batches(task, seeds, n_tokens=n_tokens, batch=batch, held=False)
    for step in range(steps + 1):
        if is_logged(step) or step == steps:
            yield Moment(step, parameters)
        if step < steps:
            reader.gradient(parameters, next(drawn), into)
            optimizer.step(gradient, rate_at(step, steps, rate))
