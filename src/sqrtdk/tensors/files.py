"""Read queries and keys from a file: pair its tensors, and reject unusable ones.

Reads `.safetensors`, `.npz` and `.npy`, one tensor at a time. A file may hold many layers; the
tensors of a layer are found by their names. Nothing here measures.
"""

import hashlib
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from sqrtdk.messages import nearest
from sqrtdk.system.errors import UserError, one_line

PATTERNS = (
    ("layer{layer}.input{input}.q", "layer{layer}.input{input}.k"),
    ("layer{layer}.q", "layer{layer}.k"),
    # TransformerLens: after the rotary embedding where there is one. `hook_q` is before it.
    ("blocks.{layer}.attn.hook_rot_q", "blocks.{layer}.attn.hook_rot_k"),
    ("blocks.{layer}.attn.hook_q", "blocks.{layer}.attn.hook_k"),
    ("q", "k"),
)
"""Names of queries and keys that are found without a key, the first that fits. Arrays of
TransformerLens have the sequence before the heads."""

SEQUENCE_FIRST = re.compile(r"\.hook_(rot_)?[qk]$")

# Importing ml_dtypes registers bfloat16 with NumPy; without it safetensors cannot return it.
FLOATS = tuple(
    np.dtype(one).name for one in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16)
)

PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle")

CONVERT = (
    "`import torch, safetensors.torch as st` and "
    '`st.save_file(torch.load(PATH, weights_only=True), "qk.safetensors")`'
)
"""The two lines that turn a file of torch.save into one that is read."""


STATED = ("scale", "is_causal", "window", "softcap")
"""Statements of a file about its model: in the metadata of a `.safetensors`, and in an `.npz` as
arrays of one number with these names. The meanings are those of `measurement.measure`."""


@dataclass(frozen=True)
class Pair:
    """The queries and keys of one layer for one input, by the names of their tensors."""

    layer: str
    q: str
    k: str
    input: str = ""


class TensorFile:
    """A file of named tensors; read one at a time with `read`.

    Raises UserError, with one line that names the file, for any other file: a pickle, an
    unknown ending, an empty or truncated file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            size = path.stat().st_size
        except OSError as error:
            raise UserError(one_line(error)) from None
        if path.is_dir():
            raise UserError(f"{path} is a folder; allowed: a file, {_endings()}")
        if path.suffix in PICKLES:
            raise UserError(
                f"{path}: pickles are not read, because they can run code; convert it with "
                f"{CONVERT.replace('PATH', repr(path.name))}"
            )
        if path.suffix not in READERS:
            hint = nearest(path.suffix, READERS)
            raise UserError(f"{path}: allowed endings: {_endings()}{hint}")
        if size == 0:
            raise UserError(f"{path} is empty")
        with self._refused():
            self.names, self._read, self.stated = READERS[path.suffix](path)

    def read(self, name: str) -> np.ndarray:
        """Return one tensor, float16 and bfloat16 as they are. Raises UserError."""
        with self._refused(f" at {name!r}"):
            return self._read(name)

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of every file that holds a tensor, by file name."""
        files = [self.path]
        if self.path.suffix == ".npy":
            files = [self.path.parent / f"{name}.npy" for name in self.names]
        return {file.name: _sha256(file) for file in files}

    def _refused(self, place: str = "") -> "_Refused":
        return _Refused(f"{self.path}{place}")


class _Refused:
    """A block in which the errors of libraries about a broken file become one line."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (SafetensorError, zipfile.BadZipFile, EOFError, ValueError, OSError)):
            why = one_line(error)
            if "allow_pickle" in why or "pickled" in why:
                why = "holds Python objects; allowed: arrays of floating-point numbers"
            raise UserError(f"{self._where} cannot be read: {why}") from None


def pairs(file: TensorFile, q: str | None = None, k: str | None = None) -> list[Pair]:
    """Return the layers of a file in the order of their numbers.

    Without `q` and `k`, by the first of `PATTERNS` that fits. Otherwise these are patterns of the
    names, such as `model.{layer}.query`; `{layer}` stands for a number or a word, and so does
    `{input}`, for several inputs of one model.
    Raises UserError where nothing fits, or a tensor has no partner.
    """
    if (q is None) != (k is None):
        raise UserError("q and k: give both patterns or none, such as q='{layer}.q' k='{layer}.k'")
    wanted = PATTERNS if q is None or k is None else ((q, k),)
    for of_q, of_k in wanted:
        queries, keys = _matching(file.names, of_q), _matching(file.names, of_k)
        for at in sorted(queries.keys() ^ keys.keys()):
            given = queries.get(at) or keys[at]
            # A tensor of the same side cannot be the partner, nor one that has its own.
            side, other = (queries, keys) if at in queries else (keys, queries)
            taken = {*side.values(), *(other[it] for it in other.keys() & side.keys())}
            free = [name for name in file.names if name not in taken]
            partner = of_k if at in queries else of_q
            for word, found in zip(WORDS, at, strict=True):
                partner = partner.replace(f"{{{word}}}", found)
            raise UserError(
                f"{file.path}: {given!r} has no partner {partner!r}{nearest(partner, free, repr)}"
            )
        if queries:
            order = sorted(queries, key=lambda at: tuple(map(_by_number, at)))
            return [Pair(at[0], queries[at], keys[at], at[1]) for at in order]
    names = ", ".join(sorted(file.names)[:6]) or "no tensor"
    looked = " or ".join(of_q for of_q, _ in wanted)
    more = f" and {len(file.names) - 6} more" if len(file.names) > 6 else ""
    scores = [name for name in file.names if re.search(r"attn_scores|hook_pattern|weights", name)]
    if scores and q is None:
        raise UserError(
            f"{file.path}: {scores[0]!r} holds scores or weights; needed: the queries and keys"
        )
    raise UserError(f"{file.path} has no tensor {looked}; it has {names}{more}")


def heads(file: TensorFile, pair: Pair, layout: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the queries and keys of a layer, [batch, heads, n, d] in float32 or float64.

    `layout` is "bhnd", or "bnhd" where the sequence comes before the heads; without it, the names
    of TransformerLens decide.
    Raises UserError, with file, tensor and place, for tensors that are not floating point, do
    not fit each other, or hold NaN or an infinity.
    """
    q, k = (_checked(file, name, layout) for name in (pair.q, pair.k))
    where = f"{file.path}: {pair.q!r} {list(q.shape)} and {pair.k!r} {list(k.shape)}"
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise UserError(f"{where} must agree in batch and head dimension, as [batch, heads, n, d]")
    if q.shape[1] % k.shape[1]:
        raise UserError(f"{where}: the heads of q must be a multiple of those of k")
    return q, k


