"""Name the columns of results in words, as titles and axes show them."""

import re

ARRAYS = {"logits": "logits", "scores": "scores", "q": "queries", "k": "keys", "v": "values"}
"""The arrays that a gradient is with respect to."""

NORMS = {"rms": "root mean square", "median": "median row"}
"""The averages over the row norms of a gradient."""

WORDS = {
    "accuracy": "share of correct answers",
    "accuracy_gain": "gain of accuracy in the second half of training",
    "asked_weight": "weight on the item asked for",
    "effective_keys": "keys in use",
    "entropy_normalized": "share of the possible entropy",
    "grad_logits_dead_entries": "gradient entries near zero",
    "jacobian_norm": "norm of the Jacobian",
    "learning_rate": "best learning rate",
    "logit_std": "standard deviation of the logits",
    "max_weight": "largest weight",
    "first_weight_unmatched": "weight on the first key without a match",
    "held_out_loss": "held-out loss",
    "loss_matched": "loss with a match",
    "loss_unmatched": "loss without a match",
    "match_weight": "weight on the match",
    "sensitivity": "sensitivity to the learning rate",
    "steps_beside": "steps to 90 % beside those of a prototype",
    "published": "published numbers beside those of this run",
    "overflow_share": "scores that overflow",
    "steps_to_90": "steps to 90 % accuracy",
    "sum_sq_weights": "sum of the squared weights",
    "weight_error": "error of the weights",
    "crossings": "where the effects begin",
}


def in_words(name: str) -> str:
    """Return the words for a column, or its name with spaces if it has none.

    >>> in_words("grad_q_rms"), in_words("broken_rows")
    ('gradient with respect to the queries, root mean square', 'broken rows')
    """
    if name in WORDS:
        return WORDS[name]
    gradient = re.fullmatch(f"grad_({'|'.join(ARRAYS)})_({'|'.join(NORMS)})", name)
    if gradient:
        return f"gradient with respect to the {ARRAYS[gradient[1]]}, {NORMS[gradient[2]]}"
    return name.replace("_", " ")
