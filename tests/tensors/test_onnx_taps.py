"""Queries and keys inside ONNX models, on small models that are built here."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sqrtdk.system.errors import UserError
from sqrtdk.tensors import layers
from sqrtdk.tensors.onnx_taps import OnnxModel

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

N, D = 6, 4
X = np.random.default_rng(0).standard_normal((1, N, D)).astype(np.float32)
W_Q, W_K = np.random.default_rng(1).standard_normal((2, D, D)).astype(np.float32)


def build(folder: Path, *, scale: str, mask: bool = False, attend: bool = True) -> Path:
    """Write softmax(scale x W_q (x W_k)ᵀ) x, the scale on `queries`, on `scores`, or nowhere."""
    node = onnx.helper.make_node
    number = onnx.numpy_helper.from_array
    constants = [
        number(W_Q, "w_q"), number(W_K, "w_k"), number(np.array(0.5, np.float32), "half"),
        number(np.array([0.0], np.float32), "zero"), number(np.array([4.0], np.float32), "four"),
        number(np.triu(np.full((N, N), -1e9, np.float32), 1), "mask"),
    ]  # fmt: skip
    nodes = [
        node("MatMul", ["x", "w_q"], ["q"]),
        node("MatMul", ["x", "w_k"], ["k"]),
        node("Transpose", ["k"], ["k_t"], perm=[0, 2, 1]),
    ]
    left = "q"
    if scale == "queries":
        nodes += [node("Mul", ["q", "half"], ["q_h"]), node("Add", ["q_h", "zero"], ["q_0"])]
        left = "q_0"
    nodes.append(node("MatMul", [left, "k_t"], ["scores"]))
    last = "scores"
    if scale == "scores":
        nodes.append(node("Div", ["scores", "four"], ["scaled"]))
        last = "scaled"
    if mask:
        nodes.append(node("Add", [last, "mask"], ["masked"]))
        last = "masked"
    if not attend:
        nodes = [node("MatMul", ["x", "w_q"], [last])]
    nodes += [node("Softmax", [last], ["p"], axis=-1), node("MatMul", ["p", "x"], ["y"])]
    if not attend:
        nodes[-1] = node("Identity", ["p"], ["y"])
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "one head",
        [value("x", onnx.TensorProto.FLOAT, [1, N, D])],
        [value("y", onnx.TensorProto.FLOAT, None)], constants,
    )  # fmt: skip
    opset = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=9)
    path = folder / "head.onnx"
    onnx.save(model, str(path))
    return path


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(("scale", "own"), [("queries", 0.5), ("scores", 0.25), ("nowhere", 1.0)])
@pytest.mark.parametrize("mask", [False, True])
def test_q_k_and_the_scale_of_a_head_are_found(
    tmp_path: Path, scale: str, own: float, mask: bool
) -> None:
    model = OnnxModel(build(tmp_path, scale=scale, mask=mask))
    (tap,) = model.taps
    assert (tap.scale, tap.biased) == (own, mask)
    (y,), ((q, k),) = model.run({"x": X})
    assert q == pytest.approx(X @ W_Q, abs=1e-6)
    assert k == pytest.approx(X @ W_K, abs=1e-6)
    hidden = np.triu(np.full((N, N), -1e9), 1) if mask else 0
    # float32 sums of four products.
    assert y == pytest.approx(softmax(own * (q @ k.swapaxes(1, 2)) + hidden) @ X, abs=1e-5)


@pytest.mark.parametrize("scale", ["queries", "scores", "nowhere"])
@pytest.mark.parametrize("mask", [False, True])
def test_a_temperature_multiplies_the_logits_and_not_the_mask(
    tmp_path: Path, scale: str, mask: bool
) -> None:
    model = OnnxModel(build(tmp_path, scale=scale, mask=mask))
    own = model.taps[0].scale
    (y,), ((q, k),) = model.rescaled(3.0).run({"x": X})
    hidden = np.triu(np.full((N, N), -1e9), 1) if mask else 0
    assert y == pytest.approx(softmax(3 * own * (q @ k.swapaxes(1, 2)) + hidden) @ X, abs=1e-5)
    assert np.array_equal(model.run({"x": X})[0][0], OnnxModel(model.path).run({"x": X})[0][0])


def refuse(function: Any, *arguments: Any) -> str:
    with pytest.raises(UserError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_cannot_be_tapped_is_one_line(tmp_path: Path) -> None:
    none = build(tmp_path, scale="nowhere", attend=False)
    assert "has no attention: 1 softmax, none after a product" in refuse(OnnxModel, none)
    none.write_bytes(b"not a model")
    assert "cannot be read as an ONNX model" in refuse(OnnxModel, none)
    assert "No such file" in refuse(OnnxModel, tmp_path / "missing.onnx")
    model = OnnxModel(build(tmp_path, scale="queries"))
    assert "head.onnx" in refuse(model.run, {"x": X[:, :, :3]})
    assert "head.onnx" in refuse(model.run, {"z": X})


@pytest.mark.parametrize("mask", [False, True])
def test_the_layers_of_a_model_are_its_taps_with_the_scale_that_it_has(
    tmp_path: Path, mask: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    path = build(tmp_path, scale="scores", mask=mask)
    np.savez(tmp_path / "x.npz", x=X)
    naming = layers.Naming(model_input=tmp_path / "x.npz")
    layers.check(path, naming)
    said = "head.onnx: 1 of 1 layers add something to their scores that is not measured"
    assert (said in capsys.readouterr().err) is mask
    (layer,) = layers.read(path, naming)
    assert (layer.layer, layer.input, layer.tensor) == (0, "", "q")
    assert layer.q.shape == layer.k.shape == (1, 1, N, D)
    assert layer.q[0, 0] == pytest.approx(X[0] @ W_Q, abs=1e-6)
    assert layer.k[0, 0] == pytest.approx(X[0] @ W_K, abs=1e-6)
    assert layer.stated == layers.Stated(scale=0.25)


def test_an_input_that_is_missing_or_no_npz_is_named(tmp_path: Path) -> None:
    path = build(tmp_path, scale="scores")
    assert "head.onnx: an ONNX model needs an input; give model_input" in refuse(
        layers.check, path, layers.Naming()
    )
    (tmp_path / "x.npz").write_bytes(b"no zip")
    for name in ("x.npz", "missing.npz"):
        naming = layers.Naming(model_input=tmp_path / name)
        assert f"{name} cannot be read as an .npz file" in refuse(layers.check, path, naming)
