"""Measure by hand: `python -m sqrtdk.run d_k=64 seed=3` (see `cli`)."""

from sqrtdk.cli import main

if __name__ == "__main__":
    main()
