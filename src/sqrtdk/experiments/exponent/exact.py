"""Exact means of a cell of the experiment, for the input laws that theory has."""

from typing import NamedTuple

from sqrtdk.schema import Entry
from sqrtdk.theory import points, related


class Means(NamedTuple):
    """Exact means over queries; the match is an ordinary key where the law has none."""

    entropy_nats: float
    match_weight: float


def means(entry: Entry, n_k: int, d_k: float, scale: float) -> Means | None:
    """Return the exact means of an entry of `input_laws` for n_k >= 2; None without theory."""
    if entry["law"] == "planted" and entry["cosine"] == 1:
        weight, entropy = related.match_means(n_k, d_k, scale, 1.0)
        return Means(entropy, weight)
    law = points.law_at(entry, d_k)
    if law is None:
        return None
    if law.kind == "match" and law.alignment == 1:
        weight, entropy = related.match_means(n_k, d_k, scale, law.correlation)
        return Means(entropy, weight)
    found = related.expectations_of(law, n_k, d_k, scale)
    return Means(found.entropy_nats, found.match_weight)
