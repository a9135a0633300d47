"""Measure by hand: `sqrtdk d_k=64 seed=3` is the same as `python -m sqrtdk.run d_k=64 seed=3`."""

from sqrtdk.system import threads


def main() -> None:
    """Run the command line of `cli` with one thread."""
    threads.use_one()
    # After that, because this imports NumPy.
    from sqrtdk import cli

    cli.main()


if __name__ == "__main__":
    main()
