"""Gemma 3 from a GGUF file: its weights, dequantised, and its tokenizer. Needs the package gguf."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from sqrtdk.core.shapes import Floats
from sqrtdk.models.decoder import Decoder
from sqrtdk.system.errors import UserError, one_line

SPACE = "\u2581"


class Vocabulary:
    """The pieces of a SentencePiece model and their scores."""

    def __init__(self, pieces: list[str], scores: list[float], begin: int) -> None:
        self._id = {piece: place for place, piece in enumerate(pieces)}
        self._scores, self._begin = scores, begin

    def encode(self, text: str) -> np.ndarray:
        """Return the token ids of a text, the token that begins a text first.

        Merges the neighbours whose union has the best score until none is in the vocabulary; a
        character that is not in it becomes its bytes.
        """
        parts = list(text.replace(" ", SPACE))
        while True:
            joined = [
                (self._scores[self._id[a + b]], -place)
                for place, (a, b) in enumerate(itertools.pairwise(parts))
                if a + b in self._id
            ]
            if not joined:
                break
            place = -max(joined)[1]
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        ids = [self._begin]
        for part in parts:
            known = self._id.get(part)
            bytes_of = [f"<0x{byte:02X}>" for byte in part.encode()]
            ids += [known] if known is not None else [self._id[byte] for byte in bytes_of]
        return np.array(ids)


def load(path: Path) -> tuple[Decoder, Vocabulary]:
    """Return the decoder in float32 and the vocabulary of a GGUF file. Raises UserError."""
    try:
        from gguf import GGUFReader
    except ImportError:
        raise UserError(f"{path}: reading GGUF needs one more package: pip install gguf") from None
    try:
        reader = GGUFReader(str(path))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as GGUF: {one_line(error)}") from None

    def field(name: str) -> Any:
        if name not in reader.fields:
            raise UserError(f"{path} has no {name}; needed: a model of the kind gemma3")
        return reader.fields[name].contents()

    if field("general.architecture") != "gemma3":
        raise UserError(f"{path} is of the kind {field('general.architecture')}; needed: gemma3")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    layers = [
        {
            name.split(".")[2]: _array(tensor)
            for name, tensor in tensors.items()
            if name.startswith(f"blk.{layer}.")
        }
        for layer in range(field("gemma3.block_count"))
    ]
    decoder = Decoder(
        embedding=_array(tensors["token_embd.weight"]),
        output_norm=_array(tensors["output_norm.weight"]),
        layers=layers,
        n_heads=field("gemma3.attention.head_count"),
        window=field("gemma3.attention.sliding_window"),
        global_base=field("gemma3.rope.freq_base"),
        eps=field("gemma3.attention.layer_norm_rms_epsilon"),
    )
    words = Vocabulary(
        field("tokenizer.ggml.tokens"),
        field("tokenizer.ggml.scores"),
        field("tokenizer.ggml.bos_token_id"),
    )
    return decoder, words


def _array(tensor: Any) -> Floats:
    """Return a tensor in float32, whatever its quantisation; shapes are [out, in]."""
    from gguf.quants import dequantize

    found: Floats = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    return found
