"""Files of queries and keys: formats, names, and what is refused."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from sqrtdk.system.errors import UserError
from sqrtdk.tensors.files import TensorFile, heads, pairs

H, N_Q, N_K, D = 3, 7, 5, 4


def draw(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


LAYERS = {
    f"layer{i}.{x}": draw(H, n, D) + i for i in (0, 2, 10) for x, n in (("q", N_Q), ("k", N_K))
}


def saved(folder: Path, ending: str, tensors: dict[str, np.ndarray]) -> Path:
    path = folder / f"qk{ending}"
    if ending == ".npz":
        np.savez(path, **tensors)
    else:
        save_file(tensors, path)
    return path


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_layers_are_found_in_the_order_of_their_numbers(
    tmp_path: Path, ending: str, dtype: Any
) -> None:
    tensors = {name: x.astype(dtype) for name, x in LAYERS.items()}
    file = TensorFile(saved(tmp_path, ending, tensors))
    found = pairs(file)
    assert [one.layer for one in found] == ["0", "2", "10"]
    q, k = heads(file, found[1])
    assert q.shape == (1, H, N_Q, D)
    assert np.array_equal(q[0], tensors["layer2.q"])
    assert np.array_equal(k[0], tensors["layer2.k"])
    assert q.dtype == (np.float64 if dtype == np.float64 else np.float32)


def test_bfloat16_loses_nothing(tmp_path: Path) -> None:
    narrow = {name: x.astype(ml_dtypes.bfloat16) for name, x in LAYERS.items()}
    file = TensorFile(saved(tmp_path, ".safetensors", narrow))
    q, _ = heads(file, pairs(file)[0])
    assert np.array_equal(q[0], narrow["layer0.q"].astype(np.float32))


def test_arrays_of_one_layer_need_no_number(tmp_path: Path) -> None:
    file = TensorFile(saved(tmp_path, ".npz", {"q": draw(2, H, N_Q, D), "k": draw(2, H, N_K, D)}))
    assert [(one.layer, one.q, one.k) for one in pairs(file)] == [("", "q", "k")]


def test_npy_files_lie_beside_each_other(tmp_path: Path) -> None:
    for name, x in LAYERS.items():
        np.save(tmp_path / f"{name}.npy", x)
    np.save(tmp_path / "other.npy", draw(3))
    file = TensorFile(tmp_path / "layer0.q.npy")
    assert len(pairs(file)) == 3
    assert set(file.digests()) == {f"{name}.npy" for name in LAYERS}
    assert np.array_equal(heads(file, pairs(file)[2])[1][0], LAYERS["layer10.k"])


def test_rotary_hooks_come_before_the_others_and_are_turned(tmp_path: Path) -> None:
    tensors = {
        f"blocks.{i}.attn.hook_{kind}{x}": draw(1, n, H, D) + i
        for i in (0, 1)
        for kind in ("rot_", "")
        for x, n in (("q", N_Q), ("k", N_K))
    }
    file = TensorFile(saved(tmp_path, ".npz", tensors))
    found = pairs(file)
    assert [one.q for one in found] == [f"blocks.{i}.attn.hook_rot_q" for i in (0, 1)]
    q, _ = heads(file, found[0])
    assert np.array_equal(q, np.swapaxes(tensors["blocks.0.attn.hook_rot_q"], 1, 2))


def test_other_names_are_found_by_a_pattern(tmp_path: Path) -> None:
    tensors = {f"enc.{i}.{x}.w": draw(H, N_K, D) for i in "ab" for x in ("query", "key")}
    file = TensorFile(saved(tmp_path, ".npz", tensors))
    found = pairs(file, q="enc.{layer}.query.w", k="enc.{layer}.key.w")
    assert [one.layer for one in found] == ["a", "b"]
    with pytest.raises(UserError, match="give both patterns or none"):
        pairs(file, q="enc.{layer}.query.w")
    with pytest.raises(UserError, match=r"has no tensor layer.* it has enc\.a\.key\.w"):
        pairs(file)


def read_all(path: Path) -> None:
    file = TensorFile(path)
    for pair in pairs(file):
        heads(file, pair)


def refuse(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_all(path)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    return message


Q, K = draw(H, N_Q, D), draw(H, N_K, D)
BROKEN = K.copy()
BROKEN[1, 2, 3] = np.inf


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"q": Q}, "'q' has no partner 'k'"),
        ({"layer0.k": K, "layer0.qq": Q}, "has no partner 'layer0.q'; did you mean 'layer0.qq'?"),
        ({"layer0.q": Q}, "'layer0.q' has no partner 'layer0.k'$"),
        ({"layer0.q": Q, "layer1.q": Q, "layer1.k": K}, "has no partner 'layer0.k'$"),
        ({"q": Q, "k": draw(H, N_K, D + 1)}, "must agree in batch and head dimension"),
        ({"q": Q, "k": draw(2, N_K, D)}, "the heads of q must be a multiple"),
        ({"q": Q[0], "k": K[0]}, "'q' has shape [7, 4]; allowed: [heads, n, d]"),
        ({"q": Q.astype(np.int8), "k": K}, "'q' has dtype int8; allowed: float64"),
        ({"q": Q, "k": BROKEN}, "'k' is inf at [1, 2, 3]; 1 of its numbers is not finite"),
        ({"q": Q[:, :0], "k": K}, "'q' has shape [3, 0, 4], without a number in it"),
        ({"attn_scores": draw(H, N_Q, N_K)}, "'attn_scores' holds scores or weights"),
        ({"blocks.0.attn.hook_pattern": Q}, "holds scores or weights"),
    ],
)
def test_tensors_that_do_not_fit_are_named(
    tmp_path: Path, ending: str, tensors: dict[str, np.ndarray], said: str
) -> None:
    message = refuse(saved(tmp_path, ending, tensors))
    assert message.endswith(said[:-1]) if said.endswith("$") else said in message


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
@pytest.mark.parametrize("keep", [0, 3, 100, 400])
def test_a_truncated_file_is_named(tmp_path: Path, ending: str, keep: int) -> None:
    path = saved(tmp_path, ending, LAYERS)
    path.write_bytes(path.read_bytes()[:keep])
    assert "is empty" in refuse(path) or "cannot be read" in refuse(path)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    for ending in (".pt", ".pth", ".bin", ".pkl"):
        path = tmp_path / f"x{ending}"
        path.write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
        assert "torch.load" in refuse(path)
    objects = tmp_path / "o.npz"
    np.savez(objects, q=np.array([{}], dtype=object), k=np.array([{}], dtype=object))
    assert "holds Python objects" in refuse(objects)


def test_what_is_no_tensor_file_is_one_line(tmp_path: Path) -> None:
    assert "No such file" in refuse(tmp_path / "missing.npz")
    (tmp_path / "d.npz").mkdir()
    assert "is a folder" in refuse(tmp_path / "d.npz")
    (tmp_path / "a.safetensor").write_bytes(b"1")
    assert "did you mean .safetensors?" in refuse(tmp_path / "a.safetensor")