def _checked(file: TensorFile, name: str, layout: str | None) -> np.ndarray:
    found = file.read(name)
    where = f"{file.path}: {name!r}"
    if found.dtype.name not in FLOATS:
        raise UserError(f"{where} has dtype {found.dtype}; allowed: {', '.join(FLOATS)}")
    if found.ndim not in (3, 4):
        raise UserError(
            f"{where} has shape {list(found.shape)}; allowed: [heads, n, d] or [batch, heads, n, d]"
        )
    if 0 in found.shape:
        raise UserError(f"{where} has shape {list(found.shape)}, without a number in it")
    wide = found.astype(np.float64 if found.dtype == np.float64 else np.float32)
    broken = np.argwhere(~np.isfinite(wide))
    if len(broken):
        place = broken[0].tolist()
        verb = "is" if len(broken) == 1 else "are"
        count = f"{len(broken)} of its numbers {verb} not finite"
        raise UserError(f"{where} is {wide[tuple(place)]} at {place}; {count}")
    if layout == "bnhd" or (layout is None and SEQUENCE_FIRST.search(name)):
        wide = np.swapaxes(wide, -3, -2)
    return wide.reshape((1,) * (4 - wide.ndim) + wide.shape)


WORDS = ("layer", "input")
"""Words that a pattern of names may have in braces, each once."""


def _matching(names: tuple[str, ...], pattern: str) -> dict[tuple[str, str], str]:
    """Return the names that a pattern fits, by layer and input; empty where it has no such word."""
    rule = re.escape(pattern)
    for word in WORDS:
        rule = rule.replace(re.escape(f"{{{word}}}"), f"(?P<{word}>[^/]+?)", 1)
    found = ((re.fullmatch(rule, name), name) for name in names)
    return {
        (at.groupdict().get("layer", ""), at.groupdict().get("input", "")): name
        for at, name in found
        if at
    }


def _by_number(layer: str) -> tuple[list[int], str]:
    return [int(digits) for digits in re.findall(r"\d+", layer)], layer


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_digest(path: Path) -> str:
    """Return the SHA-256 of a file; of a `.npy`, that of the digests of all files read with it.

    Raises UserError where there is no file.
    """
    try:
        if path.suffix != ".npy":
            return _sha256(path)
        found = TensorFile(path).digests()
    except OSError as error:
        raise UserError(one_line(error)) from None
    return hashlib.sha256("".join(f"{name}:{found[name]}" for name in found).encode()).hexdigest()


Reader = tuple[tuple[str, ...], Callable[[str], np.ndarray], dict[str, str]]


def _safetensors(path: Path) -> Reader:
    # Any, because safetensors has no types.
    file: Any = safe_open(path, framework="np")
    stated, names = file.metadata() or {}, tuple(file.keys())
    return names, file.get_tensor, {name: stated[name] for name in STATED if name in stated}


def _npz(path: Path) -> Reader:
    def read(name: str) -> np.ndarray:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            found: np.ndarray = file[name]
            return found

    # Opened here, because np.load leaves a damaged file open.
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        numbers = {name: np.squeeze(file[name]) for name in STATED if name in file.files}
        stated = {name: str(one.item()) for name, one in numbers.items() if one.ndim == 0}
        return tuple(name for name in file.files if name not in stated), read, stated


def _npy(path: Path) -> Reader:
    """Return the file and its siblings with the same pattern: `layer0.q.npy`, `layer0.k.npy`."""
    names = tuple(_siblings(path))
    return names, lambda name: np.load(path.parent / f"{name}.npy", allow_pickle=False), {}


def _siblings(path: Path) -> Iterator[str]:
    named = re.compile(re.sub(r"\d+", r"\\d+", re.sub(r"[qk]$", "[qk]", re.escape(path.stem))))
    for file in sorted(path.parent.glob("*.npy")):
        if file == path or named.fullmatch(file.stem):
            yield file.stem


READERS: dict[str, Callable[[Path], Reader]] = {
    ".safetensors": _safetensors,
    ".npz": _npz,
    ".npy": _npy,
}


def _endings() -> str:
    return ", ".join(READERS)
