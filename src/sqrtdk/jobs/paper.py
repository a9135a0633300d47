"""Draw the figures of an experiment for a paper and for slides."""

from sqrtdk.figures.draw import draw_for_print
from sqrtdk.jobs import draw
from sqrtdk.system import command_line


def main() -> None:
    """Draw an experiment's figures (first) from a folder of tables into another folder."""
    draw.main(draw_for_print)


if __name__ == "__main__":
    command_line.run(main, "EXPERIMENT", "TABLES", "FIGURES")
