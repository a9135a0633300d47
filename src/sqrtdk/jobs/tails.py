"""Write tails.csv."""

from sqrtdk.experiments.scaling.tails import COLUMNS, rows
from sqrtdk.jobs import derive

if __name__ == "__main__":
    derive.main(rows, COLUMNS)
