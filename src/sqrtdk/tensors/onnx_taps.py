"""Queries and keys inside an ONNX model: the two inputs of the product before each softmax.

Needs the packages onnx and onnxruntime. A model exported to ONNX has no names that tell queries
from other tensors, but its structure does: scores are a product of two computed tensors, and a
softmax follows, with at most a scale, a mask or a bias between.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sqrtdk.system.errors import UserError, one_line

BETWEEN = ("Add", "Sub", "Mul", "Div", "Identity", "Cast", "Where", "Squeeze", "Unsqueeze", "Tanh")
"""Operators that may be between the product and the softmax."""


TEMPERATURE = "sqrtdk.temperature"


@dataclass(frozen=True)
class Tap:
    """One product of queries and keys: the names of its tensors, and the model's own scale.

    `product` is the tensor of scores that it makes. `keys` is [..., d, n_k], as the product takes
    it. `scale` multiplies q·k of these tensors; it is found where it is a number in the model, on
    the queries, the keys or the scores. `biased` says that something is added to the scores, such
    as a mask.
    """

    product: str
    queries: str
    keys: str
    scale: float
    biased: bool


class OnnxModel:
    """A model whose products of queries and keys can be read. Raises UserError."""

    def __init__(self, path: Path) -> None:
        try:
            import onnx
        except ImportError:
            raise UserError(
                f"{path}: reading ONNX needs two more packages: pip install onnx onnxruntime"
            ) from None
        self.path = path
        try:
            self._model = onnx.load(str(path))
        except OSError as error:
            raise UserError(one_line(error)) from None
        # protobuf's errors have no common class of their own.
        except Exception as error:
            raise UserError(f"{path} cannot be read as an ONNX model: {one_line(error)}") from None
        graph = self._model.graph
        self._made_by = {name: node for node in graph.node for name in node.output}
        self._numbers = {
            tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer
        }
        self._numbers |= {
            node.output[0]: onnx.numpy_helper.to_array(node.attribute[0].t)
            for node in graph.node
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value"
        }
        self.taps = [tap for node in graph.node if (tap := self._tap(node)) is not None]
        if not self.taps:
            count = sum(node.op_type == "Softmax" for node in graph.node)
            raise UserError(f"{path} has no attention: {count} softmax, none after a product")

    @property
    def properties(self) -> dict[str, str]:
        """Return what the model's file says about it, by name."""
        return {one.key: one.value for one in self._model.metadata_props}

    def run(self, inputs: Mapping[str, np.ndarray]) -> tuple[list[np.ndarray], list[Any]]:
        """Run the model; return its outputs, and (queries, keys) of each tap.

        Queries are [..., n_q, d], keys [..., n_k, d]. Raises UserError for inputs that it does
        not take.
        """
        import onnx
        import onnxruntime

        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        own = [output.name for output in model.graph.output]
        wanted = list(dict.fromkeys(name for tap in self.taps for name in (tap.queries, tap.keys)))
        for name in wanted:
            if name not in own:
                model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            found = session.run([*own, *wanted], dict(inputs))
        except Exception as error:
            raise UserError(f"{self.path}: {one_line(error)}") from None
        named = dict(zip(wanted, found[len(own) :], strict=True))
        pairs = [(named[tap.queries], np.swapaxes(named[tap.keys], -1, -2)) for tap in self.taps]
        return found[: len(own)], pairs

    def _tap(self, softmax: Any) -> Tap | None:
        if softmax.op_type != "Softmax":
            return None
        name, scale, biased = softmax.input[0], 1.0, False
        while (node := self._made_by.get(name)) is not None and node.op_type in BETWEEN:
            computed = [each for each in node.input if each not in self._numbers]
            given = [self._numbers[each] for each in node.input if each in self._numbers]
            if node.op_type in ("Mul", "Div") and given and given[0].size == 1:
                factor = float(given[0].reshape(()))
                scale *= factor if node.op_type == "Mul" else 1 / factor
            biased |= node.op_type in ("Add", "Sub", "Where")
            # A mask is computed as well; the scores are what a product made.
            name = next((each for each in computed if self._leads_to_product(each)), "")
        if node is None or node.op_type != "MatMul" or set(node.input) & self._numbers.keys():
            return None
        queries, of_q = self._unscaled(node.input[0])
        keys, of_k = self._unscaled(node.input[1])
        return Tap(node.output[0], queries, keys, scale * of_q * of_k, biased)

    def _leads_to_product(self, name: str) -> bool:
        node = self._made_by.get(name)
        while node is not None and node.op_type in BETWEEN:
            computed = [each for each in node.input if each not in self._numbers]
            node = self._made_by.get(computed[0]) if computed else None
        return node is not None and node.op_type == "MatMul"

    def _unscaled(self, name: str) -> tuple[str, float]:
        """Return the tensor before any multiplication by one number, and the product of those."""
        inner, factor = name, 1.0
        while (node := self._made_by.get(name)) is not None:
            given = [self._numbers[each] for each in node.input if each in self._numbers]
            computed = [each for each in node.input if each not in self._numbers]
            if len(computed) != 1 or any(number.size != 1 for number in given):
                break
            number = float(given[0].reshape(())) if given else 1.0
            if node.op_type in ("Mul", "Div"):
                factor = factor * number if node.op_type == "Mul" else factor / number
                inner = computed[0]
            elif not (node.op_type == "Identity" or (node.op_type == "Add" and number == 0)):
                break
            name = computed[0]
        return inner, factor

    def rescaled(self, temperature: float) -> "OnnxModel":
        """Return the model with the logits of every tap multiplied by a number, before a mask."""
        import onnx

        changed = OnnxModel.__new__(OnnxModel)
        changed.__dict__ |= self.__dict__
        changed._model = onnx.ModelProto()
        changed._model.CopyFrom(self._model)
        graph = changed._model.graph
        number = onnx.numpy_helper.from_array(np.array(temperature, np.float32), TEMPERATURE)
        graph.initializer.append(number)
        for tap in self.taps:
            place = next(i for i, node in enumerate(graph.node) if tap.product in node.output)
            product = graph.node[place]
            scaled = f"{tap.product}.{TEMPERATURE}"
            multiply = onnx.helper.make_node("Mul", [product.input[0], TEMPERATURE], [scaled])
            product.input[0] = scaled
            graph.node.insert(place, multiply)
        return changed
