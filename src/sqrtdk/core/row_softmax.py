"""Softmax and its derivative for training loops: rows of a matrix, in place, without a mask.

The functions of `attention` and `gradients` check their arguments, allow masks and handle every
special number. In a step of training, which calls them with small arrays, that takes longer than
the arithmetic. Here NaN and infinite logits give NaN. A row does not depend on the other rows.
"""

import numpy as np

from sqrtdk.core.shapes import Float, Floats, Int, Ints


def softmax(logits: Float[Floats, "rows n"]) -> Int[Ints, "rows"]:
    """Turn contiguous logits [n_rows, n] into their softmax.

    Return the index of the largest entry of each row in the flat array, for `softmax_backward`.
    """
    # Finding the largest entry by its index is several times faster than by its value.
    top: Ints = np.argmax(logits, axis=-1)
    top += np.arange(0, logits.size, logits.shape[-1])
    logits -= logits.ravel().take(top)[:, np.newaxis]
    np.exp(logits, out=logits)
    logits /= np.einsum("ij->i", logits)[:, np.newaxis]
    return top


def softmax_backward(
    weights: Float[Floats, "rows n"], d_weights: Float[Floats, "rows n"], top: Int[Ints, "rows"]
) -> None:
    """Turn the contiguous gradient by the weights [n_rows, n] into that by the logits.

    `weights` and `top` are those of `softmax`. The result is p * (d_p - <p, d_p>) for each row p.
    """
    # Counted from the largest weight, so that <p, d_p> is a sum over the other ones: a row with p
    # near 1 keeps all its digits.
    d_weights -= d_weights.ravel().take(top)[:, np.newaxis]
    d_weights -= np.einsum("ij,ij->i", weights, d_weights)[:, np.newaxis]
    d_weights *= weights
