"""Write the queries and keys of a trained model: `python -m sqrtdk.models minilm qk.safetensors`.

The tensors are named `layer{i}.input{j}.q` and `.k`, [heads, n, d], which
`sqrtdk.tensors.files.pairs` finds by itself.
"""

import os
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from sqrtdk.messages import nearest
from sqrtdk.models.sources import SOURCES
from sqrtdk.system import command_line, stdio
from sqrtdk.system.errors import UserError


def main() -> None:
    """Write one model's queries and keys into a new file. Raises UserError."""
    name, path = sys.argv[1], Path(sys.argv[2])
    if name not in SOURCES:
        hint = nearest(name, SOURCES)
        raise UserError(f"model {name!r} is not allowed; allowed: {', '.join(SOURCES)}{hint}")
    if path.suffix != ".safetensors" or os.path.lexists(path):
        raise UserError(f"{path}: allowed: a new file that ends in .safetensors")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path}: allowed: a file in a folder that exists")
    tensors = {
        f"layer{layer}.input{place}.{x}": np.ascontiguousarray(array)
        for place, layers in enumerate(SOURCES[name].layers())
        for layer, pair in enumerate(layers)
        for x, array in zip("qk", pair, strict=True)
    }
    stated = {"model": name, "what": SOURCES[name].what, **SOURCES[name].stated}
    whole = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        whole.write_bytes(save(tensors, stated))
        whole.replace(path)
    finally:
        whole.unlink(missing_ok=True)
    stdio.say(f"{path}: {SOURCES[name].what}; {len(tensors) // 2} pairs of queries and keys")


if __name__ == "__main__":
    command_line.run(main, "MODEL", "QK.safetensors")
