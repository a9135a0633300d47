"""The models of `campaigns.race` in PyTorch and JAX, as their users would write them."""

import importlib.util
import platform
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Parameters = dict[str, np.ndarray]

MEAN, SQUARE, EPSILON = 0.9, 0.999, 1e-8
"""Constants of Adam."""


class Lookup(NamedTuple):
    """A head with trained projections; `data` are items, values, queries and targets by step."""

    rate: np.ndarray
    scale: np.ndarray
    data: tuple[np.ndarray, ...]
    optimizer: str

    def loss(self, xp: Any, p: Any, scale: Any, data: Any) -> Any:
        """Return the loss of one run, or one for each along a leading axis."""
        items, values, queries, targets = data
        logits = scale * (queries @ p["q"]) @ (items @ p["k"]).swapaxes(-1, -2)
        error = xp.softmax(logits) @ values - values[targets]
        return (error**2).sum(-1).mean(-1) / 2


class Recurrent(NamedTuple):
    """An encoder with a reader; `data` are keys, values and questions by step."""

    reader: str
    rate: float
    data: tuple[np.ndarray, ...]
    optimizer: str = "adam"
    scale: float = 1.0

    def loss(self, xp: Any, p: Any, scale: Any, data: Any) -> Any:
        """Return the loss of one run, or one for each along a leading axis."""
        keys, values, asked = data
        h, states = None, []
        for t in range(keys.shape[-2]):
            into = xp.rows(p["e_key"], keys[..., t, :]) + xp.rows(p["e_value"], values[..., t, :])
            into = into + p["b_h"]
            h = xp.tanh(into if h is None else into + h @ p["w_h"])
            states.append(h)
        stack = xp.stack(states, -2)
        question, answer = xp.pick(keys, asked), xp.pick(values, asked)
        if self.reader == "fixed":
            context = h
        else:
            query = xp.rows(p["w_q"], question)
            if self.reader == "additive":
                match = xp.tanh(query[..., None, :] + stack @ xp.of_batch(p["w_k"]))
                scores = (match * xp.of_batch(p["v_a"])).sum(-1)
            else:
                match = query @ p["w_k"].swapaxes(-1, -2)
                factor = p["w_q"].shape[-1] ** -0.5 if self.reader == "scaled_dot" else 1.0
                scores = (stack * match[..., None, :]).sum(-1) * factor
            context = (xp.softmax(scores)[..., None] * stack).sum(-2)
        layer = context @ p["w_c"] + xp.rows(p["e_question"], question) + p["b_r"]
        logits = xp.tanh(layer) @ p["w_y"] + p["b_y"]
        return -xp.log_softmax_at(logits, answer).mean(-1)


Step = Lookup | Recurrent
Train = Callable[[int], Parameters]


def product(parameters: Parameters) -> Parameters:
    """Return the product of the projections, which is what our side has."""
    return {"product": parameters["q"] @ parameters["k"].swapaxes(-1, -2)}


def contestants(
    step: Step, start: Parameters, finish: Callable[[Parameters], Parameters] = lambda p: p
) -> dict[str, Train]:
    """Return those of PyTorch and JAX that are installed."""
    makers = {"PyTorch": ("torch", _torch), "JAX": ("jax", _jax)}
    return {
        name: make(step, start, finish)
        for name, (module, make) in makers.items()
        if importlib.util.find_spec(module)
    }


def versions() -> str:
    """Name the versions and the processor."""
    loaded = [
        f"{name} {sys.modules[module].__version__}"
        for name, module in (("NumPy", "numpy"), ("PyTorch", "torch"), ("JAX", "jax"))
        if module in sys.modules
    ]
    return f"Python {platform.python_version()}, {', '.join(loaded)}; {platform.machine()}."


