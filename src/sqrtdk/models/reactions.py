"""The encoder of RXNMapper (Schwaller et al. 2021, Science Advances 7, eabe4166).

An ALBERT with 12 layers of 8 heads, d_k = 32, that was trained on reactions written as SMILES.
One of its heads, without being trained to, points from each atom of the product to the same atom
of the reactants. The weights are those of the package rxnmapper 0.4.3 (MIT, rxnmapper-LICENSE.txt),
without the parts that an encoder does not need.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sqrtdk.models.encoder import Activations, Encoder, albert

WEIGHTS = Path(__file__).with_name("rxnmapper.npz")

N_LAYERS, N_HEADS = 12, 8

MAPPING_LAYER, MAPPING_HEAD = 10, 5
"""The head that maps atoms, counted from 0 (Schwaller et al. 2021)."""

TOKEN = re.compile(
    r"\[[^\]]+\]"  # an atom with charge, isotope or hydrogens
    r"|Br|Cl|[BCNOPSFI]|[bcnops]"  # other atoms; small letters are aromatic
    r"|>>|%\d\d|[-=#.()+\\/:~@?>*$\d]"  # bonds, branches, rings, the arrow
)

ATOM = re.compile(r"\[[^\]]+\]|Br|Cl|[A-Za-z]")

REACTIONS = {
    "esterification": "CC(=O)O.OCC>>CC(=O)OCC",
    "amide coupling": "O=C(O)c1ccccc1.NCc1ccccc1>>O=C(NCc1ccccc1)c1ccccc1",
    "Suzuki coupling": "Brc1ccccc1.OB(O)c1ccc(F)cc1>>Fc1ccc(-c2ccccc2)cc1",
    "Williamson ether synthesis": "CCBr.[Na+].[O-]c1ccc(C)cc1>>CCOc1ccc(C)cc1",
    "reductive amination": "O=Cc1ccc(Cl)cc1.C1CCNCC1>>Clc1ccc(CN2CCCCC2)cc1",
    "Diels-Alder reaction": "C=CC=C.O=C1OC(=O)C=C1>>O=C1OC(=O)C2CC=CCC12",
}
"""Textbook reactions, reactants >> product, the product's atoms all from the reactants."""


class Mapping(NamedTuple):
    """For each atom of the product, by place in the tokens, the reactant atom it comes from."""

    product: np.ndarray
    reactant: np.ndarray


@cache
def _fixture() -> tuple[Encoder, dict[str, int]]:
    with np.load(WEIGHTS, allow_pickle=False) as file:
        tensors = {name: file[name] for name in file.files}
    words = tensors.pop("vocabulary").tolist()
    return albert(tensors, N_LAYERS, N_HEADS), {word: place for place, word in enumerate(words)}


def tokens(reaction: str) -> list[str]:
    """Split a reaction in SMILES into tokens, with [CLS] before and [SEP] after.

    Raises ValueError for text that is not SMILES.

    >>> tokens("CBr>>CO")
    ['[CLS]', 'C', 'Br', '>>', 'C', 'O', '[SEP]']
    """
    found = TOKEN.findall(reaction)
    if "".join(found) != reaction or not found:
        raise ValueError(f"{reaction!r} is not a reaction in SMILES")
    return ["[CLS]", *found, "[SEP]"]


def forward(reaction: str, *, temperature: float = 1.0) -> Activations:
    """Run the encoder on a reaction; `temperature` multiplies the model's own scale 1/√d_k."""
    encoder, vocabulary = _fixture()
    unknown = vocabulary["[UNK]"]
    ids = np.array([vocabulary.get(token, unknown) for token in tokens(reaction)])
    return encoder.forward(ids, temperature=temperature)


def map_atoms(reaction: str, *, temperature: float = 1.0) -> Mapping:
    """Map each atom of the product to the reactant atom of its element with the most attention.

    The attention is that from the product's atom to the reactant's plus that back.
    """
    words = tokens(reaction)
    arrow = words.index(">>")
    places = np.flatnonzero([_is_atom(word) for word in words])
    left, right = places[places < arrow], places[places > arrow]
    found = forward(reaction, temperature=temperature)
    q, k = (x[MAPPING_LAYER][MAPPING_HEAD] for x in (found.q, found.k))
    logits = temperature / np.sqrt(q.shape[-1]) * (q @ k.T)
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    pull = weights[np.ix_(right, left)] + weights[np.ix_(left, right)].T
    elements = np.array([_element(word) for word in words])
    pull = np.where(elements[right][:, np.newaxis] == elements[left], pull, -1.0)
    return Mapping(right, left[np.argmax(pull, axis=-1)])


def _is_atom(word: str) -> bool:
    return word not in ("[CLS]", "[SEP]") and bool(ATOM.fullmatch(word))


def _element(word: str) -> str:
    """Return the element of an atom's token, aromatic or not."""
    found = re.search(r"Br|Cl|Na|Si|[A-Za-z]", word)
    return found[0].capitalize() if found else word
