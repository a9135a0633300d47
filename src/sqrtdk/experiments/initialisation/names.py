"""Name the initialisations in words."""

NAMES = {
    "xavier_head": "Xavier, per head",
    "xavier": "Xavier",
    "xavier_fused": "Xavier, fused",
    "linear": "linear layers",
    "normal_02": "N(0, 0.02²)",
    "t5": "T5",
}
"""The initialisations in words."""