def _torch(step: Step, start: Parameters, finish: Callable[[Parameters], Parameters]) -> Train:
    import torch

    torch.set_num_threads(1)

    class Functions:
        tanh = staticmethod(torch.tanh)

        @staticmethod
        def softmax(x: Any) -> Any:
            return torch.softmax(x, -1)

        @staticmethod
        def rows(table: Any, symbols: Any) -> Any:
            runs = torch.arange(len(table))[:, None]
            return table[runs, symbols]

        @staticmethod
        def stack(states: Any, axis: int) -> Any:
            return torch.stack(states, axis)

        @staticmethod
        def of_batch(parameter: Any) -> Any:
            return parameter[:, None]

        @staticmethod
        def pick(symbols: Any, asked: Any) -> Any:
            return torch.gather(symbols, -2, asked[..., None, :])[..., 0, :]

        @staticmethod
        def log_softmax_at(logits: Any, answer: Any) -> Any:
            return torch.gather(torch.log_softmax(logits, -1), -1, answer[..., None])[..., 0]

    data = tuple(torch.tensor(one) for one in step.data)
    rate, scale = torch.as_tensor(step.rate), torch.as_tensor(step.scale)

    def train(steps: int) -> Parameters:
        leaves = {name: torch.tensor(one, requires_grad=True) for name, one in start.items()}
        moments = {name: (torch.zeros_like(x), torch.zeros_like(x)) for name, x in leaves.items()}
        for t in range(steps):
            batch = tuple(one[t % len(one)] for one in data)
            loss = step.loss(Functions, leaves, scale, batch).sum()
            gradients = torch.autograd.grad(loss, list(leaves.values()))
            with torch.no_grad():
                for (name, leaf), g in zip(leaves.items(), gradients, strict=True):
                    if step.optimizer == "sgd":
                        leaf -= rate * g
                        continue
                    mean, square = moments[name]
                    mean.mul_(MEAN).add_(g, alpha=1 - MEAN)
                    square.mul_(SQUARE).addcmul_(g, g, value=1 - SQUARE)
                    root = (square / (1 - SQUARE ** (t + 1))).sqrt_().add_(EPSILON)
                    leaf -= rate / (1 - MEAN ** (t + 1)) * mean / root
        return finish({name: leaf.detach().numpy() for name, leaf in leaves.items()})

    return train


def _jax(step: Step, start: Parameters, finish: Callable[[Parameters], Parameters]) -> Train:
    import jax

    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    class Functions:
        tanh = staticmethod(jnp.tanh)

        @staticmethod
        def softmax(x: Any) -> Any:
            return jax.nn.softmax(x, axis=-1)

        @staticmethod
        def rows(table: Any, symbols: Any) -> Any:
            return table[symbols]

        @staticmethod
        def stack(states: Any, axis: int) -> Any:
            return jnp.stack(states, axis)

        @staticmethod
        def of_batch(parameter: Any) -> Any:
            return parameter

        @staticmethod
        def pick(symbols: Any, asked: Any) -> Any:
            return jnp.take_along_axis(symbols, asked[None], 0)[0]

        @staticmethod
        def log_softmax_at(logits: Any, answer: Any) -> Any:
            found = jax.nn.log_softmax(logits, axis=-1)
            return jnp.take_along_axis(found, answer[..., None], -1)[..., 0]

    per_run = isinstance(step, Lookup)
    data = tuple(jnp.asarray(one) for one in step.data)
    rate, scale = jnp.asarray(step.rate), jnp.asarray(step.scale)
    # The lookup's runs share a batch and differ in scale; the recurrent models the other way.
    axes = (0, 0, None) if per_run else (0, None, 0)
    gradient = jax.vmap(jax.grad(lambda p, s, d: step.loss(Functions, p, s, d)), in_axes=axes)

    def one(state: Any, t: Any) -> Any:
        p, mean, square = state
        g = gradient(p, scale, tuple(x[t % len(x)] for x in data))
        if step.optimizer == "sgd":
            return (jax.tree.map(lambda w, d: w - rate * d, p, g), mean, square), None
        mean = jax.tree.map(lambda m, d: MEAN * m + (1 - MEAN) * d, mean, g)
        square = jax.tree.map(lambda s, d: SQUARE * s + (1 - SQUARE) * d * d, square, g)

        def moved(w: Any, m: Any, s: Any) -> Any:
            root = jnp.sqrt(s / (1 - SQUARE ** (t + 1.0))) + EPSILON
            return (w - rate / (1 - MEAN ** (t + 1.0)) * m / root).astype(w.dtype)

        return (jax.tree.map(moved, p, mean, square), mean, square), None

    @jax.jit
    def run(p: Any, at: Any) -> Any:
        zeros = jax.tree.map(jnp.zeros_like, p)
        return jax.lax.scan(one, (p, zeros, jax.tree.map(jnp.zeros_like, p)), at)[0][0]

    def train(steps: int) -> Parameters:
        found = run({name: jnp.asarray(x) for name, x in start.items()}, jnp.arange(steps))
        return finish({name: np.asarray(x) for name, x in found.items()})

    return train
